#!/usr/bin/env python3
"""Compares what a sample saved twice: on two GPUs, by two drivers, before and after a change.

    tools/compare.py 04_bandwidth/results/nvidia-h200.csv build/release/results/04_bandwidth.csv
    tools/compare.py --parts A.csv B.csv                   the parts of claims only
    tools/compare.py --all A.csv B.csv                     every row that differs, not the 25 that differ most
    tools/compare.py --keys OLD.csv NEW.csv                that only names of rows changed: tools/rename_keys.py

Names the parts whose verdicts differ or whose ranges (95% of the median) do not meet, and the rows whose ranges do not
meet, the largest difference first. The range of a row that was measured is 10 to 90% of its measurements, and never
less than 1% to either side, for what one run cannot see; that of a ratio is the one by which it is judged. Where a file
keeps the medians of several runs (column runs), the range is that over the runs. What was saved without a range is not
compared. A count is exact: it differs if it is another one. What stands by event is a log, and is not compared. What was
predicted follows from what was measured and is not compared; nor is what is said of the machine. The exit code is 0 if
nothing differs, 1 if something does or a file cannot be read, 2 if the command line is wrong.
"""
import argparse
import pathlib
import sys

import records


UNSEEN = 0.01  # of a measured value: what one run cannot see
MOST = 25  # rows that are shown unless all are asked for


def bounds(record):
    """The range of a record; an end that was not saved is the value itself. None if there is no value."""
    if not record["value"]:
        return None
    value = float(record["value"])
    low, high = (float(record[end]) if record[end] else value for end in ("low", "high"))
    unseen = UNSEEN * abs(value) if record["kind"] in ("measured", "calibration") else 0  # a claim's range has it
    return min(low, value - unseen), max(high, value + unseen)


def apart(one, other):
    """Whether two records' ranges do not meet. What only one of them has a value of is apart."""
    a, b = bounds(one), bounds(other)
    if a is None or b is None:
        return a is not b
    return a[1] < b[0] or b[1] < a[0]


def ratio(one, other):
    """The second over the first; None where one of them is zero or there is none."""
    values = [float(record["value"] or 0) for record in (one, other)]
    return values[1] / values[0] if all(values) else None


def rows(found):
    """The records that were counted, or measured with a range, by what they are."""
    kinds = {"measured": "measured", "calibration": "measured", "counted": "counted", "ratio": "ratio"}  # which rows calibrate may change
    return {(r["experiment"], r["case"], r["parameter"], r["at"], kinds[r["kind"]], r["metric"], r["unit"]): r
            for r in found if r["kind"] in kinds and r["value"] and (r["kind"] == "counted" or r["low"] and r["high"])
            and r["parameter"] != "event"}  # the log of one run, in which no line stands for one of another


def with_range(record):
    value, low, high = (records.number(record[name], 4) if record[name] else "" for name in ("value", "low", "high"))
    return value + (f" ({low} to {high})" if low != high else "")


def differing_parts(one, other):
    """(id, statement, a line for each file) of each part that both have and that differs."""
    for part, claim in one.items():
        there = other.get(part)
        verdicts_differ = there is not None and there["metric"] != claim["metric"]
        if there is not None and (verdicts_differ or claim["unit"] == there["unit"] and apart(claim, there)):
            lines = [": ".join(filter(None, [c["metric"] + records.mark(c), records.size_text(c, may_be_equal=False) or (c["at"] if verdicts_differ else "")]))
                     for c in (claim, there)]
            yield part, claim["parameter"], lines


def differing_rows(one, other):
    """(key, the two records, their ratio) of each row that both have and that differs, the largest difference first."""
    found = [(key, r, other[key], ratio(r, other[key])) for key, r in one.items() if key in other and apart(r, other[key])]

    def size(item):
        factor = item[3]
        return max(factor, 1 / factor) if factor and factor > 0 else float("inf")

    return sorted(found, key=size, reverse=True)


def only_in(one, other, names):
    """A line for what one of two files has and the other has not, by experiment."""
    for name, here, there in ((names[0], one, other), (names[1], other, one)):
        missing = [key[0] for key in here if key not in there]
        if missing:
            counts = ", ".join(f"{experiment} {missing.count(experiment)}" for experiment in dict.fromkeys(missing))
            yield f"only in {name}: {counts}"


def show(files, found, with_rows, most):
    """Prints what differs. Whether something does."""
    names = ["A", "B"]
    for name, path, of_file in zip(names, files, found):
        r = next((r for r in of_file if r["gpu"]), of_file[0])
        what = f"{r['gpu']}, driver for CUDA {r['driver']}, toolkit {r['toolkit']}, {r['date']}" if r["gpu"] else "no GPU"
        print(f"{name}: {path}: {r['topic']}, {what}")
    claims = [records.claims(of_file) for of_file in found]
    parts = list(differing_parts(*claims))
    print(f"{len(parts)} of {len(claims[0].keys() & claims[1].keys())} parts differ" + (":" if parts else ""))
    for part, statement, lines in parts:
        print(f"  {part}  {statement}")
        for name, line in zip(names, lines):
            print(f"    {name}  {line}")
    for line in only_in(*[{(part,): None for part in of_file} for of_file in claims], names):
        print(f"  {line}")
    if not with_rows:
        return bool(parts)

    measured = [rows(of_file) for of_file in found]
    different = differing_rows(*measured)
    print(f"{len(different)} of {len(measured[0].keys() & measured[1].keys())} rows differ" + (":" if different else ""))
    for (experiment, case, parameter, at, _, metric, unit), one, other, factor in different[:most]:
        name = ", ".join(filter(None, [case, f"{at} {parameter}".strip() if parameter else at, metric]))
        times = f"  {records.number(factor)}x" if factor else ""
        print(f"  {experiment}: {name}: {with_range(one)} -> {with_range(other)} {unit}".rstrip() + times)
    if len(different) > most:
        print(f"  and {len(different) - most} that differ less: --all shows them")
    for line in only_in(*measured, names):
        print(f"  {line}")
    return bool(parts or different)


VALUES = ["topic", "experiment", "kind", "metric", "unit", "value", "low", "high", "repeats", "gpu", "cc", "driver", "toolkit",
          "date"]
NAMES = ["case", "parameter", "at"]


def only_names_changed(old, new):
    """What is wrong if rows were to get other names and nothing else: a line each. The old rows stand in the new file in
    their order, with the same values; a row that had one name has one name, and no two have got the same. (Where the old
    file has two calibrating rows with one name, the second is another row.)"""
    names, taken, place, calibrating = {}, {}, 0, set()
    for number, r in enumerate(old, 1):
        values = [r[field] for field in VALUES]
        found = place
        while found < len(new) and [new[found][field] for field in VALUES] != values:
            found += 1
        if found == len(new):
            yield f"record {number} has no place in the new file: {', '.join(filter(None, r.values()))}"
            continue
        place = found + 1
        before = (r["experiment"], *(r[field] for field in NAMES))
        if r["kind"] == "calibration":
            before += ("(again)",) if (*before, r["metric"]) in calibrating else ()
            calibrating.add((*before, r["metric"]))
        after = (r["experiment"], *(new[found][field] for field in NAMES))
        if names.setdefault(before, after) != after:
            yield f"{' | '.join(before)} became both {' | '.join(names[before])} and {' | '.join(after)}"
        if taken.setdefault(after, before) != before:
            yield f"{' | '.join(taken[after])} and {' | '.join(before)} both became {' | '.join(after)}"


def show_keys(old, new):
    """Prints what else than names of rows changed. Whether something did."""
    wrong = list(only_names_changed(old, new))
    for line in wrong:
        print(line)
    kinds = [r["kind"] for r in new]
    added = ", ".join(f"{kinds.count(kind) - count} {kind}" for kind in dict.fromkeys(kinds)
                      for count in [sum(r["kind"] == kind for r in old)] if kinds.count(kind) > count)
    print(f"{len(old)} records, {len(wrong)} of them wrong; added: {added or 'none'}")
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", action="store_true", help="compare the parts of claims only")
    parser.add_argument("--all", action="store_true", help=f"show every row that differs, not only {MOST}")
    parser.add_argument("--keys", action="store_true", help="check that rows got other names, and nothing else changed")
    parser.add_argument("files", nargs=2, type=pathlib.Path, metavar="CSV", help="what a sample saved with --csv")
    args = parser.parse_args()
    found = [records.load(path) for path in args.files]
    for path, of_file in zip(args.files, found):
        if not of_file:
            raise ValueError(f"{path}: no records")
    topics = [{r["topic"] for r in of_file} for of_file in found]
    if topics[0] != topics[1]:
        parser.error("two topics: " + " and ".join(" ".join(sorted(names)) for names in topics))
    sys.exit(show_keys(*found) if args.keys else show(args.files, found, not args.parts, sys.maxsize if args.all else MOST))


if __name__ == "__main__":
    records.run(main)
