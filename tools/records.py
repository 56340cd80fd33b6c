"""What the tools share: reading the files that samples save with --csv, the verdicts, the order of claims, which GPUs
have results in the repository, and how a tool ends where something is wrong."""
import collections
import csv
import io
import math
import os
import pathlib
import re
import sys

OLDEST = (3, 9)  # the Python that the tools are written for
if sys.version_info < OLDEST:
    sys.exit("the tools need Python 3.9 or newer")

COLUMNS = ["topic", "experiment", "case", "parameter", "at", "kind", "metric", "unit", "value", "low", "high", "repeats",
           "gpu", "cc", "driver", "toolkit", "date"]
ADDED = ["words", "runs", "cards"]  # columns that files of the second edition do not have
KEY = ["topic", "experiment", "case", "parameter", "at", "kind", "metric", "unit"]  # what a row is, in every run
NUMBERS = ["value", "low", "high"]  # what these columns hold, where they are not empty
WHOLE_NUMBERS = ["repeats", "runs", "cards"]

KINDS = ["measured", "predicted", "counted", "calibration", "ratio", "claim", "then", "finding", "left out", "machine", "model"]
VERDICTS = ["holds", "holds, stronger", "holds, weaker", "holds, size open", "depends", "too close to call", "no longer",
            "does not hold", "not judged"]
OLD_VERDICTS = {"holds, by more": "holds, stronger", "holds, by less": "holds, weaker"}
BY_CONSTRUCTION = "by construction"  # in `words` of a claim that cannot come out otherwise on any GPU
DAGGER = "\u2020"
NOT_HELD = ["depends", "too close to call", "no longer", "does not hold"]
TALLY = [*VERDICTS, BY_CONSTRUCTION]  # what parts are counted by
NOT_IN_TABLES = ("claim", "finding", "left out", "machine", "model", "ratio")  # kinds that are no rows of a table


# ---- how a tool ends ---------------------------------------------------------------------------------------------------


def run(main):
    """Runs a tool's main(). What is wrong with a file ends it with one line on standard error and exit code 1."""
    name = pathlib.Path(sys.argv[0]).name
    try:
        try:
            main()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if not error.filename:  # standard output: what it refused once is not to be tried again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"{name}: {in_words(error)}")
    except ValueError as error:
        sys.exit(f"{name}: {error}")
    except ImportError as error:
        if error.name != "matplotlib":
            raise
        sys.exit(f"{name}: matplotlib is missing: apt-get install python3-matplotlib")
    except KeyboardInterrupt:
        sys.exit(130)


def in_words(error):
    """What is wrong, of an OSError with the file's name."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'standard output'}: {error.strerror}"
    return str(error)


# ---- reading files -----------------------------------------------------------------------------------------------------


def decoded(raw, name):
    """The text of a file's bytes: UTF-8, with or without the mark (BOM) that spreadsheets write in front of it."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: line {raw.count(10, 0, error.start) + 1} is not in UTF-8") from None


def read_text(path):
    return decoded(pathlib.Path(path).read_bytes(), path).replace("\r\n", "\n")


def table(text, name, columns):
    """(number of the line, cells by column) of each row of a CSV file's text, which has these columns and maybe others.
    ValueError names the file and the line of what is no row."""
    same = {}  # most cells stand in many rows
    lines = csv.reader(io.StringIO(text), strict=True)
    try:
        header = next(lines, [])
        missing = [column for column in columns if header.count(column) != 1]
        if missing:
            raise ValueError(f"{name}: it has not one column '{missing[0]}'")
        if "\0" in text:
            raise ValueError(f"{name}: line {text[:text.index(chr(0))].count(chr(10)) + 1} has a byte of value 0")
        if not text.endswith("\n"):
            raise ValueError(f"{name}: the last line is cut short")
        for cells in lines:
            if len(cells) != len(header):
                raise ValueError(f"{name}: line {lines.line_num} has not one cell for each column")
            yield lines.line_num, dict(zip(header, [same.setdefault(cell, cell) for cell in cells]))
    except csv.Error as error:
        raise ValueError(f"{name}: line {lines.line_num}: {error}") from None


def load(path):
    """The records of a results file, those of an older edition in today's columns and words."""
    found = []
    for line, row in table(read_text(path), path, COLUMNS):
        record = {column: row.get(column, "") for column in [*COLUMNS, *ADDED]}
        if record["kind"] == "claim":
            record["metric"] = OLD_VERDICTS.get(record["metric"], record["metric"])
        try:
            require_sound(record)
        except ValueError as error:
            raise ValueError(f"{path}: line {line}: {error}") from None
        found.append(record)
    return found


def require_sound(record):
    """Throws ValueError where a cell of a record is not what its column holds."""
    if record["kind"] not in KINDS:
        raise ValueError(f"'{record['kind']}' is no kind of record")
    if record["kind"] == "claim":
        id_order(record["case"])
        if record["metric"] not in VERDICTS:
            raise ValueError(f"'{record['metric']}' of {record['case']} is no verdict")
    for column in NUMBERS:
        if record[column] and not is_number(record[column]):
            raise ValueError(f"{column} '{record[column]}' is no number")
    for column in WHOLE_NUMBERS:
        if record[column] and not (record[column].isascii() and record[column].isdigit()):
            raise ValueError(f"{column} '{record[column]}' is no whole number")


def is_number(text):
    """Whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def save(path, found):
    """Writes records as a results file in today's columns."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*COLUMNS, *ADDED], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


# ---- verdicts and names ------------------------------------------------------------------------------------------------


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
