#!/usr/bin/env python3
"""Draws Little's law: the rate at which a kernel reads, over the bytes that it has in flight per multiprocessor, for
kernels of several experiments and topics. Needs matplotlib.

    tools/draw_little.py 04_bandwidth/results/nvidia-h200.csv --swept "in_flight = in_flight" \\
        --dot "03_access_patterns structs read_arrays_x | 16 | 1 | SoA, x only read" -o little.svg

Two lines are the law: the bytes in flight over the latency that `in_flight` measured with one thread, and the highest rate
that `in_flight` measured. --swept "EXPERIMENT = words" draws the rows of a sweep that saved its "bytes in flight".
--dot "TOPIC EXPERIMENT CASE | BYTES | SHARE | words" draws a row of no sweep in which every resident thread has BYTES in
flight and reads SHARE of the bytes that the row's rate counts. Another topic's file stands beside this one: for
04_bandwidth/results/x.csv it is TOPIC/results/x.csv, for DIR/04_bandwidth.csv it is DIR/TOPIC.csv.
"""
import argparse
import pathlib

import records

COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1"]
RATES = ("rate", "bandwidth")
LEAST, MOST = 0.4, 80  # KiB in flight that are shown


def file_of(path, topic):
    if path.parent.name == "results" and (path.parents[1] / "CMakeLists.txt").exists():  # of a topic, not of a build
        return path.parents[2] / topic / "results" / path.name
    return path.with_name(f"{topic}.csv")


def value(path, found, experiment, case, metrics, kinds=("measured",)):
    for r in found:
        if (r["experiment"] == experiment and r["case"] == case and r["metric"] in metrics and r["kind"] in kinds
                and float(r["value"] or 0) > 0):
            return float(r["value"])
    raise ValueError(f"{path}: no {' or '.join(metrics)} of {f'{experiment} {case}'.strip()}")


def machine(path, found, metric):
    return value(path, found, "", "device", [metric], ["machine"])


def swept(found, experiment, multiprocessors):
    """(KiB in flight per multiprocessor, rate) of each row of the sweep that was measured."""
    in_flight, rates = {}, {}
    for r in found:
        if r["experiment"] != experiment or not r["value"] or not r["at"]:
            continue
        if r["metric"] == "bytes in flight":
            scale = 1024 if r["unit"] == "KiB" else 1
            in_flight[r["case"], r["at"]] = float(r["value"]) * scale / multiprocessors / 1024
        if r["metric"] in RATES and r["kind"] in ("measured", "calibration"):
            rates[r["case"], r["at"]] = float(r["value"])
    return sorted((in_flight[key], rates[key]) for key in in_flight if key in rates)


def dots(path, specs):
    """(KiB in flight per multiprocessor, rate, words) of each."""
    for topic, experiment, case, size, share, words in specs:
        of_topic = file_of(path, topic)
        found = records.load(of_topic)
        threads = machine(of_topic, found, "threads of a multiprocessor")
        yield threads * size / 1024, value(of_topic, found, experiment, case, RATES) * share, words


def dot(text):
    """(topic, experiment, case, bytes, share, words) of a --dot."""
    try:
        where, size, share, words = [part.strip() for part in text.split("|")]
        topic, experiment, case = where.split()
        return topic, experiment, case, float(size), float(share), words
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no 'TOPIC EXPERIMENT CASE | BYTES | SHARE | WORDS'")


def draw(path, args):
    found = records.load(path)
    multiprocessors = machine(path, found, "multiprocessors")
    latency = value(path, found, "in_flight", "chase", ["latency"], ("measured", "calibration"))
    sweeps = [(words.strip(), swept(found, name.strip(), multiprocessors))
              for name, _, words in (item.partition("=") for item in args.swept)]
    most = max((rate for _, rate in swept(found, "in_flight", multiprocessors)), default=0)
    if not most:
        raise ValueError(f"{path}: no rates of in_flight")
    single = list(dots(path, args.dot))

    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "cuda memory", "font.size": 10, "axes.spines.top": False,
                                "axes.spines.right": False})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.8))
    meet = most * latency / multiprocessors / 1024  # KiB at which the two lines cross
    axes.plot([LEAST, meet], [most * LEAST / meet, most], color="#808080", linewidth=0.9, zorder=1)
    axes.plot([meet, MOST], [most, most], color="#808080", linewidth=0.9, zorder=1)
    axes.annotate(f"bytes in flight / {latency:.0f} ns", (meet / 6, most / 6), xytext=(-8, 4), textcoords="offset points",
                  ha="right", color="#606060")
    axes.annotate(f"the memory's rate: {most:.0f} GB/s", (MOST, most), xytext=(0, 5), textcoords="offset points",
                  ha="right", color="#606060")
    for line, (colour, (words, points)) in enumerate(zip(COLOURS, sweeps)):
        axes.plot(*zip(*[point for point in points if point[0] >= LEAST]), "o", markersize=3.5, color=colour)
        axes.text(0.03, 0.95 - 0.06 * line, f"\u2022 {words}", transform=axes.transAxes, color=colour, va="top")
    for kib, rate, words in single:
        axes.plot(kib, rate, "D", markersize=6, color="#c00000")
        axes.annotate(words, (kib, rate), xytext=(0, -16), textcoords="offset points", ha="center", color="#c00000")
    axes.set(xscale="log", yscale="log", xlabel="KiB in flight per multiprocessor", ylabel="GB/s read", xlim=(LEAST, MOST))
    axes.set_xticks(ticks := [0.5 * 2 ** k for k in range(8)], [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(ticks := [200, 500, 1000, 2000, 5000], [str(tick) for tick in ticks])
    figure.tight_layout()
    figure.savefig(args.output, metadata={"Date": None} if args.output.suffix == ".svg" else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=pathlib.Path)
    parser.add_argument("--swept", action="append", default=[], metavar="EXPERIMENT = WORDS")
    parser.add_argument("--dot", action="append", type=dot, default=[], metavar="TOPIC EXPERIMENT CASE | BYTES | SHARE | WORDS")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="little.svg")
    args = parser.parse_args()
    draw(args.csv, args)


if __name__ == "__main__":
    records.run(main)
