#!/usr/bin/env python3
"""Makes one results file of what a sample saved in several runs, each in a process of its own, on one GPU.

    tools/combine.py run-1.csv run-2.csv run-3.csv run-4.csv run-5.csv -o 04_bandwidth/results/nvidia-h200.csv

A value is the median over the runs, and low and high are the smallest and the largest of the runs' values. The column
runs says in how many of them the row stood; what most of them do not have is left out, and named. A claim gets the
verdict that more than half of the runs gave. Where there is none it is "holds, size open" if it holds in every run, in
whatever strength, and else "too close to call". What it says was found is what the run with the median value said. A log
(rows by event) is that of the first run. repeats stays that of one run.
"""
import argparse
import collections
import pathlib
import statistics

import records

SAME = ["topic", "gpu", "cc", "driver", "toolkit"]  # of all records of all runs
WITH_RANGE = ("measured", "calibration", "ratio", "claim")


def key(record):
    """What a record is in every run: what a claim, a finding or the machine says in words may differ."""
    if record["kind"] in ("claim", "finding", "left out"):
        return record["topic"], record["experiment"], record["case"], record["kind"]
    return tuple(record[column] for column in records.KEY if column != "at" or record["kind"] != "machine")


def numbered(found):
    """The records of a run by their keys; the second of one key has the number 1, and so on."""
    seen = collections.Counter()
    by_key = {}
    for record in found:
        name = key(record)
        by_key[name, seen[name]] = record
        seen[name] += 1
    return by_key


def order(runs):
    """The keys of all runs, in the first one's order; what another has besides stands behind what it stands behind
    there."""
    names = list(runs[0])
    known = set(names)
    for run in runs[1:]:
        before = None
        for name in run:
            if name not in known:
                names.insert(names.index(before) + 1 if before else 0, name)
                known.add(name)
            before = name
    return names


def median_record(rows):
    """The record with the median of the values; of an even number the lower one. None if there are no values."""
    with_value = sorted((row for row in rows if row["value"]), key=lambda row: float(row["value"]))
    return with_value[(len(with_value) - 1) // 2] if with_value else None


def verdict(votes, runs):
    """The verdict of all runs from those that each of them gave."""
    most, count = collections.Counter(votes).most_common(1)[0]
    if 2 * count > runs:
        return most
    if len(votes) == runs and all(map(records.holds, votes)):
        return "holds, size open"
    return "too close to call"


def of_claim(rows, runs):
    chosen = verdict([row["metric"] for row in rows], runs)
    record = median_record(rows) or next((row for row in rows if row["metric"] == chosen), rows[0])
    return {**record, "metric": chosen}


def of_rows(rows):
    """One record of a row whose values are numbers."""
    record = median_record(rows)
    values = [float(row["value"]) for row in rows if row["value"]]
    if len(values) % 2 == 0 and values:
        record = {**record, "value": f"{statistics.median(values):.12g}"}
    return record or rows[0]


def combined(rows, runs):
    """One record of what the runs have of it."""
    if rows[0]["parameter"] == "event":  # a line of one run's log, for which no line of another stands
        return {**rows[0], "runs": "1", "cards": "1"}
    is_claim = rows[0]["kind"] == "claim"
    record = of_claim(rows, runs) if is_claim else of_rows(rows)
    if record["kind"] == "machine":  # such as reasons for throttling, whichever run had them
        record = {**record, "at": "; ".join(dict.fromkeys(row["at"] for row in rows if row["at"]))}
    ends = sorted((row["value"] for row in rows if row["value"]), key=float)
    if ends and (record["kind"] in WITH_RANGE or record["kind"] != "predicted" and float(ends[0]) != float(ends[-1])):
        record = {**record, "low": ends[0], "high": ends[-1]}
    return {**record, "repeats": rows[0]["repeats"], "runs": str(len(rows)), "cards": "1"}


def require_one_machine(all_found):
    """Throws ValueError where two runs are not of one sample on one GPU."""
    for column in SAME:
        values = {record[column] for found in all_found for record in found if record[column]}
        if len(values) > 1:
            raise ValueError(f"the runs differ in {column}: {', '.join(sorted(values))}")
    if any(record["runs"] for found in all_found for record in found):
        raise ValueError("one of the files is itself made of several runs")
    if not all(all_found):
        raise ValueError("one of the files holds no records")


def combine(all_found):
    """The records of one file, and a line for each thing that the runs do not agree on."""
    require_one_machine(all_found)
    runs = [numbered(found) for found in all_found]
    result, notes, missing = [], [], collections.Counter()
    for name in order(runs):
        rows = [run[name] for run in runs if name in run]
        if 2 * len(rows) <= len(runs) and rows[0]["parameter"] != "event":
            missing[rows[0]["experiment"]] += 1
            continue
        if rows[0]["parameter"] == "event" and name not in runs[0]:
            continue
        result.append(combined(rows, len(runs)))
        votes = collections.Counter(row["metric"] for row in rows)
        if rows[0]["kind"] == "claim" and len(votes) > 1:
            given = "; ".join(f"{vote}: {count}" for vote, count in votes.most_common())
            notes.append(f"{rows[0]['case']}: {given}; so {result[-1]['metric']}")
    notes += [f"{experiment}: {count} rows that most runs do not have are left out" for experiment, count in missing.items()]
    return result, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="CSV", help="what the runs saved with --csv")
    args = parser.parse_args()
    if len(args.runs) < 2:
        parser.error("one run is no several: name two files or more")
    found, notes = combine([records.load(path) for path in args.runs])
    records.save(args.output, found)
    print(f"{args.output}: {len(found)} rows of {len(args.runs)} runs")
    for note in notes:
        print(f"  {note}")


if __name__ == "__main__":
    records.run(main)
