#!/usr/bin/env python3
"""Keeps of a fine sweep (--full --csv) what its figures need, so that it can stay in the repository.

    tools/thin.py full.csv --metric bandwidth --metric rate --at 32 --at 33 -o 04_bandwidth/results/nvidia-h200-full.csv

Of each curve of the named metrics a point is kept unless the straight line between kept neighbours passes within 0.5% of
it: a step, a peak and a cliff stay. Rows at the values of --at stay with all their metrics, and so do rows of no sweep.
"""
import argparse
import pathlib

import records

CLOSE = 0.005


def kept(points):
    """The x of the points (x, y), sorted, that the curve cannot do without."""
    stay, parts = {points[0][0], points[-1][0]}, [(0, len(points) - 1)]
    while parts:
        first, last = parts.pop()
        (x0, y0), (x1, y1) = points[first], points[last]
        worst, off = None, CLOSE
        for k in range(first + 1, last):
            x, y = points[k]
            miss = abs(y - (y0 + (y1 - y0) * (x - x0) / (x1 - x0))) / max(abs(y), 1e-300)
            if miss > off:
                worst, off = k, miss
        if worst is not None:
            stay.add(points[worst][0])
            parts += [(first, worst), (worst, last)]
    return stay


def thin(found, metrics, places):
    """The records that stay, in their order."""
    curves = {}
    for r in found:
        if r["parameter"] and r["metric"] in metrics and r["value"] and r["kind"] != "predicted":
            curves.setdefault((r["experiment"], r["case"], r["metric"]), {})[float(r["at"])] = float(r["value"])
    stay = {curve: kept(sorted(points.items())) for curve, points in curves.items()}

    def is_kept(r):
        if r["kind"] in records.NOT_IN_TABLES or r["metric"] == "reported" or not r["parameter"]:
            return True
        curve = r["experiment"], r["case"], r["metric"]
        return r["at"] in places or r["kind"] != "predicted" and curve in stay and float(r["at"]) in stay[curve]

    return [r for r in found if is_kept(r)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=pathlib.Path, help="what a sample saved with --full --csv")
    parser.add_argument("--metric", action="append", required=True, help="that a figure draws; may be given several times")
    parser.add_argument("--at", action="append", default=[], help="a value of the sweep whose rows stay; also several times")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    found = records.load(args.csv)
    missing = set(args.metric) - {r["metric"] for r in found}
    if missing:
        raise ValueError(f"{args.csv} has no {', '.join(sorted(missing))}")
    stay = thin(found, args.metric, args.at)
    records.save(args.output, stay)
    print(f"{len(stay)} of {len(found)} rows stay")


if __name__ == "__main__":
    records.run(main)
