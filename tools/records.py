"""What the tools share: reading the files that samples save with --csv, the verdicts, and the order of claims."""
import csv
import re

VERDICTS = ["holds", "holds, by more", "holds, by less", "too close to call", "does not hold", "not judged"]


def load(path):
    """The records of a results file."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if "kind" not in (reader.fieldnames or []):
            raise ValueError(f"{path}: no file that a sample saved with --csv")
        return list(reader)


def id_order(claim):
    """A key to sort the ids of claims by: 04.2a, 04.2b, 04.10."""
    match = re.fullmatch(r"(\d+)\.(\d+)([a-z]?)", claim)
    if not match:
        raise ValueError(f"'{claim}' is no claim's id; 04.8 and 04.2a are")
    return int(match[1]), int(match[2]), match[3]
