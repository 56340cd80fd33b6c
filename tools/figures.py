#!/usr/bin/env python3
"""Draws the figures of pages as the pages say, with tools/plot.py or another script of tools/. Needs matplotlib.

    tools/figures.py 01_memory_model/README.md                        redraw a page's figures in place
    tools/figures.py --results build/release/results 0*/README.md     draw them from other results, beside these

A page says beside a figure what it is drawn from: the file, the results, and plot.py's arguments, or another script,

    <!-- figure: results/latency-nvidia-h200.svg = results/nvidia-h200.csv latency -->
    <!-- figure: results/memories-nvidia-h200.svg = results/nvidia-h200.csv draw_memories.py -->
    <!-- figure: drawings/tile.svg = draw_ideas.py tile -->      of an idea: no results

With --results DIR, where DIR holds a file for each topic (01_memory_model.csv), figures go to DIR/01_memory_model-latency.svg.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys

import records

TOOLS = pathlib.Path(__file__).parent


def command(results, arguments, output):
    """What draws a figure: a script that the arguments name, or else plot.py. A drawing of an idea has no results."""
    if not results:
        return [sys.executable, TOOLS / arguments[0], *arguments[1:], "-o", output]
    script, rest = ("plot.py", arguments) if not arguments[0].endswith(".py") else (arguments[0], arguments[1:])
    return [sys.executable, TOOLS / script, results, *rest, "-o", output]


def figures(page):
    """(output, results, arguments) of each figure of the page, paths as the page has them; no results of an idea."""
    for output, words in re.findall(r"<!-- figure: (\S+) = (.*?) -->", records.read_text(page), flags=re.S):
        results, *arguments = shlex.split(words)
        if not arguments:
            raise ValueError(f"{page}: the figure {output} has not what draws it")
        yield (output, "", [results, *arguments]) if results.endswith(".py") else (output, results, arguments)


def drawn_from(folder, topic, output):
    """Where --results draws a page's figure: DIR/01_memory_model-latency.svg."""
    return folder / f"{topic}-{pathlib.Path(output).stem.split('-nvidia')[0]}.svg"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, metavar="DIR", help="draw from DIR/TOPIC.csv into DIR")
    parser.add_argument("pages", nargs="+", type=pathlib.Path, metavar="PAGE")
    args = parser.parse_args()
    jobs = []
    for page in args.pages:
        topic = page.resolve().parent.name
        for output, results, arguments in figures(page):
            if args.results and not results:
                continue  # an idea looks the same on every GPU
            if args.results:
                results, output = args.results / f"{topic}.csv", drawn_from(args.results, topic, output)
            else:
                results, output = results and page.parent / results, page.parent / output
            if output not in [job[0] for job in jobs]:  # a page may show two GPUs' figures; a run has one
                jobs.append((output, command(results, arguments, output)))
    run = lambda job: subprocess.run(job[1], capture_output=True, text=True)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # each is a process of its own, and takes a second
        for (output, _), done in zip(jobs, pool.map(run, jobs)):
            if "matplotlib is missing" in done.stderr:
                sys.exit(done.stderr.strip())
            if done.returncode:  # with --results a run without a GPU has nothing to draw, and the next figure may
                print(f"{output} is not drawn: {done.stderr.strip()}", file=sys.stderr)
                failed = failed or not args.results
            else:
                print(output)
    sys.exit(failed)


if __name__ == "__main__":
    records.run(main)
