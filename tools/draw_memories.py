#!/usr/bin/env python3
"""Draws the memories of a GPU, with size, latency and bandwidth of each, as `01_memory_model --csv FILE` saved them, and
prints them as a list. Needs matplotlib.

    tools/draw_memories.py 01_memory_model/results/nvidia-h200.csv -o 01_memory_model/results/memories-nvidia-h200.svg
    tools/draw_memories.py mine.csv --list        the list alone, without matplotlib

What the file does not have is left out: sizes are those of `device`, latencies of `latency`, bandwidths of either. The
constant cache has the size up to which the walks of `constant` hit, if they were measured. Shared memory and L1 are one
array, if the guide's size of L1 is larger than all that shared memory may have: its border is dashed.
tools/figures.py calls this for a page's figure:

    <!-- figure: results/memories-nvidia-h200.svg = results/nvidia-h200.csv draw_memories.py -->
"""
import argparse
import pathlib

import drawing
import records

FOUND = ("measured", "calibration", "counted", "predicted")  # in this order: what was found here before a guide's word

# name, what it is, sizes by `device`, latencies by `latency`, cases whose bandwidth it is; each the first that is there
MEMORIES = [
    ("registers", "of a thread; latency: of a multiply-add", ["registers_per_multiprocessor"], ["chase_register"], []),
    ("shared memory", "of a block", ["shared_per_multiprocessor"], ["chase_shared"], ["read_shared"]),
    ("L1", "global, local, read-only", ["l1_per_multiprocessor"], ["chase_l1"], ["read_l1"]),
    ("texture path", "through L1, filtered", [], ["chase_texture"], []),
    ("constant cache", "a word for all lanes", ["constant_cache_per_multiprocessor"], ["chase_constant"], []),
    ("L2", "for all multiprocessors", ["l2"], ["chase_l2"], ["read_l2"]),
    ("device memory", "global, local, constant, textures", ["device_memory"], ["chase_dram"], ["read_device", "read_global"]),
    ("host memory", "over the link", ["host_memory"], [], ["read_host"]),
]


class Memory:
    def __init__(self, name, what, size, latency, bandwidth):
        self.name, self.what, self.size, self.latency, self.bandwidth = name, what, size, latency, bandwidth
        self.is_rest = False  # of an array that it shares with the memory before it

    def line(self):
        known = [text for text in (self.size, self.latency, self.bandwidth) if text]
        return f"{self.name}: {', '.join(known) or 'not measured'}"


def find(found, experiments, cases, metrics, unit=None):
    """The first of the cases that has one of the metrics: its record, or None."""
    for case in cases:
        for kind in FOUND:
            for r in found:
                if (r["kind"] == kind and r["case"] == case and r["experiment"] in experiments and not r["at"]
                        and r["metric"] in metrics and unit in (None, r["unit"]) and r["value"]):
                    return r
    return None


def size_text(record):
    """38 KiB, 60 MiB, 140 GiB; what a guide says is marked."""
    value, unit = float(record["value"]), record["unit"]
    if unit == "KiB" and value >= 1024:
        value, unit = value / 1024, "MiB"
    guide = " (guide)" if record["kind"] == "predicted" else ""
    return f"{value:.0f} {unit}{guide}"


def bandwidth_text(record):
    value = float(record["value"])
    return f"{value / 1000:.1f} TB/s" if value >= 1000 else f"{value:.0f} GB/s"


def first_constant_cache(found):
    """The longest walk through constant memory that took no longer per step than the shortest, within a tenth: its
    size as text, or None."""
    walks = sorted((int(r["at"]), float(r["value"])) for r in found
                   if (r["experiment"], r["case"], r["metric"]) == ("constant", "walk_constant", "latency")
                   and r["kind"] in ("measured", "calibration") and r["value"])
    hits = [size for size, cycles in walks if cycles < 1.1 * walks[0][1]]
    return f"{hits[-1] / 1024:.0f} KiB" if len(walks) > len(hits) > 0 else None


def share_the_array(here, memories):
    """Shared memory is cut from the array that is L1: each may have what the other leaves."""
    shared = find(here, ["device"], ["shared_per_multiprocessor"], ["this GPU"])
    both = find(here, ["device"], ["l1_per_multiprocessor"], ["this GPU"])
    if shared and both and float(both["value"]) > float(shared["value"]):
        named = {memory.name: memory for memory in memories}
        named["shared memory"].size = f"up to {size_text(shared)}"
        named["L1"].size = f"the rest of {float(both['value']):.0f} KiB"
        named["L1"].is_rest = True


def load(path):
    """The GPU's name, its number of multiprocessors (or None), and its memories."""
    found = records.load(path)
    here = [r for r in found if r["experiment"] in ("device", "latency") and r["kind"] in FOUND]
    gpus = [r["gpu"] for r in here if r["gpu"]]
    if not gpus:
        raise ValueError(f"{path} has no memories of a GPU: save them with 01_memory_model device latency --csv FILE")
    count = find(here, ["device"], ["multiprocessors"], ["this GPU"])
    memories = []
    for name, what, sizes, latencies, bandwidths in MEMORIES:
        size = find(here, ["device"], sizes, ["this GPU"])
        latency = find(here, ["latency"], latencies, ["latency"], "cycles")
        bandwidth = find(here, ["latency", "device"], bandwidths, ["bandwidth"], "GB/s")
        text = size and size_text(size)
        if name == "constant cache":
            text = first_constant_cache(found) or text
        memories.append(Memory(name, what, text, latency and f"{float(latency['value']):.0f} cycles",
                               bandwidth and bandwidth_text(bandwidth)))
    share_the_array(here, memories)
    return gpus[0], count and int(float(count["value"])), memories


# ---- the drawing: boxes in a frame of 100 by 50, left, bottom, width, height ------------------------------------------

CHIP = (1, 2, 66, 45)
MULTIPROCESSOR = (3, 5, 39, 37)
BOXES = {
    "registers": (5, 31, 35, 8),
    "shared memory": (5, 19.2, 16.5, 11),
    "L1": (21.5, 19.2, 18.5, 11),
    "constant cache": (5, 9, 17, 9.5),
    "texture path": (23, 9, 17, 9.5),
    "L2": (47, 5, 17, 37),
    "device memory": (71, 26, 27, 21),
    "host memory": (71, 2, 27, 15),
}
COLOURS = {"registers": "#d9f0d3", "shared memory": "#d9f0d3", "L1": "#e0ecf4", "texture path": "#e0ecf4",
           "constant cache": "#e0ecf4", "L2": "#e0ecf4", "device memory": "#fee8c8", "host memory": "#f0f0f0"}
# between the edges of boxes
ARROWS = [((42, 24), (47, 24)), ((64, 36), (71, 36)), ((64, 9.5), (71, 9.5))]


def draw_box(axes, rectangle, box, face, edge="#808080"):
    left, bottom, width, height = box
    axes.add_patch(rectangle((left, bottom), width, height, facecolor=face, edgecolor=edge, linewidth=0.8))


def draw_memory(axes, rectangle, memory):
    left, bottom, width, height = box = BOXES[memory.name]
    draw_box(axes, rectangle, box, COLOURS[memory.name])
    if memory.is_rest:  # the border can be moved
        axes.plot([left, left], [bottom, bottom + height], color="white", linewidth=2.5)
        axes.plot([left, left], [bottom, bottom + height], color="#606060", linewidth=1.2, linestyle=(0, (3, 2)))
        axes.annotate("", (left - 1.6, bottom + 1.3), (left + 1.6, bottom + 1.3),
                      arrowprops={"arrowstyle": "<->", "color": "#606060", "linewidth": 0.8})
    middle = left + width / 2
    numbers = [text for text in (memory.size, memory.latency, memory.bandwidth) if text] or ["not measured"]
    tall = height > 12  # a number in each line; else all of them in one
    lines = [memory.what, *numbers] if tall else [memory.what, " · ".join(numbers)]
    if memory.is_rest or memory.name == "shared memory":  # too long for one line
        lines = [memory.what, numbers[0], " · ".join(numbers[1:])]
    step = 2.4
    top = bottom + height / 2 + step * len(lines) / 2
    axes.text(middle, top, memory.name, ha="center", va="center", fontsize=9.5, weight="bold")
    for n, text in enumerate(lines, 1):
        grey = "#606060" if n == 1 else "black"
        axes.text(middle, top - step * n, text, ha="center", va="center", fontsize=7.2, color=grey)


def draw(gpu, count, memories, output):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "cuda memory", "font.size": 8})
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    figure, axes = plt.subplots(figsize=(11, 5.2))
    figure.subplots_adjust(left=0.01, right=0.99, top=0.93, bottom=0.01)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 49)
    axes.axis("off")
    draw_box(axes, Rectangle, CHIP, "white")
    axes.text(CHIP[0] + 2, 44.2, "on the chip", fontsize=8.5, color="#606060")
    draw_box(axes, Rectangle, MULTIPROCESSOR, "#fafafa")
    many = f"one of {count} multiprocessors" if count else "a multiprocessor"
    axes.text(MULTIPROCESSOR[0] + 2, 39.9, many, fontsize=8.5, color="#606060")
    axes.text(22.5, 6.7, "sizes are of one multiprocessor, bandwidths of all together", ha="center", fontsize=7.5,
              color="#606060")
    for memory in memories:
        draw_memory(axes, Rectangle, memory)
    for start, end in ARROWS:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "<->", "color": "#606060"})
    figure.suptitle(f"{gpu}: its memories", x=0.02, ha="left", fontsize=11)
    drawing.save(figure, output, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what 01_memory_model saved with --csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("memories.svg"),
                        help="default: memories.svg")
    parser.add_argument("--list", action="store_true", help="print the list, draw nothing")
    args = parser.parse_args()
    if args.output.suffix not in (".svg", ".png"):
        parser.error("the output's name ends in .svg or .png")
    gpu, count, memories = load(args.csv)
    print(*(memory.line() for memory in memories), sep="\n")
    if not args.list:
        draw(gpu, count, memories, args.output)


if __name__ == "__main__":
    records.run(main)
