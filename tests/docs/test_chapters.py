"""The chapter pages: every snippet is run and prints what the page shows, the same in both languages."""

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.conftest import load_tool

ROOT = Path(__file__).resolve().parents[2]
chapters = load_tool("chapter_figures")

PAGES: list[Path] = [*chapters.ENGLISH, *chapters.PORTUGUESE]
TWINS: list[tuple[Path, Path]] = list(zip(chapters.ENGLISH, chapters.PORTUGUESE, strict=True))
SLOW = [page for page in PAGES if any(snippet.slow for snippet in chapters.snippets(page))]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d*)?(?:e-?\d+)?")
ERRATA = {
    "1": [
        "0.2343 0.2445 0.2551 0.2661", "0.1769 0.2186 0.2703 0.3342", "0.25 0.65 0.33 0.55 0.59",
        "0.1580 0.2357 0.1711 0.2133 0.2220", "0.54", "1.58", "0.4833",
    ],
    "2": [
        "0.2645 0.2645 0.4711", "0.3302 0.6698 / 0.6698 0.3302", "1 −0.3395 / 1 0.3395", "`cor`", "*pulou*",
    ],
    "3": [
        "2.3026, 0.2231", "0.0726", "0.1658 0.1577 0.3689 0.1530 0.1546", "0.9971", "1.0397",
        "0.49999", "0.4990",
    ],
    "4": ["80/10/10", "1/|M|"],
    "5": [
        "j ≤ i", "0.3302 0.6698", "0.1400 0.2840 0.5760", "0.3208 0.6792", "0.1127 0.2386 0.6487",
        "0.0667 0.1412 0.2990 0.4930", "0.0555 0.0915 0.1938 0.2488 0.4103",
    ],
}  # fmt: skip


def numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


def agree(printed: str, shown: str) -> bool:
    """The same text, and every number the same to the places shown: a last place may be rounded otherwise."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", shown).split():
        return False
    return all(map(close, numbers(printed), numbers(shown)))


def close(printed: str, shown: str) -> bool:
    places = len(shown.partition(".")[2])
    if "e" in shown or not places:
        return printed == shown
    return math.isclose(float(printed), float(shown), rel_tol=0, abs_tol=1.01 * 10**-places)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder and one core: small products are slower on several, and sums come out otherwise."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def check(page: Path, slow: bool) -> None:
    for number, (snippet, printed) in enumerate(chapters.run(page, {"__name__": page.stem}, slow), 1):
        message = f"{page.name}, snippet {number}, printed\n{printed}not\n{snippet.shown}"
        assert agree(printed, snippet.shown), f"{message}python tools/chapter_figures.py writes it anew"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.usefixtures("alone")
def test_snippets_print_what_is_shown(page: Path) -> None:
    check(page, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW, ids=lambda page: page.stem)
@pytest.mark.usefixtures("alone")
def test_slow_snippets_too(page: Path) -> None:
    check(page, slow=True)


def test_numbers_are_compared() -> None:
    assert agree("loss 0.2343 of 15", "loss 0.2344 of 15")
    for other in ("loss 0.2345 of 15", "loss 0.2343 of 16", "mean 0.2343 of 15", "loss 0.2343 of 15 1"):
        assert not agree(other, "loss 0.2343 of 15")


class NoText(ast.NodeTransformer):
    """Strings are translated; what stands in their braces is not."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        node.values = [value for value in node.values if isinstance(value, ast.FormattedValue)]
        return node


def without_text(code: str) -> str:
    return ast.dump(NoText().visit(ast.parse(code)))


@pytest.mark.parametrize(("english", "portuguese"), TWINS, ids=lambda page: page.stem)
def test_both_languages_say_the_same(english: Path, portuguese: Path) -> None:
    ours, theirs = chapters.snippets(english), chapters.snippets(portuguese)
    assert len(ours) == len(theirs) >= 8
    for one, other in zip(ours, theirs, strict=True):
        assert without_text(one.code) == without_text(other.code)
        assert one.slow == other.slow
        assert numbers(one.shown) == numbers(other.shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_errata_are_stated(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for value in ERRATA[page.name[0]]:
        assert value in prose, value
    assert "> **Errat" in prose


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_and_figures_are_there(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))
    assert len(targets) > 1
    for target in targets:
        assert (page.parent / target).exists(), target


def test_every_figure_is_shown() -> None:
    shown = "".join(page.read_text("utf-8") for page in PAGES)
    drawn = [figure.name for figure in chapters.FIGURES.iterdir()]
    assert len(drawn) >= 16
    for name in drawn:
        assert f"images/chapters/{name}" in shown
