#!/usr/bin/env python3
"""Draws what a budget of registers does: the time of a kernel, its local memory, and how many of its blocks fit on a
multiprocessor, over the registers that a thread may have, as `01_memory_model registers --csv FILE` saved them. Needs
matplotlib.

    tools/draw_registers.py 01_memory_model/results/nvidia-h200.csv -o 01_memory_model/results/registers-nvidia-h200.svg

The points are the rows of __maxnreg__, thin lines their predictions. Rows that spill to shared memory, where they were
measured, have points of their own, at the registers that the kernel uses.
"""
import argparse
import pathlib

import drawing
import records

PANELS = [("time", "time (ms)"), ("local memory per thread", "local memory\nper thread (bytes)"),
          ("resident blocks", "blocks on a\nmultiprocessor")]


def load(path):
    """The GPU's name, and {(case, at): {(kind, metric): value}} of the rows of `registers`; kinds are measured or predicted."""
    rows, gpu = {}, ""
    for r in records.load(path):
        if r["experiment"] != "registers" or r["kind"] not in ("measured", "calibration", "counted", "predicted") or not r["value"]:
            continue
        kind = "predicted" if r["kind"] == "predicted" else "measured"
        rows.setdefault((r["case"], r["at"]), {})[kind, r["metric"]] = float(r["value"])
        gpu = r["gpu"]
    if not any(case == "hash_within" for case, _ in rows):
        raise ValueError(f"{path} has no budgets of registers: save them with 01_memory_model registers --csv FILE")
    return gpu, rows


def curve(rows, case, kind, metric, place):
    """Points (registers, value) of a case. `place(at, row)` says at how many registers a row lies."""
    return sorted((place(at, row), row[kind, metric]) for (name, at), row in rows.items() if name == case and (kind, metric) in row)


def draw(gpu, rows, output):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "cuda memory", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    import matplotlib.pyplot as plt

    figure, all_axes = plt.subplots(len(PANELS), 1, figsize=(7.5, 6.4), sharex=True)
    limit, used = (lambda at, row: float(at)), (lambda at, row: row["measured", "registers"])
    for axes, (metric, words) in zip(all_axes, PANELS):
        predicted = curve(rows, "hash_within", "predicted", metric, limit)
        if predicted:
            axes.plot(*zip(*predicted), linewidth=1, color="#9c9c9c")
            axes.annotate("predicted", predicted[-1], xytext=(-4, 5), textcoords="offset points", color="#707070", fontsize=9, ha="right")
        axes.plot(*zip(*curve(rows, "hash_within", "measured", metric, limit)), linestyle="none", marker="o", color="#4e79a7")
        shared = curve(rows, "hash_to_shared", "measured", metric, used)
        if shared:
            axes.plot(*zip(*shared), linestyle="none", marker="D", markersize=5, color="#f28e2b")
            if axes is all_axes[0]:
                axes.annotate("spills go to\nshared memory", shared[0], xytext=(-8, -10), textcoords="offset points", ha="right",
                              color="#c06000", fontsize=9)
        axes.set_ylabel(words)
        axes.set_ylim(bottom=0)
    needed = rows.get(("hash_bounded", ""), {}).get(("measured", "registers"))
    if needed:
        for axes in all_axes:
            axes.axvline(needed, color="#c00000", linewidth=0.8)
        all_axes[0].annotate(f"needs {needed:.0f}", (needed, 1), xycoords=("data", "axes fraction"), xytext=(4, -10),
                             textcoords="offset points", color="#c00000", fontsize=9)
    all_axes[-1].set_xticks(sorted(x for x, _ in curve(rows, "hash_within", "measured", "resident blocks", limit)))
    all_axes[-1].set_xlabel("registers that a thread may have")
    all_axes[0].set_title(f"{gpu}: the same kernel with fewer registers per thread", fontsize=10.5, loc="left")
    drawing.save(figure, output, bbox_inches="tight", dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what 01_memory_model saved with --csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("registers.svg"), help="default: registers.svg")
    args = parser.parse_args()
    if args.output.suffix not in (".svg", ".png"):
        parser.error("the output's name ends in .svg or .png")
    draw(*load(args.csv), args.output)


if __name__ == "__main__":
    records.run(main)
