"""The senses of a word: its uses as vectors, grouped, named, drawn; and the sense of a new use.

N uses · K senses · V vocabulary
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.analyse.clusters import Agreement, Groups, Space, agreement, group
from unmask.analyse.maps import Kind, flatten
from unmask.analyse.substitutes import no_substitutes, typical_substitutes
from unmask.analyse.uses import Use, embed_uses, too_few
from unmask.predict.predictor import Layer, Predictor
from unmask.progress import SILENT, Progress

Floats = NDArray[np.float64]
_EXAMPLES = 3
_NEAREST = 5


@dataclass(frozen=True, slots=True)
class PlacedUse:
    """A use on the map, with its sense and the numbers of the uses nearest to it."""

    text: str
    start: int
    end: int
    x: float
    y: float
    sense: int
    nearest: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sense:
    """Uses that belong together."""

    name: tuple[str, ...]
    """What the model would rather put in their place than in that of the others."""
    size: int
    examples: tuple[int, ...]
    """The uses nearest to the centre."""


@dataclass(frozen=True, slots=True)
class Guess:
    """The sense of a new use."""

    text: str
    start: int
    end: int
    sense: int
    margin: float
    """How much nearer its centre is than the next: 0 undecided, 1 upon it."""


@dataclass(frozen=True, slots=True, eq=False)
class Senses:
    """What was found of a word."""

    word: str
    uses: tuple[PlacedUse, ...]
    senses: tuple[Sense, ...]
    silhouette: float | None
    """How well the senses are apart, from -1 to 1; None where there is one."""
    layer: Layer
    space: Space
    centres: Floats  # (K, d)
    notes: tuple[str, ...] = ()

    @property
    def forms(self) -> dict[str, int]:
        """How the word is written, and how often."""
        return dict(Counter(use.text[use.start : use.end].lower() for use in self.uses).most_common())


def find_senses(
    model: Predictor,
    uses: Sequence[Use],
    word: str,
    count: int | None = None,
    layer: Layer = -1,
    kind: Kind = "pca",
    seed: int = 0,
    progress: Progress = SILENT,
) -> Senses:
    """Group the uses of a word into so many senses, or as many as stand apart.

    Every form is read as the word itself, so that a plural or a capital letter does not pass for a sense.
    """
    if len(uses) < 2:
        raise too_few(word, [word], len(uses))
    plain = [as_word(use, word) for use in uses]
    vectors = embed_uses(model, plain, layer, progress)
    space = Space.of(vectors)
    points = space.place(vectors)
    with progress.stage("grouping"):
        found = group(points, count, seed)
    reason = no_substitutes(model)
    order = [_from_centre(points, found, number) for number in range(len(found.centres))]
    names: list[tuple[str, ...]] = [() for _ in order]
    if reason is None:
        own = {use.form.lower() for use in (*uses, *plain)}
        names = typical_substitutes(model, [[plain[n] for n in numbers] for numbers in order], own, progress)
    senses = [
        Sense(name, len(numbers), _examples(numbers, uses))
        for name, numbers in zip(names, order, strict=True)
    ]
    with progress.stage("drawing"):
        flat, near = flatten(points, kind, seed), _nearest(points)
    placed = [
        PlacedUse(use.text, use.start, use.end, float(x), float(y), int(sense), tuple(map(int, others)))
        for use, (x, y), sense, others in zip(uses, flat, found.members, near, strict=True)
    ]
    notes = () if reason is None else (f"the senses have no names: {reason}",)
    return Senses(word, tuple(placed), tuple(senses), found.silhouette, layer, space, found.centres, notes)


def _examples(numbers: Sequence[int], uses: Sequence[Use]) -> tuple[int, ...]:
    """The first few uses, no text twice."""
    first = {uses[number].text: number for number in reversed(numbers)}
    return tuple(number for number in numbers if first[uses[number].text] == number)[:_EXAMPLES]


def disambiguate(
    model: Predictor, senses: Senses, uses: Sequence[Use], progress: Progress = SILENT
) -> list[Guess]:
    """The sense of each new use: that of the nearest centre."""
    if not uses:
        return []
    plain = [as_word(use, senses.word) for use in uses]
    points = senses.space.place(embed_uses(model, plain, senses.layer, progress))
    distances = np.linalg.norm(points[:, None] - senses.centres, axis=2)
    ordered = np.sort(distances, axis=1)
    second = ordered[:, 1] if ordered.shape[1] > 1 else np.full(len(uses), np.inf)
    margins = 1 - ordered[:, 0] / np.maximum(second, 1e-12)
    return [
        Guess(use.text, use.start, use.end, int(sense), float(margin))
        for use, sense, margin in zip(uses, distances.argmin(1), margins, strict=True)
    ]


def score_senses(senses: Senses, labels: Sequence[str]) -> Agreement:
    """The senses found against labels, one for each use."""
    return agreement(labels, [use.sense for use in senses.uses])


def as_word(use: Use, word: str) -> Use:
    """The use with the word itself in place of its form."""
    return Use(use.text[: use.start] + word + use.text[use.end :], use.start, use.start + len(word))


def _from_centre(points: Floats, found: Groups, number: int) -> list[int]:
    """The numbers of a group's uses, nearest to its centre first."""
    members = np.flatnonzero(found.members == number)
    distances = np.linalg.norm(points[members] - found.centres[number], axis=1)
    return [int(n) for n in members[np.argsort(distances, kind="stable")]]


def _nearest(points: Floats) -> NDArray[np.int64]:
    """The numbers of the points nearest to each, itself left out."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=min(_NEAREST, len(points) - 1)).fit(points)
    found: NDArray[np.int64] = near.kneighbors(return_distance=False)
    return found
