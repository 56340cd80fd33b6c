#!/usr/bin/env python3
"""Checks what tools/pages.py and tools/page_checks.py say of a page's prose. Run it: python3 tools/test_pages.py"""
import os
import pathlib
import re
import stat
import sys
import textwrap
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import draw_ideas
import figures
import page_checks
import pages
import plot
from test_tools import InFolder, claim, matplotlib, record, run, timed

FOUND = [
    timed("read_stride", "measured", 2.0, experiment="stride", parameter="stride", at="1"),
    timed("read_stride", "predicted", 2.5, experiment="stride", parameter="stride", at="1"),
    timed("read_stride", "measured", 0.5, experiment="stride", parameter="stride", at="8"),
    record(experiment="stride", case="read_stride", parameter="stride", at="8", kind="measured", metric="bandwidth",
           unit="GB/s", value=1560.6),
    claim("04.8", "holds", experiment="transpose", value=3.5317, low=3.5, high=3.57, unit="x"),
]


class Prose(InFolder):
    """A page of its own, all of it moved, beside a glossary and results."""

    def wrong(self, text, found=FOUND, moved=(), glossary=None):
        """What is wrong with a page of that text, whose first line is line 1."""
        page = self.write("README.md", text)
        return page_checks.check_prose(page, page.read_text(encoding="utf-8"), lambda line: found, list(moved),
                                       glossary or self.folder / "none.md")

    def assert_right(self, text, **options):
        self.assertEqual(self.wrong(text, **options), [])

    def assert_wrong(self, text, *expected, **options):
        wrong = self.wrong(text, **options)
        self.assertEqual(len(wrong), len(expected), wrong)
        for said, what in zip(wrong, expected):
            self.assertIn(what, said)


class Numbers(Prose):
    def test_a_number_is_what_the_results_say_in_its_own_decimals(self):
        self.assert_right("""\
            It takes 2.00 ms at stride 1 and 0.5 ms at 8.
            <!-- numbers:
              2.00 = stride | read_stride | 1 | time
              0.5 = stride | read_stride | 8 | time
            -->
            """)

    def test_a_changed_number_is_named_with_its_line_old_and_new(self):
        self.assert_wrong("""\
            It takes 2.1 ms.
            <!-- numbers:
              2.1 = stride | read_stride | 1 | time
            -->
            """, "line 3: the page says 2.1, the results say 2.0")

    def test_sums_products_and_repeated_keys(self):
        self.assert_right("""\
            Stride 8 is 4.0 times as fast, by 1,500.0 us; of 1561 GB/s a quarter is 390 GB/s; in all 3.5 ms; root 1.5.
            <!-- numbers:
              4.0 = stride | read_stride | 1 | time / ... | 8 | time
              1,500.0 = stride | read_stride | 1 | time * 1000 - ... | 8 | time * 1000
              1561 = ... | bandwidth; 390 = ... | bandwidth / 4
              3.5 = 1 + ... | 1 | time + 0.5
              1.5 = sqrt of ... | 1 | time + 0.25
            -->
            """)

    def test_measured_comes_first_and_predicted_by_its_name(self):
        self.assert_right("""\
            Predicted 2.5 ms, measured 2.0 ms.
            <!-- numbers:
              2.5 = stride | read_stride | 1 | predicted time
              2.0 = stride | read_stride | 1 | time
            -->
            """)

    def test_a_claims_figure_and_its_range(self):
        self.assert_right("""\
            It is 3.53 times as fast (3.50 to 3.57).
            <!-- numbers: 3.53 = claim 04.8; 3.50 = claim 04.8 low; 3.57 = claim 04.8 high -->
            """)

    def test_a_number_with_a_unit_has_to_be_listed_behind_its_own_text(self):
        self.assert_wrong("""\
            It takes 2.0 ms.

            ## stride: next
            And 7 GB/s, but not of 8 blocks, nor in `9 ms`; 3 times as fast.
            <!-- numbers: 3 = 3 -->
            """, "line 1: '2.0 ms' is in no list", "line 4: '7 GB/s' is in no list")

    def test_tables_and_code_need_no_list(self):
        self.assert_right("""\
            | time |
            |---|
            | 5 ms |

            ```text
            6 ms
            ```
            """)

    def test_a_listed_number_that_is_not_there_is_named(self):
        self.assert_wrong("""\
            It takes 12.0 ms, 2.05 ms.
            <!-- numbers:
              2.0 = stride | read_stride | 1 | time
              12.0 = 12; 2.05 = 2.05
            -->
            """, "2.0 is listed, but not in the text")

    def test_unknown_keys_are_named_with_what_there_is(self):
        self.assert_wrong("""\
            At 1, 2, 3, 4 and 5.
            <!-- numbers:
              1 = stride | read_strides | 1 | time
              2 = stride | read_stride | 1 | tim
              3 = stride | read_stride
              4 = claim 04.9
              5 = 1 / 0
              5 = sqrt of 1 - 2
            -->
            """, "stride has: read_stride", "that row has: time", "is no number and no 'experiment",
                 "no figure of claim 04.9", "zero", "math domain")

    def test_new_numbers_are_written_where_they_mean_one_thing(self):
        text = textwrap.dedent("""\
            # Page
            It takes 2.1 ms; 2.1 ms again. Another takes 2.2 ms, also 2.2.
            <!-- numbers:
              2.1 = stride | read_stride | 1 | time
              2.2 = stride | read_stride | 1 | time
              2.2 = stride | read_stride | 8 | time
            -->
            Here 2.1 is another thing.
            """)
        page = self.write("README.md", text)
        sections = page_checks.moved_sections(page, text, [])
        new, changed = page_checks.with_new_numbers(text, sections, lambda line: FOUND)
        self.assertEqual(changed, [(4, "2.1", "2.0")])
        self.assertEqual(new, text.replace("takes 2.1 ms; 2.1", "takes 2.0 ms; 2.0").replace("2.1 = ", "2.0 = "))

    def test_the_results_are_those_that_the_page_named_last(self):
        self.save("a.csv", timed("x", "measured", 1))
        self.save("b.csv", timed("x", "measured", 2))
        text = "<!-- results: a.csv -->\n1 ms\n<!-- results: b.csv -->\n"
        at = pages.results_at(self.write("README.md", text), text)
        self.assertEqual([at(2)[0]["value"], at(3)[0]["value"]], ["1", "2"])
        with self.assertRaises(LookupError):
            pages.results_at(self.folder / "README.md", "no results")(1)


class Sections(Prose):
    bad = "loads under way\n"

    def test_only_moved_sections_are_looked_at(self):
        text = f"""\
            {self.bad}
            ## stride: a
            fine
            ```sh
            ## stride: no heading
            ```
            ## structs: b
            {self.bad}
            """
        self.assert_right(text, moved=["stride"])
        self.assert_wrong(text, "line 9: 'under way'", moved=["stride", "structs"])
        with self.assertRaisesRegex(LookupError, "no section 'offset'"):
            self.wrong(text, moved=["offset"])

    def test_a_page_that_is_not_named_has_none(self):
        page = self.write("README.md", self.bad)
        self.assertEqual(page_checks.check_prose(page, self.bad, lambda line: []), [])

    def test_the_moved_pages_exist(self):
        for name, sections in page_checks.MOVED.items():
            page = page_checks.ROOT / name
            page_checks.moved_sections(page, page.read_text(encoding="utf-8"), sections)

    def test_a_page_that_is_too_long(self):
        self.assert_wrong("word " * 6001, "6001 words")
        self.assert_right("word " * 6000 + "\n```text\n" + "word " * 9 + "\n```\n")
        self.assert_right("## stride: a\n" + "word " * 6001, moved=["stride"])


class Words(Prose):
    def test_words_with_a_better_one(self):
        for text in ("4 sectors a request", "bytes a second", "one word an element", "loads under\nway", "1.00x faster",
                     "1.00 times as slow", "2.95x slower", "holds, by less: 3", "Why was not found out.", "a packet",
                     "the round trip", "the figures that stand under it", "right but dear"):
            with self.subTest(text=text):
                self.assertRegex("\n".join(self.wrong(text + "\n")), "line 1: '.*': ")

    def test_words_that_are_right(self):
        self.assert_right("""\
            4 sectors per request, in flight, equal within 1%. Read a word, a thread at a time; [a link](under-way.md).
            `loads under way` in code, <!-- under way --> in a comment.
            ```text
            8 sectors a request
            ```
            """)


class Commands(Prose):
    def test_commands_name_the_sample_by_its_path(self):
        self.assert_right("""\
            ```sh
            build/release/04_bandwidth/04_bandwidth sum    # a comment
            cmake --preset release
            ```
            and `build/release/04_bandwidth/04_bandwidth sum`, in `04_bandwidth`
            """)
        self.assert_wrong("""\
            ```sh
            04_bandwidth sum
            ```
            1. indented:
               ```sh
               build/04/04_bandwidth sum
               ```
            or `04_bandwidth sum --full`
            """, "line 2:", "line 6:", "line 8:")

    def sample(self, script):
        """An executable of a script in a build folder that is called otherwise."""
        sample = self.write("build/strict/04_bandwidth/04_bandwidth", "#!/bin/sh\n" + script)
        os.chmod(sample, sample.stat().st_mode | stat.S_IXUSR)
        return sample

    def test_commands_run_as_printed_from_the_root(self):
        said = self.folder / "said.txt"
        sample = self.sample(f'[ -f tools/pages.py ] && echo "$0 $@" >> {said}\n')
        one = self.write("README.md", "```sh\nbuild/release/04_bandwidth/04_bandwidth sum 'a b'\n04_bandwidth --list\n```\n")
        two = self.write("BEYOND.md", "```sh\nbuild/release/04_bandwidth/04_bandwidth peak --full\n```\n")
        done = run("pages.py", "--commands", sample, one, two)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(said.read_text().splitlines(), [
            "build/release/04_bandwidth/04_bandwidth sum a b --quick", f"{sample} --list",
            "build/release/04_bandwidth/04_bandwidth peak --quick"])

    def test_a_command_that_fails_or_is_not_there_is_named(self):
        for code, command, what in ((1, "build/release/04_bandwidth/04_bandwidth", "exit code 1"),
                                    (2, "build/release/04_bandwidth/04_bandwidth", "exit code 2"),
                                    (0, "build/other/04_bandwidth", "No such file")):
            done = run("pages.py", "--commands", self.sample(f"exit {code}\n"), self.write("README.md", f"```sh\n{command} sum\n```\n"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(what, done.stdout)

    def test_experiments_of_several_pages(self):
        sample = self.sample("printf 'coalescing\\nstructs\\nstride\\n'\n")
        one = self.write("04_bandwidth/README.md", "## coalescing: a\n## stride: b\n")
        two = self.write("04_bandwidth/LAYOUT.md", "## structs: c\n")
        self.assertEqual(run("pages.py", "--experiments", sample, one, two).returncode, 0)
        for text in ("## structs: c\n## offset: d\n", "", "## structs: c\n## stride: b\n", "## stride: b\n## structs: c\n"):
            self.write("04_bandwidth/LAYOUT.md", text)
            self.assertEqual(run("pages.py", "--experiments", sample, one, two).returncode, 1, text)


class Links(Prose):
    def setUp(self):
        super().setUp()
        self.glossary = self.write("GLOSSARY.md", """\
            # Glossary
            ### sector
            A sector.
            ### latency
            <!-- also: latencies -->
            ### in flight
            ### line
            <!-- ordinary word -->
            """)

    def test_a_term_is_linked_where_it_first_stands(self):
        self.assert_right("""\
            # Sectors
            ```text
            sectors
            ```
            A line of `sectors` has [sectors](GLOSSARY.md#sector), sectors again; [two
            loads in
            flight](GLOSSARY.md#in-flight).
            """, glossary=self.glossary)
        self.assert_wrong("Few sectors. [Sectors](GLOSSARY.md#sector) later.\n", "line 1: 'sectors' is a term",
                          glossary=self.glossary)
        self.assert_wrong("Long [latencies](GLOSSARY.md#sector).\n", "'latencies' is a term", glossary=self.glossary)
        self.assert_wrong("## a: b\nnothing\n## c: d\nin\nflight\n", "line 4: 'in flight' is a term", glossary=self.glossary)

    def test_the_glossarys_index_has_every_term_in_order(self):
        text = (page_checks.ROOT / page_checks.GLOSSARY).read_text(encoding="utf-8")
        index = [" ".join(term.split()) for term in re.findall(r"\[([^\]]+)\]\(#[\w-]+\)", text.partition("\n## ")[0])]
        self.assertEqual(index, sorted(re.findall(r"^### (.+)$", text, re.M), key=str.lower))

    def test_links_lead_to_anchors(self):
        self.write("other/README.md", '<a id="stride"></a>\n## stride: what do gaps cost?\n')
        self.assert_right("""\
            ## Here: it's `code`
            [a](#here-its-code) [b](other/README.md#stride) [c](other/#stride-what-do-gaps-cost) [d](https://x.org/y#z)
            """)
        self.assert_wrong("[a](#here)\n[b](other/README.md#strides)\n", "line 1: README.md has no anchor '#here'",
                          "line 2: README.md has no anchor '#strides'")


class Folded(Prose):
    def test_blocks_are_closed_and_rendered(self):
        self.assert_right("<details><summary>Answer</summary>\n\nYes.\n</details>\n")
        self.assert_wrong("<details><summary>Answer</summary>\nYes.\n</details>\n", "no empty line")
        self.assert_wrong("<details>\n\nYes.\n</details>\n", "without a <summary>")
        self.assert_wrong("<details><summary>Answer</summary>\n\nYes.\n", "is not closed")
        self.assert_wrong("Yes.\n</details>\n", "without <details>")

    def test_the_answer_to_a_prediction_is_folded(self):
        answer = "<details><summary>Answer</summary>\n\nIt is 4.\n</details>\n"
        self.assert_right(f"**Predict.** How many?\n\n{answer}\n```sh\nls\n```\n**Why.** So.\n")
        self.assert_wrong(f"**Predict.** How many?\n\n```sh\nls\n```\n{answer}", "line 1: the answer to a prediction")
        self.assert_wrong("**Predict.** How many? 4.\n", "line 1: the answer to a prediction")

    page = """\
        **Your turn: [`tile`](your_turn/tile.cu).** Write it.
        <!-- answered by: transpose.cu | padded_tile -->

        <details><summary>The kernel</summary>

        <!-- code: transpose.cu | padded_tile -->
        <!-- end -->
        </details>
        """

    def test_code_that_an_exercise_asks_for_is_folded_behind_it(self):
        code = "<!-- code: transpose.cu | padded_tile -->\n<!-- end -->\n"
        page = textwrap.dedent(self.page)
        self.assert_right(page)
        self.assert_right(page.replace("padded_tile -->\n\n", "none -->\n\n") + code)
        self.assert_right(page + code.replace("padded", "shared"))
        self.assert_wrong(page.partition("<details>")[0] + code, "asks for this code: fold it")
        self.assert_wrong(page.partition("<details>")[2].join(["<details>", page.partition("<details>")[0]]),
                          "show it behind the exercise")

    def test_an_exercise_says_what_answers_it(self):
        self.assert_wrong("**Your turn: [`tile`](your_turn/tile.cu).** Write it.\n", "say <!-- answered by")


class Tables(InFolder):
    def lines(self, marker, *found):
        self.save("results.csv", *found)
        page = self.write("README.md", f"<!-- results: results.csv -->\n{marker}\n<!-- end -->\n")
        done = run("pages.py", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        return page.read_text(encoding="utf-8").splitlines()[2:]

    def test_headings_in_words_and_a_sweep_of_one_case(self):
        found = FOUND[:3] + [record(experiment="stride", case="read_stride", parameter="stride", at="1", kind="predicted",
                                    metric="load sectors a request", value=4)]
        lines = self.lines("<!-- table: stride @ stride | load sectors a request = sectors per request, "
                           "time = time (ms) | first = stride (words) | at = 1 -->", *found)
        self.assertEqual(lines[:3], [
            "| stride (words) | sectors per request | time (ms): predicted | measured | measured / predicted |",
            "|---|---:|---:|---:|---:|", "| 1 | 4 | 2.500 | 2 | 0.80 |"])

    def test_a_column_of_rows_that_are_not_shown_is_left_out(self):
        found = [record(experiment="latency", case="near", kind="measured", metric="latency", unit="cycles", value=280),
                 record(experiment="latency", case="each", kind="counted", metric="latency", unit="cycles", value=281, at="7")]
        lines = self.lines("<!-- table: latency @ - | latency | near = L2 -->", *found)
        self.assertEqual(lines[:3], ["|  | latency (cycles) |", "|---|---:|", "| L2 | 280 |"])

    def test_what_a_text_reports_has_a_heading_of_its_own(self):
        found = [record(experiment="structs", case="pairs", kind=kind, metric="efficiency", unit="%", value=value)
                 for kind, value in (("predicted", 1 / 3), ("then", 50))]
        lines = self.lines("<!-- table: structs | efficiency = used (%), then efficiency = the wiki (%) -->", *found)
        self.assertEqual(lines[:3], ["|  | used (%) | the wiki (%) |", "|---|---:|---:|", "| pairs | 0.3333 | 50 |"])


class Figures(InFolder):
    svg = "{http://www.w3.org/2000/svg}"

    def test_the_drawings_of_the_pages_are_what_the_script_draws(self):
        drawn = 0
        for page in page_checks.ROOT.glob("0?_*/*.md"):
            for output, results, arguments in figures.figures(page):
                if arguments[0] == "draw_ideas.py":
                    new = self.folder / f"{arguments[1]}.svg"
                    self.assertEqual(results, "")
                    self.assertEqual(run(*arguments, "-o", new).returncode, 0)
                    self.assertEqual((page.parent / output).read_text(encoding="utf-8"), new.read_text(encoding="utf-8"))
                    drawn += 1
        self.assertEqual(drawn, len(draw_ideas.DRAWINGS))

    def test_a_page_redraws_its_drawings_and_a_run_of_its_own_leaves_them(self):
        page = self.write("page/README.md", "<!-- figure: drawings/tile.svg = draw_ideas.py tile -->\n")
        done = run("figures.py", page)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(self.folder / "page/drawings/tile.svg")), done.stderr)
        self.assertEqual(run("figures.py", "--results", self.folder, page).stdout, "")

    def test_what_is_said_of_the_layouts_and_of_the_tile_is_counted(self):
        said = [element.text for element in xml.etree.ElementTree.fromstring(draw_ideas.draw_layouts()).iter(f"{self.svg}text")]
        self.assertIn("AoS, load of x: 8 sectors, 50% used", said)
        self.assertIn("SoA, load of x: 4 sectors, 100% used", said)
        self.assertIn("AoS aligned to 8 bytes, one load of x and y: 8 sectors, 100% used", said)
        said = [element.text for element in xml.etree.ElementTree.fromstring(draw_ideas.draw_tile()).iter(f"{self.svg}text")]
        self.assertIn("column 5: all 32 words in bank 5: 32 wavefronts", said)
        self.assertIn("column 5: banks 5, 6, 7 .. 4, each once: 1 wavefront", said)

    def test_the_caches_are_one_array_or_two(self):
        arrays = {name: [len(parts) for parts in of] for name, of, *_ in draw_ideas.GENERATIONS}
        self.assertEqual(arrays, {"Fermi, Kepler": [1, 2], "Maxwell, Pascal": [1, 1], "Volta": [2], "Hopper": [2]})
        drawn = draw_ideas.draw_caches()
        self.assertEqual(drawn.count("stroke-dasharray"), 3)  # a border that can be moved

    def test_the_rules_of_five_generations_move_what_the_texts_count(self):
        shares = {name: [round(draw_ideas.used_share(words, moved(words)), 2) for moved in draw_ideas.RULES.values()]
                  for name, words in draw_ideas.PATTERNS.items()}
        self.assertEqual(shares, {"in order": [100, 100, 100, 100, 100], "permuted in the line": [12.5, 50, 100, 100, 100],
                                  "misaligned by a word": [12.5, 57.14, 50, 80, 80],
                                  "one word for all lanes": [0.39, 6.25, 3.12, 12.5, 12.5]})

    def test_a_warp_reads_four_sectors_of_b_and_thirty_two_of_its_transpose(self):
        said = [element.text for element in xml.etree.ElementTree.fromstring(draw_ideas.draw_operands()).iter(f"{self.svg}text")]
        self.assertIn("B[k * n + j]: 32 neighbours of row k: 4 sectors", said)
        self.assertIn("BT[j * n + k]: one word in each of 32 rows: 32 sectors", said)

    def test_a_column_touches_fewer_sectors_and_lines_of_an_array_than_of_rows_and_a_patch_as_many_sectors(self):
        drawn = xml.etree.ElementTree.fromstring(draw_ideas.draw_texels())
        said = [element.text for element in drawn.iter(f"{self.svg}text")]
        for layout, column, patch in (("rows", "32 sectors in 32 lines; a request of a fetch touches 4 sectors", "4 sectors in 4 lines"),
                                      ("array", "16 sectors in 8 lines; a request of a fetch touches 2 sectors", "4 sectors in 1 line")):
            self.assertIn(f"column of 32 texels (8 are drawn): {column}", said, layout)
            self.assertIn(f"patch of 8 x 4 texels: {patch}; a request of a fetch touches 1 sector", said, layout)
        frames = [element.get("class") for element in drawn.iter(f"{self.svg}path")]
        self.assertEqual((frames.count("request"), frames.count("line")), (1 + 8, 8 + 8))
        self.assertEqual(said.count("7"), 2 + 2 * 2)  # in each request, and in the column and the patch of each image

    def test_wrong_command_lines(self):
        self.assertEqual(run("draw_ideas.py", "rainbow").returncode, 2)
        self.assertEqual(run("draw_ideas.py", "tile", "-o", "tile.png").returncode, 2)
        done = run("plot.py", "x.csv", "stride", "--mark", "8 sectors")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'8 sectors' is no 'KEY = WORDS'", done.stderr)

    def test_labels_keep_their_distance(self):
        self.assertEqual(plot.spread_out([0, 5, 30, 31], 10), [0, 10, 30, 40])

    @unittest.skipUnless(matplotlib, "matplotlib is missing")
    def test_labels_marks_and_a_limits_line(self):
        sweep = [timed("read_stride", kind, value, parameter="stride", at=str(at)) for at, kind, value in (
            (1, "calibration", 8), (2, "predicted", 4), (2, "measured", 5), (4, "predicted", 2), (4, "measured", 2))]
        drawn, saved = self.folder / "a.svg", self.save("r.csv", *sweep)
        done = run("plot.py", saved, "sum", "--direct", "--mark", "2 = here", "--ticks", "1,2,4", "-o", drawn)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("measured", "predicted", "here"):
            self.assertIn(f"<!-- {words} -->", drawn.read_text(encoding="utf-8"))
        bars = self.save("b.csv", timed("copy", "measured", 1), timed("a", "measured", 2), timed("b", "measured", 3))
        done = run("plot.py", bars, "sum", "--line", "copy = the limit", "--name", "b = second", "-o", drawn)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = drawn.read_text(encoding="utf-8")
        self.assertIn("<!-- the limit: 1 -->", text)
        self.assertIn("<!-- second -->", text)
        self.assertNotIn("<!-- a -->", text)
        done = run("plot.py", bars, "sum", "--line", "c = the limit", "-o", drawn)
        self.assertIn("no case 'c'", done.stderr)


if __name__ == "__main__":
    unittest.main()
