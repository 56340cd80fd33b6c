#!/usr/bin/env python3
"""Draws how long the GPU takes to get 64 MiB: copied from pageable memory, copied from pinned memory, read by a kernel in
the host's memory, and read by a kernel in device memory. Needs Python's own library only.

    tools/draw_crossing.py 02_memory_management/results/nvidia-h200.csv -o crossing.svg

The copies are those of 64 MiB. The kernels read a larger array, which the L2 cannot hold: their bars are what 64 MiB take
at the rate that was measured. Prints the bars.
"""
import argparse
import pathlib
from xml.sax.saxutils import escape

import records
from draw_overlap import tick_of

BYTES = 64 * 2 ** 20
# experiment, key, at, what a reader sees, colour
BARS = [("transfer", "pageable_to_device", BYTES, "copied from pageable memory", "#c05040"),
        ("transfer", "pinned_to_device", BYTES, "copied from pinned memory", "#4e79a7"),
        ("zero_copy", "read_in_place", 1, "zero-copy: a kernel reads it on the host", "#59a14f"),
        ("zero_copy", "read_device", 1, "a kernel reads it in device memory", "#f28e2b")]
LEFT, WIDE, ROW = 270, 420, 34  # pixels left of the bars, of the longest bar, from bar to bar


def load(path):
    """(words, colour, GB/s, ms) of each bar."""
    rates = {(r["experiment"], r["case"], float(r["at"] or 0)): float(r["value"]) for r in records.load(path)
             if r["kind"] in ("measured", "calibration") and r["metric"] in ("rate", "bandwidth")}
    missing = [f"{experiment} {key}" for experiment, key, at, _, _ in BARS if (experiment, key, at) not in rates]
    if missing:
        raise ValueError(f"{path} has no rate of {', '.join(missing)}")
    return [(words, colour, rate, BYTES * 1e-6 / rate) for experiment, key, at, words, colour in BARS
            for rate in [rates[experiment, key, at]]]


def said(rate, ms):
    return f"{ms:.3g} ms ({rate:.3g} GB/s)" if rate < 1000 else f"{ms:.2g} ms ({rate:.0f} GB/s)"


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def draw(bars):
    most = max(ms for _, _, _, ms in bars)
    parts = []
    for row, (words, colour, rate, ms) in enumerate(bars):
        y, wide = 12 + row * ROW, max(1.0, ms / most * WIDE)
        parts += [text(LEFT - 10, y + 16, words, "end"), text(LEFT + wide + 8, y + 16, said(rate, ms)),
                  f'<rect x="{LEFT}" y="{y}" width="{wide:.1f}" height="24" fill="{colour}"/>']
    bottom, tick = 12 + len(bars) * ROW, tick_of(most)
    parts.append(f'<path d="M{LEFT} {bottom}h{WIDE}" class="axis"/>')
    for k in range(int(most / tick) + 1):
        x = LEFT + k * tick / most * WIDE
        parts += [f'<path d="M{x:.1f} {bottom}v5" class="axis"/>', text(x, bottom + 18, f"{k * tick:g}", "middle")]
    parts.append(text(LEFT + WIDE / 2, bottom + 36, "ms for 64 MiB (GB/s in brackets)", "middle"))
    high = bottom + 46
    wide = LEFT + WIDE + 170
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
        ' font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" font-size="12" role="img">',
        "<style>.axis { stroke: #404040 }</style>", f'<rect width="{wide}" height="{high}" fill="#fff"/>', *parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what 02_memory_management saved with --csv")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="crossing.svg", help="default: crossing.svg")
    args = parser.parse_args()
    if args.output.suffix != ".svg":
        parser.error("the output's name ends in .svg")
    bars = load(args.csv)
    for words, _, rate, ms in bars:
        print(f"{words}: {said(rate, ms)}")
    args.output.write_text(draw(bars), encoding="utf-8")


if __name__ == "__main__":
    records.run(main)
