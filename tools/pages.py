#!/usr/bin/env python3
"""Copies code and output into the pages, and writes docs/VERDICTS.md, the table of docs/GPUS.md and the counts of README.md.

    tools/pages.py            writes what is stale
    tools/pages.py --check    says what is stale or missing, which links lead nowhere, and what is wrong in docs/TEXTS.md; exit code 1

In a page:
    <!-- code: stride.cu read_stride -->        a function, struct or macro, with the comment above it
    <!-- output: stride "stride, words" -->     of results/nvidia-h100-80gb-hbm3.txt: the block of the experiment with a line that
    <!-- end -->                                begins so, from that line on, below the title that the run printed; without words all
                                                of the experiment. A block of more than eight lines is folded
    <!-- output: stride "stride, words" 1; 8 -->    of that table only the rows with these names
    <!-- output: peer "GB/s" nvidia-h200 -->    the same of another GPU; README.md names the topic, 03_access_patterns/stride
    <!-- output: peer "GB/s" two_gpus/nvidia-h100-80gb-hbm3 -->   what needs two GPUs is recorded apart
    <!-- figure: stride -->                     results/stride.svg, which tools/plot.py draws, with its title, and that of the run
docs/TEXTS.md names ids of claims in its last column, and gets their verdicts and whys. In docs/VERDICTS.md the last column, why, is written by hand and kept; so is all from "## By cause" on.
"""
import html
import re
import sys
from collections import Counter
from pathlib import Path

import plot
import results

ROOT = Path(__file__).resolve().parent.parent
RECORDED = "nvidia-h100-80gb-hbm3.txt"
MOST_COLUMNS = 110  # GitHub shows about 115 without scrolling
UNFOLDED = 8  # lines of a block
MARK = re.compile(r'(<!-- (code|output|figure): (\S+) ?(.*?) ?-->\n).*?(<!-- end -->)', re.S)


# docs/GPUS.md, "is my number normal?": what it is, topic, experiment, row and column; of several tables the last
NUMBERS = [
    ("GB/s, a kernel reads", "04_bandwidth", "peak", "read", "GB/s"),
    ("GB/s, a kernel writes", "04_bandwidth", "peak", "write", "GB/s"),
    ("GB/s, a kernel copies (read and written)", "04_bandwidth", "peak", "copy", "GB/s"),
    ("GB/s, cudaMemcpy within the device (read and written)", "04_bandwidth", "peak", "cudaMemcpy", "GB/s"),
    ("GB/s, triad: two read, one written", "04_bandwidth", "peak", "triad", "GB/s"),
    ("GB/s, the best transpose, 16416 x 16416 (read and written)", "04_bandwidth", "transpose", "quad_tile", "GB/s"),
    ("GB/s, a sum of 1 GiB", "06_shared_reduce", "one_pass", "2^28", "sum_once GB/s"),
    ("GB/s, host to device, pinned", "02_memory_management", "transfer", "pinned to device", "GB/s"),
    ("GB/s, device to host, pinned", "02_memory_management", "transfer", "device to pinned", "GB/s"),
    ("GB/s, host to device, pageable", "02_memory_management", "transfer", "pageable to device", "GB/s"),
    ("cycles, shared memory", "01_memory_model", "latency", "shared", "cycles"),
    ("cycles, L1", "01_memory_model", "latency", "global, in L1", "cycles"),
    ("cycles, L2", "01_memory_model", "latency", "global, in the L2", "cycles"),
    ("cycles, device memory", "01_memory_model", "latency", "global, in memory", "cycles"),
]


class Stale(Exception):
    """What a page asks for and is not there."""


def read(path):
    return path.read_text(encoding="utf-8")


def topics():
    """Topics whose results are recorded as text."""
    return [folder for folder in sorted(ROOT.glob("0?_*")) if (folder / "results" / RECORDED).exists()]


def function(path, name):
    """The definition of a name that stands at the beginning of a line's code, with the comment above."""
    lines = read(path).splitlines()
    start = re.compile(r"(?!//)\S.*\b%s\b *(\(|\{|=|\[\] =|[0-9])" % re.escape(name))
    for first, line in enumerate(lines):
        if first and re.match(r"__global__ void __\w+\(", lines[first - 1]):  # the name stands in the second line
            first, line = first - 1, lines[first - 1] + line
        if not start.match(line) or line.endswith(";") and "=" not in line:
            continue
        depth, last = 0, first
        while not line.startswith("#"):
            depth += lines[last].count("{") - lines[last].count("}")
            if depth == 0 and lines[last].split(" //")[0].rstrip().endswith(("}", ";")):
                break
            last += 1
            if last == len(lines):
                raise Stale("%s in %s does not end" % (name, path.name))
        while first > 0 and re.match(r"//|template|#pragma", lines[first - 1]) and not lines[first - 1].startswith("// ----"):
            first -= 1
        return "\n".join(lines[first:last + 1])
    raise Stale("no function %s in %s" % (name, path.name))


def printed(folder, experiment, recorded=RECORDED):
    """[(title, body)] of what an experiment printed: it may have several titles."""
    found = re.findall(r"^== (%s: .*?)\n(.*?)(?=^== |^claims: |\Z)" % re.escape(experiment), read(folder / "results" / recorded), re.S | re.M)
    if not found:
        raise Stale("%s has no experiment %s" % (recorded, experiment))
    return [(title, body.strip("\n")) for title, body in found]


def output(folder, experiment, words, recorded=RECORDED, rows=()):
    """A block that an experiment printed, below its title; of a table only these rows, if some are named."""
    parts = printed(folder, experiment, recorded)
    if not words:
        return "\n\n".join("== %s\n%s" % part for part in parts)
    blocks = [(title, block.split("\n")) for title, body in parts for block in body.split("\n\n")]
    first = [(title, lines) for title, lines in blocks if lines[0].strip().startswith(words)]  # a heading before a row of another
    later = [(title, lines[i:]) for title, lines in blocks for i, line in enumerate(lines) if line.strip().startswith(words)]
    if not first + later:
        raise Stale("%s, %s: no block has a line that begins with '%s'" % (recorded, experiment, words))
    title, lines = (first + later)[0]
    if rows:
        chosen = [line for row in rows for line in lines if re.match(r" +%s(  |$)" % re.escape(row), line)]
        if len(chosen) != len(rows):
            raise Stale("%s, %s: not each of the rows %s is there once" % (recorded, experiment, "; ".join(rows)))
        lines = lines[:1] + chosen
    return "\n".join(["== " + title] + lines)


def block_of(text):
    """A block of a page; a long one is folded."""
    lines = text.split("\n")
    if len(lines) <= UNFOLDED:
        return "```text\n%s\n```\n" % text
    return "<details><summary>The numbers: %s</summary>\n\n```text\n%s\n```\n\n</details>\n" % (html.escape(lines[0].replace("== ", "", 1)), text)


def figure(folder, experiment):
    """The picture of an experiment, and below it the title under which the program prints what is drawn."""
    for name, title, panels, _, foot in plot.recorded_figures(folder.name, folder / "results" / plot.RECORDED):
        if name == experiment:
            there = folder / "results" / "two_gpus" / RECORDED
            two = there.exists() and "\n== %s: " % experiment in read(there)
            parts = printed(folder, experiment, ("two_gpus/" if two else "") + RECORDED)
            drawn = [head for head, body in parts for panel in panels if "\n  %s  " % panel.table in "\n" + body]
            return "![%s](results/%s.svg)\n\n*%s (%s)*\n" % (title, experiment, (drawn or [parts[0][0]])[0], foot)
    raise Stale("tools/figures.py has no figure of %s" % experiment)


def filled(page):
    """The text of a page with its blocks as they should be."""
    def block(match):
        kind, what, rest = match.group(2), match.group(3), match.group(4)
        if kind == "code":
            return match.group(1) + "```cpp\n" + function(page.parent / what, rest) + "\n```\n" + match.group(5)
        if kind == "figure":
            return match.group(1) + figure(page.parent, what) + match.group(5)
        words, more = re.fullmatch(r'(?:"(.*?)")? ?(.*)', rest).groups()
        recorded = more + ".txt" if re.fullmatch(r"(two_gpus/)?nvidia-[\w.-]+", more) else RECORDED
        rows = [row.strip() for row in more.split(";")] if more and recorded == RECORDED else []
        topic, _, experiment = what.rpartition("/")
        return match.group(1) + block_of(output(page.parent / topic, experiment, words, recorded, rows)) + match.group(5)
    return MARK.sub(block, read(page))


def claims(path):
    """{id: (verdict, statement, here, source, experiment)} of what a GPU printed."""
    found, experiment = {}, ""
    for part in re.split(r"^== ", read(path), flags=re.M)[1:]:
        experiment = part.partition(":")[0]
        part = re.sub(r"\n {15}(?=\S)", " ", part)  # long lines are wrapped
        for id, verdict, statement, here, source in re.findall(r"^  (\d\d\.\S+) +(.*?): (.*)\n +here: (.*)\n +source: (.*)$", part, re.M):
            if id in found:
                raise Stale("%s has two claims %s" % (path.name, id))
            found[id] = (verdict, statement, here, source, experiment)
    return found


def of_source(source):
    """("[LC 1]", "77 times") of "[LC 1] 77 times"; the second is "-" where the text gives no figure."""
    tags, rest = re.match(r"((?:\[[^\]]*\](?:, )?)*) *(.*)", source).groups()
    return tags.rstrip(", "), rest or "-"


def whys(text):
    """{id: why} of docs/VERDICTS.md as it is: the last cell of a line whose first names a claim."""
    return {id: why.strip() for id, why in re.findall(r"^\| \[(\d\d\.\w+)\].*\|([^|]*)\|$", text, re.M)}


def numeric(id):
    topic, number, part = re.fullmatch(r"(\d+)\.(\d+)(\w*)", id).groups()
    return int(topic), int(number), part


def brief(here):
    """What was found, without its interval and without what "; " adds."""
    return re.sub(r" \[[^\]]*\]", "", here).split("; at its ends")[0]


def words_of_verdicts():
    """The table of the words, which stands in CONTRIBUTING.md alone."""
    found = re.search(r"(?<=<!-- verdicts -->\n).*?(?=<!-- end -->)", read(ROOT / "CONTRIBUTING.md"), re.S)
    if not found:
        raise Stale("CONTRIBUTING.md has no <!-- verdicts -->")
    return found[0]


def all_claims():
    """{id: (verdict, statement, here, source, experiment, topic)} of what was recorded."""
    found = {}
    for folder in topics():
        for id, claim in claims(folder / "results" / RECORDED).items():
            if id in found:
                raise Stale("two claims are called " + id)
            found[id] = (*claim, folder.name)
    return found


def counts(of):
    """{verdict: how many} of those that were measured, computed and counted: three dictionaries."""
    found = {"": Counter(), "computed": Counter(), "counted": Counter()}
    for verdict, *_ in of.values():
        how, _, word = verdict.partition(", ")
        found[how if how in found else ""][word if how in ("computed", "counted") else verdict] += 1
    return found


VERBS = {"holds": ("holds", "hold"), "holds, stronger": ("more strongly than stated",) * 2, "holds, weaker": ("more weakly than stated",) * 2,
         "direction only": ("only in its direction", "only in their direction"), "depends": ("depends on size or shape", "depend on size or shape"),
         "no longer": ("no longer holds", "no longer hold"), "does not hold": ("does not hold", "do not hold"),
         "too close to call": ("is too close to call", "are too close to call"), "not seen here": ("was not seen here", "were not seen here"),
         "not judged": ("could not be judged here",) * 2}


def sums(of):
    """["115 are measured: 60 hold, 1 no longer holds", "19 are computed: 12 hold"] """
    for how, found in counts(of).items():
        if found:
            said = ", ".join("%d %s" % (found[word], verbs[found[word] > 1]) for word, verbs in VERBS.items() if found[word])
            yield "%d %s %s: %s" % (sum(found.values()), "is" if sum(found.values()) == 1 else "are", how or "measured", said)


def verdicts():
    """docs/VERDICTS.md"""
    path = ROOT / "docs" / "VERDICTS.md"
    old = read(path) if path.exists() else ""
    why, of = whys(old), all_claims()
    heading = read(topics()[0] / "results" / RECORDED).partition("\n")[0].partition(" on ")[2]
    gpu = heading.partition(",")[0]
    text = "# Verdicts\n\nWhat the texts say, what an %s gives, and why. Of %d claims, %s. [Who wrote the texts](TEXTS.md).\n\n" % (gpu, len(of), "; ".join(sums(of)))
    text += "A line names the rows that it compares: \"1.9x as fast: 'a' over 'b'\" says that a takes less time. \"4 of 7: 0.5x to 5x\" says that " \
            "4 of 7 sizes or shapes are in favour, and gives the lowest and the highest of the 7 ratios. The intervals are in each " \
            "topic's `results/*.csv`. *then* is the text's own figure or words.\n\n" + words_of_verdicts() + \
            "\n[How we measure and judge](../CONTRIBUTING.md#how-we-measure-and-judge) has the rules behind these words.\n"
    for folder in topics():
        rows = {id: claim for id, claim in of.items() if claim[5] == folder.name}
        if not rows:
            continue
        text += "\n## %s\n\n| | the text says | then | now | verdict | why |\n|---|---|---|---|---|---|\n" % folder.name
        for id in sorted(rows, key=numeric):
            verdict, statement, here, source, experiment, topic = rows[id]
            tag, then = of_source(source)
            text += "| [%s](../%s/README.md#%s) | %s %s | %s | %s | **%s** | %s |\n" % (
                id, topic, experiment, statement, tag, then, brief(here), verdict, why.get(id, ""))
    kept = old.find("\n## By cause")
    return text + (old[kept:] if kept >= 0 else "")


def counted_in(page):
    """The page with its counts of claims."""
    of = all_claims()
    return re.sub(r"(<!-- counts -->).*?(<!-- end -->)", lambda m: "%s\nOn an H100, of %d claims\n\n%s\n%s" % (m[1], len(of), "\n".join("- %s" % line for line in sums(of)), m[2]), filled(page), flags=re.S)


def gpus(page):
    """The page with its table: a column per recorded GPU."""
    columns = {}  # GPU -> (topic, experiment, row, column) -> value
    for path in sorted(ROOT.glob("0?_*/results/*.csv"), reverse=True):
        heading, rows = results.read(path)
        for experiment, _, row, column, value, _, _ in rows:
            columns.setdefault(results.gpu_of(heading), {})[path.parts[-3], experiment, row, column] = value
    dates = {results.gpu_of(results.read(path)[0]): results.date_of(results.read(path)[0]) for path in ROOT.glob("0?_*/results/*.csv")}
    text = "| | %s |\n|---|%s\n" % (" | ".join("%s, %s" % (gpu, dates[gpu]) for gpu in columns), "---:|" * len(columns))
    for what, *key in NUMBERS:
        values = [columns[gpu].get(tuple(key)) for gpu in columns]
        topic, experiment = key[:2]
        text += "| %s ([`%s`](../%s/README.md#%s)) | %s |\n" % (
            what, experiment, topic, experiment, " | ".join("-" if v is None else "%.3g" % v if v < 100 else "%.0f" % v for v in values))
    return re.sub(r"(<!-- measured -->\n).*?(<!-- end -->)", lambda m: m.group(1) + text + m.group(2), read(page), flags=re.S)


def slug(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).strip().replace(" ", "-")


def dead_links(page):
    """Links within the repository that lead nowhere."""
    text = re.sub(r"```.*?```", "", read(page), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = page if not path else page.parent / path
        if not there.exists():
            yield "no file %s" % target
        elif anchor and there.suffix == ".md":
            other = read(there)
            anchors = [slug(h) for h in re.findall(r"^#+ (.*)$", other, re.M)] + re.findall(r'id="([^"]+)"', other)
            if anchor not in anchors:
                yield "no heading %s" % target


ID = re.compile(r"\b\d\d\.\d+[a-z]?\b")


def texts(page):
    """docs/TEXTS.md with each claim's verdict and why; a row's last cell names the ids."""
    of, why = all_claims(), whys(read(ROOT / "docs" / "VERDICTS.md"))

    def cell(match):
        ids = [id for id in ID.findall(match[2]) if id in of]
        said = "<br>".join("%s **%s**%s" % (id, of[id][0], ": " + why[id] if why.get(id) else "") for id in ids)
        return "%s %s |" % (match[1], said) if said else match[0]
    return re.sub(r"^(\|.*\|) (\d\d\.\d[^|]*) \|$", cell, read(page), flags=re.M)


def wrong_rows(page, printed):
    """What the rows `words | files and names in them | section | ids` get wrong; printed: the ids of claims."""
    judged = set()
    for number, line in enumerate(read(page).splitlines(), 1):
        if not line.startswith("|") or line.endswith(("| H100 |", "---|")):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4:
            yield "line %d has %d cells, not 4" % (number, len(cells))
            continue
        for target, names in re.findall(r"(?:^|\]\(([^)]+)\))([^[]*)", cells[1]):  # a link, and the names behind it
            path = page.parent / target
            text = read(path) if path.is_file() else ""
            for name in re.findall(r"`([^`]+)`", names):
                if not re.search(r"(?<!\w)%s(?!\w)" % re.escape(name), text):
                    yield "line %d: no %s in %s" % (number, name, target or "no file")
        ids = ID.findall(cells[3])
        if not ids and not re.match(r"-$|shown$|not measured: ", cells[3]):
            yield "line %d has no verdict: %s" % (number, cells[3])
        for id in ids:
            judged.add(id)
            if id not in printed:
                yield "line %d: %s is no claim" % (number, id)
    for id in sorted(set(printed) - judged):
        yield "no row has %s" % id


def missing():
    """Samples without a section on their page, or without a row in docs/TEXTS.md; claims without a why."""
    texts = read(ROOT / "docs" / "TEXTS.md")
    for folder in topics():
        page = read(folder / "README.md")
        anchors = {slug(heading) for heading in re.findall(r"^#+ (.*)$", page, re.M)} | set(re.findall(r'id="([^"]+)"', page))
        for path in sorted(folder.glob("*.cu")):
            for name in re.findall(r"^\s*SAMPLE\(\d+, (\w+)", read(path), re.M):
                if name not in anchors:
                    yield "%s/README.md: no section has the id %s" % (folder.name, name)
                if "%s/%s" % (folder.name, path.name) not in texts:
                    yield "docs/TEXTS.md: no row leads to %s/%s" % (folder.name, path.name)
    why = whys(verdicts())
    for id in sorted(all_claims(), key=numeric):
        if not why.get(id):
            yield "docs/VERDICTS.md: %s has no why" % id


def pages_wanted(wrong):
    """{path: its text as it should be}; adds to `wrong` what cannot be made."""
    docs = ROOT / "docs"
    ways = {folder / "README.md": filled for folder in topics()}
    ways.update({docs / "VERDICTS.md": lambda _: verdicts(), docs / "GPUS.md": gpus, docs / "TEXTS.md": texts, ROOT / "README.md": counted_in})
    wanted = {}
    for path, way in ways.items():
        try:
            wanted[path] = way(path)
        except Stale as error:
            wrong.append("%s: %s" % (path.relative_to(ROOT), error))
    return wanted


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print("pages.py: the only option is --check", file=sys.stderr)
        return 2
    wrong = []
    for path, text in pages_wanted(wrong).items():
        if path.exists() and read(path) == text:
            continue
        if check:
            wrong.append("%s is stale: run tools/pages.py" % path.relative_to(ROOT))
        else:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))
    for page in [folder / "README.md" for folder in topics()] + [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        wrong += ["%s: %s" % (page.relative_to(ROOT), dead) for dead in dead_links(page)]
    for folder in topics():
        for path in sorted((folder / "results").glob("*.txt")):
            wrong += ["%s: line %d has more than %d columns" % (path.relative_to(ROOT), number, MOST_COLUMNS)
                      for number, line in enumerate(read(path).splitlines(), 1) if len(line) > MOST_COLUMNS]
    docs = ROOT / "docs"
    try:
        wrong += ["docs/TEXTS.md: " + row for row in wrong_rows(docs / "TEXTS.md", set(all_claims()))]
        wrong += missing()
    except Stale as error:
        wrong.append(str(error))
    if wrong:
        print("\n".join(dict.fromkeys(wrong)), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, UnicodeDecodeError) as error:
        sys.exit("pages.py: %s" % " ".join(str(error).split()))
