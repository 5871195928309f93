"""Self-contained HTML pages: one file that opens anywhere, with no network and no script."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from unmask.charts import WIDTH, Chart
from unmask.files import write_atomic

_STYLE = """
:root { color-scheme: light dark; --text: #1f2933; --page: #fff; --edge: #d9e2ec; --right: #e3f5ec }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7eb; --page: #16191d; --edge: #3e4c59; --right: #163c2d }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page) }
body { max-width: 64rem; margin: 1.5rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; line-height: 1.2 } h2 { font-size: 1.2rem; margin-top: 2rem }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.5rem }
figure { margin: 0; max-width: 32rem } .chart { width: 100%; height: auto; display: block }
.scroll { overflow-x: auto } table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--edge); text-align: left; vertical-align: top }
td.prose { min-width: 9rem; white-space: pre-line; overflow-wrap: anywhere } td.long { min-width: 18rem }
th, td.marked { white-space: nowrap }
td.right { background: var(--right); font-weight: 600 }
td.number { text-align: right; font-variant-numeric: tabular-nums }
pre { overflow-x: auto; font-size: .85rem }
"""
_PROSE = 20  # a text of more letters than these may take several lines, but not one for each word
_LONG = 120  # … and of more than these, not a screen of them


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within the page."""

    text: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A cell that is right, that says more when pointed at, or that has a small word behind it."""

    text: str
    right: bool = False
    note: str = ""
    aside: str = ""


Cell: TypeAlias = str | int | float | Marked


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text and numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Folded:
    """Plain text that is shown when its title is clicked on."""

    title: str
    text: str


Part: TypeAlias = str | Heading | Table | Chart | Folded


def write_page(path: Path, title: str, parts: Sequence[Part]) -> None:
    """Write one HTML file; strings are paragraphs, charts that follow one another share rows."""
    body = "\n".join(
        _side_by_side([part for part in group if isinstance(part, Chart)])
        if charts
        else "\n".join(map(_render, group))
        for charts, group in groupby(parts, lambda part: isinstance(part, Chart))
    )
    write_atomic(
        path,
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n",
    )


def _side_by_side(charts: Sequence[Chart]) -> str:
    figures = "\n".join(f"<figure{_room(chart)}>{chart.svg}</figure>" for chart in charts)
    return f'<div class="charts">{figures}</div>'


def _room(chart: Chart) -> str:
    """A wide chart has a row of its own."""
    wide = chart.width > WIDTH
    return f' style="max-width: {1.2 * chart.width:.0f}px; grid-column: 1 / -1"' if wide else ""


def _render(part: Part) -> str:
    if isinstance(part, Heading):
        return f"<h2>{html.escape(part.text)}</h2>"
    if isinstance(part, Table):
        return _render_table(part)
    if isinstance(part, Folded):
        title, text = html.escape(part.title), html.escape(part.text)
        return f"<details><summary>{title}</summary><pre>{text}</pre></details>"
    return f"<p>{html.escape(str(part))}</p>"


def _render_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    head = f"<tr>{head}</tr>" if any(table.columns) else ""
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    return f'<div class="scroll"><table>{head}{rows}</table></div>'


def _cell(value: Cell) -> str:
    if isinstance(value, str):
        long = " long" if len(value) > _LONG else ""
        kind = f' class="prose{long}"' if len(value) > _PROSE else ""
        return f"<td{kind}>{html.escape(value)}</td>"
    if isinstance(value, Marked):
        kind, tick = ("marked right", "✓ ") if value.right else ("marked", "")
        note = f' title="{html.escape(value.note)}"' if value.note else ""
        aside = f" <small>{html.escape(value.aside)}</small>" if value.aside else ""
        return f'<td class="{kind}"{note}>{tick}{html.escape(value.text)}{aside}</td>'
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
    return f'<td class="number">{shown}</td>'
