#!/usr/bin/env python3
"""Checks the page of tools/report.py; needs neither a GPU nor a sample. Run it: python3 tools/test_report.py -v

`PageInABrowser` opens the page in a headless Chromium or Chrome and is skipped where there is none; CHROME names one
that is not on the path."""
import collections
import html.parser
import os
import pathlib
import re
import shutil
import sys
import time
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import browser
import figures
import records
from test_tools import InFolder, claim, record, run, timed

ROOT = TOOLS.parent
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Reader(html.parser.HTMLParser):
    """What stands in a page. Fails where an element is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.sources, self.figures = [], [], [], [], []
        self.counts, self.parts, self.words = collections.Counter(), {}, []
        self.feed(text)
        self.close()
        if self.open:
            raise ValueError(f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.counts[tag] += 1
        if tag == "tr" and "tbody" in self.open:
            self.counts["row"] += 1
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a":
            self.links.append(attributes["href"])
        self.sources += [attributes[name] for name in ("src", "href", "xlink:href", "srcset") if name in attributes]
        if tag == "svg":
            self.figures.append(attributes.get("aria-label"))
        if tag == "article":
            self.part = self.parts.setdefault(attributes["id"].removeprefix("part-"), [])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes nothing, line {self.getpos()[0]}")

    def handle_data(self, data):
        if "article" in self.open and data.strip():
            self.part.append(data.strip())
        if "style" not in self.open:
            self.words.append(data)

    def text(self):
        return " ".join(" ".join(self.words).split())


def committed(folder, pattern="nvidia-h200"):
    """Copies the committed results of a GPU as a run leaves them, figures too. The CSV files."""
    saved = []
    for topic in sorted(path.parent for path in ROOT.glob("0?_*/main.cu")):
        if (topic / f"results/{pattern}.csv").exists():
            saved.append(folder / f"{topic.name}.csv")
            shutil.copy(topic / f"results/{pattern}.csv", saved[-1])
        for output, _, _ in figures.figures(topic / "README.md"):
            if (topic / output).exists():
                shutil.copy(topic / output, figures.drawn_from(folder, topic.name, output))
    return saved


class Made(InFolder):
    """Pages of made-up results, in a made-up repository."""

    def written(self, *found, others=(), **options):
        saved = self.save("run/04_bandwidth.csv", *found)
        for other in others:
            self.save(f"04_bandwidth/results/{records.slug(other[0]['gpu'])}.csv", *other)
        self.write("04_bandwidth/main.cu", "")
        self.write("05_unified_memory/main.cu", "")
        done = run("report.py", "--root", self.folder, saved)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"to look at: {self.folder.resolve()}/run/index.html\n")
        return Reader((self.folder / "run/index.html").read_text(encoding="utf-8"))

    def test_a_part_has_then_here_its_range_and_other_gpus(self):
        other = {"gpu": "Other GPU"}
        page = self.written(
            claim("04.2a", "holds, weaker", at="3.1x slower (3.0 to 3.2)", value=3.1, low=3.0, high=3.2, unit="x"),
            record(case="04.2a", kind="then", metric="reported", parameter="8800 GTX", at="77x slower"),
            claim("04.8", "holds", at="a fact", value=1, low=1, high=1),
            others=[[claim("04.2a", "holds", at="70x slower (69 to 71)", value=70, low=69, high=71, unit="x", **other),
                     claim("04.8", "holds", at="the same", **other)]])
        self.assertEqual(page.parts["04.2a"], [
            "04.2a what 04.2a says", "then", "77x slower (8800 GTX)", "here", "holds, weaker", "3.1x slower (3.0 to 3.2)",
            "Other GPU", "holds", "differs", "70x slower (69 to 71)"])
        self.assertEqual(page.parts["04.8"], ["04.8 what 04.8 says", "here", "holds", "a fact", "Other GPU", "holds",
                                              "the same"])
        self.assertIn("1 of 2 parts that were judged on both differ: 04.2a holds, weaker (there holds)", page.text())
        self.assertEqual(page.counts["i"] - 2, 2)  # of each tile its verdict, of each range its piece

    def test_what_was_left_out_is_said_with_its_reason(self):
        page = self.written(record(case="the peer", at="one GPU", kind="left out", metric="left out"),
                            claim("04.1", "not judged", at="needs counts of this run"))
        for words in ("04_bandwidth, sum: the peer (one GPU)", "04.1 is not judged: needs counts of this run",
                      "05_unified_memory: was not run", "left out (one GPU): the peer"):
            self.assertIn(words, page.text())

    def test_without_a_gpu_there_are_models(self):
        page = self.written(timed("a < b", "predicted", 7, gpu="", cc="", driver=""),
                            claim("04.1", "not judged", at="no GPU", gpu=""))
        for words in ("no GPU, models only", "predicted time (ms)", "a < b", "04.1 is not judged: no GPU"):
            self.assertIn(words, page.text())

    def test_nothing_in_a_file_becomes_html(self):
        bad = "<script>alert(1)</script> & 'more' \"yet\""
        page = self.written(claim("04.1", "holds", at=bad, parameter=bad), timed(bad, "measured", 1, gpu=bad),
                            record(case=bad, at=bad, kind="left out", metric="left out"))
        self.assertEqual(page.counts["script"], 0)
        self.assertIn("alert(1)", page.text())

    def test_a_verdict_that_is_none_is_refused_in_one_line(self):
        saved = self.save("r.csv", claim("04.1", "holds<img src=x onerror=alert(1)>"))
        done = run("report.py", "--root", self.folder, saved)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
        self.assertIn("of 04.1 is no verdict", done.stderr)
        self.assertFalse((self.folder / "index.html").exists())

    def test_no_column_of_a_file_becomes_html(self):
        bad = '"><img src=x onerror=alert(1)>'
        found = [claim("04.1", "holds", at=bad, parameter=bad, value=2, low=1.9, high=2.1, unit=bad, words=bad),
                 timed("a", "predicted", 1, words=bad), timed("a", "measured", 1, words=bad),
                 record(case=bad, parameter=bad, at=bad, kind="measured", metric=bad, unit=bad, value=1, words=bad),
                 record(case=bad, parameter=bad, at="7", kind="counted", metric=bad, unit=bad, value=1),
                 record(case="a", kind="ratio", metric=bad, unit=bad, value=2, low=1.9, high=2.1),
                 record(case=bad, kind="machine", metric=bad, at=bad, experiment=""),
                 record(case=bad, kind="machine", metric=bad, unit=bad, value=3),
                 record(case="04.1", kind="then", metric="reported", parameter=bad, at=bad),
                 record(case="04.1", kind="finding", metric="finding", at=bad)]
        everywhere = {name: bad for name in ("topic", "gpu", "cc", "driver", "toolkit", "date")}
        page = self.written(*found, *[{**r, **everywhere, "experiment": bad} for r in found])
        self.assertEqual((page.counts["img"], page.counts["script"]), (0, 0))
        self.assertIn(bad, page.text())

    def test_two_gpus_are_shown_each_by_itself(self):
        other = {"gpu": "Other GPU", "cc": "7.5"}
        one = self.save("a/04_bandwidth.csv", claim("04.1", "holds", at="here so"), timed("x", "measured", 1))
        two = self.save("b/04_bandwidth.csv", claim("04.1", "no longer", at="there not", **other),
                        timed("x", "measured", 2, **other))
        done = run("report.py", "--root", self.folder, "-o", self.folder / "index.html", one, two)
        self.assertEqual(done.returncode, 0, done.stderr)
        page = Reader((self.folder / "index.html").read_text(encoding="utf-8"))
        self.assertEqual(page.parts["04.1"], ["04.1 what 04.1 says", "here", "holds", "here so", "Other GPU", "no longer",
                                              "differs", "there not"])
        self.assertEqual(page.parts["gpu2-part-04.1"], ["04.1 what 04.1 says", "here", "no longer", "there not",
                                                        "Some GPU", "holds", "differs", "here so"])
        self.assertEqual([link for link in page.links if link.removeprefix("#") not in page.ids], [])
        self.assertEqual([name for name, n in collections.Counter(page.ids).items() if n > 1], [])
        text = page.text()
        for words in ("CUDA memory, measured on Some GPU and Other GPU", "Some GPU: compute capability 9.0",
                      "Other GPU: compute capability 7.5"):
            self.assertIn(words, text)
        self.assertEqual((page.counts["table"], page.counts["row"]), (2, 2))

    def test_heads_of_tables_say_what_they_are_heads_of(self):
        self.written(timed("x", "measured", 1), timed("y", "measured", 2),
                     record(case="x", kind="ratio", metric="time over that of y", unit="x", value=3, low=2.9, high=3.1))
        text = (self.folder / "run/index.html").read_text(encoding="utf-8")
        self.assertEqual(text.count("<th>"), 0)
        for head in ('<th scope="col">time (ms)</th>', '<th scope="row">x</th>', '<th scope="row">y</th>'):
            self.assertIn(head, text)

    def test_two_runs_of_one_gpu_are_two(self):
        paths = [self.save(f"{name}/04_bandwidth.csv", claim("04.1", verdict))
                 for name, verdict in (("a", "holds"), ("b", "depends"))]
        self.assertEqual(run("report.py", "--root", self.folder, "-o", self.folder / "index.html", *paths).returncode, 0)
        page = Reader((self.folder / "index.html").read_text(encoding="utf-8"))
        self.assertEqual(page.parts["04.1"][2:], ["holds", "Some GPU (2)", "depends", "differs"])
        self.assertEqual(page.parts["gpu2-part-04.1"][2:], ["depends", "Some GPU", "holds", "differs"])

    def test_what_holds_by_construction_has_a_dagger_and_is_counted_apart(self):
        page = self.written(claim("04.1", "holds", words="by construction"), claim("04.2", "holds"),
                            claim("04.3", "holds, weaker"))
        self.assertIn("3 parts of claims. holds: 1 holds, weaker: 1 by construction (\u2020), counted apart: 1", page.text())
        self.assertEqual(page.parts["04.1"], ["04.1 what 04.1 says", "here", "holds", "\u2020"])
        self.assertEqual(page.parts["04.2"], ["04.2 what 04.2 says", "here", "holds"])

    def test_words_stand_in_tables_and_ratios_and_the_machine_below_them(self):
        page = self.written(
            timed("column_to_row", "measured", 1, words="column -> row"),
            record(case="column_to_row", kind="ratio", metric="time over that of row_to_column", unit="x", value=3, low=2.9,
                   high=3.1),
            record(case="device", kind="machine", metric="multiprocessors", value=132, experiment=""),
            record(case="device", kind="machine", metric="driver build", at="580.1", experiment=""),
            record(case="clocks", kind="machine", metric="SM clock", unit="MHz", value=1980, low=1800, high=1980))
        for words in ("column -> row 1", "column -> row time over that of row_to_column 3.000 (2.900 to 3.100) x",
                      "device multiprocessors 132", "device driver build 580.1", "clocks SM clock 1980 (1800 to 1980) MHz"):
            self.assertIn(words, page.text())

    def test_rows_with_other_metrics_make_another_table(self):
        page = self.written(timed("a", "measured", 1), timed("b", "measured", 2),
                            timed("a", "measured", 1, parameter="n", at=1),
                            record(case="c", kind="measured", metric="rate", unit="GB/s", value=3))
        self.assertEqual((page.counts["table"], page.counts["row"]), (3, 4))

    def test_what_machine_it_was_makes_no_heading_and_stands_in_no_rows_table(self):
        page = self.written(record(experiment="", case="device", kind="machine", metric="L2", unit="B", value=4),
                            timed("a", "measured", 1),
                            record(case="device", kind="machine", metric="power after", unit="W", value=4))
        self.assertEqual(page.counts["h3"], 1)
        self.assertEqual((page.counts["table"], page.counts["row"]), (3, 3))  # the row, the machine, and around the experiment

    def test_a_figure_stands_in_the_page_with_ids_of_its_own(self):
        self.write("04_bandwidth/README.md", """\
            ## sum: a question
            <!-- figure: results/one-nvidia-h200.svg = results/nvidia-h200.csv sum -->
            <!-- figure: results/two-nvidia-h200.svg = results/nvidia-h200.csv sum -->
            """)
        for name in ("one", "two"):
            self.write(f"run/04_bandwidth-{name}.svg", """\
                <?xml version="1.0"?>
                <svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt" viewBox="0 0 9 9"><metadata>m</metadata>
                <defs><path id="p" d="M 0 0"/></defs><use xlink:href="#p"/><g clip-path="url(#p)"></g></svg>
                """)
        self.drawn_at(+60)
        page = self.written(timed("a", "measured", 1))
        self.assertEqual(page.figures, ["04 bandwidth, one", "04 bandwidth, two"])
        text = (self.folder / "run/index.html").read_text(encoding="utf-8")
        for words in ('id="f1-p"', 'href="#f2-p"', "url(#f2-p)", '<svg role="img"'):
            self.assertIn(words, text)
        for words in ("<?xml", "<metadata>", "9pt"):
            self.assertNotIn(words, text)
        self.drawn_at(-60)
        self.assertEqual(self.written(timed("a", "measured", 1)).figures, [])  # drawn from an older run's numbers

    def drawn_at(self, seconds_from_now):
        for path in self.folder.glob("run/*.svg"):
            os.utime(path, (time.time() + seconds_from_now,) * 2)

    def test_what_is_no_results_file_is_named(self):
        for path in (self.write("c.csv", "kernel,value\n"), self.folder / "missing.csv", self.save("empty.csv")):
            done = run("report.py", path)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
        self.assertEqual(run("report.py").returncode, 2)


class Committed(InFolder):
    """The page of what stands in the repository."""

    def setUp(self):
        super().setUp()
        self.saved = committed(self.folder)
        self.assertEqual(run("report.py", *self.saved).returncode, 0)
        self.page = Reader((self.folder / "index.html").read_text(encoding="utf-8"))
        self.found = [r for path in self.saved for r in records.load(path)]

    def test_every_link_leads_somewhere_and_nothing_elsewhere(self):
        self.assertEqual([name for name, n in collections.Counter(self.page.ids).items() if n > 1], [])
        self.assertEqual([link for link in self.page.links if link.removeprefix("#") not in self.page.ids], [])
        self.assertEqual([source for source in self.page.sources if not source.startswith("#") and source != "data:,"], [])

    def test_every_image_is_there(self):
        drawn = {path.stem.replace("-", ", ").replace("_", " ") for path in self.folder.glob("*.svg")}
        self.assertGreater(len(drawn), 10)
        self.assertEqual(sorted(self.page.figures), sorted([*drawn, "then and now"]))
        self.assertEqual(self.page.counts["img"], 0)

    def test_every_part_and_every_row_is_there(self):
        claims = records.claims(self.found)
        self.assertEqual(set(self.page.parts), set(claims))
        for part, words in self.page.parts.items():
            self.assertIn(claims[part]["metric"], words)
            self.assertIn(" ".join(claims[part]["at"].split()), [" ".join(word.split()) for word in words])
        rows = {(r["topic"], r["experiment"], r["case"], r["parameter"], r["at"]) for r in self.found
                if r["value"] and r["kind"] in ("measured", "predicted", "calibration", "counted", "then")
                and r["metric"] != "reported"}
        folded = sum(r["kind"] == "machine" or r["kind"] == "ratio" and bool(r["value"]) for r in self.found)
        self.assertEqual(self.page.counts["row"], len(rows) + folded)


MEASURE = """(() => {
  document.querySelectorAll("details").forEach(details => details.open = true);
  const wide = [];
  if (document.documentElement.scrollWidth > window.innerWidth) wide.push("the page");
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest(".scroll table") || element.closest("svg svg, svg *")) continue;
    const box = element.getBoundingClientRect();
    if (box.right > window.innerWidth + 0.5 || box.left < -0.5) wide.push(element.tagName + " " + element.textContent.slice(0, 60));
  }
  for (const id of document.querySelectorAll(".tiles .top b")) {
    const text = document.createRange();
    text.selectNodeContents(id);
    if (text.getClientRects().length > 1) wide.push("in two lines: " + id.textContent);
  }
  return wide.slice(0, 5);
})()"""

OUTSIDE = """[...document.querySelectorAll("g")].flatMap(tile => {
  const edge = tile.querySelector("rect").getBBox();
  return [...tile.querySelectorAll("text")].filter(text => {
    const box = text.getBBox();
    return box.x < edge.x || box.x + box.width > edge.x + edge.width || box.y < edge.y - 1 || box.y + box.height > edge.y + edge.height + 1;
  }).map(text => text.textContent);
})"""


class PageInABrowser(InFolder):
    @classmethod
    def setUpClass(cls):
        if not browser.find():
            raise unittest.SkipTest("no browser: apt-get install chromium, or name one by CHROME")

    def problems(self, path, width, scheme):
        """What is wrong with a page in such a window."""
        with browser.Browser(browser.find()) as window:
            window.open(path.resolve().as_uri(), width, scheme)
            wide = window.evaluate(MEASURE)
            colour = window.evaluate("getComputedStyle(document.body).backgroundColor")
            asked_for = [url for url in window.requests() if url != path.resolve().as_uri() and not url.startswith("data:")]
            return wide, window.complaints(), asked_for, colour

    def test_no_error_nothing_too_wide_dark_and_light(self):
        run("report.py", *committed(self.folder))
        no_gpu = self.save("no_gpu/04_bandwidth.csv", timed("a", "predicted", 1, gpu=""), claim("04.1", "not judged", at="no GPU", gpu=""))
        run("report.py", no_gpu)
        for page in (self.folder / "index.html", self.folder / "no_gpu/index.html"):
            colours = set()
            for width in (400, 500, 1400):
                for scheme in ("dark", "light"):
                    with self.subTest(page=page.parent.name, width=width, scheme=scheme):
                        *wrong, colour = self.problems(page, width, scheme)
                        self.assertEqual(wrong, [[], [], []])
                        colours.add((scheme, colour))
            self.assertEqual(colours, {("dark", "rgb(18, 22, 27)"), ("light", "rgb(255, 255, 255)")})

    def test_what_is_wrong_is_found(self):
        page = self.write("bad.html", """\
            <!DOCTYPE html><title>bad</title><link rel="icon" href="data:,"><body><p style="width: 900px">wide</p>
            <img src="missing.png"><script>console.error("said"); throw Error("thrown")</script>
            """)
        wide, complaints, asked_for, _ = self.problems(page, 400, "light")
        self.assertEqual(wide, ["the page", "P wide"])
        self.assertTrue({"said", "Uncaught"} <= set(complaints), complaints)
        self.assertEqual([url.rpartition("/")[2] for url in asked_for], ["missing.png"])
        self.assertEqual(self.problems(page, 1400, "light")[0], [])

    def test_no_text_of_the_tiles_leaves_its_tile(self):
        saved = committed(self.folder)
        drawn = self.folder / "tiles.svg"
        self.assertEqual(run("summary.py", "--figure", drawn, *saved).returncode, 0)
        with browser.Browser(browser.find()) as window:
            window.open(drawn.resolve().as_uri(), 1100, "light")
            self.assertGreater(window.evaluate('document.querySelectorAll("g").length'), 90)
            self.assertEqual(window.evaluate(OUTSIDE), [])


if __name__ == "__main__":
    unittest.main()
