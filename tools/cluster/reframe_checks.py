"""ReFrame tests of the samples: their self-checks, and some of their measurements beside those of recorded GPUs.

    reframe -c tools/cluster/reframe_checks.py -r -S samples=PREFIX

CLUSTER.md beside this file says what a test does without a GPU, and where the references come from.
"""
import pathlib
import re
import shlex
import sys

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_before, sanity_function, variable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import records

# of each topic: the experiment that is run, and the rows that ReFrame reports, by their metric and place in a sweep
WATCHED = {
    "01_memory_model": ("latency", "latency", ""),
    "02_memory_management": ("transfer", "bandwidth", "16777216"),
    "03_access_patterns": ("structs", "time", ""),
    "04_bandwidth": ("peak", "rate", "4096"),
    "05_unified_memory": ("managed", "rate", ""),
    "06_shared_reduce": ("ladder", "bandwidth", ""),
    "07_texture_readonly": ("locality", "rate", ""),
}
SKIPPED = 77


def watched(topic, found):
    """The rows that are reported, by their names in ReFrame."""
    rows = [r for r in found if (r["experiment"], r["metric"], r["at"]) == WATCHED[topic]
            and r["kind"] in ("measured", "calibration") and r["value"]]
    return {re.sub(r"\W+", "_", r["case"]).strip("_"): r for r in rows}


def recorded(topic, gpu):
    """The same of a recorded GPU; nothing if it was not recorded."""
    path = ROOT / topic / "results" / f"{records.slug(gpu)}.csv"
    return watched(topic, records.load(path)) if path.exists() else {}


def reference(row, margin):
    """ReFrame's reference: the recorded value, and how much worse than the recorded range a value may be. A rate may be
    higher, and a time shorter, by any amount."""
    value, low, high = (float(row[name] or row["value"]) for name in ("value", "low", "high"))
    if row["unit"] == "GB/s":
        return value, max(-1.0, low / value - 1 - margin), None, row["unit"]
    return value, None, high / value - 1 + margin, row["unit"]


class CudaMemory(rfm.RunOnlyRegressionTest):
    """One sample on one GPU."""

    topic = parameter(sorted(WATCHED))
    samples = variable(str, value="")  # an install prefix or a build folder; empty: the samples are on PATH
    require_gpu = variable(bool, value=False)  # whether no GPU is a failure

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_gpus_per_node = 1
    time_limit = "10m"
    postrun_cmds = ["echo $? >exit_code"]  # not every scheduler reports it

    @run_before("run")
    def find_the_sample(self):
        name = f"cuda_memory_{self.topic}"
        self.executable = name
        if self.samples:
            folder = pathlib.Path(self.samples).resolve()
            places = [folder / "bin" / name, folder / name, folder / self.topic / self.topic]
            self.executable = shlex.quote(str(next((place for place in places if place.exists()), places[0])))
        if self.require_gpu:
            self.env_vars["SAMPLES_REQUIRE_GPU"] = "1"  # for --self-check

    @run_before("sanity")
    def read_the_exit_code(self):
        stage = pathlib.Path(self.stagedir)
        self.code = int((stage / "exit_code").read_text())
        self.skip_if(self.code == SKIPPED, "every self-check lacks something, such as a GPU")

    @sanity_function
    def the_sample_ended_with_0(self):
        return sn.assert_eq(self.code, 0, "exit code {0}: see " + str(self.stderr))


@rfm.simple_test
class CudaMemorySelfCheck(CudaMemory):
    """Are the kernels right?"""

    executable_opts = ["--self-check"]


@rfm.simple_test
class CudaMemoryPerformance(CudaMemory):
    """Is the GPU as fast as a recorded one of the same name?"""

    margin = variable(float, value=0.05)  # by how much a value may be worse than the recorded range

    @run_before("run")
    def name_what_is_run(self):
        self.executable_opts = [WATCHED[self.topic][0], "--csv", "results.csv", *["--require-gpu"] * self.require_gpu]

    @run_before("performance")
    def read_the_results(self):
        found = records.load(pathlib.Path(self.stagedir) / "results.csv")
        gpu = next((r["gpu"] for r in found if r["gpu"]), "")
        self.skip_if(not gpu, "no GPU")
        past = recorded(self.topic, gpu)
        self.reference = {"*": {name: reference(row, self.margin) for name, row in past.items()}}
        self.perf_variables = {name: sn.make_performance_function(float, row["unit"], row["value"])
                               for name, row in watched(self.topic, found).items()}
