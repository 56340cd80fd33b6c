#!/usr/bin/env python3
"""Turns what Nsight Compute counted into a file of counters (kernel,parameter,metric,value).

    ncu --csv --page raw --clock-control none --metrics M1,M2 SAMPLE --test-case="*: profile launches" |
        tools/counters.py > FILE

A "profile launches" case launches each kernel to be counted once, and before that prints "launch: KERNEL,PARAMETER".
The n-th such line names the n-th counted launch; launches of other kernels in between are left out by ncu's -k or,
here, by their name. Before its first launch the case prints "counted on: gpu UUID, program HASH", which becomes the
first line of the file, "# gpu UUID, program HASH", by which a sample's --counters knows the counts of this run.

A topic's results/<gpu>-counters.csv is such a file without the random patterns, which only counts of this run are
compared with: `grep -v _pattern, FILE`.
"""
import csv
import sys

import records


def plain_name(row):
    """The kernel's name without its type, namespaces, template arguments and parameters."""
    words = row["Kernel Name"].split("(")[0].split("<")[0].split("::")[-1].split()
    return words[-1] if words else ""


def whole_number(text):
    if not text.isdigit():
        raise ValueError(f"'{text}' is no launch's ID")
    return int(text)


def is_count(text):
    return text.replace(",", "").replace(".", "", 1).isdigit()


def is_counted(metric):
    """ncu adds the time, its own passes, and the average, least and most of the units."""
    return metric.endswith(".sum") and not metric.startswith(("gpu__time", "profiler__"))


def main():
    counted_on, names, table = [], [], []
    for line in records.decoded(sys.stdin.buffer.read(), "standard input").splitlines(keepends=True):
        if line.startswith("counted on: "):
            counted_on.append(line.removeprefix("counted on: ").strip())
        elif line.startswith("launch: "):
            kernel, comma, parameter = line.removeprefix("launch: ").partition(",")
            if not comma:
                raise ValueError(f"a launch is announced as 'KERNEL,PARAMETER', not as '{kernel.strip()}'")
            names.append((kernel.strip(), parameter.strip()))
        elif line.startswith('"'):
            table.append(line)
    if len(set(counted_on)) > 1:
        raise ValueError("counted on more than one GPU or program: " + "; ".join(dict.fromkeys(counted_on)))
    if not names or not table:
        raise ValueError(f"{len(names)} launches were announced and none counted" if names else "no launch was announced")
    kernels = {kernel for kernel, _ in names}
    rows = [row for _, row in records.table("".join(table), "ncu's table", ["ID", "Kernel Name"]) if row["ID"]]
    places = [whole_number(row["ID"]) for row in rows]
    if places != sorted(set(places)):
        raise ValueError("ncu's table is not in the order of the launches: its IDs do not rise")
    rows = [row for row in rows if plain_name(row) in kernels]
    if len(rows) != len(names):
        raise ValueError(f"{len(names)} launches were announced and {len(rows)} counted")
    for (kernel, _), row in zip(names, rows):
        if plain_name(row) != kernel:
            raise ValueError(f"{kernel} was announced where {plain_name(row)} was counted")

    if counted_on:
        print(f"# {counted_on[0]}")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["kernel", "parameter", "metric", "value"])
    for (kernel, parameter), row in zip(names, rows):
        for metric, value in row.items():
            if is_counted(metric) and is_count(value):
                writer.writerow([kernel, parameter, metric, f"{float(value.replace(',', '')):.0f}"])


if __name__ == "__main__":
    records.run(main)
