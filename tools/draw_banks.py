#!/usr/bin/env python3
"""Draws the banks of shared memory and the words that the lanes of a warp want from them in the first steps of two
reductions, as `06_shared_reduce bank_steps --csv FILE` saved them (no GPU needed), and prints each step's conflict.
Needs Python's own library only.

    tools/draw_banks.py 06_shared_reduce/results/nvidia-h200.csv -o 06_shared_reduce/results/banks.svg
"""
import argparse
import pathlib
import re
from xml.sax.saxutils import escape

import records

PARAMETER = "lanes of warp 0"
COLOURS = ["#9ecae1", "#fee08b", "#fdae61", "#f46d43", "#d73027", "#a50026"]  # of 1, 2, 4, 8, 16, 32 words a bank


class Step:
    """What the lanes of a warp want in a step: a number for each, None for a lane that wants nothing. Its key is as in
    strided_step_4_stride_8."""

    def __init__(self, key):
        self.name = re.sub("_(step|stride)_", r", \1 ", key)
        self.reduction = self.name.partition(",")[0]
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


# of the drawing, in pixels: a cell of a bank, left of the banks, between two drawings, over one, under one
CELL, ROW, LEFT, BETWEEN, OVER, UNDER = 17, 18, 44, 26, 26, 24


def text(x, y, words, **style):
    attributes = "".join(f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x}" y="{y}"{attributes}>{escape(words)}</text>'


def draw_step(step, banks, rows):
    """One step as a group: the banks from the left to the right, words in rows, each lane in the word that it loads."""
    wide, high = banks * CELL, rows * ROW
    grid = "".join(f"M{CELL * bank} 0v{high}" for bank in range(banks + 1))
    grid += "".join(f"M0 {ROW * row}h{wide}" for row in range(rows + 1))
    parts = [text(0, -8, step.title(), class_="title"), f'<path class="grid" d="{grid}"/>']
    for lane, word in enumerate(step.left):
        if word is not None:
            x, y = CELL * (word % banks), ROW * (word // banks)
            parts.append(f'<rect x="{x}" y="{y}" width="{CELL}" height="{ROW}" fill="{colour(step.of_bank[lane])}"/>')
            parts.append(text(x + CELL / 2, y + 0.7 * ROW, str(lane)))
    for word in step.right:
        if word is not None:
            parts.append(f'<circle cx="{CELL * (word % banks) + CELL / 2}" cy="{ROW * (word // banks) + ROW / 2}" r="2.4"/>')
    parts += [text(CELL * bank + CELL / 2, high + 12, str(bank)) for bank in [*range(0, banks, 4), banks - 1]]
    parts += [text(-5, ROW * row + 0.7 * ROW, str(row * banks), text_anchor="end") for row in range(rows)]
    return parts


def draw(banks, reductions):
    """The SVG: a column of drawings for each reduction, a row for each step."""
    steps = [step for each in reductions.values() for step in each]
    rows = max(word for s in steps for word in s.left + s.right if word is not None) // banks + 1
    across, down = LEFT + banks * CELL + BETWEEN, OVER + rows * ROW + UNDER
    title = f"{rows * banks} words in {banks} banks: what warp 0 loads first in a step, by lane"
    parts = [text(LEFT, 22, title, class_="title")]
    for column, each in enumerate(reductions.values()):
        for row, step in enumerate(each):
            parts.append(f'<g transform="translate({LEFT + column * across} {34 + OVER + row * down})">')
            parts += [*draw_step(step, banks, rows), "</g>"]
    bottom = 34 + max(map(len, reductions.values())) * down + 6
    x = LEFT
    for n in sorted({n for s in steps for n in s.of_bank if n is not None}):
        words = "alone in its bank" if n == 1 else f"one of {n} that its bank must give"
        parts.append(f'<rect x="{x}" y="{bottom}" width="14" height="14" fill="{colour(n)}"/>')
        parts.append(text(x + 20, bottom + 11, words, text_anchor="start"))
        x += 38 + 7 * len(words)
    parts.append(f'<circle cx="{x + 7}" cy="{bottom + 7}" r="3"/>')
    parts.append(text(x + 20, bottom + 11, "word that is added (the other load)", text_anchor="start"))
    parts.append(text(LEFT, bottom + 34, "across: banks; beside each row its first word", text_anchor="start"))
    wide = max(LEFT + len(reductions) * across - BETWEEN, x + 260)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {bottom + 46}" width="{wide}" height="{bottom + 46}"'
        ' font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" font-size="10" text-anchor="middle" role="img">',
        "<style>.title { font-size: 13px; text-anchor: start } .grid { fill: none; stroke: #d0d0d0 } rect { stroke: #808080 }",
        "circle { fill: #606060 }</style>", f'<rect width="{wide}" height="{bottom + 46}" fill="#fff" style="stroke: none"/>',
        *parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what 06_shared_reduce saved with --csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="banks.svg", help="default: banks.svg")
    args = parser.parse_args()
    if args.output.suffix != ".svg":
        parser.error("the output's name ends in .svg")
    banks, reductions = load(args.csv)
    for steps in reductions.values():
        print(*(step.title() for step in steps), sep="\n")
    args.output.write_text(draw(banks, reductions), encoding="utf-8")


if __name__ == "__main__":
    records.run(main)
