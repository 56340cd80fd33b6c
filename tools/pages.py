#!/usr/bin/env python3
"""Writes the tables, numbers and code of a page from the result files that a sample saved and from its sources, or
checks that they agree.

    tools/pages.py 01_memory_model/README.md             rewrite the page
    tools/pages.py --check 01_memory_model/README.md     exit with 1 where it differs, and name the place
    tools/pages.py --numbers 01_memory_model/README.md   rewrite it, and the numbers of its sentences, and name these
    tools/pages.py --commands build/01_memory_model ...  run the pages' commands on a sample, with --quick
    tools/pages.py --experiments build/01_memory_model ...  the pages have those that the sample lists, and no other

A page names a result file, which holds up to the next one that it names, and says what stands where:

    <!-- results: results/nvidia-h200.csv -->
    <!-- results: 0?_*/results/nvidia-h200.csv -->   of all topics; --check then wants every claim there, and judged
    <!-- table: latency -->                  every metric of the experiment, a row for each case
    <!-- table: timing | time, spread -->    these metrics only, and only rows that have the first of them
    <!-- table: latency @ footprint | cycles -->  rows of the sweep over that parameter only ("@ -": rows of no sweep)
    <!-- table: sum @ - | time | rows = by rows; random -->  these cases only, in that order, named in words after "="
    <!-- table: transfer @ bytes | time | at = 1024 = 1 KiB; 65536 -->  these values of the sweep only, also in words
    <!-- table: sum | time = time of a sum (ms) | first = kernel -->  headings in words; that of the first column, which
                                             has the values of the sweep alone if there is one case
    <!-- claims: latency -->                 the experiment's claims with their verdicts (all of them without a name)
    <!-- not held: -->                       all claims that do not hold, no longer hold or depend, with their verdicts
    <!-- findings: latency -->               the experiment's findings as a list (all of them without a name)
    <!-- bars: sum | bandwidth | .0f GB/s | key = words; key @ 32 = words -->   a bar of text for each value
    <!-- code: transpose.cu | column_to_row -->  what stands in that file, beside the page, between its lines
                                             "// [column_to_row]" and "// [/column_to_row]"; needs no result file
    <!-- gpus: ../0?_*/results/*.csv -->     a line for each GPU of these files: its verdicts, and what it has not run
    <!-- verdicts: ../0?_*/results/*.csv --> every part with its verdict on each of the GPUs; needs no result file either
    <!-- end -->                             ends each of these

and in a sentence <!-- v latency | case | at | metric | .1f -->31.9<!-- /v -->, where `at` may be empty and the last
part is a format as in Python. Where page_checks.py names a page or a section as moved, numbers stand in sentences as
plain text, with a list behind the paragraph, and --check looks at the prose as well: page_checks.py says how. A metric
that was both predicted and measured becomes three columns: predicted, measured, and measured over predicted. Needs
Python's own library only.
"""
import argparse
import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

import page_checks
import records

BAR = 32  # characters of the longest bar


def number(text, exact):
    """Four significant digits of what was measured, three decimals of what is exact; never an exponent."""
    value = float(text)
    if exact:
        return f"{value:.3f}".rstrip("0").rstrip(".")
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


def source_line(shown):
    on_gpu = [r for r in shown if r["gpu"]]
    if not on_gpu:
        return []
    r, dates = on_gpu[0], sorted({r["date"] for r in on_gpu})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    device = f"{r['gpu']} (compute capability {r['cc']})"
    return ["", f"<sub>{device}, driver for CUDA {r['driver']}, toolkit {r['toolkit']}, {when}</sub>"]


# ---- tables ----------------------------------------------------------------------------------------------------------


def choose_rows(rows, names, wanted):
    """The rows of some cases in a given order, and each one's name in words. `wanted` is "case; case = words"; else the
    words are those of `names`."""
    names = dict(names)
    if not wanted:
        return rows, names
    chosen = {}
    for item in wanted.split(";"):
        case, _, words = [part.strip() for part in item.strip().partition(" = ")]
        if case not in names:
            raise LookupError(f"no case '{case}' in the table; it has: {'; '.join(names)}")
        names[case] = words or names[case]
        chosen.update({key: row for key, row in rows.items() if key[0] == case})
    return chosen, names


def choose_values(rows, wanted):
    """The rows at some values of a sweep, and each value's name in words. `wanted` is "value; value = words"."""
    names = {at: at for _, _, at in rows}
    if not wanted:
        return rows, names
    chosen = {}
    for item in wanted.split(";"):
        at, _, words = [part.strip() for part in item.strip().partition(" = ")]
        if at not in names:
            raise LookupError(f"no value '{at}' in the table; it has: {'; '.join(names)}")
        chosen[at] = words or at
    return {key: row for key, row in rows.items() if key[2] in chosen}, chosen


class Columns:
    """The columns of a table from what its rows hold: {(kind, metric): record} each."""

    def __init__(self, units, rows, headings=None):
        self.units = units  # of each (kind, metric)
        self.headings = headings or {}  # of a metric, where the page has its own
        self.ratios = set()  # metrics that become predicted, measured, ratio
        for row in rows:
            self.ratios |= {m for _, m in row if {("predicted", m), ("measured", m)} <= row.keys()}

    def unit(self, column):
        """In brackets: of a column that has one unit, and is not named as it."""
        unit = next(iter(self.units[column]))
        return f" ({unit})" if unit and len(self.units[column]) == 1 and unit != column[1] else ""

    def shown(self):
        """(heading, function of a row that gives the cell's text) of each."""
        marks = {"predicted": "predicted ", "then": "then: "}
        columns, done = [], set()
        for column in self.units:
            kind, metric = column
            if metric not in self.ratios or kind not in ("predicted", "measured"):
                own = self.headings.get("then " + metric if kind == "then" else metric)
                heading = own or marks.get(kind, "") + metric + self.unit(column)
                columns.append((heading, lambda row, column=column: self.text(row, column)))
            elif metric not in done:
                done.add(metric)
                heading = self.headings.get(metric) or metric + self.unit(("measured", metric))
                ratio = "measured / predicted" if metric in self.headings else "ratio"
                columns.append((f"{heading}: predicted", lambda row, metric=metric: self.predicted(row, metric)))
                columns.append(("measured", lambda row, column=("measured", metric): self.text(row, column)))
                columns.append((ratio, lambda row, metric=metric: self.ratio(row, metric)))
        return columns

    def text(self, row, column):
        """All digits that were saved of what is exact, five of what was predicted, four of what was measured."""
        if column not in row:
            return ""
        kind, metric = column
        text = row[column]["value"]
        beside = kind == "predicted" and (metric in self.ratios or metric in self.headings)  # with the digits of a measured one
        if kind == "predicted" and metric not in self.headings and float(text) != int(float(text)):
            text = f"{float(text):.5g}"
        exact = kind != "measured" and not beside
        return number(text, exact) + (" " + row[column]["unit"] if len(self.units[column]) > 1 else "")

    def predicted(self, row, metric):
        measured = row.get(("measured", metric))
        if measured and measured["kind"] == "calibration":
            return "calibration"
        return self.text(row, ("predicted", metric))

    def ratio(self, row, metric):
        measured, predicted = row.get(("measured", metric)), row.get(("predicted", metric))
        if not measured or not predicted or measured["kind"] == "calibration" or float(predicted["value"]) == 0:
            return ""
        return f"{float(measured['value']) / float(predicted['value']):.2f}"


def arrange(chosen):
    """The units of each column (kind, metric), and the records of each row (case, parameter, at) by column."""
    units, rows = {}, {}
    for r in chosen:
        kind = "measured" if r["kind"] == "calibration" else r["kind"]  # of one column
        column = (kind, r["metric"])
        units.setdefault(column, dict())[r["unit"]] = None
        rows.setdefault((r["case"], r["parameter"], r["at"]), {})[column] = r
    return units, rows


def in_tables(r):
    """Whether a record stands in tables: what was claimed, found or left out does not, nor what is said of the machine,
    of models, and of rows that were compared."""
    return r["kind"] not in records.NOT_IN_TABLES and r["metric"] != "reported"


def table(found, experiment, parameter, columns, wanted, values="", first=""):
    """`columns`: the metrics, each with its heading ("": its own name), and "then <metric>" with that of what a text
    reports; `first`: the heading of the rows' names."""
    metrics = [metric for metric in columns if not metric.startswith("then ")]  # a heading only
    chosen = [r for r in found if r["experiment"] == experiment and in_tables(r)]
    if parameter is not None:
        chosen = [r for r in chosen if r["parameter"] == ("" if parameter == "-" else parameter)]
    if metrics:
        chosen = [r for r in chosen if r["metric"] in metrics]
    if not chosen:
        raise LookupError(f"no rows for 'table: {experiment}'")
    units, rows = arrange(chosen)
    if metrics:  # an experiment with several tables: the first metric tells its rows from the others
        rows = {key: row for key, row in rows.items() if any(column[1] == metrics[0] for column in row)}
        units = dict(sorted(units.items(), key=lambda item: metrics.index(item[0][1])))
    all_names = records.names(chosen)
    rows, names = choose_rows(rows, {case: all_names[case] for case, _, _ in rows}, wanted)
    rows, places = choose_values(rows, values)

    def label(case, parameter, at):
        at = places[at]
        if first and at and len({case for case, _, _ in rows}) == 1:
            return at
        if first and values and len(places) == 1:  # the page says of which value the table is
            return names[case]
        return ", ".join(filter(None, [names[case], at])) if case or not parameter else f"{at} {parameter}"

    shown = Columns(units, rows.values(), {metric: words for metric, words in columns.items() if words}).shown()
    if wanted:  # columns of rows that are not shown
        shown = [(heading, text) for heading, text in shown if any(text(row) for row in rows.values())]
    lines = rule_off([first] + [heading for heading, _ in shown],
                     [[label(*key)] + [text(row) for _, text in shown] for key, row in rows.items()])
    return lines + source_line(chosen)


# ---- claims, findings, numbers, code ---------------------------------------------------------------------------------


def claims(found, experiment):
    chosen = [r for r in found if r["kind"] == "claim" and experiment in ("", r["experiment"])]
    if not chosen:
        raise LookupError(f"no claims of '{experiment}'")
    if not experiment:
        chosen.sort(key=lambda r: records.id_order(r["case"]))
    then = records.reported(found)
    rows = [[r["case"], r["parameter"], then.get(r["case"], ""), r["at"], f"**{r['metric']}**{records.mark(r)}"]
            for r in chosen]
    lines = rule_off(["", "claim", "then", "here", "verdict"], rows)
    lines[1] = "|---|---|---|---|---|"
    return lines + source_line(chosen)


def not_held(found):
    """The claims that do not hold, no longer hold or hold of some cases only, in a word each."""
    rows = [[claim["case"], claim["parameter"], f"{claim['metric']}{records.mark(claim)}"]
            for claim in records.claims(found).values() if claim["metric"] in records.NOT_HELD]
    if not rows:
        raise LookupError("no claim that does not hold")
    lines = rule_off(["", "claim", "verdict"], rows)
    lines[1] = "|---|---|---|"
    return lines


def bars(found, spec):
    """Bars of text, the longest as wide as BAR, for "experiment | metric | format unit | key @ at = words; ..."."""
    experiment, metric, how, rows = [part.strip() for part in spec.split("|")]
    how, _, unit = how.partition(" ")
    drawn = []
    for row in rows.split(";"):
        key, _, words = [part.strip() for part in row.partition("=")]
        key, _, at = [part.strip() for part in key.partition("@")]
        drawn.append((words, value(found, f"{experiment} | {key} | {at} | {metric} | {how}")))
    most = max(float(number) for _, number in drawn)
    wide = max(len(words) for words, _ in drawn)
    lines = []
    for words, number in drawn:
        eighths = max(1, round(float(number) / most * BAR * 8))
        bar = "\u2588" * (eighths // 8) + (chr(0x2590 - eighths % 8) if eighths % 8 else "")
        lines.append(f"{words:{wide}}  {bar:{BAR}}  {number:>5} {unit}")
    return ["```text", *lines, "```"]


def findings(found, experiment):
    chosen = [r for r in found if r["kind"] == "finding" and experiment in ("", r["experiment"])]
    if not chosen:
        raise LookupError(f"no findings of '{experiment}'")
    if not experiment:
        chosen.sort(key=lambda r: records.id_order(r["case"]))
    return [f"- {r['case']}: {r['at']}" for r in chosen]


def excerpt(page, spec):
    """The lines of a source file between the marker lines of a name, as a code block with a link to the file."""
    name, _, part = [word.strip() for word in spec.partition("|")]
    lines = records.read_text(page.parent / name).splitlines()
    stripped = [line.strip() for line in lines]
    for marker in (f"// [{part}]", f"// [/{part}]"):
        if marker not in stripped:
            raise LookupError(f"{name} has no line '{marker}'")
    first, last = stripped.index(f"// [{part}]"), stripped.index(f"// [/{part}]")
    if last < first:
        raise LookupError(f"{name} has '// [/{part}]' before '// [{part}]'")
    shown = [line for line in lines[first + 1:last] if not re.fullmatch(r"\s*// \[/?\w+\]\s*", line)]
    code = textwrap.dedent("\n".join(shown)).strip("\n")
    return ["```cpp", *code.splitlines(), "```", f"<sub>[{pathlib.PurePath(name).name}]({name})</sub>"]


def gpus_of(page, pattern):
    """The records of each GPU that has files of this pattern."""
    found = records.by_gpu(page.parent.glob(pattern))
    if not found:
        raise LookupError(f"no GPU has results in {pattern}")
    return found


def gpu_lines(page, pattern):
    """A line for each GPU: what it is, how many parts got which verdict, and the topics that have not run on it."""
    found = gpus_of(page, pattern)
    all_topics = {r["topic"] for of_gpu in found.values() for r in of_gpu}
    rows = []
    for gpu, of_gpu in found.items():
        r, dates = next(r for r in of_gpu if r["gpu"]), sorted({r["date"] for r in of_gpu})
        run = [r["cc"], r["driver"], r["toolkit"], dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"]
        count = records.tally(records.claims(of_gpu).values())
        missing = ", ".join(f"`{topic}`" for topic in sorted(all_topics - {r["topic"] for r in of_gpu}))
        rows.append([gpu, *run, *[str(count[verdict]) for verdict in records.TALLY], missing or "-"])
    headings = ["", "compute capability", "driver for CUDA", "toolkit", "date", *records.TALLY, "not run"]
    lines = rule_off(headings, rows)
    lines[1] = "|---|---|---|---|---|" + "---:|" * len(records.TALLY) + "---|"
    return lines


def verdict_lines(page, pattern):
    """Every part of every claim, and what each GPU says of it; a part on which they differ is marked."""
    found = gpus_of(page, pattern)
    claimed = {gpu: records.claims(of_gpu) for gpu, of_gpu in found.items()}
    then = {part: text for of_gpu in found.values() for part, text in records.reported(of_gpu).items()}
    rows = []
    for part in sorted({part for of_gpu in claimed.values() for part in of_gpu}, key=records.id_order):
        here = [of_gpu.get(part) for of_gpu in claimed.values()]
        differ = any(records.judged_differently(one, other) for one in here for other in here)
        statement = next(claim["parameter"] for claim in here if claim)
        cells = [": ".join(filter(None, [claim["metric"] + records.mark(claim), records.size_text(claim)])) if claim else ""
                 for claim in here]
        rows.append([f"**{part}**" if differ else part, statement, then.get(part, ""),
                     *[f"**{text}**" if differ and text else text for text in cells]])
    lines = rule_off(["", "claim", "then", *claimed], rows)
    lines[1] = "|---" * (3 + len(claimed)) + "|"
    several = sum(sum(part in of_gpu for of_gpu in claimed.values()) > 1 for part in dict.fromkeys(
        part for of_gpu in claimed.values() for part in of_gpu))
    differing = sum(row[0].startswith("**") for row in rows)
    return lines + ["", f"{several} of {len(rows)} parts were run on more than one GPU; on {differing} of these (in bold) "
                        "their verdicts differ."]


def value(found, spec):
    experiment, case, at, metric, how = [part.strip() for part in spec.split("|")]
    wanted = (experiment, case, at, metric)
    named = [r for r in found if (r["experiment"], r["case"], r["at"], r["metric"]) == wanted]
    for r in sorted(named, key=lambda r: r["kind"] == "predicted"):  # what was found here before what was predicted
        return format(float(r["value"]), how)
    raise LookupError(f"no value '{spec.strip()}'")


def result_files(page, pattern):
    return sorted(page.parent.glob(pattern)) if "*" in pattern else [page.parent / pattern]


def unjudged(page):
    """Of a page of all topics: the claims that stand in the samples' code or in the result files but not in both, or
    that are not judged without a reason. A sentence of the page names those that are newer than the results:
    "Not measured yet: 03.17, 03.18."."""
    text = records.read_text(page)
    named = re.search(r"<!-- results: (\S*\*\S*) -->", text)
    if not named or named[1].startswith("../"):  # a page of a topic may name other topics' results
        return []
    results = [r for path in result_files(page, named[1]) for r in records.load(path)]
    judged = {r["case"] for r in results if r["kind"] == "claim" and (r["metric"] != "not judged" or r["at"])}
    sources = [path for ending in ("cu", "cuh", "hpp") for path in page.parent.glob(f"0?_*/*.{ending}")]
    coded = {claim for source in sources
             for claim in re.findall(r'"(0\d\.\d+[a-z]?)"', records.read_text(source))}
    newer = {claim for line in re.findall(r"^Not measured yet: (.*)$", text, flags=re.M)
             for claim in re.findall(r"0\d\.\d+[a-z]?", line)}
    # a finding may belong to all parts of a claim: 03.4 to 03.4a, 03.4b and 03.4c
    whole = {r["case"] for r in results if r["kind"] == "finding" and any(j[:-1] == r["case"] for j in judged)}
    return sorted((coded ^ (judged | newer) | newer & judged) - whole, key=records.id_order)


def table_of(found, spec):
    """What a table's marker asks for: "experiment @ parameter | metrics | rows | at = values | first = heading"."""
    what, metrics, *rest = [part.strip() for part in (spec + "|").split("|")]
    experiment, _, parameter = [part.strip() for part in what.partition("@")]
    named = {name: part[len(name) + 2:].strip() for part in rest for name in ("at", "first") if part.startswith(name + " =")}
    rows = [part for part in rest if part and not re.match("(at|first) =", part)]
    columns = dict([part.strip() for part in (m + " = ").split(" = ")[:2]] for m in metrics.split(",") if m.strip())
    return table(found, experiment, parameter or None, columns, "".join(rows[:1]), named.get("at", ""),
                 named.get("first", ""))


def rewrite(page):
    """The page's text as its sources and results have it. Raises LookupError that names every marker that fails."""
    found, wrong = [], []

    def kept_if_wrong(write):
        def written(match):
            try:
                return write(match)
            except (LookupError, OSError, ValueError) as error:
                wrong.append(records.in_words(error))
                return match[0]
        return written

    @kept_if_wrong
    def code(match):
        return "\n".join([f"<!-- code:{match[1]}-->", *excerpt(page, match[1]), "<!-- end -->"])

    @kept_if_wrong
    def all_gpus(match):
        lines = (gpu_lines if match[1] == "gpus" else verdict_lines)(page, match[2].strip())
        return "\n".join([f"<!-- {match[1]}:{match[2]}-->", *lines, "<!-- end -->"])

    @kept_if_wrong
    def block(match):
        kind, spec = match[1], match[2]
        if kind == "table":
            lines = table_of(found, spec)
        elif kind == "not held":
            lines = not_held(found)
        elif kind == "bars":
            lines = bars(found, spec)
        else:
            lines = (claims if kind == "claims" else findings)(found, spec.strip())
        return "\n".join([f"<!-- {kind}:{spec}-->", *lines, "<!-- end -->"])

    @kept_if_wrong
    def inline(match):
        return f"<!-- v {match[1]} -->{value(found, match[1])}<!-- /v -->"

    done = ""
    text = re.sub(r"<!-- code:(.*?)-->.*?<!-- end -->", code, records.read_text(page), flags=re.S)
    text = re.sub(r"<!-- (gpus|verdicts):(.*?)-->.*?<!-- end -->", all_gpus, text, flags=re.S)
    for part in re.split(r"(?=<!-- results: )", text):
        named = re.match(r"<!-- results: (\S+) -->", part)
        if named:
            found = [r for path in result_files(page, named[1]) for r in records.load(path)]
            part = re.sub(r"<!-- (table|claims|not held|bars|findings):(.*?)-->.*?<!-- end -->", block, part, flags=re.S)
            part = re.sub(r"<!-- v (.*?) -->.*?<!-- /v -->", inline, part, flags=re.S)
        done += part
    if wrong:
        raise LookupError("; ".join(dict.fromkeys(wrong)))
    return done


# ---- checking, commands, experiments ---------------------------------------------------------------------------------


def results_at(page, text):
    """A function of a line that gives the records of the results that the page names before it."""
    named = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in re.finditer(r"<!-- results: (\S+) -->", text)]
    loaded = {}

    def found_at(line):
        patterns = [pattern for at, pattern in named if at <= line]
        if not patterns:
            raise LookupError("numbers are listed before the page names its results")
        if patterns[-1] not in loaded:
            loaded[patterns[-1]] = [r for path in result_files(page, patterns[-1]) for r in records.load(path)]
        return loaded[patterns[-1]]

    return found_at


def check(page, new):
    """What is wrong with a page whose text should be `new`, a line or a few for each thing."""
    old = records.read_text(page)
    wrong = []
    if new != old:
        differences = difflib.unified_diff(old.splitlines(), new.splitlines(), "the page", "its results and code",
                                           n=0, lineterm="")
        wrong.append("differs from its results or code\n  " + "\n  ".join(differences))
    for claim in unjudged(page):
        wrong.append(f"claim {claim} is in the code or in the results, not in both, or is not judged without a reason")
    for n, line in enumerate(old.splitlines(), 1):
        if re.match(r"\s*([-*] )?<!-- v ", line):
            wrong.append(f"line {n}: a line that begins with a comment ends the paragraph before it; "
                         "put a word before the number")
    wrong += [f"{target} does not exist" for target in page_checks.broken_links(page)]
    return wrong + page_checks.check_prose(page, old, results_at(page, old))


def like_the_root(folder, sample):
    """Makes a folder a copy of the repository's root, which commands may write to, where that sample has been built as the
    page says."""
    shutil.copytree(page_checks.ROOT, folder, dirs_exist_ok=True, ignore=lambda path, names: {".git", "build", "__pycache__"} & {*names})
    built = folder / page_checks.BUILT / sample.name / sample.name
    built.parent.mkdir(parents=True)
    built.symlink_to(sample)


def run_commands(pages, sample):
    """Runs the pages' commands on a sample, quickly: as printed, in what looks like the repository's root, those that
    name the sample by its path. Whether one failed."""
    found = [(page, words) for page in pages for words in page_checks.commands(page, sample.name)]
    if not found:
        sys.exit(f"{', '.join(map(str, pages))}: no command calls {sample.name}")
    failed = False
    with tempfile.TemporaryDirectory() as folder:  # for the files that they write, too
        like_the_root(pathlib.Path(folder), sample)
        for page, (name, *words) in found:
            program = name if "/" in name else sample
            words = [w for w in words if w != "--full"]
            is_quick = {"--quick", "--self-check", "--list", "--help"} & {w.split("=")[0] for w in words}
            words += [] if is_quick else ["--quick"]
            print(name, *words, flush=True)
            try:
                code = subprocess.run([program, *words], cwd=folder, stdout=subprocess.DEVNULL).returncode
            except OSError as error:
                code = error.strerror
            if code not in (0, 77):
                print(f"{page}: exit code {code}" if isinstance(code, int) else f"{page}: {name}: {code}")
                failed = True
    return failed


def compare_experiments(pages, sample):
    """Whether the pages have other experiments than the sample lists, or a page has them in another order."""
    listed = subprocess.run([sample, "--list"], capture_output=True, text=True, check=True).stdout.split()
    there = [page_checks.experiments(page, sample.name) for page in pages]
    in_order = all(names == [name for name in listed if name in names] for names in there)
    if not in_order or sorted(listed) != sorted(name for names in there for name in names):
        said = "; ".join(f"{page} has the experiments {names}" for page, names in zip(pages, there))
        print(f"{said}; {sample.name} --list has {listed}")
        return True
    return False


def update(page, only_check, numbers):
    """Rewrites or checks a page. Whether that failed."""
    try:
        new = rewrite(page)
        if numbers:
            sections = page_checks.moved_sections(page, new)
            new, changed = page_checks.with_new_numbers(new, sections, results_at(page, new))
            for line, was, now in changed:
                print(f"{page}: line {line}: {was} is now {now}: read the sentence again")
        wrong = check(page, new) if only_check else []
    except (LookupError, OSError, ValueError) as error:
        print(f"{page}: {records.in_words(error).removeprefix(f'{page}: ')}", file=sys.stderr)
        return True
    for text in wrong:
        print(f"{page}: {text}")
    if not only_check and new != records.read_text(page):
        page.write_text(new, encoding="utf-8")
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=" ".join(__doc__.split("\n\n")[0].split()))
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page differs")
    parser.add_argument("--numbers", action="store_true", help="rewrite also the numbers of sentences, and name them")
    parser.add_argument("--commands", metavar="SAMPLE", help="run the pages' commands on this executable")
    parser.add_argument("--experiments", metavar="SAMPLE",
                        help="the pages have the experiments of this executable's --list, in that order")
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE")
    args = parser.parse_args()
    if args.check and args.numbers:
        parser.error("--check writes nothing, --numbers does")
    if args.experiments:
        sys.exit(compare_experiments(args.pages, pathlib.Path(args.experiments).resolve()))
    if args.commands:
        sys.exit(run_commands(args.pages, pathlib.Path(args.commands).resolve()))
    failed = [page for page in args.pages if update(page, args.check, args.numbers)]
    sys.exit(bool(failed))


if __name__ == "__main__":
    records.run(main)
