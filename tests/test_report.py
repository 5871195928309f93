"""Pages that open anywhere."""

from pathlib import Path

from unmask.charts import bars, lines
from unmask.report import Folded, Heading, Marked, Table, write_page


def test_a_page_is_small_and_escaped(tmp_path: Path) -> None:
    table = Table(
        ("name", "value"),
        [
            ("a<b", 1234567),
            ("a long way to say it", 0.12345),
            ("c" * 21, 2),
            (Marked("d", True, 'say "e"', "5%"), 1),
        ],
    )
    write_page(tmp_path / "page.html", "A & B", ["one < two", Heading("H>"), table, Folded("more", "x < y")])
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>A &amp; B</title>" in page
    assert "<p>one &lt; two</p>" in page
    assert "<h2>H&gt;</h2>" in page
    assert '<td>a&lt;b</td><td class="number">1,234,567</td>' in page
    assert '<td>a long way to say it</td><td class="number">0.123</td>' in page
    assert f'<td class="prose">{"c" * 21}</td>' in page
    assert '<td class="marked right" title="say &quot;e&quot;">✓ d <small>5%</small></td>' in page
    assert "<summary>more</summary><pre>x &lt; y</pre>" in page
    assert len(page) < 4000


def test_charts_that_follow_one_another_share_rows(tmp_path: Path) -> None:
    bar, line = bars("Bars", "share", {"pt": {"1": 0.5}}), lines("Lines", "nats", {"a": [(0, 1), (1, 2)]})
    write_page(tmp_path / "page.html", "Charts", ["first", bar, line, "between", bar])
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count('<div class="charts">') == 2
    assert page.count("<svg") == 3
    assert "<script" not in page
    assert "src=" not in page
    assert "href=" not in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
