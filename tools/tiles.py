"""The claims as tiles, drawn as SVG: what `summary.py --figure` writes. Needs Python's own library only.

Text stays text, so that the file is small; it is laid out by the widths of DejaVu Sans, which are Verdana's too, and
other sans-serif fonts are narrower: what fits in these fits in them.
"""
from xml.sax.saxutils import escape

import records

COLOURS = {  # told apart without red against green
    "holds": "#7fb8de",
    "holds, stronger": "#3f8fc5",
    "holds, weaker": "#bcdcf0",
    "holds, size open": "#a5d9cf",
    "depends": "#f3cf73",
    "too close to call": "#cbb2e2",
    "no longer": "#f4c4ab",
    "does not hold": "#ea8a5f",
    "not judged": "#d4d4d4",
}
COLUMNS = 6
TILE, GAP, MARGIN, TOPIC = 162, 5, 7, 24  # pixels: a tile's width, between tiles, within them, a topic's name over them
LINE = 1.25  # from line to line, in font sizes
TITLE = 17  # font sizes from here on
NAME, VERDICT, STATEMENT, HERE = 13, 10.5, 11.5, 10.5
SMALLEST = 5

# thousandths of the font size, from the space to the tilde
WIDTHS = [318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636,
          636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656,
          557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613,
          635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818,
          592, 592, 525, 636, 337, 636, 838]
BOLD = 1.16  # times as wide, of the widest letters


def width(text, size, bold=False):
    units = sum(WIDTHS[ord(c) - 32] if 32 <= ord(c) < 127 else 1000 for c in text)
    return units / 1000 * size * (BOLD if bold else 1)


def shrunk(text, room, size, bold=False):
    """The largest size, up to `size`, at which one line of text fits into `room`."""
    return min(size, size * room / max(width(text, size, bold), 1e-9))


def wrapped(text, room, size):
    """The text in lines of at most `room`, and the size at which the longest word fits."""
    size = max(SMALLEST, min(shrunk(word, room, size) for word in text.split() or [""]))
    lines = []
    for word in text.split():
        if lines and width(f"{lines[-1]} {word}", size) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [cut(line, room, size) for line in lines], size


def cut(line, room, size):
    if width(line, size) <= room:
        return line
    while line and width(line + "...", size) > room:
        line = line[:-1]
    return line + "..."


def arrange(topics):
    """The rows of tiles: lists of (claim, topic or None); the topic stands over its first tile."""
    tiles = [(claim, topic if k == 0 else None) for topic, claims in topics.items() for k, claim in enumerate(claims)]
    return [tiles[k:k + COLUMNS] for k in range(0, len(tiles), COLUMNS)]


def here(claim):
    """The size of the effect, without its range."""
    return records.size_text(claim).partition(" (")[0]


def text(x, y, words, size, **style):
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:.4g}"{attributes}>{escape(words)}</text>'


class Tile:
    """One claim: what it is made of, and how high it has to be."""

    def __init__(self, claim):
        self.claim = claim
        self.room = TILE - 2 * MARGIN
        self.lines, self.size = wrapped(claim["parameter"], self.room, STATEMENT)
        self.here = here(claim)
        self.height = MARGIN + NAME * LINE + 3 + len(self.lines) * self.size * LINE + MARGIN
        self.height += HERE * LINE if self.here else 0

    def draw(self, x, y, height):
        name, verdict = self.claim["case"], self.claim["metric"]
        words = verdict + records.mark(self.claim)
        left, right, top = x + MARGIN, x + TILE - MARGIN, y + MARGIN + 0.8 * NAME
        beside = self.room - width(name, NAME, bold=True) - 6
        parts = [f'<g><rect x="{x}" y="{y:.1f}" width="{TILE}" height="{height:.1f}" rx="3" fill="{COLOURS[verdict]}"/>',
                 text(left, top, name, NAME, font_weight="bold"),
                 text(right, top, words, shrunk(words, beside, VERDICT), font_style="italic", text_anchor="end")]
        first = y + MARGIN + NAME * LINE + 3
        for k, line in enumerate(self.lines):
            parts.append(text(left, first + (k + 0.8) * self.size * LINE, line, self.size))
        if self.here:
            words = f"here {self.here}"
            size = shrunk(words, self.room, HERE, bold=True)
            parts.append(text(right, y + height - MARGIN, words, size, text_anchor="end", font_weight="bold"))
        return "\n".join(parts) + "</g>"


def legend(count, y, room):
    """A square and a line for each verdict that there is, and a dagger for what holds or fails by construction."""
    parts, x = [], 0
    for verdict in records.TALLY:
        if count[verdict]:
            label = f"{verdict}: {count[verdict]}"
            wide = 20 + width(label, 12) + 18
            if x + wide - 18 > room and x > 0:
                x, y = 0, y + 20
            if verdict in COLOURS:
                parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="14" height="14" rx="2" fill="{COLOURS[verdict]}"/>')
            else:
                parts.append(text(x + 4, y + 11.5, records.DAGGER, 12, **{"class": "on-page"}))
            parts.append(text(x + 20, y + 11.5, label, 12, **{"class": "on-page"}))
            x += wide
    return parts, y


def draw(topics, title):
    """The SVG of the claims of each topic."""
    rows = arrange(topics)
    columns = max(map(len, rows))
    whole = max(columns * (TILE + GAP) - GAP, 3 * TILE)
    parts, y = [text(0, 20, title, shrunk(title, whole, TITLE), **{"class": "on-page"})], 26.0
    for row in rows:
        tiles = [Tile(claim) for claim, _ in row]
        height = max(tile.height for tile in tiles)
        for column, (_, topic) in enumerate(row):
            if topic:
                room = TILE
                parts.append(text(column * (TILE + GAP), y + TOPIC - 6, topic, shrunk(topic, room, 13, bold=True),
                                  font_weight="bold", **{"class": "on-page"}))
        y += TOPIC if any(topic for _, topic in row) else 0
        parts += [tile.draw(column * (TILE + GAP), y, height) for column, tile in enumerate(tiles)]
        y += height + GAP
    count = records.tally(claim for claims in topics.values() for claim in claims)
    squares, y = legend(count, y + 6, whole)
    parts += squares
    y -= 6
    note = "here: the size of the effect on which the verdict rests; each topic's page says of what"
    parts.append(text(0, y + 38, note, shrunk(note, whole, 11), **{"class": "on-page"}))
    box = f"-8 -4 {whole + 16:.0f} {y + 50:.0f}"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{whole + 16:.0f}" height="{y + 50:.0f}"'
        ' font-family="DejaVu Sans, Verdana, Helvetica, Arial, sans-serif" fill="#111" role="img">',
        f"<title>{escape(title)}</title>",
        "<style>.page { fill: #fff } .on-page { fill: #111 }",
        "@media (prefers-color-scheme: dark) { .page { fill: #0d1117 } .on-page { fill: #e6edf3 } }</style>",
        f'<rect class="page" x="-8" y="-4" width="{whole + 16:.0f}" height="{y + 50:.0f}"/>',
        *parts, "</svg>", ""])
