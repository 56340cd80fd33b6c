#!/usr/bin/env python3
"""Makes one page of HTML of what --csv saved: verdicts, and tables with bars. Several GPUs stand side by side.

    tools/report.py --output report.html mine.csv [04_bandwidth/results/nvidia-h200.csv ...]
"""
import argparse
import html
import sys

import results

STYLE = """
:root { color-scheme: light dark; --line: #8884; --bar: #4a90d955; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h2 { margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--line); }
h3 { margin: 1.5rem 0 .3rem; font-size: 1rem; }
.wide { overflow-x: auto; margin-bottom: 1.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .6rem; text-align: right; white-space: nowrap; vertical-align: bottom; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.claims td, .claims th { text-align: left; white-space: normal; vertical-align: top; }
td[style] { background: linear-gradient(to right, var(--bar) var(--share), transparent var(--share)); }
.v { border-radius: .4rem; padding: 0 .4rem; border: 1px solid currentColor; white-space: nowrap; }
.holds { color: light-dark(#20732f, #6cc57c); } .no { color: light-dark(#b03024, #f08a7e); } .open { color: light-dark(#7d6314, #d8b94e); }
"""


def css_class(verdict):
    verdict = verdict.removeprefix("computed, ")
    if verdict.startswith("holds"):
        return "holds"
    return "no" if verdict in ("does not hold", "no longer") else "open"


def digits(value):
    """Three or four, as the programs print."""
    if value is None:
        return ""
    if value == round(value) or abs(value) >= 1000:
        return "%.0f" % value
    return ("%.4g" if abs(value) >= 1 else "%.3g") % value


def claims_table(gpus, claims):
    """claims: {statement: {gpu: (verdict, value, low, high)}}"""
    rows = ""
    for statement, by_gpu in claims.items():
        cells = ""
        for gpu in gpus:
            verdict, value, low, high = by_gpu.get(gpu, ("", None, None, None))
            figure = " %s [%s, %s]" % (digits(value), digits(low), digits(high)) if value is not None else ""
            badge = '<span class="v %s">%s</span>' % (css_class(verdict), html.escape(verdict)) if verdict else ""
            cells += "<td>%s%s</td>" % (badge, figure)
        rows += "<tr><td>%s</td>%s</tr>" % (html.escape(statement), cells)
    head = "".join("<th>%s</th>" % html.escape(gpu) for gpu in gpus)
    return '<div class="wide"><table class="claims"><tr><th>claim</th>%s</tr>%s</table></div>' % (head, rows)


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


def page(files):
    """files: [(heading, rows)]"""
    gpus_of = {}  # topic -> {gpu: True}, in the order of the files
    topics = {}  # topic -> experiment -> ({statement: ...}, {table: {(row, column, gpu): value}})
    for heading, rows in files:
        gpu, topic = results.gpu_of(heading), heading.split(" on ")[0]
        gpus_of.setdefault(topic, {})[gpu] = True
        for experiment, table, row, column, value, low, high in rows:
            claims, tables = topics.setdefault(topic, {}).setdefault(experiment, ({}, {}))
            if table == "claim":
                claims.setdefault(row, {})[gpu] = (column, value, low, high)
            elif value is not None and column:
                tables.setdefault(table, {})[row, column, gpu] = value
    body = "<h1>CUDA memory, measured</h1>" + "".join("<p>%s</p>" % html.escape(heading) for heading, _ in files)
    for topic in sorted(topics):
        body += "<h2>%s</h2>" % html.escape(topic)
        for experiment, (claims, tables) in topics[topic].items():
            body += "<h3>%s</h3>" % html.escape(experiment)
            if claims:
                body += claims_table(gpus_of[topic], claims)
            body += "".join(number_table(gpus_of[topic], name, cells) for name, cells in tables.items())
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            "<title>CUDA memory, measured</title><style>%s</style></head><body>%s</body></html>\n" % (STYLE, body))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="CSV")
    parser.add_argument("--output", required=True, metavar="HTML")
    arguments = parser.parse_args()
    text = page([results.read(path) for path in arguments.files])
    try:
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        sys.exit("%s: %s" % (arguments.output, error.strerror))


if __name__ == "__main__":
    main()
