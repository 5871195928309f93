"""Pages that open anywhere."""

from pathlib import Path

from unmask.report import Heading, Table, bars, write_page


def test_a_page_without_figures_is_small_and_escaped(tmp_path: Path) -> None:
    table = Table(("name", "value"), [("a<b", 1234567), ("c", 0.12345)])
    write_page(tmp_path / "page.html", "A & B", ["one < two", Heading("H>"), table])
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>A &amp; B</title>" in page
    assert "<p>one &lt; two</p>" in page
    assert "<h2>H&gt;</h2>" in page
    assert '<td>a&lt;b</td><td class="number">1,234,567</td>' in page
    assert '<td class="number">0.123</td>' in page
    assert len(page) < 3000


def test_a_figure_brings_its_script_along(tmp_path: Path) -> None:
    figure = bars("Bars", "share", {"pt": {"1": 0.5, "2": 0.25}, "en": {"1": 0.75}})
    assert [list(trace.y) for trace in figure.data] == [[0.5, 0.25], [0.75]]
    write_page(tmp_path / "page.html", "Figure", [figure, figure])
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("Plotly.newPlot(") >= 2
    assert page.count("plotly.js v") == 1
    assert 'src="http' not in page
