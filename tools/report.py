#!/usr/bin/env python3
"""Writes one page to look at from what samples saved: the GPU, all verdicts as tiles, each part with then, here and its
range, other GPUs beside it, every table and figure, and what was left out and why.

    tools/report.py build/release/results/*.csv                      writes index.html beside the first file
    tools/report.py -o mine.html 04_bandwidth/results/nvidia-h200.csv

The page needs no network and no server. The GPUs beside this one are those whose results stand in the topics' results/;
the figures are those that tools/figures.py --results has drawn beside the files. Needs Python's own library only.
"""
import argparse
import collections
import html
import math
import pathlib
import re
import string
import sys

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


def part(claim, then, others):
    """A part with what the text reported, what was found here, and what other GPUs found."""
    where = scale([claim, *others.values()])

    def found(of_gpu, differs=False):
        words = html.escape(of_gpu["at"])
        mark = ' <span class="differs">differs</span>' if differs else ""
        return tag("dd", f"{chip(of_gpu['metric'])}{mark} {words}{track(of_gpu, where)}")

    lines = [tag("dt", "then") + tag("dd", html.escape(then))] if then else []
    lines.append(tag("dt", "here") + found(claim))
    for gpu, other in others.items():
        lines.append(tag("dt", html.escape(gpu)) + found(other, records.judged_differently(claim, other)))
    heading = tag("h4", f"{claim['case']} {html.escape(claim['parameter'])}")
    return tag("article", heading + tag("dl", "\n".join(lines)), class_="part", id=f"part-{claim['case']}")


def tile(claim):
    here = tiles.here(claim)
    inside = tag("span", tag("b", claim["case"]) + tag("i", claim["metric"]), class_="top")
    inside += tag("span", html.escape(claim["parameter"]))
    inside += tag("span", f"here {html.escape(here)}", class_="here") if here else ""
    return tag("a", inside, class_=verdict_class(claim["metric"]), href=f"#part-{claim['case']}")


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


def table(parameter, units, rows):
    shown = pages.Columns(units, rows.values()).shown()
    several = any(case for case, _, _ in rows)

    def cell_text(text, row):
        try:
            return text(row)
        except ValueError:  # words, not a number
            return ""

    head = tag("tr", "".join(tag("th", html.escape(heading)) for heading in
                             [parameter if parameter and not several else "", *[heading for heading, _ in shown]]))
    body = []
    for (case, _, at), row in rows.items():
        name = ", ".join(filter(None, [case, f"{at} {parameter}" if case and parameter else at]))
        body.append(tag("tr", "".join(tag("td", html.escape(text)) for text in
                                      [name, *[cell_text(text, row) for _, text in shown]])))
    content = tag("div", tag("table", tag("thead", head) + tag("tbody", "\n".join(body))), class_="scroll", tabindex="0")
    metrics = ", ".join(dict.fromkeys(metric for _, metric in units))
    name = f"{metrics}{f' over {parameter}' if parameter else ''}: {len(rows)} row{'s' * (len(rows) != 1)}"
    is_open = " open" if len(rows) <= OPEN_ROWS else ""
    return f"<details{is_open}>{tag('summary', html.escape(name))}{content}</details>"


def inlined(svg, label, number):
    """A figure's SVG as a part of the page: without what a file begins with, its ids its own."""
    text = svg.read_text(encoding="utf-8")
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
    text = page.read_text(encoding="utf-8")
    found = set()
    for output, _, _ in figures.figures(page):
        before = re.findall(r"^## ([a-z0-9_]+): ", text[:text.index(f"figure: {output} ")], flags=re.M)
        drawn = figures.drawn_from(folder, topic, output)
        if drawn.exists() and drawn.stat().st_mtime >= newest and drawn not in found:
            found.add(drawn)  # a page may show one figure of two GPUs
            yield before[-1] if before else "", drawn


def committed_names(others):
    return [gpu.removesuffix(", committed") for gpu in others]


# ---- the page --------------------------------------------------------------------------------------------------------


class Page:
    def __init__(self, paths, root, folder):
        self.root, self.folder = root, folder
        self.found, self.saved_at = [], collections.defaultdict(float)
        for path in paths:
            of_file = records.load(path)
            self.found += of_file
            for topic in {r["topic"] for r in of_file}:
                self.saved_at[topic] = max(self.saved_at[topic], path.stat().st_mtime)
        if not self.found:
            raise ValueError("the files hold no records")
        self.topics = sorted({r["topic"] for r in self.found})
        self.missing = sorted(p.parent.name for p in root.glob("0?_*/main.cu") if p.parent.name not in self.topics)
        self.claims = records.claims(self.found)
        self.then = records.reported(self.found)
        committed = records.by_gpu(root.glob("0?_*/results/*.csv"))
        self.gpus = list(dict.fromkeys(r["gpu"] for r in self.found if r["gpu"]))
        self.others = {gpu + (", committed" if gpu in self.gpus else ""): records.claims(of_gpu)
                       for gpu, of_gpu in committed.items()}
        self.drawn = 0

    def title(self):
        return f"CUDA memory, measured on {' and '.join(self.gpus)}" if self.gpus else "CUDA memory: no GPU, models only"

    def machine(self):
        r = next((r for r in self.found if r["gpu"]), self.found[0])
        dates = sorted({r["date"] for r in self.found})
        when = f"toolkit {r['toolkit']}, {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}"
        if not self.gpus:
            return html.escape(f"No usable GPU: models, predictions and host experiments only. {when}")
        return html.escape(f"{', '.join(self.gpus)}: compute capability {r['cc']}, driver for CUDA {r['driver']}, {when}")

    def counts(self):
        count = collections.Counter(claim["metric"] for claim in self.claims.values())
        chips = " ".join(chip(verdict, f"{verdict}: {count[verdict]}") for verdict in records.VERDICTS if count[verdict])
        return f"{len(self.claims)} parts of claims. {chips}"

    def of_topic(self, topic):
        """The claims of a topic, whose ids need not begin with its number."""
        return [claim for claim in self.claims.values() if claim["topic"] == topic]

    def all_tiles(self):
        return "\n".join(tag("h3", tag("a", html.escape(topic), href=f"#{topic}"))
                         + tag("div", "\n".join(map(tile, self.of_topic(topic))), class_="tiles")
                         for topic in self.topics if self.of_topic(topic))

    def differences(self):
        """Where other GPUs were judged differently."""
        items = []
        for gpu, of_gpu in self.others.items():
            both = [part for part in self.claims if part in of_gpu
                    and "not judged" not in (self.claims[part]["metric"], of_gpu[part]["metric"])]
            differ = [part for part in both if records.judged_differently(self.claims[part], of_gpu[part])]
            links = ", ".join(f'{tag("a", part, href=f"#part-{part}")} {html.escape(self.claims[part]["metric"])} '
                              f'(there {html.escape(of_gpu[part]["metric"])})' for part in differ)
            which = f"{len(differ)} of {len(both)} parts that were judged on both differ{': ' if differ else ''}{links}"
            items.append(tag("li", f"{html.escape(gpu)}: {which}"))
        if not items:
            return ""
        return tag("section", tag("h2", "Beside other GPUs") + tag("ul", "\n".join(items)), id="differences")

    def left_out(self):
        items = [tag("li", f"{html.escape(topic)}: was not run") for topic in self.missing]
        for r in self.found:
            if r["kind"] == "left out":
                words = f"{r['topic']}, {r['experiment']}: {r['case']} ({r['at']})"
                items.append(tag("li", html.escape(words)))
        for claim in self.claims.values():
            if claim["metric"] == "not judged":
                link = tag("a", claim["case"], href=f"#part-{claim['case']}")
                items.append(tag("li", f"{link} is not judged: {html.escape(claim['at'])}"))
        if not items:
            return tag("p", "Nothing.")
        return tag("ul", "\n".join(items))

    def figure(self, svg):
        self.drawn += 1
        label = svg.stem.replace("-", ", ").replace("_", " ")
        return tag("figure", inlined(svg, label, self.drawn) + tag("figcaption", html.escape(label)))

    def topic(self, topic):
        found = [r for r in self.found if r["topic"] == topic and r["kind"] != "machine"]
        drawn = collections.defaultdict(list)
        experiments = list(dict.fromkeys(r["experiment"] for r in found))
        for experiment, svg in figures_of(topic, self.folder, self.root, self.saved_at[topic]):
            drawn[experiment if experiment in experiments else ""].append(svg)
        parts = [tag("h2", html.escape(topic)), *map(self.figure, drawn[""])]
        for experiment in experiments:
            here = [r for r in found if r["experiment"] == experiment]
            parts.append(tag("h3", html.escape(experiment), id=f"{topic}-{experiment}"))
            for claim in here:
                if claim["kind"] == "claim":
                    others = {gpu: of_gpu[claim["case"]] for gpu, of_gpu in self.others.items() if claim["case"] in of_gpu}
                    parts.append(part(claim, self.then.get(claim["case"], ""), others))
            notes = [f"found ({r['case']}): {r['at']}" for r in here if r["kind"] == "finding"]
            notes += [f"left out ({r['at']}): {r['case']}" for r in here if r["kind"] == "left out"]
            parts += [tag("ul", "\n".join(tag("li", html.escape(note)) for note in notes))] if notes else []
            parts += map(self.figure, drawn[experiment])
            parts += [table(*group) for group in grouped([r for r in here if pages.in_tables(r) and r["value"]])]
        return tag("section", "\n".join(parts), id=topic)

    def html(self):
        template = string.Template((pathlib.Path(__file__).parent / "report.html").read_text(encoding="utf-8"))
        others = f"Beside it stand the results that are committed of {' and '.join(committed_names(self.others))}."
        links = [("verdicts", "verdicts"), ("differences", "other GPUs"), ("left-out", "left out"), *zip(self.topics, self.topics)]
        return template.substitute(
            title=html.escape(self.title()), machine=self.machine(), counts=self.counts(), colours=colours(),
            beside=html.escape(others if self.others else ""), tiles=self.all_tiles(), differences=self.differences(), left_out=self.left_out(),
            links=" ".join(tag("a", html.escape(words), href=f"#{name}") for name, words in links
                           if name != "differences" or self.others),
            topics="\n".join(map(self.topic, self.topics)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE", help="default: index.html beside the first CSV")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="where the topics and their results are")
    parser.add_argument("results", nargs="+", type=pathlib.Path, metavar="CSV", help="what samples saved with --csv")
    args = parser.parse_args()
    output = args.output or args.results[0].parent / "index.html"
    try:
        written = Page(args.results, args.root.resolve(), args.results[0].parent).html()
        output.write_text(written, encoding="utf-8")
    except (OSError, ValueError) as error:
        sys.exit(f"report.py: {error}")
    print(f"to look at: {output.resolve()}")


if __name__ == "__main__":
    main()
