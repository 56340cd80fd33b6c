"""What the tools share: reading the files that samples save with --csv, the verdicts, the order of claims, and which
GPUs have results in the repository."""
import collections
import csv
import math
import pathlib
import re

COLUMNS = ["topic", "experiment", "case", "parameter", "at", "kind", "metric", "unit", "value", "low", "high", "repeats",
           "gpu", "cc", "driver", "toolkit", "date"]
ADDED = ["words", "runs", "cards"]  # columns that files of the second edition do not have
KEY = ["topic", "experiment", "case", "parameter", "at", "kind", "metric", "unit"]  # what a row is, in every run

VERDICTS = ["holds", "holds, stronger", "holds, weaker", "holds, size open", "depends", "too close to call", "no longer",
            "does not hold", "not judged"]
OLD_VERDICTS = {"holds, by more": "holds, stronger", "holds, by less": "holds, weaker"}
BY_CONSTRUCTION = "by construction"  # in `words` of a claim that cannot come out otherwise on any GPU
DAGGER = "\u2020"
TALLY = [*VERDICTS, BY_CONSTRUCTION]  # what parts are counted by
NOT_IN_TABLES = ("claim", "finding", "left out", "machine", "model", "ratio")  # kinds that are no rows of a table


def load(path):
    """The records of a results file, those of an older edition in today's columns and words."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [column for column in COLUMNS if column not in (reader.fieldnames or [])]
        if missing:
            raise ValueError(f"{path}: no file that a sample saved with --csv: it has no column '{missing[0]}'")
        found = []
        for record in reader:
            if None in record or None in record.values():
                raise ValueError(f"{path}: line {reader.line_num} has not one cell for each column")
            record = {**record, **{column: record.get(column, "") for column in ADDED}}
            if record["kind"] == "claim":
                record["metric"] = OLD_VERDICTS.get(record["metric"], record["metric"])
                if record["metric"] not in VERDICTS:
                    raise ValueError(f"{path}: '{record['metric']}' of {record['case']} is no verdict")
            found.append(record)
        return found


def by_construction(claim):
    return claim["words"] == BY_CONSTRUCTION


def mark(claim):
    """What stands behind a claim's verdict: a dagger if it cannot come out otherwise on any GPU."""
    return f" {DAGGER}" if by_construction(claim) else ""


def tally(claims):
    """How many claims got each verdict; those that were judged and come out so by construction are counted apart."""
    return collections.Counter(BY_CONSTRUCTION if by_construction(claim) and claim["metric"] != "not judged"
                               else claim["metric"] for claim in claims)


def holds(verdict):
    """Whether the text's direction was found, in whatever strength."""
    return verdict.startswith("holds")


def denies(verdict):
    """Whether the text's direction was not found."""
    return verdict in ("no longer", "does not hold")


def names(found):
    """What a reader calls each case: its words, or the case itself where a record has none."""
    words = {}
    for record in found:
        if record["kind"] not in NOT_IN_TABLES:
            words[record["case"]] = words.get(record["case"]) or record["words"]
    return {case: text or case for case, text in words.items()}


def id_order(claim):
    """A key to sort the ids of claims by: 04.2a, 04.2b, 04.10."""
    match = re.fullmatch(r"(\d+)\.(\d+)([a-z]?)", claim)
    if not match:
        raise ValueError(f"'{claim}' is no claim's id; 04.8 and 04.2a are")
    return int(match[1]), int(match[2]), match[3]


def slug(gpu):
    """What a GPU's results are called: "NVIDIA H200" becomes "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")


def by_gpu(paths):
    """The records of each GPU, from the files called as it is: results/nvidia-h200.csv, and nvidia-h200-2.csv for a
    second run, which is "NVIDIA H200 (2)". Other files (counts, fine sweeps, two GPUs) are passed over."""
    found = {}
    for path in sorted(map(pathlib.Path, paths), key=lambda path: (path.parent, path.stem)):
        if path.stem.endswith("-counters"):
            continue
        records = load(path)
        gpu = next((record["gpu"] for record in records if record["gpu"]), "")
        run = re.fullmatch(re.escape(slug(gpu)) + r"(?:-(\d+))?", path.stem)
        if gpu and run:
            found.setdefault(gpu + (f" ({run[1]})" if run[1] else ""), []).extend(records)
    return dict(sorted(found.items()))


def reported(records):
    """What the texts reported of each part, in words: "77x slower (8800 GTX)"."""
    return {record["case"]: " ".join(filter(None, [record["at"], f"({record['parameter']})" if record["parameter"] else ""]))
            for record in records if record["kind"] == "then" and record["metric"] == "reported"}


def claims(records):
    """The claims by their ids, in the ids' order."""
    found = {record["case"]: record for record in records if record["kind"] == "claim"}
    return {part: found[part] for part in sorted(found, key=id_order)}


def judged_differently(one, other):
    """Whether two GPUs' verdicts on a part differ; what was not judged on one of them does not count."""
    verdicts = {record["metric"] for record in (one, other) if record} - {"not judged"}
    return bool(one and other) and len(verdicts) == 2


def number(text, digits=3):
    """So many significant digits, never an exponent, and none cut off before the point."""
    value = float(text)
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) >= 10 ** (digits - 1) or rounded == 0:
        return f"{value:.0f}"
    return f"{value:.{max(0, digits - 1 - int(f'{abs(rounded):e}'.partition('e')[2]))}f}"


def within(low, high):
    """ "equal within 1%" of a ratio whose range has 1x in it; nothing of another."""
    if not low <= 1 <= high:
        return ""
    return f"equal within {max(1, math.ceil(100 * max(high - 1, 1 - low) - 0.05))}%"


def size_text(claim, may_be_equal=True):
    """The figure on which a verdict rests, with its range: "1.11x slower (1.09 to 1.12)", as the sample says it where it
    does; the claim's own ratio is then 0.905. The range of several runs stands in place of that of one. "equal within
    1%" where nothing is gained or lost, unless the figures are asked for. Nothing of a fact."""
    if not claim["value"] or not claim["unit"]:
        return ""
    unit = claim["unit"]
    value, low, high = (float(claim[name] or claim["value"]) for name in ("value", "low", "high"))
    if may_be_equal and unit == "x" and claim["low"] and within(low, high):
        return within(low, high)
    said = re.findall(r"(([\d.]+)(?:x|%| times as \w+)(?: (?:slower|faster|fewer|more|here))? \()([^()]*) to ([^()]*)\)",
                      claim["at"])
    for text, figure, least, most in said:
        for same, ends in ((value, (low, high)), (100 * value, (100 * low, 100 * high)),
                           (value and 1 / value, (high and 1 / high, low and 1 / low))):
            if same > 0 and abs(float(figure) - same) <= 0.006 * same:
                if claim["runs"]:
                    least, most = number(ends[0]), number(ends[1]) + ("%" if most.endswith("%") else "")
                return f"{text}{least} to {most})"
    texts = [number(claim[name]) if claim[name] else "" for name in ("value", "low", "high")]
    whole = texts[0] + ("x" if unit == "x" else "%" if unit == "%" else f" {unit}")
    return whole + (f" ({texts[1]} to {texts[2]})" if texts[1] != texts[2] else "")
