#!/usr/bin/env python3
"""Draws what was recorded, as <topic>/results/<experiment>.svg; tools/figures.py says what. Needs matplotlib.

    tools/plot.py                            of all topics what an H100 recorded, and docs/drawings/then_and_now.svg
    tools/plot.py 04_bandwidth [my.csv]      of one topic; of another file, beside that file
    tools/plot.py then_and_now              (the same bytes each time, of one version of matplotlib)
    tools/plot.py --check                    says which figures are not of what is recorded now; exit code 1. Needs no matplotlib
"""
import hashlib
import io
import math
import re
import sys
import textwrap
from pathlib import Path

import results
from figures import FIGURES, dots

ROOT = Path(__file__).resolve().parent.parent
RECORDED = "nvidia-h100-80gb-hbm3.csv"
COLOURS, MARKS = ["#0072B2", "#D55E00", "#009E73", "#AA4499", "#8A6D00"], "os^Dv"  # for the colour-blind, and in grey
INK, GREY, PALE = "#222222", "#6f6f6f", "#b0b0b0"
STYLE = {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"], "font.size": 8, "text.parse_math": False, "text.color": INK,
         "axes.axisbelow": True, "axes.edgecolor": "#999999", "axes.spines.top": False, "axes.spines.right": False, "grid.color": "#e6e6e6"}
LIMIT = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 2)), "zorder": 1}
RING = {"marker": "o", "color": INK, "fillstyle": "none", "markeredgewidth": 0.9}
MANY = 25  # points of a line
UNITS = {"": 1, "B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30}


def number_in(text):
    """65536 of "64 KiB", 1024 of "2^10", None of "pinned"."""
    found = re.search(r"(\d+(?:\.\d+)?)(?:\^(\d+))?(?: (B|[KMG]iB)\b)?", text)
    return found and float(found[1]) ** int(found[2] or 1) * UNITS[found[3] or ""]


def footer(heading):
    return "%s, %s" % (results.gpu_of(heading), heading.split(", ")[-1])


def short(value, _=None):
    return "%.0f" % value if value >= 1000 else "%.3g" % value


def power_text(value):
    return "2^%d" % round(math.log2(value)) if value > 9999 else short(value)


def bytes_text(value, _=None):
    unit = next((unit for unit in ("GiB", "MiB", "KiB") if value >= UNITS[unit]), "B")
    return "%.4g %s" % (value / UNITS[unit], unit)


def tables(rows):
    """{experiment: {table: {row: {column: (value, low, high)}}}}"""
    found = {}
    for experiment, table, row, column, *number in rows:
        if table not in results.NO_NUMBERS and number[0] is not None:
            found.setdefault(experiment, {}).setdefault(table, {}).setdefault(row, {})[column] = number
    return found


def titled(title, panels, cells):
    """The title with its numbers, which come from the record: "{32 | ms : 64 | ms} times as slow" divides the first by the
    second, of the first panel's table; "{a table | 32 | ms}" names another. "{... !%}" is a percentage, "{... !-%}" what is missing to 100.
    Raises KeyError if it is not there."""
    def value(where):
        *table, row, column = (part.strip() for part in where.split("|"))
        return cells[(table or [panels[0].table])[0]][row][column][0]

    def filled(match):
        what, _, how = match[1].partition("!")
        number, *divisor = (value(where) for where in what.split(" : "))
        number /= (divisor or [1])[0]
        number = {"%": 100 * number, "-%": 100 * (1 - number), "+%": 100 * (number - 1)}.get(how.strip(), number)
        return "%.0f" % number if number >= 9.95 or how else "%.2g" % number
    return re.sub(r"\{([^}]*)\}", filled, title)


def mark_of(title, panels, cells, foot):
    """What a figure is drawn from, as a comment of its SVG."""
    used = {table: cells.get(table) for panel in panels for table in (panel.table if panel.kind == "spans" else [panel.table])}
    return "<!-- of %s -->\n" % hashlib.sha256(repr((title, panels, used, foot)).encode()).hexdigest()[:16]


def recorded_figures(topic, path):
    """(experiment, title, panels, cells, footer) of each figure of a topic's CSV. What needs two GPUs is recorded apart, in two_gpus."""
    found = []
    of_all = [(tables(rows), footer(heading)) for heading, rows in map(results.read, filter(Path.exists, (path, path.parent / "two_gpus" / path.name)))]
    for experiment, (title, *panels) in FIGURES[topic].items():
        of, foot = next(((cells[experiment], foot) for cells, foot in of_all if series_there(panels, cells.get(experiment, {}))), ({}, ""))
        if of:
            try:
                found.append((experiment, titled(title, panels, of), panels, of, foot))
            except KeyError as missing:
                sys.exit("plot.py: the title of %s: %s has no %s" % (experiment, path.name, missing))
    return found


def series_there(panels, cells):
    return any(set(panel.table if panel.kind == "spans" else [panel.table]) & set(cells) for panel in panels)


def interval(column, columns):
    """A column's number; a rate that is saved without its interval has that of its time."""
    value, low, high = columns[column]
    if low == high and "GB/s" in column and columns.get("ms", [0])[0] > 0:
        ms, least, most = columns["ms"]
        low, high = value * ms / most, value * ms / least
    return value, low, high


def series(panel, cells):
    """{label: [(row or x, (value, low, high), predicted or None, (least, most) of the text or None)]}"""
    found, several, positive = {}, len(panel.columns) > 1, ("x" if panel.kind == "dots" else "y") in panel.log
    for row, columns in cells.get(panel.table, {}).items() if panel.kind != "spans" else ():
        match = re.fullmatch(panel.rows, row)
        for i, column in enumerate(panel.columns if match else []):
            if column not in columns or positive and columns[column][1] <= 0:
                continue
            number, ring, then = interval(column, columns), (list(panel.ring[i:i + 1]) or [""])[0], panel.then
            if isinstance(ring, tuple):  # (predicted ms, ms): the rate of a predicted time
                predicted = number[0] * columns[ring[1]][0] / columns[ring[0]][0] if ring[0] in columns else None
            else:
                predicted = columns.get(ring, [None])[0]
            said = then.get(row, ()) if isinstance(then, dict) else [columns[c][0] * panel.of for c in then if c in columns]
            label = match.groupdict().get("line") or (panel.by and panel.by[1] % columns[panel.by[0]][0])
            at = match["row"] if panel.kind == "dots" else columns[panel.x][0] if panel.x else number_in(match["row"])
            found.setdefault(", ".join(filter(None, [label, several and (panel.names or panel.columns)[i]])), []).append(
                (at, number, predicted, (min(said), max(said)) if said else None))
    return found


def limits(panel, cells):
    for name, where in panel.limit:
        if isinstance(where, tuple):
            values = [cells.get(where[0], {}).get(where[1], {}).get(column, [None])[0] for column in where[2:]]
            where = None if None in values else values[0] / (values[1:] or [1])[0]
        if where is not None:
            yield name, where


def ticks(axis, base, most, name):
    """Of a logarithmic axis: each power of the base, or every second, third ...; of few powers of ten 2 and 5 times each, too."""
    low, high = axis.get_view_interval()
    exponents = range(math.floor(math.log(low, base)), math.ceil(math.log(high, base)) + 1)
    values = [base ** e * times for e in exponents for times in ((1, 2, 5) if base == 10 and len(exponents) < 5 else (1,))]
    values = [value for value in values if low <= value * 1.001 and value <= high * 1.001]
    values = values[::-(-len(values) // most)] if values else values
    axis.set_ticks(values, [name(value) for value in values])
    axis.set_ticks([], minor=True)


def draw_dots(axes, panel, found, cells, record, rows, named, colours):
    single, log = len(found) == 1, "x" in panel.log
    for i, (label, points) in enumerate(found.items()):
        off = 0 if single or panel.join else 0.22 * (i - (len(found) - 1) / 2)
        recorded = dict((point[0], point[1][0]) for point in record.get(label, []))
        for row, (value, low, high), predicted, said in points:
            y = rows.index(row) + off
            if single and not log:
                axes.barh(y, value, height=0.5, color=colours[0], alpha=0.18, linewidth=0)
            if said:
                if single or panel.join:
                    axes.plot([*said, value], [y] * 3, color="#d0d0d0", linewidth=1, zorder=0)
                if i == 0 or panel.join:
                    axes.plot(said, [y, y], "D-", color=PALE, markersize=4.5, linewidth=3, zorder=1)
            if predicted is not None:
                axes.plot(predicted, y, **RING, markersize=8, zorder=4)
            if row in recorded:
                axes.plot(recorded[row], y, "|", color=INK, markersize=9, zorder=2)
            axes.plot([low, high], [y, y], color=colours[i], linewidth=2)
            axes.plot(value, y, MARKS[i], color=colours[i], markersize=5, zorder=3)
            if single:
                axes.text(1.015, y, short(value), transform=axes.get_yaxis_transform(), fontsize=7.5, va="center_baseline", color=INK)
    if panel.join:
        for y, row in enumerate(rows):
            ends = [point[1][0] for points in found.values() for point in points if point[0] == row]
            axes.plot([min(ends), max(ends)], [y, y], color="#c8c8c8", zorder=0)
    axes.set_yticks(range(len(rows)), rows if named else [""] * len(rows),)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.08)
    if not log:
        axes.set_xlim(0, max([axes.get_xlim()[1]] + [1.05 * value for _, value in limits(panel, cells)]))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    for name, value in limits(panel, cells):
        axes.axvline(value, **LIMIT)
        axes.annotate("%s %s " % (name, short(value)), (value, 1), xycoords=("data", "axes fraction"), fontsize=7.5, ha="right", va="bottom")


def draw_lines(axes, panel, found, cells, record, *_):
    ends = []
    for i, (label, points) in enumerate(found.items()):
        points = sorted(point for point in points if point[0] is not None)
        xs, numbers = [point[0] for point in points], [point[1] for point in points]
        if panel.by:
            axes.vlines(xs, [n[1] for n in numbers], [n[2] for n in numbers], color=COLOURS[i], linewidth=2)
        else:
            axes.fill_between(xs, [n[1] for n in numbers], [n[2] for n in numbers], color=COLOURS[i], alpha=0.2, linewidth=0)
        few = len(points) <= MANY
        axes.plot(xs, [n[0] for n in numbers], marker=MARKS[i] if few or panel.by else None, linestyle="none" if panel.by else "-", color=COLOURS[i],
                  markersize=3.5, linewidth=1.2)
        axes.plot(*zip(*sorted((p[0], p[1][0]) for p in record.get(label, []) if p[0])) or ([], []), color=INK, linewidth=0.8, linestyle=":", zorder=1)
        predicted = [(point[0], math.nan if point[2] is None else point[2]) for point in points]  # a gap where nothing is predicted
        if any(point[2] is not None for point in points):
            axes.plot(*zip(*predicted), **({**RING, "linestyle": "none", "markersize": 7} if few else {"color": INK, "linewidth": 0.7}))
        ends.append((xs[-1], numbers[-1][0], label, COLOURS[i]))
    if "y" not in panel.log:
        axes.set_ylim(0, max([1.03 * axes.get_ylim()[1]] + [1.1 * value for _, value in limits(panel, cells)]))
    for name, value in limits(panel, cells):
        axes.axhline(value, **LIMIT)
        axes.annotate("%s: %s" % (name, short(value)), (0.01, value), xycoords=("axes fraction", "data"), fontsize=7.5, va="bottom")
    for name, value in panel.at:
        axes.axvline(value, color=PALE, linewidth=3, zorder=0)
        axes.annotate(" " + name, (value, 0.96), xycoords=("data", "axes fraction"), fontsize=7.5, color=GREY, va="top")
    axes.grid()
    axes.set_title(panel.axis, fontsize=8, loc="left", pad=4)
    for x, y, label, colour in ends if not panel.key else []:
        axes.annotate(label, (x, y), (6, 0), textcoords="offset points", color=colour, va="center", annotation_clip=False, gid="end")


def apart(axes):
    """Pushes the labels at the ends of lines apart."""
    ends = sorted(([float(axes.transData.transform(text.xy)[1]), text] for text in axes.texts if text.get_gid() == "end"), key=lambda end: end[0])
    for _ in range(50):
        for below, above in zip(ends, ends[1:]):
            if below[1].xy[0] == above[1].xy[0] and above[0] - below[0] < 11:
                below[0], above[0] = (below[0] + above[0]) / 2 - 5.6, (below[0] + above[0]) / 2 + 5.6
    for y, text in ends:
        text.xy = text.xy[0], float(axes.transData.inverted().transform((0, y))[1])


def draw_spans(axes, panel, found, cells, *_):
    for y, table in enumerate(panel.table):
        for i, column in enumerate(panel.columns):
            merged = []  # what follows within two microseconds is one
            for start, lasts in sorted([row["since the first, us"][0] / 1000, row["lasts, us"][0] / 1000] for row in cells.get(table, {}).values()
                                       if {column, "since the first, us", "lasts, us"} <= set(row)):
                if merged and start - merged[-1][0] - merged[-1][1] < 0.002:
                    merged[-1][1] = start + lasts - merged[-1][0]
                else:
                    merged.append([start, lasts])
            axes.broken_barh(merged, (y - 0.38 + 0.26 * i, 0.24), color=COLOURS[i], linewidth=0.3)
    axes.set_yticks(range(len(panel.table)), panel.table,)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def smaller(svg):
    """Without comments, indents, names of groups, and decimals beyond the second."""
    svg = re.sub(r"<!--.*?-->|<\?xml.*?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", re.sub(r'^(<g) id="\w+[._]\w+"', r"\1", tag[0])), svg)
    return re.sub(r"\n\s*", "\n", svg).strip() + "\n"


def colours_of(found, drawn):
    """The colours of a panel: black, if the key gives its only dots' colour to something else."""
    named = {label for panel, other in drawn if panel.kind == "dots" and len(other) > 1 for label in other}
    return [INK] if len(found) == 1 and named and not named & {*found} else COLOURS


def key_of(drawn, record):
    """[(words, style)] of what is not named at its place."""
    key, dot = [], {"linestyle": "none", "markersize": 5}
    for panel, found in drawn:
        if panel.key or panel.kind == "spans" or panel.kind == "dots" and len(found) > 1:
            key += [(label, {**dot, "marker": "s" if panel.kind == "spans" else MARKS[i], "color": COLOURS[i]})
                    for i, label in enumerate(found or panel.columns)]
    points = [(panel, point, len(line) > MANY) for panel, found in drawn for line in found.values() for point in line]
    key += [("predicted", {"color": INK, "linewidth": 0.7} if many else {**RING, **dot, "markersize": 7}) for _, point, many in points if point[2] is not None]
    key += [(panel.said, {**dot, "marker": "D", "color": PALE}) for panel, point, _ in points if point[3]]
    return dict(key + [("recorded", {**dot, "marker": "|", "color": INK, "markersize": 8})] * bool(record))


def figure(title, panels, cells, footer, record=None, salt=""):
    """The SVG, as text, of an experiment's cells; None if it has none of the panels. record: the cells of another run."""
    import matplotlib
    from matplotlib import lines, pyplot
    matplotlib.use("svg")
    matplotlib.rcParams.update({**STYLE, "svg.hashsalt": title + salt})
    drawn = [(panel, series(panel, cells)) for panel in panels if panel.kind != "spans" or set(panel.table) & set(cells)]
    drawn = [(panel, found) for panel, found in drawn if found or panel.kind == "spans"]
    if not drawn:
        return None
    rows = {}  # of a table, in its order: what its panels show
    for panel, found in drawn:
        if panel.kind == "dots":
            shown = {point[0] for other, of in drawn if other.table == panel.table for points in of.values() for point in points}
            rows[panel.table] = [row for row in dict.fromkeys(re.sub(panel.rows, r"\g<row>", row) for row in cells[panel.table]) if row in shown]
    key = key_of(drawn, record)
    tall = max([2.4] * any(panel.kind != "dots" for panel, _ in drawn) + [len(rows[panel.table]) * (
        0.2 if len(found) == 1 or panel.join else 0.1 + 0.1 * len(found)) for panel, found in drawn if panel.kind == "dots"])
    head = 0.04 + 0.22 * bool(title) + 0.21 * bool(key)  # inches
    high = tall + 0.68 + head
    picture = pyplot.figure(figsize=(7, high), layout="constrained", facecolor="white")
    picture.get_layout_engine().set(rect=(0.008, 0, 0.984, 1 - head / high))
    scales, named = {}, []  # panels that show the same columns have the same scale
    for i, (panel, found) in enumerate(drawn):
        axes = picture.add_subplot(1, len(drawn), i + 1, **{"sharey" if panel.kind == "lines" else "sharex": scales.get(str(panel.columns))})
        scales.setdefault(str(panel.columns), axes)
        sizes = panel.kind == "lines" and "x" in panel.log
        for letter in panel.log:
            getattr(axes, "set_%sscale" % letter)("log", base=2 if sizes and letter == "x" else 10)
        of = rows.get(panel.table) if panel.kind == "dots" else None
        draw = {"dots": draw_dots, "lines": draw_lines, "spans": draw_spans}[panel.kind]
        draw(axes, panel, found, cells, series(panel, record or {}), of, of not in named, colours_of(found, drawn))
        named.append(of)
        if sizes:
            ticks(axes.xaxis, 2, 9 // len(drawn), bytes_text if panel.x_axis.startswith("bytes") else power_text)
        elif "x" in panel.log:
            ticks(axes.xaxis, 10, 9 // len(drawn), short)
        if "y" in panel.log:
            ticks(axes.yaxis, 10, 8, short)
        axes.set_xlabel(textwrap.fill(panel.x_axis or panel.axis, 80 // len(drawn) - 5))
    picture.text(0.008, 1 - 0.06 / high, title, fontsize=10, fontweight="bold", va="top")
    if key:
        picture.legend([lines.Line2D([], [], **style) for style in key.values()], key, loc="upper left", bbox_to_anchor=(0.004, 1 - (0.26 if title else 0.04) / high),
                       ncols=len(key), frameon=False, handlelength=1, handletextpad=0.3, columnspacing=1.2, borderpad=0, borderaxespad=0).set_in_layout(False)
    ranges = [point[1][1] < point[1][2] for _, found in drawn for line in found.values() for point in line]
    footer += "; lines and bands: 95% intervals" if any(ranges) else "; no intervals are recorded" if ranges else "; one run of each"
    picture.supxlabel(footer, x=0.995, ha="right", fontsize=7, color=GREY)
    picture.draw_without_rendering()
    picture.set_layout_engine("none")
    for axes in picture.axes:
        apart(axes)
    out = io.StringIO()
    picture.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    pyplot.close(picture)
    return smaller(out.getvalue())


THEN_AND_NOW = "What the texts reported, and what an H100 gave"


def then_and_now():
    """(title, panels, cells, footer) of docs/drawings/then_and_now.svg: a row per claim whose text states a figure."""
    rows = {}
    for path in sorted(ROOT.glob("0?_*/results/" + RECORDED)):
        heading, lines_of = results.read(path)
        stated = {row: [low, high] for _, table, row, _, _, low, high in lines_of
                  if table == "stated" and low > 0 and high != 1}  # 1: as long, as many; from 0: a bound
        for id, (statement, verdict, *number) in results.claims(lines_of).items():
            if id in stated and number[0] is not None:
                verdict = verdict.replace("computed, ", "").replace("counted, ", "")
                kind = "holds" if verdict.startswith("holds") else verdict if verdict in ("direction only", "depends") else "does not"
                rows["%s  %s" % (textwrap.shorten(statement, 60, placeholder=" ..."), id)] = {
                    kind: number, "least": [stated[id][0]], "most": [stated[id][1]]}
    panel = dots("claims", ["holds", "direction only", "does not", "depends"], "times; or cycles, KB, GB/s, a count, a share", log="x", then=["least", "most"],
                 limit=[("equal:", 1)], join=True)
    return THEN_AND_NOW, [panel], {"claims": rows}, results.gpu_of(heading)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    print(path.relative_to(ROOT) if ROOT in path.parents else path)


def stale():
    """Figures that are not of what is recorded."""
    wanted = {}
    for topic in FIGURES:
        for experiment, title, panels, cells, foot in recorded_figures(topic, ROOT / topic / "results" / RECORDED):
            wanted[ROOT / topic / "results" / (experiment + ".svg")] = mark_of(title, panels, cells, foot)
    wanted[ROOT / "docs" / "drawings" / "then_and_now.svg"] = mark_of(*then_and_now())
    for path, mark in wanted.items():
        if not path.exists() or not path.read_text(encoding="utf-8").endswith(mark):
            yield "%s is not of what is recorded: run tools/plot.py" % path.relative_to(ROOT)
    for path in ROOT.glob("0?_*/results/*.svg"):
        if path not in wanted:
            yield "%s is no figure of tools/figures.py" % path.relative_to(ROOT)


def main():
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(stale()) or 0)
    asked = [argument.rstrip("/") for argument in sys.argv[1:]]
    if len(asked) > 2 or asked and asked[0] not in [*FIGURES, "then_and_now"] or len(asked) == 2 and asked[0] == "then_and_now":
        sys.exit("plot.py: name a topic, or then_and_now: " + ", ".join(FIGURES))
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        sys.exit("plot.py: matplotlib is missing: pip install matplotlib")
    for topic in [asked[0]] if asked else FIGURES:
        if topic in FIGURES:
            path = Path(asked[1]) if len(asked) == 2 else ROOT / topic / "results" / RECORDED
            for experiment, title, panels, cells, foot in recorded_figures(topic, path):
                text = figure(title, panels, cells, foot)
                if text:
                    write(path.parent / (experiment + ".svg"), text + mark_of(title, panels, cells, foot))
    if not asked or asked[0] == "then_and_now":
        of = then_and_now()
        text = figure(*of)
        if text:
            write(ROOT / "docs" / "drawings" / "then_and_now.svg", text + mark_of(*of))


if __name__ == "__main__":
    main()
