#!/usr/bin/env python3
"""What the samples' results say of the chapter's claims and predictions, over all topics.

    tools/summary.py build/release/results/*.csv                   count the verdicts, and name what does not hold
    tools/summary.py --predictions build/release/results/*.csv     how many rows are predicted, and how well
    tools/summary.py --figure then-and-now.svg */results/x.csv     every claim as a tile (needs matplotlib)
    tools/summary.py --add build/release/results/*.csv             keep them in the topics' own results/, by GPU
"""
import argparse
import collections
import pathlib
import shutil
import sys

import records
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

COLOURS = {  # told apart without red against green
    "holds": "#7fb8de",
    "holds, by more": "#3f8fc5",
    "holds, by less": "#f3cf73",
    "too close to call": "#cbb2e2",
    "does not hold": "#ea8a5f",
    "not judged": "#d4d4d4",
}
TILE_WIDTH, TILE_HEIGHT, GAP, TOPIC_HEIGHT, MARGIN = 1.62, 0.92, 0.06, 0.28, 0.06  # inches
COLUMNS = 8
LINE = 1.2 / 72  # inches from line to line for each point of the font


def arrange(topics):
    """(row, column, claim, topic or None) of each tile; the topic stands over its first one. A topic begins a row of
    its own, or stands beside the one before it where both fit into one row."""
    tiles = []
    row = column = 0
    one_row = True  # whether the topic before this one has no other row
    for topic, claims in topics.items():
        if column > 0 and (not one_row or column + len(claims) > COLUMNS):
            row, column = row + 1, 0
        one_row = column + len(claims) <= COLUMNS
        for k, claim in enumerate(claims):
            if column == COLUMNS:
                row, column = row + 1, 0
            tiles.append((row, column, claim, topic if k == 0 else None))
            column += 1
    return tiles


class Text:
    """Fits text into a box by the widths that matplotlib's renderer measures."""

    def __init__(self, figure):
        self.renderer = figure.canvas.get_renderer()
        self.dpi = figure.dpi

    def width(self, text, size, **style):
        """Inches."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(size=size, **style)
        return self.renderer.get_text_width_height_descent(text, font, ismath=False)[0] / self.dpi

    def shrink(self, text, room, size, **style):
        """The largest size, up to `size`, at which one line of text fits into `room` inches."""
        while size > 2 and self.width(text, size, **style) > room:
            size -= 0.25
        return size

    def wrap(self, text, room, size):
        lines = []
        for word in text.split():
            if lines and self.width(f"{lines[-1]} {word}", size) <= room:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return lines

    def fill(self, text, width, height, largest, smallest):
        """The text's lines and the largest size at which they fit; at the smallest what is too much is cut off."""
        size = largest
        while True:
            lines = self.wrap(text, width, size)
            room = int(height / (size * LINE))
            if len(lines) <= room and all(self.width(line, size) <= width for line in lines):
                return lines, size
            if size <= smallest:
                break
            size -= 0.25
        if len(lines) > room:
            lines = lines[:room - 1] + [lines[room - 1] + " ..."]
        return [self.cut(line, width, size) for line in lines], size

    def cut(self, line, width, size):
        if self.width(line, size) <= width:
            return line
        line = line.removesuffix(" ...")
        while line and self.width(line + " ...", size) > width:
            line = line[:-1]
        return line + " ..."


def draw_tile(axes, text, x, y, claim):
    """Draws a claim with its upper left corner at (x, y). Returns the tile and the texts in it."""
    from matplotlib.patches import Rectangle

    verdict = claim["metric"]
    tile = axes.add_patch(Rectangle((x, y), TILE_WIDTH, TILE_HEIGHT, facecolor=COLOURS[verdict], edgecolor="none"))
    left, right = x + MARGIN, x + TILE_WIDTH - MARGIN
    room = TILE_WIDTH - 2 * MARGIN

    def write(x, y, words, **style):
        return axes.text(x, y, words, parse_math=False, **style)

    texts = [write(left, y + 0.06, claim["case"], fontsize=9, weight="bold", va="top")]
    beside = room - text.width(claim["case"], 9, weight="bold") - 0.1
    size = text.shrink(verdict, beside, 7, style="italic")
    texts.append(write(right, y + 0.07, verdict, fontsize=size, style="italic", va="top", ha="right"))

    has_ratio = claim["value"] and claim["unit"] == "x"
    bottom = 0.2 if has_ratio else MARGIN
    lines, size = text.fill(claim["parameter"], room, TILE_HEIGHT - 0.25 - bottom, 7, 4)
    for k, line in enumerate(lines):
        texts.append(write(left, y + 0.25 + (k + 0.8) * size * LINE, line, fontsize=size, va="baseline"))
    if has_ratio:
        here = f"here {float(claim['value']):.3g}x"
        texts.append(write(right, y + TILE_HEIGHT - MARGIN, here, fontsize=7, weight="bold", va="bottom", ha="right"))
    return tile, texts


def draw(topics, gpus):
    """The figure, and its tiles with the texts in each."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "then and now"
    matplotlib.rcParams["text.hinting"] = "none"  # text is then as wide as measured, at any size and in any format
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    places = arrange(topics)
    columns = max(column for _, column, _, _ in places) + 1
    with_topic = {row for row, _, _, topic in places if topic}
    tops, bottom = [], 0.0
    for row in range(places[-1][0] + 1):
        tops.append(bottom + (TOPIC_HEIGHT if row in with_topic else 0))
        bottom = tops[-1] + TILE_HEIGHT + GAP
    width = columns * (TILE_WIDTH + GAP)

    figure = plt.figure(figsize=(width, bottom), dpi=110)
    axes = figure.add_axes((0, 0, 1, 1))  # its unit is an inch
    axes.set_xlim(0, width)
    axes.set_ylim(bottom, 0)
    axes.axis("off")
    text = Text(figure)
    topic_size = min(text.shrink(topic, TILE_WIDTH, 10, weight="bold") for topic in topics)
    tiles = []
    for row, column, claim, topic in places:
        x, y = column * (TILE_WIDTH + GAP), tops[row]
        if topic:
            axes.text(x, y - 0.06, topic, fontsize=topic_size, weight="bold", va="bottom")
        tiles.append(draw_tile(axes, text, x, y, claim))

    count = collections.Counter(claim["metric"] for _, _, claim, _ in places)
    axes.legend(handles=[Patch(color=COLOURS[v], label=f"{v}: {count[v]}") for v in VERDICTS if count[v]],
                ncol=len(VERDICTS), frameon=False, loc="upper left", bbox_to_anchor=(0, 0), borderaxespad=0.2,
                borderpad=0.2, handlelength=1.2, columnspacing=1.2, fontsize=10)
    axes.text(0, bottom + 0.4, "here: the ratio on which the verdict rests; each topic's page says of what",
              fontsize=8, va="top")
    title = (f"What five texts of 2007 to 2019 say of CUDA memory: {claims_text(topics)}, "
             f"measured again on {', '.join(gpus) or 'no GPU'}")
    axes.text(0, -0.05, title, fontsize=text.shrink(title, max(width, 8), 14), va="bottom")
    return figure, tiles


def save_figure(topics, gpus, output):
    try:
        figure, _ = draw(topics, gpus)
    except ImportError:
        sys.exit("summary.py: matplotlib is missing: apt-get install python3-matplotlib")
    metadata = {"Date": None} if output.suffix == ".svg" else None
    figure.savefig(output, bbox_inches="tight", pad_inches=0.1, metadata=metadata)


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
    what.add_argument("--figure", type=pathlib.Path, metavar="FILE", help="draw the claims instead, as SVG or PNG")
    what.add_argument("--add", action="store_true", help="copy the files into the topics' results/")
    parser.add_argument("results", nargs="+", type=pathlib.Path, metavar="CSV")
    args = parser.parse_args()
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
