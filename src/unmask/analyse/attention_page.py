"""What attention does, as a table, as JSON and as a page; with it what decided a fill."""

from collections.abc import Sequence
from dataclasses import asdict, astuple, fields
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from unmask.analyse.attention import AttentionMaps, Head, most_pointed
from unmask.analyse.attribution import Attribution
from unmask.charts import Chart, heat_grid, heat_map, lines
from unmask.errors import ConfigError
from unmask.files import atomic_path, write_json
from unmask.report import Heading, Part, Table, write_page

SHOWN = 64
"""Tokens that the page draws; figures are of all."""
COLUMNS = ("head", *(field.name for field in fields(Head)))
_SHARES = ("first", "separator", "previous", "next", "itself")


def head_rows(maps: AttentionMaps) -> list[tuple[Any, ...]]:
    """A row for each head: its name, such as 3.5, and what it does."""
    return [
        (f"{layer}.{number}", *astuple(head))
        for layer, block in enumerate(maps.heads, 1)
        for number, head in enumerate(block, 1)
    ]


def plain(maps: AttentionMaps, attribution: Attribution | None) -> dict[str, Any]:
    """All but the weights, for scripts."""
    return {
        "text": maps.text,
        "tokens": [asdict(token) for token in maps.tokens],
        "heads": [[asdict(head) for head in block] for block in maps.heads],
        "rollout": maps.rollout.round(6).tolist(),
        "attribution": None if attribution is None else asdict(attribution),
    }


def write_attention(
    folder: Path, maps: AttentionMaps, attribution: Attribution | None, head: tuple[int, int] | None = None
) -> None:
    """Write attention.html, attention.json and the weights as attention.npy (L, H, n, n)."""
    write_json(folder / "attention.json", plain(maps, attribution))
    with atomic_path(folder / "attention.npy") as temporary, temporary.open("wb") as file:
        np.save(file, maps.weights, allow_pickle=False)
    write_page(folder / "attention.html", "Attention", _parts(maps, attribution, head or most_pointed(maps)))


def find_head(maps: AttentionMaps, asked: str) -> tuple[int, int]:
    """The block and the head, from 0, of a name such as 3.5: layer 3, head 5."""
    layers, heads = maps.weights.shape[:2]
    layer, _, head = asked.partition(".")
    if not (layer.isdecimal() and head.isdecimal()):
        raise ConfigError(f"--head {asked}: write LAYER.HEAD, such as 1.{heads}")
    if not (1 <= int(layer) <= layers and 1 <= int(head) <= heads):
        raise ConfigError(f"there is no head {asked}: the model has {layers} layers of {heads} heads")
    return int(layer) - 1, int(head) - 1


def _parts(maps: AttentionMaps, attribution: Attribution | None, head: tuple[int, int]) -> list[Part]:
    names = maps.names[:SHOWN]
    parts: list[Part] = [maps.text]
    if attribution is not None:
        parts += _decided(attribution)
    if len(maps.tokens) > SHOWN:
        parts.append(f"The maps show the first {SHOWN} of {len(maps.tokens)} tokens.")
    layer, number = head
    parts += [
        Heading("Every head"),
        "A row is what a token looks at; the shade grows with the square root of the weight.",
        _every_head(maps),
        Heading("In detail"),
        _detail(f"Layer {layer + 1}, head {number + 1}", maps.weights[layer, number], names),
        _detail("Rollout: what each token of the last layer was made of", maps.rollout, names),
        Heading("Figures"),
        *_by_layer(maps),
        "Entropy in nats, distance in tokens, the rest shares of attention; averages over all tokens.",
        Table(COLUMNS, head_rows(maps)),
    ]
    return parts


def _by_layer(maps: AttentionMaps) -> list[Chart]:
    """Means over the heads of each layer."""

    def curve(name: str) -> list[tuple[float, float]]:
        return [(n, fmean(getattr(head, name) for head in block)) for n, block in enumerate(maps.heads, 1)]

    shares = {name: curve(name) for name in _SHARES}
    return [
        lines("Where attention rests", "share, mean of the heads", shares, "layer", percent=True),
        lines("Entropy", "nats, mean of the heads", {"entropy": curve("entropy")}, "layer", from_zero=True),
    ]


def _every_head(maps: AttentionMaps) -> Chart:
    drawn = maps.weights[:, :, :SHOWN, :SHOWN].tolist()
    grid = [
        [(_note(layer, number, maps.heads[layer][number]), matrix) for number, matrix in enumerate(row)]
        for layer, row in enumerate(drawn)
    ]
    return heat_grid("Attention", "layers down, heads across", grid)


def _note(layer: int, number: int, head: Head) -> str:
    told = ", ".join(f"{name} {getattr(head, name):.0%}" for name in _SHARES)
    return f"layer {layer + 1}, head {number + 1}: entropy {head.entropy:.2f}, {told}"


def _detail(title: str, weights: Any, names: Sequence[str]) -> Chart:
    return heat_map(title, "from the token on the left", weights[:SHOWN, :SHOWN].tolist(), names, names)


def _decided(found: Attribution) -> list[Part]:
    words = found.words
    largest = max((abs(word.score) for word in words), default=0.0) or 1.0
    strip = [[word.score / largest for word in words[:SHOWN]]]
    names = [word.text for word in words[:SHOWN]]
    return [
        Heading(f"What decided “{found.target}”"),
        summary(found),
        heat_map("Contribution of each word", "blue: for it, orange: against it", strip, [""], names),
        Table(("word", "nats"), [(word.text, word.score) for word in words]),
    ]


def summary(found: Attribution) -> str:
    """One line about an attribution."""
    doubt = "" if found.complete else ", which is too much to trust the figures"
    return (
        f"{found.target}: probability {found.probability:.2%}, where every word is masked"
        f" {found.baseline:.2%}; integrated gradients in {found.steps} steps, completeness error"
        f" {abs(found.completeness_error):.4f} nats{doubt}"
    )
