#!/usr/bin/env python3
"""Checks of the tools, without a GPU."""
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare
import figures
import machine_code
import memory_map
import pages
import plot
import profile as profile_tool
import report
import results

TOOLS = Path(__file__).resolve().parent
SAVED = '''# 03_access_patterns on NVIDIA <H200>, compute capability 9.0, CUDA 13.0, 2026-11-24
experiment,table,row,column,value,low,high
stride,"stride, words",1,sectors/request,4,4,4
stride,"stride, words",1,GB/s,4499,4490,4510
stride,"stride, words",8,GB/s,562.4,560,565
stride,claim,"03.1: a <b> ""c""",holds,1.5,1.4,1.6
stride,claim,03.2: d,not judged,,,
'''


class InAFolder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def file(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


class Results(InAFolder):
    def test_reads_what_was_saved(self):
        heading, rows = results.read(self.file("x.csv", SAVED))
        self.assertEqual(results.gpu_of(heading), "NVIDIA <H200>")
        self.assertEqual(rows[1], ("stride", "stride, words", "1", "GB/s", 4499, 4490, 4510))
        self.assertEqual(rows[4][4:], (None, None, None))

    def test_bad_files_end_with_one_line(self):
        for text in ("", "x\n", SAVED + "a,b\n", SAVED.replace("4499", "many"), SAVED.replace("4499", "nan"), SAVED.replace("4499", "1e999"),
                     SAVED.replace("4499,4490,4510", "4499,,"), SAVED + "a,b,c\0"):
            with self.assertRaises(SystemExit) as end:
                results.read(self.file("x.csv", text))
            self.assertEqual(str(end.exception).count("\n"), 0)
        with self.assertRaises(SystemExit):
            results.read(self.folder / "missing.csv")


class Report(InAFolder):
    def read(self, text):
        return results.read(self.file("x.csv", text))

    def test_everything_is_there_and_escaped(self):
        text = report.page([self.read(SAVED)], {})
        for part in ("NVIDIA &lt;H200&gt;", "03.1: a &lt;b&gt; &quot;c&quot;", "1.5 [1.4, 1.6]", "not judged", "4499", "--share:100.0%"):
            self.assertIn(part, text)
        self.assertNotIn("<b>", re.sub("<nav>.*?</nav>", "", text))

    def test_a_verdict_that_differs_and_the_record_beside_the_run(self):
        record = self.read(SAVED.replace("holds,1.5,1.4,1.6", "no longer,1,1,1").replace("4499,4490,4510", "300,299,301"))
        text = report.page([self.read(SAVED)], {"03_access_patterns": [record]})
        self.assertIn("1 of 2 differ from the record", text)
        self.assertIn("GB/s<br><small>recorded</small>", text)
        self.assertLess(text.index(">4499<"), text.index(">300<"))
        self.assertIn("All 2 that were recorded are as they were", report.page([self.read(SAVED)], {
            "03_access_patterns": [self.read(SAVED.replace("4499", "4500"))]}))

    def test_a_number_that_is_not_normal(self):
        peak = "# 04_bandwidth on NVIDIA %s, compute capability 9.0\n" + SAVED.splitlines()[1] + "\npeak,4 GiB,read,GB/s,%d,1,2\npeak,4 GiB,read,theory,0.5,1,1\n"
        run, record = self.read(peak % ("X", 800)), self.read(peak % ("X", 1000))
        text = report.normal({"04_bandwidth": run}, {"04_bandwidth": [record]})
        self.assertIn("1 outside 85 to 115%", text)
        self.assertIn("another process on the GPU", text)
        self.assertIn("<td>50%</td>", text)
        self.assertIn('class="off">!\N{NO-BREAK SPACE}80%', text)
        other = self.read(peak % ("Y", 1000))
        self.assertIn("This GPU has no record yet", report.normal({"04_bandwidth": run}, {"04_bandwidth": [other]}))

    def test_what_failed_is_said_and_escaped(self):
        text = report.page([self.read(SAVED + "stride,failed,a <wrong> result,,,,\n")], {})
        self.assertIn("These failed, and the others ran: 03 stride", text)
        self.assertIn('<span class="v no">failed</span> a &lt;wrong&gt; result', text)

    def test_digits(self):
        self.assertEqual([report.digits(value) for value in (None, 4499.2, 562.44, 36, 1.5004, 0.23962, 1e20)],
                         ["", "4499", "562.4", "36", "1.5", "0.24", "1e+20"])

    def test_the_command_line(self):
        done = subprocess.run([TOOLS / "report.py", "--output", self.folder / "no" / "x.html", self.file("x.csv", SAVED)],
                              text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))


class Compare(InAFolder):
    HEAD = "# 04_bandwidth on NVIDIA X, compute capability 9.0, CUDA 13.0, 2026-11-24\n" + SAVED.splitlines()[1] + "\n"
    ROWS = [("a", 1.0), ("b", 3.0), ("c", 9.0), ("d", 27.0)]

    def saved(self, rows, verdict="holds"):
        text = "".join("transpose,t,%s,ms,%g,%g,%g\n" % (row, ms, 0.99 * ms, 1.01 * ms) for row, ms in rows)
        return results.read(self.file("x.csv", self.HEAD + text + "transpose,claim,04.1: x,%s,1,1,1\n" % verdict))

    def lines(self, *run):
        return compare.compared([(self.saved(*run), self.saved(self.ROWS))])[0]

    def test_nothing_differs(self):
        lines = self.lines([(row, 1.05 * ms) for row, ms in self.ROWS])
        self.assertEqual([line for line in lines if not line.endswith("none")][1:], [
            "1 verdicts: 1 as recorded; of the GPU 4 numbers, 100% within 10% or the intervals"])

    def test_planted_mistakes_are_found(self):
        doubled = self.lines([(row, 2 * ms) for row, ms in self.ROWS])
        self.assertIn("       2x  04 transpose | t | ms: 4 of 4 rows", doubled)
        exchanged = self.lines([("b", 1.0), ("a", 3.0), *self.ROWS[2:]])
        self.assertIn("       3x  04 transpose | t | a | ms: 3, recorded 1: exchanged with 'b'?", exchanged)
        flipped = self.lines(self.ROWS, "no longer")
        self.assertIn("  04.1: no longer 1 [1, 1]; recorded: holds 1 [1, 1]", flipped)
        lost = self.lines(self.ROWS[1:] + [("e", 5.0)])
        self.assertEqual([line for line in lost if line.startswith("  04 transpose")], ["  04 transpose | t: 1"] * 2)

    def test_what_the_host_decides_stands_apart(self):
        self.assertTrue(compare.host_decides("02_memory_management", ("transfer", "t", "r"), []))
        self.assertFalse(compare.host_decides("02_memory_management", ("pitch", "bytes per row", "9"), [("GB/s packed", (5, 4.9, 5.1))]))
        self.assertTrue(compare.host_decides("04_bandwidth", ("peak", "t", "r"), [("GB/s", (10, 9, 11))]))
        self.assertTrue(compare.host_decides("06_shared_reduce", ("one_pass", "floats", "2^20"), [("CUB us", (8.4, 8.3, 8.5))]))

    def test_ten_times_is_no_other_host(self):
        brief = [(row, ms / 1e4) for row, ms in self.ROWS]  # as a launch
        for factor, differs in ((9, False), (11, True), (1 / 11, True), (0, False)):
            run = self.saved([(row, factor * ms) for row, ms in brief])
            self.assertEqual(compare.compared([(run, self.saved(brief))])[1], differs)

    def test_a_claim_of_another_number_is_found(self):
        record = self.saved(self.ROWS)
        heading, rows = record
        for number, differs in ((1.05, False), (2.0, True)):
            run = heading, [row if row[1] != "claim" else (*row[:4], number, number, number) for row in rows]
            self.assertEqual(compare.compared([(run, record)])[1], differs)
            host = heading.replace("04_bandwidth", "05_unified_memory")  # where another host may give another number
            self.assertFalse(compare.compared([((host, run[1]), (host, rows))])[1])

    def test_a_sample_alone_is_a_part_of_its_topic(self):
        self.assertEqual(results.of_topic("transpose on NVIDIA X, 2026-11-24"), "04_bandwidth on NVIDIA X, 2026-11-24")
        self.assertEqual(results.of_topic("04_bandwidth on NVIDIA X"), "04_bandwidth on NVIDIA X")
        self.assertEqual(results.of_topic("gather on NVIDIA X"), "gather on NVIDIA X")
        alone = self.file("x.csv", (self.HEAD + "transpose,t,a,ms,1,1,1\n").replace("# 04_bandwidth", "# transpose"))
        self.assertEqual(results.topic_of(results.read(alone)[0]), "04_bandwidth")
        page = report.page([results.read(alone), results.read(self.file("y.csv", self.HEAD + "peak,t,a,ms,1,1,1\n"))], {})
        self.assertTrue('id="04_bandwidth-transpose"' in page and 'id="04_bandwidth-peak"' in page)

    def test_at_most_forty_lines(self):
        runs = [[("row %d" % i, ms) for i, ms in enumerate(values)] for values in ([1.3 ** i for i in range(60)], [2.1 ** i for i in range(60)])]
        self.assertLess(len(compare.compared([(self.saved(runs[1]), self.saved(runs[0]))])[0]), 40)

    def test_the_command_line(self):
        path = self.file("x.csv", SAVED)
        done = subprocess.run([TOOLS / "compare.py", path, "--with", path], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for changed, code in ((SAVED.replace("562.4,560,565", "281,280,282"), 1), (SAVED.replace(",holds,", ",no longer,"), 1),
                              (SAVED.replace('stride,"stride, words",8,GB/s,562.4,560,565\n', ""), 1),
                              (SAVED + "stride,failed,memory is gone,,,,\n", 1), (SAVED.replace("562.4,560,565", "570,560,575"), 0),
                              (SAVED + "other,t,1,GB/s,1,1,1\n", 0)):
            run = self.file("y.csv", changed)
            done = subprocess.run([TOOLS / "compare.py", run, "--with", path], text=True, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (code, ""), done.stdout)
        claim = 'stride,compared,03.1,"as fast: \'a\' over \'b\'",,,\nstride,votes,03.1,against,18,18,18\nstride,stated,03.1,times,2,2,2\n'
        path = self.file("x.csv", SAVED + claim)
        for changed, code in ((claim, 0), (claim.replace("over 'b'", "over 'c'"), 1), (claim.replace("2,2,2", "3,3,3"), 1), (claim.replace("18", "17"), 0)):
            run = self.file("y.csv", SAVED + changed)
            done = subprocess.run([TOOLS / "compare.py", run, "--with", path], text=True, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (code, ""), done.stdout)
        quick = self.file("y.csv", SAVED.replace("-24\n", "-24, quick\n", 1).replace("562.4,560,565", "281,280,282"))
        done = subprocess.run([TOOLS / "compare.py", quick, "--with", path], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, "03_access_patterns: not compared: --quick runs other sizes than were recorded\n"))
        done = subprocess.run([TOOLS / "compare.py", "--brief", path, "--with", path], text=True, capture_output=True)
        self.assertEqual(done.stdout.count("\n"), 1)
        done = subprocess.run([TOOLS / "compare.py", self.folder / "missing"], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))


class Figures(unittest.TestCase):
    def test_a_rate_has_the_interval_of_its_time(self):
        value, low, high = plot.interval("GB/s", {"GB/s": (100, 100, 100), "ms": (2, 1.6, 2.5)})
        self.assertEqual((value, low, high), (100, 80, 125))

    def test_the_key_names_a_colour_once(self):
        two, one = {"kernel, ms": [], "host to host, ms": []}, {"count": []}
        drawn = [(figures.dots("version", [*two], "ms"), two), (figures.dots("way", "count", "count"), one)]
        self.assertEqual(plot.colours_of(one, drawn), [plot.INK])
        self.assertEqual(plot.colours_of(two, drawn), plot.COLOURS)
        self.assertEqual(plot.colours_of(one, drawn[1:]), plot.COLOURS)  # there is no key

    def test_a_caption_is_the_title_of_what_is_drawn(self):
        for topic, experiment, title in (("03_access_patterns", "coalescing", "as many loads"), ("06_shared_reduce", "banks", "32 warps of a block")):
            self.assertIn("*%s: %s" % (experiment, title), pages.figure(results.ROOT / topic, experiment))  # not the computed table before it

    def recorded(self):
        for topic, of in figures.FIGURES.items():
            rows = results.read(results.ROOT / topic / "results" / plot.RECORDED)[1]
            yield topic, of, plot.tables(rows), {row[0] for row in rows}

    def test_each_experiment_has_a_figure_or_a_reason(self):
        for topic, of, _, experiments in self.recorded():
            self.assertEqual(experiments - set(of) - set(figures.WITHOUT), set(), topic)
            self.assertEqual(set(of) & set(figures.WITHOUT), set())

    def test_each_panel_finds_its_numbers(self):
        for _, of, cells, _ in self.recorded():
            for experiment, (title, *panels) in of.items():
                if experiment == "peer":
                    continue  # recorded apart, on two GPUs
                self.assertLess(len(plot.titled(title, panels, cells[experiment])), 75, title)
                words = re.sub(r"\{[^}]*\}|\b(2007|G80|32 x 8|8 x 32|32 x 32|int\[8\]|L[12]|1 MiB|128 KiB|16 chunks)\b", "", title)
                self.assertIsNone(re.search(r"[0-9.]%%|\d (ms|us|cycles|times|GB)", words), title)
                for panel in panels:
                    of_table = [cells[experiment].get(table) for table in (panel.table if panel.kind == "spans" else [panel.table])]
                    self.assertTrue(all(of_table), (experiment, panel.table))
                    columns = {column for rows in of_table for row in rows.values() for column in row}
                    rings = [column for ring in panel.ring for column in (ring if isinstance(ring, tuple) else [ring]) if column]
                    self.assertLessEqual({*panel.columns, *rings, *(() if isinstance(panel.then, dict) else panel.then)}, columns, experiment)
                    if panel.kind != "spans":
                        self.assertTrue(plot.series(panel, cells[experiment]), experiment)
                    self.assertEqual(len(list(plot.limits(panel, cells[experiment]))), len(panel.limit), experiment)

    def test_titles_have_their_numbers_from_the_record(self):
        cells = {"t": {"a": {"ms": (5.3, 5, 6)}, "b": {"ms": (10.6, 10, 11)}}, "u": {"c": {"GB/s": (0.456, 0, 1)}}}
        panels = [figures.dots("t", "ms", "ms")]
        titled = lambda title: plot.titled(title, panels, cells)
        self.assertEqual(titled("{a | ms} and {b | ms}"), "5.3 and 11")
        self.assertEqual(titled("{b | ms : a | ms} times"), "2 times")
        self.assertEqual(titled("{a | ms : b | ms !%}% {a | ms : b | ms !-%}% {b | ms : a | ms !+%}%"), "50% 50% 100%")
        self.assertEqual(titled("{u | c | GB/s}"), "0.46")
        with self.assertRaises(KeyError):
            titled("{d | ms}")

    def test_a_figure_knows_its_rows(self):
        cells = {"t": {"a": {"ms": [5.3, 5, 6]}}, "other": {}}
        mark = lambda cells: plot.mark_of("x", [figures.dots("t", "ms", "ms")], cells, "X")
        self.assertEqual(mark(cells), mark({**cells, "other": {"b": 1}}))
        self.assertNotEqual(mark(cells), mark({"t": {"a": {"ms": [5.31, 5, 6]}}}))

    def test_numbers_in_names(self):
        self.assertEqual([plot.number_in(text) for text in ("64 KiB", "2^10", "int[8]", "1 of 16 MiB", "pinned")], [65536, 1024, 8, 1, None])

    def test_the_map_is_of_the_record(self):
        topic = results.ROOT / "01_memory_model"
        self.assertEqual((topic / "drawings" / "memory_map.svg").read_text(), memory_map.drawing(*results.read(topic / "results" / plot.RECORDED)))

    def test_drawn_the_same_twice_and_small(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("matplotlib is missing")
        for topic, of, cells, _ in self.recorded():
            for experiment in list(of)[:2]:
                title, *panels = of[experiment]
                texts = [plot.figure(title, panels, cells[experiment], "<a> & $b$") for _ in range(2)]
                self.assertEqual(*texts)
                self.assertIn("&lt;a&gt; &amp; $b$", texts[0])
                self.assertLess(len(texts[0]), 40000, experiment)
                self.assertIsNone(plot.figure(title, panels, {}, ""))


class Profile(unittest.TestCase):
    def test_counts_are_summed_by_name_and_compared_by_row(self):
        names = [profile_tool.COUNTER % (what, op) for what in ("sectors", "requests") for op in ("ld", "st")]
        names += [profile_tool.WAVEFRONTS % "ld", profile_tool.WAVEFRONTS % "st", "launch__grid_size"]
        head = ",".join('"%s"' % name for name in ["ID", "Kernel Name", *names])
        ncu = "==PROF== x\n%s\n%s\n" % (head, ",".join('""' for _ in range(9)))
        ncu += '"0","stride 1/read(int *)","1,024","0","256","0","64","32","16"\n'
        ncu += '"1","stride 1/read(int *)","1024","32","256","1","72","32","16"\n"2","other/x(int)","3","0","1","0","0","0","1"\n'
        counts = profile_tool.counted(profile_tool.lines_of(ncu))
        self.assertEqual(counts, {("stride 1", "ld"): 4, ("stride 1", "st"): 32, ("other", "ld"): 3,
                                  ("stride 1", "shared"): 6, ("other", "shared"): 0})
        saved = [("stride", "t", "1", "sectors/request", 4.0, 4.0, 4.0), ("stride", "t", "other", "load", 5.0, 5.0, 5.0),
                 ("offset", "t", "1", "load", 9.0, 9.0, 9.0)]
        self.assertEqual(profile_tool.compared("stride", saved, counts),
                         [("stride 1", "sectors/request", 4.0, 4.0), ("other", "load", 5.0, 3.0)])
        self.assertFalse(profile_tool.same(5.0, 3.0))
        more = [{"Kernel Name": "tile/x(int)", "lts__t_sectors_srcunit_tex_op_read.sum": "1,024", "dram__sectors_read.sum": "7",
                 "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed": "93.86",
                 profile_tool.COUNTER % ("requests", "ld"): "64", profile_tool.COUNTER % ("requests", "st"): "0"}]
        self.assertEqual(profile_tool.told(more), [("tile", "L2 sectors read per load", 16.0), ("tile", "sectors from memory", 7.0),
                                                   ("tile", "L2 lookups, % of peak", 93.86)])

    def test_bad_command_lines_end_with_one_line(self):
        for arguments in ([], ["missing"], ["--counts"], ["--counts", "missing"]):
            done = subprocess.run([TOOLS / "profile.py", *arguments], text=True, capture_output=True)
            self.assertEqual(done.returncode, 1)
            self.assertNotIn("Traceback", done.stderr)


class Machines(InAFolder):
    """What is met on other machines: programs that are made up stand in front of the real ones."""

    def program(self, name, text):
        path = self.file("bin/" + name, "#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def run_in_front(self, command, **more):
        environment = {**os.environ, "PATH": "%s:%s" % (self.folder / "bin", os.environ["PATH"]), **more}
        return subprocess.run(command, text=True, capture_output=True, env=environment)

    def architectures(self, gpus):
        nvcc = self.program("nvcc", "printf 'sm_75\\nsm_86\\nsm_90\\n'\n")
        self.program("nvidia-smi", "printf '%s'\n" % gpus)
        script = self.file("x.cmake", "cmake_minimum_required(VERSION 3.25)\ninclude(\"%s\")\n" % (TOOLS.parent / "cmake" / "architectures.cmake"))
        done = self.run_in_front(["cmake", "-P", script], CUDACXX=str(nvcc), CUDAARCHS="")
        return " ".join((done.stdout + done.stderr).split())

    @unittest.skipUnless(shutil.which("cmake"), "needs cmake")
    def test_the_code_is_for_the_gpus_that_are_here(self):
        self.assertIn("CUDA architectures: 90 (the GPU in this machine)", self.architectures("9.0\\n"))
        self.assertIn("CUDA architectures: 90;75 (", self.architectures("9.0\\n7.5\\n9.0\\n"))
        for unknown in ("", "12.1\\n", "NVIDIA-SMI has failed\\n"):
            said = self.architectures(unknown)
            self.assertIn("CUDA architectures: 75 (no GPU that this toolkit knows is here: one portable build)", said)
            self.assertNotIn("too old", said)

    @unittest.skipUnless(shutil.which("cmake"), "needs cmake")
    def test_a_gpu_too_old_for_the_toolkit(self):
        self.assertIn("of compute capability 6.1, is too old for this toolkit, which begins at 7.5: it takes CUDA 12", self.architectures("6.1\\n"))
        self.assertIn("it takes CUDA 11", self.architectures("3.7\\n"))
        self.assertNotIn("too old", self.architectures("6.1\\n8.6\\n"))

    @unittest.skipUnless(shutil.which("cmake"), "needs cmake")
    def test_clang_as_the_cuda_compiler(self):
        script = self.file("x.cmake", "cmake_minimum_required(VERSION 3.25)\ninclude(\"%s\")\n" % (TOOLS.parent / "cmake" / "architectures.cmake"))
        done = self.run_in_front(["cmake", "-P", script], CUDACXX="/usr/bin/clang++")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the samples are compiled by nvcc, not by clang", " ".join(done.stderr.split()))

    def test_counters_that_are_forbidden(self):
        self.program("ncu", "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'\necho '==WARNING== No kernels were profiled.'\n")
        topic = self.program("topic", "echo stride\n")
        done = self.run_in_front([TOOLS / "profile.py", topic])
        self.assertIn("stride: nothing was counted: ==ERROR== ERR_NVGPUCTRPERM", done.stdout)
        self.assertEqual(done.returncode, 1)

    def test_packages_that_are_too_old(self):
        needed = "sh cmake ninja g++ git python3 nvcc sed sort head paste id tr cat".split()
        found = {name: shutil.which(name, path=os.environ["PATH"] + ":/usr/local/cuda/bin") for name in needed}
        if None in found.values():
            self.skipTest("not all of these are here: %s" % needed)
        (self.folder / "few").mkdir()
        for name, path in found.items():  # no apt-get: nothing is installed
            (self.folder / "few" / name).symlink_to(path)
        self.file("old/cxxopts.hpp", "#define CXXOPTS__VERSION_MAJOR 3\n#define CXXOPTS__VERSION_MINOR 0\n#define CXXOPTS__VERSION_PATCH 0\n")
        self.file("old/doctest/doctest.h", "#define DOCTEST_VERSION_MAJOR 2\n#define DOCTEST_VERSION_MINOR 4\n#define DOCTEST_VERSION_PATCH 8\n")
        done = subprocess.run([TOOLS / "install_packages.sh"], text=True, capture_output=True,
                              env={"PATH": str(self.folder / "few"), "CPATH": str(self.folder / "old")})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("cxxopts 3.0.0 is here; CMake fetches a newer one", done.stdout)
        self.assertIn("doctest 2.4.8 is here; CMake fetches a newer one", done.stdout)

    def test_an_input_is_not_overwritten(self):
        saved = self.file("x.csv", SAVED)
        done = subprocess.run([TOOLS / "report.py", "--output", saved, saved], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr.count("\n"), saved.read_text()), (1, 1, SAVED))

    def test_python_3_8_will_do(self):
        for tool in TOOLS.glob("*.py"):
            ast.parse(tool.read_text(encoding="utf-8"), feature_version=(3, 8))
            self.assertNotRegex(tool.read_text(encoding="utf-8"), r"\.remove(pre|suf)fix\(|return \w+ \| \{")
        done = subprocess.run([sys.executable, "-c", "import sys; sys.version_info = (3, 7, 9); import results"], text=True, capture_output=True, cwd=TOOLS)
        self.assertEqual((done.returncode, done.stderr), (1, "Python 3.8 or later is needed; this is 3.7\n"))

    def test_the_notebook_shows_pages_by_themselves(self):
        notebook = json.loads((TOOLS.parent / "docs" / "colab.ipynb").read_text(encoding="utf-8"))
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        given = {}
        exec(next(cell for cell in cells if "def by_itself" in cell).split("\ndisplay(")[0].replace("from IPython.display import", "#"), given)
        for page in TOOLS.parent.glob("0?_*/README.md"):
            text = given["by_itself"](page, "https://example.org/samples")
            self.assertEqual(text.count("(data:image/svg+xml;base64,"), len(re.findall(r"!\[", page.read_text(encoding="utf-8"))))
            self.assertEqual(re.findall(r"\]\((?!https?:|data:|#)[^)\s]*\)", text), [])
            fences = [re.findall(r"(?ms)^```.*?^```", of) for of in (text, page.read_text(encoding="utf-8"))]
            self.assertEqual(*fences)


class Pages(InAFolder):
    CODE = """// ---- kernels ----

// Reads.
// Twice.
template <class T>
__global__ void read(const T* in) {
  if (in) {
    in[0];
  }
}
void one() { read(nullptr); }
#define SIZE 7
"""

    def test_code_by_name(self):
        path = self.file("x.cu", self.CODE)
        self.assertEqual(pages.function(path, "read"), self.CODE[self.CODE.index("// Reads"):self.CODE.index("void one")].strip())
        self.assertEqual(pages.function(path, "one"), "void one() { read(nullptr); }")
        self.assertEqual(pages.function(path, "SIZE"), "#define SIZE 7")
        with self.assertRaises(pages.Stale):
            pages.function(path, "write")

    def test_output_by_experiment_and_words(self):
        self.file("results/nvidia-h100-80gb-hbm3.txt", "x on H200, y\n\n== a: t\n  one  1\n  two\n\n  three\n\n== b: u\n  four\n\nclaims: z\n")
        self.assertEqual(pages.output(self.folder, "a", ""), "== a: t\n  one  1\n  two\n\n  three")
        self.assertEqual(pages.output(self.folder, "a", "two"), "== a: t\n  two")
        self.assertEqual(pages.output(self.folder, "b", "four"), "== b: u\n  four")
        self.assertEqual(pages.output(self.folder, "a", "one", rows=["two"]), "== a: t\n  one  1\n  two")
        for experiment, words, rows in (("a", "four", ()), ("c", "", ()), ("a", "one", ["three"])):
            with self.assertRaises(pages.Stale):
                pages.output(self.folder, experiment, words, rows=rows)

    def test_a_long_block_is_folded(self):
        self.assertEqual(pages.block_of("== a: t\n  1"), "```text\n== a: t\n  1\n```\n")
        self.assertIn("<details><summary>The numbers: a: &lt;t&gt;</summary>", pages.block_of("== a: <t>" + "\n  1" * 8))

    def test_blocks_are_filled_and_stale_ones_seen(self):
        self.file("x.cu", self.CODE)
        page = self.file("README.md", "a\n<!-- code: x.cu one -->\nold\n<!-- end -->\nb\n")
        text = pages.filled(page)
        self.assertEqual(text, "a\n<!-- code: x.cu one -->\n```cpp\nvoid one() { read(nullptr); }\n```\n<!-- end -->\nb\n")
        page.write_text(text)
        self.assertEqual(pages.filled(page), text)

    def test_claims_of_a_run(self):
        text = "a on b\n\n== x: t\n  05.1a  holds, weaker: it is so\n         here: 1.5x\n         source: [LC 1] 2 times\n"
        path = self.file("x.txt", text)
        self.assertEqual(pages.claims(path), {"05.1a": ("holds, weaker", "it is so", "1.5x", "[LC 1] 2 times", "x")})
        wrapped = text.replace("here: 1.5x", "here: 1.5x as fast:\n               'a' over 'b'")
        self.assertEqual(pages.claims(self.file("x.txt", wrapped))["05.1a"][2], "1.5x as fast: 'a' over 'b'")
        with self.assertRaises(pages.Stale):
            pages.claims(self.file("x.txt", text + text[text.index("  05"):]))

    def test_what_a_line_of_the_verdicts_says(self):
        self.assertEqual(pages.of_source("[LC 1], [PR 2] 77 times"), ("[LC 1], [PR 2]", "77 times"))
        self.assertEqual(pages.of_source("[KP]"), ("[KP]", "-"))
        self.assertEqual(pages.brief("1.94x [1.93, 1.96] as fast: 'a' over 'b'; at its ends holds, and holds, weaker"), "1.94x as fast: 'a' over 'b'")
        self.assertEqual(pages.whys("| [01.2](x#y) | a | - | b | **holds** | The cause. |\n| [01.3a](x#y) | a | - | b | **holds** |  |\n"),
                         {"01.2": "The cause.", "01.3a": ""})
        of = {"1": ("holds",), "2": ("computed, holds",), "3": ("no longer",), "4": ("counted, holds, weaker",), "5": ("holds, weaker",)}
        self.assertEqual(list(pages.sums(of)), ["3 are measured: 1 holds, 1 more weakly than stated, 1 no longer holds", "1 is computed: 1 holds",
                                                "1 is counted: 1 more weakly than stated"])

    def test_dead_links(self):
        self.file("b.md", "## What `is` it?\n")
        page = self.file("a.md", "[x](b.md#what-is-it) [y](b.md#no) [z](c.md) [w](https://example.org)\n")
        self.assertEqual(list(pages.dead_links(page)), ["no heading b.md#no", "no file c.md"])

    def test_rows_of_the_texts(self):
        self.file("x.cu", self.CODE)
        head = "| the text's words | file and kernel | section | H100 |\n|---|---|---|---|\n"
        row = "| \"words\" | [x.cu](x.cu) `%s`, [y.cu](y.cu) `read` | [x](#x) | %s |\n"
        page, printed = self.folder / "TEXTS.md", {"01.1", "01.2a"}
        self.file("y.cu", self.CODE)
        wrong = lambda *rows: page.write_text(head + "".join(rows)) and list(pages.wrong_rows(page, printed))
        right = row % ("read", "01.1 **holds**: the cause<br>01.2a")
        self.assertEqual(wrong(right, row % ("SIZE", "-"), row % ("one", "not measured: no"), row % ("one", "shown")), [])
        self.assertEqual(wrong(right, row % ("rea", "-")), ["line 4: no rea in x.cu"])
        self.assertEqual(wrong(right, "| a | `read` | - | - |\n"), ["line 4: no read in no file"])
        self.assertEqual(wrong(right, row % ("read", "01.3 holds")), ["line 4: 01.3 is no claim"])
        self.assertEqual(wrong(row % ("read", "01.1")), ["no row has 01.2a"])
        self.assertEqual(wrong(right, row % ("read", "holds")), ["line 4 has no verdict: holds"])
        self.assertEqual(wrong(right, "| a | b | c |\n"), ["line 4 has 3 cells, not 4"])

    def test_numbers_of_gpus(self):
        head = "# 04_bandwidth on NVIDIA %s, compute capability 9.0, CUDA 13.0, 2026-11-28\nexperiment,table,row,column,value,low,high\n"
        self.file("04_bandwidth/results/h.csv", head % "H" + "peak,1 GiB,read,GB/s,3000,2,4\npeak,4 GiB,read,GB/s,3218.4,2,4\n")
        self.file("04_bandwidth/results/x.csv", head % "X" + "peak,1 GiB,write,GB/s,54.64,2,4\n")
        page = self.file("GPUS.md", "a\n<!-- measured -->\nold\n<!-- end -->\nb\n")
        root, pages.ROOT = pages.ROOT, self.folder
        try:
            lines = pages.gpus(page).splitlines()
        finally:
            pages.ROOT = root
        self.assertEqual((lines[0], lines[2], lines[-1]), ("a", "| | NVIDIA X, 2026-11-28 | NVIDIA H, 2026-11-28 |", "b"))
        cells = {line.split(" ([")[0]: line.rsplit(") ", 1)[1] for line in lines if "](" in line}
        self.assertEqual(cells["| GB/s, a kernel reads"], "| - | 3218 |")
        self.assertEqual(cells["| GB/s, a kernel writes"], "| 54.6 | - |")


class MachineCode(unittest.TestCase):
    SASS = """
	code for sm_90
		Function : _ZN45_GLOBAL__N__01c0749c_12_read_only_cu_d1ca8a185plain10copyKernelEPiS1_m
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;             /* 0x00000a00ff017b82 */
                                                                      /* 0x000fe20000000800 */
        /*0010*/                   LDG.E R3, desc[UR4][R2.64] ;       /* 0x0000000402037981 */
        /*0020*/              @!P0 LDG.E.128.CONSTANT R4, [R2] ;      /* 0x0000000402037981 */
        /*0030*/              @P0 EXIT ;                              /* 0x000000000000794d */
        /*0040*/                   NOP;                               /* 0x0000000000007918 */
		Function : _Z8read_ldgIXadL_ZNS_8in_orderEmmEEEEvPfPKfm
        /*0000*/                   LDGSTS.E [R1], [R2.64] ;           /* 0x0000000402037981 */
        /*0010*/                   TLD.B.LZ.P R9, R8, R2 ;            /* 0x0000000402037981 */
        /*0020*/                   LDS R1, [R0] ;                     /* 0x0000000402037981 */
        /*0030*/                   LDL.64 R2, [R1] ;                  /* 0x0000000402037981 */
"""

    def test_loads_and_instructions(self):
        kernels = list(machine_code.kernels_in(self.SASS))
        self.assertEqual([(name, len(code)) for name, code in kernels], [("plain::copyKernel", 4), ("read_ldg", 4)])
        self.assertEqual([machine_code.loads_in(code) for _, code in kernels], ["1 plain, 1 read-only", "1 fetches, 1 shared, 1 local"])
        self.assertEqual(machine_code.loads_in(["LDG.E.CI", "LDG.E.SYS", "LD.E"]), "1 plain, 1 read-only, 1 generic")
        self.assertEqual(machine_code.loads_in(["ATOMS.ADD", "RED.E.ADD", "REDG.E.ADD", "REDUX.SUM"]), "3 atomics")
        self.assertEqual(machine_code.name_of("main"), "main")

    def test_what_is_stated(self):
        kernels = [("a", ["LDG.E"]), ("a", ["LDG.E.CONSTANT"]), ("b", ["LDG.E"])]
        wrong = lambda *stated: list(machine_code.differences(kernels, stated))
        self.assertEqual(wrong(("b", "1 plain")), [])
        self.assertEqual(wrong(("b", "1 read-only")), ["b: 1 plain, stated: 1 read-only"])
        self.assertEqual(wrong(("a", "1 plain"), ("c", "1 plain")),
                         ["a: 1 plain and 1 read-only, stated: 1 plain", "c: not there, stated: 1 plain"])

    def test_errors_are_one_line(self):
        for arguments, code in (([], 2), (["--help"], 2), (["x", "--stated"], 2), (["/no/such/file"], 1)):
            run = subprocess.run([sys.executable, TOOLS / "machine_code.py", *arguments], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stderr.count("\n"), run.stdout), (code, 1, ""))


if __name__ == "__main__":
    unittest.main()
