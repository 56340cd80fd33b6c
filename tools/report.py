#!/usr/bin/env python3
"""Makes one page of HTML of what --csv saved: is the machine normal, which verdicts differ, and figures and tables.

    tools/report.py --output report.html mine.csv...        one file per topic
"""
import argparse
import html
import os
import re
import sys
import warnings
from collections import Counter

import pages
import results

STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #4a90d955; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--line); }
h3 { margin: 1.8rem 0 .4rem; font-size: 1.05rem; }
nav { columns: 15rem; font-size: .9rem; } nav div { break-inside: avoid; margin-bottom: .5rem; }
.wide { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .6rem; text-align: right; white-space: nowrap; vertical-align: bottom; border-bottom: 1px solid var(--line); }
th, td { overflow-wrap: normal; } th:first-child, td:first-child { text-align: left; }
.claims td, .claims th { text-align: left; white-space: normal; vertical-align: top; min-width: 8rem; }
td[style] { background: linear-gradient(to right, var(--bar) var(--share), transparent var(--share)); }
.v { border-radius: .4rem; padding: 0 .4rem; border: 1px solid currentColor; white-space: nowrap; }
.holds { color: light-dark(#20732f, #6cc57c); } .no { color: light-dark(#b03024, #f08a7e); } .open { color: light-dark(#7d6314, #d8b94e); }
.off { font-weight: 600; color: light-dark(#b03024, #f08a7e); }
.picture { overflow-x: auto; background: #fff; border: 1px solid var(--line); border-radius: .4rem; max-width: 700px; margin: 0 0 .3rem; }
.picture svg { display: block; width: 100%; min-width: 560px; height: auto; }
.normal th, .normal td:first-child { white-space: normal; } .normal th { max-width: 7rem; } .normal td:first-child { min-width: 7rem; }
.normal th, .normal td { padding: .15rem .4rem; }
.strip { width: 5rem; height: .9rem; } .strip rect { fill: var(--soft); } .strip path { stroke: var(--line); } .strip circle { fill: currentColor; }
ul.claims { list-style: none; padding: 0; margin: .3rem 0; } .claims li { margin: .15rem 0; } small { color: light-dark(#555, #aaa); }
summary { cursor: pointer; }
@media (max-width: 40rem) { .claims td, .claims th { min-width: 5rem; padding: .15rem .2rem; font-size: .85rem; } .claims .v { white-space: normal; }
  .normal th, .normal td { padding: .15rem .25rem; font-size: .85rem; } .normal th:nth-child(5), .normal td:nth-child(5) { display: none; } }
@media print { body { max-width: none; font-size: 11px; } nav { display: none; } section { break-inside: avoid; } details { display: none; } }
"""


def css_class(verdict):
    verdict = verdict.replace("computed, ", "").replace("counted, ", "")
    if verdict.startswith("holds"):
        return "holds"
    return "no" if verdict in ("does not hold", "no longer") else "open"


def badge(verdict):
    return '<span class="v %s">%s</span>' % (css_class(verdict), html.escape(verdict))


def digits(value):
    """Three or four, as the programs print."""
    if value is None:
        return ""
    if value == round(value) or abs(value) >= 1000:
        return "%.0f" % value if abs(value) < 1e15 else "%.3g" % value
    return ("%.4g" if abs(value) >= 1 else "%.3g") % value


def found(claim):
    """The badge and the figure of a claim."""
    _, verdict, value, low, high = claim
    return badge(verdict) + (" %s [%s, %s]" % (digits(value), digits(low), digits(high)) if value is not None else "")


def anchor(*names):
    return re.sub(r"\W+", "-", "-".join(names))


def number_table(gpus, name, cells):
    """cells: {(row, column, gpu): value}. A bar is a value's share of the largest of its column."""
    rows = list(dict.fromkeys(row for row, _, _ in cells))
    columns = list(dict.fromkeys(column for _, column, _ in cells))
    most = {column: max(value for (_, c, _), value in cells.items() if c == column) for column in columns}
    of_gpu = {column: [g for g in gpus if any((row, column, g) in cells for row in rows)] for column in columns}
    head = "".join("<th>%s%s</th>" % (html.escape(column), "<br><small>%s</small>" % html.escape(gpu) if len(gpus) > 1 else "")
                   for column in columns for gpu in of_gpu[column])
    body = ""
    for row in rows:
        body += "<tr><td>%s</td>" % html.escape(row)
        for column in columns:
            for gpu in of_gpu[column]:
                value = cells.get((row, column, gpu))
                share = value / most[column] if value is not None and most[column] > 0 and value > 0 else 0
                style = ' style="--share:%.1f%%"' % (100 * share) if share and len(rows) > 1 else ""
                body += "<td%s>%s</td>" % (style, digits(value))
        body += "</tr>"
    return '<div class="wide"><table><tr><th>%s</th>%s</tr>%s</table></div>' % (html.escape(name), head, body)


def strip(ratio):
    """Where a ratio lies between a half and twice; grey: 85 to 115%."""
    at = min(max(100 * (ratio - 0.5), 2), 98)
    return '<svg class="strip" viewBox="0 0 100 16" aria-hidden="true"><rect x="35" y="1" width="30" height="14"/><path d="M0 8H100M50 1V15"/>' \
           '<circle cx="%.0f" cy="8" r="5"/></svg>' % at


def cell_of(files, topic, experiment, row, column):
    """(value, low, high) of the last table that has it, or None."""
    return next((tuple(line[4:]) for line in reversed(files.get(topic, ("", []))[1])
                 if line[0] == experiment and line[1] != "claim" and line[2:4] == (row, column) and line[4] is not None), None)


def theory(files, topic):
    """GB/s that the memory, or the link, gives in theory; None of cycles."""
    if topic == "02_memory_management":
        known = cell_of(files, topic, "transfer", "the link, at most", "up")
    else:
        known = cell_of(files, "01_memory_model", "device", "memory rate in theory, GB/s", "this GPU")
        peak = {key[1:]: number[0] for key, number in results.numbers(files.get("04_bandwidth", ("", []))[1]).items() if key[0] == "peak"}
        rates = sorted(peak[table, row, "GB/s"] / share for (table, row, column), share in peak.items()
                       if column == "theory" and share > 0 and (table, row, "GB/s") in peak)
        known = known or rates[len(rates) // 2:][:1]
    return known[0] if known and known[0] > 0 and topic != "01_memory_model" else None


# why a number can be outside, by its topic: what to look at first
REASONS = {
    "02_memory_management": "a slot with fewer lanes or of an older generation (nvidia-smi -q shows the link), another NUMA node, a virtual machine",
    "04_bandwidth": "another process on the GPU, a lower clock (nvidia-smi -q -d CLOCK), a part of a GPU (MIG), memory that is nearly full",
    "06_shared_reduce": "another process on the GPU, or a lower clock",
    "01_memory_model": "code for another architecture than this GPU's, or a profiler that watches",
}


def normal(run, records):
    """The table "is my number normal?"; run: {topic: (heading, rows)}, records: {topic: [(heading, rows)]}"""
    others = list(dict.fromkeys(results.gpu_of(heading) for topic in sorted(records) for heading, _ in records[topic]))
    by_gpu = {gpu: {topic: record for topic in records for record in records[topic] if results.gpu_of(record[0]) == gpu} for gpu in others}
    head = "".join("<th><small>recorded:<br>%s</small></th>" % html.escape(gpu) for gpu in others)
    body, off, reasons = "", [], {}
    for what, topic, experiment, row, column in pages.NUMBERS:
        mine = cell_of(run, topic, experiment, row, column)
        if not mine:
            continue
        gpu, limit = results.gpu_of(run[topic][0]), theory(run, topic)
        same = cell_of(by_gpu.get(gpu, {}), topic, experiment, row, column)
        ratio = mine[0] / same[0] if same and same[0] > 0 else None
        outside = ratio is not None and not 0.85 <= ratio <= 1.15
        off += [what] * outside
        if outside:
            reasons[topic] = REASONS[topic]
        body += '<tr><td><a href="#%s">%s</a></td><td><b>%s</b></td><td>%s</td><td%s>%s</td><td>%s</td>%s</tr>' % (
            anchor(topic, experiment), html.escape(what), digits(mine[0]), "%.0f%%" % (100 * mine[0] / limit) if limit else "",
            ' class="off"' if outside else "", "" if ratio is None else "%s%.0f%%" % ("!\N{NO-BREAK SPACE}" if outside else "", 100 * ratio),
            "" if ratio is None else strip(ratio),
            "".join("<td>%s</td>" % digits((cell_of(by_gpu[other], topic, experiment, row, column) or (None,))[0]) for other in others))
    if not body:
        return "<p>This run has none of the numbers.</p>"
    said = "%d outside 85 to 115%% of the same GPU's record: %s. The usual reasons: %s." % (
        len(off), html.escape("; ".join(off)), html.escape("; ".join(reasons.values()))) if off else \
        "No number is outside 85 to 115% of the same GPU's record." if any(results.gpu_of(run[topic][0]) in others for topic in run) else \
        "This GPU has no record yet: compare with the nearest, and send yours."
    return '<p>%s</p><div class="wide"><table class="normal"><tr><th></th><th>this run</th><th>of theory</th><th>of its record</th><th><small>50 to 150%%</small>' \
           '</th>%s</tr>%s</table></div>' % (said, head, body)


def verdicts(run, nearest):
    """How many of which kind, and which differ from the record."""
    counts, differ, gpus, compared = Counter(), "", [], 0
    for topic in sorted(run):
        record = results.claims(nearest[topic][1]) if nearest.get(topic) else {}
        for id, claim in results.claims(run[topic][1]).items():
            counts[claim[1]] += 1
            then = record.get(id)
            compared += then is not None
            if then and then[1] != claim[1]:
                gpus.append(results.gpu_of(nearest[topic][0]))
                differ += "<tr><td>%s</td><td>%s</td><td>%s<br><small>%s</small></td></tr>" % (
                    html.escape(id + ": " + claim[0]), found(claim), found(then), html.escape(gpus[-1]))
    text = "<p>%d verdicts: %s</p>" % (sum(counts.values()), " &nbsp; ".join("%s %d" % (badge(kind), n) for kind, n in counts.most_common()))
    if any(results.is_quick(run[topic][0]) for topic in run):
        return text + "<p>A run of --quick has smaller sizes than the record: it is not compared.</p>"
    if not compared:
        return text
    if all(nearest.get(topic) in (None, run[topic]) for topic in run):
        return text + "<p>This is what was recorded.</p>"
    if not differ:
        return text + "<p>All %d that were recorded are as they were.</p>" % compared
    return text + "<p>%d of %d differ from the record:</p>" % (len(gpus), compared) + \
        '<div class="wide"><table class="claims"><tr><th>claim</th><th>this run</th><th>recorded</th></tr>%s</table></div>' % differ


def drawn(topic, experiment, cells, record, gpu):
    """The figure and what the recorded one shows; "" without matplotlib, or where a table is better."""
    try:
        import plot
        title, *panels = plot.FIGURES.get(topic, {}).get(experiment, ("",))
        try:
            title = plot.titled(title, panels, record or cells) if panels else ""
        except KeyError:  # its numbers are not in this run
            title = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            svg = panels and plot.figure("", panels, cells, gpu, record, experiment)
    except Exception:  # no matplotlib, or numbers that nobody can draw: then the table is open
        return ""
    said = "<p><small>%s: %s.</small></p>" % ("Recorded" if record else "In short", html.escape(title)) if title else ""
    return '<div class="picture">%s</div>%s' % (svg, said) if svg else ""


def section(topic, experiment, lines, record, gpus, footer):
    """gpus: what the run is called, and its record, "" if there is none."""
    tables, claims, cells = {}, "", []
    for gpu, rows in zip(gpus, (lines, record)):
        for _, table, row, column, value, _, _ in rows:
            if table not in results.NO_NUMBERS and value is not None and column:
                tables.setdefault(table, {})[row, column, gpu] = value
    for id, claim in results.claims(lines).items():
        of = found(claim).partition("</span>")
        claims += "<li>%s</span> %s: %s<small>%s</small></li>" % (of[0], html.escape(id), html.escape(claim[0]), of[2])
    try:
        import plot
        cells = [plot.tables(rows).get(experiment, {}) for rows in (lines, record)]
    except ImportError:
        pass
    picture = drawn(topic, experiment, *cells, footer) if cells else ""
    body = "".join(number_table([g for g in gpus if g], name, of) for name, of in tables.items())
    for why in results.failed(lines).values():
        claims = '<li><span class="v no">failed</span> %s</li>' % html.escape(why) + claims
    return '<section id="%s"><h3>%s</h3>%s%s%s</section>' % (
        anchor(topic, experiment), html.escape(experiment), picture, '<ul class="claims">%s</ul>' % claims if claims else "",
        "<details%s><summary>numbers</summary>%s</details>" % ("" if picture else " open", body) if body else "")


def page(files, records):
    """files: [(heading, rows)] of a run; records: {topic: [(heading, rows)]}"""
    run = {}
    for heading, rows in files:  # samples alone have one topic
        run.setdefault(results.topic_of(heading), (heading, []))[1].extend(rows)
    nearest = {topic: results.nearest(run[topic][0], records.get(topic, [])) for topic in run}
    contents, body = "", ""
    for topic in sorted(run):
        heading, rows = run[topic]
        record = nearest[topic] or ("", [])
        name = results.gpu_of(record[0]) if record[0] and results.gpu_of(record[0]) != results.gpu_of(heading) else ""
        gpus = ["this run", ("recorded " + name).strip() if record[0] and record != run[topic] else ""]
        names = list(dict.fromkeys(row[0] for row in rows))
        contents += '<div><a href="#%s"><b>%s</b></a> %s</div>' % (anchor(topic), html.escape(topic), " · ".join(
            '<a href="#%s">%s</a>' % (anchor(topic, name), html.escape(name)) for name in names))
        body += '<h2 id="%s">%s</h2>' % (anchor(topic), html.escape(topic))
        for name in names:
            body += section(topic, name, [row for row in rows if row[0] == name],
                            [row for row in record[1] if row[0] == name] if gpus[1] else [], gpus, heading.partition(" on ")[2].split(",")[0])
    if 'class="picture"' not in body:
        contents += "<div>No figures: they need matplotlib (apt install python3-matplotlib, or pip install matplotlib).</div>"
    machines = dict.fromkeys(heading.split(" on ", 1)[1] for heading, _ in files)
    failed = ["%s %s" % (results.topic_of(heading)[:2], name) for heading, rows in files for name in results.failed(rows)]
    if failed:
        machines["These failed, and the others ran: " + ", ".join(failed)] = None
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            "<title>CUDA memory, measured</title><style>%s</style></head><body><h1>CUDA memory, measured</h1>%s<h2>Is my number normal?</h2>%s"
            "<h2>Verdicts</h2>%s<h2>Contents</h2><nav>%s</nav>%s</body></html>\n" % (
                STYLE, "".join("<p>%s</p>" % html.escape(machine) for machine in machines), normal(run, records), verdicts(run, nearest),
                contents, body))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="CSV")
    parser.add_argument("--output", required=True, metavar="HTML")
    arguments = parser.parse_args()
    if any(os.path.exists(arguments.output) and os.path.exists(path) and os.path.samefile(arguments.output, path) for path in arguments.files):
        sys.exit("%s would be overwritten: it is read" % arguments.output)
    text = page([results.read(path) for path in arguments.files], results.recorded())
    try:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        sys.exit("%s: %s" % (arguments.output, error.strerror))


if __name__ == "__main__":
    main()
