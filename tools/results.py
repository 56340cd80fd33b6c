"""Reads what --csv saved."""
import csv
import sys

HEADER = ["experiment", "table", "row", "column", "value", "low", "high"]


def number(text):
    return float(text) if text else None


def row_of(line):
    if len(line) != len(HEADER):
        raise ValueError("a line has %d fields, not %d" % (len(line), len(HEADER)))
    return (*line[:4], *map(number, line[4:]))


def read(path):
    """(heading, rows): "04_bandwidth on NVIDIA H200, ...", and of each row experiment, table, row, column and three
    numbers or None. Ends the program with one line if the file is none of ours."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            heading = file.readline().strip()
            lines = list(csv.reader(file))
        if not heading.startswith("# ") or " on " not in heading or not lines or lines[0] != HEADER:
            raise ValueError("it does not begin as --csv writes it")
        return heading[2:], [row_of(line) for line in lines[1:]]
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        sys.exit("%s: %s" % (path, getattr(error, "strerror", None) or error))


def gpu_of(heading):
    """"NVIDIA H200" of "04_bandwidth on NVIDIA H200, compute capability 9.0, ..." """
    return heading.split(" on ", 1)[1].split(",")[0]
