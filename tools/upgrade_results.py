#!/usr/bin/env python3
"""Gives files that the second edition's samples saved today's columns and words.

    tools/upgrade_results.py 0?_*/results/*.csv
    tools/upgrade_results.py --by-construction 04.10a,04.10b 04_bandwidth/results/*.csv

The numbers stay as they are. "holds, by more" becomes "holds, stronger", "holds, by less" becomes "holds, weaker"; the
columns words, runs and cards are empty, but for the words of claims that hold or fail by construction, which the option
names. Files of counters and other files that no sample saved with --csv are left alone.
"""
import argparse
import pathlib
import sys

import combine
import records


def upgraded(found, by_construction):
    """The records with the claims in question marked; load() has done the rest."""
    return [{**r, "words": records.BY_CONSTRUCTION} if r["kind"] == "claim" and r["case"] in by_construction else r
            for r in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by-construction", default="", metavar="ID,ID", help="claims that cannot come out otherwise")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="CSV")
    args = parser.parse_args()
    try:
        for path in args.files:
            if path.stem.endswith("-counters"):
                continue
            combine.save(path, upgraded(records.load(path), set(filter(None, args.by_construction.split(",")))))
            print(path)
    except (OSError, ValueError) as error:
        sys.exit(f"upgrade_results.py: {error}")


if __name__ == "__main__":
    main()
