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

import records
import tiles
from records import TALLY

# ---- verdicts --------------------------------------------------------------------------------------------------------


def load_claims(paths):
    """The claims of each topic, in order of their ids, and the names of the GPUs."""
    topics, gpus = collections.defaultdict(list), {}
    for path in paths:
        for record in records.load(path):
            if record["kind"] == "claim":
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
    every = [claim for claims in topics.values() for claim in claims]
    total = records.tally(every)
    columns = [(name, max(len(name), 4) + 2) for name in TALLY if total[name]]

    def line(name, count):
        print(f"  {name:{width}}" + "".join(f"{count[verdict] or '-':>{wide}}" for verdict, wide in columns))

    width = max(map(len, topics))
    print(f"{claims_text(topics)}{' on ' + ', '.join(gpus) if gpus else ', without a GPU'}:")
    print("  " + " " * width + "".join(f"{verdict:>{wide}}" for verdict, wide in columns))
    for topic, claims in topics.items():
        line(topic, records.tally(claims))
    line(f"all {sum(total.values())}", total)
    if any(map(records.by_construction, every)):
        print(f"by construction ({records.DAGGER}): cannot come out otherwise on any GPU; counted apart")
    for verdict in ("does not hold", "no longer", "depends"):
        of_verdict = [claim for claim in every if claim["metric"] == verdict]
        if of_verdict:
            print(f"{verdict}:")
        for claim in of_verdict:
            name = claim["case"] + records.mark(claim)
            print(f"  {name:9} {claim['parameter']}: here {claim['at'].removeprefix('here ')}")


# ---- predictions -----------------------------------------------------------------------------------------------------

WITHIN = (0.10, 0.25, 0.50)


def in_time_cycles_or_rate(unit):
    """Whether a unit is one that predictions are counted in: a time (ms, us, ns, s), cycles, or a rate, which is
    anything a second (GB/s, MB/s, million keys/s). Counts, bytes, shares and ratios are not."""
    return unit in ("ms", "us", "ns", "s", "cycles") or unit.endswith("/s")


MODELS = ("from the device", "calibrated", "fitted")  # each promises less than the one before
REPEATS = 1e-4  # a prediction that is no further from a calibration row's value merely repeats it


class Predictions:
    """What an experiment's rows come to."""

    def __init__(self):
        self.rows = 0
        self.calibration = 0  # rows that calibrated a constant: neither rows nor predicted
        self.repeated = 0  # rows whose prediction is a calibration row's value: rows, and not predicted
        self.ratios = []  # measured / predicted, of each row that is predicted
        self.declared = set()  # what the experiment says that its models are

    def add(self, other):
        self.rows += other.rows
        self.calibration += other.calibration
        self.repeated += other.repeated
        self.ratios += other.ratios

    def model(self):
        """One of MODELS; of several the one that promises least."""
        if self.declared:
            return max(self.declared, key=MODELS.index)
        return "calibrated" if self.calibration else "from the device"

    def as_many_constants(self):
        return bool(self.ratios) and self.calibration >= len(self.ratios)

    def within(self, share):
        """How many of the predicted rows are off by no more than this share, either way."""
        close = 1 + share + 1e-9
        return sum(ratio > 0 and max(ratio, 1 / ratio) <= close for ratio in self.ratios)


def first_predicted(row):
    """The record of the first metric of a row that is measured and predicted, and its prediction; None if no metric
    is."""
    predicted = {r["metric"]: float(r["value"]) for r in reversed(row) if r["kind"] == "predicted"}
    for r in row:
        if r["kind"] == "measured" and predicted.get(r["metric"]):
            return r, predicted[r["metric"]]
    return None


def repeats(predicted, calibrated):
    return any(abs(predicted - value) <= REPEATS * abs(value) for value in calibrated)


def count_predictions(paths):
    """The Predictions of each (topic, experiment). A row is what one file has of one case, parameter and `at`."""
    counts = {}
    for path in paths:
        rows, calibrated = collections.defaultdict(list), collections.defaultdict(list)
        for r in records.load(path):
            if r["kind"] == "machine":  # of no row
                continue
            count = counts.setdefault((r["topic"], r["experiment"]), Predictions()) if r["experiment"] else None
            if r["kind"] == "model":
                if r["metric"] not in MODELS or not count:
                    raise ValueError(f"{path}: '{r['metric']}' of {r['case']} is no kind of model")
                count.declared.add(r["metric"])
            is_counted = r["kind"] in ("measured", "predicted", "calibration") and in_time_cycles_or_rate(r["unit"])
            if is_counted and r["value"] and count:
                rows[r["topic"], r["experiment"], r["case"], r["parameter"], r["at"]].append(r)
                if r["kind"] == "calibration":
                    calibrated[r["topic"], r["experiment"], r["metric"]].append(float(r["value"]))
        for (topic, experiment, *_), row in rows.items():
            count = counts[topic, experiment]
            kinds = {r["kind"] for r in row}
            if "calibration" in kinds:
                count.calibration += 1
            elif "measured" in kinds:
                count.rows += 1
                pair = first_predicted(row)
                if pair and repeats(pair[1], calibrated[topic, experiment, pair[0]["metric"]]):
                    count.repeated += 1
                elif pair:
                    count.ratios.append(float(pair[0]["value"]) / pair[1])
    return dict(sorted(counts.items(), key=lambda item: item[0][0]))  # experiments stay in the order of their run


def show_predictions(counts):
    def percent(part, whole):
        return f"{part / whole:.0%}" if whole else "-"

    def line(name, count, model):
        predicted = len(count.ratios)
        text = f"  {name:{width}}  {model:15}  {count.rows:5}  {predicted:9}"
        for share in WITHIN:
            close = count.within(share)
            text += f"  {close if predicted else '-':>4} {percent(close, predicted) if predicted else '':>5}"
        print(text + f"  {count.repeated or '-':>7}  {count.calibration or '-':>11}")

    names = {f"{topic} {experiment}": count for (topic, experiment), count in counts.items()}
    width = max(map(len, names))
    print("rows in time, cycles or rates; within: the predicted ones, measured over predicted either way; repeats: rows\n"
          "predicted to be as a calibration row, which are counted apart")
    print(f"  {'':{width}}  {'model':15}  {'rows':>5}  {'predicted':>9}"
          + "".join(f"  {f'within {share:.0%}':>10}" for share in WITHIN) + f"  {'repeats':>7}  {'calibration':>11}")
    total, by_model = Predictions(), {model: Predictions() for model in MODELS}
    for name, count in names.items():
        line(name, count, count.model() if count.ratios else "-")
        total.add(count)
        if count.ratios:
            by_model[count.model()].add(count)
    for model, count in by_model.items():
        if count.ratios:
            line("all", count, model)
    line("all", total, "")
    for name, count in names.items():
        if count.as_many_constants():
            print(f"as many constants as rows: {name}: {count.calibration} calibrated, {len(count.ratios)} predicted")


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
            raise ValueError(f"{path} was saved without a GPU; there is nothing to add")
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
    if args.add:
        add(args.results)
    elif args.predictions:
        counts = count_predictions(args.results)
        if not counts:
            raise ValueError("the files hold no records")
        show_predictions(counts)
    else:
        topics, gpus = load_claims(args.results)
        if not topics:
            raise ValueError("the files hold no claims")
        if args.figure:
            save_figure(topics, gpus, args.figure)
        else:
            show_verdicts(topics, gpus)


if __name__ == "__main__":
    records.run(main)
