#!/usr/bin/env python3
"""Draws an experiment of a saved CSV, as SVG or PNG by the name of the output file. Needs matplotlib.

In words: --name "KEY = words" for a case or a metric, and with bars only the cases that are named; --direct puts these words
beside the curves, draws what was measured as points and predictions as thin lines, with --steps as steps; --mark "8 = words"
marks a place of the axis; --line "copy_engine = words" draws a case's value across the bars. "=" has a space on either side.

    tools/plot.py results.csv latency -o latency.svg
    tools/plot.py results.csv transpose --metric rate -o transpose.png
    tools/plot.py results.csv in_flight --over "bytes in flight" --metric rate --metric "rate by latency" -o in_flight.svg
    tools/plot.py results.csv locality --metric rate --grouped --name "row_loads_memory = row, loads" \
        --name "row_array_memory = row, array" -o row.svg

A sweep (rows with a numeric `at`) becomes a line for each case, with the band from low to high, which CONTRIBUTING.md
explains; predictions are dashed. Other rows become bars. A case is called by its words where the file has them; --case
names its key. Axes carry the parameter and the metric with its unit. Several metrics of one unit share the figure.
"""
import argparse
import math
import pathlib
import sys

import drawing
import records


def in_words(text):
    """("8", "a sector per lane") of "8 = a sector per lane"."""
    key, equals, words = text.partition(" = ")
    if not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is no 'KEY = WORDS'")
    return key.strip(), words.strip()


def numeric(text):
    try:
        float(text)
        return True
    except ValueError:
        return False


def choose(found, args):
    """The records to draw, their metric, and the parameter of the sweep (empty for bars)."""
    shown = [{**r, "key": r["case"]} for r in found if r["experiment"] == args.experiment and r["kind"] in ("measured", "counted", "predicted") and r["value"]]
    if not shown:
        sys.exit(f"plot.py: {args.csv} has no numbers of '{args.experiment}'")
    sweeps = {r["parameter"] for r in shown if r["parameter"] and numeric(r["at"])}
    if args.parameter is not None:
        parameter = args.parameter
    else:
        count = lambda p: sum(r["parameter"] == p for r in shown)
        parameters = [r["parameter"] for r in shown]
        parameter = max(sorted(sweeps), key=count) if sweeps else "" if "" in parameters else parameters[0]
    shown = [r for r in shown if r["parameter"] == parameter and (not args.at or r["at"] in args.at)]
    if parameter not in sweeps:  # words, not numbers: bars
        parameter = ""
    shown = [r for r in shown if not parameter or numeric(r["at"])]
    if not shown:
        sys.exit(f"plot.py: '{args.experiment}' has no sweep over '{parameter}'; it has: {', '.join(sorted(sweeps)) or 'none'}")
    first = next((r for r in shown if r["kind"] == "measured"), shown[0])
    metrics = args.metric or [first["metric"]]
    chosen = [r for r in shown if r["metric"] in metrics and (not args.case or r["case"] in args.case)]
    for metric in [m for m in metrics + [args.over] if m]:
        if not any(r["metric"] == metric for r in (chosen if metric in metrics else shown)):
            sys.exit(f"plot.py: no '{metric}'; '{args.experiment}' has: {', '.join(dict.fromkeys(r['metric'] for r in shown))}")
    if len(metrics) > 1 and len({r["unit"] for r in chosen}) > 1:
        sys.exit(f"plot.py: {', '.join(metrics)} have not one unit")
    if args.over:  # each row's place is the other metric's value for the same case and point
        places = {(r["case"], r["at"]): r for r in shown if r["metric"] == args.over}
        chosen = [{**r, "at": places[r["case"], r["at"]]["value"]} for r in chosen if (r["case"], r["at"]) in places]
        unit = next(iter(places.values()))["unit"]
        parameter = f"{args.over} ({unit})" if unit else args.over
        chosen = one_prediction(chosen)
    words = {**records.names(shown), **dict(args.name)}
    return [{**r, "case": words.get(r["case"], r["case"])} for r in chosen], metrics, parameter


def one_prediction(found):
    """A prediction that depends on the place alone, whatever the case, becomes one line."""
    kept, seen = [], {}
    for r in found:
        if r["kind"] != "predicted":
            kept.append(r)
        elif seen.setdefault((r["metric"], r["at"]), r["value"]) != r["value"]:
            return found
    firsts = {}
    for r in found:
        if r["kind"] == "predicted":
            firsts.setdefault((r["metric"], r["at"]), {**r, "case": ""})
    return kept + list(firsts.values())


def bytes_text(value, _=None):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:g} {unit}"
        value /= 1024


def spread_out(places, apart):
    """Places from low to high, moved as little as keeps each so far above the one before."""
    moved = []
    for place in places:
        moved.append(max(place, moved[-1] + apart) if moved else place)
    return moved


def draw_direct(axes, found, args):
    """The curves of a sweep: points for what was measured, thin lines for predictions, and words at their right ends."""
    words = dict(args.name)
    series = {}
    for r in found:
        series.setdefault((r["kind"], r["key"], r["metric"]), []).append((float(r["at"]), float(r["value"])))
        if r.get("calibrates"):  # the prediction goes through it
            series.setdefault(("predicted", r["key"], r["metric"]), []).append((float(r["at"]), float(r["value"])))
    of_kind = [kind for kind, _, _ in series]
    cases, metrics = ({key[k] for key in series} for k in (1, 2))
    ends = []
    for (kind, case, metric), points in series.items():
        x, y = zip(*sorted(points))
        name = ", ".join(words.get(name, name) for name, several in ((case, len(cases) > 1), (metric, len(metrics) > 1)) if several)
        measured = kind != "predicted"
        said = (name if of_kind.count(kind) > 1 else "measured") if measured else f"predicted {name}".strip()
        colour = "C0" if measured and len(cases) == 1 else f"C{sorted(cases).index(case)}" if measured else "#606060"
        axes.plot(x, y, linestyle="none" if measured else "-" if args.steps or of_kind[:len(ends)].count("predicted") == 0 else "--", marker="o" if measured else None, markersize=4.5,
                  linewidth=0.9, color=colour, zorder=3 if measured else 2,
                  drawstyle="steps-mid" if args.steps and not measured else "default")
        ends.append((y[-1], x[-1], said, colour))
    return ends


def label_ends(axes, ends):
    """Writes each curve's words to the right of its last point, none over another."""
    to_pixels = axes.transData.transform
    ends = sorted(ends)
    heights = spread_out([to_pixels((x, y))[1] for y, x, _, _ in ends], 13)
    for (y, x, said, colour), height in zip(ends, heights):
        shift = (height - to_pixels((x, y))[1]) * 72 / axes.figure.dpi
        axes.annotate(said, (x, y), xytext=(8, shift), textcoords="offset points", va="center", color=colour, fontsize=9)


def draw(found, metrics, parameter, args):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "cuda memory", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    unit = next(r["unit"] for r in found)
    label = unit if len(metrics) > 1 and unit else metrics[0] if not unit or unit == metrics[0] else f"{metrics[0]} ({unit})"
    named = {r["case"] for r in found if r["case"]}
    several = len({r["metric"] for r in found if r["case"]}) > 1

    def name_of(r):  # a line is called by its case, by its metric where that is what differs
        with_metric = several or len(metrics) > 1 and not r["case"]
        with_case = not several or len(named) > 1
        return ", ".join(filter(None, [r["case"] if with_case else "", r["metric"] if with_metric else ""]))

    if not (args.direct and parameter):
        found = [{**r, "case": name_of(r)} for r in found]
    cases = list(dict.fromkeys((r["case"], r["kind"]) for r in found))
    if parameter:
        figure, axes = plt.subplots(figsize=(8, 4.5))
        colours = {case: f"C{i % 10}" for i, case in enumerate(dict.fromkeys(case for case, _ in cases))}
        xs = sorted({float(r["at"]) for r in found})
        wide = xs[0] > 0 and xs[-1] / xs[0] > 50 and not args.linear_x
        position = math.log if wide else float
        ends = draw_direct(axes, found, args) if args.direct else []
        for case, kind in cases if not args.direct else []:
            points = sorted((float(r["at"]), float(r["value"]), float(r["low"] or r["value"]), float(r["high"] or r["value"]))
                            for r in found if (r["case"], r["kind"]) == (case, kind))
            x, y, _, _ = zip(*points)
            name = case if kind != "predicted" else f"{case} (predicted)"
            axes.plot(x, y, "--" if kind == "predicted" else "-", marker=None if kind == "predicted" or len(x) > 60 else "o",
                      markersize=3.5, color=colours[case], label=name)
            if kind == "measured":
                x, low, high = zip(*drawing.outline(points, position))
                axes.fill_between(x, low, high, color=colours[case], alpha=0.2, linewidth=0)
        if wide:
            axes.set_xscale("log", base=2)
        if parameter == "footprint" or parameter.endswith("bytes"):
            powers = [2.0**e for e in range(0, 50, 2) if xs[0] <= 2.0**e <= xs[-1]]
            axes.xaxis.set_major_locator(FixedLocator(powers))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(bytes_text))
        elif wide:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        if args.log_y:
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            plain = FuncFormatter(lambda v, _: f"{v:g}")
            axes.yaxis.set_major_formatter(plain)
            axes.yaxis.set_minor_formatter(plain if high < 30 * low else NullFormatter())
        else:
            axes.set_ylim(bottom=0)
        if args.ticks:
            axes.xaxis.set_major_locator(FixedLocator([float(tick) for tick in args.ticks.split(",")]))
            axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(args.xlabel or parameter)
        axes.set_ylabel(args.ylabel or label)
        axes.grid(alpha=0.25)
        if args.log_y and args.direct:  # 1, 2 and 5 of each power, in digits
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_minor_locator(NullLocator())
        for place, words in args.mark:
            axes.axvline(float(place), color="#a0a0a0", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
            axes.annotate(words, (float(place), 1), xycoords=("data", "axes fraction"), xytext=(-3, -2), textcoords="offset points",
                          rotation=90, va="top", ha="right", fontsize=8, color="#606060")
        if args.direct:
            label_ends(axes, ends)
        elif len(cases) > 1 or cases[0][0]:
            axes.legend(frameon=False, fontsize=9)
    elif args.grouped:
        of = {key: said.rsplit(", ", 1) for key, said in args.name}
        groups, bars = (list(dict.fromkeys(pair[k] for pair in of.values())) for k in (0, 1))
        places = {key: groups.index(group) + 0.84 * ((bars.index(bar) + 0.5) / len(bars) - 0.5) for key, (group, bar) in of.items()}
        figure, axes = plt.subplots(figsize=(8, 1.2 + 0.19 * (len(of) + len(groups))))
        value = {(r["key"], r["kind"] == "predicted"): float(r["value"]) for r in found if r["key"] in of}
        predicted = {} if args.measured else {key: v for (key, of_model), v in value.items() if of_model}
        for k, bar in enumerate(bars):
            keys = [key for key in of if of[key][1] == bar and (key, False) in value]
            axes.barh([places[key] for key in keys], [value[key, False] for key in keys], 0.84 / len(bars), color=f"C{k}", label=bar)
            for key in keys:  # within the bar where there is room: the mark of its prediction may stand behind its end
                v = value[key, False]
                inside = v > 0.1 * max(value.values())
                axes.annotate(f"{v:.0f}", (v if inside else max(v, predicted.get(key, 0)), places[key]), xytext=(-4 if inside else 5, 0),
                              textcoords="offset points", va="center", ha="right" if inside else "left", fontsize=8,
                              color="white" if inside else "black")
        if predicted:
            axes.plot(list(predicted.values()), [places[key] for key in predicted], linestyle="none", marker="|", markersize=9,
                      markeredgewidth=1.6, color="black", label="predicted")
        axes.set_yticks(range(len(groups)), groups)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xlabel(args.xlabel or label)
        axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.02, 0.5))
    else:
        words = dict(args.name)
        limit = next((float(r["value"]) for r in found if args.line and r["key"] == args.line[0]), None)
        if args.line and limit is None:
            sys.exit(f"plot.py: --line: no case '{args.line[0]}'")
        if args.measured:
            found = [r for r in found if r["kind"] != "predicted"]
        if words:
            order = list(words)
            found = sorted((r for r in found if r["key"] in words), key=lambda r: order.index(r["key"]))
            found = [{**r, "case": words[r["key"]]} for r in found]
        names = list(dict.fromkeys(", ".join(filter(None, (r["case"], r["at"]))) for r in found))
        figure, axes = plt.subplots(figsize=(8, 0.9 + 0.32 * len(names)))
        kinds = list(dict.fromkeys(r["kind"] for r in found))
        for k, kind in enumerate(kinds):
            rows = [r for r in found if r["kind"] == kind]
            at = [names.index(", ".join(filter(None, (r["case"], r["at"])))) + 0.8 * ((k + 0.5) / len(kinds) - 0.5) for r in rows]
            values = [float(r["value"]) for r in rows]
            errors = [[v - float(r["low"] or v) for v, r in zip(values, rows)], [float(r["high"] or v) - v for v, r in zip(values, rows)]]
            bars = axes.barh(at, values, 0.8 / len(kinds), xerr=errors, label=kind, error_kw={"elinewidth": 0.8}, alpha=0.45 if kind == "predicted" else 1)
            if limit is None:
                axes.bar_label(bars, [f" {v:.4g}" for v in values], fontsize=8)
            else:  # within the bar where there is room: the line may pass behind its end
                for v, place in zip(values, at):
                    inside = v > 0.2 * limit
                    axes.annotate(f"{v:.4g}", (v, place), xytext=(-6 if inside else 4, 0), textcoords="offset points", va="center",
                                  ha="right" if inside else "left", color="white" if inside else "black", fontsize=8)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        if args.log_y:
            axes.set_xscale("log")
        axes.set_xlabel(args.xlabel or label)
        if limit is not None:
            axes.axvline(limit, color="#c00000", linewidth=1)
            axes.annotate(f"{args.line[1]}: {limit:.4g}", (limit, 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
                          textcoords="offset points", ha="center", color="#c00000", fontsize=9)
        if len(kinds) > 1:
            axes.legend(frameon=False, fontsize=9)
    r = found[0]
    axes.set_title(args.title or f"{r['topic']} {r['experiment']}" + (f" on {r['gpu']}" if r["gpu"] else ""), loc="left", fontsize=11)
    drawing.save(figure, args.output, bbox_inches="tight", dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what a sample saved with --csv")
    parser.add_argument("experiment")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="default: EXPERIMENT.svg")
    parser.add_argument("--metric", action="append", help="default: the first measured one; several of one unit may be given")
    parser.add_argument("--over", metavar="METRIC", help="the horizontal axis is this metric of the same row, not the parameter")
    parser.add_argument("--linear-x", action="store_true", help="no logarithmic axis of the parameter, however wide it is")
    parser.add_argument("--grouped", action="store_true", help="bars of no sweep, in groups: each --name says KEY = GROUP, BAR")
    parser.add_argument("--parameter", help='of the sweep; default: the one with most rows; "" draws the rows of no sweep as bars')
    parser.add_argument("--case", action="append", help="draw these cases only; may be given several times")
    parser.add_argument("--at", action="append", help="draw what was measured at this value of the parameter only; may be given several times")
    parser.add_argument("--log-y", action="store_true", help="logarithmic axis of the metric")
    parser.add_argument("--name", action="append", default=[], type=in_words, metavar="KEY = WORDS",
                        help="what a case or a metric is called; with bars, cases in this order and no others")
    parser.add_argument("--direct", action="store_true", help="labels beside the curves, measured points, predictions as thin lines")
    parser.add_argument("--steps", action="store_true", help="with --direct: predictions as steps, of a model that jumps from value to value")
    parser.add_argument("--mark", action="append", default=[], type=in_words, metavar="PLACE = WORDS", help="a place of the horizontal axis")
    parser.add_argument("--ticks", help="of the horizontal axis: 1,2,4,8")
    parser.add_argument("--line", type=in_words, metavar="CASE = WORDS", help="a case's value as a line across the bars")
    parser.add_argument("--measured", action="store_true", help="no predictions")
    parser.add_argument("--xlabel", help="of the horizontal axis")
    parser.add_argument("--ylabel", help="of the vertical axis")
    parser.add_argument("--title")
    args = parser.parse_args()
    args.output = args.output or pathlib.Path(args.experiment + ".svg")
    if args.output.suffix not in (".svg", ".png"):
        parser.error("the output's name ends in .svg or .png")
    found = records.load(args.csv)
    for record in found:
        if record["kind"] == "calibration":  # what it calibrated a model for was measured like the rest
            record["kind"], record["calibrates"] = "measured", True
    draw(*choose(found, args), args)


if __name__ == "__main__":
    records.run(main)
