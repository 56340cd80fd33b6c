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


def plain_name(row):
    """The kernel's name without its type, namespaces, template arguments and parameters."""
    return row["Kernel Name"].split("(")[0].split("<")[0].split("::")[-1].split()[-1]


def is_number(text):
    return text.replace(",", "").replace(".", "", 1).isdigit()


def is_counted(metric):
    """ncu adds the time, its own passes, and the average, least and most of the units."""
    return metric.endswith(".sum") and not metric.startswith(("gpu__time", "profiler__"))


def main():
    counted_on, names, table = [], [], []
    for line in sys.stdin:
        if line.startswith("counted on: "):
            counted_on.append(line.removeprefix("counted on: ").strip())
        elif line.startswith("launch: "):
            names.append(tuple(part.strip() for part in line.removeprefix("launch: ").split(",", 1)))
        elif line.startswith('"'):
            table.append(line)
    if len(set(counted_on)) > 1:
        sys.exit("counters.py: counted on more than one GPU or program: " + "; ".join(dict.fromkeys(counted_on)))
    kernels = {kernel for kernel, _ in names}
    rows = [row for row in csv.DictReader(table) if row["ID"] and plain_name(row) in kernels]
    if len(rows) != len(names) or not rows:
        sys.exit(f"counters.py: {len(names)} launches were announced and {len(rows)} counted")
    for (kernel, _), row in zip(names, rows):
        if plain_name(row) != kernel:
            sys.exit(f"counters.py: {kernel} was announced where {plain_name(row)} was counted")

    if counted_on:
        print(f"# {counted_on[0]}")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["kernel", "parameter", "metric", "value"])
    for (kernel, parameter), row in zip(names, rows):
        for metric, value in row.items():
            if is_counted(metric) and is_number(value):
                writer.writerow([kernel, parameter, metric, f"{float(value.replace(',', '')):.0f}"])


if __name__ == "__main__":
    main()
