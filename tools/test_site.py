#!/usr/bin/env python3
"""Builds the site of the pages and looks at it in a headless Chromium or Chrome. Run it: python3 tools/test_site.py -v

Skipped where the browser or mkdocs-material (pip install mkdocs-material) is missing. CHROME names a browser that is not
on the path."""
import functools
import http.server
import importlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import urllib.parse

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import browser
import page_checks

ROOT = TOOLS.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("0?_*/**/*.md"), *ROOT.glob("tools/**/*.md")])
UNDER = "some/where"  # the site is served there, as GitHub Pages serve it under the repository's name

# Of what is wider than the window, the first five; what scrolls in a box of its own is not.
WIDE = """(() => {
  document.querySelectorAll("details").forEach(details => details.open = true);
  const wide = document.documentElement.scrollWidth > window.innerWidth ? ["the page"] : [];
  const article = document.querySelector("article.md-content__inner") ?? document.body;
  const scrolls = element => element && element !== article
    && (getComputedStyle(element).overflowX !== "visible" || element.matches("svg") || scrolls(element.parentElement));
  for (const element of article.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if ((box.right > window.innerWidth + 0.5 || box.left < -0.5) && !scrolls(element.parentElement))
      wide.push(element.tagName + " " + element.textContent.trim().slice(0, 60));
  }
  return wide.slice(0, 5);
})()"""

# Signs of Markdown in what a reader sees outside of code.
MARKDOWN = r"""(() => {
  const article = document.querySelector("article.md-content__inner");
  if (!article) return [];
  const text = article.cloneNode(true);
  text.querySelectorAll("pre, code").forEach(code => code.remove());
  return text.textContent.match(/.*(\]\(|```|~~~|\/\/\/|\|--|<!--|-->|\*\*|<\/?(details|summary|sub)).*/g) ?? [];
})()"""


class Seen:
    """What a page has."""

    def __init__(self, window):
        self.ids = window.evaluate('[...document.querySelectorAll("[id]")].map(element => element.id)')
        self.links = window.evaluate("[...document.links].map(link => link.href)")


def dead_links(seen, site):
    """The links that lead to no file of the site, or to no place in it; `seen` has the pages by their files."""
    dead = []
    for page, has in seen.items():
        for link in has.links:
            url = urllib.parse.urlparse(link)
            if url.scheme in ("http", "https"):
                continue
            path, anchor = pathlib.Path(urllib.parse.unquote(url.path)), urllib.parse.unquote(url.fragment)
            there = url.scheme == "file" and path.is_file() and site in path.parents
            if not there or anchor and (path not in seen or anchor not in seen[path].ids):
                dead.append(f"{page.relative_to(site)}: {link}")
    return dead


def github_anchors(page):
    """The anchors that GitHub gives a page."""
    text = re.sub(r"^ *(```+).*?^ *\1$|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = re.findall(r'<a id="([^"]+)"', text)
    seen = []
    for heading in re.findall(r"^#+ (.*)", text, flags=re.M):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()).replace(" ", "-")
        found.append(f"{slug}-{seen.count(slug)}" if slug in seen else slug)
        seen.append(slug)
    return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def needs_mkdocs():
    if not importlib.util.find_spec("material"):
        raise unittest.SkipTest(f"no mkdocs-material for {sys.executable}: pip install mkdocs-material")


class Markdown(unittest.TestCase):
    """What the hook makes of a page, in a made-up folder; needs no browser."""

    @classmethod
    def setUpClass(cls):
        needs_mkdocs()
        sys.path.insert(0, str(TOOLS / "site"))
        cls.hook = importlib.import_module("hook")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "topic").mkdir()
        self.linked = set()
        patch = unittest.mock.patch.object(self.hook, "ROOT", self.folder)
        patch.start()
        self.addCleanup(patch.stop)

    def assert_becomes(self, text, expected):
        page = self.folder / "README.md"
        page.write_text(text, encoding="utf-8")
        self.assertEqual(self.hook.converted(page, self.linked), expected)

    def test_links_lead_to_what_the_site_has_instead(self):
        self.assert_becomes("[a](topic/) [b](topic) [c](topic/x.cu) [.](.ci/run) [d](x.csv) [e](y.md#z) [f](#z) "
                            "[g](https://h.i/j.cu)",
                            "[a](topic/README.md) [b](topic/README.md) [c](topic/x.cu.md) [.](dot-ci/run.md) [d](x.csv) "
                            "[e](y.md#z) [f](#z) [g](https://h.i/j.cu)")
        self.assertEqual({path.relative_to(self.folder).as_posix() for path in self.linked},
                         {"topic", "topic/x.cu", ".ci/run", "x.csv", "y.md"})

    def test_comments_go_but_code_stays_as_it_is(self):
        code = "```text\n<!-- c --> [a](b.cu) <details>\n```"
        self.assert_becomes(f"is <!-- v a\n| b -->7<!-- /v --> ms\n<!-- end -->\n{code}\n`<!-- c --> [a](b.cu)`",
                            f"is 7 ms\n\n{code}\n`<!-- c --> [a](b.cu)`")

    def test_what_belongs_to_an_item_is_indented_by_four(self):
        self.assert_becomes("1. a\n   b\n\n   ```sh\n     c\n   ```\n2. d\ne\n\n- f\n\n  g\n\n   h\n\ni\n   j",
                            "1. a\n    b\n\n    ```sh\n      c\n    ```\n2. d\ne\n\n- f\n\n    g\n\n     h\n\ni\n   j")

    def test_folded_answers_are_blocks_also_in_a_list(self):
        self.assert_becomes("<details><summary>A `b`</summary>\n\nc\n</details>\n",
                            "\n/// details | A `b`\n\n\nc\n\n///\n\n")
        self.assert_becomes("1. a\n   <details><summary>A</summary>\n\n   b\n   </details>\n2. c",
                            "1. a\n\n    /// details | A\n\n\n    b\n\n    ///\n\n2. c")

    def test_a_heading_that_comes_again_is_counted(self):
        self.hook.on_page_markdown("")
        self.assertEqual([self.hook.slugs(heading, "-") for heading in ("L2, near: `a_b`", "x", "x", "x")],
                         ["l2-near-a_b", "x", "x-1", "x-2"])
        self.hook.on_page_markdown("")
        self.assertEqual(self.hook.slugs("x", "-"), "x")


class InABrowser(unittest.TestCase):
    """The site and the browser are made once, when a test is the first to need them."""

    @classmethod
    def setUpClass(cls):
        if not browser.find():
            raise unittest.SkipTest("no browser: apt-get install chromium, or name one by CHROME")
        needs_mkdocs()
        if not hasattr(InABrowser, "window"):
            InABrowser.make()

    @staticmethod
    def make():
        folder = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(folder.cleanup)
        handler = functools.partial(Quiet, directory=folder.name)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        unittest.addModuleCleanup(server.server_close)
        unittest.addModuleCleanup(server.shutdown)
        InABrowser.address = f"http://127.0.0.1:{server.server_port}/{UNDER}/"
        InABrowser.site = pathlib.Path(folder.name).resolve() / UNDER
        built = subprocess.run([sys.executable, "-m", "mkdocs", "build", "-f", TOOLS / "site/mkdocs.yml", "-d", InABrowser.site],
                               env={**os.environ, "SITE_URL": InABrowser.address, "NO_MKDOCS_2_WARNING": "1"},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if built.returncode:
            raise AssertionError(built.stdout)
        InABrowser.window = browser.Browser(browser.find())
        unittest.addModuleCleanup(InABrowser.window.__exit__)

    def open(self, page, width=400, scheme="light"):
        self.window.open(page.as_uri(), width, scheme)

    def evaluated(self, expression, enough=lambda value: value):
        """The value of an expression as soon as it is enough, or else after 10 seconds."""
        for _ in range(200):
            value = self.window.evaluate(expression)
            if enough(value):
                break
            time.sleep(0.05)
        return value

    def too_wide(self):
        return self.evaluated(WIDE, lambda wide: not wide)


class Site(InABrowser):
    def html(self, page):
        """The file of a page of the repository."""
        name = page.relative_to(ROOT).with_suffix(".html")
        return self.site / (name.with_name("index.html") if page.name == "README.md" else name)

    def test_no_dead_link_nothing_from_elsewhere_no_markdown_left(self):
        seen = {}
        for page in sorted(self.site.rglob("*.html")):
            if page.name == "404.html":
                continue  # which has addresses of the server
            with self.subTest(page=page.relative_to(self.site)):
                self.open(page)
                seen[page] = Seen(self.window)
                self.assertEqual(self.window.complaints(), [])
                self.assertEqual([url for url in self.window.requests() if not url.startswith((self.site.as_uri(), "data:"))], [])
                self.assertEqual(self.window.evaluate(MARKDOWN), [])
                self.assertEqual(self.too_wide(), [])
        self.assertTrue({self.html(page) for page in PAGES} <= set(seen))
        self.assertEqual(dead_links(seen, self.site), [])

    def test_anchors_are_those_of_github_and_the_experiments(self):
        for page in PAGES:
            with self.subTest(page=page.relative_to(ROOT)):
                self.open(self.html(page))
                ids = Seen(self.window).ids
                expected = github_anchors(page) + page_checks.experiments(page, page.parent.name)
                self.assertGreater(len(expected), 0)
                self.assertEqual([anchor for anchor in expected if anchor not in ids], [])

    def test_dark_and_light_narrow_and_wide(self):
        for page in [*map(self.html, PAGES), self.site / "reports.html"]:
            for width, scheme in ((400, "dark"), (1280, "light")):
                with self.subTest(page=page.relative_to(self.site), width=width, scheme=scheme):
                    self.open(page, width, scheme)
                    self.assertEqual(self.too_wide(), [])
                    text, ground = (sum(map(int, re.findall(r"\d+", self.window.evaluate(
                        f"getComputedStyle(document.body).{what}"))[:3])) for what in ("color", "backgroundColor"))
                    self.assertGreater(text - ground if scheme == "dark" else ground - text, 300)

    def search(self, address, word):
        """The addresses that the search finds, typed as a reader types it."""
        self.window.open(address, 1280, "light")
        self.evaluated('document.querySelector("[data-md-component=search-query]")?.focus() ?? true')
        for character in word:
            self.window.call("Input.dispatchKeyEvent", type="keyDown", text=character)
            self.window.call("Input.dispatchKeyEvent", type="keyUp")
        found = self.evaluated('[...document.querySelectorAll(".md-search-result__link")].map(link => link.href)')
        self.assertEqual(self.window.complaints(), [])
        return [re.sub(r"\?[^#]*", "", link) for link in found]

    def test_the_search_finds_terms_and_experiments(self):
        for place in (self.site.as_uri() + "/", self.address):
            for word, page in (("wavefront", "01_memory_model/GLOSSARY.html#wavefront"),
                               ("copy engine", "01_memory_model/GLOSSARY.html#copy-engine"),
                               ("bank_steps", "06_shared_reduce/index.html#bank_steps-conflicts-step-by-step")):
                with self.subTest(place=place, word=word):
                    self.assertIn(place + page, self.search(place + "index.html", word))

    def test_it_can_be_served_under_any_path(self):
        for page in ("", "04_bandwidth/SHAPES.html", "404.html"):
            with self.subTest(page=page):
                self.window.open(self.address + page, 1280, "light")
                self.assertEqual(self.window.complaints(), [])
                self.assertEqual([url for url in self.window.requests() if not url.startswith((self.address, "data:"))], [])


class WhatIsWrong(InABrowser):
    """A page that is wrong in every way, and a page that it links to."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.page, self.other = self.folder / "bad.html", self.folder / "other.html"
        self.page.write_text("""<!DOCTYPE html><link rel="icon" href="data:,"><article class="md-content__inner">
            <p style="width: 900px">wide</p><div style="overflow-x: auto"><p style="width: 900px">scrolls</p></div>
            <p>[left](over.md)</p><code>[right](here.md)</code><img src="missing.png">
            <a href="other.html#there">right</a><a href="other.html#gone">no anchor</a><a href="gone.html">no file</a>
            <a href="https://example.org/">elsewhere</a><a href="/etc">out of the site</a></article>""", encoding="utf-8")
        self.other.write_text('<!DOCTYPE html><link rel="icon" href="data:,"><p id="there">there</p>', encoding="utf-8")

    def test_it_is_found(self):
        seen = {}
        for page in (self.other, self.page):
            self.open(page)
            seen[page] = Seen(self.window)
        self.assertEqual(self.window.evaluate(WIDE), ["the page", "P wide"])
        self.assertEqual([line.strip() for line in self.window.evaluate(MARKDOWN)], ["[left](over.md)"])
        self.assertIn("net::ERR_FILE_NOT_FOUND", self.window.complaints())
        self.assertEqual([link.rpartition("/")[2] for link in dead_links(seen, self.folder)],
                         ["other.html#gone", "gone.html", "etc"])


if __name__ == "__main__":
    unittest.main()
