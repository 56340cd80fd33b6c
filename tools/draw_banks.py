#!/usr/bin/env python3
"""Draws the banks of shared memory and the words that the lanes of a warp want from them in the first steps of two
reductions, as `06_shared_reduce bank_steps --csv FILE` saved them (no GPU needed), and prints each step's conflict.
Needs matplotlib.

    tools/draw_banks.py 06_shared_reduce/results/nvidia-h200.csv -o 06_shared_reduce/results/banks.svg
"""
import argparse
import pathlib
import sys

import records

PARAMETER = "lanes of warp 0"
COLOURS = ["#9ecae1", "#fee08b", "#fdae61", "#f46d43", "#d73027", "#a50026"]  # of 1, 2, 4, 8, 16, 32 words a bank


class Step:
    """What the lanes of a warp want in a step: a number for each, None for a lane that wants nothing."""

    def __init__(self, name):
        self.reduction = name.partition(",")[0]
        self.name = name
        self.left = self.right = self.of_bank = None
        self.wavefronts = 0

    def add(self, record):
        lanes = [None if word == "-" else int(word) for word in record["at"].split()]
        if record["metric"] == "left words":
            self.left, self.wavefronts = lanes, int(float(record["value"]))
        elif record["metric"] == "right words":
            self.right = lanes
        elif record["metric"] == "words of the lane's bank":
            self.of_bank = lanes

    def title(self):
        active = sum(word is not None for word in self.left)
        conflict = f"{self.wavefronts}-way conflict" if self.wavefronts > 1 else "no conflict"
        return f"{self.name}: {active} lanes, {conflict}"


def load(path):
    """The number of banks, and the steps of each reduction in their order: {reduction: [Step]}."""
    found = [r for r in records.load(path) if r["experiment"] == "bank_steps" and r["kind"] == "predicted"]
    steps = {}
    for record in found:
        if record["parameter"] == PARAMETER:
            steps.setdefault(record["case"], Step(record["case"])).add(record)
    banks = [int(float(r["value"])) for r in found if r["metric"] == "banks"]
    if not banks or not steps or any(None in (s.left, s.right, s.of_bank) for s in steps.values()):
        raise ValueError(f"{path} has no lanes of bank_steps: save them with 06_shared_reduce bank_steps --csv FILE")
    reductions = {}
    for step in steps.values():
        reductions.setdefault(step.reduction, []).append(step)
    return banks[0], reductions


def colour(words):
    return COLOURS[min(words.bit_length() - 1, len(COLOURS) - 1)]


def draw_step(axes, step, banks, rows, rectangle):
    axes.vlines(range(1, banks), 0, rows, color="#d0d0d0", linewidth=0.5)
    axes.hlines(range(1, rows), 0, banks, color="#d0d0d0", linewidth=0.5)
    for lane, word in enumerate(step.left):
        if word is None:
            continue
        x, y = word % banks, word // banks
        face = colour(step.of_bank[lane])
        axes.add_patch(rectangle((x, y), 1, 1, facecolor=face, edgecolor="#808080", linewidth=0.5, zorder=2))
        axes.text(x + 0.5, y + 0.52, str(lane), ha="center", va="center", fontsize=6)
    dots = [word for word in step.right if word is not None]
    axes.plot([w % banks + 0.5 for w in dots], [w // banks + 0.5 for w in dots], "o", markersize=2.2, color="#606060")
    axes.set_xlim(0, banks)
    axes.set_ylim(rows, 0)
    shown = [*range(0, banks, 4), banks - 1]
    axes.set_xticks([b + 0.5 for b in shown], shown, fontsize=7)
    axes.set_yticks([r + 0.5 for r in range(rows)], [r * banks for r in range(rows)], fontsize=7)
    axes.tick_params(length=0)
    axes.set_title(step.title(), loc="left", fontsize=9.5)


def draw(banks, reductions, output):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "cuda memory", "font.size": 9})
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    steps = [step for each in reductions.values() for step in each]
    rows = max(word for s in steps for word in s.left + s.right if word is not None) // banks + 1
    height = max(map(len, reductions.values()))
    figure, panels = plt.subplots(height, len(reductions), figsize=(6.5 * len(reductions), 2.3 * height), squeeze=False)
    figure.subplots_adjust(left=0.045, right=0.99, top=0.93, bottom=0.09, hspace=0.32, wspace=0.07)
    for column, each in enumerate(reductions.values()):
        for row, step in enumerate(each):
            draw_step(panels[row][column], step, banks, rows, Rectangle)
        panels[len(each) - 1][column].set_xlabel("bank")
    for row in range(height):
        panels[row][0].set_ylabel("first word of the row")
    counts = sorted({n for s in steps for n in s.of_bank if n is not None})
    handles = [Rectangle((0, 0), 1, 1, facecolor=colour(n), edgecolor="#808080") for n in counts]
    labels = ["alone in its bank" if n == 1 else f"one of {n} that its bank must give" for n in counts]
    handles.append(plt.Line2D([], [], marker="o", linestyle="", markersize=3, color="#606060"))
    labels.append("word that is added (the other load)")
    figure.legend(handles, labels, loc="lower center", ncol=5, frameon=False)
    title = f"{rows * banks} words in {banks} banks: what warp 0 loads first in a step, by lane"
    figure.suptitle(title, x=0.045, y=0.985, ha="left", fontsize=11)
    figure.savefig(output, dpi=120, metadata={"Date": None} if output.suffix == ".svg" else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what 06_shared_reduce saved with --csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="banks.svg", help="default: banks.svg")
    args = parser.parse_args()
    if args.output.suffix not in (".svg", ".png"):
        parser.error("the output's name ends in .svg or .png")
    try:
        banks, reductions = load(args.csv)
        for steps in reductions.values():
            print(*(step.title() for step in steps), sep="\n")
        draw(banks, reductions, args.output)
    except (OSError, ValueError) as error:
        sys.exit(f"draw_banks.py: {error}")
    except ImportError:
        sys.exit("draw_banks.py: matplotlib is missing: apt-get install python3-matplotlib")


if __name__ == "__main__":
    main()
