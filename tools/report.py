#!/usr/bin/env python3
"""Writes one page to look at from what samples saved: the GPU, all verdicts as tiles, each part with then, here and its
range, other GPUs beside it, every table and figure, and what was left out and why.

    tools/report.py build/release/results/*.csv                      writes index.html beside the first file
    tools/report.py -o mine.html 04_bandwidth/results/nvidia-h200.csv

The page needs no network and no server. Files of several GPUs, or of several runs on one, are shown each by itself, one
below the other. Beside each stand the others, and the GPUs whose results stand in the topics' results/; the figures are
those that tools/figures.py --results has drawn beside the files. Needs Python's own library only. All rows are held in
memory: 300,000 of them take 8 s and 0.45 GB, and make a page of 19 MB.
"""
import argparse
import collections
import html
import math
import pathlib
import re
import string

import draw_then_now
import figures
import pages
import records
import tiles

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPEN_ROWS = 12  # a longer table is folded


def tag(name, content="", **attributes):
    """An element; the content is HTML."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
                      for key, value in attributes.items() if value is not None)
    return f"<{name}{written}>{content}</{name}>"


def verdict_class(verdict):
    return verdict.replace(",", "").replace(" ", "-")


def chip(verdict, words=None):
    return tag("span", html.escape(words or verdict), class_=f"chip {verdict_class(verdict)}")


def dagger(claim):
    """Marks a claim that cannot come out otherwise on any GPU."""
    return tag("abbr", records.DAGGER, title=records.BY_CONSTRUCTION) if records.by_construction(claim) else ""


def colours():
    return "\n".join(f".{verdict_class(verdict)} {{ background: {colour}; }}" for verdict, colour in tiles.COLOURS.items())


# ---- parts -----------------------------------------------------------------------------------------------------------


def scale(claims):
    """Where a value stands between 0 and 1 beside the others, and where 1x does: of ratios by their logarithm. None if
    the claims rest on no figure that could be shown so."""
    ends = [float(claim[name]) for claim in claims for name in ("low", "high") if claim["value"] and claim[name]]
    units = {claim["unit"] for claim in claims if claim["value"]}
    if not ends or len(units) != 1 or units == {""}:
        return None
    ratio = units == {"x"} and min(ends) > 0
    turn = math.log if ratio else float
    if ratio:
        ends.append(1.0)
    low, high = (turn(end) for end in (min(ends if ratio else [0.0, *ends]), max(ends)))
    margin = 0.06 * (high - low) or 0.1

    def place(value):
        return (turn(value) - low + margin) / (high - low + 2 * margin)

    return place, place(1.0) if ratio else None


def track(claim, where):
    """The claim's range as a piece of a bar; nothing where there is none."""
    if not where or not claim["low"] or not claim["high"]:
        return ""
    place, one = where
    left, right = place(float(claim["low"])), place(float(claim["high"]))
    piece = f'<i style="left:{100 * left:.2f}%;width:{100 * (right - left):.2f}%"></i>'
    mark = f'<b style="left:{100 * one:.2f}%"></b>' if one is not None else ""
    return tag("span", mark + piece, class_="track", aria_hidden="true")


def part(claim, then, others, prefix):
    """A part with what the text reported, what was found here, and what other GPUs found."""
    where = scale([claim, *others.values()])

    def found(of_gpu, differs=False):
        words = html.escape(of_gpu["at"])
        mark = ' <span class="differs">differs</span>' if differs else ""
        return tag("dd", f"{chip(of_gpu['metric'])}{dagger(of_gpu)}{mark} {words}{track(of_gpu, where)}")

    lines = [tag("dt", "then") + tag("dd", html.escape(then))] if then else []
    lines.append(tag("dt", "here") + found(claim))
    for gpu, other in others.items():
        lines.append(tag("dt", html.escape(gpu)) + found(other, records.judged_differently(claim, other)))
    heading = tag("h4", html.escape(f"{claim['case']} {claim['parameter']}"))
    return tag("article", heading + tag("dl", "\n".join(lines)), class_="part", id=f"{prefix}part-{claim['case']}")


def tile(claim, prefix):
    here = tiles.here(claim)
    verdict = tag("i", html.escape(claim["metric"] + records.mark(claim)))
    inside = tag("span", tag("b", html.escape(claim["case"])) + verdict, class_="top")
    inside += tag("span", html.escape(claim["parameter"]))
    inside += tag("span", html.escape(f"here {here}"), class_="here") if here else ""
    return tag("a", inside, class_=verdict_class(claim["metric"]), href=f"#{prefix}part-{claim['case']}")


# ---- tables and figures ----------------------------------------------------------------------------------------------


def grouped(found):
    """The records of an experiment's tables: rows of one parameter whose metrics are the same, or some of them."""
    _, rows = pages.arrange(found)
    groups = []  # (parameter, metrics, keys of the rows)
    for key, row in rows.items():
        metrics = {metric for _, metric in row}
        for group in groups:
            if group[0] == key[1] and (metrics <= group[1] or group[1] <= metrics):
                group[1].update(metrics)
                group[2].append(key)
                break
        else:
            groups.append((key[1], metrics, [key]))
    for parameter, _, keys in groups:
        units, columns = {}, {}
        for key in keys:
            for column, record in rows[key].items():
                units.setdefault(column, {})[record["unit"]] = None
            columns[key] = rows[key]
        yield parameter, units, columns


def folded(name, headings, rows, is_open):
    """A table of words that can be folded. The first cell of a row is what the others are of."""
    head = tag("tr", "".join(tag("th", html.escape(text), scope="col") if text else "<td></td>" for text in headings))
    body = "\n".join(tag("tr", tag("th", html.escape(first), scope="row") + "".join(tag("td", html.escape(cell)) for cell in cells))
                     for first, *cells in rows)
    content = tag("div", tag("table", tag("thead", head) + tag("tbody", body)), class_="scroll", tabindex="0")
    return f"<details{' open' if is_open else ''}>{tag('summary', html.escape(name))}{content}</details>"


def with_range(r):
    """ "3.06 (3.03 to 3.09) ms" """
    value, low, high = (records.number(r[name], 4) if r[name] else "" for name in ("value", "low", "high"))
    return " ".join(filter(None, [value, f"({low} to {high})" if low != high else "", r["unit"]]))


def ratios(found, names):
    """The rows of an experiment that were compared; nothing if there are none."""
    rows = [[", ".join(filter(None, [names.get(r["case"], r["case"]), r["at"]])), r["metric"], with_range(r)]
            for r in found if r["kind"] == "ratio" and r["value"]]
    return [folded(f"rows compared: {len(rows)}", ["", "", "ratio"], rows, False)] if rows else []


def machine_table(found, name):
    """What was saved of the machine; nothing if that is nothing."""
    rows = [[r["case"], r["metric"], with_range(r) if r["value"] else r["at"]] for r in found if r["kind"] == "machine"]
    return [folded(name, ["", "", ""], rows, False)] if rows else []


def table(parameter, units, rows, names):
    shown = pages.Columns(units, rows.values()).shown()
    several = any(case for case, _, _ in rows)

    def cell_text(text, row):
        try:
            return text(row)
        except ValueError:  # words, not a number
            return ""

    headings = [parameter if parameter and not several else "", *[heading for heading, _ in shown]]
    body = []
    for (case, _, at), row in rows.items():
        name = ", ".join(filter(None, [names[case], f"{at} {parameter}" if case and parameter else at]))
        body.append([name, *[cell_text(text, row) for _, text in shown]])
    metrics = ", ".join(dict.fromkeys(metric for _, metric in units))
    name = f"{metrics}{f' over {parameter}' if parameter else ''}: {len(rows)} row{'s' * (len(rows) != 1)}"
    return folded(name, headings, body, len(rows) <= OPEN_ROWS)


def inlined(svg, label, number):
    """A figure's SVG as a part of the page: without what a file begins with, its ids its own."""
    text = records.read_text(svg)
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg"):], flags=re.S)
    text = re.sub(r'\bid="', f'id="f{number}-', text)
    text = re.sub(r'href="#', f'href="#f{number}-', text)
    text = re.sub(r"url\(#", f"url(#f{number}-", text)
    opening = re.match(r"<svg[^>]*>", text)[0]
    plain = re.sub(r'\s(?:width|height)="[^"]*"', "", opening)
    return plain.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1) + text[len(opening):]


def figures_of(topic, folder, root, newest):
    """(experiment or nothing, file) of each figure of the topic's page that was drawn into the folder, and not before
    its newest results were saved: those are of another run."""
    page = root / topic / "README.md"
    if not page.exists():
        return
    text = records.read_text(page)
    found = set()
    for output, _, _ in figures.figures(page):
        before = re.findall(r"^## ([a-z0-9_]+): ", text[:text.index(f"figure: {output} ")], flags=re.M)
        drawn = figures.drawn_from(folder, topic, output)
        if drawn.exists() and drawn.stat().st_mtime >= newest and drawn not in found:
            found.add(drawn)  # a page may show one figure of two GPUs
            yield before[-1] if before else "", drawn


# ---- what was saved --------------------------------------------------------------------------------------------------


class Run:
    """What one GPU's files hold of each topic, once."""

    def __init__(self, gpu, name):
        self.gpu, self.name = gpu, name
        self.found, self.paths, self.topics = [], {}, set()

    def add(self, found, path):
        self.found += found
        for topic in {r["topic"] for r in found}:
            self.paths[topic] = path
            self.topics.add(topic)


def of_each_gpu(found):
    """A file's records by GPU; what names none belongs to the first."""
    gpus = list(dict.fromkeys(r["gpu"] for r in found if r["gpu"])) or [""]
    return {gpu: [r for r in found if (r["gpu"] or gpus[0]) == gpu] for gpu in gpus}


def runs_of(paths):
    """The Runs that the files hold. A second file of one topic and GPU is another run: "NVIDIA H200 (2)"."""
    runs = []
    for path in paths:
        for gpu, found in of_each_gpu(records.load(path)).items():
            if not found:
                continue
            topics = {r["topic"] for r in found}
            same = [run for run in runs if run.gpu == gpu]
            free = next((run for run in same if not run.topics & topics), None)
            if not free:
                name = gpu or "no GPU"
                free = Run(gpu, f"{name} ({len(same) + 1})" if same else name)
                runs.append(free)
            free.add(found, path)
    if not runs:
        raise ValueError("the files hold no records")
    return runs


# ---- the page --------------------------------------------------------------------------------------------------------


class OfRun:
    """What the page says of one run. `others` are the claims of other GPUs by their names; `prefix` begins its ids."""

    def __init__(self, run, others, root, folder, prefix, drawn):
        self.run, self.others, self.root, self.folder, self.prefix = run, others, root, folder, prefix
        self.found = run.found
        self.topics = sorted(run.topics)
        self.missing = sorted(p.parent.name for p in root.glob("0?_*/main.cu") if p.parent.name not in self.topics)
        self.claims = records.claims(self.found)
        self.then = records.reported(self.found)
        self.drawn = drawn  # figures of the page so far

    def id(self, name):
        return f"{self.prefix}{name}"

    def link(self, words, name):
        return tag("a", html.escape(words), href=f"#{self.id(name)}")

    def machine(self):
        r = next((r for r in self.found if r["gpu"]), self.found[0])
        dates = sorted({r["date"] for r in self.found})
        when = f"toolkit {r['toolkit']}, {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}"
        runs = sorted({r["runs"] for r in self.found if r["runs"]}, key=int)
        times = f"; medians and ranges of {runs[-1]} runs" if runs else ""
        if not self.run.gpu:
            return html.escape(f"No usable GPU: models, predictions and host experiments only. {when}{times}")
        return html.escape(f"{self.run.name}: compute capability {r['cc']}, driver for CUDA {r['driver']}, {when}{times}")

    def counts(self):
        count = records.tally(self.claims.values())
        chips = " ".join(chip(verdict, f"{verdict}: {count[verdict]}") for verdict in records.VERDICTS if count[verdict])
        apart = count[records.BY_CONSTRUCTION]
        words = f" {records.BY_CONSTRUCTION} ({records.DAGGER}), counted apart: {apart}" if apart else ""
        return f"{len(self.claims)} parts of claims. {chips}{html.escape(words)}"

    def of_topic(self, topic):
        """The claims of a topic, whose ids need not begin with its number."""
        return [claim for claim in self.claims.values() if claim["topic"] == topic]

    def tiles(self):
        return "\n".join(tag("h3", self.link(topic, topic))
                         + tag("div", "\n".join(tile(claim, self.prefix) for claim in self.of_topic(topic)), class_="tiles")
                         for topic in self.topics if self.of_topic(topic))

    def differences(self):
        """Where other GPUs were judged differently."""
        items = []
        for gpu, of_gpu in self.others.items():
            both = [part for part in self.claims if part in of_gpu
                    and "not judged" not in (self.claims[part]["metric"], of_gpu[part]["metric"])]
            differ = [part for part in both if records.judged_differently(self.claims[part], of_gpu[part])]
            links = ", ".join(self.link(part, f"part-{part}")
                              + html.escape(f" {self.claims[part]['metric']} (there {of_gpu[part]['metric']})")
                              for part in differ)
            which = f"{len(differ)} of {len(both)} parts that were judged on both differ{': ' if differ else ''}{links}"
            items.append(tag("li", f"{html.escape(gpu)}: {which}"))
        return tag("ul", "\n".join(items))

    def left_out(self):
        items = [tag("li", html.escape(f"{topic}: was not run")) for topic in self.missing]
        for r in self.found:
            if r["kind"] == "left out":
                items.append(tag("li", html.escape(f"{r['topic']}, {r['experiment']}: {r['case']} ({r['at']})")))
        for claim in self.claims.values():
            if claim["metric"] == "not judged":
                link = self.link(claim["case"], f"part-{claim['case']}")
                items.append(tag("li", f"{link} is not judged: {html.escape(claim['at'])}"))
        return tag("ul", "\n".join(items)) if items else tag("p", "Nothing.")

    def then_and_now(self):
        """Of the claims with a figure, the text's beside this run's."""
        svg = draw_then_now.draw(self.found)
        return tag("figure", svg.replace("<svg", '<svg role="img" aria-label="then and now"', 1)) if svg else ""

    def figure(self, svg):
        self.drawn += 1
        label = svg.stem.replace("-", ", ").replace("_", " ")
        return tag("figure", inlined(svg, label, self.drawn) + tag("figcaption", html.escape(label)))

    def figures(self, topic):
        """Those that were drawn from the file of this run: tools/figures.py draws from FOLDER/TOPIC.csv."""
        path = self.run.paths[topic]
        if path.resolve() != (self.folder / f"{topic}.csv").resolve():
            return []
        return figures_of(topic, self.folder, self.root, path.stat().st_mtime)

    def topic(self, topic):
        found = [r for r in self.found if r["topic"] == topic]
        drawn = collections.defaultdict(list)
        experiments = list(dict.fromkeys(r["experiment"] for r in found if r["experiment"]))
        for experiment, svg in self.figures(topic):
            drawn[experiment if experiment in experiments else ""].append(svg)
        parts = [tag("h2", html.escape(topic)), *map(self.figure, drawn[""])]
        parts += machine_table([r for r in found if not r["experiment"]], "the machine")
        for experiment in experiments:
            here = [r for r in found if r["experiment"] == experiment]
            parts.append(tag("h3", html.escape(experiment), id=self.id(f"{topic}-{experiment}")))
            for claim in here:
                if claim["kind"] == "claim":
                    others = {gpu: of_gpu[claim["case"]] for gpu, of_gpu in self.others.items() if claim["case"] in of_gpu}
                    parts.append(part(claim, self.then.get(claim["case"], ""), others, self.prefix))
            notes = [f"found ({r['case']}): {r['at']}" for r in here if r["kind"] == "finding"]
            notes += [f"left out ({r['at']}): {r['case']}" for r in here if r["kind"] == "left out"]
            parts += [tag("ul", "\n".join(tag("li", html.escape(note)) for note in notes))] if notes else []
            parts += map(self.figure, drawn[experiment])
            in_tables = [r for r in here if pages.in_tables(r) and r["value"]]
            names = records.names(in_tables)
            parts += [table(*group, names) for group in grouped(in_tables)]
            parts += ratios(here, names)
            parts += machine_table(here, "the machine around this experiment")
        return tag("section", "\n".join(parts), id=self.id(topic))

    def html(self, heading):
        """All of it; `heading` names the GPU where the page has several."""
        links = [("verdicts", "verdicts"), ("differences", "other GPUs"), ("left-out", "left out"), *zip(self.topics, self.topics)]
        nav = " ".join(self.link(words, name) for name, words in links if name != "differences" or self.others)
        parts = [tag("h1", html.escape(heading), id=self.id("gpu"))] if heading else []
        parts += [tag("p", self.machine()), tag("p", self.counts()), tag("nav", nav)]
        parts.append(tag("section", tag("h2", "What became of the claims") + self.tiles() + self.then_and_now(),
                         id=self.id("verdicts")))
        if self.others:
            parts.append(tag("section", tag("h2", "Beside other GPUs") + self.differences(), id=self.id("differences")))
        parts.append(tag("section", tag("h2", "What was left out, and why") + self.left_out(), id=self.id("left-out")))
        parts += map(self.topic, self.topics)
        return "\n".join(parts)


def beside(run, runs, committed):
    """The claims of the other GPUs: of the other runs of the page, and of the committed results. Where a committed GPU has
    a run in the page, its committed claims stand beside that run only."""
    others = {other.name: records.claims(other.found) for other in runs if other is not run}
    for gpu, found in committed.items():
        if gpu not in [other.name for other in runs]:
            others[gpu] = records.claims(found)
        elif gpu == run.name:
            others[f"{gpu}, committed"] = records.claims(found)
    return others


def page(paths, root, folder):
    """The HTML of the page."""
    runs = runs_of(paths)
    committed = records.by_gpu(root.glob("0?_*/results/*.csv"))
    names = [run.name for run in runs]
    measured = any(run.gpu for run in runs)
    title = f"CUDA memory, measured on {' and '.join(names)}" if measured else "CUDA memory: no GPU, models only"
    body, links, drawn = [], [], 0
    for n, run in enumerate(runs, 1):
        prefix = "" if n == 1 else f"gpu{n}-"
        of_run = OfRun(run, beside(run, runs, committed), root, folder, prefix, drawn)
        body.append(of_run.html(run.name if len(runs) > 1 else ""))
        links.append(of_run.link(run.name, "gpu"))
        drawn = of_run.drawn
    others = f"Beside it stand the results that are committed of {' and '.join(committed)}." if committed else ""
    template = string.Template((pathlib.Path(__file__).parent / "report.html").read_text(encoding="utf-8"))
    return template.substitute(title=html.escape(title), colours=colours(), beside=html.escape(others),
                               gpus=tag("p", f"Each by itself: {' '.join(links)}") if len(runs) > 1 else "",
                               body="\n".join(body))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE", help="default: index.html beside the first CSV")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="where the topics and their results are")
    parser.add_argument("results", nargs="+", type=pathlib.Path, metavar="CSV", help="what samples saved with --csv")
    args = parser.parse_args()
    output = args.output or args.results[0].parent / "index.html"
    written = page(args.results, args.root.resolve(), args.results[0].parent)
    output.write_text(written, encoding="utf-8")
    print(f"to look at: {output.resolve()}")


if __name__ == "__main__":
    records.run(main)
