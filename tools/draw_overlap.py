#!/usr/bin/env python3
"""Draws the timelines of 02's pipeline from its events: which stage worked on which chunk, and when. Needs Python's own
library only.

    tools/draw_overlap.py 02_memory_management/results/nvidia-h200.csv -o overlap.svg

A panel for each number of chunks that `02_memory_management overlap --csv FILE` saved, all of them over one axis of time.
A dashed line stands where the model ends the last chunk. Prints for each panel its end and the predicted end.
"""
import argparse
import pathlib
import re
from xml.sax.saxutils import escape

import records

STAGES = {"copy_in": "copy in", "hash": "kernel", "copy_out": "copy out"}
COLOURS = {"copy_in": ("#4e79a7", "#86a9cd"), "hash": ("#f28e2b", "#f8bd80"), "copy_out": ("#59a14f", "#92c78a")}  # even, odd chunks


class Timeline:
    """What the stages did with so many chunks: a span (start, end) in milliseconds for each."""

    def __init__(self, chunks):
        self.chunks = chunks
        self.spans = {}
        self.predicted = None  # the end of the last chunk

    def end(self):
        return max(end for _, end in self.spans.values())

    def said(self):
        chunks = "1 chunk" if self.chunks == 1 else f"{self.chunks} chunks"
        predicted = "" if self.predicted is None else f", predicted {self.predicted:.2f} ms"
        return f"{chunks}: {self.end():.2f} ms{predicted}"


def load(path):
    """The timelines of a file, by their number of chunks."""
    values, timelines = {}, {}
    for r in records.load(path):
        found = re.fullmatch(f"({'|'.join(STAGES)})_of_([0-9]+)", r["case"])
        if r["experiment"] == "overlap" and r["parameter"] == "chunk" and found:
            key = (int(found[2]), found[1], int(r["at"]))
            values[key, r["kind"], r["metric"]] = float(r["value"])
    for (key, kind, metric), value in values.items():
        chunks, stage, chunk = key
        timeline = timelines.setdefault(chunks, Timeline(chunks))
        if (kind, metric) == ("measured", "start") and (key, "measured", "end") in values:
            timeline.spans[stage, chunk] = value, values[key, "measured", "end"]
        if (kind, metric, stage, chunk) == ("predicted", "end", "copy_out", chunks - 1):
            timeline.predicted = value
    whole = [t for _, t in sorted(timelines.items()) if len(t.spans) == len(STAGES) * t.chunks]
    if not whole:
        raise ValueError(f"{path} has no timeline of overlap: save one with 02_memory_management overlap --csv FILE")
    return whole


# of the drawing, in pixels: left of the lanes, the lanes, a lane's height and the space to the next, over a panel, under all
LEFT, WIDE, LANE, STEP, OVER, UNDER = 76, 720, 20, 24, 26, 40


def tick_of(most):
    """The distance of ticks on an axis from 0 to `most`: of 1, 2, 5, 10 ... the first with at most eight."""
    tick = 10.0 ** -3
    while True:
        for times in (1, 2, 5):
            if most / (times * tick) <= 8:
                return times * tick
        tick *= 10


def text(x, y, words, **style):
    attributes = "".join(f' {name.rstrip("_").replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(words)}</text>'


def draw_panel(timeline, scale):
    high = STEP * len(STAGES)
    parts = [text(0, -8, timeline.said(), class_="title")]
    for row, (stage, words) in enumerate(STAGES.items()):
        parts.append(text(-8, row * STEP + 14, words, text_anchor="end"))
        for chunk in range(timeline.chunks):
            start, end = timeline.spans[stage, chunk]
            wide = (end - start) * scale
            parts.append(f'<rect x="{start * scale:.1f}" y="{row * STEP}" width="{wide:.1f}" height="{LANE}"'
                         f' fill="{COLOURS[stage][chunk % 2]}"/>')
            if wide >= 16:
                parts.append(text(start * scale + wide / 2, row * STEP + 14, str(chunk + 1), fill="#202020" if chunk % 2 else "#fff"))
    if timeline.predicted is not None:
        parts.append(f'<path d="M{timeline.predicted * scale:.1f} -2V{high}" class="predicted"/>')
    return parts


def draw(timelines):
    most = max(max(t.end(), t.predicted or 0) for t in timelines)
    scale = WIDE / most
    down = OVER + STEP * len(STAGES)
    parts = []
    for number, timeline in enumerate(timelines):
        parts += [f'<g transform="translate({LEFT} {OVER + number * down})">', *draw_panel(timeline, scale), "</g>"]
    bottom = len(timelines) * down + 6
    tick = tick_of(most)
    parts.append(f'<path d="M{LEFT} {bottom}h{WIDE}" class="axis"/>')
    for k in range(int(most / tick) + 1):
        x = LEFT + k * tick * scale
        parts += [f'<path d="M{x:.1f} {bottom}v5" class="axis"/>', text(x, bottom + 16, f"{k * tick:g}")]
    parts.append(text(LEFT + WIDE / 2, bottom + 31, "ms since the pipeline began; in a box: the number of the chunk; dashed: predicted end"))
    wide, high = LEFT + WIDE + 24, bottom + UNDER
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
        ' font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" font-size="11" text-anchor="middle" role="img">',
        "<style>.title { font-size: 12px; font-weight: bold; text-anchor: start }",
        ".axis { stroke: #404040 } .predicted { stroke: #202020; stroke-dasharray: 3 2; fill: none }</style>",
        f'<rect width="{wide}" height="{high}" fill="#fff"/>', *parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what 02_memory_management saved with --csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="overlap.svg", help="default: overlap.svg")
    args = parser.parse_args()
    if args.output.suffix != ".svg":
        parser.error("the output's name ends in .svg")
    timelines = load(args.csv)
    for timeline in timelines:
        print(timeline.said())
    args.output.write_text(draw(timelines), encoding="utf-8")


if __name__ == "__main__":
    records.run(main)
