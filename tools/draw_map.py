#!/usr/bin/env python3
"""Draws how far the L2 is from each multiprocessor: cycles of a load from its near side and from its far side, as
`01_memory_model latency --csv FILE` saved them. Needs matplotlib.

    tools/draw_map.py 01_memory_model/results/nvidia-h200.csv -o 01_memory_model/results/map-nvidia-h200.svg

A multiprocessor whose number is missing in the file has no point. A GPU whose L2 has one side has no far points.
"""
import argparse
import pathlib

import drawing
import records

SIDES = [("near_by_multiprocessor", "near side", "#4e79a7"), ("far_by_multiprocessor", "far side", "#c00000")]


def load(path):
    """The GPU's name, and for each side (words, colour, [(multiprocessor, cycles)]): none of a side without a row."""
    found = [r for r in records.load(path) if r["experiment"] == "latency" and r["metric"] == "latency" and r["at"] and r["value"]]
    sides = []
    for key, words, colour in SIDES:
        points = sorted((int(float(r["at"])), float(r["value"])) for r in found if r["case"] == key)
        if points:
            sides.append((words, colour, points))
    if not sides:
        raise ValueError(f"{path} has no latencies by multiprocessor: save them with 01_memory_model latency --csv FILE")
    return next(r["gpu"] for r in found if r["case"] == SIDES[0][0]), sides


def said(words, points):
    """near side: 132 multiprocessors, 261 to 289 cycles"""
    cycles = [value for _, value in points]
    return f"{words}: {len(points)} multiprocessors, {min(cycles):.0f} to {max(cycles):.0f} cycles"


def draw(gpu, sides, output):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "cuda memory", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    import matplotlib.pyplot as plt

    span = max(max(y for _, y in points) - min(y for _, y in points) for _, _, points in sides) + 10  # cycles, the same in both
    figure, panels = plt.subplots(len(sides), 1, figsize=(8, 2.4 * len(sides)), sharex=True, squeeze=False)
    for axes, (words, colour, points) in zip(panels[::-1, 0], sides):  # the far side above
        axes.plot(*zip(*points), linestyle="none", marker="o", markersize=3.5, color=colour)
        values = [y for _, y in points]
        middle = (min(values) + max(values)) / 2
        axes.set_ylim(middle - span / 2, middle + span / 2)
        axes.annotate(words, (1, 0.5), xycoords="axes fraction", xytext=(6, 0), textcoords="offset points", va="center", color=colour)
        axes.set_ylabel("cycles of a load")
    panels[-1, 0].set_xlabel("number of the multiprocessor")
    panels[0, 0].set_title(f"{gpu}: the same lines of the L2, read by each multiprocessor", fontsize=10.5, loc="left")
    drawing.save(figure, output, bbox_inches="tight", dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what 01_memory_model saved with --csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("map.svg"), help="default: map.svg")
    args = parser.parse_args()
    if args.output.suffix not in (".svg", ".png"):
        parser.error("the output's name ends in .svg or .png")
    gpu, sides = load(args.csv)
    print(*(said(words, points) for words, _, points in sides), sep="\n")
    draw(gpu, sides, args.output)


if __name__ == "__main__":
    records.run(main)
