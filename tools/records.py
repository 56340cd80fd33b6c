"""What the tools share: reading the files that samples save with --csv, the verdicts, the order of claims, and which
GPUs have results in the repository."""
import csv
import pathlib
import re

VERDICTS = ["holds", "holds, by more", "holds, by less", "too close to call", "does not hold", "not judged"]


def load(path):
    """The records of a results file."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if "kind" not in (reader.fieldnames or []):
            raise ValueError(f"{path}: no file that a sample saved with --csv")
        return list(reader)


def id_order(claim):
    """A key to sort the ids of claims by: 04.2a, 04.2b, 04.10."""
    match = re.fullmatch(r"(\d+)\.(\d+)([a-z]?)", claim)
    if not match:
        raise ValueError(f"'{claim}' is no claim's id; 04.8 and 04.2a are")
    return int(match[1]), int(match[2]), match[3]


def slug(gpu):
    """What a GPU's results are called: "NVIDIA H200" becomes "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")


def by_gpu(paths):
    """The records of each GPU, from the files called as it is: results/nvidia-h200.csv, and nvidia-h200-2.csv for a
    second run, which is "NVIDIA H200 (2)". Other files (counts, fine sweeps, two GPUs) are passed over."""
    found = {}
    for path in sorted(map(pathlib.Path, paths), key=lambda path: (path.parent, path.stem)):
        if path.stem.endswith("-counters"):
            continue
        records = load(path)
        gpu = next((record["gpu"] for record in records if record["gpu"]), "")
        run = re.fullmatch(re.escape(slug(gpu)) + r"(?:-(\d+))?", path.stem)
        if gpu and run:
            found.setdefault(gpu + (f" ({run[1]})" if run[1] else ""), []).extend(records)
    return dict(sorted(found.items()))


def reported(records):
    """What the texts reported of each part, in words: "77x slower (8800 GTX)"."""
    return {record["case"]: " ".join(filter(None, [record["at"], f"({record['parameter']})" if record["parameter"] else ""]))
            for record in records if record["kind"] == "then" and record["metric"] == "reported"}


def claims(records):
    """The claims by their ids, in the ids' order."""
    found = {record["case"]: record for record in records if record["kind"] == "claim"}
    return {part: found[part] for part in sorted(found, key=id_order)}


def judged_differently(one, other):
    """Whether two GPUs' verdicts on a part differ; what was not judged on one of them does not count."""
    verdicts = {record["metric"] for record in (one, other) if record} - {"not judged"}
    return bool(one and other) and len(verdicts) == 2


def number(text, digits=3):
    """So many significant digits, never an exponent, and none cut off before the point."""
    value = float(text)
    rounded = float(f"{value:.{digits}g}")
    if abs(rounded) >= 10 ** (digits - 1) or rounded == 0:
        return f"{value:.0f}"
    return f"{value:.{max(0, digits - 1 - int(f'{abs(rounded):e}'.partition('e')[2]))}f}"


def size_text(claim):
    """The figure on which a verdict rests, with the range that the run leaves open for it: "1.11x slower (1.09 to
    1.12)", as the sample says it where it does; the claim's own ratio is then 0.905. Nothing of a fact."""
    if not claim["value"] or not claim["unit"]:
        return ""
    value = float(claim["value"])
    unit = claim["unit"]
    said = re.findall(r"(([\d.]+)(?:x|%)(?: (?:slower|faster|fewer|more))? \([^()]* to [^()]*\))", claim["at"])
    for text, figure in said:
        if any(abs(float(figure) - same) <= 0.006 * same for same in (value, 100 * value, value and 1 / value) if same > 0):
            return text
    texts = [number(claim[name]) if claim[name] else "" for name in ("value", "low", "high")]
    whole = texts[0] + ("x" if unit == "x" else "%" if unit == "%" else f" {unit}")
    return whole + (f" ({texts[1]} to {texts[2]})" if texts[1] != texts[2] else "")
