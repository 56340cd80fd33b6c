#!/usr/bin/env python3
"""Checks the tools of this folder; needs neither a GPU nor a sample. Run it: python3 tools/test_tools.py"""
import ast
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
import xml.etree.ElementTree

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import draw_then_now
import pages
import records
import summary
import tiles

try:
    import matplotlib
except ImportError:
    matplotlib = None

COLUMNS = ("topic,experiment,case,parameter,at,kind,metric,unit,value,low,high,repeats,"
           "gpu,cc,driver,toolkit,date,words,runs,cards").split(",")
OLD_COLUMNS = COLUMNS[:-3]  # of the second edition


def record(**fields):
    """A record as load() gives it; what is not named is empty, or of a made-up run."""
    made_up = {"topic": "04_bandwidth", "experiment": "sum", "gpu": "Some GPU", "cc": "9.0", "driver": "13.0",
               "toolkit": "13.0", "date": "2026-11-20"}
    return {**dict.fromkeys(COLUMNS, ""), **made_up, **{name: str(value) for name, value in fields.items()}}


def timed(case, kind, value, **fields):
    return record(case=case, kind=kind, metric="time", unit="ms", value=value, **fields)


def claim(part, verdict, **fields):
    return record(case=part, kind="claim", metric=verdict, **{"parameter": f"what {part} says", **fields})


def save(path, found, columns=COLUMNS):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
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

    def test_a_line_with_too_few_or_too_many_cells_is_named(self):
        for line in ("04_bandwidth,sum", ",".join(["x"] * 21)):
            path = self.write("r.csv", ",".join(COLUMNS) + "\n" + line + "\n")
            with self.assertRaisesRegex(ValueError, "line 2"):
                records.load(path)

    def test_files_of_the_second_edition_are_read_in_todays_words(self):
        path = self.folder / "old.csv"
        save(path, [claim("04.1", "holds, by less"), claim("04.2", "holds, by more"), timed("a", "measured", 1)], OLD_COLUMNS)
        found = records.load(path)
        self.assertEqual([r["metric"] for r in found], ["holds, weaker", "holds, stronger", "time"])
        self.assertEqual({(r["words"], r["runs"], r["cards"]) for r in found}, {("", "", "")})

    def test_the_repositorys_files_have_todays_columns(self):
        header = ",".join([*records.COLUMNS, *records.ADDED])
        self.assertEqual(header, ",".join(COLUMNS))
        for path in TOOLS.parent.glob("0?_*/results/*.csv"):
            if not path.stem.endswith("-counters"):
                self.assertEqual(path.read_text(encoding="utf-8").partition("\n")[0], header, path)

    def test_an_old_file_is_upgraded_with_its_numbers(self):
        found = [claim("04.1", "holds, by less", value=2, low=1.9, high=2.1, unit="x"), claim("04.2", "holds"),
                 timed("a, b", "measured", 1)]
        path = self.folder / "old.csv"
        save(path, found, OLD_COLUMNS)
        old = path.read_text(encoding="utf-8").splitlines()
        done = run("upgrade_results.py", "--by-construction", "04.2", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(path.read_text(encoding="utf-8").splitlines(), [
            old[0] + ",words,runs,cards", old[1].replace("by less", "weaker") + ",,,", old[2] + ",by construction,,",
            old[3] + ",,,"])
        before = path.read_bytes()
        self.assertEqual(run("upgrade_results.py", path).returncode, 0)
        self.assertEqual(path.read_bytes(), before)
        open_size = self.save("open.csv", claim("04.2", "holds"), claim("04.3", "holds"), claim("04.4", "too close to call"))
        self.assertEqual(run("upgrade_results.py", "--size-open", "04.2,04.4", open_size).returncode, 0)
        self.assertEqual([r["metric"] for r in records.load(open_size)], ["holds, size open", "holds", "too close to call"])

    def test_what_is_by_construction_is_counted_apart(self):
        claims = [claim("04.1", "holds"), claim("04.2", "holds", words="by construction"),
                  claim("04.3", "does not hold", words="by construction"),
                  claim("04.4", "not judged", words="by construction")]
        self.assertEqual(records.tally(claims), {"holds": 1, "by construction": 2, "not judged": 1})

    def test_sizes_are_said_as_the_sample_says_them(self):
        def size(at, value, low="", high="", unit="x"):
            return records.size_text(claim("04.1", "holds", at=at, value=value, low=low, high=high, unit=unit))

        self.assertEqual(size("1.11x slower (1.09 to 1.12) here", 0.905, 0.896, 0.914), "1.11x slower (1.09 to 1.12)")
        self.assertEqual(size("2.1x faster (2.0 to 2.2), 1.30x faster (1.2 to 1.4)", 1.3, 1.2, 1.4),
                         "1.30x faster (1.2 to 1.4)")
        self.assertEqual(size("53% (52 to 53%)", 0.529, 0.524, 0.534, "of theory"), "53% (52 to 53%)")
        self.assertEqual(size("many words", 15.7, 15.6, 15.9), "15.7x (15.6 to 15.9)")
        self.assertEqual(size("many words", 658, 652, 665, "cycles"), "658 cycles (652 to 665)")
        self.assertEqual(size("3.06 times as slow here (3.03 to 3.09)", 3.06, 3.03, 3.09),
                         "3.06 times as slow here (3.03 to 3.09)")
        self.assertEqual(size("a fact", 1, 1, 1, ""), "")
        self.assertEqual(size("not judged", ""), "")

    def test_a_ratio_that_may_be_one_is_equal(self):
        def size(value, low, high):
            return records.size_text(claim("04.1", "holds", at="1.00x faster (0.99 to 1.01)", value=value, low=low,
                                           high=high, unit="x"))

        self.assertEqual(size(1, 0.99, 1.01), "equal within 1%")
        self.assertEqual(size(1, 0.998, 1.001), "equal within 1%")
        self.assertEqual(size(0.99, 0.96, 1.04), "equal within 4%")
        self.assertEqual(size(1.02, 1.01, 1.03), "1.02x (1.01 to 1.03)")

    def test_the_range_of_several_runs_stands_in_place_of_one_runs(self):
        of_runs = claim("04.1", "holds", at="1.11x slower (1.09 to 1.12)", value=0.905, low=0.8, high=0.91, unit="x", runs=5)
        self.assertEqual(records.size_text(of_runs), "1.11x slower (1.10 to 1.25)")
        share = claim("04.1", "holds", at="53% (52 to 53%)", value=0.529, low=0.5, high=0.55, unit="of theory", runs=5)
        self.assertEqual(records.size_text(share), "53% (50.0 to 55.0%)")

    def test_numbers_have_no_exponent(self):
        shown = [records.number(value) for value in (4430.2, 12.34, 0.0381, 0.996, 0.9996, 0, -0.88, 1234567)]
        self.assertEqual(shown, ["4430", "12.3", "0.0381", "0.996", "1.00", "0", "-0.880", "1234567"])

    def test_files_are_of_the_gpu_that_they_are_called_by(self):
        for name in ("some-gpu.csv", "some-gpu-2.csv", "some-gpu-full.csv", "some-gpu-x2.csv", "another.csv"):
            self.save(name, claim("04.1", "holds"))
        self.save("no-gpu.csv", claim("04.1", "not judged", gpu=""))
        self.write("some-gpu-counters.csv", "kernel,parameter,metric,value\n")
        found = records.by_gpu(self.folder.glob("*.csv"))
        self.assertEqual({gpu: len(of_gpu) for gpu, of_gpu in found.items()}, {"Some GPU": 1, "Some GPU (2)": 1})

    def test_what_was_not_judged_differs_from_nothing(self):
        verdicts = ("holds", "holds, weaker", "not judged")
        one, less, none = (claim("04.1", verdict) for verdict in verdicts)
        self.assertTrue(records.judged_differently(one, less))
        for pair in ((one, one), (one, none), (none, none), (one, None)):
            self.assertFalse(records.judged_differently(*pair))


class HostileFiles(InFolder):
    """What comes back from spreadsheets, editors and broken transfers."""

    def setUp(self):
        super().setUp()
        self.sound = self.save("sound.csv", timed("read", "measured", 2, low=1, high=3, repeats=20, words="a word, \u00e9"),
                               claim("04.1", "holds", value=2, low=1, high=3, unit="x"))
        self.text = self.sound.read_text(encoding="utf-8")

    def spoiled(self, content):
        path = self.folder / "spoiled.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def test_what_a_spreadsheet_saves_is_read(self):
        expected = records.load(self.sound)
        columns = self.text.splitlines()[0].split(",")
        turned = self.folder / "turned.csv"
        save(turned, expected, columns[::-1])
        for name, content in (("with a BOM", b"\xef\xbb\xbf" + self.text.encode()), ("by Windows", self.text.replace("\n", "\r\n")),
                              ("with columns in another order", turned.read_bytes())):
            with self.subTest(name):
                self.assertEqual(records.load(self.spoiled(content)), expected)

    def test_what_is_no_results_file_is_named_with_its_line(self):
        def cell(column, text):
            found = records.load(self.sound)
            found[0][column] = text
            save(self.folder / "changed.csv", found)
            return (self.folder / "changed.csv").read_bytes()

        lines = self.text.splitlines(keepends=True)
        for content, said in ((b"", "it has not one column 'topic'"),
                              (self.text.replace(",", ";"), "it has not one column 'topic'"),
                              (self.text.replace(",value,", ",worth,", 1), "it has not one column 'value'"),
                              (self.text.replace(",value,", ",value,value,", 1), "it has not one column 'value'"),
                              (self.text[:-9], "the last line is cut short"),
                              (lines[0] + lines[1].replace(",", ",\n", 1) + lines[2], "line 2 has not one cell for each column"),
                              (lines[0] + lines[1].replace("ms,2", 'ms,"2', 1) + lines[2], "line 2: ',' expected after"),
                              ("\0".join(lines), "line 2 has a byte of value 0"),
                              (self.text.encode("latin-1"), "line 2 is not in UTF-8"),
                              (self.text.encode("utf-16"), "line 1 is not in UTF-8"),
                              (bytes(range(128, 256)), "line 1 is not in UTF-8"),
                              (cell("value", "inf"), "line 2: value 'inf' is no number"),
                              (cell("low", "nan"), "line 2: low 'nan' is no number"),
                              (cell("high", "1,5"), "line 2: high '1,5' is no number"),
                              (cell("repeats", "many"), "line 2: repeats 'many' is no whole number"),
                              (cell("kind", "<script>"), "line 2: '<script>' is no kind of record"),
                              (self.text.replace("04.1", "04.x"), "line 3: '04.x' is no claim's id")):
            with self.subTest(said):
                with self.assertRaises(ValueError) as raised:
                    records.load(self.spoiled(content))
                self.assertIn(said, str(raised.exception))
                self.assertIn("spoiled.csv", str(raised.exception))

    def test_every_tool_says_it_in_a_line(self):
        def said(path):
            keys = self.folder / "keys.tsv"
            keys.write_text("part\tsum\t04.1\t04.2\n")
            for command in (["report.py", path], ["compare.py", self.sound, path], ["compare.py", "--keys", path, self.sound],
                            ["summary.py", path], ["summary.py", "--predictions", path], ["summary.py", "--add", path],
                            ["plot.py", path, "sum"], ["thin.py", path, "--metric", "time", "-o", self.folder / "thin.csv"],
                            ["combine.py", path, path, "-o", self.folder / "all.csv"], ["figures.py", path],
                            ["pages.py", path], ["pages.py", "--check", path], ["draw_little.py", path],
                            ["draw_memories.py", path], ["draw_banks.py", path], ["draw_overlap.py", path],
                            ["draw_crossing.py", path], ["draw_map.py", path], ["draw_registers.py", path],
                            ["rename_keys.py", keys, path],
                            ["rename_keys.py", path, self.sound], ["upgrade_results.py", path]):
                with self.subTest(" ".join(map(str, command))):
                    done = run(*command)
                    self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    self.assertIn(f"{path}: ", done.stderr)
                    yield done.stderr

        spoiled = self.spoiled(self.text.encode("latin-1"))
        for line in said(spoiled):
            self.assertIn("line 2 is not in UTF-8", line)
        self.assertEqual(spoiled.read_bytes(), self.text.encode("latin-1"))
        for line in said(self.folder / "missing.csv"):
            self.assertIn("No such file or directory", line)

    def test_there_is_one_reader(self):
        for path in TOOLS.glob("*.py"):
            if path.name not in ("records.py", pathlib.Path(__file__).name):
                self.assertNotRegex(path.read_text(encoding="utf-8"), r"csv\.(DictR|r)eader", path.name)

    def test_a_closed_or_full_standard_output_is_a_line(self):
        for output, said in (("/dev/full", "No space left on device"),):
            with open(output, "w") as full:
                done = subprocess.run([sys.executable, TOOLS / "summary.py", self.sound], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, done.stderr), (1, f"summary.py: standard output: {said}\n"))
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([sys.executable, TOOLS / "summary.py", self.sound], stdout=write, stderr=subprocess.PIPE, text=True)
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (1, "summary.py: standard output: Broken pipe\n"))


class OldPython(unittest.TestCase):
    def test_no_tool_is_written_in_a_newer_language(self):
        for path in TOOLS.glob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), path.name, feature_version=records.OLDEST)


class Verdicts(InFolder):
    def test_verdicts_are_counted_and_what_does_not_hold_is_named_in_order(self):
        saved = self.save("r.csv", claim("04.10", "does not hold", at="0.9x"), claim("04.2b", "does not hold"),
                          claim("04.2a", "too close to call"), claim("04.8", "holds, stronger"))
        done = run("summary.py", saved)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 claims in 4 parts on Some GPU", done.stdout)
        heading, counts = done.stdout.splitlines()[1:3]
        self.assertEqual(re.split(r"\s{2,}", heading.strip()), ["holds, stronger", "too close to call", "does not hold"])
        self.assertEqual(counts.split(), ["04_bandwidth", "1", "1", "2"])
        gone = done.stdout.partition("does not hold:\n")[2].splitlines()
        self.assertEqual([line.split()[0] for line in gone], ["04.2b", "04.10"])

    def test_what_holds_by_construction_has_a_dagger_and_a_count_of_its_own(self):
        done = run("summary.py", self.save("r.csv", claim("04.1", "does not hold", words="by construction"),
                                           claim("04.2", "no longer"), claim("04.3", "depends")))
        lines = done.stdout.splitlines()
        self.assertEqual(re.split(r"\s{2,}", lines[1].strip()), ["depends", "no longer", "by construction"])
        self.assertEqual(lines[2].split(), ["04_bandwidth", "1", "1", "1"])
        self.assertIn("by construction (\u2020): cannot come out otherwise on any GPU; counted apart", lines)
        self.assertEqual([line.split()[0] for line in lines[5:]], ["does", "04.1", "no", "04.2", "depends:", "04.3"])
        self.assertIn("  04.1 \u2020", lines[6])

    def test_an_unknown_verdict_is_named(self):
        done = run("summary.py", self.save("r.csv", claim("04.1", "perhaps")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("'perhaps' of 04.1 is no verdict", done.stderr)

    def test_every_verdict_has_a_colour_of_its_own(self):
        self.assertEqual(list(tiles.COLOURS), records.VERDICTS)
        self.assertEqual(len(set(tiles.COLOURS.values())), len(records.VERDICTS))


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

    def test_what_machine_it_was_is_no_row_and_no_experiment(self):
        found = [record(experiment="", case="device", kind="machine", metric="SM clock", unit="ms", value=4),
                 record(case="device", kind="machine", metric="power after", unit="ms", value=4),
                 timed("a", "measured", 1)]
        counts = summary.count_predictions([self.save("r.csv", *found)])
        self.assertEqual({key: count.rows for key, count in counts.items()}, {("04_bandwidth", "sum"): 1})
        self.assertFalse(any(map(pages.in_tables, found[:2])))

    def test_what_repeats_a_calibration_is_counted_apart(self):
        count = self.count(timed("copy", "calibration", 2), timed("as the copy", "predicted", 2.0001),
                           timed("as the copy", "measured", 3), timed("near it", "predicted", 2.001),
                           timed("near it", "measured", 3))
        self.assertEqual((count.rows, count.repeated, len(count.ratios)), (2, 1, 1))

    def test_a_calibration_of_another_metric_or_experiment_is_not_repeated(self):
        count = self.count(record(case="c", kind="calibration", metric="latency", unit="cycles", value=1),
                           timed("d", "calibration", 1, experiment="peak"), timed("a", "predicted", 1),
                           timed("a", "measured", 1))
        self.assertEqual((count.repeated, len(count.ratios)), (0, 1))

    def test_the_kind_of_model_is_what_the_experiment_says_or_follows_from_its_rows(self):
        row = [timed("a", "predicted", 1), timed("a", "measured", 1)]
        model = record(case="sum", kind="model", metric="fitted")
        self.assertEqual(self.count(*row).model(), "from the device")
        self.assertEqual(self.count(*row, timed("c", "calibration", 3)).model(), "calibrated")
        self.assertEqual(self.count(*row, model).model(), "fitted")
        self.assertEqual(self.count(*row, timed("c", "calibration", 3), {**model, "metric": "from the device"}).model(),
                         "from the device")
        done = run("summary.py", "--predictions", self.save("r.csv", {**model, "metric": "guessed"}))
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertIn("'guessed' of sum is no kind of model", done.stderr)

    def test_a_model_with_as_many_constants_as_rows_is_named(self):
        rows = [timed(name, kind, value) for name in ("a", "b") for kind, value in (("predicted", 1), ("measured", 1))]
        constants = [timed("c", "calibration", 3), timed("d", "calibration", 4)]
        done = run("summary.py", "--predictions", self.save("r.csv", *rows, *constants))
        self.assertIn("as many constants as rows: 04_bandwidth sum: 2 calibrated, 2 predicted\n", done.stdout)
        done = run("summary.py", "--predictions", self.save("r.csv", *rows, constants[0]))
        self.assertNotIn("as many constants", done.stdout)

    def test_counts_and_shares_are_no_rows(self):
        count = self.count(record(case="a", kind="measured", metric="sectors", unit="", value=4),
                           record(case="b", kind="measured", metric="share", unit="%", value=4),
                           record(case="c", kind="counted", metric="time", unit="ms", value=4))
        self.assertEqual(count.rows, 0)
        self.assertTrue(all(map(summary.in_time_cycles_or_rate, ["ms", "us", "ns", "s", "cycles", "GB/s", "keys/s"])))
        self.assertFalse(any(map(summary.in_time_cycles_or_rate, ["", "%", "x", "KiB", "warps", "GB", "ms/GiB"])))

    def test_the_table_has_a_line_for_each_experiment_and_totals(self):
        one = self.save("1.csv", timed("a", "predicted", 1), timed("a", "measured", 1.2), timed("b", "measured", 1),
                        timed("c", "calibration", 7))
        two = self.save("2.csv", timed("a", "measured", 2, experiment="peak"),
                        timed("a", "predicted", 1, experiment="peak"))
        done = run("summary.py", "--predictions", one, two)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [re.split(r"\s{2,}", line.strip().replace("% ", "%  ")) for line in done.stdout.splitlines()[3:]]
        lines = [" ".join(line).split() for line in lines]
        self.assertEqual(lines, [
            ["04_bandwidth", "sum", "calibrated", "2", "1", "0", "0%", "1", "100%", "1", "100%", "-", "1"],
            ["04_bandwidth", "peak", "from", "the", "device", "1", "1", "0", "0%", "0", "0%", "0", "0%", "-", "-"],
            ["all", "from", "the", "device", "1", "1", "0", "0%", "0", "0%", "0", "0%", "-", "-"],
            ["all", "calibrated", "2", "1", "0", "0%", "1", "100%", "1", "100%", "-", "1"],
            ["all", "3", "2", "0", "0%", "1", "50%", "1", "50%", "-", "1"],
            "as many constants as rows: 04_bandwidth sum: 1 calibrated, 1 predicted".split()])


class Figure(unittest.TestCase):
    def topics(self):
        long = "a statement that goes on and on, " * 12
        word = "one_word_that_is_much_longer_than_any_tile_is_wide_whatever_the_font"
        unlike = [claim(f"01.{n}", verdict, parameter=long[:20 * n], value=10.0**n, unit="x")
                  for n, verdict in enumerate(records.VERDICTS, 1)]
        parts = [claim(f"02.1{letter}", "too close to call", parameter=f"short {letter}") for letter in "abcdefghijk"]
        return {"01_memory_model": unlike, "02_memory_management": parts,
                "03_access_patterns": [claim("03.1", "not judged", parameter=word),
                                       claim("03.2", "does not hold", parameter=long, words="by construction")]}

    def test_topics_fill_the_rows(self):
        rows = tiles.arrange({"a": range(5), "b": range(3), "c": range(10)})
        self.assertEqual([len(row) for row in rows], [6, 6, 6])
        heads = [(k, column, topic) for k, row in enumerate(rows) for column, (_, topic) in enumerate(row) if topic]
        self.assertEqual(heads, [(0, 0, "a"), (0, 5, "b"), (1, 2, "c")])

    def test_no_text_leaves_its_tile_or_meets_another(self):
        drawn = xml.etree.ElementTree.fromstring(tiles.draw(self.topics(), "a title " * 40))
        svg = "{http://www.w3.org/2000/svg}"
        drawn_tiles = drawn.findall(f"{svg}g")
        self.assertEqual(len(drawn_tiles), 13 + len(records.VERDICTS))
        edges = []
        for tile in drawn_tiles:
            edge = {name: float(tile.find(f"{svg}rect").get(name)) for name in ("x", "y", "width", "height")}
            edges.append((edge["x"], edge["y"]))
            boxes = []
            for text in tile.findall(f"{svg}text"):
                size, x, y = (float(text.get(name)) for name in ("font-size", "x", "y"))
                wide = tiles.width(text.text, size, text.get("font-weight") == "bold")
                x -= wide if text.get("text-anchor") == "end" else 0
                boxes.append((x, y - 0.75 * size, x + wide, y + 0.25 * size))
                with self.subTest(text=text.text):
                    self.assertGreaterEqual(x + 0.1, edge["x"])
                    self.assertLessEqual(x + wide, edge["x"] + edge["width"] + 0.1)
                    self.assertGreaterEqual(boxes[-1][1], edge["y"])
                    self.assertLessEqual(boxes[-1][3], edge["y"] + edge["height"])
            self.assertLess(boxes[0][2], boxes[1][0], "id and verdict")
            for above, below in zip(boxes[1:], boxes[2:]):
                self.assertLess(above[3], below[1] + 1, "lines one below the other")
        self.assertEqual(len(set(edges)), len(drawn_tiles))
        title = next(text for text in drawn.findall(f"{svg}text"))
        self.assertLess(tiles.width(title.text, float(title.get("font-size"))), float(drawn.get("width")))

    def test_a_word_that_is_too_long_is_cut_and_others_are_not(self):
        self.assertEqual(tiles.wrapped("two words", 1000, 10), (["two words"], 10))
        self.assertTrue(tiles.wrapped("x" * 200, 100, 10)[0][0].endswith("x..."))

    def test_the_figure_is_written_and_has_every_part(self):
        with tempfile.TemporaryDirectory() as folder:
            saved, drawn = pathlib.Path(folder) / "r.csv", pathlib.Path(folder) / "tiles.svg"
            save(saved, [claim("04.2a", "holds, weaker", at="3.1x slower (3 to 4)", value=3.1, unit="x", parameter="a < b"),
                         claim("04.8", "holds")])
            self.assertEqual(run("summary.py", "--figure", drawn, saved).returncode, 0)
            texts = [element.text for element in xml.etree.ElementTree.parse(drawn).iter() if element.text]
            for text in ("04.2a", "holds, weaker", "a < b", "here 3.1x slower", "holds: 1", "04_bandwidth"):
                self.assertIn(text, texts)
            self.assertEqual(run("summary.py", "--figure", "tiles.txt", saved).returncode, 2)


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

    def test_another_order_than_announced_is_refused(self):
        for rows, said in (('"1","read<int>","1","8"\n"0","read<int>","1","2"\n', "its IDs do not rise"),
                           ('"0","read<int>","1","8"\n"0","read<int>","1","2"\n', "its IDs do not rise"),
                           ('"0","write","1","8"\n"1","read","1","2"\n', "2 launches were announced and 1 counted"),
                           ('"0","read","1","8"\n', "2 launches were announced and 1 counted"),
                           ('"0","read","1"\n"1","read","1","2"\n', "line 3 has not one cell for each column"),
                           ('"x","read","1","8"\n"1","read","1","2"\n', "'x' is no launch's ID")):
            with self.subTest(said):
                counted = self.counted.rpartition('"0"')[0] + rows
                done = run("counters.py", input="launch: read,stride 2\nlaunch: read,stride 8\n" + counted)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(said, done.stderr)

    def test_kernels_that_were_counted_in_another_order_than_announced_are_refused(self):
        rows = '"0","write","1","8"\n"1","read","1","2"\n'
        counted = self.counted.rpartition('"0"')[0] + rows
        done = run("counters.py", input="launch: read,stride 2\nlaunch: write,stride 8\n" + counted)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("read was announced where write was counted", done.stderr)

    def test_what_is_no_output_of_ncu_is_a_line(self):
        for text, said in (("", "no launch was announced"), (self.launch, "1 launches were announced and none counted"),
                           ("launch: read\n" + self.counted, "'KERNEL,PARAMETER', not as 'read'"),
                           (self.launch + '"==ERROR== no permission"\n', "it has not one column 'ID'")):
            with self.subTest(said):
                done = run("counters.py", input=text)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(said, done.stderr)

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

    def test_what_holds_by_construction_has_a_dagger(self):
        lines = self.rewritten("<!-- claims: -->", claim("04.1", "holds", at="computed", words="by construction"))
        self.assertEqual(lines[2], "| 04.1 | what 04.1 says |  | computed | **holds** \u2020 |")

    def test_words_stand_for_keys_and_the_markers_words_before_them(self):
        found = [timed("copy_engine", "calibration", 1, words="copy engine"), timed("sort", "measured", 2)]
        self.assertEqual(self.rewritten("<!-- table: sum | time -->", *found)[2:4], ["| copy engine | 1 |", "| sort | 2 |"])
        marker = "<!-- table: sum | time | copy_engine = the driver's copy; sort = a sort -->"
        self.assertEqual(self.rewritten(marker, *found)[2:4], ["| the driver's copy | 1 |", "| a sort | 2 |"])

    def test_the_machine_models_and_ratios_are_no_rows(self):
        others = [record(case="a", kind="ratio", metric="time over that of b", unit="x", value=2),
                  record(case="clocks", kind="machine", metric="SM clock", unit="MHz", value=1980),
                  record(case="sum", kind="model", metric="fitted")]
        lines = self.rewritten("<!-- table: sum -->", timed("a", "measured", 1), *others)
        self.assertEqual(lines[:3], ["|  | time (ms) |", "|---|---:|", "| a | 1 |"])

    def test_findings_are_a_list(self):
        found = [record(case="04.1", kind="finding", metric="finding", at="one"),
                 record(case="04.2a", kind="finding", metric="finding", at="two"),
                 record(case="04.3", kind="finding", metric="finding", at="x", experiment="peak")]
        lines = self.rewritten("<!-- findings: sum -->", *found)
        self.assertEqual(lines, ["- 04.1: one", "- 04.2a: two"])

    def test_claims_that_are_not_held_in_the_order_of_their_ids(self):
        found = [claim("04.10", "no longer", parameter="b"), claim("04.2a", "depends", parameter="a"),
                 claim("04.3", "holds"), claim("04.4", "holds, weaker"), claim("04.5", "not judged")]
        lines = self.rewritten("<!-- not held: -->", *found)
        self.assertEqual(lines, ["|  | claim | verdict |", "|---|---|---|", "| 04.2a | a | depends |",
                                 "| 04.10 | b | no longer |"])

    def test_bars_are_as_long_as_their_values(self):
        found = [record(case="slow", kind="measured", metric="rate", value=10),
                 record(case="fast", at="32", kind="measured", metric="rate", value=40)]
        lines = self.rewritten("<!-- bars: sum | rate | .0f GB/s | slow = by columns; fast @ 32 = by rows -->", *found)
        self.assertEqual(lines, ["```text", "by columns  " + "\u2588" * 8 + " " * 24 + "     10 GB/s",
                                 "by rows     " + "\u2588" * 32 + "     40 GB/s", "```"])

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

    def test_claims_that_are_newer_than_the_results_are_named_on_the_page_and_no_others(self):
        self.write("04_bandwidth/a.cu", 'Part a{"04.1"}, b{"04.2a"}, c{"04.3"};')
        self.save("04_bandwidth/results/x.csv", claim("04.1", "holds"))
        page = self.write("README.md", "<!-- results: 0?_*/results/x.csv -->\n\nNot measured yet: 04.1, 04.2a. Soon.\n")
        self.assertEqual(pages.unjudged(page), ["04.1", "04.3"])


class ThenAndNow(InFolder):
    def reported(self, part, at):
        return record(case=part, kind="then", metric="reported", parameter="8800 GTX", at=at)

    def test_factors_are_read_from_what_a_text_reports(self):
        for text, both in [("77x slower", (77, 77)), ("100-150x slower", (100, 150)), ("3 to 4 times", (3, 4)),
                           ("roughly 10x slower", (10, 10)), ("24 to 3 groups", (8, 8)), ("82%, 70.5 GB/s", None),
                           ("faster, no figure", None), ("1, 2, 4 segments", None), ("", None)]:
            self.assertEqual(draw_then_now.factors(text), both, text)

    def test_a_line_for_each_claim_with_a_factor_in_both(self):
        found = [claim("04.2a", "holds, weaker", unit="x", value=3), self.reported("04.2a", "77x slower"),
                 claim("04.3", "no longer", unit="x", value=0.5), self.reported("04.3", "1.8x slower"),
                 claim("04.4", "holds", unit="x", value=2), self.reported("04.4", "faster, no figure"),
                 claim("04.5", "holds", value=1), self.reported("04.5", "2x slower"),
                 claim("04.6", "not judged", unit="x", value=2), self.reported("04.6", "2x slower")]
        self.assertEqual([one["case"] for one, _ in draw_then_now.compared(found)], ["04.2a", "04.3"])
        drawn = xml.etree.ElementTree.fromstring(draw_then_now.draw(found))
        svg = "{http://www.w3.org/2000/svg}"
        circles = [(float(c.get("cx")), c.get("fill")) for c in drawn.findall(f"{svg}circle")]
        weaker, longer = tiles.COLOURS["holds, weaker"], tiles.COLOURS["no longer"]
        self.assertEqual([fill for _, fill in circles], ["white", weaker, "white", longer])
        equal = draw_then_now.place(1)
        self.assertEqual([place > equal for place, _ in circles], [True, True, True, False])
        self.assertGreater(circles[0][0], circles[1][0])

    def test_the_tool_reads_files_by_a_pattern_and_says_where_there_is_nothing_to_draw(self):
        self.save("04_bandwidth/results/x.csv", claim("04.2a", "holds", unit="x", value=3), self.reported("04.2a", "77x slower"))
        done = run("draw_then_now.py", self.folder / "0?_*/results/x.csv", "-o", self.folder / "drawn.svg")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("what 04.2a says", (self.folder / "drawn.svg").read_text(encoding="utf-8"))
        self.save("none.csv", claim("04.2a", "holds"))
        done = run("draw_then_now.py", self.folder / "none.csv", "-o", self.folder / "none.svg")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertFalse((self.folder / "none.svg").exists())


class Gpus(InFolder):
    def setUp(self):
        super().setUp()
        other = {"gpu": "Other GPU", "cc": "7.5"}
        then = record(case="04.2a", kind="then", metric="reported", parameter="8800 GTX", at="77x")
        self.save("04_bandwidth/results/some-gpu.csv", claim("04.10", "holds"), claim("04.2a", "holds, weaker"), then)
        self.save("04_bandwidth/results/other-gpu.csv", claim("04.10", "not judged", **other),
                  claim("04.2a", "holds", at="5.0x slower (4 to 6)", value=5, low=4, high=6, unit="x", **other))
        self.save("05_unified_memory/results/some-gpu.csv", claim("05.1", "holds", topic="05_unified_memory"))

    def page(self):
        return self.write("tools/gpus.md", """\
            <!-- gpus: ../0?_*/results/*.csv -->
            <!-- end -->
            <!-- verdicts: ../0?_*/results/*.csv -->
            <!-- end -->
            """)

    def test_all_verdicts_by_gpu_with_what_was_not_run(self):
        page = self.page()
        done = run("pages.py", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = page.read_text(encoding="utf-8").splitlines()
        self.assertEqual(lines[3:5], [
            "| Other GPU | 7.5 | 13.0 | 13.0 | 2026-11-20 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 0 | `05_unified_memory` |",
            "| Some GPU | 9.0 | 13.0 | 13.0 | 2026-11-20 | 2 | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | - |"])
        self.assertEqual(lines[7:], [
            "|  | claim | then | Other GPU | Some GPU |", "|---|---|---|---|---|",
            "| **04.2a** | what 04.2a says | 77x (8800 GTX) | **holds: 5.0x slower (4 to 6)** | **holds, weaker** |",
            "| 04.10 | what 04.10 says |  | not judged | holds |",
            "| 05.1 | what 05.1 says |  |  | holds |", "",
            "2 of 3 parts were run on more than one GPU; on 1 of these (in bold) their verdicts differ.",
            "<!-- end -->"])

    def test_a_new_file_fails_the_check(self):
        page = self.page()
        run("pages.py", page)
        self.assertEqual(run("pages.py", "--check", page).returncode, 0)
        self.save("05_unified_memory/results/other-gpu.csv",
                  claim("05.1", "does not hold", topic="05_unified_memory", gpu="Other GPU"))
        done = run("pages.py", "--check", page)
        self.assertEqual(done.returncode, 1)
        self.assertIn("+| **05.1** | what 05.1 says |  | **does not hold** | **holds** |", done.stdout)

    def test_no_results_at_all_are_an_error(self):
        page = self.write("empty/gpus.md", "<!-- verdicts: 0?_*/*.csv -->\n<!-- end -->\n")
        done = run("pages.py", page)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no GPU has results in 0?_*/*.csv", done.stderr)


@unittest.skipUnless(shutil.which("cmake") and os.name == "posix", "no cmake")
class Profile(InFolder):
    """cmake/profile.cmake, with a sample that says it has been counted already."""
    metrics = [f"l1tex__{name}_{op}.sum" for op in ("ld", "st")
               for name in ("t_requests_pipe_lsu_mem_global_op", "t_sectors_pipe_lsu_mem_global_op",
                            "data_pipe_lsu_wavefronts_mem_shared_op")]

    def profiled(self, compared):
        """What the script ends with if the sample's comparison is this line of shell."""
        sample = self.write("some_topic", f"""\
            #!/bin/sh
            case "$*" in
              "--list-test-cases --device 99") exit 2 ;;  # there is a GPU
              "--list-test-cases") echo "a: profile launches" ;;
              "--test-case=*profile launches") exit 0 ;;  # launches nothing
              *"--list-test-cases") exit 0 ;;  # the counters are those of this program
              *) {compared} ;;
            esac
            """)
        os.chmod(sample, 0o755)
        self.write("profile/some_topic-counters.csv", "".join(f"read,stride 1,{metric},4\n" for metric in self.metrics))
        return self.script()

    def script(self):
        return subprocess.run(["cmake", f"-DSAMPLE={self.folder / 'some_topic'}", f"-DNCU={sys.executable}",
                               f"-DPYTHON={sys.executable}", "-P", TOOLS.parent / "cmake/profile.cmake"],
                              capture_output=True, text=True)

    def test_a_sample_that_launches_nothing_to_be_counted_is_skipped(self):
        self.profiled("exit 0")  # makes the sample
        (self.folder / "profile/some_topic-counters.csv").unlink()
        done = self.script()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("skipped: some_topic predicts nothing", done.stderr)

    def test_counts_that_equal_the_model_pass_and_nothing_compared_fails(self):
        for compared, code in (("echo '  read  stride 1  sectors  4  4'", 0), ("echo nothing", 1),
                               ("echo '  read  stride 1  sectors  4  5'; exit 1", 1)):
            done = self.profiled(compared)
            self.assertEqual(done.returncode, code, compared + done.stdout + done.stderr)
            self.assertIn("1 counts" if "read" in compared else "0 counts", done.stderr)


class Compare(InFolder):
    def compare(self, one, other, *options):
        return run("compare.py", *options, self.save("a.csv", *one), self.save("b.csv", *other))

    def test_rows_whose_ranges_do_not_meet(self):
        one = [timed("same", "measured", 1, low=0.9, high=1.1), timed("slower", "measured", 1, low=0.9, high=1.1),
               timed("much", "calibration", 1, low=0.99, high=1.01), timed("near", "measured", 1, low=1, high=1),
               timed("bare", "measured", 1), timed("model", "predicted", 1), timed("gone", "measured", 1, low=1, high=1)]
        other = [timed("same", "measured", 1.15, low=1.05, high=1.2), timed("slower", "measured", 2, low=1.9, high=2.1),
                 timed("much", "measured", 0.1, low=0.09, high=0.11), timed("near", "measured", 1.015, low=1.015, high=1.015),
                 timed("bare", "measured", 9), timed("model", "predicted", 9)]
        done = self.compare(one, other)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.splitlines()[3:], [
            "2 of 4 rows differ:",
            "  sum: much, time: 1.000 (0.9900 to 1.010) -> 0.1000 (0.09000 to 0.1100) ms  0.100x",
            "  sum: slower, time: 1.000 (0.9000 to 1.100) -> 2.000 (1.900 to 2.100) ms  2.00x",
            "  only in A: sum 1"])

    def test_of_a_measured_value_a_run_cannot_see_a_hundredth(self):
        for kind in ("measured", "calibration"):
            for value, differ in ((1.019, 0), (1.021, 1)):  # 1.01 and 0.99 times 1.02 meet
                found = [timed("a", kind, one, low=one, high=one) for one in (1, value)]
                self.assertEqual(self.compare(found[:1], found[1:]).returncode, differ, f"{kind} {value}")

    def test_counts_are_exact(self):
        counts = [record(case="a", kind="counted", metric="blocks", value=value) for value in (1000, 1001)]
        self.assertIn("1 of 1 rows differ", self.compare(counts[:1], counts[1:]).stdout)
        self.assertEqual(self.compare(counts[:1], counts[:1]).returncode, 0)

    def test_parts_differ_by_verdict_or_by_range(self):
        def part(name, verdict, value):
            return claim(name, verdict, value=value, low=0.97 * value, high=1.03 * value, unit="x")

        one = [part("04.1", "holds", 2), part("04.2", "holds", 2), part("04.3", "too close to call", 1.02),
               claim("04.4", "holds", at="a fact", value=1, low=1, high=1), part("04.5", "holds", 2)]
        other = [part("04.1", "holds", 2.05), part("04.2", "holds", 3), part("04.3", "holds", 1.04),
                 claim("04.4", "does not hold", at="no fact", value=0, low=0, high=0)]
        done = self.compare(one, other, "--parts")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.splitlines()[2:], [
            "3 of 4 parts differ:", "  04.2  what 04.2 says", "    A  holds: 2.00x (1.94 to 2.06)",
            "    B  holds: 3.00x (2.91 to 3.09)", "  04.3  what 04.3 says", "    A  too close to call: 1.02x (0.989 to 1.05)",
            "    B  holds: 1.04x (1.01 to 1.07)", "  04.4  what 04.4 says", "    A  holds: a fact",
            "    B  does not hold: no fact", "  only in A: 04.5 1"])

    def test_ratios_are_compared_and_the_machine_is_not(self):
        def found(value, clock):
            ratio = record(case="a", kind="ratio", metric="time over that of b", unit="x", value=value, low=value - 0.1,
                           high=value + 0.1)
            return [ratio, record(case="clocks", kind="machine", metric="SM clock", unit="MHz", value=clock, low=clock,
                                  high=clock)]

        done = self.compare(found(2, 1980), found(3, 1000))
        self.assertIn("1 of 1 rows differ:\n  sum: a, time over that of b: 2.000 (1.900 to 2.100) -> 3.000 (2.900 to 3.100) x",
                      done.stdout)

    def test_many_rows_are_cut_unless_all_are_asked_for(self):
        rows = [[timed(f"row {n}", "measured", value, low=value, high=value) for n in range(30)] for value in (1, 2)]
        self.assertTrue(self.compare(*rows).stdout.endswith("and 5 that differ less: --all shows them\n"))
        self.assertEqual(self.compare(*rows, "--all").stdout.count("row "), 30)

    def test_wrong_command_lines_and_files(self):
        one = self.save("a.csv", timed("a", "measured", 1))
        other = self.save("b.csv", timed("a", "measured", 1, topic="05_unified_memory"))
        for wrong in ([one], [one, other], ["--rows", one, one]):
            self.assertEqual(run("compare.py", *wrong).returncode, 2)
        done = run("compare.py", one, self.folder / "missing.csv")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertIn("missing.csv", done.stderr)


class Drawing(unittest.TestCase):
    def test_a_smaller_svg_is_the_same_picture(self):
        import drawing

        svg = """<svg><metadata>who</metadata>
          <g id="line2d_12"><!-- words --><path id="DejaVuSans-31" d="M 1.23456 2
        L 3.999 4 " transform="scale(0.015625)"/></g><use x="9.87654" xlink:href="#DejaVuSans-31"/></svg>"""
        self.assertEqual(drawing.smaller(svg).replace("\n", ""), '<svg><g><!-- words --><path id="DejaVuSans-31" '
                         'd="M 1.23 2 L 4 4" transform="scale(0.015625)"/></g>'
                         '<use x="9.88" xlink:href="#DejaVuSans-31"/></svg>')

    def test_the_band_of_a_dense_curve_keeps_its_extremes(self):
        import drawing

        points = [(float(n), 5.0, 4.0 - (n == 777), 6.0 + (n == 1234)) for n in range(1, 2049)]
        band = drawing.outline(points, float)
        self.assertEqual(len(band), drawing.MOST_POINTS)
        self.assertEqual((min(low for _, low, _ in band), max(high for _, _, high in band)), (3.0, 7.0))
        self.assertEqual(drawing.outline(points[:9], float), [(x, low, high) for x, _, low, high in points[:9]])

    def test_no_figure_of_the_repository_is_larger_than_100_kb(self):
        large = {path.name: path.stat().st_size for path in TOOLS.parent.glob("*/**/*.svg")
                 if path.relative_to(TOOLS.parent).parts[0][0] in "0t" and path.stat().st_size > 100_000}
        self.assertEqual(large, {})


class Thin(InFolder):
    def test_steps_and_peaks_stay_and_lines_go(self):
        def rate(n):
            return 100 * n if n < 50 else 1000 + 500 * (n == 70) + 0.001 * n

        sweep = [r for n in range(1, 101) for r in (
            record(case="a", kind="measured", metric="rate", unit="GB/s", parameter="n", at=n, value=rate(n)),
            record(case="a", kind="predicted", metric="rounds", parameter="n", at=n, value=1))]
        full = self.save("full.csv", *sweep, claim("04.1", "holds"), timed("of no sweep", "measured", 1))
        done = run("thin.py", full, "--metric", "rate", "--at", 7, "-o", self.folder / "thin.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = records.load(self.folder / "thin.csv")
        rates = [int(r["at"]) for r in found if r["metric"] == "rate"]
        self.assertEqual(rates, [1, 7, 49, 50, 69, 70, 71, 100])
        self.assertEqual([r["at"] for r in found if r["metric"] == "rounds"], ["7"])
        self.assertEqual([r["case"] for r in found][-2:], ["04.1", "of no sweep"])
        self.assertEqual(found[0], records.load(full)[0])

    def test_a_point_stays_from_half_a_hundredth_off_the_line_on(self):
        for off, stays in ((0.996, False), (0.994, True)):
            sweep = [record(case="a", kind="measured", metric="rate", unit="GB/s", parameter="n", at=n, value=value)
                     for n, value in ((1, 100), (2, 100 * off), (3, 100))]
            run("thin.py", self.save("full.csv", *sweep), "--metric", "rate", "-o", self.folder / "thin.csv")
            self.assertEqual(len(records.load(self.folder / "thin.csv")), 2 + stays, off)

    def test_an_unknown_metric_is_named(self):
        full = self.save("full.csv", timed("a", "measured", 1))
        done = run("thin.py", full, "--metric", "rate", "-o", self.folder / "thin.csv")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertFalse((self.folder / "thin.csv").exists())


class Banks(InFolder):
    def lanes(self, name, metric, words, value):
        return record(topic="06_shared_reduce", experiment="bank_steps", case=name, parameter="lanes of warp 0",
                      at=words, kind="predicted", metric=metric, value=value)

    def step(self, name, left, right, of_bank, wavefronts):
        return [self.lanes(name, "left words", left, wavefronts), self.lanes(name, "right words", right, wavefronts),
                self.lanes(name, "words of the lane's bank", of_bank, wavefronts)]

    def banks(self):
        return record(topic="06_shared_reduce", experiment="bank_steps", case="shared_memory", kind="predicted",
                      metric="banks", value=4)

    def draw(self, *found):
        return run("draw_banks.py", self.save("r.csv", *found), "-o", self.folder / "banks.svg")

    def test_what_was_saved_is_drawn_and_said(self):
        # of a GPU with 4 banks, and numbers that no rule would give: the tool has none of its own
        done = self.draw(self.banks(), *self.step("up_step_1_stride_1", "0 9 - -", "1 5 - -", "2 1 - -", 7),
                         *self.step("down_step_1_stride_2", "0 1 2 3", "4 5 6 7", "1 1 1 1", 1))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), ["up, step 1, stride 1: 2 lanes, 7-way conflict",
                                                    "down, step 1, stride 2: 4 lanes, no conflict"])
        drawn = [element.text or "" for element in xml.etree.ElementTree.parse(self.folder / "banks.svg").iter()]
        for text in ("12 words in 4 banks", *done.stdout.splitlines(), "one of 2 that its bank must give"):
            self.assertTrue(any(words.startswith(text) for words in drawn), text)

    def test_a_file_without_lanes_or_with_a_part_of_them_is_named(self):
        for found in ([timed("a", "measured", 1)], [self.banks()],
                      [self.banks(), self.lanes("up_step_1_stride_1", "left words", "0 1", 1)]):
            done = self.draw(*found)
            self.assertEqual(done.returncode, 1)
            self.assertIn("r.csv has no lanes of bank_steps", done.stderr)

    def test_wrong_command_lines(self):
        saved = self.save("r.csv", self.banks())
        self.assertEqual(run("draw_banks.py").returncode, 2)
        self.assertEqual(run("draw_banks.py", saved, "-o", "banks.txt").returncode, 2)


class Overlap(InFolder):
    """The timelines of 02's pipeline."""

    def span(self, stage, chunks, chunk, start, end):
        of = {"topic": "02_memory_management", "experiment": "overlap", "case": f"{stage}_of_{chunks}", "parameter": "chunk",
              "at": chunk, "unit": "ms"}
        return [record(kind="measured", metric="start", value=start, **of), record(kind="measured", metric="end", value=end, **of),
                record(kind="predicted", metric="end", value=end + 0.5, **of)]

    def found(self):
        spans = [("copy_in", 1, 0, 0, 4), ("hash", 1, 0, 4, 6), ("copy_out", 1, 0, 6, 10), ("copy_in", 2, 0, 0, 2),
                 ("hash", 2, 0, 2, 3), ("copy_out", 2, 0, 3, 5), ("copy_in", 2, 1, 2, 4), ("hash", 2, 1, 4, 5), ("copy_out", 2, 1, 5, 7)]
        return [r for span in spans for r in self.span(*span)]

    def test_each_number_of_chunks_is_a_panel_over_one_axis(self):
        done = run("draw_overlap.py", self.save("r.csv", *self.found()), "-o", self.folder / "overlap.svg")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), ["1 chunk: 10.00 ms, predicted 10.50 ms", "2 chunks: 7.00 ms, predicted 7.50 ms"])
        import draw_overlap
        elements = list(xml.etree.ElementTree.parse(self.folder / "overlap.svg").iter())
        boxes = [e for e in elements if e.tag.endswith("rect") and e.get("y")]
        self.assertEqual(len(boxes), 9)
        for box, (start, end) in zip(boxes[:3], ((0, 4), (4, 6), (6, 10))):  # of one chunk; the axis ends at 10.5 ms
            self.assertAlmostEqual(float(box.get("x")), start / 10.5 * draw_overlap.WIDE, delta=0.1)
            self.assertAlmostEqual(float(box.get("width")), (end - start) / 10.5 * draw_overlap.WIDE, delta=0.1)
        said = [e.text for e in elements if e.text]
        for words in ("copy in", "kernel", "copy out", "2 chunks: 7.00 ms, predicted 7.50 ms", "10"):
            self.assertIn(words, said)

    def test_a_part_of_a_timeline_is_none(self):
        for found in ([timed("a", "measured", 1)], self.found()[3:9]):
            done = run("draw_overlap.py", self.save("r.csv", *found), "-o", self.folder / "overlap.svg")
            self.assertEqual(done.returncode, 1)
            self.assertIn("r.csv has no timeline of overlap", done.stderr)
        self.assertEqual(run("draw_overlap.py").returncode, 2)
        self.assertEqual(run("draw_overlap.py", self.save("r.csv", *self.found()), "-o", "overlap.png").returncode, 2)


class Crossing(InFolder):
    """The bars of 02's first screen."""

    def found(self):
        def rate(experiment, case, at, value, metric):
            return record(topic="02_memory_management", experiment=experiment, case=case, at=at, kind="measured", metric=metric,
                          unit="GB/s", value=value)
        return [rate("transfer", "pageable_to_device", 2 ** 26, 8, "bandwidth"), rate("transfer", "pinned_to_device", 2 ** 26, 50, "bandwidth"),
                rate("zero_copy", "read_in_place", 1, 40, "rate"), rate("zero_copy", "read_device", 1, 4000, "rate"),
                rate("zero_copy", "read_device", 8, 1, "rate"), rate("transfer", "pinned_to_device", 1024, 1, "bandwidth")]

    def test_a_bar_is_what_64_mib_take_at_the_rate(self):
        done = run("draw_crossing.py", self.save("r.csv", *self.found()), "-o", self.folder / "crossing.svg")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), [
            "copied from pageable memory: 8.39 ms (8 GB/s)", "copied from pinned memory: 1.34 ms (50 GB/s)",
            "zero-copy: a kernel reads it on the host: 1.68 ms (40 GB/s)", "a kernel reads it in device memory: 0.017 ms (4000 GB/s)"])
        drawn = [e for e in xml.etree.ElementTree.parse(self.folder / "crossing.svg").iter() if e.tag.endswith("rect") and e.get("x")]
        wide = [float(bar.get("width")) for bar in drawn]
        self.assertAlmostEqual(wide[0] / wide[1], 50 / 8, delta=0.02)

    def test_a_file_without_one_of_the_rates_is_named(self):
        done = run("draw_crossing.py", self.save("r.csv", *self.found()[:2]))
        self.assertEqual(done.returncode, 1)
        self.assertIn("r.csv has no rate of zero_copy read_in_place, zero_copy read_device", done.stderr)
        self.assertEqual(run("draw_crossing.py").returncode, 2)
        self.assertEqual(run("draw_crossing.py", self.save("r.csv", *self.found()), "-o", "crossing.txt").returncode, 2)


class Memories(InFolder):
    def size(self, name, value, unit, kind="counted"):
        return record(topic="01_memory_model", experiment="device", case=name, kind=kind, metric="this GPU", unit=unit,
                      value=value)

    def of_latency(self, name, metric, unit, value, kind="measured", **other):
        return record(topic="01_memory_model", experiment="latency", case=name, kind=kind, metric=metric, unit=unit,
                      value=value, **other)

    def found(self):
        return [self.size("multiprocessors", 7, ""), self.size("registers_per_multiprocessor", 256, "KiB"),
                self.size("constant_cache_per_multiprocessor", 8, "KiB", kind="predicted"),
                self.size("l2", 3072, "KiB"), self.of_latency("chase_l1", "latency", "cycles", 31.6, kind="calibration"),
                self.of_latency("chase_l1", "latency", "cycles", 99, at="1024", parameter="footprint"),
                self.of_latency("read_shared", "bandwidth", "GB/s", 1234, kind="predicted"),
                self.of_latency("read_shared", "bandwidth", "GB/s", 1100),
                self.of_latency("read_global", "bandwidth", "GB/s", 432)]

    def test_the_list_has_what_the_file_has(self):
        done = run("draw_memories.py", self.save("r.csv", *self.found()), "--list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "registers: 256 KiB", "shared memory: 1.1 TB/s", "L1: 32 cycles", "texture path: not measured",
            "constant cache: 8 KiB (guide)", "L2: 3 MiB", "device memory: 432 GB/s", "host memory: not measured"])

    def test_shared_memory_and_l1_are_one_array_and_the_constant_cache_is_what_was_measured(self):
        walks = [record(topic="01_memory_model", experiment="constant", case="walk_constant", kind="measured",
                        metric="latency", unit="cycles", value=value, parameter="bytes", at=at)
                 for at, value in (("1024", 30), ("2048", 31), ("4096", 98))]
        done = run("draw_memories.py", self.save("r.csv", *self.found(), *walks,
                   self.size("shared_per_multiprocessor", 100, "KiB"),
                   self.size("l1_per_multiprocessor", 128, "KiB", kind="predicted")), "--list")
        lines = done.stdout.splitlines()
        self.assertIn("shared memory: up to 100 KiB, 1.1 TB/s", lines)
        self.assertIn("L1: the rest of 128 KiB, 32 cycles", lines)
        self.assertIn("constant cache: 2 KiB", lines)
        all_hit = run("draw_memories.py", self.save("h.csv", *self.found(), *walks[:2]), "--list").stdout
        self.assertIn("constant cache: 8 KiB (guide)", all_hit)  # where no walk missed, its size is not known

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


class Registers(InFolder):
    """The figure of register budgets."""

    def budget(self, case, at, **values):
        return [record(topic="01_memory_model", experiment="registers", case=case, at=at, kind=kind, metric=metric.replace("_", " "),
                       value=value) for metric, (kind, value) in values.items()]

    @unittest.skipUnless(matplotlib, "matplotlib is missing")
    def test_the_budgets_that_were_saved_are_drawn(self):
        rows = [r for at, ms in (("32", 9), ("96", 1)) for r in
                self.budget("hash_within", at, time=("measured", ms), registers=("counted", at), resident_blocks=("counted", 5),
                            local_memory_per_thread=("counted", 8))]
        to_shared = self.budget("hash_to_shared", "6", time=("measured", 2), registers=("counted", 80))
        for name, found, is_there in (("a", rows, False), ("b", rows + to_shared, True)):
            page = self.write("README.md", f"<!-- figure: {name}.svg = {name}.csv draw_registers.py -->\n")
            self.save(f"{name}.csv", *found)
            self.assertEqual(run("figures.py", page).returncode, 0)
            self.assertEqual("<!-- spills go to" in (self.folder / f"{name}.svg").read_text(encoding="utf-8"), is_there)

    def test_a_file_without_budgets_and_wrong_command_lines(self):
        saved = self.save("r.csv", timed("a", "measured", 1))
        done = run("draw_registers.py", saved)
        self.assertEqual(done.returncode, 1)
        self.assertIn("r.csv has no budgets of registers", done.stderr)
        self.assertEqual(run("draw_registers.py", saved, "-o", "registers.txt").returncode, 2)


class Map(InFolder):
    """The figure of the L2's two sides, by multiprocessor."""

    def of(self, key, number, cycles):
        return record(topic="01_memory_model", experiment="latency", case=key, kind="counted", metric="latency", unit="cycles",
                      value=cycles, at=str(number))

    @unittest.skipUnless(matplotlib, "matplotlib is missing")
    def test_each_multiprocessor_that_was_saved_is_drawn(self):
        # number 1 is missing: a slice of a GPU
        found = [self.of("far_by_multiprocessor", 0, 70), self.of("far_by_multiprocessor", 2, 75),
                 self.of("near_by_multiprocessor", 10, 44), self.of("near_by_multiprocessor", 2, 41.6)]
        for name, rows, lines in (("map", found, ["near side: 2 multiprocessors, 42 to 44 cycles",
                                                  "far side: 2 multiprocessors, 70 to 75 cycles"]),
                                  ("one", found[2:], ["near side: 2 multiprocessors, 42 to 44 cycles"])):
            page = self.write("README.md", f"<!-- figure: {name}.svg = {name}.csv draw_map.py -->\n")
            saved = self.save(f"{name}.csv", *rows)
            self.assertEqual(run("figures.py", page).returncode, 0)
            drawn = (self.folder / f"{name}.svg").read_text(encoding="utf-8")
            self.assertEqual("<!-- far side" in drawn, len(lines) == 2)
            self.assertEqual(run("draw_map.py", saved, "-o", self.folder / "again.svg").stdout.splitlines(), lines)

    def test_a_file_without_a_map_and_wrong_command_lines(self):
        saved = self.save("r.csv", timed("a", "measured", 1))
        done = run("draw_map.py", saved)
        self.assertEqual(done.returncode, 1)
        self.assertIn("r.csv has no latencies by multiprocessor", done.stderr)
        self.assertEqual(run("draw_map.py").returncode, 2)
        self.assertEqual(run("draw_map.py", saved, "-o", "map.txt").returncode, 2)


class Little(InFolder):
    """The figure of Little's law, of two topics' files."""

    def setUp(self):
        super().setUp()
        machine = {"experiment": "", "case": "device", "kind": "machine"}
        swept = {"case": "read_sweep", "parameter": "blocks"}
        self.found = [record(metric="multiprocessors", value=100, **machine),
                      record(metric="threads of a multiprocessor", value=2048, **machine),
                      record(experiment="in_flight", case="chase", kind="measured", metric="latency", unit="ns", value=500)]
        for at, in_flight, rate in ((1, 200, 400), (2, 400, 790)):
            self.found += [record(experiment="in_flight", at=at, kind="counted", metric="bytes in flight", unit="KiB", value=in_flight, **swept),
                           record(experiment="in_flight", at=at, kind="measured", metric="rate", unit="GB/s", value=rate, **swept)]
        self.saved = self.save("04_bandwidth.csv", *self.found)
        self.save("03_access_patterns.csv", self.found[1], record(experiment="structs", case="read_x", kind="measured", metric="rate", value=300))
        self.dot = "03_access_patterns structs read_x | 16 | 0.5 | x of a struct"

    @unittest.skipUnless(matplotlib, "matplotlib is missing")
    def test_rows_of_sweeps_and_single_rows_are_drawn(self):
        drawn = self.folder / "little.svg"
        done = run("draw_little.py", self.saved, "--swept", "in_flight = a sweep", "--dot", self.dot, "-o", drawn)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = drawn.read_text(encoding="utf-8")
        for words in ("a sweep", "x of a struct", "bytes in flight / 500 ns", "the memory's rate: 790 GB/s"):
            self.assertIn(f"<!-- {words}", text.replace("\u2022 ", ""))

    def test_the_places_follow_from_the_files(self):
        import draw_little
        self.assertEqual(draw_little.swept(self.found, "in_flight", 100), [(2, 400), (4, 790)])
        self.assertEqual(list(draw_little.dots(self.saved, [draw_little.dot(self.dot)])), [(32, 150, "x of a struct")])

    def test_what_is_missing_is_named(self):
        for left_out, said in ((0, "no multiprocessors of device"), (2, "no latency of in_flight chase")):
            saved = self.save("less.csv", *[r for n, r in enumerate(self.found) if n != left_out])
            done = run("draw_little.py", saved, "-o", self.folder / "little.svg")
            self.assertEqual((done.returncode, done.stderr), (1, f"draw_little.py: {saved}: {said}\n"))
        saved = self.save("less.csv", *self.found[:3])
        self.assertIn("no rates of in_flight", run("draw_little.py", saved).stderr)
        self.assertEqual(run("draw_little.py", self.saved, "--dot", "structs | 16").returncode, 2)


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
        self.sample("holds, weaker", "does not hold", "holds, weaker")
        done = self.repeat("--runs", 3, "04_bandwidth")
        self.assertEqual(done.returncode, 1, done.stderr)
        table, _, varied = done.stdout.partition("1 of 2 parts varied:\n")
        words = {line.split()[0]: line.split() for line in table.splitlines() if line.strip().startswith("04.")}
        self.assertEqual(words["04.2a"][1:5], ["0.9", "1.1", "1.3", "x"])
        self.assertIn("holds, weaker: 2; does not hold: 1", table)
        self.assertEqual(words["04.8"][1:], ["3.4", "3.5", "3.6", "x", "holds:", "3"])
        self.assertIn("04.2a  what 04.2a says - holds in one run and does not in another", varied)
        self.assertRegex(varied, r"run  1  holds, weaker +1 \(0\.9 to 1\.1\) x\n")
        self.assertRegex(varied, r"run  2  does not hold +1\.1 \(1 to 1\.2\) x\n")
        self.assertNotIn("04.8", varied)

    def test_too_close_to_call_beside_holds_is_named_and_no_failure(self):
        self.sample("holds", "too close to call", "holds, stronger")
        done = self.repeat("--runs", 3, "04_bandwidth")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 of 2 parts varied:\n  04.2a", done.stdout)

    def test_no_longer_contradicts_what_holds_too(self):
        self.sample("holds, size open", "no longer", "depends")
        done = self.repeat("--runs", 3, "04_bandwidth")
        self.assertEqual(done.returncode, 1)
        self.assertIn("holds in one run and does not in another", done.stdout)

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


class Combine(InFolder):
    def combined(self, *runs, code=0):
        """What five runs, each a list of records, become."""
        paths = [self.save(f"run-{n}.csv", *found) for n, found in enumerate(runs, 1)]
        done = run("combine.py", "-o", self.folder / "all.csv", *paths)
        self.assertEqual(done.returncode, code, done.stderr)
        self.said = done.stdout if code == 0 else done.stderr
        return records.load(self.folder / "all.csv") if code == 0 else None

    def of_values(self, *values, **fields):
        return self.combined(*[[timed("a", "measured", value, low=value - 0.5, high=value + 0.5, repeats=15, **fields)]
                               for value in values])

    def of_verdicts(self, *verdicts, values=(1, 1.1, 1.2, 1.3, 1.4)):
        found = self.combined(*[[claim("04.1", verdict, value=value, low=value - 0.5, high=value + 0.5, unit="x",
                                       at=f"in the run of {value}")] for verdict, value in zip(verdicts, values)])
        return found[0]

    def test_a_value_is_the_median_and_its_range_that_over_the_runs(self):
        only, = self.of_values(3, 1, 5, 2, 4)
        self.assertEqual([only[name] for name in ("value", "low", "high", "repeats", "runs", "cards")],
                         ["3", "1", "5", "15", "5", "1"])

    def test_of_an_even_number_of_runs_it_lies_between_two(self):
        self.assertEqual(self.of_values(1, 2, 4, 5)[0]["value"], "3")

    def test_predictions_and_counts_have_no_range_unless_counts_differ(self):
        def runs(kind, values):
            return self.combined(*[[record(case="a", kind=kind, metric="m", value=value)] for value in values])[0]

        self.assertEqual([runs("predicted", (1, 2, 3))[name] for name in ("value", "low", "high")], ["2", "", ""])
        self.assertEqual([runs("counted", (2, 2, 2))[name] for name in ("value", "low", "high")], ["2", "", ""])
        self.assertEqual([runs("counted", (1, 2, 4))[name] for name in ("value", "low", "high")], ["2", "1", "4"])

    def test_a_verdict_is_that_of_most_runs_and_its_words_those_of_the_median(self):
        found = self.of_verdicts("holds", "too close to call", "holds", "holds", "too close to call",
                                 values=(1.0, 1.4, 1.3, 1.2, 1.1))
        self.assertEqual([found[name] for name in ("metric", "at", "value", "low", "high", "runs")],
                         ["holds", "in the run of 1.2", "1.2", "1.0", "1.4", "5"])
        self.assertIn("  04.1: holds: 3; too close to call: 2; so holds\n", self.said)

    def test_without_a_majority_it_is_too_close_to_call(self):
        found = self.of_verdicts("holds", "holds", "too close to call", "does not hold", "does not hold")
        self.assertEqual(found["metric"], "too close to call")

    def test_what_holds_in_every_run_without_a_majority_holds_with_its_size_open(self):
        found = self.of_verdicts("holds", "holds", "holds, weaker", "holds, weaker", "holds, size open")
        self.assertEqual(found["metric"], "holds, size open")

    def test_a_claim_that_is_missing_in_a_run_has_no_majority_of_those_left(self):
        runs = [[claim("04.1", "holds")], [claim("04.1", "holds")], [claim("04.1", "depends")], [timed("a", "measured", 1)],
                [timed("a", "measured", 1)]]
        self.assertEqual(self.combined(*runs)[0]["metric"], "too close to call")

    def test_rows_that_most_runs_do_not_have_are_left_out_and_named(self):
        common, rare, often = (timed(name, "measured", 1) for name in ("common", "rare", "often"))
        found = self.combined([common, rare], [often, common, rare], [often, common], [often, common], [common])
        self.assertEqual([(r["case"], r["runs"]) for r in found], [("often", "3"), ("common", "5")])
        self.assertIn("  sum: 1 rows that most runs do not have are left out\n", self.said)

    def test_rows_of_one_key_are_told_apart_by_their_order(self):
        found = self.combined(*[[timed("copy", "calibration", n), timed("copy", "calibration", 10 * n)] for n in (1, 2, 3)])
        self.assertEqual([r["value"] for r in found], ["2", "20"])

    def test_a_log_is_that_of_the_first_run(self):
        def log(*values):
            return [record(case="fault", kind="measured", parameter="event", at=n, metric="start", unit="ms", value=value)
                    for n, value in enumerate(values)]

        found = self.combined(log(1, 2), log(5, 6, 7), log(8, 9, 10))
        self.assertEqual([(r["value"], r["runs"]) for r in found], [("1", "1"), ("2", "1")])

    def test_the_machine_says_what_any_run_said(self):
        runs = [[record(case="clocks", kind="machine", metric="throttled by", at=reason, experiment="sum"),
                 record(case="clocks", kind="machine", metric="SM clock", unit="MHz", value=clock)]
                for reason, clock in (("", 1980), ("power", 1900), ("", 1980))]
        reasons, clock = self.combined(*runs)
        self.assertEqual((reasons["at"], clock["value"], clock["low"], clock["high"]), ("power", "1980", "1900", "1980"))

    def test_words_stay(self):
        found = self.combined(*[[claim("04.1", "holds", words="by construction"), timed("a", "measured", 1, words="a, b")]] * 3)
        self.assertEqual([r["words"] for r in found], ["by construction", "a, b"])

    def test_two_machines_runs_of_runs_and_empty_files_are_refused(self):
        one = timed("a", "measured", 1)
        for other, word in ((dict(gpu="Other GPU"), "gpu"), (dict(toolkit="12.4"), "toolkit"), (dict(topic="x"), "topic"),
                            (dict(runs=5), "several runs")):
            self.combined([one], [{**one, **other}], code=1)
            self.assertIn(word, self.said)
            self.assertEqual(self.said.count("\n"), 1)
        self.combined([one], [], code=1)
        self.assertEqual(run("combine.py", self.folder / "run-1.csv", "-o", self.folder / "x.csv").returncode, 2)


SAMPLE_SCRIPT = """\
    #!{python}
    # in place of a sample: announces, is counted, takes counters of its own program, and saves another value each run
    import pathlib, shutil, sys
    folder, words = pathlib.Path({folder!r}), sys.argv[1:]
    log = folder / "calls"
    with open(log, "a") as file:
        print({topic!r}, *words, file=file)
    program = (folder / "program").read_text() if (folder / "program").exists() else "1"
    if "99" in words:
        sys.exit(2 if {gpu} else 0)
    if "--counters" in words:
        text = pathlib.Path(words[words.index("--counters") + 1]).read_text()
        if not text.startswith(f"# gpu GPU-1, program {{program}}"):
            sys.exit(2)
    if "--csv" in words:
        runs = sum("--csv" in line and line.startswith({topic!r}) for line in log.read_text().splitlines())
        if runs == {fails_at}:
            print("{topic}: out of luck", file=sys.stderr)
            sys.exit(1)
        print("a table")
        shutil.copy(folder / f"saved-{{runs}}.csv", words[words.index("--csv") + 1])
    elif "--list-test-cases" in words:
        print("sum: profile launches\\nsum: random patterns: profile launches")
    elif any(word.startswith("--test-case") for word in words):
        print(f"counted on: gpu GPU-1, program {{program}}\\nlaunch: read,stride 1")
    """

NCU_SCRIPT = """\
    #!{python}
    import subprocess, sys
    words = sys.argv[1:]
    open({folder!r} + "/ncu", "a").write(" ".join(words) + "\\n")
    metrics = words[words.index("--metrics") + 1].split(",")
    sample = words[words.index("--metrics") + 2:]
    print(subprocess.run(sample, capture_output=True, text=True).stdout, end="")
    print(",".join(f'"{{name}}"' for name in ["ID", "Kernel Name", *metrics]))
    print(",".join(f'"{{name}}"' for name in ["0", "read(int *)", *["8"] * len(metrics)]))
    """


class Runs(InFolder):
    """tools/runs.py, and cmake/run_samples.cmake in a copy of the repository, with scripts in place of a sample and ncu."""

    topic = "04_bandwidth"

    def sample(self, fails_at=0, gpu=True, values=(3, 1, 5, 2, 4)):
        for n, value in enumerate(values, 1):
            self.save(f"saved-{n}.csv", timed("a", "measured", value), claim("04.1", "holds"))
        fields = dict(python=sys.executable, folder=str(self.folder), topic=self.topic, gpu=gpu, fails_at=fails_at)
        for name, text in ((f"build/{self.topic}/{self.topic}", SAMPLE_SCRIPT), ("bin/ncu", NCU_SCRIPT)):
            self.write(name, textwrap.dedent(text).format(**fields)).chmod(0o755)
        return self.folder / f"build/{self.topic}/{self.topic}"

    def calls(self, word):
        return [line for line in (self.folder / "calls").read_text().splitlines() if word in line]

    def runs(self, *arguments):
        return run("runs.py", "--results", self.folder / "results", *arguments)

    def test_each_run_is_a_process_and_one_file_is_made(self):
        done = self.runs(self.sample(), "--", "--quick")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines()[:3], ["5 runs of 1 sample: about 2 minutes",
                                                        "run 1 of 5, 04_bandwidth, about 2 minutes left",
                                                        "run 2 of 5, 04_bandwidth, less than a minute left"])
        first, second = records.load(self.folder / "results/04_bandwidth.csv")
        self.assertEqual([first[name] for name in ("value", "low", "high", "runs", "cards")], ["3", "1", "5", "5", "1"])
        self.assertEqual(second["metric"], "holds")
        self.assertEqual(len(self.calls("--quick --csv")), 5)
        self.assertEqual((self.folder / "results/runs/04_bandwidth-5.txt").read_text(), "a table\n")

    def test_if_a_run_fails_no_file_is_made(self):
        done = self.runs(self.sample(fails_at=4))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "runs.py: 04_bandwidth: run 4 of 5: exit code 1: 04_bandwidth: out of luck\n")
        self.assertFalse((self.folder / "results/04_bandwidth.csv").exists())

    def test_wrong_command_lines(self):
        sample = self.sample()
        for wrong in ([], [sample, sample], ["--runs", "1", sample], ["--counters", "x", sample],
                      ["--counters", "x=y", sample]):
            self.assertEqual(self.runs(*wrong).returncode, 2)

    def add_gpu(self, *options):
        """Runs cmake/run_samples.cmake of a copy, in which 04_bandwidth has an experiment that rests on counts."""
        if not (self.folder / "cmake").exists():
            for name in ("cmake", "tools"):
                shutil.copytree(TOOLS.parent / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            self.write("04_bandwidth/main.cu", "")
            self.write("04_bandwidth/README.md", "# a page\n")
            self.write("04_bandwidth/sum.cu", 'count_of_this_run(k, p, "l1tex__m_other.sum");\n')
            (self.folder / "04_bandwidth/results").mkdir()
        settings = {"SAMPLES": self.folder / "build/04_bandwidth/04_bandwidth", "RESULTS": self.folder / "results",
                    "ROOT": self.folder, "PYTHON": sys.executable, "NCU": self.folder / "bin/ncu", "COUNT": "ON", "ADD": "ON"}
        return subprocess.run(["cmake", *[f"-D{name}={value}" for name, value in settings.items()], *options, "-P",
                               self.folder / "cmake/run_samples.cmake"], capture_output=True, text=True)

    @unittest.skipUnless(shutil.which("cmake"), "CMake is missing")
    def test_a_gpu_is_added_by_five_runs_and_counted_once(self):
        self.sample()
        done = self.add_gpu()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("1 samples, 5 runs of each: about 2 minutes"), done.stdout)
        added = records.load(self.folder / "04_bandwidth/results/some-gpu.csv")
        self.assertEqual([(r["value"], r["runs"]) for r in added], [("3", "5"), ("", "5")])
        self.assertEqual(len(self.calls("--counters")), 5)
        counted, = (self.folder / "ncu").read_text().splitlines()
        self.assertIn("l1tex__m_other.sum", counted)
        self.assertTrue(counted.endswith("--test-case=sum: *profile launches"))

        (self.folder / "calls").unlink()  # the same program again: nothing is counted, a second run is added
        self.assertEqual(self.add_gpu().returncode, 0)
        self.assertEqual(len((self.folder / "ncu").read_text().splitlines()), 1)
        self.assertTrue((self.folder / "04_bandwidth/results/some-gpu-2.csv").exists())

        (self.folder / "calls").unlink()  # another program: it is
        (self.folder / "program").write_text("2")
        self.assertEqual(self.add_gpu().returncode, 0)
        self.assertEqual(len((self.folder / "ncu").read_text().splitlines()), 2)

    @unittest.skipUnless(shutil.which("cmake"), "CMake is missing")
    def test_if_a_run_fails_nothing_is_added(self):
        self.sample(fails_at=3)
        done = self.add_gpu()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("run 3 of 5: exit code 1", done.stderr)
        self.assertEqual(list((self.folder / "04_bandwidth/results").iterdir()), [])

    @unittest.skipUnless(shutil.which("cmake"), "CMake is missing")
    def test_without_a_gpu_nothing_runs(self):
        self.sample(gpu=False)
        done = self.add_gpu()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no usable GPU", done.stderr)
        self.assertEqual(self.calls("--csv"), [])

    @unittest.skipUnless(shutil.which("cmake"), "CMake is missing")
    def test_without_add_a_sample_runs_once(self):
        self.sample()
        done = self.add_gpu("-DADD=OFF", "-DCOUNT=OFF")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.calls("--csv")), 1)
        self.assertIn("a table\n", done.stdout)
        self.assertEqual([r["runs"] for r in records.load(self.folder / "results/04_bandwidth.csv")], ["", ""])

    @unittest.skipUnless(shutil.which("cmake"), "CMake is missing")
    def test_what_rests_on_counts_is_found_in_the_sources(self):
        script = self.write("x.cmake", f"""\
            cmake_minimum_required(VERSION 3.25)
            include({TOOLS.parent}/cmake/count.cmake)
            foreach(topic IN ITEMS 01_memory_model 03_access_patterns 04_bandwidth 06_shared_reduce)
              judged_by_counts(experiments ${{topic}})
              message("${{topic}}: ${{experiments}}")
            endforeach()
            """)
        done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True)
        self.assertEqual(done.stderr.splitlines(), ["01_memory_model: ", "03_access_patterns: caching;fetch;stores;structs",
                                                    "04_bandwidth: transpose", "06_shared_reduce: bank_steps"])


class LittleMemory(InFolder):
    """tools/little_memory.sh with samples and a holder of memory that are shell scripts."""

    def program(self, name, text):
        path = self.write(name, text)
        path.chmod(0o755)
        return path

    def samples(self, holder='echo "holding $1 MiB"; cat >/dev/null'):
        self.program("build/common/hold_memory", f"#!/bin/sh\n{holder}\n")
        self.program("build/01_one/01_one", "#!/bin/sh\necho \"$@\" >>ran\n")
        self.program("build/02_two/02_two", "#!/bin/sh\necho 'of sums: left out (why): this'\n")

    def run_it(self, *arguments):
        command = [TOOLS / "little_memory.sh", self.folder / "build", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=60)

    def test_every_sample_runs_with_each_amount_left(self):
        self.samples()
        done = self.run_it(512, 256, "--", "--quick")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [re.sub(r"after \d+ s", "after", line) for line in done.stdout.splitlines()]
        expected = []
        for left in (512, 256):
            expected += [f"{left} MiB left: holding {left} MiB", "  01_one: exit code 0 after",
                         "  02_two: exit code 0 after", "    of sums: left out (why): this"]
        self.assertEqual(lines, expected)
        self.assertEqual((self.folder / "ran").read_text(), "--require-gpu --quick\n" * 2)

    def test_a_sample_that_fails_is_said_and_the_others_run(self):
        self.samples()
        self.program("build/01_one/01_one", "#!/bin/sh\necho no memory >&2\nexit 1\n")
        done = self.run_it(512)
        self.assertEqual(done.returncode, 1)
        self.assertIn("01_one: exit code 1", done.stdout)
        self.assertIn("no memory", done.stdout)
        self.assertIn("02_two: exit code 0", done.stdout)

    def test_without_a_gpu_it_is_skipped(self):
        self.samples("echo 'skipped: no usable GPU'; exit 77")
        self.assertEqual(self.run_it().returncode, 77)

    def test_a_holder_that_fails_is_a_failure(self):
        self.samples("echo 'cudaMalloc failed'; exit 1")
        self.assertEqual(self.run_it().returncode, 1)

    def test_wrong_command_lines(self):
        self.samples()
        self.assertEqual(self.run_it("many").returncode, 2)
        self.assertEqual(subprocess.run([TOOLS / "little_memory.sh"], capture_output=True).returncode, 2)
        (self.folder / "build/common/hold_memory").unlink()
        self.assertEqual(self.run_it().returncode, 2)


class OtherPages(unittest.TestCase):
    """What stands beside the chapter: lab plans, other GPUs, continuous integration."""

    root = TOOLS.parent

    def test_links_lead_somewhere(self):
        pages = [TOOLS / f"{name}.md" for name in ("LAB_PLANS", "COURSE", "EXAM", "OTHER_GPUS")]
        done = run("pages.py", "--check", *pages)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_the_lab_plans_name_what_is_there(self):
        text = (TOOLS / "LAB_PLANS.md").read_text(encoding="utf-8")
        experiments = re.findall(r"`(0\d_\w+) (\w+)`", text)
        exercises = re.findall(r"`(0\d_\w+/your_turn/\w+)`", text)
        self.assertGreater(len(experiments), 8)
        self.assertGreater(len(exercises), 6)
        for topic, experiment in experiments:
            self.assertTrue((self.root / topic / f"{experiment}.cu").is_file(), f"{topic} {experiment}")
        if list(self.root.glob("0?_*/your_turn")):
            for exercise in exercises:
                self.assertTrue((self.root / f"{exercise}.cu").is_file(), exercise)

    def test_there_are_six_exam_questions_for_each_topic_with_points_a_place_and_an_answer(self):
        text = (TOOLS / "EXAM.md").read_text(encoding="utf-8")
        for topic in range(1, 8):
            section = text.split(f'<a id="topic-{topic:02}"></a>')[1].split('<a id="topic-')[0]
            points = re.findall(rf"^\*\*{topic:02}-(\d)\*\* \((\d) points?\)", section, re.M)
            self.assertEqual([question for question, _ in points], list("123456"), topic)
            self.assertEqual(sum(int(each) for _, each in points), 10, topic)
            self.assertEqual(len(re.findall(r"^Answered by .*\.md#", section, re.M)), 6, topic)
            self.assertEqual(section.count("<details><summary>Expected answer</summary>"), 6, topic)

    def test_the_course_names_every_exam_question(self):
        questions = re.findall(r'id="(\d\d-\d)"', (TOOLS / "EXAM.md").read_text(encoding="utf-8"))
        course = (TOOLS / "COURSE.md").read_text(encoding="utf-8")
        self.assertEqual(len(questions), 42)
        for question in questions:
            self.assertIn(f"(EXAM.md#{question})", course)

    def test_the_minutes_of_a_session_are_two_hours(self):
        text = (TOOLS / "LAB_PLANS.md").read_text(encoding="utf-8")
        sessions = text.split("\n## Session ")[1:]
        self.assertEqual([sum(map(int, re.findall(r"^\| (\d+) \|", each, re.M))) for each in sessions], [120] * 5)

    def test_every_made_up_gpu_has_a_line(self):
        source = (self.root / "common/checks/made_up_devices.cpp").read_text(encoding="utf-8")
        capabilities = re.findall(r'^ *\{"[^"]+", (\d+), (\d+),', source, re.M)
        self.assertEqual(len(capabilities), 7)
        page = (TOOLS / "OTHER_GPUS.md").read_text(encoding="utf-8")
        for major, minor in capabilities:
            self.assertIn(f"({major}.{minor})", page)

    def test_ci_runs_what_a_person_runs_by_old_and_new_toolkits(self):
        text = (self.root / ".github/workflows/ci.yml").read_text(encoding="utf-8")
        self.assertIn("- run: .ci/run\n", text)
        self.assertTrue(os.access(self.root / ".ci/run", os.X_OK))
        toolkits = re.findall(r"^ +- nvidia/cuda:(\d+)\.(\d+)\.\d+-devel-ubuntu\d\d\.04$", text, re.M)
        self.assertEqual(toolkits[0], ("12", "0"))
        self.assertEqual(toolkits[-1][0], "13")
        self.assertEqual(toolkits, sorted(toolkits, key=lambda each: tuple(map(int, each))))

    def test_the_container_for_editors_is_one_of_them(self):
        folder = self.root / ".devcontainer"
        described = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))["build"]
        recipe = (folder / described["dockerfile"]).read_text(encoding="utf-8")
        image = re.search(r"^FROM (\S+)$", recipe, re.M).group(1)
        self.assertIn(f"- {image}\n", (self.root / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
        for copied in re.findall(r"^COPY (\S+) ", recipe, re.M):
            self.assertTrue((folder / described["context"] / copied).is_file(), copied)


class Keys(InFolder):
    """Rows that get the keys of a declared experiment."""

    TABLE = ("rename\tstride\tfrom memory\t*\t*\tread_stride\t*\t*\n"
             "rename\tstride\tneither\t\t\tread_lines\t\t\n"
             "gone\tstride\tread_lines\tefficiency\n"
             "counted\told\tsize\tnew\tsize\n"
             "time\tstride\tread_stride\t2\tbandwidth\t/8\n"
             "time\tstride\tread_lines\t\tcost\t0.5\n"
             "ratio\tstride\t03.1\tread_lines\tread_stride\n"
             "over\tstride\tread_lines\tcost\tread_words\t0.25\n"
             "claimed\tstride\t03.1\tread_stride at 2\tread_lines\t0.5\n"
             "level\tstride\t03.1\tread_lines\trate\tcounted\tGB/s\n"
             "count\tstride\tread_stride\tnew\tsize\tsectors\n"
             "machine\tSome GPU\tL2\tB\t1000\n")

    def setUp(self):
        super().setUp()
        self.table = self.folder / "keys.tsv"
        self.table.write_text(self.TABLE)
        swept = {"experiment": "stride", "parameter": "stride", "at": 2}
        self.old = [record(case="from memory", kind="measured", metric="bandwidth", value=4, low=2, high=8, **swept),
                    record(case="from memory", kind="calibration", metric="time", value=2, low=2, high=2, **swept),
                    record(experiment="stride", case="neither", kind="measured", metric="cost", value=3, low=2, high=4),
                    {**claim("03.1", "holds", value=3, low=2, high=4, unit="x"), "experiment": "stride"},
                    record(experiment="other", case="neither", kind="measured", metric="cost", value=3)]
        self.before = self.save("before.csv", *self.old)
        self.after = self.save("after.csv", *self.old)
        (self.folder / "after-counters.csv").write_text("# gpu\nkernel,parameter,metric,value\nold,size,sectors,64\n")

    def rename(self, *files):
        done = run("rename_keys.py", self.table, *files)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_rows_get_keys_and_what_follows_from_them(self):
        self.rename(self.folder / "after-counters.csv", self.after)
        self.assertEqual((self.folder / "after-counters.csv").read_text(), "# gpu\nkernel,parameter,metric,value\nnew,size,sectors,64\n")
        found = records.load(self.after)
        def only(kind, case, metric):
            rows = [r for r in found if (r["kind"], r["case"], r["metric"]) == (kind, case, metric)]
            self.assertEqual(len(rows), 1, (kind, case, metric))
            return [rows[0][name] for name in ("at", "value", "low", "high")]
        self.assertEqual(only("measured", "read_stride", "time"), ["2", "2", "1", "4"])
        self.assertEqual(only("measured", "read_lines", "time"), ["", "1.5", "1", "2"])
        self.assertEqual(only("counted", "read_stride", "sectors")[1], "64")
        self.assertEqual(only("ratio", "read_lines", "time over that of read_stride")[1:], ["3", "2", "4"])
        self.assertEqual(only("ratio", "read_lines", "time over that of read_words")[1:], ["0.75", "0.5", "1"])
        self.assertEqual(only("ratio", "read_stride", "time over that of read_lines"), ["2", "1.5", "1", "2"])
        self.assertEqual(only("counted", "read_lines", "rate")[1:], ["3", "2", "4"])
        self.assertEqual(only("machine", "device", "L2")[1], "1000")
        self.assertEqual([r["case"] for r in found if r["experiment"] == "other"], ["neither"])
        once = self.after.read_text()
        self.rename(self.after)
        self.assertEqual(self.after.read_text(), once)

    def test_a_ratio_of_a_sweep_and_a_number_that_is_gone(self):
        table = self.TABLE.replace("claimed\tstride\t03.1", "claimed\tstride\t03.2")
        self.table.write_text(table.replace("read_lines\tread_stride", "read_stride at 2\tread_lines"))
        gone = record(experiment="stride", case="neither", kind="measured", metric="efficiency", value=1)
        file = self.save("swept.csv", *self.old, gone)
        self.rename(file)
        found = records.load(file)
        self.assertEqual([(r["case"], r["at"]) for r in found if r["metric"].endswith("of read_lines")],
                         [("read_stride", "2")])
        self.assertNotIn("efficiency", [r["metric"] for r in found])

    def test_one_number_becomes_another_rows(self):
        self.table.write_text("moved\tblocks\tplain\tblock\t*\tdiagonal time\t*\tdiagonal_{at}\tside\t64\ttime\t*\n"
                              "moved\tblocks\tplain\tblock\t8 x 4\treached\tmeasured\tplain_{at}\tside\t64\treached\tcounted\n"
                              "rename\tblocks\tplain\tblock\t*\tplain_{at}\tside\t64\n"
                              "gone\tblocks\t*\tgain\n")
        of = {"experiment": "blocks", "case": "plain", "parameter": "block", "at": "8 x 4", "low": 1, "high": 3, "value": 2}
        old = [record(kind=kind, metric=metric, **of) for kind, metric in
               (("predicted", "diagonal time"), ("measured", "time"), ("predicted", "reached"), ("measured", "reached"),
                ("measured", "gain"))]
        page = self.folder / "page.md"
        page.write_text("<!-- v blocks | plain | 8 x 4 | time | .0f -->2<!-- /v -->")
        file = self.save("moved.csv", *old)
        self.rename(file, page)
        self.assertEqual([[r[name] for name in ("case", "parameter", "at", "kind", "metric", "low")] for r in records.load(file)],
                         [["diagonal_8x4", "side", "64", "predicted", "time", "1"],
                          ["plain_8x4", "side", "64", "measured", "time", "1"],
                          ["plain_8x4", "side", "64", "predicted", "reached", "1"],
                          ["plain_8x4", "side", "64", "counted", "reached", ""]])
        self.assertIn("v blocks | plain_8x4 | 64 | time", page.read_text())

    def test_a_claim_gets_another_number(self):
        self.table.write_text(self.TABLE.replace("\t03.1\t", "\t03.1a\t") + "part\tstride\t03.1\t03.1a\n")
        found = {**record(case="03.1", kind="finding", metric="finding", at="one"), "experiment": "stride"}
        file = self.save("parts.csv", *self.old, found)
        self.rename(file)
        rows = records.load(file)
        self.assertEqual([r["case"] for r in rows if r["kind"] in ("claim", "finding")], ["03.1a", "03.1a"])
        self.assertIn("time over that of read_stride", [r["metric"] for r in rows if r["case"] == "read_lines"])

    def test_markers_of_pages(self):
        page = self.folder / "page.md"
        page.write_text("<!-- v stride | from memory | 2 | bandwidth | .0f -->4<!-- /v -->\n"
                        "<!-- table: stride @ - | cost | neither; other = another -->\n<!-- v sum | neither | | time | -->")
        self.rename(page)
        self.assertEqual(page.read_text(),
                         "<!-- v stride | read_stride | 2 | bandwidth | .0f -->4<!-- /v -->\n"
                         "<!-- table: stride @ - | cost | read_lines = neither; other = another -->\n"
                         "<!-- v sum | neither | | time | -->")

    def test_numbers_of_pages(self):
        page = self.folder / "page.md"
        page.write_text("4 and 2 and 3\n<!-- numbers:\n"
                        "  4 = stride | from memory | 2 | bandwidth\n"
                        "  2 = sqrt of ... | 4 | predicted bandwidth / stride | neither | | cost - 1\n"
                        "  3 = sum | neither | | time; 7 = claim 03.1; 5 = ... | | cost\n-->")
        for _ in range(2):  # a page that has the new keys stays as it is
            self.rename(page)
            self.assertEqual(page.read_text(), "4 and 2 and 3\n<!-- numbers:\n"
                             "  4 = stride | read_stride | 2 | bandwidth\n"
                             "  2 = sqrt of ... | 4 | predicted bandwidth / stride | read_lines | | cost - 1\n"
                             "  3 = sum | neither | | time; 7 = claim 03.1; 5 = ... | | cost\n-->")

    def test_only_names_changed(self):
        self.rename(self.after)
        done = run("compare.py", "--keys", self.before, self.after)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("5 records, 0 of them wrong", done.stdout)
        changed = [dict(r) for r in records.load(self.after)]
        changed[1]["value"] = "5"
        done = run("compare.py", "--keys", self.before, self.save("changed.csv", *changed))
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no place in the new file", done.stdout)

    def test_two_rows_with_one_name(self):
        merged = [{**r, "case": "same", "parameter": "", "at": ""} if r["experiment"] == "stride" and r["kind"] != "claim"
                  else r for r in self.old]
        done = run("compare.py", "--keys", self.before, self.save("merged.csv", *merged))
        self.assertEqual(done.returncode, 1)
        self.assertIn("both became stride | same", done.stdout)

    def test_the_second_of_two_rows_with_one_name(self):
        again = {**record(case="neither", kind="calibration", metric="time", value=7), "experiment": "stride"}
        first = {**again, "value": "5"}
        before = self.save("twice.csv", *self.old, first, again)
        after = self.save("once.csv", *self.old, first, again)
        self.table.write_text(self.TABLE + "rename\tstride\tneither (again)\t\t\tread_again\t\t\n")
        self.rename(after)
        rows = [(r["case"], r["value"]) for r in records.load(after) if r["kind"] == "calibration" and not r["at"]]
        self.assertEqual(rows, [("read_lines", "5"), ("read_again", "7")])
        done = run("compare.py", "--keys", before, after)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_table_that_is_none(self):
        self.table.write_text("rename\tstride\n")
        self.assertEqual(run("rename_keys.py", self.table, self.after).returncode, 1)


if __name__ == "__main__":
    unittest.main()
