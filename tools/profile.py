#!/usr/bin/env python3
"""Counts a topic's launches with Nsight Compute, beside what the program predicts: sectors per request of a warp,
and wavefronts of shared memory per block.

    tools/profile.py [--counts] build/release/04_bandwidth/04_bandwidth [experiment ...]

Each piece of work that is checked stands in an NVTX range with its name. Where counters are forbidden ncu says so:
https://developer.nvidia.com/ERR_NVGPUCTRPERM. The exit code is 1 if a count differs by more than 1%, or nothing was counted.
With --counts it also prints what only a counter can tell, as a sample keeps it in a table of Count: sectors that L1 reads from the
L2 per load, requests that it writes to the L2 per store, sectors read from memory, and how near to their peak the L2's lookups are.
"""
import csv
import os
import shutil
import subprocess
import sys
import tempfile

import results

COUNTER = "l1tex__t_%s_pipe_lsu_mem_global_op_%s.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_%s.sum"
TOLD = {  # what only a counter can tell: its counter, and of which requests it is shown
    "L2 sectors read per load": ("lts__t_sectors_srcunit_tex_op_read.sum", "ld"),
    "L2 requests written per store": ("lts__t_requests_srcunit_tex_op_write.sum", "st"),
    "sectors from memory": ("dram__sectors_read.sum", None),
    "L2 lookups, % of peak": ("lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed", None)}
PREDICTED = {"load": "ld", "store": "st", "sectors/request": "ld", "wavefronts": "shared"}  # a table's column: what it predicts


def lines_of(output):
    """ncu's table of a run: [{column: text}], without the line of units."""
    rows = list(csv.reader(line for line in output.splitlines() if line.startswith('"')))
    return [dict(zip(rows[0], row)) for row in rows[2:]]


def counted(rows):
    """{(work, "ld" or "st"): sectors per request} of all launches with that name, {(work, "shared"): wavefronts per block}.

    Of wavefronts the launch with the fewest: where many blocks share a multiprocessor the counter shows a few percent more."""
    sums, shared = {}, {}
    for row in rows:
        value = lambda name: float(row[name].replace(",", ""))
        work = row["Kernel Name"].rpartition("/")[0]  # "stride 1/read_stride(unsigned int *, ...)"
        for op in ("ld", "st"):
            sums.setdefault((work, op), [0, 0])
            for i, what in enumerate(("sectors", "requests")):
                sums[work, op][i] += value(COUNTER % (what, op))
        wavefronts = (value(WAVEFRONTS % "ld") + value(WAVEFRONTS % "st")) / value("launch__grid_size")
        shared[work, "shared"] = min(wavefronts, shared.get((work, "shared"), wavefronts))
    return {**shared, **{key: sectors / requests for key, (sectors, requests) in sums.items() if requests}}


def told(rows):
    """[(work, what, number)] of each piece of work, of its first launch."""
    found = {}
    for row in rows:
        value = lambda name: float(row[name].replace(",", ""))
        work = row["Kernel Name"].rpartition("/")[0]
        for what, (counter, op) in TOLD.items():
            requests = value(COUNTER % ("requests", op)) if op else 1
            if requests and counter in row:
                found.setdefault((work, what), value(counter) / requests)
    return [(*key, number) for key, number in found.items()]


def compared(experiment, saved, counts):
    """[(work, column, predicted, counted)]: a row's work has the row's name, or the experiment's and the row's."""
    pairs = []
    for of, _, row, column, value, _, _ in saved:
        for work in (row, experiment + " " + row):
            if of == experiment and column in PREDICTED and (work, PREDICTED[column]) in counts:
                pair = (work, column, value, counts[work, PREDICTED[column]])
                if pair not in pairs:
                    pairs.append(pair)
    return pairs


def why(output):
    """What ncu says where it counts nothing: its first error, else its last line."""
    lines = output.strip().splitlines() or ["ncu says nothing"]
    return next((line for line in lines if "ERROR" in line), lines[-1])


def profile(program, experiment, folder, tell):
    """Prints one experiment's counts; (how many were compared, how many differ). tell: also those that nothing predicts."""
    saved = os.path.join(folder, "saved.csv")
    metrics = ",".join([COUNTER % (what, op) for what in ("sectors", "requests") for op in ("ld", "st")] +
                       [WAVEFRONTS % op for op in ("ld", "st")] + ["launch__grid_size"] + [counter for counter, _ in TOLD.values()] * tell)
    done = subprocess.run(["ncu", "--csv", "--page", "raw", "--clock-control", "none", "--nvtx", "--nvtx-include", "regex:.*/",
                           "--print-nvtx-rename", "kernel", "--metrics", metrics, program, experiment, "--quick", "--csv", saved],
                          text=True, capture_output=True)
    rows = lines_of(done.stdout)
    if not rows or not os.path.exists(saved):
        print("%s: nothing was counted: %s" % (experiment, why(done.stdout + done.stderr)))
        return 0, 0
    pairs = compared(experiment, results.read(saved)[1], counted(rows))
    for work, column, value, count in pairs:
        print("%-44s %-16s %8.2f predicted %8.2f counted%s" % (work, column, value, count, "" if same(value, count) else "  DIFFERS"))
    for work, what, number in told(rows) if tell else ():
        print("%-44s %-32s %.4g" % (work, what, number))
    return len(pairs), sum(not same(value, count) for _, _, value, count in pairs)


def same(predicted, count):
    return abs(predicted - count) <= 0.01 * predicted


def main():
    arguments = sys.argv[1:]
    tell = arguments[:1] == ["--counts"]
    if tell:
        arguments = arguments[1:]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__.split("\n\n")[1].strip())
    program = arguments[0]
    if not shutil.which("ncu"):
        sys.exit("profile.py: ncu (Nsight Compute) is not on the PATH")
    listed = subprocess.run([program, "--list"], text=True, capture_output=True) if os.access(program, os.X_OK) else None
    if listed is None or listed.returncode:
        sys.exit("profile.py: '%s' is no program of a topic" % program)
    experiments = arguments[1:] or [line.split()[0] for line in listed.stdout.splitlines() if line]
    with tempfile.TemporaryDirectory() as folder:
        sums = [profile(program, experiment, folder, tell) for experiment in experiments]
    compared_all, different = map(sum, zip(*sums))
    print("%d counts equal the predictions, %d differ" % (compared_all - different, different))
    sys.exit(0 if compared_all and not different else 1)


if __name__ == "__main__":
    main()
