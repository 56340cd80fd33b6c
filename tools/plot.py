#!/usr/bin/env python3
"""Draws a topic's figures from its recorded CSV, as <topic>/results/<figure>.svg. Needs matplotlib.

    tools/plot.py 04_bandwidth [04_bandwidth/results/nvidia-h100-80gb-hbm3.csv]
"""
import re
import sys
from pathlib import Path

import results

ROOT = Path(__file__).resolve().parent.parent

# of a topic: (name of the figure, experiment, table, x: a column or "row" for the number in a row's name, y: a column,
#              what groups rows into lines: a regular expression whose group is the line's name, title, logarithmic axes)
FIGURES = {
    "04_bandwidth": [
        ("in_flight", "in_flight", "per thread, threads per SM", "KiB in flight", "GB/s", r"(.*), \d+$",
         "reading: the rate over the bytes in flight", "x"),
        ("threads", "threads", "threads per block", "row", "GB/s", r"()", "sum by rows: the rate over the threads per block", ""),
        ("blocks", "blocks", "blocks", "row", "GB/s", r"()", "sum by rows: the rate over the blocks", ""),
    ],
}


def points(rows, experiment, table, x, y, line):
    """{line: [(x, y, low, high)]}, by x."""
    cells = {}  # row -> column -> (value, low, high)
    for of, name, row, column, value, low, high in rows:
        if (of, name) == (experiment, table) and value is not None:
            cells.setdefault(row, {})[column] = (value, low, high)
    lines = {}
    for row, columns in cells.items():
        number = re.search(r"\d+(\.\d+)?", row)
        name = re.fullmatch(line, row) or re.match(line, row)
        at = float(number.group()) if x == "row" and number else columns.get(x, (None,))[0]
        if at is not None and y in columns and name:
            lines.setdefault(name.group(1), []).append((at, *columns[y]))
    return {name: sorted(values) for name, values in lines.items()}


def draw(path, heading, rows, figure):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "samples", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot
    name, experiment, table, x, y, line, title, logarithmic = figure
    lines = points(rows, experiment, table, x, y, line)
    if not lines:
        sys.exit("plot.py: %s has no numbers for %s" % (path, name))
    axes = pyplot.figure(figsize=(7, 3.6)).add_subplot()
    for label, values in lines.items():
        xs, ys, lows, highs = zip(*values)
        axes.plot(xs, ys, "o-", markersize=3, linewidth=1, label=label)
        axes.fill_between(xs, lows, highs, alpha=0.2)
    if "x" in logarithmic:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: "%g" % value)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(table if x == "row" else x)
    axes.set_ylabel(y)
    axes.set_title("%s (%s)" % (title, results.gpu_of(heading)), fontsize=9, loc="left")
    axes.grid(alpha=0.3)
    if len(lines) > 1:
        axes.legend(fontsize=8)
    pyplot.tight_layout()
    out = path.parent / (name + ".svg")
    pyplot.savefig(out, metadata={"Date": None})
    pyplot.close()
    print(out)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].strip("/") not in FIGURES:
        sys.exit("plot.py: name a topic that has figures: " + ", ".join(sorted(FIGURES)))
    topic = sys.argv[1].strip("/")
    path = Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT / topic / "results" / "nvidia-h200.csv"
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        sys.exit("plot.py: matplotlib is missing: pip install matplotlib")
    heading, rows = results.read(path)
    for figure in FIGURES[topic]:
        draw(path, heading, rows, figure)


if __name__ == "__main__":
    main()
