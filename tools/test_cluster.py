#!/usr/bin/env python3
"""Checks what runs the samples on clusters; needs no GPU. Run it: python3 tools/test_cluster.py -v

The samples are shell scripts. `ReFrame` is skipped where `reframe` is not on PATH (pip install reframe-hpc)."""
import ast
import json
import os
import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
import types
import unittest
from unittest import mock

TOOLS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS))

import records
import run_all_gpus
from test_tools import InFolder, run

ROOT = TOOLS.parent
TOPICS = sorted(path.parent.name for path in ROOT.glob("0?_*/main.cu"))
SAVES = """\
    #!/bin/sh
    echo "$CUDA_VISIBLE_DEVICES $SAMPLES_REQUIRE_GPU $*" >>"{folder}/calls"
    echo a table
    while [ $# -gt 0 ]; do
      [ "$1" != --csv ] || echo numbers >"$2"
      shift
    done
    """
TWO_GPUS = "GPU 0: NVIDIA H200 (UUID: GPU-aa)\nGPU 1: NVIDIA H200 (UUID: GPU-bb)\n"


class WithPrograms(InFolder):
    def program(self, name, text):
        path = self.write(name, text)
        path.chmod(0o755)
        return path


class RunAllGpus(WithPrograms):
    def setUp(self):
        super().setUp()
        self.saves = SAVES.format(folder=self.folder)
        self.results = self.folder / "of a node"
        self.environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin"}
        self.nvidia_smi(TWO_GPUS)

    def nvidia_smi(self, text, code=0):
        self.write("listed", text)
        self.program("bin/nvidia-smi", f'#!/bin/sh\n[ "$*" = -L ] && cat "{self.folder}/listed"\nexit {code}\n')

    def command(self, *arguments):
        return [sys.executable, TOOLS / "run_all_gpus.py", "--results", self.results, *arguments]

    def run_it(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, env=self.environment, timeout=60)

    def lines(self, done):
        """The lines of the runs, without seconds."""
        return [re.sub(r" +", " ", re.sub(r" \d+ s", "", line)).strip() for line in done.stdout.splitlines() if "UUID" not in line]

    def files(self):
        return sorted(path.name for path in self.results.iterdir())

    def test_every_sample_runs_on_every_gpu(self):
        for name in ("a build/01_one/01_one", "a build/02_two/02_two"):
            self.program(name, self.saves)
        (self.folder / "a build/03_not_built").mkdir()
        done = self.run_it(self.folder / "a build", "--", "--quick")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.lines(done), ["gpu0: NVIDIA H200, GPU-aa", "gpu1: NVIDIA H200, GPU-bb", "gpu0 01_one ok",
                                            "gpu0 02_two ok", "gpu1 01_one ok", "gpu1 02_two ok"])
        self.assertEqual(self.files(), [f"gpu{n}-{name}.{ending}" for n in (0, 1) for name in ("01_one", "02_two")
                                        for ending in ("csv", "txt")])
        self.assertEqual((self.results / "gpu1-02_two.txt").read_text(), "a table\n")
        self.assertEqual((self.folder / "calls").read_text().splitlines(),
                         [f"{gpu} 1 --require-gpu --csv {self.results}/gpu{n}-{name}.csv --quick"
                          for n, gpu in enumerate(("GPU-aa", "GPU-bb")) for name in ("01_one", "02_two")])

    def test_a_failure_a_skip_and_a_refusal_each_have_a_line(self):
        for name, text in (("cuda_memory_01_one", self.saves),
                           ("cuda_memory_02_fails", "echo made >gpu0.csv; echo said\necho 02: no memory >&2\nexit 1"),
                           ("cuda_memory_03_skips", "exit 77"),
                           ("cuda_memory_04_refuses", "echo '04: --x is no option' >&2; exit 2"),
                           ("cuda_memory_05_crashes", "kill -SEGV $$"),
                           ("cuda_memory_06_saves_nothing", "exit 0"),
                           ("cuda_memory_07_says_it_in_a_table", "echo all; echo 3 failed; exit 1")):
            self.program(f"P/bin/{name}", text if text.strip().startswith("#!") else f"#!/bin/sh\n{text}\n")
        self.nvidia_smi(TWO_GPUS.splitlines()[0] + "\n")
        for name in ("02_fails", "06_saves_nothing"):
            self.write(f"of a node/gpu0-{name}.csv", "of an earlier run\n")
        done = self.run_it(self.folder / "P")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.lines(done)[1:], [
            "gpu0 01_one ok", "gpu0 02_fails failed exit code 1: 02: no memory", "gpu0 03_skips skipped",
            "gpu0 04_refuses refused exit code 2: 04: --x is no option", "gpu0 05_crashes failed ended by signal 11",
            "gpu0 06_saves_nothing failed exit code 0, but it saved no gpu0-06_saves_nothing.csv",
            "gpu0 07_says_it_in_a_table failed exit code 1: 3 failed"])
        self.assertEqual([name for name in self.files() if name.endswith(".csv")], ["gpu0-01_one.csv"])
        self.assertEqual((self.results / "gpu0-02_fails.txt").read_text(), "said\n02: no memory\n")
        samples = self.folder / "P/bin"
        for names, code in (("01_one 03_skips", 0), ("03_skips", 77), ("01_one 03_skips 04_refuses", 2)):
            self.assertEqual(self.run_it(*[samples / f"cuda_memory_{name}" for name in names.split()]).returncode, code)

    def test_what_cannot_be_executed_is_a_failure(self):
        done = self.run_it(self.program("01 one", "#!/no/such/shell\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("No such file or directory", done.stdout)

    def test_self_checks_leave_what_was_measured(self):
        sample = self.program("my sample", self.saves)
        self.write("of a node/gpu0-my sample.csv", "measured before\n")
        done = self.run_it("--self-check", sample, "--", "--test-case=sum: *")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.files(), ["gpu0-my sample-self-check.txt", "gpu0-my sample.csv", "gpu1-my sample-self-check.txt"])
        self.assertIn("GPU-bb 1 --self-check --test-case=sum: *\n", (self.folder / "calls").read_text())

    def test_a_run_that_takes_too_long_is_ended(self):
        hangs = self.program("01_hangs", f"#!/bin/sh\ntrap '' TERM\necho $$ >'{self.folder}/process'\nsleep 100 & wait; wait\n")
        self.nvidia_smi(TWO_GPUS.splitlines()[0] + "\n")
        done = self.run_it("--seconds", "1", hangs)  # and 10 s, because it ignores the first signal
        self.assertEqual(done.returncode, 1)
        self.assertIn("took longer than 1 s", done.stdout)
        self.assertFalse(self.alive())

    def alive(self):
        """Whether a process of the sample's group is still there, and is more than an entry in the system's table."""
        group = (self.folder / "process").read_text().strip()
        for _ in range(20):
            said = subprocess.run(["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True).stdout
            if not [line for line in said.splitlines() if line.split()[0] == group and line.split()[1][0] != "Z"]:
                return False
            time.sleep(0.1)
        return True

    def test_an_interrupt_leaves_nothing_behind(self):
        self.program("P/cuda_memory_01_one", self.saves)
        self.program("P/cuda_memory_02_two", f"#!/bin/sh\necho begun\necho $$ >'{self.folder}/process'\nsleep 100\n")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            (self.folder / "process").unlink(missing_ok=True)
            with subprocess.Popen(self.command(self.folder / "P"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=self.environment) as script:
                for _ in range(200):
                    if (self.folder / "process").exists() and (self.folder / "process").read_text().endswith("\n"):
                        break
                    time.sleep(0.05)
                script.send_signal(number)
                printed, said = script.communicate(timeout=30)
            self.assertEqual(script.returncode, 128 + number)
            self.assertEqual(said, f"ended by signal {int(number)}; 1 runs had ended before\n")
            self.assertEqual(len(printed.splitlines()), 3)
            self.assertEqual(self.files(), ["gpu0-01_one.csv", "gpu0-01_one.txt"])
            self.assertFalse(self.alive())
        (self.folder / "P/cuda_memory_01_one").unlink()
        shutil.rmtree(self.results)
        (self.folder / "process").unlink()
        with subprocess.Popen(self.command(self.folder / "P"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=self.environment) as script:
            while not (self.folder / "process").exists():
                time.sleep(0.05)
            script.send_signal(signal.SIGINT)
        self.assertFalse(self.results.exists())

    def test_without_a_gpu_it_is_skipped_unless_one_is_required(self):
        sample = self.program("01_one", self.saves)
        self.nvidia_smi("No devices found.\n", 6)
        self.assertEqual(self.run_it(sample).returncode, 77)
        self.assertEqual(self.run_it("--require-gpu", sample).returncode, 1)
        (self.folder / "bin/nvidia-smi").unlink()
        done = self.run_it(sample)
        self.assertEqual((done.returncode, done.stdout), (77, "skipped: no GPU on this node\n"))
        self.assertFalse(self.results.exists())

    def test_an_nvidia_smi_that_fails_is_a_failure(self):
        self.nvidia_smi("Failed to initialize NVML: Driver/library version mismatch\n", 18)
        done = self.run_it(self.program("01_one", self.saves))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "run_all_gpus.py: nvidia-smi -L names no GPU (exit code 18): Failed to initialize NVML: "
                                      "Driver/library version mismatch\n")
        self.program("bin/nvidia-smi", "#!/bin/sh\nexec sleep 100\n")
        done = self.run_it("--seconds", "1", self.folder / "01_one")
        self.assertEqual((done.returncode, done.stderr), (1, "run_all_gpus.py: nvidia-smi -L took longer than 1 s\n"))

    def test_the_gpus_that_a_scheduler_gave_are_the_only_ones(self):
        sample = self.program("01_one", self.saves)
        for given, used in (("3", ["3"]), ("1, GPU-bb", ["1", "GPU-bb"]), ("0,-1,2", ["0"])):
            self.environment["CUDA_VISIBLE_DEVICES"] = given
            (self.folder / "calls").unlink(missing_ok=True)
            self.assertEqual(self.run_it(sample).returncode, 0)
            self.assertEqual([line.split()[0] for line in (self.folder / "calls").read_text().splitlines()], used)
        for none in ("", "-1", "NoDevFiles"):
            self.environment["CUDA_VISIBLE_DEVICES"] = none
            self.assertEqual(self.run_it(sample).returncode, 77)

    def test_a_divided_gpu_stands_as_its_parts(self):
        text = ("GPU 0: NVIDIA H200 (UUID: GPU-aa)\n  MIG 1g.18gb     Device  0: (UUID: MIG-a1)\n"
                "  MIG 3g.71gb     Device  1: (UUID: MIG-a2)\nGPU 1: NVIDIA H200 (UUID: GPU-bb)\n")
        self.assertEqual(run_all_gpus.listed(text), [("NVIDIA H200, MIG 1g.18gb", "MIG-a1"),
                                                     ("NVIDIA H200, MIG 3g.71gb", "MIG-a2"), ("NVIDIA H200", "GPU-bb")])

    def test_wrong_command_lines(self):
        sample = self.program("01_one", self.saves)
        (self.folder / "empty").mkdir()
        for wrong in ([], [self.folder / "empty"], [self.folder / "none"], [sample, sample], ["--seconds", "0", sample],
                      [self.write("no program", "")]):
            self.assertEqual(self.run_it(*wrong).returncode, 2)
        self.assertFalse(self.results.exists())


def watched():
    """WATCHED of reframe_checks.py, which cannot be imported without ReFrame."""
    tree = ast.parse((TOOLS / "cluster/reframe_checks.py").read_text(encoding="utf-8"))
    return next(ast.literal_eval(node.value) for node in tree.body
                if isinstance(node, ast.Assign) and node.targets[0].id == "WATCHED")


class Watched(unittest.TestCase):
    def test_each_topic_and_each_recorded_gpu_has_the_rows(self):
        self.assertEqual(list(watched()), TOPICS)
        for topic, where in watched().items():
            for gpu in ("nvidia-h200", "nvidia-h100-80gb-hbm3"):
                rows = [r for r in records.load(ROOT / topic / f"results/{gpu}.csv")
                        if (r["experiment"], r["metric"], r["at"]) == where and r["kind"] in ("measured", "calibration")]
                self.assertGreater(len(rows), 4, f"{topic} {gpu}")
                self.assertTrue(all(r["value"] and r["low"] for r in rows), f"{topic} {gpu}: a row has no range")


@unittest.skipUnless(shutil.which("reframe"), "reframe is missing: pip install reframe-hpc")
class ReFrame(WithPrograms):
    """The tests, run by ReFrame's local scheduler. A sample saves what an H200 gave, or that with changes."""

    def samples(self, factor=1.0, gpu="NVIDIA H200", self_check="exit 77", measure=""):
        """Rates are multiplied by the factor, and times are divided by it."""
        for topic, (_, metric, _) in watched().items():
            found = records.load(ROOT / topic / "results/nvidia-h200.csv")
            for r in found:
                r["gpu"] = r["gpu"] and gpu
                if r["metric"] == metric and r["value"]:
                    r["value"] = str(float(r["value"]) * (factor if r["unit"] == "GB/s" else 1 / factor))
            records.save(self.folder / f"{topic}.csv", found)
            self.program(f"a P/bin/cuda_memory_{topic}", f"""\
                #!/bin/sh
                [ "$1" != --self-check ] || {{ {self_check}; }}
                {measure or 'true'}
                cp "{self.folder}/{topic}.csv" "$3"
                """)

    def run_it(self, *options):
        """The exit code, and of each test its result and its values."""
        report = self.folder / "report.json"
        command = ["reframe", "--prefix", self.folder, "--report-file", report, "--nocolor",
                   "-c", TOOLS / "cluster/reframe_checks.py", "-r", "-S", f"samples={self.folder / 'a P'}", *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, "HOME": str(self.folder), "TMPDIR": str(self.folder)})
        cases = json.loads(report.read_text())["runs"][-1]["testcases"]
        return done.returncode, {case["display_name"].replace(" %topic=", " "): case for case in cases}

    def results(self, cases, test):
        return {case["result"] for name, case in cases.items() if name.startswith(test)}

    def test_what_an_h200_gave_passes_beside_itself(self):
        self.samples()
        code, cases = self.run_it()
        self.assertEqual((code, len(cases)), (0, 2 * len(TOPICS)))
        self.assertEqual(self.results(cases, "CudaMemorySelfCheck"), {"skip"})
        self.assertEqual(self.results(cases, "CudaMemoryPerformance"), {"pass"})
        values = cases["CudaMemoryPerformance 04_bandwidth"]["perfvalues"]
        recorded = [r for r in records.load(ROOT / "04_bandwidth/results/nvidia-h200.csv")
                    if (r["experiment"], r["case"], r["metric"], r["at"]) == ("peak", "read", "rate", "4096")]
        value, reference, lower, upper, unit = values["generic:default:read"][:5]
        self.assertEqual((value, reference, upper, unit), (float(recorded[0]["value"]),) * 2 + (None, "GB/s"))
        self.assertAlmostEqual(lower, float(recorded[0]["low"]) / value - 1.05)

    def test_a_slower_gpu_fails_and_a_faster_one_does_not(self):
        self.samples(factor=0.5)
        code, cases = self.run_it("-n", "CudaMemoryPerformance")
        self.assertEqual((code, self.results(cases, "")), (1, {"fail"}))
        self.assertEqual({case["fail_phase"] for case in cases.values()}, {"performance"})
        self.samples(factor=1.5)
        code, cases = self.run_it("-n", "CudaMemoryPerformance")
        self.assertEqual((code, self.results(cases, "")), (0, {"pass"}))

    def test_a_gpu_that_was_not_recorded_has_values_and_no_references(self):
        self.samples(factor=0.1, gpu="Some GPU", self_check="exit 0")
        code, cases = self.run_it("-n", "04_bandwidth")
        self.assertEqual((code, self.results(cases, "")), (0, {"pass"}))
        self.assertEqual(cases["CudaMemoryPerformance 04_bandwidth"]["perfvalues"]["generic:default:read"][1], 0)

    def test_without_a_gpu_both_are_skipped(self):
        self.samples(gpu="")
        code, cases = self.run_it("-n", "04_bandwidth")
        self.assertEqual((code, self.results(cases, "")), (0, {"skip"}))

    def test_a_required_gpu_that_is_missing_and_a_wrong_result_are_failures(self):
        self.samples(gpu="", self_check='[ "$SAMPLES_REQUIRE_GPU" != 1 ] || exit 1; exit 77',
                     measure='[ "$4" != --require-gpu ] || exit 1')
        code, cases = self.run_it("-n", "04_bandwidth", "-S", "require_gpu=1")
        self.assertEqual((code, self.results(cases, "")), (1, {"fail"}))
        self.assertEqual({case["fail_phase"] for case in cases.values()}, {"sanity"})


class Spack(unittest.TestCase):
    """The package file, executed with stand-ins for Spack's modules."""

    def test_the_package_agrees_with_the_build(self):
        said = []

        def directive(name):
            return lambda *arguments, **options: said.append((name, *arguments, options))

        package_module = types.ModuleType("spack.package")
        for name in ("version", "variant", "conflicts", "depends_on"):
            setattr(package_module, name, directive(name))
        modules = {"spack": types.ModuleType("spack"), "spack.package": package_module}
        for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
            modules[name] = types.ModuleType(name)
        for name, base in (("cmake", "CMakePackage"), ("cuda", "CudaPackage")):
            module = modules[f"spack_repo.builtin.build_systems.{name}"] = types.ModuleType(name)
            setattr(module, base, type(base, (), {}))
        folder = TOOLS / "cluster/spack_repo/cuda_memory_measured"
        self.assertIn(f"namespace: {folder.name}\n", (folder / "repo.yaml").read_text())
        with mock.patch.dict(sys.modules, modules):
            found = runpy.run_path(str(folder / "packages/cuda_memory_measured/package.py"))
        self.assertEqual(found["TOPICS"], TOPICS)
        package = found["CudaMemoryMeasured"]
        self.assertEqual(package.git, ROOT.as_uri())
        self.assertEqual(package.sanity_check_is_file, [f"bin/cuda_memory_{topic}" for topic in TOPICS])

        needed = [call[1] for call in said if call[0] == "depends_on"]
        build = (ROOT / "cmake/sample.cmake").read_text(encoding="utf-8")
        for name, pattern in (("cuda", r"CUDAToolkit ([\d.]+)"), ("cxxopts", r"cxxopts ([\d.]+)"), ("doctest", r"doctest ([\d.]+)")):
            self.assertIn(f"{name}@{re.search('find_package.' + pattern, build)[1]}:", needed)
        least = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertIn(f"cmake@{least[1]}:", needed)

        made = package()
        made.spec = types.SimpleNamespace(variants={"cuda_arch": types.SimpleNamespace(value=("90",))})
        made.define = made.define_from_variant = lambda name, _: name
        self.assertEqual(made.cmake_args(), ["CMAKE_CUDA_ARCHITECTURES", "BUILD_TESTING"])


class Page(unittest.TestCase):
    def test_links_lead_somewhere_and_it_is_short(self):
        page = TOOLS / "cluster/CLUSTER.md"
        done = run("pages.py", "--check", page)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertLess(len(page.read_text(encoding="utf-8").split()), 600)


class Licence(unittest.TestCase):
    def test_what_is_installed_says_the_same_as_the_front_page(self):
        none_yet = "No licence has been chosen yet." in (ROOT / "README.md").read_text(encoding="utf-8")
        self.assertEqual("none has been chosen yet" in (ROOT / "cmake/INSTALLED.txt").read_text(encoding="utf-8"), none_yet)
        self.assertEqual(any(ROOT.glob("LICEN[CS]E*")), not none_yet)


if __name__ == "__main__":
    unittest.main()
