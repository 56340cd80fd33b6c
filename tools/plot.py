#!/usr/bin/env python3
"""Draws a topic's figures from its recorded CSV, as <topic>/results/<figure>.svg. Needs matplotlib.

    tools/plot.py 04_bandwidth [04_bandwidth/results/nvidia-h100-80gb-hbm3.csv]
    tools/plot.py then_and_now      docs/drawings/then_and_now.svg, of what all topics recorded on an H100
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


# a claim with a figure: how many times as long (or as many) the text found, at least and at most
THEN = {"01.10a": (100, 150), "01.10b": (100, 150), "03.5a": (10, 10), "03.5b": (4, 4), "03.5c": (2, 2), "03.7a": (15, 15),
        "03.8": (1.3, 1.3), "03.12": (20, 20), "04.2a": (77, 77), "04.3": (1.5, 2), "04.4a": (4.1, 4.1), "04.5b": (3, 4),
        "04.5c": (1.5, 2), "05.1a": (24 / 3, 24 / 3), "05.1b": (2.32 / 1.11, 2.32 / 1.11)}


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


def plotter():
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "samples", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot
    return pyplot


def save(pyplot, out):
    pyplot.tight_layout()
    pyplot.savefig(out, metadata={"Date": None})
    pyplot.close()
    print(out)


def draw(path, heading, rows, figure):
    pyplot = plotter()
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
    save(pyplot, path.parent / (name + ".svg"))


def draw_then_and_now():
    pyplot = plotter()
    claims = {}  # id -> (statement, verdict, value)
    for path in sorted(ROOT.glob("0?_*/results/nvidia-h100-80gb-hbm3.csv")):
        heading, rows = results.read(path)
        for _, table, row, verdict, value, _, _ in rows:
            if table == "claim":
                id, _, statement = row.partition(": ")
                claims[id] = (statement, verdict, value)
    axes = pyplot.figure(figsize=(9, 4.6)).add_subplot()
    for y, (id, (low, high)) in enumerate(THEN.items()):
        statement, verdict, now = claims[id]
        then = (low * high) ** 0.5
        colour = "tab:blue" if verdict.startswith("holds") else "tab:red"
        axes.plot([then, now], [y, y], color="silver", zorder=1)
        axes.plot([low, high], [y, y], color="dimgrey", linewidth=5, solid_capstyle="round", zorder=2)
        axes.plot(now, y, "o", color=colour, zorder=3)
    axes.set_yticks(range(len(THEN)), ["%s  %s" % (claims[id][0], id) for id in THEN], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([0.1, 1, 10, 100], ["a tenth", "equal", "10 times", "100 times"])
    axes.axvline(1, color="black", linewidth=0.8, zorder=0)
    axes.grid(axis="x", alpha=0.3)
    axes.set_title("grey: what the text reported; dot: %s, blue where the claim holds" % results.gpu_of(heading), fontsize=9, loc="right")
    save(pyplot, ROOT / "docs" / "drawings" / "then_and_now.svg")


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].strip("/") not in [*FIGURES, "then_and_now"]:
        sys.exit("plot.py: name a topic that has figures, or then_and_now: " + ", ".join(sorted(FIGURES)))
    topic = sys.argv[1].strip("/")
    path = Path(sys.argv[2]) if len(sys.argv) == 3 else ROOT / topic / "results" / "nvidia-h100-80gb-hbm3.csv"
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        sys.exit("plot.py: matplotlib is missing: pip install matplotlib")
    if topic == "then_and_now":
        return draw_then_and_now()
    heading, rows = results.read(path)
    for figure in FIGURES[topic]:
        draw(path, heading, rows, figure)


if __name__ == "__main__":
    main()
