#!/usr/bin/env python3
"""Says where a run differs from what was recorded: verdicts, numbers, rows. At most 40 lines.

    tools/compare.py MINE.csv... [--with RECORDED.csv]...     without --with: the record of the same GPU, else the nearest
    tools/compare.py --brief MINE.csv...                      only the last line, which says how much agrees

Exit code 1: a verdict differs, a number that the GPU decides does, or one that the host decides by more than ten times, or a
row is missing; or an experiment failed. A run of --quick has other sizes, and is compared with no record but another such run.
"""
import argparse
import re
import sys
from collections import Counter

import results

MOST = {"failed": 4, "verdicts": 7, "numbers": 9, "host": 4, "rows": 2}  # lines of each part
NOT_COMPARED = re.compile(r"fault_times,|overlap,stream \d")  # each row is an event of one run: nothing recurs
BRIEF = 0.015  # ms: a launch is a large part of what is as brief


def in_ms(column, value):
    words = column.replace(",", " ").split()
    return value if "ms" in words else value / 1000 if "us" in words else None


def host_decides(topic, key, numbers):
    """Whether the host or the driver decides a row. Their intervals are never narrower than 10% to each side."""
    if topic == "05_unified_memory" or topic == "02_memory_management" and key[1] != "bytes per row":
        return True
    return any(high - low >= 0.199 * abs(value) > 0 or (in_ms(column, value) or 1) < BRIEF
               for column, (value, low, high) in numbers)


def times(mine, record):
    return mine / record if record else float("inf") if mine else 1.0


def far(mine, record):
    """By more than a tenth, and the intervals do not meet."""
    return not 0.9 <= times(mine[0], record[0]) <= 1.1 and (mine[1] > record[2] or mine[2] < record[1])


def near(mine, record):
    return abs(times(mine[0], record[0]) - 1) < 0.03


def size(ratio):
    return max(ratio, 1 / ratio) if ratio > 0 else float("inf")


def lines_of(differ, mine, record):
    """[(ratio, line)], the worst first: a row once, with its worst column; rows that all differ alike in one line.
    differ, mine and record: {(topic, experiment, table, row, column): (value, low, high)}"""
    alike = {}
    for key in differ:
        alike.setdefault((*key[:3], key[4]), []).append(key)
    found, done = [], set()
    for (topic, experiment, table, column), keys in alike.items():
        ratios = [times(mine[key][0], record[key][0]) for key in keys]
        if len(keys) >= 3 and max(ratios) <= 1.1 * min(ratios):
            of = sum(key[:3] == keys[0][:3] and key[4] == column for key in mine)
            found.append((ratios[0], "%s %s | %s | %s: %d of %d rows" % (topic[:2], experiment, table[:24], column, len(keys), of)))
            done.update(keys)
    worst = {}
    for key in set(differ) - done:
        worst.setdefault(key[:4], []).append((size(times(mine[key][0], record[key][0])), key))
    for keys in worst.values():
        key = max(keys)[1]
        exchanged = next((other[3] for other in record if other[:3] == key[:3] and other[4] == key[4] and other[3] != key[3] and other in mine
                          and near(mine[key], record[other]) and near(mine[other], record[key])), None)
        found.append((times(mine[key][0], record[key][0]), "%s %s | %s | %s | %s: %.4g, recorded %.4g%s" % (
            key[0][:2], key[1], key[2][:24], key[3], key[4], mine[key][0], record[key][0],
            ": exchanged with '%s'?" % exchanged if exchanged else "")))
    return sorted(found, key=lambda line: (-size(line[0]), line[1]))


def part(title, lines, most):
    """A title and so many lines at most."""
    text = ["%s: %s" % (title, len(lines) or "none")] + lines[:most]
    return text + (["  and %d more" % (len(lines) - most)] if len(lines) > most else [])


def same_words(*said):
    """Whether two claims compare the same, but for what changes from run to run: measured numbers, and which launch was best."""
    return len({re.sub(r"\d+\.\d+|\d+ x \d+ threads", "", text) for text in said}) == 1


def compared(pairs):
    """(lines, whether something differs that ought not to); pairs: [((heading, rows) of mine, (heading, rows) of the record)]"""
    mine, record, verdicts, others, host, counts, gpus, failed = {}, {}, [], [], set(), Counter(), {}, []
    for (heading, rows), (recorded_heading, recorded_rows) in pairs:
        topic = results.topic_of(heading)
        gpus.setdefault((results.gpu_of(heading), results.gpu_of(recorded_heading)), set()).add(results.date_of(recorded_heading))
        failed += ["  %s %s: %s" % (topic[:2], experiment, why) for experiment, why in results.failed(rows).items()]
        ran = {row[0] for row in rows}  # of a run of some experiments, only these are compared
        recorded_rows = [row for row in recorded_rows if row[0] in ran]
        now, then = results.claims(rows), results.claims(recorded_rows)
        for id in sorted(set(now) | set(then)):
            here, there = now.get(id, ("", "not run", None)), then.get(id, ("", "not recorded", None))  # statement, verdict, number
            counts["verdicts"] += id in now
            counts["as recorded"] += here[1] == there[1]
            other_number = None not in here[2:] + there[2:] and far(here[2:], there[2:]) and not host_decides(topic, ("", ""), [("", here[2:])])
            if here[1] != there[1] or other_number:
                verdicts.append("  %s: %s; recorded: %s" % (id, *("%s%s" % (claim[1], " %.4g [%.4g, %.4g]" % tuple(claim[2:]) if claim[2] is not None else "")
                                                                  for claim in (here, there))))
        for of, same in ((results.compared, same_words), (results.stated, lambda *figures: len(set(figures)) == 1)):
            here, there = of(rows), of(recorded_rows)
            others += ["  %s: %s; recorded: %s" % (id, here[id], there[id]) for id in sorted(set(here) & set(there)) if not same(here[id], there[id])]
        for into, numbers in ((mine, results.numbers(rows)), (record, results.numbers(recorded_rows))):
            into.update({(topic, *key): number for key, number in numbers.items() if not NOT_COMPARED.match("%s,%s" % key[:2]) and not key[3].endswith("spread")})
    by_row = {}
    for numbers in (mine, record):
        for key, number in numbers.items():
            by_row.setdefault(key[:4], []).append((key[4], number))
    host = {row for row, numbers in by_row.items() if host_decides(row[0], row[1:], numbers)}
    both = [key for key in mine if key in record]
    differ = [key for key in both if far(mine[key], record[key])]
    text = ["%s, compared with %s, recorded %s" % (*gpu, " and ".join(sorted(dates))) for gpu, dates in list(gpus.items())[:2]] + part("claims whose verdict or number differs", verdicts, MOST["verdicts"])
    if failed:
        text += part("experiments that failed", failed, MOST["failed"])
    text += part("claims that compare other rows, or have another figure of the text", others, MOST["verdicts"]) if others else []
    shown = lambda lines: ["  %6.3gx  %s" % line for line in lines]
    of_gpu = lines_of([key for key in differ if key[:4] not in host], mine, record)
    of_host = lines_of([key for key in differ if key[:4] in host], mine, record)
    text += part("rows whose numbers differ by more than 10% and beyond both intervals", shown(of_gpu), MOST["numbers"])
    text += part("the same where the host, the driver or a launch decides", shown(of_host), MOST["host"])
    for name, here, there in (("missing", record, mine), ("new", mine, record)):
        rows = Counter(row[:3] for row in dict.fromkeys(key[:4] for key in here if key not in there))
        counts[name] = sum(rows.values())
        text += part("rows or columns that are " + name, ["  %s %s | %s: %d" % (topic[:2], experiment, table, n)
                                                          for (topic, experiment, table), n in rows.items()], MOST["rows"])
    far_off = set(differ)
    share = lambda keys: "%s numbers, %d%% within 10%% or the intervals" % (
        format(len(keys), ","), 100 * sum(key not in far_off for key in keys) // max(1, len(keys)))
    text.append("%d verdicts: %d as recorded; of the GPU %s" % (counts["verdicts"], counts["as recorded"], share([key for key in both if key[:4] not in host])))
    text += ["of the host, the driver, and launches: " + share([key for key in both if key[:4] in host])] * any(key[:4] in host for key in both)
    by_ten = any(10 < size(times(mine[key][0], record[key][0])) < float("inf") for key in differ)  # more than another host or driver would do
    differs = bool(failed or verdicts or others or of_gpu or by_ten or counts["missing"])
    return [line if len(line) <= 120 else line[:117] + "..." for line in text], differs


def brief(lines):
    """How much agrees, of all that compared() says."""
    return "compared with what was recorded: " + next(line for line in reversed(lines) if " verdicts: " in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="MINE.csv")
    parser.add_argument("--with", dest="records", action="append", default=[], metavar="RECORDED.csv")
    parser.add_argument("--brief", action="store_true", help="only how much agrees")
    arguments = parser.parse_args()
    records = {}
    for path in arguments.records:
        heading, rows = results.read(path)
        records.setdefault(results.topic_of(heading), []).append((heading, rows))
    records = records or results.recorded()
    pairs, notes, differs = [], [], False
    for path in arguments.files:
        heading, rows = results.read(path)
        topic, quick = results.topic_of(heading), results.is_quick(heading)
        record = results.nearest(heading, [r for r in records.get(topic, []) if results.is_quick(r[0]) == quick])
        if record:
            pairs.append(((heading, rows), record))
        else:
            notes.append("%s: not compared: %s" % (topic, "--quick runs other sizes than were recorded" if quick else "nothing is recorded of it"))
    if pairs:
        lines, differs = compared(pairs)
        notes += [brief(lines)] if arguments.brief else lines
    print("\n".join(note[:120] for note in notes))
    return 1 if differs else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.stderr.close()
