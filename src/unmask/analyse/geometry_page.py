"""The geometry of a model as tables, as a file of JSON and as a page."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unmask.analyse.geometry import RAW, Geometry, Measures
from unmask.analyse.intrinsic import Interval
from unmask.charts import Chart, Points, bars, lines
from unmask.files import write_json
from unmask.progress import counted
from unmask.report import Folded, Heading, Part, Table, write_page

LAYERS = (
    "layer", "anisotropy", "±", "self", "adjusted", "intra", "adjusted", "static", "adjusted", "TwoNN",
    "PCA", "loudest",
)  # fmt: skip
NAMES = {"zscore": "z-scores", "mean": "mean removed", "abtt": "all but the top", "whiten": "whitened"}
_MEANING = """\
anisotropy        expected cosine of two random words from different sentences, ± half of its 95 % interval
self              mean cosine of two uses of the same word
intra             mean cosine of a word with the mean of its sentence
static            largest share of a word's uses that one static vector can explain
adjusted          what is left when the value for random words is taken away
TwoNN             intrinsic dimension by the two nearest neighbours (maximum likelihood)
PCA               participation ratio: how many principal components share the variance
loudest           dimensions that add most to the expected cosine, and their share of it
similarity        Spearman correlation of sentence cosines with people's scores"""
_LOUD = 0.005
"""Below this expected cosine a dimension's share of it says nothing."""


def layer_rows(geometry: Geometry, method: str = RAW) -> list[tuple[str, ...]]:
    """A row of `LAYERS` for each layer."""
    return [
        (
            str(each.layer), _shown(each.anisotropy.value), _half(each.anisotropy),
            _shown(each.self_similarity), _shown(each.adjusted_self), _shown(each.intra_similarity),
            _shown(each.adjusted_intra), _shown(each.static_share), _shown(each.adjusted_static),
            _shown(each.two_nn, 1), f"{each.participation:.0f}", _loudest(each),
        )
        for each in geometry.of(method)
    ]  # fmt: skip


def method_rows(geometry: Geometry, value: Callable[[Measures], Interval | None]) -> list[tuple[str, ...]]:
    """A row for each layer: its number, then a value by each of `geometry.methods`."""
    found = {(each.layer, each.method): value(each) for each in geometry.measures}
    layers = sorted({layer for layer, _ in found})
    return [
        (str(layer), *(_bounded(found.get((layer, method))) for method in geometry.methods))
        for layer in layers
    ]


def plain(geometry: Geometry) -> dict[str, Any]:
    """For JSON: every measure, with the adjusted values."""
    values = asdict(geometry)
    for row, each in zip(values["measures"], geometry.measures, strict=True):
        row["adjusted"] = {
            "self_similarity": each.adjusted_self,
            "intra_similarity": each.adjusted_intra,
            "static_share": each.adjusted_static,
        }
    return values


def write_geometry(folder: Path, geometry: Geometry, model: str) -> None:
    """`geometry.json` and `geometry.html`."""
    write_json(folder / "geometry.json", plain(geometry))
    methods = [NAMES.get(method, method) for method in geometry.methods]
    said = (
        f"{counted(geometry.sentences, 'sentence')}; {counted(geometry.words, 'word')} held, one random word"
        f" of each sentence compared; {counted(geometry.kinds, 'word')} in several contexts."
    )
    parts: list[Part] = [said, *geometry.notes, *charts(geometry)]
    parts += [Heading("As it is"), Table(LAYERS, layer_rows(geometry)), Folded("What is measured", _MEANING)]
    parts += [
        Heading("Anisotropy, standardised"),
        Table(["layer", *methods], method_rows(geometry, lambda each: each.anisotropy)),
    ]
    if geometry.pairs:
        parts += [
            Heading("Effect on similarity"),
            f"Spearman correlation over {counted(geometry.pairs, 'pair')} of texts.",
            Table(["layer", *methods], method_rows(geometry, lambda each: each.similarity)),
        ]
    for method in geometry.methods[1:]:
        parts += [Heading(f"Measures, {NAMES[method]}"), Table(LAYERS, layer_rows(geometry, method))]
    write_page(folder / "geometry.html", f"Geometry of {model}", parts)


def charts(geometry: Geometry) -> list[Chart]:
    """The curves by layer, and the loudest dimensions of the narrowest layer."""
    raw = geometry.of(RAW)
    by_method = {
        NAMES.get(method, method): _curve(geometry.of(method), lambda each: each.anisotropy.value)
        for method in geometry.methods
    }
    beyond = {
        "uses of a word": _curve(raw, lambda each: each.adjusted_self),
        "words of a sentence": _curve(raw, lambda each: each.adjusted_intra),
        "explained by a static vector": _curve(raw, lambda each: each.adjusted_static),
    }
    sizes = {
        "TwoNN": _curve(raw, lambda each: each.two_nn),
        "participation ratio": _curve(raw, lambda each: each.participation),
    }
    narrowest = max(raw, key=lambda each: each.anisotropy.value)
    loud = {f"dimension {each.number}": each.contribution for each in narrowest.dimensions}
    drawn = [
        lines("Anisotropy", "expected cosine of random words", by_method, "layer", from_zero=True),
        lines("Beyond random words", "similarity, adjusted", beyond, "layer", from_zero=True),
        lines("Intrinsic dimension", "dimensions", sizes, "layer", from_zero=True),
        bars("Loudest dimensions", f"part of the expected cosine at layer {narrowest.layer}", {"part": loud}),
    ]
    if geometry.pairs:
        alike = {
            NAMES.get(method, method): _curve(
                geometry.of(method), lambda each: None if each.similarity is None else each.similarity.value
            )
            for method in geometry.methods
        }
        drawn.append(lines("Similarity of sentences", "Spearman correlation", alike, "layer"))
    return drawn


def _curve(layers: Sequence[Measures], value: Callable[[Measures], float | None]) -> Points:
    found = [(float(each.layer), value(each)) for each in layers]
    return [(layer, number) for layer, number in found if number is not None]


def _loudest(each: Measures) -> str:
    total = each.anisotropy.value
    if total < _LOUD:
        return "–"
    return ", ".join(f"{one.number} ({one.contribution / total:.0%})" for one in each.dimensions[:3])


def _shown(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:z.{digits}f}"


def _half(interval: Interval) -> str:
    return f"{(interval.high - interval.low) / 2:.3f}"


def _bounded(interval: Interval | None) -> str:
    return "–" if interval is None else f"{_shown(interval.value)} ± {_half(interval)}"
