#!/usr/bin/env python3
"""What the samples' results say of the chapter's claims and predictions, over all topics.

    tools/summary.py build/release/results/*.csv                   count the verdicts, and name what does not hold
    tools/summary.py --predictions build/release/results/*.csv     how many rows are predicted, and how well
    tools/summary.py --figure then-and-now.svg */results/x.csv     every claim as a tile
    tools/summary.py --add build/release/results/*.csv             keep them in the topics' own results/, by GPU
"""
import argparse
import collections
import pathlib
import shutil
import sys

import records
import tiles
from records import VERDICTS

# ---- verdicts --------------------------------------------------------------------------------------------------------


def load_claims(paths):
    """The claims of each topic, in order of their ids, and the names of the GPUs."""
    topics, gpus = collections.defaultdict(list), {}
    for path in paths:
        for record in records.load(path):
            if record["kind"] == "claim":
                if record["metric"] not in VERDICTS:
                    raise ValueError(f"{path}: '{record['metric']}' of {record['case']} is no verdict")
                topics[record["topic"]].append(record)
                gpus[record["gpu"]] = None
    for claims in topics.values():
        claims.sort(key=lambda claim: records.id_order(claim["case"]))
    return dict(sorted(topics.items())), [gpu for gpu in gpus if gpu]


def claims_text(topics):
    """ "57 claims", or "57 claims in 80 parts" where some have several."""
    ids = [claim["case"] for claims in topics.values() for claim in claims]
    whole = {claim.rstrip("abcdefghijklmnopqrstuvwxyz") for claim in ids}
    return f"{len(whole)} claims" + (f" in {len(ids)} parts" if any(i not in whole for i in ids) else "")


def show_verdicts(topics, gpus):
    def line(name, count):
        print(f"  {name:{width}}" + "".join(f"{count[verdict] or '-':>19}" for verdict in VERDICTS))

    width = max(map(len, topics))
    print(f"{claims_text(topics)}{' on ' + ', '.join(gpus) if gpus else ', without a GPU'}:")
    print("  " + " " * width + "".join(f"{verdict:>19}" for verdict in VERDICTS))
    total = collections.Counter()
    for topic, claims in topics.items():
        count = collections.Counter(claim["metric"] for claim in claims)
        line(topic, count)
        total += count
    line(f"all {sum(total.values())}", total)
    gone = [claim for claims in topics.values() for claim in claims if claim["metric"] == "does not hold"]
    if gone:
        print("does not hold:")
    for claim in gone:
        print(f"  {claim['case']:7} {claim['parameter']}: here {claim['at'].removeprefix('here ')}")


# ---- predictions -----------------------------------------------------------------------------------------------------

WITHIN = (0.10, 0.25, 0.50)


def in_time_cycles_or_rate(unit):
    """Whether a unit is one that predictions are counted in: a time (ms, us, ns, s), cycles, or a rate, which is
    anything a second (GB/s, MB/s, million keys/s). Counts, bytes, shares and ratios are not."""
    return unit in ("ms", "us", "ns", "s", "cycles") or unit.endswith("/s")


class Predictions:
    """What an experiment's rows come to."""

    def __init__(self):
        self.rows = 0
        self.calibration = 0  # rows that calibrated a constant: neither rows nor predicted
        self.ratios = []  # measured / predicted, of each row that is predicted

    def add(self, other):
        self.rows += other.rows
        self.calibration += other.calibration
        self.ratios += other.ratios

    def within(self, share):
        """How many of the predicted rows are off by no more than this share, either way."""
        close = 1 + share + 1e-9
        return sum(ratio > 0 and max(ratio, 1 / ratio) <= close for ratio in self.ratios)


def row_ratio(row):
    """Measured over predicted of the first metric of a row that is both; None if no metric is."""
    predicted = {r["metric"]: float(r["value"]) for r in reversed(row) if r["kind"] == "predicted"}
    for r in row:
        if r["kind"] == "measured" and predicted.get(r["metric"]):
            return float(r["value"]) / predicted[r["metric"]]
    return None


def count_predictions(paths):
    """The Predictions of each (topic, experiment). A row is what one file has of one case, parameter and `at`."""
    counts = {}
    for path in paths:
        rows = collections.defaultdict(list)
        for r in records.load(path):
            if r["kind"] == "machine":  # of no experiment, or no row of it
                continue
            counts.setdefault((r["topic"], r["experiment"]), Predictions())
            is_counted = r["kind"] in ("measured", "predicted", "calibration") and in_time_cycles_or_rate(r["unit"])
            if is_counted and r["value"]:
                rows[r["topic"], r["experiment"], r["case"], r["parameter"], r["at"]].append(r)
        for (topic, experiment, *_), row in rows.items():
            count = counts[topic, experiment]
            kinds = {r["kind"] for r in row}
            if "calibration" in kinds:
                count.calibration += 1
            elif "measured" in kinds:
                count.rows += 1
                ratio = row_ratio(row)
                if ratio is not None:
                    count.ratios.append(ratio)
    return dict(sorted(counts.items(), key=lambda item: item[0][0]))  # experiments stay in the order of their run


def show_predictions(counts):
    def percent(part, whole):
        return f"{part / whole:.0%}" if whole else "-"

    def line(name, count):
        predicted = len(count.ratios)
        text = f"  {name:{width}}  {count.rows:5}  {predicted:9}  {percent(predicted, count.rows):>5}"
        for share in WITHIN:
            close = count.within(share)
            text += f"  {close if predicted else '-':>4} {percent(close, predicted) if predicted else '':>5}"
        print(text + f"  {count.calibration or '-':>11}")

    names = {f"{topic} {experiment}": count for (topic, experiment), count in counts.items()}
    width = max(map(len, names))
    print("rows in time, cycles or rates; within: the predicted ones, measured over predicted either way")
    print(f"  {'':{width}}  {'rows':>5}  {'predicted':>9}  {'share':>5}"
          + "".join(f"  {f'within {share:.0%}':>10}" for share in WITHIN) + f"  {'calibration':>11}")
    total = Predictions()
    for name, count in names.items():
        line(name, count)
        total.add(count)
    line("all", total)


# ---- the figure ------------------------------------------------------------------------------------------------------


def save_figure(topics, gpus, output):
    title = (f"What five texts of 2007 to 2019 say of CUDA memory: {claims_text(topics)}, "
             f"measured again on {', '.join(gpus) or 'no GPU'}")
    output.write_text(tiles.draw(topics, title), encoding="utf-8")


# ---- keeping results -------------------------------------------------------------------------------------------------


def add(paths):
    """Copies each file to its topic's results/ under the name of its GPU, or of its second run on such a GPU, etc."""
    for path in paths:
        record = next(iter(records.load(path)), None)
        if not record or not record["gpu"]:
            sys.exit(f"summary.py: {path} was saved without a GPU; there is nothing to add")
        slug = records.slug(record["gpu"])
        folder = pathlib.Path(__file__).resolve().parent.parent / record["topic"] / "results"
        names = (folder / (slug + (f"-{n}" if n > 1 else "") + ".csv") for n in range(1, 1000))
        target = next(name for name in names if not name.exists())
        shutil.copy(path, target)
        print(f"added {target.relative_to(folder.parent.parent)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--predictions", action="store_true", help="count the rows that are predicted, by experiment")
    what.add_argument("--figure", type=pathlib.Path, metavar="FILE", help="draw the claims instead, as SVG")
    what.add_argument("--add", action="store_true", help="copy the files into the topics' results/")
    parser.add_argument("results", nargs="+", type=pathlib.Path, metavar="CSV")
    args = parser.parse_args()
    if args.figure and args.figure.suffix != ".svg":
        parser.error("--figure: the file's name ends in .svg")
    try:
        if args.add:
            add(args.results)
        elif args.predictions:
            counts = count_predictions(args.results)
            if not counts:
                sys.exit("summary.py: the files hold no records")
            show_predictions(counts)
        else:
            topics, gpus = load_claims(args.results)
            if not topics:
                sys.exit("summary.py: the files hold no claims")
            if args.figure:
                save_figure(topics, gpus, args.figure)
            else:
                show_verdicts(topics, gpus)
    except (OSError, ValueError) as error:
        sys.exit(f"summary.py: {error}")


if __name__ == "__main__":
    main()
