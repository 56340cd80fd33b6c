#!/usr/bin/env python3
"""Runs samples several times and names the parts of claims whose verdicts vary from run to run.

    tools/repeat.py 04_bandwidth                                   ten runs of build/release/04_bandwidth/04_bandwidth
    tools/repeat.py --experiments transpose,sum 04_bandwidth       of these experiments only
    tools/repeat.py --runs 3 --keep runs 04_bandwidth -- --quick   keep the CSV files; the sample's options after "--"

A topic is the name of its folder or a path to an executable. The exit code is 1 if a part holds (in any strength) in
one run and does not hold, or no longer holds, in another, or if a sample fails; 2 if the command line is wrong.
"""
import argparse
import collections
import pathlib
import statistics
import subprocess
import sys
import tempfile

import records


class SampleFailed(ValueError):
    pass


def find_executable(topic, build):
    """The executable of a topic that was named by its folder or by a path; None if there is none."""
    path = pathlib.Path(topic)
    if path.is_file():
        return path.resolve()
    built = build / path.name / path.name
    return built.resolve() if built.is_file() else None


def run_once(executable, arguments, csv_file):
    """Runs the sample and returns its claims by their ids."""
    command = [str(executable), *arguments, "--csv", str(csv_file)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise SampleFailed(error.strerror)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise SampleFailed(f"exit code {done.returncode}" + (f": {said[-1]}" if said else ""))
    try:
        return {record["case"]: record for record in records.load(csv_file) if record["kind"] == "claim"}
    except (OSError, ValueError) as error:
        raise SampleFailed(f"its results cannot be read: {records.in_words(error)}")


def run_all(executable, arguments, runs, folder):
    """The claims of each run."""
    claims = []
    for n in range(1, runs + 1):
        if sys.stderr.isatty():
            print(f"\r{executable.name}: run {n} of {runs} ", end="", file=sys.stderr, flush=True)
        try:
            claims.append(run_once(executable, arguments, folder / f"{executable.name}-{n:02}.csv"))
        except SampleFailed as error:
            raise SampleFailed(f"{executable.name}: run {n} of {runs}: {error}")
        finally:
            if sys.stderr.isatty():
                print("\r\033[K", end="", file=sys.stderr, flush=True)
    return claims


def figures(part, column):
    """What the runs saved in a column of a part; an end of a range that was not saved is the value itself."""
    found = [claim[column] or claim["value"] for claim in part if claim]
    return [float(text) for text in found if text]


def short(value):
    return f"{value:.4g}"


def in_words(claim):
    """ "holds, weaker 3.06 (3.03 to 3.09)" """
    if not claim:
        return "not in this run"
    words = f"{claim['metric']:{max(map(len, records.VERDICTS))}}"
    if claim["value"]:
        words += f"  {short(float(claim['value']))}"
        if claim["low"] and claim["high"]:
            words += f" ({short(float(claim['low']))} to {short(float(claim['high']))})"
        words += f" {claim['unit']}".rstrip()
    elif claim["metric"] == "not judged":
        words += f"  {claim['at']}"
    return words.rstrip()


def verdicts_of(part):
    """How often each verdict was given, the most frequent first."""
    return collections.Counter(claim["metric"] if claim else "not in the run" for claim in part)


def contradicts(part):
    """Whether the part holds, in any strength, in one run and does not, or no longer, in another."""
    verdicts = verdicts_of(part)
    return any(map(records.denies, verdicts)) and any(map(records.holds, verdicts))


def show(name, runs):
    """Prints what became of each part. Whether one contradicts itself."""
    ids = sorted({claim for run in runs for claim in run}, key=records.id_order)
    parts = {claim: [run.get(claim) for run in runs] for claim in ids}  # of each run: its record, or None
    gpus = sorted({claim["gpu"] for run in runs for claim in run.values()} - {""})
    print(f"{name}: {len(runs)} runs on {', '.join(gpus) or 'no GPU'}")
    if not parts:
        print("  no claims")
        return False

    rows = [["part", "lowest", "median", "highest", "", "verdicts"]]
    for claim, part in parts.items():
        values, lows, highs = (figures(part, column) for column in ("value", "low", "high"))
        row = [short(min(lows)), short(statistics.median(values)), short(max(highs))] if values else ["-", "-", "-"]
        unit = next(record["unit"] for record in part if record and record["value"]) if values else ""
        verdicts = "; ".join(f"{verdict}: {count}" for verdict, count in verdicts_of(part).most_common())
        rows.append([claim, *row, unit, verdicts])
    widths = [max(map(len, column)) for column in zip(*rows)]
    for claim, *numbers, unit, verdicts in rows:
        aligned = "  ".join(f"{text:>{width}}" for text, width in zip(numbers, widths[1:]))
        print(f"  {claim:{widths[0]}}  {aligned} {unit:{widths[4]}}  {verdicts}")

    varied = {claim: part for claim, part in parts.items() if len(verdicts_of(part)) > 1}
    print(f"  {len(varied)} of {len(parts)} parts varied" + (":" if varied else ""))
    for claim, part in varied.items():
        statement = next(record["parameter"] for record in part if record)
        wrong = " - holds in one run and does not in another" if contradicts(part) else ""
        print(f"  {claim}  {statement}{wrong}")
        for n, record in enumerate(part, 1):
            print(f"    run {n:2}  {in_words(record)}")
    return any(contradicts(part) for part in parts.values())


def parse(arguments):
    own, sample = arguments, []
    if "--" in arguments:
        own, sample = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, metavar="N", help="of each topic; default: 10")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"), metavar="DIR",
                        help="where DIR/TOPIC/TOPIC is; default: build/release")
    parser.add_argument("--experiments", default="", metavar="A,B", help="run these experiments only")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="keep the CSV files there")
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="a topic's folder, or an executable")
    args = parser.parse_args(own)
    if args.runs < 1:
        parser.error("--runs: at least 1")
    args.executables = []
    for topic in args.topics:
        executable = find_executable(topic, args.build)
        if not executable:
            name = pathlib.Path(topic).name
            parser.error(f"no executable {topic}, and none at {args.build / name / name}: build first, or name --build")
        if executable.name in [other.name for other in args.executables]:
            parser.error(f"{executable.name} is named twice")
        args.executables.append(executable)
    args.sample = [name for name in args.experiments.split(",") if name] + sample
    return args


def main():
    args = parse(sys.argv[1:])
    contradicted = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for executable in args.executables:
            contradicted |= show(executable.name, run_all(executable, args.sample, args.runs, folder))
    sys.exit(contradicted)


if __name__ == "__main__":
    records.run(main)
