#!/usr/bin/env python3
"""Draws 06's ladder of sums: a bar for each kernel, in the colour of who wrote it, its prediction, and the memory's rate.
Needs matplotlib.

    tools/draw_ladder.py 06_shared_reduce/results/nvidia-h200.csv -o ladder.svg
"""
import argparse
import pathlib

import drawing
import records

GUIDE, MASK, HERE, LIBRARY = ("the guide's kernels", "#4e79a7"), ("% replaced by a mask", "#f28e2b"), ("here", "#59a14f"), ("library", "#9c9c9c")
BARS = [("reduce_modulo", "modulo", GUIDE), ("reduce_mask", "mask", MASK), ("reduce_strided", "strided", GUIDE),
        ("reduce_strided_padded", "strided, padded", HERE), ("reduce_descending", "descending", GUIDE),
        ("reduce_add_on_load", "add on load", HERE), ("reduce_shuffle", "shuffles at last", HERE),
        ("reduce_several", "several words per thread", HERE), ("reduce_vector", "16-byte loads", HERE), ("sum_once", "one launch", HERE),
        ("cub_sum", "CUB", LIBRARY)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what 06_shared_reduce saved with --csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("ladder.svg"))
    args = parser.parse_args()
    found = records.load(args.csv)
    of_row = {(r["case"], r["kind"], r["metric"]): float(r["value"]) for r in found
              if r["experiment"] in ("", "ladder") and not r["at"] and r["kind"] in ("machine", "measured", "predicted", "calibration")
              and r["metric"] in ("theoretical bandwidth", "bandwidth", "time of a sum")}
    memory = of_row.get(("device", "machine", "theoretical bandwidth"))

    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "cuda memory", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.4))
    drawn, predicted = set(), []
    bars = [bar for bar in BARS if (bar[0], "measured", "bandwidth") in of_row]
    for place, (key, words, (who, colour)) in enumerate(bars):
        rate = of_row[key, "measured", "bandwidth"]
        axes.barh(place, rate, 0.8, color=colour, label=None if who in drawn else who)
        drawn.add(who)
        axes.annotate(f"{rate:.0f}", (0, place), xytext=(5, 0), textcoords="offset points", va="center", color="white", fontsize=9)
        time = of_row.get((key, "measured", "time of a sum"))
        model = of_row.get((key, "predicted", "time of a sum"))
        if time and model:
            predicted.append((rate * time / model, place))
    axes.plot(*zip(*predicted), linestyle="none", marker="|", markersize=13, markeredgewidth=1.8, color="black", label="predicted")
    mask = next(place for place, bar in enumerate(bars) if bar[0] == "reduce_mask")
    axes.annotate("same divergence as modulo", (of_row["reduce_mask", "measured", "bandwidth"], mask), xytext=(18, 0),
                  textcoords="offset points", va="center", fontsize=9, color=MASK[1])
    if memory:
        axes.axvline(memory, color="#c00000", linewidth=1)
        axes.annotate(f"memory's rate in theory: {memory:.0f}", (memory, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
                      textcoords="offset points", ha="right", color="#c00000", fontsize=9)
    axes.set_yticks(range(len(bars)), [words for _, words, _ in bars])
    axes.invert_yaxis()
    axes.set_xlabel("bytes that are summed per second (GB/s)")
    axes.legend(frameon=False, fontsize=9, loc="upper right", bbox_to_anchor=(0.98, 0.9))
    drawing.save(figure, args.output, bbox_inches="tight", dpi=150)


if __name__ == "__main__":
    records.run(main)
