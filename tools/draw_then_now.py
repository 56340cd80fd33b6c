#!/usr/bin/env python3
"""Draws what the texts reported beside what was measured: one line per claim that has a figure in both, as an SVG.

    tools/draw_then_now.py "0?_*/results/nvidia-h200.csv" -o then-and-now.svg

The axis is logarithmic and says how many times slower, or faster, as the claim puts it. An open circle is the text's
figure, or a bar from one of its figures to the other; a full one is the median of this GPU. Left of 1 it is the other way
round. Needs Python's own library only.
"""
import argparse
import glob
import math
import pathlib
import re
from xml.sax.saxutils import escape

import records
import tiles

WIDTH, MARGIN, ROW, TOPIC, TOP, BOTTOM = 830, 10, 22, 26, 46, 30  # pixels
TEXT = 440  # of the width, for the statements
LEAST, MOST = 0.08, 200  # of the axis
TICKS = [(0.1, "0.1"), (1, "1"), (10, "10"), (100, "100 times")]
SIZE = 11.5
FONT = "DejaVu Sans, Verdana, sans-serif"

TIMES = re.compile(r"^(?:roughly |about )?(\d+(?:\.\d+)?)x?(?:(?: to |-)(\d+(?:\.\d+)?))?(?:x| times)\b")
FROM_TO = re.compile(r"^(\d+(?:\.\d+)?) to (\d+(?:\.\d+)?) (?:groups|ms)\b")  # 24 to 3 groups: 8 times fewer


def factors(text):
    """The factors that a text reports, the smaller first: "100-150x slower" are 100 and 150. None if it reports none."""
    found = TIMES.match(text)
    if found:
        both = [float(found[1]), float(found[2] or found[1])]
        return min(both), max(both)
    found = FROM_TO.match(text)
    return (float(found[1]) / float(found[2]),) * 2 if found else None


def compared(found):
    """(claim, the text's factors) of each claim that has a factor in its text and one here, in the claims' order."""
    then = {r["case"]: r["at"] for r in found if r["kind"] == "then" and r["metric"] == "reported"}
    rows = [(claim, factors(then.get(part, ""))) for part, claim in records.claims(found).items()]
    return [(claim, reported) for claim, reported in rows
            if reported and claim["unit"] == "x" and claim["metric"] != "not judged" and float(claim["value"]) > 0]


def place(factor):
    """Where a factor lies on the axis, in pixels; what lies beyond its ends, at its ends."""
    share = math.log(min(max(factor, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return MARGIN + TEXT + share * (WIDTH - 2 * MARGIN - TEXT - 10)


def text(x, y, words, size=SIZE, **attributes):
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{extra}>{escape(words)}</text>'


def line(claim, reported, y):
    """A claim's line: its statement, the text's figure, this GPU's."""
    room = TEXT - 60
    words = claim["parameter"]
    size = tiles.shrunk(words, room, SIZE)
    now, low, high = float(claim["value"]), place(reported[0]), place(reported[1])
    at, middle = place(now), y - 4
    shape = (f'<circle cx="{low:.1f}" cy="{middle}" r="6.5" fill="white" stroke="#606060" stroke-width="1.5"/>'
             if high - low < 9 else  # the text's circle is the wider one, seen around one of this GPU in its place
             f'<rect x="{low:.1f}" y="{middle - 4.5}" width="{high - low:.1f}" height="9" rx="4.5" fill="white" '
             'stroke="#606060" stroke-width="1.5"/>')
    nearest = high if at > high else low
    return [text(MARGIN, y, claim["case"], font_weight="bold"), text(MARGIN + 52, y, words, size),
            f'<line x1="{nearest:.1f}" y1="{middle}" x2="{at:.1f}" y2="{middle}" stroke="#a0a0a0"/>', shape,
            f'<circle cx="{at:.1f}" cy="{middle}" r="4.5" fill="{tiles.COLOURS[claim["metric"]]}" stroke="#303030"/>']


def draw(found):
    """The figure; empty if no claim has a figure in both."""
    rows = compared(found)
    if not rows:
        return ""
    gpu = rows[0][0]["gpu"]
    drawn, y, topic = [], TOP, ""
    for claim, reported in rows:
        if claim["topic"] != topic:
            topic = claim["topic"]
            y += TOPIC
            drawn.append(text(MARGIN, y, topic, font_weight="bold", fill="#606060"))
        y += ROW
        drawn += line(claim, reported, y)
    height = y + BOTTOM
    axis = [f'<line x1="{place(at):.1f}" y1="{TOP + 6}" x2="{place(at):.1f}" y2="{y + 8}" '
            f'stroke="{"#606060" if at == 1 else "#e0e0e0"}"/>' for at, _ in TICKS]
    axis += [text(place(at), y + 22, words, 10.5, text_anchor="middle", fill="#606060") for at, words in TICKS]
    axis.append(text(place(1) + 4, TOP + 16, "equal", 10.5, fill="#606060"))
    axis.append(text(place(1) - 6, TOP + 16, "the other way round", 10.5, text_anchor="end", fill="#606060"))
    head = [text(MARGIN, 20, f"Then and now: {len(rows)} claims that have a figure", 14, font_weight="bold"),
            text(MARGIN, 38, f"open: what the text reported; full: {gpu}, its colour the verdict's; how many times slower "
                 "or faster", 10.5, fill="#606060")]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
                      f'viewBox="0 0 {WIDTH} {height}" font-family="{FONT}">',
                      f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *axis, *drawn, *head, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", nargs="+", help="what samples saved, or a pattern of such files")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="then-and-now.svg")
    args = parser.parse_args()
    paths = [path for name in args.csv for path in sorted(glob.glob(name)) or [name]]
    figure = draw([r for path in paths for r in records.load(pathlib.Path(path))])
    if not figure:
        raise ValueError(f"{', '.join(args.csv)}: no claim has a figure in its text and one here")
    args.output.write_text(figure, encoding="utf-8")


if __name__ == "__main__":
    records.run(main)
