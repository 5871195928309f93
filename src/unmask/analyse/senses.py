"""The senses of a word: its uses as vectors, grouped or by labels, named, drawn; and the sense of a new use.

N uses · K senses · V vocabulary
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.analyse.clusters import (
    Agreement,
    Groups,
    Space,
    agreement,
    group,
    group_by_label,
    near_their_own,
)
from unmask.analyse.intrinsic import Interval, unit
from unmask.analyse.maps import Kind, flatten
from unmask.analyse.substitutes import no_substitutes, typical_substitutes
from unmask.analyse.uses import Use, embed_uses, too_few
from unmask.errors import InputError
from unmask.predict.predictor import Layer, Predictor
from unmask.progress import SILENT, Progress, counted

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


@dataclass(frozen=True, slots=True)
class Labelled:
    """What people call the senses, and how well the vectors agree: by uses left out of their own centre."""

    labels: tuple[str, ...]
    """Of each sense."""
    right: tuple[int, ...]
    """Of each sense so many uses are nearest to its centre; one that is its only use cannot be."""
    accuracy: Interval
    """The share of all uses that are."""
    commonest: float
    """The share that always saying the commonest sense gets right."""


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
    labelled: Labelled | None = None
    """Where the senses were not found but said."""

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
    plain, vectors = _read(model, uses, word, layer, progress)
    space = Space.of(vectors)
    points = space.place(vectors)
    with progress.stage("grouping"):
        found = group(points, count, seed)
    senses = _describe(model, uses, plain, _ordered(points, found), progress)
    placed = _draw(uses, points, found, kind, seed, progress)
    reason = no_substitutes(model)
    notes = () if reason is None else (f"the senses have no names: {reason}",)
    return Senses(word, placed, senses, found.silhouette, layer, space, found.centres, notes)


def learn_senses(
    model: Predictor,
    uses: Sequence[Use],
    labels: Sequence[str],
    word: str,
    layer: Layer = -1,
    kind: Kind = "pca",
    seed: int = 0,
    progress: Progress = SILENT,
) -> Senses:
    """The senses that labels say, one for each use: the centre of each, and how often the nearest is right.

    As in `find_senses`, every form is read as the word itself; a use is compared by its cosine with a centre.
    """
    check_labels(uses, labels)
    plain, vectors = _read(model, uses, word, layer, progress)
    space, points = Space.whole(vectors.shape[1]), unit(vectors)
    found, names = group_by_label(points, labels)
    senses = _describe(model, uses, plain, _ordered(points, found), progress)
    placed = _draw(uses, Space.of(vectors).place(vectors), found, kind, seed, progress)
    near = near_their_own(points, labels)
    right = tuple(int(near[found.members == number].sum()) for number in range(len(names)))
    labelled = Labelled(names, right, _share(sum(right), len(uses)), senses[0].size / len(uses))
    reason, notes = no_substitutes(model), []
    if reason is not None:
        notes.append(f"there are no typical substitutes: {reason}")
    if alone := [name for name, sense in zip(names, senses, strict=True) if sense.size == 1]:
        notes.append(
            f"of {', '.join(alone)} there is one use only: without it nothing is known of that sense"
        )
    return Senses(word, placed, senses, found.silhouette, layer, space, found.centres, tuple(notes), labelled)


def check_labels(uses: Sequence[Use], labels: Sequence[str]) -> None:
    """Refuse labels of which no senses can be learned."""
    if len(labels) != len(uses):
        raise InputError(
            f"{counted(len(labels), 'label')} for {counted(len(uses), 'use')}: give one for each"
        )
    if blank := [use for use, label in zip(uses, labels, strict=True) if not label.strip()]:
        raise InputError(f"a use has an empty label: {blank[0].text[:60]!r}")
    if len(set(labels)) < 2:
        there = f"every use has the sense {labels[0]}" if labels else "there is no labelled use"
        raise InputError(f"{there}: give uses of two senses or more, so that they can be told apart")


def _read(
    model: Predictor, uses: Sequence[Use], word: str, layer: Layer, progress: Progress
) -> tuple[list[Use], NDArray[np.float32]]:
    """The uses with the word in its plain form, and their vectors (N, D)."""
    plain = [as_word(use, word) for use in uses]
    return plain, embed_uses(model, plain, layer, progress)


def _describe(
    model: Predictor,
    uses: Sequence[Use],
    plain: Sequence[Use],
    order: Sequence[Sequence[int]],
    progress: Progress,
) -> tuple[Sense, ...]:
    """Each sense, of the uses with these numbers, the most typical first."""
    names: list[tuple[str, ...]] = [() for _ in order]
    if no_substitutes(model) is None:
        own = {use.form.lower() for use in (*uses, *plain)}
        names = typical_substitutes(model, [[plain[n] for n in numbers] for numbers in order], own, progress)
    return tuple(
        Sense(name, len(numbers), _examples(numbers, uses))
        for name, numbers in zip(names, order, strict=True)
    )


def _draw(
    uses: Sequence[Use], points: Floats, found: Groups, kind: Kind, seed: int, progress: Progress
) -> tuple[PlacedUse, ...]:
    """The uses on a map of their points."""
    with progress.stage("drawing"):
        flat, near = flatten(points, kind, seed), _nearest(points)
    return tuple(
        PlacedUse(use.text, use.start, use.end, float(x), float(y), int(sense), tuple(map(int, others)))
        for use, (x, y), sense, others in zip(uses, flat, found.members, near, strict=True)
    )


def _share(right: int, count: int) -> Interval:
    """A share of uses, with Wilson's interval."""
    from scipy.stats import binomtest

    bounds = binomtest(right, count).proportion_ci(method="wilson")
    return Interval(right / count, float(bounds.low), float(bounds.high))


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


def _ordered(points: Floats, found: Groups) -> list[list[int]]:
    """Of each group the numbers of its points, nearest to its centre first."""
    distances = np.linalg.norm(points - found.centres[found.members], axis=1)
    order = np.argsort(distances, kind="stable")
    return [order[found.members[order] == number].tolist() for number in range(len(found.centres))]


def _nearest(points: Floats) -> NDArray[np.int64]:
    """The numbers of the points nearest to each, itself left out."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=min(_NEAREST, len(points) - 1)).fit(points)
    found: NDArray[np.int64] = near.kneighbors(return_distance=False)
    return found
