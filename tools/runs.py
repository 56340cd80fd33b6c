#!/usr/bin/env python3
"""Runs samples several times, each run in a process of its own, and makes one file of each sample's runs.

    tools/runs.py --results build/release/results build/release/04_bandwidth/04_bandwidth ...
    tools/runs.py --counters 04_bandwidth=counters.csv --results DIR SAMPLE ... -- --quick     options behind "--"

All samples run once, then all of them again, so that the runs of one lie minutes apart. Before the first run stands how
long all of them will take, then how much of it is left. DIR/runs/ keeps what each run saved and printed; DIR/TOPIC.csv
is what tools/combine.py makes of a topic's runs, and is written when all runs have ended. If one fails nothing is.
"""
import argparse
import math
import pathlib
import subprocess
import sys
import time

import combine
import records

SECONDS = 20  # that a sample's run takes at most, unless it was timed


def minutes(seconds):
    if seconds < 60:
        return "less than a minute"
    return f"about {math.ceil(seconds / 60)} minutes"


class Progress:
    """Says which run has begun: on a terminal in a line that is written over, else in a line each."""

    def __init__(self):
        self.terminal = sys.stderr.isatty()

    def say(self, text):
        if self.terminal:
            print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)
        else:
            print(text, flush=True)

    def end(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def run_once(sample, arguments, saved):
    """Runs the sample; what it prints stands beside what it saves. Throws ValueError where it fails."""
    saved.unlink(missing_ok=True)
    printed = saved.with_suffix(".txt")
    try:
        with open(printed, "w", encoding="utf-8") as output:
            done = subprocess.run([sample, *arguments, "--csv", saved], stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.PIPE, text=True, errors="replace")
    except OSError as error:
        raise ValueError(error.strerror)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ValueError(f"exit code {done.returncode}: {said[-1] if said else f'{printed} has what it printed'}")
    return records.load(saved)


def run_all(samples, runs, folder, arguments_of):
    """The records of each sample's runs."""
    progress = Progress()
    taken = {}  # seconds, of the last run of each sample
    found = {sample: [] for sample in samples}
    print(f"{runs} runs of {len(samples)} sample{'s' * (len(samples) != 1)}: "
          f"{minutes(runs * len(samples) * SECONDS)}", flush=True)
    for n in range(1, runs + 1):
        for k, sample in enumerate(samples):
            to_come = {each: runs - n + (each in samples[k:]) for each in samples}
            left = sum(taken.get(each, SECONDS) * times for each, times in to_come.items())
            progress.say(f"run {n} of {runs}, {sample.name}, {minutes(left)} left")
            begin = time.monotonic()
            try:
                found[sample].append(run_once(sample, arguments_of(sample), folder / f"{sample.name}-{n}.csv"))
            except (OSError, ValueError) as error:
                progress.end()
                raise ValueError(f"{sample.name}: run {n} of {runs}: {records.in_words(error)}")
            taken[sample] = time.monotonic() - begin
    progress.end()
    return found


def parse(arguments):
    own, of_samples = arguments, []
    if "--" in arguments:
        own, of_samples = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each sample; default: 5")
    parser.add_argument("--results", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--counters", action="append", default=[], metavar="TOPIC=FILE",
                        help="what a sample's --counters is given; may be given several times")
    parser.add_argument("samples", nargs="+", type=pathlib.Path, metavar="SAMPLE", help="an executable")
    args = parser.parse_args(own)
    if args.runs < 2:
        parser.error("--runs: at least 2")
    if not all("=" in counters for counters in args.counters):
        parser.error("--counters: TOPIC=FILE is wanted")
    args.counters = dict(counters.split("=", 1) for counters in args.counters)
    names = [sample.name for sample in args.samples]
    unknown = [topic for topic in args.counters if topic not in names]
    if unknown or len(set(names)) < len(names):
        parser.error(f"--counters: no sample is called {unknown[0]}" if unknown else "a sample is named twice")
    args.of_samples = of_samples
    return args


def main():
    args = parse(sys.argv[1:])

    def arguments_of(sample):
        counters = args.counters.get(sample.name)
        return [*args.of_samples, *(["--counters", counters] if counters else [])]

    samples = [sample.resolve() for sample in args.samples]
    folder = args.results.resolve() / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    found = run_all(samples, args.runs, folder, arguments_of)
    together = {sample.name: combine.combine(of_runs) for sample, of_runs in found.items()}
    for topic, (rows, notes) in together.items():
        records.save(args.results / f"{topic}.csv", rows)
        print(f"{topic}: {len(rows)} rows of {args.runs} runs")
        for note in notes:
            print(f"  {note}")
    print(f"what each run printed and saved: {folder}")


if __name__ == "__main__":
    records.run(main)
