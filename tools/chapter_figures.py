"""Run the chapter pages, write what their snippets print into them, and draw their figures from the results.

    python tools/chapter_figures.py

A page is run from top to bottom in one namespace. What a snippet prints stands in the block after it; a
figure shows variables of the page that shows it.
"""

import argparse
import contextlib
import io
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unmask.analyse.intrinsic import unit
from unmask.charts import Chart, bars, heat_map, lines, scatter

DOCS = Path(__file__).resolve().parents[1] / "docs"
FIGURES = DOCS / "images" / "chapters"
ENGLISH, PORTUGUESE = (sorted((DOCS / folder).glob("*.md")) for folder in ("chapters", "capitulos"))
_SNIPPET = re.compile(
    r"^(?P<slow><!-- slow -->\n\n)?```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)

Space = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snippet:
    """A block of Python, what the page says that it prints, and whether it takes more than a few seconds."""

    code: str
    shown: str
    slow: bool


def snippets(page: Path) -> list[Snippet]:
    """The snippets of a page, in order."""
    found = _SNIPPET.finditer(page.read_text("utf-8"))
    return [Snippet(each["code"], each["shown"] or "", bool(each["slow"])) for each in found]


def run(page: Path, space: Space, slow: bool = True) -> Iterator[tuple[Snippet, str]]:
    """Run a page's snippets in a namespace; each with what it printed."""
    for snippet in snippets(page):
        if slow or not snippet.slow:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(snippet.code, page.name, "exec"), space)  # noqa: S102
            yield snippet, printed.getvalue()


def write_outputs(page: Path, printed: list[str]) -> None:
    """Put what was printed into the blocks after the snippets."""
    outputs = iter(printed)

    def block(found: re.Match[str]) -> str:
        output = next(outputs)
        return (
            f"{found['slow'] or ''}```python\n{found['code']}```\n"
            + (f"\n```text\n{output}```\n" if output else "")
        )  # fmt: skip

    page.write_text(_SNIPPET.sub(block, page.read_text("utf-8")), "utf-8")


def figures(pages: list[Space], words: dict[str, str]) -> dict[str, Chart]:
    """The figures of the five pages of one language, by name."""
    first, second, third, fourth, fifth = pages
    return {
        **_influences(first, words),
        "languages": bars(
            "q ∝ pᵅ", words["share"], {f"α = {alpha}": shares for alpha, shares in second["shares"].items()}
        ),
        "descent": _curves(words, "descent", "root", _roots(third["descents"])),
        "rates": _curves(words, "rates", "loss", _judged(third)),
        "schedules": _curves(words, "schedules", "highest", third["shapes"]),
        "banco": _uses(fourth, words),
        "causal-weights": heat_map(
            words["causal"], words["weight"], fifth["causal"].tolist(), "12345", "12345", numbers=True
        ),
    }


def _influences(page: Space, words: dict[str, str]) -> dict[str, Chart]:
    largest = max(float(each.max()) for each in page["influence"].values())
    outputs, inputs = (
        [f"{letter}{number} {word}" for number, word in zip("₁₂₃₄₅₆", page["words"], strict=True)]
        for letter in "hx"
    )
    maps = {
        causal: heat_map(
            words[str(causal)], words["moved"], (each / largest).tolist(), outputs, inputs, numbers=True
        )
        for causal, each in page["influence"].items()
    }
    return {"influence-causal": maps[True], "influence-bidirectional": maps[False]}


def _curves(words: dict[str, str], title: str, measure: str, series: dict[Any, list[float]]) -> Chart:
    points = {str(name): [(float(n), y) for n, y in enumerate(values)] for name, values in series.items()}
    return lines(words[title], words[measure], points, words["step"], from_zero=True)


def _roots(series: dict[str, list[float]]) -> dict[str, list[float]]:
    """Losses that begin too high for the eye."""
    return {name: [value**0.5 for value in values] for name, values in series.items()}


def _judged(page: Space) -> dict[str, list[float]]:
    """Losses of which some leave the picture, each with the verdict on its rate."""
    return {
        f"{rate:g}: {page['verdicts'][rate][0]}": [min(loss, 10.0) for loss in losses]
        for rate, losses in page["curves"].items()
    }


def _uses(page: Space, words: dict[str, str]) -> Chart:
    """Every use of banco at the top layer, along the two widest directions."""
    vectors = {
        sense: unit(np.stack([each[page["BANCO"]] for each in page["lm"].embed(texts, "word", 2)]))
        for sense, texts in page["uses"].items()
    }
    every = np.concatenate(list(vectors.values()))
    _, _, directions = np.linalg.svd(every - every.mean(0), full_matrices=False)
    flat = {sense: (each - every.mean(0)) @ directions[:2].T for sense, each in vectors.items()}
    spots = {
        words[sense]: [
            (float(x), float(y), text) for (x, y), text in zip(each, page["uses"][sense], strict=True)
        ]
        for sense, each in flat.items()
    }
    return scatter("banco", words["uses"], spots)


EN = {
    "True": "Causal", "False": "Bidirectional",
    "moved": "how much an input x (column) moves an output h (row)",
    "share": "share of each language", "descent": "A valley", "root": "root of the loss",
    "rates": "Learning rates", "loss": "loss, cut off at 10", "schedules": "Schedules",
    "highest": "share of the highest rate",
    "uses": "uses, by their two widest directions", "money": "money", "garden": "garden",
    "step": "step", "causal": "Five tokens", "weight": "weight that a token (row) gives to another (column)",
}  # fmt: skip
PT = {
    "True": "Causal", "False": "Bidirecional",
    "moved": "quanto uma entrada x (coluna) move uma saída h (linha)",
    "share": "parte de cada língua", "descent": "Um vale", "root": "raiz da perda",
    "rates": "Taxas de aprendizagem", "loss": "perda, cortada em 10", "schedules": "Formas",
    "highest": "parte da taxa mais alta",
    "uses": "usos, pelas duas direções mais largas", "money": "dinheiro", "garden": "jardim",
    "step": "passo", "causal": "Cinco tokens", "weight": "peso que um token (linha) dá a outro (coluna)",
}  # fmt: skip


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    FIGURES.mkdir(parents=True, exist_ok=True)
    for pages, words, ending in ((ENGLISH, EN, ""), (PORTUGUESE, PT, "-pt")):
        spaces: list[Space] = [{} for _ in pages]
        for page, space in zip(pages, spaces, strict=True):
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                write_outputs(page, [printed for _, printed in run(page, space)])
        for name, chart in figures(spaces, words).items():
            sized = chart.svg.replace("<svg ", f'<svg width="{chart.width:g}" height="{chart.height:g}" ', 1)
            (FIGURES / f"{name}{ending}.svg").write_text(sized + "\n", "utf-8")


if __name__ == "__main__":
    main()
