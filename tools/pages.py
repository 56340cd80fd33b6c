#!/usr/bin/env python3
"""Copies code and output into the pages, and writes docs/VERDICTS.md and the table of docs/GPUS.md.

    tools/pages.py            writes what is stale
    tools/pages.py --check    says what is stale, which links lead nowhere, and what is wrong in docs/TEXTS.md; exit code 1

In a page:
    <!-- code: stride.cu read_stride -->        a function, struct or macro, with the comment above it
    <!-- output: stride "stride, words" -->     of results/nvidia-h100-80gb-hbm3.txt: the block of the experiment with a line that
    <!-- end -->                                begins so, from that line on; without words all of the experiment
    <!-- output: peer "GB/s" nvidia-h200 -->    the same of another GPU
    <!-- figure: stride -->                     results/stride.svg, which tools/plot.py draws, with its title
"""
import re
import sys
from pathlib import Path

import results
from figures import FIGURES

ROOT = Path(__file__).resolve().parent.parent
RECORDED = "nvidia-h100-80gb-hbm3.txt"
MOST_COLUMNS = 100
MARK = re.compile(r'(<!-- (code|output|figure): (\S+) ?(.*?) ?-->\n).*?(<!-- end -->)', re.S)


# docs/GPUS.md, "is my number normal?": what it is, topic, experiment, row and column; of several tables the last
NUMBERS = [
    ("GB/s, a kernel reads", "04_bandwidth", "peak", "read", "GB/s"),
    ("GB/s, a kernel writes", "04_bandwidth", "peak", "write", "GB/s"),
    ("GB/s, a kernel copies (read and written)", "04_bandwidth", "peak", "copy", "GB/s"),
    ("GB/s, the copy engine (read and written)", "04_bandwidth", "peak", "copy engine", "GB/s"),
    ("GB/s, triad: two read, one written", "04_bandwidth", "peak", "triad", "GB/s"),
    ("GB/s, the best transpose (read and written)", "04_bandwidth", "transpose", "quad_tile", "GB/s"),
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


def topics():
    """Topics whose results are recorded as text."""
    return [folder for folder in sorted(ROOT.glob("0?_*")) if (folder / "results" / RECORDED).exists()]


def function(path, name):
    """The definition of a name that stands at the beginning of a line's code, with the comment above."""
    lines = path.read_text().splitlines()
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
        while first > 0 and re.match(r"//|template|#pragma", lines[first - 1]) and not lines[first - 1].startswith("// ----"):
            first -= 1
        return "\n".join(lines[first:last + 1])
    raise Stale("no function %s in %s" % (name, path.name))


def output(folder, experiment, words, recorded=RECORDED):
    """A block that an experiment printed."""
    text = (folder / "results" / recorded).read_text()
    found = re.findall(r"^== %s: .*?\n(.*?)(?=^== |^claims: |\Z)" % re.escape(experiment), text, re.S | re.M)
    if not found:
        raise Stale("%s has no experiment %s" % (recorded, experiment))
    body = "\n\n".join(part.strip("\n") for part in found)  # an experiment may have several titles
    if not words:
        return body
    blocks = [block.split("\n") for block in body.split("\n\n")]
    for lines in blocks:  # the heading of a table before a row of another
        if lines[0].strip().startswith(words):
            return "\n".join(lines)
    for lines in blocks:
        for i, line in enumerate(lines):
            if line.strip().startswith(words):
                return "\n".join(lines[i:])
    raise Stale("%s, %s: no block has a line that begins with '%s'" % (recorded, experiment, words))


def filled(page):
    """The text of a page with its blocks as they should be."""
    def block(match):
        kind, what, rest = match.group(2), match.group(3), match.group(4)
        if kind == "code":
            return match.group(1) + "```cpp\n" + function(page.parent / what, rest) + "\n```\n" + match.group(5)
        if kind == "figure":
            title = FIGURES.get(page.parent.name, {}).get(what, [what])[0]
            return match.group(1) + "![%s](results/%s.svg)\n" % (title, what) + match.group(5)
        words, gpu = re.fullmatch(r'(?:"(.*)")? ?(\S*)', rest).groups()
        return match.group(1) + "```text\n" + output(page.parent, what, words, gpu + ".txt" if gpu else RECORDED) + "\n```\n" + match.group(5)
    return MARK.sub(block, page.read_text())


def claims(path):
    """{id: (verdict, statement, here, source)} of what a GPU printed."""
    found = re.findall(r"^  (\d\d\.\S+) +(.*?): (.*)\n +here: (.*)\n +source: (.*)$", path.read_text(), re.M)
    return {id: rest for id, *rest in found}


def verdicts():
    """docs/VERDICTS.md"""
    text = "# Verdicts\n\nEvery claim of the texts, and what the recorded runs say of it. Written by `tools/pages.py`.\n" \
           "An older column is of the experiments as they were that day.\n"
    for folder in topics():
        by_gpu = {}
        for path in sorted((folder / "results").glob("*.txt"), reverse=True):
            heading = path.read_text().partition("\n")[0].partition(" on ")[2].split(", ")
            by_gpu[heading[0] + ", " + heading[-1]] = claims(path)
        rows = {id: claim for gpu in by_gpu for id, claim in by_gpu[gpu].items()}
        if not rows:
            continue
        text += "\n## %s\n\n| | the text says | source | %s |\n|---|---|---|%s\n" % (
            folder.name, " | ".join(by_gpu), "---|" * len(by_gpu))
        for id in sorted(rows, key=lambda id: (int(re.findall(r"\d+", id)[1]), id)):
            cells = []
            for gpu in by_gpu:
                verdict, _, here, _ = by_gpu[gpu].get(id, ("not run", "", "", ""))
                cells.append("**%s**: %s" % (verdict, here) if here else verdict)
            text += "| %s | %s | %s | %s |\n" % (id, rows[id][1], rows[id][3], " | ".join(cells))
    return text


def gpus(page):
    """The page with its table: a column per recorded GPU."""
    columns = {}  # GPU -> (topic, experiment, row, column) -> value
    for path in sorted(ROOT.glob("0?_*/results/*.csv"), reverse=True):
        heading, rows = results.read(path)
        for experiment, _, row, column, value, _, _ in rows:
            columns.setdefault(results.gpu_of(heading), {})[path.parts[-3], experiment, row, column] = value
    text = "| | %s |\n|---|%s\n" % (" | ".join(columns), "---:|" * len(columns))
    for what, *key in NUMBERS:
        values = [columns[gpu].get(tuple(key)) for gpu in columns]
        topic, experiment = key[:2]
        text += "| %s ([`%s`](../%s/README.md#%s)) | %s |\n" % (
            what, experiment, topic, experiment, " | ".join("-" if v is None else "%.3g" % v if v < 100 else "%.0f" % v for v in values))
    return re.sub(r"(<!-- measured -->\n).*?(<!-- end -->)", lambda m: m.group(1) + text + m.group(2), page.read_text(), flags=re.S)


def slug(heading):
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).strip().replace(" ", "-")


def dead_links(page):
    """Links within the repository that lead nowhere."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = page if not path else page.parent / path
        if not there.exists():
            yield "no file %s" % target
        elif anchor and there.suffix == ".md":
            other = there.read_text()
            anchors = [slug(h) for h in re.findall(r"^#+ (.*)$", other, re.M)] + re.findall(r'id="([^"]+)"', other)
            if anchor not in anchors:
                yield "no heading %s" % target


def wrong_rows(page, printed):
    """What the rows `words | files and names in them | section | verdicts` get wrong; printed: {id of a claim: verdict}."""
    judged = set()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.startswith("|") or line.endswith(("| H100 |", "---|")):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4:
            yield "line %d has %d cells, not 4" % (number, len(cells))
            continue
        for target, names in re.findall(r"(?:^|\]\(([^)]+)\))([^[]*)", cells[1]):  # a link, and the names behind it
            path = page.parent / target
            text = path.read_text() if path.is_file() else ""
            for name in re.findall(r"`([^`]+)`", names):
                if not re.search(r"(?<!\w)%s(?!\w)" % re.escape(name), text):
                    yield "line %d: no %s in %s" % (number, name, target or "no file")
        verdicts_here = re.findall(r"(\d\d\.\d+[a-z]?) ?([^;]*)", cells[3])
        if not verdicts_here and not re.match(r"-$|not measured: ", cells[3]):
            yield "line %d has no verdict: %s" % (number, cells[3])
        for id, verdict in verdicts_here:
            judged.add(id)
            if verdict != printed.get(id):
                yield "line %d: %s '%s', printed is '%s'" % (number, id, verdict, printed.get(id, "no such claim"))
    for id in sorted(set(printed) - judged):
        yield "no row has %s" % id


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("pages.py: the only option is --check")
    wrong = []
    pages = [folder / "README.md" for folder in topics()]
    wanted = {}
    for page in pages:
        try:
            wanted[page] = filled(page)
        except (Stale, OSError) as error:
            wrong.append("%s: %s" % (page.relative_to(ROOT), error))
    wanted[ROOT / "docs" / "VERDICTS.md"] = verdicts()
    wanted[ROOT / "docs" / "GPUS.md"] = gpus(ROOT / "docs" / "GPUS.md")
    for path, text in wanted.items():
        if path.exists() and path.read_text() == text:
            continue
        if check:
            wrong.append("%s is stale: run tools/pages.py" % path.relative_to(ROOT))
        else:
            path.write_text(text)
            print(path.relative_to(ROOT))
    for page in pages + [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        wrong += ["%s: %s" % (page.relative_to(ROOT), dead) for dead in dead_links(page)]
    for folder in topics():
        for path in sorted((folder / "results").glob("*.txt")):
            wrong += ["%s: line %d has more than %d columns" % (path.relative_to(ROOT), number, MOST_COLUMNS)
                      for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > MOST_COLUMNS]
    texts = ROOT / "docs" / "TEXTS.md"
    printed = {id: claim[0] for folder in topics() for id, claim in claims(folder / "results" / RECORDED).items()}
    wrong += ["%s: %s" % (texts.relative_to(ROOT), row) for row in wrong_rows(texts, printed)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
