#!/usr/bin/env python3
"""Writes the tables and numbers of a page from the result files that a sample saved, or checks that they agree.

    tools/pages.py 01_memory_model/README.md             rewrite the page
    tools/pages.py --check 01_memory_model/README.md     exit with 1 where it differs, and name the place
    tools/pages.py --commands build/01_memory_model ...  run the page's commands on a sample, with --quick
    tools/pages.py --experiments build/01_memory_model ...  the page has those that the sample lists, and no other

A page names a result file, which holds up to the next one that it names, and says what stands where:

    <!-- results: results/nvidia-h200.csv -->
    <!-- results: 0?_*/results/nvidia-h200.csv -->   of all topics; --check then wants every claim there, and judged
    <!-- table: latency -->                  every metric of the experiment, a row for each case
    <!-- table: timing | time, spread -->    these metrics only, and only rows that have the first of them
    <!-- table: latency @ footprint | cycles -->  rows of the sweep over that parameter only ("@ -": rows of no sweep)
    <!-- claims: latency -->                 the experiment's claims with their verdicts (all of them without a name)
    <!-- end -->                             ends each of the three

and in a sentence <!-- v latency | case | at | metric | .1f -->31.9<!-- /v -->, where `at` may be empty and the last part is a
format as in Python. Needs Python's own library only.
"""
import argparse
import csv
import pathlib
import re
import subprocess
import sys


def load(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(text, exact):
    """Four significant digits of what was measured, all that were saved of what is exact; never an exponent."""
    value = float(text)
    if exact:
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value)}"
    magnitude = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(0, min(4, 4 - magnitude))}f}"


def cell(text):
    return text.replace("|", "\\|")


def rule_off(headings, rows):
    """A Markdown table; its first column is text, the others are numbers or words."""
    lines = ["| " + " | ".join(map(cell, headings)) + " |", "|---|" + "---:|" * (len(headings) - 1)]
    return lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]


def source_line(records):
    measured = [r for r in records if r["gpu"]]
    if not measured:
        return []
    r, dates = measured[0], sorted({r["date"] for r in measured})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return ["", f"<sub>{r['gpu']} (compute capability {r['cc']}), driver for CUDA {r['driver']}, toolkit {r['toolkit']}, {when}</sub>"]


def table(records, experiment, parameter, metrics):
    chosen = [r for r in records if r["experiment"] == experiment and r["kind"] not in ("claim",) and r["metric"] != "reported"]
    if parameter is not None:
        chosen = [r for r in chosen if r["parameter"] == ("" if parameter == "-" else parameter)]
    if metrics:
        chosen = [r for r in chosen if r["metric"] in metrics]
    if not chosen:
        raise LookupError(f"no rows for 'table: {experiment}'")
    units, rows = {}, {}
    for r in chosen:
        column = (r["kind"], r["metric"])
        units.setdefault(column, dict())[r["unit"]] = None
        rows.setdefault((r["case"], r["parameter"], r["at"]), {})[column] = r
    if metrics:  # an experiment with several tables: the first metric tells its rows from the others
        rows = {key: row for key, row in rows.items() if any(column[1] == metrics[0] for column in row)}
        units = dict(sorted(units.items(), key=lambda item: metrics.index(item[0][1])))
    marks = {"measured": "", "counted": "", "predicted": "predicted ", "then": "then: "}

    def heading(column):  # a column of one unit names it once
        unit = next(iter(units[column]))
        return marks.get(column[0], "") + column[1] + (f" ({unit})" if unit and len(units[column]) == 1 and unit != column[1] else "")

    def label(case, parameter, at):
        return ", ".join(filter(None, [case, at])) if case or not parameter else f"{at} {parameter}"

    def shown(row, column):
        if column not in row:
            return ""
        text = row[column]["value"]
        if column[0] == "predicted" and float(text) != int(float(text)):
            text = f"{float(text):.5g}"
        return number(text, column[0] != "measured") + (" " + row[column]["unit"] if len(units[column]) > 1 else "")

    lines = rule_off([""] + [heading(c) for c in units],
                     [[label(*key)] + [shown(row, c) for c in units] for key, row in rows.items()])
    return lines + source_line(chosen)


def claims(records, experiment):
    chosen = [r for r in records if r["kind"] == "claim" and experiment in ("", r["experiment"])]
    if not chosen:
        raise LookupError(f"no claims of '{experiment}'")
    if not experiment:
        chosen.sort(key=lambda r: [int(part) for part in r["case"].split(".")])
    then = {r["case"]: r for r in records if r["kind"] == "then" and r["metric"] == "reported"}
    rows = []
    for r in chosen:
        t = then.get(r["case"])
        was = " ".join(filter(None, [t["at"], f"({t['parameter']})" if t and t["parameter"] else ""])) if t else ""
        rows.append([r["case"], r["parameter"], was, r["at"], "**" + r["metric"] + "**"])
    lines = rule_off(["", "claim", "then", "here", "verdict"], rows)
    lines[1] = "|---|---|---|---|---|"
    return lines + source_line(chosen)


def value(records, spec):
    experiment, case, at, metric, how = [part.strip() for part in spec.split("|")]
    found = [r for r in records if (r["experiment"], r["case"], r["at"], r["metric"]) == (experiment, case, at, metric)]
    for r in sorted(found, key=lambda r: r["kind"] == "predicted"):  # what was found here before what was predicted
        return format(float(r["value"]), how)
    raise LookupError(f"no value '{spec.strip()}'")


def result_files(page, pattern):
    return sorted(page.parent.glob(pattern)) if "*" in pattern else [page.parent / pattern]


def unjudged(page):
    """Of a page of all topics: the claims in the samples' code that the result files do not judge."""
    named = re.search(r"<!-- results: (\S*\*\S*) -->", page.read_text(encoding="utf-8"))
    if not named:
        return []
    judged = {r["case"] for path in result_files(page, named[1]) for r in load(path) if r["kind"] == "claim" and r["metric"] != "not judged"}
    coded = {match for source in page.parent.glob("0?_*/*.*[uhp]*") for match in re.findall(r'"(0\d\.\d+)"', source.read_text(encoding="utf-8"))}
    return sorted(coded ^ judged)


def rewrite(page):
    records, done = [], ""

    def block(match):
        kind, spec = match[1], match[2].strip()
        spec, _, metrics = spec.partition("|")
        experiment, _, parameter = [part.strip() for part in spec.partition("@")]
        if kind == "table":
            lines = table(records, experiment, parameter or None, [m.strip() for m in metrics.split(",") if m.strip()])
        else:
            lines = claims(records, experiment)
        return f"<!-- {kind}:{match[2]}-->\n" + "\n".join(lines) + "\n<!-- end -->"

    for part in re.split(r"(?=<!-- results: )", page.read_text(encoding="utf-8")):
        named = re.match(r"<!-- results: (\S+) -->", part)
        if named:
            records = [record for path in result_files(page, named[1]) for record in load(path)]
            part = re.sub(r"<!-- (table|claims):(.*?)-->.*?<!-- end -->", block, part, flags=re.S)
            part = re.sub(r"<!-- v (.*?) -->.*?<!-- /v -->", lambda m: f"<!-- v {m[1]} -->{value(records, m[1])}<!-- /v -->", part, flags=re.S)
        done += part
    return done


def broken_links(page):
    """Links and figures of the page to files that do not exist."""
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return [t for t in targets if not re.match(r"[a-z]+:|#", t) and not (page.parent / t.split("#")[0]).exists()]


def commands(page, topic):
    """The command lines in the page's code blocks that call the sample, as lists of arguments."""
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    lines = [line.removeprefix("$ ").split("#")[0].split() for block in blocks for line in block.splitlines()]
    return [line[1:] for line in lines if line and pathlib.PurePath(line[0]).name == topic]


def experiments(page, topic):
    """Those that the page has: a topic's page in its headings, the collection's in the topic's row of the table."""
    text = page.read_text(encoding="utf-8")
    if page.resolve().parent.name == topic:
        return re.findall(r"^## ([a-z_]+): ", text, flags=re.M)
    row = next((line for line in text.splitlines() if line.startswith(f"| [`{topic}`]")), "")
    return re.findall(r"`([a-z_]+)`", row.rpartition(" | ")[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page and its results differ")
    parser.add_argument("--commands", metavar="SAMPLE", help="run the page's commands on this executable")
    parser.add_argument("--experiments", metavar="SAMPLE", help="the page has the experiments of this executable's --list, in that order")
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE")
    args = parser.parse_args()
    failed = False
    for page in args.pages:
        if args.experiments:
            sample = pathlib.Path(args.experiments).resolve()
            listed = subprocess.run([sample, "--list"], capture_output=True, text=True, check=True).stdout.split()
            if listed != experiments(page, sample.name):
                print(f"{page}: has the experiments {experiments(page, sample.name)}, {sample.name} --list has {listed}")
                failed = True
            continue
        if args.commands:
            sample = pathlib.Path(args.commands).resolve()
            found = commands(page, sample.name)
            if not found:
                sys.exit(f"{page}: no command calls {sample.name}")
            for words in found:
                words = [w for w in words if w != "--full"]
                quick = [] if {"--quick", "--self-check", "--list", "--help"} & {w.split("=")[0] for w in words} else ["--quick"]
                print(sample.name, *words, *quick, flush=True)
                code = subprocess.run([sample, *words, *quick], stdout=subprocess.DEVNULL).returncode
                if code not in (0, 77):
                    print(f"{page}: exit code {code}")
                    failed = True
            continue
        try:
            new = rewrite(page)
        except (LookupError, OSError, ValueError) as error:
            print(f"{page}: {error}", file=sys.stderr)
            failed = True
            continue
        old = page.read_text(encoding="utf-8")
        if args.check:
            for a, b in zip(old.splitlines(), new.splitlines()):
                if a != b:
                    print(f"{page}: the page says\n  {a}\nits results say\n  {b}")
                    failed = True
            if len(old.splitlines()) != len(new.splitlines()):
                print(f"{page}: a table has other rows than its results")
                failed = True
            for claim in unjudged(page):
                print(f"{page}: claim {claim} is in the code or in the results, not in both, or is not judged")
                failed = True
            for n, line in enumerate(old.splitlines(), 1):
                if re.match(r"\s*([-*] )?<!-- v ", line):
                    print(f"{page}:{n}: a line that begins with a comment ends the paragraph before it; put a word before the number")
                    failed = True
            for target in broken_links(page):
                print(f"{page}: {target} does not exist")
                failed = True
        elif new != old:
            page.write_text(new, encoding="utf-8")
    sys.exit(failed)


if __name__ == "__main__":
    main()
