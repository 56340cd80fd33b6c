#!/usr/bin/env python3
"""Runs every sample once on each GPU of this node, and saves what each run measured and printed.

    tools/run_all_gpus.py --results node7 build/release               all samples of a build folder
    tools/run_all_gpus.py --results node7 PREFIX                      installed ones: PREFIX/bin/cuda_memory_*
    tools/run_all_gpus.py --results node7 SAMPLE ... -- --quick       these; options of the samples behind "--"
    tools/run_all_gpus.py --results node7 --self-check build/release  self-checks instead of measurements

The runs follow each other, because two at a time would measure each other. Each run sees one GPU: those that
CUDA_VISIBLE_DEVICES names, where it is set, and else those that `nvidia-smi -L` lists. Each run has a line, and leaves
node7/gpu0-04_bandwidth.csv and .txt, or gpu0-04_bandwidth-self-check.txt. A run that fails or is skipped leaves no CSV.

Exit codes: 0 no run failed; 1 a run failed, or --require-gpu and no GPU; 2 a wrong command line, of this script or of a
sample; 77 no GPU, or every run was skipped; 128 + n ended by signal n: the run that was cut short leaves no file.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import records

OK, FAILED, WRONG, SKIPPED = 0, 1, 2, 77
PREFIX = "cuda_memory_"  # of an installed sample's name
ended_by = 0  # the signal that this script was sent


def remember(number, _):
    global ended_by
    ended_by = ended_by or number


# ---- what there is to run ----------------------------------------------------------------------------------------------


def listed(text):
    """(name, identifier) of each GPU that `nvidia-smi -L` printed; of a GPU that is divided (MIG), of each part."""
    found, name = [], ""
    for line in text.splitlines():
        gpu = re.fullmatch(r"GPU \d+: (.*) \(UUID: (GPU-[^)]+)\)", line.strip())
        part = re.fullmatch(r"MIG (\S+) +Device +\d+: \(UUID: (MIG-[^)]+)\)", line.strip())
        if gpu:
            name = gpu[1]
            found.append((name, gpu[2]))
        elif part and found:
            if found[-1][1].startswith("GPU-"):
                found.pop()  # the whole, of which this is the first part
            found.append((f"{name}, MIG {part[1]}", part[2]))
    return found


def visible(text):
    """The same of CUDA_VISIBLE_DEVICES. CUDA takes no entry behind one that is none."""
    found = []
    for entry in text.split(","):
        if not re.fullmatch(r"\d+|(GPU|MIG)-.+", entry.strip()):
            break
        found.append(("of CUDA_VISIBLE_DEVICES", entry.strip()))
    return found


def gpus(seconds):
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return visible(os.environ["CUDA_VISIBLE_DEVICES"])
    if not shutil.which("nvidia-smi"):
        return []
    try:
        done = subprocess.run(["nvidia-smi", "-L"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ValueError(f"nvidia-smi -L took longer than {seconds} s") from None
    found = listed(done.stdout)
    if not found and "No devices" not in done.stdout + done.stderr:
        said = (done.stdout + done.stderr).split("\n")[0]
        raise ValueError(f"nvidia-smi -L names no GPU (exit code {done.returncode}): {said}")
    return found


def samples_in(path):
    """The executables that a path of the command line names."""
    if not path.is_dir():
        return [path]
    found = [folder / folder.name for folder in path.glob("[0-9][0-9]_*")]
    found += [*path.glob(f"bin/{PREFIX}[0-9]*"), *path.glob(f"{PREFIX}[0-9]*")]
    return sorted(sample for sample in found if sample.is_file())


def name_of(sample):
    return sample.name[len(PREFIX):] if sample.name.startswith(PREFIX) else sample.name


# ---- a run -------------------------------------------------------------------------------------------------------------


def end(child, number):
    """Sends the sample's processes a signal, and kills what is left of them."""
    os.killpg(child.pid, number)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


def wait_for(child, seconds):
    """The exit code, or None where it took longer. A signal that this script is sent goes on to the sample."""
    latest = time.monotonic() + seconds
    while child.poll() is None and not ended_by and time.monotonic() < latest:
        time.sleep(0.05)
    if child.returncode is None:
        end(child, ended_by or signal.SIGTERM)
        return None
    return child.returncode


def run_once(command, gpu, printed, seconds):
    """The exit code, or None, and the last line on standard error, or else of what was printed, all of which is kept."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "SAMPLES_REQUIRE_GPU": "1"}
    with open(printed, "w+b") as output, tempfile.TemporaryFile() as complaints:
        try:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=complaints, env=environment,
                                     start_new_session=True)  # so that Ctrl-C comes by way of wait_for
        except OSError as error:
            return FAILED, records.in_words(error)
        code = wait_for(child, seconds)
        complaints.seek(0)
        said = complaints.read()
        output.seek(0, os.SEEK_END)
        output.write(said)
        output.seek(0)
        lines = (said.strip() or output.read().strip()).decode(errors="replace").splitlines()
    return code, lines[-1] if lines else ""


def judge(code, said, saved, seconds):
    """What became of a run, as an exit code, and why."""
    if code is None:
        return FAILED, f"took longer than {seconds} s"
    if code < 0:
        return FAILED, f"ended by signal {-code}"
    if code == OK and saved and not saved.exists():
        return FAILED, f"exit code 0, but it saved no {saved.name}"
    if code in (OK, SKIPPED):
        return code, ""
    return WRONG if code == WRONG else FAILED, f"exit code {code}: {said}"


def run_all(args, found):
    """What became of each run."""
    words = {OK: "ok", FAILED: "failed", WRONG: "refused", SKIPPED: "skipped"}
    width = max(len(name_of(sample)) for sample in args.samples)
    outcomes = []
    for number, (_, gpu) in enumerate(found):
        for sample in args.samples:
            files = f"gpu{number}-{name_of(sample)}"
            printed, saved = args.results / f"{files}.txt", args.results / f"{files}.csv"
            what = ["--require-gpu", "--csv", saved]
            if args.self_check:
                printed, saved, what = args.results / f"{files}-self-check.txt", None, ["--self-check"]
            if saved:
                saved.unlink(missing_ok=True)  # of an earlier run
            began = time.monotonic()
            code, said = run_once([sample, *what, *args.of_samples], gpu, printed, args.seconds)
            outcome, why = judge(code, said, saved, args.seconds)
            if saved and (ended_by or outcome != OK):
                saved.unlink(missing_ok=True)
            if ended_by:
                printed.unlink(missing_ok=True)
                return outcomes
            outcomes.append(outcome)
            line = f"gpu{number}  {name_of(sample):{width}}  {words[outcome]:7}  {time.monotonic() - began:3.0f} s  {why}"
            print(line.rstrip(), flush=True)
    return outcomes


def parse(arguments):
    own, of_samples = arguments, []
    if "--" in arguments:
        own, of_samples = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, required=True, metavar="DIR", help="made if it is not there")
    parser.add_argument("--self-check", action="store_true", help="run the self-checks; no CSV")
    parser.add_argument("--require-gpu", action="store_true", help="exit with 1 where there is no GPU")
    parser.add_argument("--seconds", type=int, default=600, metavar="N",
                        help="what takes longer is ended, and has failed; default: 600")
    parser.add_argument("samples", nargs="+", type=pathlib.Path, metavar="SAMPLE",
                        help="an executable, a build folder, or where samples are installed")
    args = parser.parse_args(own)
    if args.seconds < 1:
        parser.error("--seconds: at least 1")
    paths, args.samples = args.samples, []
    for path in paths:
        found = samples_in(path)
        if not found or not all(os.access(sample, os.X_OK) for sample in found):
            parser.error(f"{path}: there is no sample")
        args.samples += [sample.resolve() for sample in found]
    names = [name_of(sample) for sample in args.samples]
    if len(set(names)) < len(names):
        parser.error("a sample is named twice")
    args.of_samples = of_samples
    return args


def main():
    args = parse(sys.argv[1:])
    found = gpus(args.seconds)
    if not found:
        print("skipped: no GPU on this node")
        sys.exit(FAILED if args.require_gpu else SKIPPED)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, remember)
    args.results = args.results.resolve()
    new = not args.results.exists()
    args.results.mkdir(parents=True, exist_ok=True)
    for number, (name, gpu) in enumerate(found):
        print(f"gpu{number}: {name}, {gpu}", flush=True)
    outcomes = run_all(args, found)
    if ended_by:
        if new and not outcomes:
            args.results.rmdir()
        print(f"ended by signal {ended_by}; {len(outcomes)} runs had ended before", file=sys.stderr)
        sys.exit(128 + ended_by)
    for worst in (FAILED, WRONG):
        if worst in outcomes:
            sys.exit(worst)
    sys.exit(OK if OK in outcomes else SKIPPED)


if __name__ == "__main__":
    records.run(main)
