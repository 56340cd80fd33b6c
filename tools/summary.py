#!/usr/bin/env python3
"""What the samples' results say of the chapter's claims, over all topics.

    tools/summary.py build/release/results/*.csv                   count the verdicts, and name what no longer holds
    tools/summary.py --figure then-and-now.svg */results/x.csv     every claim as a tile (needs matplotlib)
    tools/summary.py --add build/release/results/*.csv             keep them in the topics' own results/, by the GPU's name
"""
import argparse
import collections
import csv
import pathlib
import re
import shutil
import sys
import textwrap

VERDICTS = ["holds", "holds, by more", "holds, by less", "no longer holds", "not judged"]
COLOURS = ["#7fb8de", "#3f8fc5", "#f3cf73", "#ea8a5f", "#d4d4d4"]  # told apart without red against green


def load(paths):
    """The claims of each topic, in order of their ids, and the names of the GPUs."""
    topics, gpus = collections.defaultdict(list), {}
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["kind"] == "claim":
                    topics[row["topic"]].append(row)
                    gpus[row["gpu"]] = None
    for claims in topics.values():
        claims.sort(key=lambda row: [int(part) for part in row["case"].split(".")])
    return dict(sorted(topics.items())), [gpu for gpu in gpus if gpu]


def show(topics, gpus):
    total = collections.Counter()
    width = max(map(len, topics))
    print(f"claims{' on ' + ', '.join(gpus) if gpus else ', without a GPU'}:")
    print("  " + " " * width + "".join(f"{verdict:>17}" for verdict in VERDICTS))
    for topic, claims in topics.items():
        count = collections.Counter(row["metric"] for row in claims)
        total += count
        print(f"  {topic:{width}}" + "".join(f"{count[verdict] or '-':>17}" for verdict in VERDICTS))
    print(f"  {'all ' + str(sum(total.values())):{width}}" + "".join(f"{total[verdict] or '-':>17}" for verdict in VERDICTS))
    gone = [row for claims in topics.values() for row in claims if row["metric"] == "no longer holds"]
    if gone:
        print("no longer true:")
    for row in gone:
        print(f"  {row['case']:6} {row['parameter']}: here {row['at']}")


def draw(topics, gpus, output):
    try:
        import matplotlib
    except ImportError:
        sys.exit("summary.py: matplotlib is missing: apt-get install python3-matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "then and now"
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch, Rectangle

    columns = max(map(len, topics.values()))
    figure, axes = plt.subplots(figsize=(1.62 * columns + 0.2, 1.42 * len(topics) + 1.0))
    count = collections.Counter()
    for y, (topic, claims) in enumerate(topics.items()):
        axes.text(0, y - 0.07, topic, fontsize=10, weight="bold", va="bottom")
        for x, row in enumerate(claims):
            count[row["metric"]] += 1
            axes.add_patch(Rectangle((x, y), 0.96, 0.78, facecolor=COLOURS[VERDICTS.index(row["metric"])], edgecolor="none"))
            axes.text(x + 0.04, y + 0.05, row["case"], fontsize=9, weight="bold", va="top")
            axes.text(x + 0.92, y + 0.055, row["metric"], fontsize=6.5, style="italic", va="top", ha="right")
            axes.text(x + 0.04, y + 0.2, textwrap.fill(textwrap.shorten(row["parameter"], 110, placeholder=" ..."), 25), fontsize=6.2, va="top")
            if row["value"] and row["unit"] == "x":
                axes.text(x + 0.92, y + 0.75, f"here {float(row['value']):.3g}x", fontsize=6.5, weight="bold", va="bottom", ha="right")
    axes.set_xlim(0, columns)
    axes.set_ylim(len(topics), -0.3)
    axes.axis("off")
    axes.legend(handles=[Patch(color=c, label=f"{v}: {count[v]}") for v, c in zip(VERDICTS, COLOURS) if count[v]], ncol=5, frameon=False,
                loc="upper left", bbox_to_anchor=(0, 0.01), fontsize=10)
    axes.text(0, len(topics) + 0.55, "here: the ratio on which the verdict rests; each topic's page says of what", fontsize=8)
    axes.set_title(f"What five texts of 2007 to 2019 say of CUDA memory: {sum(count.values())} claims, measured again on {', '.join(gpus) or 'no GPU'}",
                   loc="left", fontsize=14)
    figure.savefig(output, bbox_inches="tight", dpi=110, metadata={"Date": None} if output.suffix == ".svg" else None)


def add(paths):
    """Copies each file to its topic's results/ under the name of its GPU, or of its second run on such a GPU, and so on."""
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            row = next(csv.DictReader(file), None)
        if not row or not row["gpu"]:
            sys.exit(f"summary.py: {path} was saved without a GPU; there is nothing to add")
        slug = re.sub(r"[^a-z0-9]+", "-", row["gpu"].lower()).strip("-")
        folder = pathlib.Path(__file__).resolve().parent.parent / row["topic"] / "results"
        names = (folder / (slug + (f"-{n}" if n > 1 else "") + ".csv") for n in range(1, 1000))
        target = next(name for name in names if not name.exists())
        shutil.copy(path, target)
        print(f"added {target.relative_to(folder.parent.parent)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure", type=pathlib.Path, metavar="FILE", help="draw the claims instead, as SVG or PNG")
    parser.add_argument("--add", action="store_true", help="copy the files into the topics' results/")
    parser.add_argument("results", nargs="+", type=pathlib.Path, metavar="CSV")
    args = parser.parse_args()
    try:
        if args.add:
            return add(args.results)
        topics, gpus = load(args.results)
    except (OSError, KeyError) as error:
        sys.exit(f"summary.py: {error}")
    if not topics:
        sys.exit("summary.py: the files hold no claims")
    if args.figure:
        draw(topics, gpus, args.figure)
    else:
        show(topics, gpus)


if __name__ == "__main__":
    main()
