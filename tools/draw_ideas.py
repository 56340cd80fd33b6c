#!/usr/bin/env python3
"""Draws the ideas of the pages that no measurement is needed for. Needs Python's own library only.

    tools/draw_ideas.py caches -o 01_memory_model/drawings/caches.svg
    tools/draw_ideas.py layouts -o 03_access_patterns/drawings/layouts.svg
    tools/draw_ideas.py rules -o 03_access_patterns/drawings/rules.svg
    tools/draw_ideas.py operands -o 03_access_patterns/drawings/operands.svg
    tools/draw_ideas.py tile -o 04_bandwidth/drawings/tile.svg
    tools/draw_ideas.py texels -o 07_texture_readonly/drawings/texels.svg

    caches   which memories a multiprocessor has, from Fermi to Hopper
    layouts  what a warp's requests take from the sectors of an array of structures, a structure of arrays, and an array
             of aligned structures
    rules    what moves for the 32 addresses of a warp, by the rules of five generations of GPUs
    operands what a warp reads of B and of the transposed B at one step of a matrix product
    tile     a column of a tile in shared memory, in rows of 32 words and of 33
    texels   which lanes share a request of a load and of a fetch, and which sectors and lines of an image in rows and of
             one in a CUDA array a column and a patch touch
"""
import argparse
import pathlib
from xml.sax.saxutils import escape

import records

LANES, BANKS, SECTOR = 32, 32, 8  # words of 4 bytes in a sector
WANTED = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#e15759", "#9c755f", "#8c8c2b"]  # of each sector, or warp
LEFT_OVER = ["#d5e0ec", "#fbe0c4", "#d8ead5", "#e8dce5", "#dcedec", "#f8d8d8", "#e6dcd6", "#e4e4c8"]


def text(x, y, words, **style):
    attributes = "".join(f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x}" y="{y}"{attributes}>{escape(words)}</text>'


def box(x, y, width, height, fill, **style):
    attributes = "".join(f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"{attributes}/>'


def svg(width, height, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" font-size="9" text-anchor="middle" role="img">',
        "<style>.title { font-size: 13px; font-weight: bold; text-anchor: start } .said { font-size: 12px; text-anchor: start }",
        ".on { fill: #fff } rect { stroke: #fff; stroke-width: 0.7 }</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])


# ---- caches ----------------------------------------------------------------------------------------------------------


# generation, arrays from top to bottom as (colour, parts as (share of the width, words)), L2, device memory
READ_ONLY, SHARED = "#d5e0ec", "#d8ead5"
GENERATIONS = [
    ("Fermi, Kepler", [[(READ_ONLY, 1, "texture, read-only")], [(READ_ONLY, .5, "L1"), (SHARED, .5, "shared")]],
     ["two arrays; L1 and", "shared divide 64 KiB [LC]"], "L2", "device memory"),
    ("Maxwell, Pascal", [[(READ_ONLY, 1, "L1, texture, read-only: 24 KiB")], [(SHARED, 1, "shared: 64 KiB")]],
     ["two arrays, each of", "a fixed size (P100) [PR]"], "L2: 4096 KiB", "device memory: 16 GB"),
    ("Volta", [[(READ_ONLY, .5, "L1, texture,|read-only:|the rest"), (SHARED, .5, "shared:|up to|96 KiB")]],
     ["one array of 128 KiB,", "divided at run time (V100) [PR]"], "L2: 6144 KiB", "device memory: 16 GB"),
    ("Hopper", [[(READ_ONLY, .5, "L1, texture,|read-only:|the rest"), (SHARED, .5, "shared:|up to|228 KiB")]],
     ["one array of 256 KiB,", "divided at run time (H200)"], "L2: 61440 KiB", "device memory: 140 GiB"),
]


def draw_caches():
    left, top, wide, gap = 16, 52, 190, 14
    parts = [text(left, 20, "Where L1, the texture path and shared memory lie, from Fermi to Hopper", class_="title"),
             text(left, 37, "above: one multiprocessor (each also has registers and constant caches); below: what all share", class_="said")]
    for n, (name, arrays, said, l2, memory) in enumerate(GENERATIONS):
        x = left + n * (wide + gap)
        parts += [box(x, top, wide, 150, "#fafafa", stroke="#909090"), text(x + 8, top + 18, name, class_="title")]
        high = (84 - 6 * (len(arrays) - 1)) / len(arrays)
        for k, array in enumerate(arrays):
            at, y = x + 8, top + 28 + k * (high + 6)
            for colour, share, words in array:
                width, lines = share * (wide - 16), words.split("|")
                parts.append(box(at, y, width, high, colour))
                parts += [text(at + width / 2, y + high / 2 + 4 + 12 * (i - (len(lines) - 1) / 2), line, font_size=10)
                          for i, line in enumerate(lines)]
                at += width
            if len(array) > 1:  # the border that can be moved
                border = x + 8 + array[0][1] * (wide - 16)
                parts.append(f'<path d="M{border} {y}v{high}" stroke="#606060" stroke-width="1.5" stroke-dasharray="4 3"/>')
        parts += [text(x + wide / 2, top + 126 + 13 * i, line, font_size=10.5) for i, line in enumerate(said)]
        parts += [box(x, top + 158, wide, 26, READ_ONLY), text(x + wide / 2, top + 175, l2, font_size=10.5),
                  box(x, top + 190, wide, 26, "#fee8c8"), text(x + wide / 2, top + 207, memory, font_size=10.5)]
    return svg(left + len(GENERATIONS) * (wide + gap) + 2, top + 230, parts)


# ---- layouts ---------------------------------------------------------------------------------------------------------


def sectors_of(words):
    return {word // SECTOR for word in words}


def request_said(lanes_words):
    """What a request costs: its sectors, and the share of their words that it uses."""
    wanted = {word for words in lanes_words for word in words}
    sectors = sectors_of(wanted)
    share = 100 * len(wanted) / (SECTOR * len(sectors))
    return f"{len(sectors)} sectors, {share:.0f}% used"


def strip(x, y, cell, lanes_words, first, count):
    """`count` words from `first` on, by sectors; those that a lane wants are strong and carry its number."""
    high, parts = 24, []
    lane_of = {word: lane for lane, words in enumerate(lanes_words) for word in words}
    for word in range(first, first + count):
        colour = (WANTED if word in lane_of else LEFT_OVER)[(word // SECTOR) % len(WANTED)]
        parts.append(box(x + cell * (word - first), y, cell, high, colour))
    for lane, words in enumerate(lanes_words):
        here = [word for word in words if first <= word < first + count]
        if here:
            middle = x + cell * (sum(here) / len(here) - first + 0.5)
            parts.append(text(middle, y + 15.5, str(lane), class_="on"))
    for edge in range(first, first + count + 1, SECTOR):
        at = x + cell * (edge - first)
        parts.append(f'<path d="M{at} {y - 4}v{high + 8}" stroke="#303030" stroke-width="1.2"/>')
    return parts


def draw_layouts():
    cell, left, y = 14, 16, 54
    both = 2 * LANES
    x_of_pairs = [[2 * lane] for lane in range(LANES)]
    y_of_pairs = [[2 * lane + 1] for lane in range(LANES)]
    x_alone = [[lane] for lane in range(LANES)]
    y_alone = [[both + lane] for lane in range(LANES)]  # of another array, behind the first
    whole = [[2 * lane, 2 * lane + 1] for lane in range(LANES)]
    parts = [text(left, 20, "Which words of the sectors each request of a warp uses", class_="title"),
             text(left, 36, "one cell is a word of 4 bytes; one colour is a sector of 32 bytes; a number is the lane that uses the word", class_="said")]
    rows = [("AoS, load of x", x_of_pairs, 0, both),
            ("AoS, load of y (the same sectors, found in the L1 cache)", y_of_pairs, 0, both),
            ("SoA, load of x", x_alone, 0, LANES), ("SoA, load of y", y_alone, both, LANES),
            ("AoS aligned to 8 bytes, one load of x and y", whole, 0, both)]
    below = y
    for k, (name, lanes_words, first, count) in enumerate(rows):
        beside = name == "SoA, load of y"  # right of the x of the same structure
        x = left + LANES * cell if beside else left
        if not beside:
            y = below
        parts.append(text(x + (8 if beside else 0), y + 14, f"{name}: {request_said(lanes_words)}", class_="said"))
        parts += strip(x + (8 if beside else 0), y + 24, cell, lanes_words, first, count)
        below = y + 68
    return svg(left + both * cell + 24, below, parts)


# ---- rules -----------------------------------------------------------------------------------------------------------


LINE = 32  # words of 4 bytes


def spans_of(words, size):
    """The aligned segments of `size` words in which these words lie, as (first word, words)."""
    return [(start, size) for start in sorted({word // size * size for word in words})]


def by_half_warps(moved):
    """A rule for 16 lanes, for both halves of a warp."""
    return lambda words: [span for first in (0, 16) for span in moved(words[first:first + 16])]


def in_order(words):
    """Compute capability 1.0: one aligned segment of 64 bytes if each lane reads its own word of it, else 32 bytes per lane."""
    if all(word == words[0] + lane for lane, word in enumerate(words)) and words[0] % 16 == 0:
        return [(words[0], 16)]
    return [(word // SECTOR * SECTOR, SECTOR) for word in words]


def any_order(words):
    """Compute capability 1.2: for each segment of 128 bytes that is wanted one transaction, halved while one half is enough."""
    moved = []
    for start, size in spans_of(words, LINE):
        wanted = [word for word in words if start <= word < start + size]
        while size > SECTOR and (max(wanted) < start + size // 2 or min(wanted) >= start + size // 2):
            size //= 2
            start += size if min(wanted) >= start + size else 0
        moved.append((start, size))
    return moved


RULES = {"1.0, 1.1": by_half_warps(in_order), "1.2, 1.3": by_half_warps(any_order),
         "2.x, 3.x through L1": lambda words: spans_of(words, LINE), "2.x, 3.x past L1": lambda words: spans_of(words, SECTOR),
         "today": lambda words: spans_of(words, SECTOR)}
PATTERNS = {"in order": [lane for lane in range(LANES)], "permuted in the line": [lane * 11 % 32 for lane in range(LANES)],
            "misaligned by a word": [lane + 1 for lane in range(LANES)], "one word for all lanes": [0] * LANES}


def used_share(words, spans):
    """In per cent: of the words that move, those that a lane wants. A word that moves twice counts twice."""
    return 100 * len(set(words)) / sum(size for _, size in spans)


def beside_each_other(spans):
    """The spans in rows; what overlaps stands in the next row."""
    rows = []
    for first, size in spans:
        for row in rows:
            if all(first + size <= other or other + more <= first for other, more in row):
                row.append((first, size))
                break
        else:
            rows.append([(first, size)])
    return rows


def draw_rules():
    cell, left, names, shown = 14, 16, 132, 2 * LINE
    parts = [text(left, 20, "What moves for the 32 addresses of a warp, by the rules of five generations", class_="title"),
             text(left, 36, "numbers: the lane that reads the word; a vertical line stands every 32 bytes; a bar is one transaction "
                  "(today: a sector), \"x 8\": that many for the same bytes", class_="said")]
    y, x = 52, left + names
    for pattern, words in PATTERNS.items():
        parts.append(text(left, y + 15, pattern, class_="said"))
        lane_of = {word: lane for lane, word in reversed(list(enumerate(words)))}
        for word in range(shown):
            parts.append(box(x + cell * word, y, cell, 20, WANTED[0] if word in lane_of else "#ececec"))
            if word in lane_of:
                parts.append(text(x + cell * (word + 0.5), y + 13.5, "all" if len(lane_of) == 1 else str(lane_of[word]), class_="on"))
        for edge in range(0, shown + 1, SECTOR):
            parts.append(f'<path d="M{x + cell * edge} {y - 3}v26" stroke="#303030" stroke-width="1.2"/>')
        y += 28
        for rule, moved in RULES.items():
            spans = moved(words)
            parts.append(text(left + 8, y + 10, rule, class_="said"))
            rows = beside_each_other(dict.fromkeys(spans))
            for n, row in enumerate(rows):
                for start, size in row:
                    parts.append(box(x + cell * start + 1, y + 13 * n / len(rows), cell * size - 2, 13 / len(rows),
                                     WANTED[2] if rule == "today" else WANTED[4]))
                    if spans.count((start, size)) > 1:
                        parts.append(text(x + cell * (start + size / 2), y + 10, f"x {spans.count((start, size))}", class_="on"))
            count, unit = len(spans), "sector" if rule == "today" else "transaction"
            parts.append(text(x + cell * shown + 10, y + 11, f"{count} {unit}{'s' * (count > 1)}, "
                              f"{used_share(words, spans):.4g}% used", class_="said"))
            y += 17
        y += 16
    return svg(x + cell * shown + 205, y, parts)


# ---- operands --------------------------------------------------------------------------------------------------------


def draw_operands():
    cell, left, top, k = 10, 16, 74, 5
    parts = [text(left, 20, "What the 32 lanes of a warp read together at step k = 5 of the matrix product", class_="title"),
             text(left, 36, "a cell is a word; strong: a lane's word; light: the rest of its sector; "
                  "neighbouring colours: different sectors", class_="said")]
    for name, wanted in (("B[k * n + j]: 32 neighbours of row k", [(k, j) for j in range(LANES)]),
                         ("BT[j * n + k]: one word in each of 32 rows", [(j, k) for j in range(LANES)])):
        sectors = {(row, column // SECTOR) for row, column in wanted}
        parts.append(text(left, top - 10, f"{name}: {len(sectors)} sectors", class_="said"))
        order = {sector: n for n, sector in enumerate(sorted(sectors))}
        side = cell * LANES
        parts.append(box(left, top, side, side, "#f0f0f0"))
        for row, eighth in sectors:
            parts.append(box(left + cell * SECTOR * eighth, top + cell * row, cell * SECTOR, cell,
                             LEFT_OVER[order[row, eighth] % len(LEFT_OVER)]))
        for row, column in wanted:
            parts.append(box(left + cell * column, top + cell * row, cell, cell, WANTED[order[row, column // SECTOR] % len(WANTED)]))
        edges = "".join(f"M{left + cell * n} {top}v{side}M{left} {top + cell * n}h{side}" for n in range(1, LANES))
        parts.append(f'<path d="{edges}" stroke="#fff" stroke-width="0.7"/>')
        left += cell * LANES + 40
    return svg(left - 24, top + cell * LANES + 14, parts)


# ---- tile ------------------------------------------------------------------------------------------------------------


WARPS = 8  # of a block of 32 x 8 threads


def banks_of(column, row_words):
    """The banks of a column's words, from the first row down."""
    return [(row * row_words + column) % BANKS for row in range(LANES)]


def grid(x, y, cell, row_words, column):
    parts = []
    for row in range(LANES):
        at = y + cell * row
        parts.append(box(x, at, cell * LANES, cell, LEFT_OVER[row % WARPS]))
        parts.append(box(x + cell * column, at, cell, cell, WANTED[row % WARPS]))
        if row_words > LANES:
            parts.append(box(x + cell * LANES, at, cell * (row_words - LANES), cell, "#ececec"))
    lines = "".join(f"M{x + cell * c} {y}v{cell * LANES}" for c in range(row_words + 1))
    parts.append(f'<path d="{lines}" stroke="#fff" stroke-width="0.7"/>')
    for row in range(LANES):  # where the other words of the column's first bank are
        for c in range(LANES):
            if c != column and (row * row_words + c) % BANKS == column:
                parts.append(f'<circle cx="{x + cell * (c + 0.5)}" cy="{y + cell * (row + 0.5)}" r="2.5" fill="#505050"/>')
        parts.append(text(x + cell * (column + 0.5), y + cell * row + 9.5, str(banks_of(column, row_words)[row]), class_="on"))
    return parts


def draw_tile():
    cell, left, top, column = 13, 16, 62, 5
    parts, x = [text(left, 20, "A tile of 32 x 32 words in shared memory: which warp writes each row, and in which banks a column lies",
                     class_="title"),
                text(left, 34, "a colour is the warp that writes the row into the tile (8 warps, 4 rows each)", class_="said"),
                text(left, 47, "numbers: the banks of column 5, which one warp reads; dots: bank 5 elsewhere", class_="said")], left
    for row_words in (BANKS, BANKS + 1):
        banks = banks_of(column, row_words)
        wavefronts = max(map(banks.count, banks))
        name = f"{row_words} words per row" + (", the last one unused" if row_words > BANKS else "")
        said = f"column {column}: " + (f"all 32 words in bank {banks[0]}: {wavefronts} wavefronts" if wavefronts > 1 else
                                       f"banks {banks[0]}, {banks[1]}, {banks[2]} .. {banks[-1]}, each once: {wavefronts} wavefront")
        parts += [text(x, top - 8, name, class_="said"), *grid(x, top, cell, row_words, column),
                  text(x, top + cell * LANES + 18, said, class_="said")]
        x += cell * row_words + 32
    return svg(x - 16, top + cell * LANES + 30, parts)


# ---- texels ----------------------------------------------------------------------------------------------------------


FETCHED = 4  # lanes of a fetch that share a request
SHAPES = {"rows": ((8, 1), (32, 1)), "array": ((4, 2), (8, 4))}  # texels of a sector and of a line: wide, high


def parts_of(texels, shape):
    """The sectors, or lines, of this shape in which the texels (x, y) lie."""
    return {(x // shape[0], y // shape[1]) for x, y in texels}


def walk_said(name, texels, layout):
    sector, line = SHAPES[layout]
    most = max(len(parts_of(texels[lane:lane + FETCHED], sector)) for lane in range(0, LANES, FETCHED))
    sectors, lines = len(parts_of(texels, sector)), len(parts_of(texels, line))
    return f"{name}: {sectors} sectors in {lines} line{'s' * (lines > 1)}; a request of a fetch touches {most} sector{'s' * (most > 1)}"


def draw_texels():
    cell, left, wide, high = 16, 16, 32, 8
    column = [(4, lane) for lane in range(LANES)]
    patch = [(16 + lane % 8, lane // 8) for lane in range(LANES)]
    parts = [text(left, 20, "Which lanes share a request, and which texels share a sector", class_="title"), text(
        left, 37, "a number is a lane; above, a frame is one request; below, a colour is a sector and a frame is a line", class_="said")]
    y = 50
    for name, lanes in (("a load: one request", LANES), (f"a fetch: {LANES // FETCHED} requests", FETCHED)):
        for lane in range(LANES):
            parts.append(box(left + cell * lane, y, cell, cell, WANTED[0] if lanes == LANES else WANTED[1]))
            parts.append(text(left + cell * (lane + 0.5), y + 11.5, str(lane), class_="on"))
        for lane in range(0, LANES, lanes):
            parts.append(f'<path d="M{left + cell * lane} {y}h{cell * lanes}v{cell}h{-cell * lanes}z" class="request"/>')
        parts.append(text(left + cell * LANES + 10, y + 12, name, class_="said"))
        y += cell + 8
    for layout, name in (("rows", "an image in rows"), ("array", "an image in a CUDA array")):
        (sector_wide, sector_high), (line_wide, line_high) = SHAPES[layout]
        y += 24
        parts.append(text(left, y - 8, f"{name}: a sector of 32 bytes is {sector_wide} x {sector_high} texels of 4 bytes, "
                          f"a line {line_wide} x {line_high}", class_="said"))
        for row in range(0, high, sector_high):
            for at in range(0, wide, sector_wide):
                colour = (at // sector_wide + 3 * (row // sector_high)) % len(WANTED)
                parts.append(box(left + cell * at, y + cell * row, cell * sector_wide, cell * sector_high, LEFT_OVER[colour]))
                for lane, (x, below) in [*enumerate(column), *enumerate(patch)]:
                    if at <= x < at + sector_wide and row <= below < row + sector_high:
                        parts.append(box(left + cell * x, y + cell * below, cell, cell, WANTED[colour]))
                        parts.append(text(left + cell * (x + 0.5), y + cell * below + 11.5, str(lane), class_="on"))
        for row in range(0, high, line_high):
            for at in range(0, wide, line_wide):
                parts.append(f'<path d="M{left + cell * at} {y + cell * row}h{cell * line_wide}v{cell * line_high}'
                             f'h{-cell * line_wide}z" class="line"/>')
        y += cell * high
        parts += [text(left, y + 16, walk_said("column of 32 texels (8 are drawn)", column, layout), class_="said"),
                  text(left, y + 32, walk_said("patch of 8 x 4 texels", patch, layout), class_="said")]
        y += 38
    for said in ("counted on an H200: four lanes share a request of a fetch, and the array's sectors are 4 x 2 texels",
                 "inferred from rates: the array's lines are 8 x 4 texels; NVIDIA documents none of the three"):
        parts.append(text(left, y + 12, said, class_="said"))
        y += 16
    style = "<style>.request, .line { fill: none; stroke: #303030; stroke-width: 1.6 } .line { stroke-width: 1 }</style>"
    return svg(left + cell * wide + 152, y + 12, [style, *parts])


DRAWINGS = {"caches": draw_caches, "layouts": draw_layouts, "rules": draw_rules, "operands": draw_operands, "tile": draw_tile,
            "texels": draw_texels}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drawing", choices=DRAWINGS)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="default: DRAWING.svg")
    args = parser.parse_args()
    output = args.output or pathlib.Path(args.drawing + ".svg")
    if output.suffix != ".svg":
        parser.error("the output's name ends in .svg")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(DRAWINGS[args.drawing](), encoding="utf-8")


if __name__ == "__main__":
    records.run(main)
