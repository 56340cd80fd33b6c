#!/usr/bin/env python3
"""Draws the memories of a GPU, with size, latency and bandwidth of each, as `01_memory_model --csv FILE` saved them, and
prints them as a list. Needs matplotlib.

    tools/draw_memories.py 01_memory_model/results/nvidia-h200.csv -o 01_memory_model/results/memories-nvidia-h200.svg
    tools/draw_memories.py mine.csv --list        the list alone, without matplotlib

What the file does not have is left out: sizes are those of `device`, latencies of `latency`, bandwidths of either.
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
        memories.append(Memory(name, what, size and size_text(size), latency and f"{float(latency['value']):.0f} cycles",
                               bandwidth and bandwidth_text(bandwidth)))
    return gpus[0], count and int(float(count["value"])), memories


# ---- the drawing: boxes in a frame of 100 by 50, left, bottom, width, height ------------------------------------------

CHIP = (1, 2, 66, 45)
MULTIPROCESSOR = (3, 5, 39, 37)
BOXES = {
    "registers": (5, 30, 35, 8.5),
    "shared memory": (5, 19.5, 15.4, 9.5),
    "L1": (21, 19.5, 19, 9.5),
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
    middle = left + width / 2
    numbers = [text for text in (memory.size, memory.latency, memory.bandwidth) if text] or ["not measured"]
    tall = height > 12  # a number in each line; else all of them in one
    lines = [memory.what, *numbers] if tall else [memory.what, " · ".join(numbers)]
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
