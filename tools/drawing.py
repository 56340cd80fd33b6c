"""What the tools that draw with matplotlib share: saving a figure small, and the band of a dense curve."""
import io
import re

MOST_POINTS = 400  # of a curve's band


def save(figure, output, **options):
    """Saves a figure. As SVG without its metadata and indentation, and with coordinates to a hundredth of a point."""
    if output.suffix != ".svg":
        figure.savefig(output, **options)
        return
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None}, **options)
    output.write_text(smaller(written.getvalue()), encoding="utf-8")


def smaller(svg):
    def rounded(match):
        return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), match[0])

    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r'<g id="[A-Za-z0-9.]+_\d+"(/?)>', r"<g\1>", svg)  # what nothing refers to
    svg = re.sub(r'(?: (?:d|x|y)="[^"]*"|translate\([^)]*\))', rounded, svg)  # not scale(0.015625)
    svg = re.sub(r' d="[^"]*"', lambda path: " " + " ".join(path[0].split()).replace(' "', '"'), svg)
    return re.sub(r"\n\s+", "\n", svg)


def outline(points, position):
    """The band of a curve's points (x, y, low, high), sorted by x, as (x, low, high): of a dense one the lowest and the
    highest in each of MOST_POINTS pieces of the axis, on which `position(x)` is a place. Such a band is as long as two
    curves, and unlike these is not simplified by matplotlib."""
    if len(points) <= MOST_POINTS:
        return [(x, low, high) for x, _, low, high in points]
    first, last = position(points[0][0]), position(points[-1][0])
    pieces = {}
    for point in points:
        place = int((position(point[0]) - first) / (last - first) * MOST_POINTS)
        pieces.setdefault(min(place, MOST_POINTS - 1), []).append(point)
    return [(piece[len(piece) // 2][0], min(p[2] for p in piece), max(p[3] for p in piece))
            for piece in pieces.values()]
