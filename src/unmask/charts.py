"""Lines, bars, points and heat maps as SVG text: small, without scripts, in the light and in the dark.

Each chart carries its own style, so that it stands in a page or in a file by itself. Series differ in colour
and in dash; points of short series say their value when pointed at.
"""

import base64
import html
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unmask.progress import counted

Points = Sequence[tuple[float, float]]
Matrix = Sequence[Sequence[float]]
Spots = Sequence[tuple[float, float, str]]  # x, y and what is told when it is pointed at

WIDTH, _PLOT_HEIGHT = 420, 190
_LEFT, _RIGHT = 66, 22  # on the left there is room for 0.000125
_LINE = 18  # from one line of text to the next
_LETTER, _BROAD = 7.6, 10.0  # the width of a letter in a wide face; of a capital, m or w
_LABEL, _CATEGORY, _NAME = 24, 32, 50  # letters drawn: of a row or column of a heat map, of bars, in a legend
_DOTS = 40  # a series of more points has no dots
_BAR, _GAP = 13, 9
_NEGLIGIBLE = 1e-9
_FIELD = 320  # height of a field of points
_CELL, _ROOMY, _MAP = 15, 44, 64  # a cell of a heat map; one with a number in it; a whole map among many
_SLANT = 0.87  # height of a label at 60 degrees over its length
_SHADES = 16
_WARM, _COLD = (217, 102, 43), (31, 127, 208)  # below and above zero, on white and on black

# After Okabe and Ito, darker or lighter where the contrast asks for it.
_LIGHT = ("#0072b2", "#c44e00", "#00805d", "#a3477f", "#8a6100", "#52606d")
_DARK = ("#63b8f0", "#ff9a5c", "#3fd0a4", "#e79fcb", "#f0c04a", "#b8c4ce")
_SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", "M-4 -4h8v8h-8z", "M0 -5L5 0L0 5L-5 0z", "M0 -5L5 4h-10z")
_DASHES = ("none", "7 3", "2 3", "9 3 2 3", "5 2", "1 2")


def _style() -> str:
    rules = [
        ".chart { font: 13px system-ui, sans-serif }",
        ".chart text { fill: #1f2933 } .chart .soft { fill: #52606d } .chart .title { font-weight: 600 }",
        ".chart .grid { stroke: #d9e2ec } .chart .line { fill: none; stroke-width: 2 }",
        ".chart text.end { text-anchor: end } .chart text.middle { text-anchor: middle }",
        ".chart text.cell { text-anchor: middle; stroke: #fff; stroke-width: 3px; paint-order: stroke }",
    ]
    dark = [".chart text { fill: #e4e7eb } .chart .soft { fill: #b8c4ce } .chart .grid { stroke: #3e4c59 }"]
    dark.append(".chart image { filter: brightness(1.6) } .chart text.cell { stroke: #1f2933 }")
    for number, (light, bright, dash) in enumerate(zip(_LIGHT, _DARK, _DASHES, strict=True)):
        rules.append(f"{_colour(number, light)} .chart .line.s{number} {{ stroke-dasharray: {dash} }}")
        dark.append(_colour(number, bright))
    return "\n".join([*rules, "@media (prefers-color-scheme: dark) {", *dark, "}"])


def _colour(number: int, colour: str) -> str:
    return f".chart .line.s{number} {{ stroke: {colour} }} .chart .area.s{number} {{ fill: {colour} }}"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart; `svg` is also a whole file."""

    title: str
    svg: str
    height: float
    width: float = WIDTH


def lines(
    title: str,
    unit: str,
    series: Mapping[str, Points],
    x_label: str = "step",
    *,
    percent: bool = False,
    from_zero: bool = False,
    marks: Mapping[float, str] | None = None,
) -> Chart:
    """Curves over a common axis; `percent` shows shares, and starts at zero.

    `marks` name places on the axis, where its numbers would say nothing: of logarithms, for example.
    """
    series = {name: kept for name, points in series.items() if (kept := _finite(points))}
    xs = [x for points in series.values() for x, _ in points] or [0.0, 1.0]
    ys = [y for points in series.values() for _, y in points] or [0.0, 1.0]
    floor = min(0.0, *ys) if percent or from_zero else min(ys)
    grid = ticks(floor, max(ys))
    legend, top = _legend(list(series))
    place = _Place(min(xs), max(xs), grid[0], grid[-1], top)
    named = {value: number_text(value) for value in _whole(xs)} if marks is None else marks
    body = [*legend, *_y_axis(grid, place, percent), *_x_axis(place, x_label, named)]
    for number, (name, points) in enumerate(series.items()):
        body += _curve(number % len(_LIGHT), name, points, place, percent, named)
    return _chart(title, unit, body, top + _PLOT_HEIGHT + 2 * _LINE + 6, _summary(series, percent))


def _whole(xs: Sequence[float]) -> list[float]:
    """Where an axis has its numbers; only whole ones on a long axis: there is no layer 1.5."""
    low, high = min(xs), max(xs)
    fractions = high - low < 2
    return [
        value for value in ticks(low, high) if low <= value <= high and (fractions or value == int(value))
    ]


def _finite(points: Points) -> Points:
    """Those that can be drawn: a run that diverged has others."""
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def bars(title: str, unit: str, series: Mapping[str, Mapping[str, float]], *, percent: bool = False) -> Chart:
    """Horizontal bars: a group per category, in each a bar per series."""
    categories = list(dict.fromkeys(name for values in series.values() for name in values))
    left = 12 + max((_long(_cut(name, _CATEGORY)) for name in categories), default=0.0)
    room = WIDTH - left - 52
    largest = max((value for values in series.values() for value in values.values()), default=0.0)
    largest = largest if largest > 0 else 1.0
    legend, y = _legend(list(series), filled=True)
    body = list(legend)
    for category in categories:
        middle = y + _BAR * len(series) / 2 + 4
        body.append(_text(left - 6, middle, _cut(category, _CATEGORY), "end"))
        for number, values in enumerate(series.values()):
            if category in values:
                value = values[category]
                long = max(value / largest * room, 1.0)
                shown = number_text(value, percent)
                body.append(
                    f'<rect class="area s{number % len(_LIGHT)}" x="{left:.1f}" y="{y}" width="{long:.1f}" '
                    f'height="{_BAR - 1}"><title>{html.escape(category)}: {shown}</title></rect>'
                )
                body.append(_text(left + long + 4, y + _BAR - 2, shown, "soft"))
            y += _BAR
        y += _GAP
    said = "; ".join(
        f"{name} {category} {number_text(value, percent)}"
        for name, values in series.items()
        for category, value in values.items()
    )
    return _chart(title, unit, body, y + 4, said)


def scatter(title: str, unit: str, groups: Mapping[str, Spots]) -> Chart:
    """Points of several groups, which differ in colour and shape, on one scale for both axes."""
    spots = [spot for group in groups.values() for spot in group]
    xs, ys = [x for x, _, _ in spots] or [0.0], [y for _, y, _ in spots] or [0.0]
    wide, high = WIDTH - 2 * _RIGHT, _FIELD - 2 * _RIGHT
    scale = min(wide / ((max(xs) - min(xs)) or 1.0), high / ((max(ys) - min(ys)) or 1.0))
    legend, top = _legend(list(groups), shapes=True)
    middle_x, middle_y = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
    box = f'x="4" y="{top}" width="{WIDTH - 8}" height="{_FIELD}"'
    body = [*legend, f'<rect class="grid" {box} fill="none"/>']
    for number, group in enumerate(groups.values()):
        for x, y, told in group:
            at_x = WIDTH / 2 + (x - middle_x) * scale
            at_y = top + _FIELD / 2 - (y - middle_y) * scale
            body.append(_mark(number, at_x, at_y, told))
    said = "; ".join(f"{name}: {counted(len(group), 'point')}" for name, group in groups.items())
    return _chart(title, unit, body, top + _FIELD + 8, said)


def _mark(number: int, x: float, y: float, told: str = "") -> str:
    """A point of a group: after as many groups as there are colours, another shape goes with a colour."""
    kind, shape = number % len(_LIGHT), _SHAPES[number % len(_SHAPES)]
    title = f"<title>{html.escape(told)}</title>" if told else ""
    place = f'transform="translate({x:.1f} {y:.1f})"'
    return f'<path class="area s{kind}" fill-opacity="0.75" {place} d="{shape}">{title}</path>'


def heat_map(
    title: str,
    unit: str,
    values: Matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    numbers: bool = False,
) -> Chart:
    """Values from -1 to 1 by their shade, which grows with the square root; a row tells its largest.

    With `numbers` cells are larger and each has its value.
    """
    longest_row, longest_column = (
        max((_long(_cut(label)) for label in labels), default=0.0) for labels in (rows, columns)
    )
    cell = _ROOMY if numbers else _CELL
    left, top = 12 + longest_row, 2 * _LINE + 12 + _SLANT * longest_column
    wide, tall = cell * len(columns), cell * len(rows)
    body = [_picture(values, left, top, wide, tall)]
    for number, label in enumerate(columns):
        x = left + cell * (number + 0.5) + 3
        body.append(f'<g transform="rotate(-60 {x:.1f} {top - 5:.1f})">{_text(x, top - 5, _cut(label))}</g>')
    said = []
    for number, (label, row) in enumerate(zip(rows, values, strict=True)):
        y = top + cell * number
        body.append(_text(left - 6, y + cell / 2 + 4.5, _cut(label), "end"))
        if numbers:
            centres = (left + cell * (column + 0.5) for column in range(len(row)))
            body += [
                _text(x, y + cell / 2 + 4.5, f"{value:.2f}", "cell")
                for x, value in zip(centres, row, strict=True)
            ]
        largest = sorted(zip(row, columns, strict=True), key=lambda pair: -abs(pair[0]))[:3]
        said.append(f"{label}: " + ", ".join(f"{column} {number_text(value)}" for value, column in largest))
        body.append(
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{wide}" height="{cell}" fill="transparent">'
            f"<title>{html.escape(said[-1])}</title></rect>"
        )
    width = max(WIDTH, left + wide + 0.5 * longest_column + 8)
    return _chart(title, unit, body, top + tall + 8, "; ".join(said), width)


def heat_grid(title: str, unit: str, maps: Sequence[Sequence[tuple[str, Matrix]]]) -> Chart:
    """Many small heat maps in numbered rows and columns; each has a text, told when it is pointed at."""
    step, left, top = _MAP + 5, 30, 3 * _LINE + 2
    columns = range(len(maps[0]))
    body = [_text(left + step * column + 2, top - 5, str(column + 1), "soft") for column in columns]
    for line, row in enumerate(maps):
        y = top + step * line
        body.append(_text(left - 6, y + _MAP / 2 + 4, str(line + 1), "soft end"))
        for column, (note, values) in enumerate(row):
            x = left + step * column
            body.append(f"<g><title>{html.escape(note)}</title>{_picture(values, x, y, _MAP, _MAP)}</g>")
    said = f"{len(maps)} by {len(maps[0])} maps"
    width = max(WIDTH, left + step * len(maps[0]))
    return _chart(title, unit, body, top + step * len(maps), said, width)


def _picture(values: Matrix, x: float, y: float, width: float, height: float) -> str:
    """A matrix as an image of one pixel a value: a hundredth of what rectangles would take."""
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}"'
    encoded = base64.b64encode(_png(values)).decode()
    return (
        f'<image {box} preserveAspectRatio="none" style="image-rendering: pixelated" '
        f'href="data:image/png;base64,{encoded}"/><rect class="grid" {box} fill="none"/>'
    )


def _png(values: Matrix) -> bytes:
    """Pixels whose opacity is the square root of a value, so that they suit a light and a dark page."""
    lines = b"".join(b"\0" + bytes(map(_shade, row)) for row in values)
    palette = bytes([*_WARM] * _SHADES + [*_COLD] * (_SHADES + 1))
    opacity = bytes(255 * abs(shade) // _SHADES for shade in range(-_SHADES, _SHADES + 1))
    size = struct.pack(">IIBBBBB", len(values[0]), len(values), 8, 3, 0, 0, 0)  # 8 bits, with a palette
    chunks = ((b"IHDR", size), (b"PLTE", palette), (b"tRNS", opacity), (b"IDAT", zlib.compress(lines, 9)))
    parts = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (*chunks, (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _shade(value: float) -> int:
    return _SHADES + round(math.copysign(_SHADES * math.sqrt(min(abs(value), 1.0)), value))


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers from at most `low` to at least `high`, about `count` steps apart."""
    rough = ((high - low) or abs(high) or 1.0) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(
        factor for factor in (1, 2, 2.5, 5, 10) if rough <= factor * power * (1 + _NEGLIGIBLE)
    )
    first = math.floor(low / step + _NEGLIGIBLE)
    last = max(math.ceil(high / step - _NEGLIGIBLE), first + 1)
    return [number * step for number in range(first, last + 1)]


def number_text(value: float, percent: bool = False) -> str:
    """A number in few letters: 0.0005, 3.21, 640, 12.5k, 3M, or a share as 41.7%."""
    if percent:
        return f"{100 * value:.3g}%"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 9.9995 * size or (abs(value) >= size and letter != "k"):
            return f"{value / size:.3g}{letter}"
    return f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value lies in the picture."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    top: float

    @property
    def bottom(self) -> float:
        return self.top + _PLOT_HEIGHT

    def x(self, value: float) -> float:
        span = self.high_x - self.low_x
        share = (value - self.low_x) / span if span else 0.5
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return self.bottom - (value - self.low_y) / (self.high_y - self.low_y) * _PLOT_HEIGHT


def _y_axis(grid: Sequence[float], place: _Place, percent: bool) -> Iterable[str]:
    for value in grid:
        y = place.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 6, y + 4, number_text(value, percent), "soft end")


def _x_axis(place: _Place, label: str, marks: Mapping[float, str]) -> Iterable[str]:
    y = place.bottom + _LINE
    for value, name in marks.items():
        yield _text(place.x(value), y, name, "soft middle")
    yield _text(WIDTH - _RIGHT, y + _LINE, label, "soft end")


def _curve(
    number: int, name: str, points: Points, place: _Place, percent: bool, marks: Mapping[float, str]
) -> Iterable[str]:
    drawn = " ".join(f"{place.x(x):.1f},{place.y(y):.1f}" for x, y in points)
    yield f'<polyline class="line s{number}" points="{drawn}"/>'
    if len(points) <= _DOTS:
        for x, y in points:
            said = f"{name}, {marks.get(x) or number_text(x)}: {number_text(y, percent)}"
            yield (
                f'<circle class="area s{number}" cx="{place.x(x):.1f}" cy="{place.y(y):.1f}" r="3">'
                f"<title>{html.escape(said)}</title></circle>"
            )


def _legend(names: Sequence[str], filled: bool = False, shapes: bool = False) -> tuple[list[str], int]:
    """The legend, in as many rows as it takes, and where the plot begins; one series needs no legend."""
    x, y, found = 4.0, 3 * _LINE, list[str]()
    if len(names) < 2:
        return found, y - 6
    for number, name in enumerate(_cut(name, _NAME) for name in names):
        wide = 34 + _long(name)
        if x + wide > WIDTH and x > 4:
            x, y = 4.0, y + _LINE
        kind = number % len(_LIGHT)
        if shapes:
            found.append(_mark(number, x + 14, y - 4))
        elif filled:
            found.append(f'<rect class="area s{kind}" x="{x:.1f}" y="{y - 10}" width="22" height="11"/>')
        else:
            found.append(f'<path class="line s{kind}" d="M{x:.1f} {y - 4}h22"/>')
        found.append(_text(x + 27, y, name))
        x += wide + 6
    return found, y + 14


def _chart(
    title: str, unit: str, body: Iterable[str], height: float, said: str, width: float = WIDTH
) -> Chart:
    head = [_text(4, 16, title, "title"), _text(4, 16 + _LINE, unit, "soft")]
    svg = "\n".join(
        [
            f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'role="img" aria-label="{html.escape(f"{title} ({unit}): {said}")}">',
            f"<style>{_style()}</style>",
            *head,
            *body,
            "</svg>",
        ]
    )
    return Chart(title, svg, height, width)


def _summary(series: Mapping[str, Points], percent: bool) -> str:
    return "; ".join(
        f"{name} from {number_text(points[0][1], percent)} to {number_text(points[-1][1], percent)}"
        for name, points in series.items()
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    chosen = f' class="{kind}"' if kind else ""
    return f'<text{chosen} x="{x:.1f}" y="{y:.1f}">{html.escape(text)}</text>'


def _cut(label: str, letters: int = _LABEL) -> str:
    return label if len(label) <= letters else f"{label[: letters - 1]}…"


def _long(text: str) -> float:
    """About how long a text is when it is drawn."""
    return sum(_BROAD if letter.isupper() or letter in "mw" else _LETTER for letter in text)


def side_by_side(charts: Sequence[Chart], columns: int | None = None) -> str:
    """Several charts as one SVG file, in rows of so many, or in one."""
    columns = min(columns or len(charts), len(charts))
    tall = max(chart.height for chart in charts)
    placed = [
        chart.svg.replace(
            "<svg ",
            f'<svg x="{number % columns * WIDTH}" y="{number // columns * tall:g}" width="{WIDTH}" '
            f'height="{chart.height:g}" ',
            1,
        )
        for number, chart in enumerate(charts)
    ]
    box = f"0 0 {columns * WIDTH} {-(-len(charts) // columns) * tall:g}"
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">', *placed, "</svg>"])
