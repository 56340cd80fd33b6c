"""Reads what --csv saved, and finds what was recorded."""
import csv
import math
import sys
from pathlib import Path

if sys.version_info < (3, 8):  # every tool but machine_code.py reads this file
    sys.exit("Python 3.8 or later is needed; this is %d.%d" % sys.version_info[:2])

HEADER = ["experiment", "table", "row", "column", "value", "low", "high"]
ROOT = Path(__file__).resolve().parent.parent
NO_NUMBERS = ("claim", "compared", "stated", "votes", "failed")  # tables that hold something else


def number(text):
    value = float(text) if text else None
    if value is not None and not math.isfinite(value):
        raise ValueError("%s is no number" % text)
    return value


def row_of(line, number_of_line):
    if len(line) != len(HEADER):
        raise ValueError("line %d has %d fields, not %d" % (number_of_line, len(line), len(HEADER)))
    numbers = [*map(number, line[4:])]
    if 0 < numbers.count(None) < 3:
        raise ValueError("a number without its interval: %s" % line[2][:60])
    return (*line[:4], *numbers)


def read(path):
    """(heading, rows): "04_bandwidth on NVIDIA H200, ...", and of each row experiment, table, row, column and three
    numbers or None. Ends the program with one line if the file is none of ours."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            heading = file.readline().strip()
            lines = list(csv.reader(file))
        if not heading.startswith("# ") or " on " not in heading or not lines or lines[0] != HEADER:
            raise ValueError("it does not begin as --csv writes it")
        return of_topic(heading[2:]), [row_of(line, n) for n, line in enumerate(lines[1:], 3)]
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        sys.exit("%s: %s" % (path, " ".join(str(getattr(error, "strerror", None) or error).split())))


def of_topic(heading):
    """What a sample alone has saved is a part of its topic: "03_access_patterns on ..." of "structs on ..." """
    name = topic_of(heading)
    files = [file for file in ROOT.glob("0?_*/*.cu") if file.stem == name]
    return (files[0].parent.name if files else name) + heading[len(name):]


def topic_of(heading):
    return heading.split(" on ", 1)[0]


def gpu_of(heading):
    """"NVIDIA H200" of "04_bandwidth on NVIDIA H200, compute capability 9.0, ..." """
    return heading.split(" on ", 1)[1].split(",")[0]


def date_of(heading):
    return next((part for part in heading.split(", ") if part[:2] == "20" and part.count("-") == 2), "")


def is_quick(heading):
    """Whether it was a run of smaller sizes, --quick."""
    return heading.endswith(", quick")


def failed(rows):
    """{experiment: why} of those that did not end."""
    return {experiment: why for experiment, table, why, *_ in rows if table == "failed"}


def stated(rows):
    """{"03.1": (least, most)}: the figures that the texts state."""
    return {row: (low, high) for _, table, row, _, _, low, high in rows if table == "stated"}


def compared(rows):
    """{"03.1": "as fast: 'SoA' over 'AoS'"}: what a claim compares."""
    return {row: column for _, table, row, column, *_ in rows if table == "compared"}


def claims(rows):
    """{"03.1": ("a statement", verdict, value, low, high)}"""
    return {row.partition(": ")[0]: (row.partition(": ")[2], column, *number) for _, table, row, column, *number in rows if table == "claim"}


def numbers(rows):
    """{(experiment, table, row, column): (value, low, high)}, without the claims'."""
    return {tuple(key): (value, low, high) for *key, value, low, high in rows if key[1] not in NO_NUMBERS and value is not None}


def recorded(root=ROOT):
    """{topic: [(heading, rows)]} of what stands in the topics' results."""
    found = {}
    for path in sorted(root.glob("0?_*/results/*.csv")):
        heading, rows = read(path)
        found.setdefault(topic_of(heading), []).append((heading, rows))
    return found


def nearest(heading, records):
    """Of records of a topic that of the same GPU, else that of the nearest compute capability; or None."""
    def capability(text):
        try:
            return float(text.partition("compute capability ")[2].split(",")[0])
        except ValueError:
            return 0.0
    return min(records, default=None, key=lambda record: (gpu_of(record[0]) != gpu_of(heading), abs(capability(record[0]) - capability(heading))))
