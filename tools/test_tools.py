#!/usr/bin/env python3
"""Checks the tools of this folder; needs neither a GPU nor a sample. Run it: python3 tools/test_tools.py"""
import csv
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import pages
import records
import summary

try:
    import matplotlib
except ImportError:
    matplotlib = None

COLUMNS = ("topic,experiment,case,parameter,at,kind,metric,unit,value,low,high,repeats,"
           "gpu,cc,driver,toolkit,date").split(",")


def record(**fields):
    """A record as load() gives it; what is not named is empty, or of a made-up run."""
    made_up = {"topic": "04_bandwidth", "experiment": "sum", "gpu": "Some GPU", "cc": "9.0", "driver": "13.0",
               "toolkit": "13.0", "date": "2026-11-20"}
    return {**dict.fromkeys(COLUMNS, ""), **made_up, **{name: str(value) for name, value in fields.items()}}


def timed(case, kind, value, **fields):
    return record(case=case, kind=kind, metric="time", unit="ms", value=value, **fields)


def claim(part, verdict, **fields):
    return record(case=part, kind="claim", metric=verdict, **{"parameter": f"what {part} says", **fields})


def save(path, found):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(found)


def run(tool, *arguments, **options):
    command = [sys.executable, TOOLS / tool, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, **options)


class InFolder(unittest.TestCase):
    """Tests in a temporary folder of their own."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def save(self, name, *found):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        save(path, found)
        return path


class Records(InFolder):
    def test_ids_are_sorted_by_number_then_letter(self):
        ids = ["04.10", "04.2b", "03.12", "04.2a", "04.2"]
        self.assertEqual(sorted(ids, key=records.id_order), ["03.12", "04.2", "04.2a", "04.2b", "04.10"])

    def test_what_is_no_id_is_named(self):
        with self.assertRaisesRegex(ValueError, "'4.x'"):
            records.id_order("4.x")

    def test_another_file_is_refused(self):
        counters = self.write("counters.csv", "kernel,parameter,metric,value\n")
        with self.assertRaisesRegex(ValueError, "counters.csv"):
            records.load(counters)


class Verdicts(InFolder):
    def test_verdicts_are_counted_and_what_does_not_hold_is_named_in_order(self):
        saved = self.save("r.csv", claim("04.10", "does not hold", at="0.9x"), claim("04.2b", "does not hold"),
                          claim("04.2a", "too close to call"), claim("04.8", "holds, by more"))
        done = run("summary.py", saved)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 claims in 4 parts on Some GPU", done.stdout)
        heading, counts = done.stdout.splitlines()[1:3]
        self.assertEqual(re.split(r"\s{2,}", heading.strip()), records.VERDICTS)
        self.assertEqual(counts.split(), ["04_bandwidth", "-", "1", "-", "1", "2", "-"])
        gone = done.stdout.partition("does not hold:\n")[2].splitlines()
        self.assertEqual([line.split()[0] for line in gone], ["04.2b", "04.10"])

    def test_an_unknown_verdict_is_named(self):
        done = run("summary.py", self.save("r.csv", claim("04.1", "perhaps")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("'perhaps' of 04.1 is no verdict", done.stderr)

    def test_every_verdict_has_a_colour_of_its_own(self):
        self.assertEqual(list(summary.COLOURS), records.VERDICTS)
        self.assertEqual(len(set(summary.COLOURS.values())), len(records.VERDICTS))


class Predictions(InFolder):
    def count(self, *found):
        return summary.count_predictions([self.save("r.csv", *found)])["04_bandwidth", "sum"]

    def test_what_lies_within_10_25_and_50_percent_either_way(self):
        found = []
        for measured in (1.0, 1.1, 1 / 1.1, 1.25, 1 / 1.25, 1.5, 1 / 1.5, 1.51, 1 / 1.51):
            found += [timed(f"{measured}", "predicted", 1), timed(f"{measured}", "measured", measured)]
        count = self.count(*found)
        self.assertEqual((count.rows, len(count.ratios)), (9, 9))
        self.assertEqual([count.within(share) for share in (0.10, 0.25, 0.50)], [3, 5, 7])

    def test_a_row_is_a_case_at_a_place_however_many_metrics_it_has(self):
        rate = record(case="a", kind="measured", metric="rate", unit="GB/s", value=9)
        count = self.count(timed("a", "measured", 1), rate, timed("a", "measured", 1, parameter="n", at=1),
                           timed("a", "measured", 1, parameter="n", at=2))
        self.assertEqual((count.rows, count.ratios), (3, []))

    def test_the_first_metric_that_has_both_decides(self):
        rate = dict(case="a", metric="rate", unit="GB/s")
        count = self.count(record(case="a", kind="measured", metric="cycles", unit="cycles", value=5),
                           record(**rate, kind="measured", value=30), timed("a", "measured", 8),
                           timed("a", "predicted", 1), record(**rate, kind="predicted", value=10))
        self.assertEqual(count.ratios, [3])

    def test_calibration_is_no_row_and_not_predicted(self):
        count = self.count(timed("copy", "calibration", 1), timed("copy", "predicted", 1), timed("a", "measured", 1))
        self.assertEqual((count.calibration, count.rows, count.ratios), (1, 1, []))

    def test_counts_and_shares_are_no_rows(self):
        count = self.count(record(case="a", kind="measured", metric="sectors", unit="", value=4),
                           record(case="b", kind="measured", metric="share", unit="%", value=4),
                           record(case="c", kind="counted", metric="time", unit="ms", value=4))
        self.assertEqual(count.rows, 0)
        self.assertTrue(all(map(summary.in_time_cycles_or_rate, ["ms", "us", "ns", "s", "cycles", "GB/s", "keys/s"])))
        self.assertFalse(any(map(summary.in_time_cycles_or_rate, ["", "%", "x", "KiB", "warps", "GB", "ms/GiB"])))

    def test_the_table_has_a_line_for_each_experiment_and_totals(self):
        one = self.save("1.csv", timed("a", "predicted", 1), timed("a", "measured", 1.2), timed("b", "measured", 1),
                        timed("c", "calibration", 1))
        two = self.save("2.csv", timed("a", "measured", 2, experiment="peak"),
                        timed("a", "predicted", 1, experiment="peak"))
        done = run("summary.py", "--predictions", one, two)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()[2:]]
        self.assertEqual(lines, [
            ["04_bandwidth", "sum", "2", "1", "50%", "0", "0%", "1", "100%", "1", "100%", "1"],
            ["04_bandwidth", "peak", "1", "1", "100%", "0", "0%", "0", "0%", "0", "0%", "-"],
            ["all", "3", "2", "67%", "0", "0%", "1", "50%", "1", "50%", "1"]])


class Figure(unittest.TestCase):
    def topics(self):
        long = "a statement that goes on and on, " * 12
        word = "one_word_that_is_much_longer_than_any_tile_is_wide_whatever_the_font"
        unlike = [claim(f"01.{n}", verdict, parameter=long[:20 * n], value=10.0**n, unit="x")
                  for n, verdict in enumerate(records.VERDICTS, 1)]
        parts = [claim(f"02.1{letter}", "too close to call", parameter=f"short {letter}") for letter in "abcdefghijk"]
        return {"01_memory_model": unlike, "02_memory_management": parts,
                "03_access_patterns": [claim("03.1", "not judged", parameter=word),
                                       claim("03.2", "holds", parameter=long)]}

    def test_topics_fill_the_rows(self):
        topics = {"a": range(5), "b": range(3), "c": range(10), "d": range(2), "e": range(7)}
        tiles = summary.arrange(topics)
        heads = [(row, column, topic) for row, column, _, topic in tiles if topic]
        self.assertEqual(heads, [(0, 0, "a"), (0, 5, "b"), (1, 0, "c"), (3, 0, "d"), (4, 0, "e")])
        self.assertEqual(len({(row, column) for row, column, _, _ in tiles}), 27)
        self.assertEqual(max(column for _, column, _, _ in tiles), 7)

    @unittest.skipUnless(matplotlib, "matplotlib is missing")
    def test_no_text_leaves_its_tile_or_meets_another(self):
        figure, tiles = summary.draw(self.topics(), ["Some GPU"])
        self.assertEqual(len(tiles), 19)
        renderer = figure.canvas.get_renderer()
        for tile, texts in tiles:
            edge = tile.get_window_extent(renderer)
            boxes = [text.get_window_extent(renderer) for text in texts]
            for text, box in zip(texts, boxes):
                with self.subTest(text=text.get_text()):
                    self.assertGreaterEqual(box.x0, edge.x0)
                    self.assertLessEqual(box.x1, edge.x1)
                    self.assertGreaterEqual(box.y0, edge.y0)
                    self.assertLessEqual(box.y1, edge.y1)
            self.assertFalse(boxes[0].overlaps(boxes[1]), "id and verdict")
            for line in boxes[2:]:
                self.assertLess(line.y1, boxes[0].y0 + 1, "the statement stands below the id")


class Counters(unittest.TestCase):
    counted = ('"ID","Kernel Name","gpu__time_duration.sum","l1tex__t_sectors.sum"\n'
               '"","","ns","sector"\n"0","void read<int>(int *)","1,000","2,048"\n')
    launch = "launch: read,stride 2\n"
    table = "kernel,parameter,metric,value\nread,stride 2,l1tex__t_sectors.sum,2048\n"

    def test_the_first_line_says_what_was_counted(self):
        what = "gpu GPU-12ab, program 0123456789abcdef"
        done = run("counters.py", input=f"counted on: {what}\n" + self.launch + self.counted)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"# {what}\n" + self.table)

    def test_without_it_there_is_none(self):
        self.assertEqual(run("counters.py", input=self.launch + self.counted).stdout, self.table)

    def test_two_programs_are_refused(self):
        both = "counted on: gpu GPU-1, program 1\ncounted on: gpu GPU-1, program 2\n"
        done = run("counters.py", input=both + self.launch + self.counted)
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_a_launch_that_was_not_counted_is_an_error(self):
        done = run("counters.py", input=self.launch * 2 + self.counted)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("2 launches were announced and 1 counted", done.stderr)


class Pages(InFolder):
    code = """\
        namespace {

          // [column_to_row]
          __global__ void column_to_row(float* out) {
            // [inner]
            out[0] = 1;
            // [/inner]
          }
          // [/column_to_row]

        }  // namespace
        """
    shown = """\
        # A page
        <!-- code: transpose.cu | column_to_row -->
        ```cpp
        __global__ void column_to_row(float* out) {
          out[0] = 1;
        }
        ```
        <sub>[transpose.cu](transpose.cu)</sub>
        <!-- end -->
        After it.
        """

    def page(self, *lines):
        return self.write("README.md", "\n".join(["<!-- results: results.csv -->", *lines, ""]))

    def rewritten(self, marker, *found):
        """The lines that the tool writes below a marker."""
        self.save("results.csv", *found)
        page = self.page(marker, "old", "<!-- end -->")
        done = run("pages.py", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        return page.read_text(encoding="utf-8").splitlines()[2:-1]

    def test_an_excerpt_is_taken_from_the_file(self):
        self.write("transpose.cu", self.code)
        page = self.write("README.md", """\
            # A page
            <!-- code: transpose.cu | column_to_row -->
            <!-- end -->
            After it.
            """)
        done = run("pages.py", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(page.read_text(encoding="utf-8"), textwrap.dedent(self.shown))
        self.assertEqual(run("pages.py", "--check", page).returncode, 0)

    def test_changed_code_fails_the_check(self):
        self.write("transpose.cu", self.code.replace("= 1", "= 2"))
        page = self.write("README.md", self.shown)
        done = run("pages.py", "--check", page)
        self.assertEqual(done.returncode, 1)
        self.assertIn("-  out[0] = 1;", done.stdout)
        self.assertIn("+  out[0] = 2;", done.stdout)
        self.assertEqual(page.read_text(encoding="utf-8"), textwrap.dedent(self.shown))  # --check writes nothing

    def test_a_missing_marker_is_named(self):
        for gone in ("// [column_to_row]", "// [/column_to_row]"):
            self.write("transpose.cu", self.code.replace(gone, ""))
            done = run("pages.py", "--check", self.write("README.md", self.shown))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"transpose.cu has no line '{gone}'", done.stderr)

    def test_a_missing_file_is_named(self):
        done = run("pages.py", "--check", self.write("README.md", self.shown))
        self.assertEqual(done.returncode, 1)
        self.assertIn("transpose.cu", done.stderr)

    def test_predicted_measured_and_ratio(self):
        lines = self.rewritten("<!-- table: sum | time -->", timed("copy", "calibration", 0.5),
                               timed("rows", "measured", 1.23456), timed("rows", "predicted", 1),
                               timed("sort", "measured", 7))
        self.assertEqual(lines[:5], ["|  | time (ms): predicted | measured | ratio |", "|---|---:|---:|---:|",
                                     "| copy | calibration | 0.5000 |  |", "| rows | 1 | 1.235 | 1.23 |",
                                     "| sort |  | 7 |  |"])

    def test_other_columns_stay_as_they_are(self):
        lines = self.rewritten("<!-- table: sum | sectors, time -->",
                               timed("a", "measured", 2), timed("a", "predicted", 4),
                               record(case="a", kind="predicted", metric="sectors", value=32),
                               record(case="a", kind="then", metric="time", unit="s", value=1))
        self.assertEqual(lines[0],
                         "|  | predicted sectors | time (ms): predicted | measured | ratio | then: time (s) |")
        self.assertEqual(lines[2], "| a | 32 | 4 | 2 | 0.50 | 1 |")

    def test_chosen_rows_in_words(self):
        found = [timed(case, "measured", n) for n, case in enumerate(("row -> column", "column -> row", "best"), 1)]
        marker = "<!-- table: sum @ - | time | best; row -> column = reading rows -->"
        self.assertEqual(self.rewritten(marker, *found)[2:4], ["| best | 3 |", "| reading rows | 1 |"])

    def test_a_chosen_row_that_does_not_exist_is_an_error(self):
        self.save("results.csv", timed("a", "measured", 1))
        done = run("pages.py", self.page("<!-- table: sum | time | b -->", "<!-- end -->"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no case 'b'", done.stderr)

    def test_chosen_values_of_a_sweep_in_words(self):
        found = [timed(case, "measured", n, parameter="bytes", at=str(at)) for case in ("a", "b")
                 for n, at in enumerate((1, 1024, 65536), 1)]
        for marker in ("sum @ bytes | time | b = pinned | at = 1024 = 1 KiB; 65536",
                       "sum @ bytes | time | at = 1024 = 1 KiB; 65536 | b = pinned"):
            self.assertEqual(self.rewritten(f"<!-- table: {marker} -->", *found)[2:4],
                             ["| pinned, 1 KiB | 2 |", "| pinned, 65536 | 3 |"])
        all_cases = self.rewritten("<!-- table: sum @ bytes | time | at = 1 -->", *found)
        self.assertEqual(all_cases[2:4], ["| a, 1 | 1 |", "| b, 1 | 1 |"])

    def test_every_marker_that_fails_is_named_and_nothing_written(self):
        self.save("results.csv", timed("a", "measured", 1))
        page = self.page("<!-- table: sum | time | b -->", "<!-- end -->",
                         "A <!-- v sum | a |  | time | .1f -->?<!-- /v -->",
                         "<!-- table: sum | time | at = 7 -->", "<!-- end -->",
                         "and <!-- v sum | c |  | time | .1f -->?<!-- /v -->")
        before = page.read_text(encoding="utf-8")
        done = run("pages.py", page)
        self.assertEqual(done.returncode, 1)
        for what in ("no case 'b'", "no value '7'", "no value 'sum | c |  | time | .1f'"):
            self.assertIn(what, done.stderr)
        self.assertEqual(page.read_text(encoding="utf-8"), before)

    def test_claims_by_id(self):
        lines = self.rewritten("<!-- claims: -->", claim("04.10", "does not hold", at="0.9x"),
                               claim("04.2b", "too close to call", at="here 1.0x"), claim("04.2a", "holds"),
                               record(case="04.2a", kind="then", metric="reported", parameter="8800 GTX", at="77x"))
        self.assertEqual(lines[2:5], ["| 04.2a | what 04.2a says | 77x (8800 GTX) |  | **holds** |",
                                      "| 04.2b | what 04.2b says |  | here 1.0x | **too close to call** |",
                                      "| 04.10 | what 04.10 says |  | 0.9x | **does not hold** |"])

    def test_findings_are_a_list(self):
        found = [record(case="04.1", kind="finding", metric="finding", at="one"),
                 record(case="04.2a", kind="finding", metric="finding", at="two"),
                 record(case="04.3", kind="finding", metric="finding", at="x", experiment="peak")]
        lines = self.rewritten("<!-- findings: sum -->", *found)
        self.assertEqual(lines, ["- 04.1: one", "- 04.2a: two"])

    def test_a_finding_may_belong_to_all_parts_of_a_claim(self):
        self.write("04_bandwidth/a.cu", 'Part a{"04.1a"}, b{"04.1b"}; finding("04.1"); finding("04.2");')
        found = [record(case=case, kind="finding", metric="finding", at="one") for case in ("04.1", "04.2")]
        self.save("04_bandwidth/results/x.csv", claim("04.1a", "holds"), claim("04.1b", "holds"), *found)
        page = self.write("README.md", "<!-- results: 0?_*/results/x.csv -->\n")
        self.assertEqual(pages.unjudged(page), ["04.2"])

    def test_every_claim_of_the_code_is_judged_or_says_why_not(self):
        self.write("04_bandwidth/a.cu", 'Part a{"04.1"}, b{"04.2a"}; // and 04.7, not in quotes')
        self.write("04_bandwidth/b.hpp", 'Part c{"04.2b"}, d{"04.3"};')
        self.write("04_bandwidth/c.cuh", 'Part e{"04.4"};')
        self.save("04_bandwidth/results/x.csv", claim("04.1", "holds"),
                  claim("04.2a", "not judged", at="needs counts"), claim("04.2b", "not judged"),
                  claim("04.4", "does not hold"), claim("04.5c", "holds"))
        page = self.write("README.md", "<!-- results: 0?_*/results/x.csv -->\n")
        self.assertEqual(pages.unjudged(page), ["04.2b", "04.3", "04.5c"])
        self.assertEqual(run("pages.py", "--check", page).returncode, 1)


class Banks(InFolder):
    def lanes(self, name, metric, words, value):
        return record(topic="06_shared_reduce", experiment="bank_steps", case=name, parameter="lanes of warp 0",
                      at=words, kind="predicted", metric=metric, value=value)

    def step(self, name, left, right, of_bank, wavefronts):
        return [self.lanes(name, "left words", left, wavefronts), self.lanes(name, "right words", right, wavefronts),
                self.lanes(name, "words of the lane's bank", of_bank, wavefronts)]

    def banks(self):
        return record(topic="06_shared_reduce", experiment="bank_steps", case="shared memory", kind="predicted",
                      metric="banks", value=4)

    def draw(self, *found):
        return run("draw_banks.py", self.save("r.csv", *found), "-o", self.folder / "banks.svg")

    @unittest.skipUnless(matplotlib, "matplotlib is missing")
    def test_what_was_saved_is_drawn_and_said(self):
        # of a GPU with 4 banks, and numbers that no rule would give: the tool has none of its own
        done = self.draw(self.banks(), *self.step("up, step 1, stride 1", "0 9 - -", "1 5 - -", "2 1 - -", 7),
                         *self.step("down, step 1, stride 2", "0 1 2 3", "4 5 6 7", "1 1 1 1", 1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), ["up, step 1, stride 1: 2 lanes, 7-way conflict",
                                                    "down, step 1, stride 2: 4 lanes, no conflict"])
        drawn = (self.folder / "banks.svg").read_text(encoding="utf-8")
        for text in ("12 words in 4 banks", *done.stdout.splitlines(), "one of 2 that its bank must give"):
            self.assertIn(f"<!-- {text}", drawn)

    def test_a_file_without_lanes_or_with_a_part_of_them_is_named(self):
        for found in ([timed("a", "measured", 1)], [self.banks()],
                      [self.banks(), self.lanes("up, step 1, stride 1", "left words", "0 1", 1)]):
            done = self.draw(*found)
            self.assertEqual(done.returncode, 1)
            self.assertIn("r.csv has no lanes of bank_steps", done.stderr)

    def test_wrong_command_lines(self):
        saved = self.save("r.csv", self.banks())
        self.assertEqual(run("draw_banks.py").returncode, 2)
        self.assertEqual(run("draw_banks.py", saved, "-o", "banks.txt").returncode, 2)


class Memories(InFolder):
    def size(self, name, value, unit, kind="counted"):
        return record(topic="01_memory_model", experiment="device", case=name, kind=kind, metric="this GPU", unit=unit,
                      value=value)

    def of_latency(self, name, metric, unit, value, kind="measured", **other):
        return record(topic="01_memory_model", experiment="latency", case=name, kind=kind, metric=metric, unit=unit,
                      value=value, **other)

    def found(self):
        return [self.size("multiprocessors", 7, ""), self.size("register file, a multiprocessor", 256, "KiB"),
                self.size("constant cache, a multiprocessor", 8, "KiB", kind="predicted"),
                self.size("L2 cache", 3072, "KiB"), self.of_latency("L1", "latency", "cycles", 31.6, kind="calibration"),
                self.of_latency("load", "latency", "cycles", 99, at="1024", parameter="footprint"),
                self.of_latency("shared", "bandwidth", "GB/s", 1234, kind="predicted"),
                self.of_latency("shared", "bandwidth", "GB/s", 1100),
                self.of_latency("global", "bandwidth", "GB/s", 432)]

    def test_the_list_has_what_the_file_has(self):
        done = run("draw_memories.py", self.save("r.csv", *self.found()), "--list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "registers: 256 KiB", "shared memory: 1.1 TB/s", "L1: 32 cycles", "texture path: not measured",
            "constant cache: 8 KiB (guide)", "L2: 3 MiB", "device memory: 432 GB/s", "host memory: not measured"])

    @unittest.skipUnless(matplotlib, "matplotlib is missing")
    def test_it_is_drawn_also_by_a_page(self):
        self.save("r.csv", *self.found())
        page = self.write("README.md", "<!-- figure: memories.svg = r.csv draw_memories.py -->\n")
        self.assertEqual(run("figures.py", page).returncode, 0)
        drawn = (self.folder / "memories.svg").read_text(encoding="utf-8")
        for text in ("one of 7 multiprocessors", "constant cache", "3 MiB", "1.1 TB/s"):
            self.assertIn(f"<!-- {text}", drawn)

    def test_a_file_without_memories_and_wrong_command_lines(self):
        saved = self.save("r.csv", timed("a", "measured", 1))
        done = run("draw_memories.py", saved)
        self.assertEqual(done.returncode, 1)
        self.assertIn("r.csv has no memories of a GPU", done.stderr)
        self.assertEqual(run("draw_memories.py").returncode, 2)
        self.assertEqual(run("draw_memories.py", saved, "-o", "memories.txt").returncode, 2)


class Repeat(InFolder):
    def sample(self, *verdicts, topic="04_bandwidth", code=0):
        """A script in place of a sample: its n-th run gives the n-th verdict for 04.2a, and always holds for 04.8."""
        runs = [[claim("04.2a", verdict, value=1 + n / 10, low=0.9 + n / 10, high=1.1 + n / 10, unit="x"),
                 claim("04.8", "holds", value=3.5, low=3.4, high=3.6, unit="x")] for n, verdict in enumerate(verdicts)]
        for n, found in enumerate(runs):
            self.save(f"saved/{n}.csv", *found)
        path = self.write(f"build/{topic}/{topic}", f"""\
            #!{sys.executable}
            import pathlib, shutil, sys
            folder = pathlib.Path({str(self.folder)!r})
            calls = folder / "calls"
            before = calls.read_text().splitlines() if calls.exists() else []
            calls.write_text("\\n".join(before + [" ".join(sys.argv[1:-2])]) + "\\n")
            if {code}:
                sys.exit("first line\\n{topic}: out of luck")
            assert sys.argv[-2] == "--csv"
            shutil.copy(folder / "saved" / f"{{len(before)}}.csv", sys.argv[-1])
            """)
        path.chmod(0o755)
        return path

    def repeat(self, *arguments):
        return run("repeat.py", "--build", self.folder / "build", *arguments)

    def test_a_part_that_holds_and_does_not_hold_is_a_failure(self):
        self.sample("holds, by less", "does not hold", "holds, by less")
        done = self.repeat("--runs", 3, "04_bandwidth")
        self.assertEqual(done.returncode, 1, done.stderr)
        table, _, varied = done.stdout.partition("1 of 2 parts varied:\n")
        words = {line.split()[0]: line.split() for line in table.splitlines() if line.strip().startswith("04.")}
        self.assertEqual(words["04.2a"][1:5], ["0.9", "1.1", "1.3", "x"])
        self.assertIn("holds, by less: 2; does not hold: 1", table)
        self.assertEqual(words["04.8"][1:], ["3.4", "3.5", "3.6", "x", "holds:", "3"])
        self.assertIn("04.2a  what 04.2a says - holds in one run and does not in another", varied)
        self.assertRegex(varied, r"run  1  holds, by less +1 \(0\.9 to 1\.1\) x\n")
        self.assertRegex(varied, r"run  2  does not hold +1\.1 \(1 to 1\.2\) x\n")
        self.assertNotIn("04.8", varied)

    def test_too_close_to_call_beside_holds_is_named_and_no_failure(self):
        self.sample("holds", "too close to call", "holds, by more")
        done = self.repeat("--runs", 3, "04_bandwidth")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 of 2 parts varied:\n  04.2a", done.stdout)

    def test_nothing_varies_in_ten_runs(self):
        self.sample(*["does not hold"] * 10)
        done = self.repeat("04_bandwidth")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("04_bandwidth: 10 runs on Some GPU", done.stdout)
        self.assertTrue(done.stdout.endswith("0 of 2 parts varied\n"))

    def test_experiments_and_options_are_passed_on_and_files_kept(self):
        executable = self.sample("holds", "holds")
        kept = self.folder / "kept"
        done = run("repeat.py", "--runs", 2, "--experiments", "transpose,sum", "--keep", kept, executable,
                   "--", "--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "calls").read_text(), "transpose sum --quick\n" * 2)
        self.assertEqual(len([records.load(path) for path in kept.iterdir()]), 2)

    def test_a_sample_that_fails_ends_it_in_one_line(self):
        self.sample("holds", code=1)
        done = self.repeat("04_bandwidth")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "repeat.py: 04_bandwidth: run 1 of 10: exit code 1: 04_bandwidth: out of luck\n")

    def test_wrong_command_lines(self):
        self.sample("holds")
        for wrong in (["05_unified_memory"], ["--runs", "0", "04_bandwidth"], ["--runs", "x", "04_bandwidth"], []):
            self.assertEqual(self.repeat(*wrong).returncode, 2)


if __name__ == "__main__":
    unittest.main()
