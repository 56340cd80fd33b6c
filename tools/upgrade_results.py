#!/usr/bin/env python3
"""Gives files that the second edition's samples saved today's columns and words.

    tools/upgrade_results.py 0?_*/results/*.csv
    tools/upgrade_results.py --by-construction 04.10a,04.10b 04_bandwidth/results/*.csv

The numbers stay as they are. "holds, by more" becomes "holds, stronger", "holds, by less" becomes "holds, weaker"; the
columns words, runs and cards are empty, but for the words of claims that hold or fail by construction, which an option
names, and for the verdict "no longer" of claims of old hardware, which another option names. A third one names claims
that were called "holds" though their range crosses a bound of the stated size: that is "holds, size open" today. Files of
counters and other files that no sample saved with --csv are left alone.
"""
import argparse
import pathlib

import records


def upgraded(found, by_construction, of_old_hardware, size_open):
    """The records with the claims in question marked; load() has done the rest."""
    for r in found:
        if r["kind"] == "claim" and r["case"] in by_construction:
            r = {**r, "words": records.BY_CONSTRUCTION}
        if r["kind"] == "claim" and r["case"] in of_old_hardware and r["metric"] == "does not hold":
            r = {**r, "metric": "no longer"}
        if r["kind"] == "claim" and r["case"] in size_open and r["metric"] == "holds":
            r = {**r, "metric": "holds, size open"}
        yield r


def ids(text):
    return set(filter(None, text.split(",")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by-construction", default="", metavar="ID,ID", help="claims that cannot come out otherwise")
    parser.add_argument("--of-old-hardware", default="", metavar="ID,ID",
                        help="claims of hardware that the text names: what does not hold holds no longer")
    parser.add_argument("--size-open", default="", metavar="ID,ID", help="claims whose range crosses a bound of the stated size")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="CSV")
    args = parser.parse_args()
    for path in args.files:
        if path.stem.endswith("-counters"):
            continue
        found = upgraded(records.load(path), ids(args.by_construction), ids(args.of_old_hardware), ids(args.size_open))
        records.save(path, found)
        print(path)


if __name__ == "__main__":
    records.run(main)
