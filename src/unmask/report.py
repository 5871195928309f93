"""Figures and self-contained HTML pages: one file that opens anywhere, with no network."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from unmask.files import write_atomic

Figure: TypeAlias = Any  # a plotly figure; plotly has no types

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933 }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #d9e2ec }
th { text-align: left } td.number { text-align: right; font-variant-numeric: tabular-nums }
"""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within the page."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text and numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | float]]


def bars(title: str, unit: str, series: Mapping[str, Mapping[str, float]]) -> Figure:
    """A bar chart: one group of bars per category, one bar per series."""
    import plotly.graph_objects as go

    figure = go.Figure([go.Bar(name=name, x=list(ys), y=list(ys.values())) for name, ys in series.items()])
    figure.update_layout(
        title=title, yaxis_title=unit, template="plotly_white", height=380, showlegend=len(series) > 1
    )
    return figure


def write_page(path: Path, title: str, parts: Sequence[str | Heading | Table | Figure]) -> None:
    """Write one HTML file; strings are paragraphs."""
    body = "\n".join(_render(part) for part in parts)
    script = _plotly_script() if any(not isinstance(part, str | Heading | Table) for part in parts) else ""
    write_atomic(
        path,
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style>{script}</head>\n<body><h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n",
    )


def _render(part: str | Heading | Table | Figure) -> str:
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>"
    if isinstance(part, Heading):
        return f"<h2>{html.escape(part.text)}</h2>"
    if isinstance(part, Table):
        return _render_table(part)
    rendered: str = part.to_html(full_html=False, include_plotlyjs=False)
    return rendered


def _render_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    rows = ("".join(map(_cell, row)) for row in table.rows)
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return f"<td>{html.escape(value)}</td>"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
    return f'<td class="number">{shown}</td>'


def _plotly_script() -> str:
    from plotly.offline import get_plotlyjs

    return f"<script>{get_plotlyjs()}</script>"
