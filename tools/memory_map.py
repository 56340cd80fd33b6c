#!/usr/bin/env python3
"""Draws 01_memory_model/drawings/memory_map.svg: who reaches which memory, how long it lives, how large and how far it is.
The sizes and cycles are those that an H100 recorded."""
import html
import math

import results

TOPIC = results.ROOT / "01_memory_model"
WHO = ["thread", "block", "grid", "host"]
CHIP, DEVICE, HOST, BOTH = "#d8ead5", "#fee8c8", "#e3dcf0", "#d3e6f5"
LEFT, CELL, LIVES, SIZE, FIRST, LAST = 130, 46, 328, 424, 530, 662  # columns; FIRST to LAST: 1 to 1000 cycles
TOP, ROW = 112, 40


def text(x, y, words, style="", anchor="start"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>' % (x, y, anchor, style, html.escape(words))


def at(cycles):
    return FIRST + (LAST - FIRST) * math.log10(cycles) / 3


def memories(rows):
    """(name, and below it, where it lies, what each of WHO may do, lives as long as, size in two lines, {cycles: what answers})"""
    numbers = {key[2]: value[0] for key, value in results.numbers(rows).items() if key[0] in ("latency", "constant_cache") and key[3] == "cycles"}
    sizes = {key[2].strip(): value[0] for key, value in results.numbers(rows).items() if key[:2] == ("device", "memory")}
    memory, l2 = numbers["global, in memory"], numbers["global, in the L2"]
    return [
        ("registers", "int x;", CHIP, ["rw", "", "", ""], "thread", ("%.0f KiB" % sizes["register file, KiB per SM"], "per multiprocessor"),
         {numbers["register: a multiply-add"]: "a multiply-add"}),
        ("shared", "__shared__", CHIP, ["rw", "rw", "", ""], "block", ("%.0f KiB" % sizes["per block that opts in"], "per block, at most"),
         {numbers["shared"]: ""}),
        ("local", "int x[100]; spills", DEVICE, ["rw", "", "", ""], "thread", ("in device memory", ""), {numbers["local, in L1"]: "hit in L1"}),
        ("constant", "__constant__", DEVICE, ["r", "r", "r", "rw"], "program", ("%.0f KiB" % sizes["constant memory, KiB"], "a part is cached"),
         {numbers["constant, ring of 1 KiB"]: "hit", numbers["constant, first touch"]: "miss"}),
        ("texture", "an object", DEVICE, ["r", "r", "r", "rw"], "until destroyed", ("in device memory", ""), {numbers["texture, hit"]: "hit in L1"}),
        ("global", "cudaMalloc, __device__", DEVICE, ["rw", "rw", "rw", "rw"], "freed, program", ("%.0f GiB" % sizes["device memory, GiB"], "%.0f MiB in the L2" % (sizes["L2, KiB"] / 1024)),
         {numbers["global, in L1"]: "L1", l2: "L2", memory: "memory"}),
        ("managed", "cudaMallocManaged", BOTH, ["rw", "rw", "rw", "rw"], "until freed", ("moves by pages", "when touched"), {}),
        ("pinned", "cudaMallocHost", HOST, ["rw", "rw", "rw", "rw"], "until freed", ("host memory", "over the link"), {numbers["host, pinned"]: ""}),
        ("pageable", "malloc, new", HOST, ["", "", "", "rw"], "until freed", ("host memory", ""), {}),
    ]


def drawing(heading, rows):
    of = memories(rows)
    high = TOP + ROW * len(of) + 62
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 %d" width="700" height="%d" font-family="DejaVu Sans, Verdana, Helvetica, '
           'Arial, sans-serif" font-size="10" fill="#222" role="img">' % (high, high),
           "<style>.title { font-size: 13px; font-weight: bold } .small { font-size: 9px; fill: #555 } .name { font-size: 11px; font-weight: bold }</style>",
           '<rect width="700" height="%d" fill="#fff"/>' % high,
           text(12, 20, "Which memories a thread, its block, its grid and the host reach", 'class="title"')]
    for i, who in enumerate(WHO[:3]):  # a thread is in a block, a block in a grid
        out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="none" stroke="#909090"/>' % (
            LEFT + 2, 34 + 12 * (2 - i), CELL * (i + 1) - 4, 66 - 12 * (2 - i)))
    for i, who in enumerate(WHO):
        out.append(text(LEFT + CELL * (i + 0.5), 92, who, 'font-weight="bold"', "middle"))
    for x, words in ((LIVES, "lifetime"), (SIZE, "size"), (FIRST - 2, "cycles until a load answers")):
        out.append(text(x, 92, words, 'font-weight="bold"'))
    for cycles in (1, 10, 100, 1000):
        out.append('<path d="M%.1f %dV%d" stroke="#e0e0e0"/>' % (at(cycles), TOP, TOP + ROW * len(of)))
        out.append(text(at(cycles), TOP - 3, "%d" % cycles, 'class="small"', "middle"))
    for n, (name, how, colour, may, lives, size, answers) in enumerate(of):
        y = TOP + ROW * n
        out.append('<path d="M12 %dH688" stroke="#d8d8d8"/>' % y)
        out += [text(12, y + 17, name, 'class="name"'), text(12, y + 30, how, 'class="small"')]
        reached = [i for i, what in enumerate(may) if what]
        out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="26" rx="4" fill="%s" stroke="#909090"/>' % (
            LEFT + CELL * reached[0] + 2, y + 7, CELL * len(reached) - 4, colour))
        for i in reached:
            words = ["read", "write"] if may[i] == "rw" else ["read"]
            out += [text(LEFT + CELL * (i + 0.5), y + 23 + 9 * line - 4.5 * (len(words) - 1), word, 'font-size="8.5"', "middle") for line, word in enumerate(words)]
        out.append(text(LIVES, y + 24, lives))
        out += [text(SIZE, y + (17 if size[1] else 24), size[0]), text(SIZE, y + 30, size[1], 'class="small"')]
        if not answers:
            out.append(text(FIRST, y + 24, "not measured", 'class="small"'))
        elif len(answers) > 1:
            out.append('<path d="M%.1f %dH%.1f" stroke="#0072B2" stroke-width="2" opacity="0.35"/>' % (at(min(answers)), y + 17, at(max(answers))))
        for cycles, what in answers.items():
            out.append('<circle cx="%.1f" cy="%d" r="3.5" fill="#0072B2"/>' % (at(cycles), y + 17))
            out.append(text(at(cycles) - 6 * (what == "memory"), y + 10, "%.0f" % cycles, 'font-size="9"', "start" if what == "memory" else "middle"))
            out.append(text(at(cycles) - 6 * (what == "memory"), y + 31, what, 'class="small"', "start" if what == "memory" else "middle"))
    y = TOP + ROW * len(of)
    out.append('<path d="M12 %dH688" stroke="#d8d8d8"/>' % y)
    for x, colour, words in ((12, CHIP, "on the multiprocessor"), (165, DEVICE, "in device memory, and cached"), (352, HOST, "in the host's memory"),
                             (500, BOTH, "in one of both")):
        out.append('<rect x="%d" y="%d" width="12" height="12" fill="%s" stroke="#909090"/>' % (x, y + 12, colour))
        out.append(text(x + 18, y + 22, words))
    out.append(text(12, y + 44, "The host reaches device memory by copies, or by a variable's name; constants and textures it writes before a launch.", 'class="small"'))
    out.append(text(688, y + 56, heading.split(" on ", 1)[1].split(",")[0] + ", " + heading.split(", ")[-1], 'class="small"', "end"))
    return "\n".join(out) + "\n</svg>\n"


if __name__ == "__main__":
    path = TOPIC / "drawings" / "memory_map.svg"
    path.write_text(drawing(*results.read(TOPIC / "results" / "nvidia-h100-80gb-hbm3.csv")))
    print(path.relative_to(results.ROOT))
