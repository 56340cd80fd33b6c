#!/usr/bin/env python3
"""Gives rows that were saved under a reader's words the keys that their experiment has since declared: in result files,
in counters' files, and in the markers and lists of numbers of pages.

    tools/rename_keys.py tools/keys/03_access_patterns.tsv 03_access_patterns/results/*.csv 03_access_patterns/README.md

Files are rewritten in place; one that has the new keys already stays as it is. `tools/compare.py --keys OLD NEW` shows
that no value changed. A table has fields between tabs; lines that begin with # are remarks. Its lines are

    rename   EXPERIMENT  CASE  PARAMETER  AT  KEY  PARAMETER  AT
             The row's old name and its new one. A * stands for any, and on the right for what stood there; {at} in a KEY
             is the old AT without spaces ("8x8" of "8 x 8"). Of two rows with one name the second has " (again)" behind
             its CASE.
    moved    EXPERIMENT  CASE  PARAMETER  AT  METRIC  KIND  KEY  PARAMETER  AT  METRIC  KIND
             The same of one number of a row: it has become another row's, or has another METRIC or KIND. A counted number
             has no range.
    gone     EXPERIMENT  CASE  METRIC
             What the experiment no longer saves: these numbers of the row, which has its new name (a * stands for any), go.
    part     EXPERIMENT  CLAIM  CLAIM
             A claim's old number and its new one: of its verdict, of what was reported then, and of its findings.
    into     EXPERIMENT  PARAMETER  EXPERIMENT
             Rows of this sweep have become an experiment's own: before anything else.
    counted  KERNEL  PARAMETER  KERNEL  PARAMETER
             The same for a launch in a counters' file.
    time     EXPERIMENT  KEY  AT  METRIC  FACTOR
             The time of the row in ms, which the second edition did not save: FACTOR x METRIC, or with a / before it
             FACTOR / METRIC. It follows from that value alone.
    time of  GPU  EXPERIMENT  KEY  AT  METRIC  FACTOR
             The same of one GPU, where the work follows the GPU's sizes; a * in KEY stands for any letters.
    ratio    EXPERIMENT  CLAIM  KEY  OVER
             The claim's figure, saved as the ratio of the two rows whose times it compares. Of rows of a sweep KEY and
             OVER are written as in "multiply at 1024".
    claimed  EXPERIMENT  CLAIM  KEY  OVER  FACTOR
             The same of FACTOR x the claim's figure, where the claim compares what a byte of each row takes.
    level    EXPERIMENT  CLAIM  KEY  METRIC  KIND  UNIT
             The claim's figure, saved as METRIC of the row KEY: of KIND ratio if it follows from the row's time, else
             counted.
    over     EXPERIMENT  KEY  METRIC  OVER  FACTOR
             FACTOR x METRIC of the row KEY, saved as the ratio of its time to that of the row OVER.
    count    EXPERIMENT  KEY  KERNEL  PARAMETER  METRIC
             A count of the counters' file beside the results, which the claims of the experiment rest on.
    machine  GPU  METRIC  UNIT  VALUE
             A property of the GPU, which the recorded rows are shown and replayed with.

The last eight add rows, each once. The words that a row had are kept in the column `words`.
"""
import argparse
import csv
import fnmatch
import io
import itertools
import pathlib
import re

import records

FIELDS = {"rename": 7, "moved": 11, "gone": 3, "part": 3, "into": 3, "counted": 4, "time": 5, "time of": 6, "ratio": 4, "claimed": 5, "level": 6, "over": 5, "count": 5,
          "machine": 4}
MARKER = re.compile(r"(?<=<!-- )(v|table:) (.*?)(?= -->)")
NUMBERS = re.compile(r"(?<=<!-- numbers:).*?(?=-->)", re.S)


def read_table(path):
    """The lines of a table by their first word."""
    table = {name: [] for name in FIELDS}
    for number, line in enumerate(records.read_text(path).splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        name, *fields = line.split("\t")
        if FIELDS.get(name) != len(fields):
            raise ValueError(f"{path}:{number}: not a line of such a table: {line}")
        table[name].append(fields)
    return table


def renamed(rules, old):
    """The new name of (experiment, case, parameter, at), or None."""
    for rule in rules:
        if all(want in ("*", have) for want, have in zip(rule, old)):
            return [have if new == "*" else new.replace("{at}", old[3].replace(" ", "")) for new, have in zip(rule[4:], old[1:])]
    return None


def moved(rules, row):
    """The new case, parameter, at, metric and kind of one number, or None."""
    old = [row[name] for name in ("experiment", "case", "parameter", "at", "metric", "kind")]
    for rule in rules:
        if all(want in ("*", have) for want, have in zip(rule, old)):
            return [have if new == "*" else new.replace("{at}", old[3].replace(" ", "")) for new, have in zip(rule[6:], old[1:])]
    return None


class Results:
    """A results file: its rows get their keys, and it gets the rows that a table adds."""

    def __init__(self, path, table):
        self.table = table
        self.rows = records.load(path)
        if not self.rows:
            raise ValueError(f"{path}: no records")
        self.counts = counts_beside(path)

    def renamed(self):
        """The records as they are to be."""
        seen = set()
        for row in self.rows:
            for experiment, parameter, new in self.table["into"]:
                if (experiment, parameter) == (row["experiment"], row["parameter"]) and row["kind"] != "claim":
                    row["experiment"] = new
            old = self.name(row)
            self.rename(row, " (again)" if old in seen else "")
            seen.add(old)
        self.rows = [row for row in self.rows if not self.is_gone(row)]
        there = {self.name(row) for row in self.rows}
        kept = [row for row in self.of_the_machine() if self.name(row) not in there]
        for row in self.rows:
            kept.append(row)
            kept += [new for new in self.following(row) if self.name(new) not in there]
        return kept

    @staticmethod
    def name(row):
        return tuple(row[name] for name in ("experiment", "case", "parameter", "at", "kind", "metric", "unit"))

    def is_gone(self, row):
        return any(row["experiment"] == experiment and case in ("*", row["case"]) and row["metric"] == metric
                   for experiment, case, metric in self.table["gone"])

    def rename(self, row, again):
        if row["kind"] in ("claim", "finding", "left out") or row["metric"] == "reported":  # of a claim: its case is its id
            new = [new for experiment, old, new in self.table["part"] if (experiment, old) == (row["experiment"], row["case"])]
            row["case"] = new[0] if new else row["case"]
            return
        elsewhere = moved(self.table["moved"], row)
        if elsewhere:
            row["case"], row["parameter"], row["at"], row["metric"], row["kind"] = elsewhere
            if row["kind"] == "counted":
                row["low"] = row["high"] = row["repeats"] = ""
            return
        new = renamed(self.table["rename"], [row["experiment"], row["case"] + again, row["parameter"], row["at"]])
        if not new:
            return
        if "words" in row and not row["words"]:
            row["words"] = "" if row["at"] else row["case"]  # at a value of a sweep the value stands
        row["case"], row["parameter"], row["at"] = new

    def of_the_machine(self):
        for gpu, metric, unit, value in self.table["machine"]:
            if gpu == self.rows[0]["gpu"]:
                yield self.like(self.rows[0], experiment="", case="device", kind="machine", metric=metric, unit=unit,
                                value=value)

    @staticmethod
    def like(row, **fields):
        """A row of the same run, of which nothing but these fields is known."""
        emptied = ("parameter", "at", "value", "low", "high", "repeats", "words")
        return {**row, **{name: "" for name in emptied if name in row},
                **{name: value for name, value in fields.items() if name in row}}

    def figures_of_claims(self):
        for *place, over in self.table["ratio"]:
            yield *place, "time over that of " + over, "ratio", "x", "1"
        for *place, over, factor in self.table["claimed"]:
            yield *place, "time over that of " + over, "ratio", "x", factor
        for line in self.table["level"]:
            yield *line, "1"

    def following(self, row):
        """What a table adds behind a row: what it says in other words."""
        place = row["experiment"], row["case"]
        of_gpu = [line[1:] for line in self.table["time of"] if line[0] == row["gpu"]]
        for experiment, key, at, metric, factor in self.table["time"] + of_gpu:
            if (experiment, metric) == (row["experiment"], row["metric"]) and fnmatch.fnmatchcase(row["case"], key) \
                    and at in ("*", row["at"]) and row["kind"] in ("measured", "calibration"):
                yield {**row, "kind": "measured", "metric": "time", "unit": "ms", **times_of(row, factor)}
        for experiment, claim, key, metric, kind, unit, factor in self.figures_of_claims():
            if (experiment, claim, "claim") == (*place, row["kind"]):
                key, _, at = key.partition(" at ")
                words = next((r["words"] for r in self.rows if (r["case"], r["at"]) == (key, at) and r.get("words")), "")
                yield self.like(row, case=key, at=at, kind=kind, metric=metric, unit=unit, words=words,
                                repeats=row["repeats"], **times_of(row, factor))
        for experiment, key, metric, over, factor in self.table["over"]:
            if (experiment, key, metric, "measured") == (*place, row["metric"], row["kind"]):
                yield {**row, "kind": "ratio", "metric": "time over that of " + over, "unit": "x", **times_of(row, factor)}
        for experiment, key, kernel, parameter, metric in self.table["count"]:
            if (experiment, key, "time") == (*place, row["metric"]) and row["kind"] in ("measured", "calibration"):
                value = self.counts.get((kernel, parameter, metric))
                if value is not None:
                    yield self.like(row, kind="counted", metric=metric, unit="", value=value, words=row.get("words", ""))


def times_of(row, factor):
    """The fields of a time that follows from a row; a rate is high where the time is low."""
    if not all(float(row[name] or 0) for name in records.NUMBERS):
        raise ValueError(f"{row['experiment']} {row['case']}: a time is to follow from its {row['metric']}, which is "
                         "zero, or has no range")
    if factor.startswith("/"):
        ends = [float(factor[1:]) / float(row[name]) for name in ("value", "high", "low")]
    else:
        ends = [float(factor) * float(row[name]) for name in ("value", "low", "high")]
    return {name: f"{value:.9g}" for name, value in zip(("value", "low", "high"), ends)}


def counts_beside(path):
    """Counts of the counters' file that belongs to a results file, by kernel, parameter and metric."""
    beside = path.with_name(path.stem + "-counters.csv")
    if not beside.exists():
        return {}
    return {(row["kernel"], row["parameter"], row["metric"]): row["value"] for row in counters(beside)[1]}


def counters(path):
    """The first lines of a counters' file, which say what was counted, and its rows."""
    lines = records.read_text(path).splitlines(keepends=True)
    remarks = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    text = "".join(lines[len(remarks):])
    return remarks, [row for _, row in records.table(text, path, ["kernel", "parameter", "metric", "value"])]


def counters_text(path, table):
    """A counters' file, whose launches have their new names."""
    new = {(kernel, parameter): (to, to_parameter) for kernel, parameter, to, to_parameter in table["counted"]}
    remarks, rows = counters(path)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["kernel", "parameter", "metric", "value"])
    for row in rows:
        launch = row["kernel"], row["parameter"]
        writer.writerow([*new.get(launch, launch), row["metric"], row["value"]])
    return "".join(remarks) + text.getvalue()


def page_text(path, table):
    """A page, whose markers name the new keys. The words of a table's rows stay: "read_lines = neither"."""
    def with_key(fields):
        experiment, case, at, *rest = fields
        for rule in table["rename"]:
            if rule[0] == experiment and rule[1] in ("*", case) and rule[3] in ("*", at):
                key = case if rule[4] == "*" else rule[4].replace("{at}", at.replace(" ", ""))
                return [experiment, key, at if rule[6] == "*" else rule[6], *rest]
        return fields

    def of_numbers(match):
        """A list of numbers. "..." stays where it repeats the same as before."""
        old, new = [], []  # the key before

        def of_operand(text):
            nonlocal old, new
            begin = "sqrt of " if text.startswith("sqrt of ") else ""
            parts = [part.strip() for part in text.removeprefix(begin).split("|")]
            repeated = 5 - len(parts) if parts[0] == "..." else 0
            whole = old[:repeated] + parts[1:] if repeated else parts
            if len(whole) != 4:
                return text
            before, old, new = new, whole, with_key(whole)
            short = ["...", *new[repeated:]] if repeated and new[:repeated] == before[:repeated] else new
            return text if new == whole and short[0] == parts[0] else begin + " | ".join(short).replace("|  |", "| |")

        def of_entry(entry):
            number, equals, what = entry[0].partition(" = ")
            end = what[len(what.rstrip()):]
            words = re.split(r"( [-+*/] )", what.rstrip())
            return number + equals + "".join(word if n % 2 else of_operand(word) for n, word in enumerate(words)) + end

        return re.sub(r"[^\n;]+", of_entry, match[0])

    def of_marker(match):
        kind, fields = match[1], [field.strip() for field in match[2].split("|")]
        if kind == "v" and len(fields) >= 4:
            fields = with_key(fields)
        elif kind == "table:":
            experiment = fields[0].partition("@")[0].strip()
            rules = [rule for rule in table["rename"] if rule[0] == experiment and rule[1] != "*" and rule[3] != "*"]
            fields[2:] = [with_keys(field, rules) for field in fields[2:]]
        changed = f"{kind} " + " | ".join(fields)
        return changed if fields != [field.strip() for field in match[2].split("|")] else match[0]

    def with_keys(field, rules):
        if field.startswith("at = "):
            return field
        rows = []
        for item in field.split(";"):
            case, _, words = [part.strip() for part in item.strip().partition(" = ")]
            key = next((rule[4] for rule in rules if rule[1] == case and rule[4] != "*"), case)
            rows.append(f"{key} = {words or case}" if key != case or words else case)
        return "; ".join(rows)

    return NUMBERS.sub(of_numbers, MARKER.sub(of_marker, records.read_text(path)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path, metavar="TABLE")
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="results, counters, pages (.md)")
    args = parser.parse_args()
    table = read_table(args.table)
    for path in args.files:
        if path.suffix == ".md":
            path.write_text(page_text(path, table), encoding="utf-8")
        elif path.stem.endswith("-counters"):
            path.write_text(counters_text(path, table), encoding="utf-8")
        else:
            records.save(path, Results(path, table).renamed())


if __name__ == "__main__":
    records.run(main)
