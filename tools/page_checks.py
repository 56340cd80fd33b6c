"""What tools/pages.py checks of a page's prose: the numbers in its sentences, words, commands, links, terms of the
glossary, folded blocks and excerpts that an exercise asks for.

A number in a sentence stands there as plain text. An HTML comment behind the paragraph says where it comes from, a line
for each number:

    <!-- numbers:
      4367 = stride | read_stride | 1 | bandwidth        experiment | case | at | metric
      1092 = ... | 1 | bandwidth / 4                     "..." repeats what the key before it began with
      7.8 = ... | 1 | bandwidth / ... | 8 | bandwidth    + - * / between keys and plain numbers, * and / first
      546 = ... | 8 | predicted bandwidth                measured is preferred, unless "predicted" says otherwise
      0.36 = sqrt of 1 - ... | 8 | bandwidth / 650       of all that follows
      3.53 = claim 04.8                                  the figure on which a verdict rests ("claim 04.8 low", "high")
    -->

The comment belongs to the text since the comment before it, or since the heading. Each number has to stand there, equal
to what the results give when that is rounded to the number's own decimals; and every number of that text with a unit
that is measured (GB/s, ms, ns, cycles, "times as") has to be listed.
"""
import dataclasses
import math
import pathlib
import re
import shlex

import records

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Pages, and sections of pages, that are written by the rules of CONTRIBUTING.md's style page. The checks of prose apply
# to these. An empty list: the whole page.
MOVED = {
    "01_memory_model/README.md": [],
    "01_memory_model/BEYOND.md": [],
    "01_memory_model/GLOSSARY.md": [],
    "02_memory_management/README.md": [],
    "02_memory_management/BEYOND.md": [],
    "03_access_patterns/README.md": [],
    "03_access_patterns/LAYOUT.md": [],
    "03_access_patterns/LETTERS.md": [],
    "03_access_patterns/BEYOND.md": [],
    "04_bandwidth/README.md": [],
    "04_bandwidth/SHAPES.md": [],
    "04_bandwidth/BEYOND.md": [],
    "06_shared_reduce/README.md": [],
    "06_shared_reduce/BEYOND.md": [],
    "07_texture_readonly/README.md": [],
    "07_texture_readonly/BEYOND.md": [],
}

GLOSSARY = "01_memory_model/GLOSSARY.md"
MOST_WORDS = 6000  # of a page's prose
BUILT = "build/release"  # where the pages' commands find the samples

UNITS = r"GB/s|TB/s|ms|ns|us|µs|cycles|times (?:as|slower|faster)"
COUNTED = (r"sectors?|words?|bytes|lines?|elements?|loads?|stores?|requests?|wavefronts?|cycles?|threads?|warps?|blocks?|rows?|"
           r"bits|[KMG]i?B|instructions?|registers?|transactions?")
PER = r"request|warp|thread|lane|block|SM|multiprocessor|cycle|second|element|word|row|page|pair|clock|load|store"

# (what is found, what to write instead)
WORDS = [
    (rf"\b(?:{COUNTED}) an? (?:{PER})\b", 'write "per"'),
    (r"\bunder way\b", 'write "in flight"'),
    (r"\b1\.0+ ?(?:x|times)\b", 'write "equal within 1%"'),
    (r"\d ?x (?:slower|faster)\b", 'write "times as slow", "times as fast"'),
    (r"\bby (?:less|more):", "say both figures"),
    (r"\b(?:was|were|is) not found out\b", 'write "is open", or "we do not know why"'),
    (r"\b[Pp]ackets?\b|\b[Tt]rips?\b|\bin other hands\b|\bcomes? round\b", "a private word: use the field's term"),
    (r"\bstands? (?:under|behind|over)\b", 'write "below", "after", "above"'),
    (r"\bdear\b", 'write "expensive"'),
]


@dataclasses.dataclass
class Section:
    """A moved part of a page: its lines from `first` on, counted from 1."""
    name: str
    first: int
    lines: list

    def text(self):
        return "\n".join(self.lines)


def moved_sections(page, text, moved=None):
    """The sections of a page that are written by the rules; each page begins with one that has no name."""
    if moved is None:
        path = page.resolve()
        moved = MOVED.get(path.relative_to(ROOT).as_posix()) if path.is_relative_to(ROOT) else None
    if moved is None:
        return []
    sections, code = [Section("", 1, [])], False
    for n, line in enumerate(text.splitlines(), 1):
        code ^= line.lstrip().startswith("```")
        heading = re.match(r"## ([^:]+)", line)
        if heading and not code:
            anchor = sections[-1].lines[-1:]  # which belongs to the heading below it
            if anchor and anchor[0].startswith("<a id="):
                sections[-1].lines.pop()
            sections.append(Section(heading[1].strip(), n, []))
        sections[-1].lines.append(line)
    if moved:
        sections = [section for section in sections if section.name in moved]
    for name in moved:
        if name not in [section.name for section in sections]:
            raise LookupError(f"no section '{name}', which page_checks.py names as moved")
    return sections


def blanked(text, pattern, flags=re.S):
    """The text without what the pattern finds; line breaks stay, so that lines can be counted."""
    return re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=flags)


def without_code(text):
    text = blanked(text, r"^[ ]*```.*?^[ ]*```[ ]*$", re.S | re.M)
    return blanked(text, r"<!--.*?-->")


def prose(text):
    """Sentences alone: no code, comments, tables, headings, figures, tags; links by their words."""
    text = blanked(without_code(text), r"`[^`\n]*`")
    text = blanked(text, r"^(?:\||#|!\[|<sub>).*$", re.M)
    text = re.sub(r"\]\([^)]*\)", lambda match: " " * len(match[0]), text)
    return blanked(text, r"</?[a-z][^>]*>").replace("[", " ")


def line_of(text, position):
    return text.count("\n", 0, position)


# ---- numbers ---------------------------------------------------------------------------------------------------------


NUMBER = r"(?<![\w.,])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\d]|,\d|\.\d)"


def find(found, key):
    """The value of "experiment | case | at | metric"."""
    experiment, case, at, metric = key
    predicted = metric.startswith("predicted ")
    metric = metric.removeprefix("predicted ") if predicted else metric
    of_row = [r for r in found if (r["experiment"], r["case"], r["at"]) == (experiment, case, at) and r["value"]]
    named = [r for r in of_row if r["metric"] == metric and (r["kind"] == "predicted" or not predicted)]
    for r in sorted(named, key=lambda r: (r["kind"] == "predicted") != predicted):
        return float(r["value"])
    if of_row:
        raise LookupError(f"no '{' | '.join(key)}'; that row has: {', '.join(dict.fromkeys(r['metric'] for r in of_row))}")
    cases = list(dict.fromkeys(r["case"] for r in found if r["experiment"] == experiment and r["kind"] == "measured"))
    raise LookupError(f"no '{' | '.join(key)}'" + (f"; {experiment} has: {'; '.join(cases)}" if cases else ""))


def find_claim(found, words):
    part, _, end = words.partition(" ")
    for r in found:
        if r["kind"] == "claim" and r["case"] == part and r[end or "value"]:
            return float(r[end or "value"])
    raise LookupError(f"no figure of claim {part}")


class Sum:
    """Reads what stands behind a number's "=": keys and plain numbers, joined by + - * /."""

    def __init__(self, found):
        self.found = found
        self.last = []  # the key before, for "..."

    def operand(self, text):
        if re.fullmatch(NUMBER, text):
            return float(text.replace(",", ""))
        if text.startswith("claim "):
            return find_claim(self.found, text.removeprefix("claim "))
        parts = [part.strip() for part in text.split("|")]
        if parts[0] == "...":
            parts = self.last[:4 - len(parts[1:])] + parts[1:]
        if len(parts) != 4:
            raise LookupError(f"'{text}' is no number and no 'experiment | case | at | metric'")
        self.last = parts
        return find(self.found, parts)

    def value(self, text):
        if text.startswith("sqrt of "):
            return math.sqrt(self.value(text.removeprefix("sqrt of ")))
        words = re.split(r" ([-+*/]) ", text)
        terms, signs = [self.operand(words[0])], [1]
        for sign, word in zip(words[1::2], words[2::2]):
            value = self.operand(word)
            if sign == "*":
                terms[-1] *= value
            elif sign == "/":
                terms[-1] /= value
            else:
                terms.append(value)
                signs.append(1 if sign == "+" else -1)
        return sum(sign * term for sign, term in zip(signs, terms))


def as_written(value, written):
    """The value with the decimals, and the commas, that the number has."""
    decimals = len(written.partition(".")[2])
    return f"{value:,.{decimals}f}" if "," in written else f"{value:.{decimals}f}"


@dataclasses.dataclass
class Listed:
    """A number of a list: what the page says, what the results say, and where the list's text is."""
    written: str
    now: str
    line: int  # of the section, from 0
    begin: int  # the text that the list belongs to
    end: int
    wrong: str = ""


def listed_numbers(section, found_at):
    """The numbers of a section's lists. `found_at(line)` gives the records of the results that hold there."""
    text = section.text()
    bounds = [0] + [match.end() for match in re.finditer(r"^#+ .*$", without_code(text), re.M)]
    numbers = []
    for comment in re.finditer(r"<!-- numbers:(.*?)-->", text, re.S):
        begin = max(bound for bound in bounds if bound <= comment.start())
        bounds.append(comment.end())
        counted = Sum(found_at(section.first + line_of(text, comment.start())))
        entries = [(comment.start(1) + entry.start(), entry[0].strip())
                   for entry in re.finditer(r"[^\n;]+", comment[1]) if entry[0].strip()]
        for position, entry in entries:
            written, _, what = [part.strip() for part in entry.partition(" = ")]
            item = Listed(written, written, line_of(text, position), begin, comment.start())
            try:
                if not re.fullmatch(NUMBER, written):
                    raise LookupError(f"'{written}' is no number")
                item.now = as_written(counted.value(what), written)
            except (LookupError, ArithmeticError, ValueError) as error:
                item.wrong = str(error)
            numbers.append(item)
    return numbers


def check_numbers(section, found_at):
    text, said = section.text(), prose(section.text())
    numbers = listed_numbers(section, found_at)
    for item in numbers:
        there = re.findall(NUMBER, said[item.begin:item.end])
        if item.wrong:
            yield item.line, item.wrong
        elif item.written not in there:
            yield item.line, f"{item.written} is listed, but not in the text before the list"
        elif item.now != item.written:
            yield item.line, f"the page says {item.written}, the results say {item.now}"
    for match in re.finditer(rf"({NUMBER})(?: to {NUMBER})?(?:-| )(?:{UNITS})(?!\w)", said):
        in_list = [item for item in numbers if item.begin <= match.start() < item.end and item.written == match[1]]
        if not in_list:
            yield line_of(text, match.start()), f"'{' '.join(match[0].split())}' is in no list of numbers behind it"


def with_new_numbers(text, sections, found_at):
    """The page with the numbers that its results give now, and what was changed: (line, old, new). A number that stands
    in one text for two things is left as it is."""
    lines, changed = text.splitlines(keepends=True), []
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    edits = []
    for section in sections:
        first = offsets[section.first - 1]
        numbers = listed_numbers(section, found_at)
        said = prose(section.text())
        for item in numbers:
            same = [other for other in numbers if (other.begin, other.written) == (item.begin, item.written)]
            if item.wrong or item.now == item.written or len(same) > 1:
                continue
            changed.append((section.first + item.line, item.written, item.now))
            for match in re.finditer(NUMBER, said[item.begin:item.end]):
                if match[0] == item.written:
                    edits.append((first + item.begin + match.start(), item.written, item.now))
            listed = offsets[section.first - 1 + item.line]
            entry = re.compile(rf"(?<![\d.,]){re.escape(item.written)} = ").search(text, listed)
            edits.append((entry.start(), item.written, item.now))
    for position, old, new in sorted(set(edits), reverse=True):
        text = text[:position] + new + text[position + len(old):]
    return text, changed


# ---- words, commands, links, terms, folded blocks --------------------------------------------------------------------


def check_words(section):
    claims = r"<!-- claims:.*?<!-- end -->"  # their words are the program's
    said = blanked(without_code(blanked(section.text(), claims)), r"\]\([^)]*\)")
    said = blanked(said, r"`[^`\n]*`")
    for pattern, instead in WORDS:
        for match in re.finditer(pattern.replace(" ?", r"\s*").replace(" ", r"\s+"), said):
            yield line_of(said, match.start()), f"'{' '.join(match[0].split())}': {instead}"


def command_lines(text):
    """(line, command) of the lines in a text's code blocks for a shell; lines count from 0."""
    for block in re.finditer(r"^[ ]*```(?:sh|console)\n(.*?)^[ ]*```", text, flags=re.S | re.M):
        first = line_of(text, block.start(1))
        for n, line in enumerate(block[1].splitlines()):
            line = line.strip().removeprefix("$ ").partition(" #")[0].strip()
            if line:
                yield first + n, line


def check_commands(section):
    """Commands name the sample by its path from the repository's root, in code blocks and in sentences."""
    text = section.text()
    for n, line in command_lines(text):
        name = pathlib.PurePath(line.split()[0]).name
        if re.fullmatch(r"0\d_[a-z_]+", name) and line.split()[0] != f"{BUILT}/{name}/{name}":
            yield n, f"'{line}' does not run from the repository's root: {BUILT}/{name}/{name} does"
    for match in re.finditer(r"`(0\d_[a-z_]+) [a-z-][^`]*`", blanked(text, r"^[ ]*```.*?^[ ]*```[ ]*$", re.S | re.M)):
        yield line_of(text, match.start()), f"'{match[0]}' does not run from the repository's root"


def anchors(path):
    """What a link into a page may end with: its headings as GitHub names them, and what has an id."""
    text = records.read_text(path)
    headings = re.findall(r"^#+ (.+)$", blanked(text, r"^[ ]*```.*?^[ ]*```[ ]*$", re.S | re.M), flags=re.M)
    slugs = {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).strip().replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def check_anchors(page, section):
    text = without_code(section.text())
    for match in re.finditer(r"\]\(([^)\s#]*)#([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", match[1]):
            continue
        target = page.parent / match[1] if match[1] else page
        if target.is_dir():
            target /= "README.md"
        if target.is_file() and match[2] not in anchors(target):
            yield line_of(text, match.start()), f"{target.name} has no anchor '#{match[2]}'"


def terms(glossary):
    """{anchor: the words that name it} of a glossary. A comment `also: ...` below a heading gives more words, and one
    `ordinary word` says that the word has other uses, too, so that no link is demanded."""
    text = records.read_text(glossary)
    found = {}
    for match in re.finditer(r"^### (.+)\n(<!-- ordinary word -->\n)?(?:<!-- also: (.+) -->)?", text, flags=re.M):
        if not match[2]:
            words = [match[1].strip()] + [word.strip() for word in (match[3] or "").split(",") if word.strip()]
            anchor = re.sub(r"[^\w\- ]", "", match[1].lower()).strip().replace(" ", "-")
            found[anchor] = words + [word + "s" for word in words]
    return found


def check_terms(page, sections, glossary):
    """A term is linked to the glossary where it first stands on the page. Yields (section, line, what)."""
    if not glossary.is_file() or page.resolve() == glossary.resolve():
        return
    texts = []
    for section in sections:
        text = blanked(without_code(section.text()), r"`[^`\n]*`")
        texts.append(blanked(text, r"^(?:\||#|!\[|<sub>).*$", re.M))
    for anchor, words in terms(glossary).items():
        pattern = r"(?<![\w-])(?:" + "|".join(re.escape(w).replace(r"\ ", r"\s+") for w in sorted(words, key=len, reverse=True)) + r")(?![\w-])"
        for section, text in zip(sections, texts):
            outside = blanked(text, r"\]\([^)]*\)")  # a link's address is no sentence
            match = re.search(pattern, outside, re.I)
            if match:
                linked = re.match(rf"[^\[\]]*\]\([^)]*GLOSSARY\.md#{re.escape(anchor)}\)", text[match.end():])
                if not linked or "[" not in text[text.rfind("\n\n", 0, match.start()) + 1:match.start()]:
                    yield section, line_of(text, match.start()), (
                        f"'{' '.join(match[0].split())}' is a term of the glossary: link it here, to GLOSSARY.md#{anchor}")
                break


def check_folded(section):
    """<details> blocks are closed, have a summary, and leave a line before their text; a prediction's answer is folded."""
    depth = 0
    for n, line in enumerate(section.lines):
        if "<details>" in line:
            depth += 1
            if "<summary>" not in line:
                yield n, "<details> without a <summary> on its line"
            elif n + 1 < len(section.lines) and section.lines[n + 1].strip():
                yield n, "no empty line behind the <summary>: what follows is not read as Markdown"
        depth -= line.count("</details>")
        if depth < 0:
            yield n, "</details> without <details>"
            depth = 0
        if line.startswith("**Predict.**"):
            later = "\n".join(section.lines[n:])
            answer = re.search(r"<details>|^\*\*(?!Predict)[A-Z]|^```sh|^#", later, re.M)
            if not answer or answer[0] != "<details>":
                yield n, "the answer to a prediction is folded, before the command: <details><summary>"
    if depth:
        yield len(section.lines) - 1, "<details> is not closed"


def asked_for(text):
    """{exercise: the excerpts that answer it} of a page: "transpose.cu | padded_tile" of each. None for an exercise that
    does not say so."""
    found = {}
    for match in re.finditer(r"\*\*Your turn: \[`(\w+)`\]\(your_turn/\w+\.cu\)", text):
        nearby = text[match.start():].partition("\n**Your turn")[0]
        answered = re.search(r"<!-- answered by: (.*?) -->", nearby)
        found[match[1]] = None if not answered else [
            " | ".join(part.strip() for part in each.split("|")) for each in answered[1].split(";") if each.strip() != "none"]
    return found


def check_exercises(text, section):
    """An excerpt that an exercise asks for is folded, and stands behind the exercise. `text` is the whole page."""
    asked = asked_for(text)
    for exercise in asked_for(section.text()):
        if asked[exercise] is None:
            n = next(n for n, line in enumerate(section.lines) if f"your_turn/{exercise}.cu" in line)
            yield n, f"exercise '{exercise}': say <!-- answered by: file.cu | excerpt --> (or none) behind it"
    answers = {excerpt: exercise for exercise, excerpts in asked.items() for excerpt in excerpts or []}
    place = {exercise: text.index(f"your_turn/{exercise}.cu") for exercise in asked}
    own = section.text()
    for match in re.finditer(r"<!-- code:(.*?)-->", own):
        exercise = answers.get(" | ".join(part.strip() for part in match[1].split("|")))
        if exercise is None:
            continue
        n = line_of(own, match.start())
        if own.count("<details>", 0, match.start()) == own.count("</details>", 0, match.start()):
            yield n, f"exercise '{exercise}' asks for this code: fold it"
        if text.index(match[0]) < place[exercise]:
            yield n, f"exercise '{exercise}' asks for this code: show it behind the exercise"


def check_prose(page, text, found_at, moved=None, glossary=None):
    """What is wrong with the moved sections of a page, a line each. `found_at(line)` gives the records of the results
    file that the page names for that line."""
    sections = moved_sections(page, text, moved)
    wrong = []
    for section in sections:
        for check in (check_numbers(section, found_at), check_words(section), check_commands(section),
                      check_anchors(page, section), check_folded(section), check_exercises(text, section)):
            wrong += [(section.first + n, what) for n, what in check]
    for section, n, what in check_terms(page, sections, glossary or ROOT / GLOSSARY):
        wrong.append((section.first + n, what))
    whole = sections and sections[0].name == ""
    words = sum(len(re.findall(r"[A-Za-z]{2,}|\d+", prose(section.text()))) for section in sections)
    if whole and words > MOST_WORDS:
        wrong.append((1, f"{words} words without tables and code; {MOST_WORDS} are the most that a page has"))
    return [f"line {n}: {what}" for n, what in sorted(wrong)]


# ---- commands, experiments, links of every page ----------------------------------------------------------------------


def broken_links(page):
    """Links and figures of the page to files that do not exist."""
    text = records.read_text(page)
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return [t for t in targets if not re.match(r"[a-z]+:|#", t) and not (page.parent / t.split("#")[0]).exists()]


def commands(page, topic):
    """The command lines of a page that call the sample, each as a list of words; the first is the sample as printed."""
    lines = [line for _, line in command_lines(records.read_text(page))]
    return [shlex.split(line) for line in lines if pathlib.PurePath(line.split()[0]).name == topic]


def experiments(page, topic):
    """Those that the page has: a topic's page in its headings, the collection's in the topic's row of the table."""
    text = records.read_text(page)
    if page.resolve().parent.name == topic:
        return re.findall(r"^## ([a-z0-9_]+): ", text, flags=re.M)
    row = next((line for line in text.splitlines() if line.startswith(f"| [`{topic}`]")), "")
    return re.findall(r"`([a-z0-9_]+)`", row.rpartition(" | ")[2])
