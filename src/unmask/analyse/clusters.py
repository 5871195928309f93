"""Points to groups: k-means, how many by silhouette, and one where nothing separates; or by labels.

N points · D width · d principal components · K groups
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unmask.analyse.intrinsic import unit
from unmask.errors import InputError
from unmask.progress import counted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST = 8
"""Groups that are looked for, where their number is not given."""
_COMPONENTS = 10
_STARTS = 10
_DRAWS = 20
"""Clouds without groups that the silhouette is compared with: none of them may reach it."""
_SMALLEST = 0.03
"""A smaller share of the points is no group but a few strays."""


@dataclass(frozen=True, eq=False)
class Space:
    """Where points are compared: of length 1, less a mean, seen along some axes."""

    mean: Floats  # (D)
    axes: Floats  # (D, d)

    @classmethod
    def of(cls, vectors: NDArray[np.floating]) -> "Space":
        """That of the principal components of some vectors (N, D)."""
        units = unit(vectors)
        mean = units.mean(0)
        _, _, axes = np.linalg.svd(units - mean, full_matrices=False)
        return cls(mean, axes[: min(_COMPONENTS, len(units) - 1)].T)

    @classmethod
    def whole(cls, width: int) -> "Space":
        """That of the vectors as they are: of length 1, the nearer the larger their cosine."""
        return cls(np.zeros(width), np.eye(width))

    def place(self, vectors: NDArray[np.floating]) -> Floats:
        """Points (N, d)."""
        points: Floats = (unit(vectors) - self.mean) @ self.axes
        return points


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group each point is in, the largest group first; their centres; how well they are apart."""

    members: Ints  # (N)
    centres: Floats  # (K, d)
    silhouette: float | None
    """From -1 to 1; None of a single group."""


def group(points: Floats, count: int | None = None, seed: int = 0) -> Groups:
    """So many groups, or as many as the silhouette says; one where a cloud without groups seems as grouped.

    The clouds are Gaussian with the spread of the points (after Liu et al. 2008, SigClust).
    """
    if count is not None and not 1 <= count <= len(points):
        raise InputError(
            f"{counted(count, 'sense')} cannot be found in {counted(len(points), 'use')}: ask for fewer"
        )
    if count is not None:
        return _arranged(points, _k_means(points, count, seed))
    found = [_arranged(points, _k_means(points, k, seed)) for k in range(2, min(MOST, len(points) - 1) + 1)]
    least = max(2.0, _SMALLEST * len(points))
    kept = [each for each in found if np.bincount(each.members).min() >= least]
    best = max(kept, key=lambda each: each.silhouette or -1.0, default=None)
    if best is None or (best.silhouette or -1.0) <= _by_chance(points, len(best.centres), seed):
        return _arranged(points, np.zeros(len(points), np.int64))
    return best


def _by_chance(points: Floats, count: int, seed: int) -> float:
    """The best silhouette of as many groups in clouds that have none."""
    rng = np.random.default_rng(seed)
    clouds = (rng.normal(size=points.shape) * points.std(0) for _ in range(_DRAWS))
    return max(_silhouette(cloud, _k_means(cloud, count, seed)) for cloud in clouds)


def _k_means(points: Floats, count: int, seed: int) -> Ints:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    count = min(count, len(np.unique(points.round(9), axis=0)))
    if count == 1:
        return np.zeros(len(points), np.int64)
    with threadpool_limits(1):  # on so few points threads only wait for each other
        found: Ints = KMeans(count, n_init=_STARTS, random_state=seed).fit_predict(points).astype(np.int64)
    return found


def _silhouette(points: Floats, members: Ints) -> float:
    from sklearn.metrics import silhouette_score

    if not 1 < len(np.unique(members)) < len(points):
        return -1.0
    return float(silhouette_score(points, members))


def _arranged(points: Floats, members: Ints) -> Groups:
    _, number, sizes = np.unique(members, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    members = np.argsort(order)[number]
    centres = np.stack([points[members == k].mean(0) for k in range(len(order))])
    return Groups(members, centres, _silhouette(points, members) if 1 < len(order) < len(points) else None)


def group_by_label(points: Floats, labels: Sequence[str]) -> tuple[Groups, tuple[str, ...]]:
    """Points of length 1, and centres too, in groups as their labels say; the label of each group."""
    found = _arranged(points, np.unique(labels, return_inverse=True)[1])
    firsts = np.unique(found.members, return_index=True)[1]
    return replace(found, centres=unit(found.centres)), tuple(labels[first] for first in firsts)


def near_their_own(points: Floats, labels: Sequence[str]) -> Bools:
    """Whether each point of length 1 is nearest to the centre of its label, made without the point itself.

    One that is alone with its label leaves no centre behind, and is near another.
    """
    names, numbers, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.stack([points[numbers == number].sum(0) for number in range(len(names))])
    cosines = points @ unit(sums).T
    without = (points * unit(sums[numbers] - points)).sum(1)
    cosines[np.arange(len(points)), numbers] = np.where(sizes[numbers] > 1, without, -np.inf)
    right: Bools = cosines.argmax(1) == numbers
    return right


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well groups that were found agree with labels."""

    ari: float
    """Adjusted Rand index: 1 the same groups, 0 as by chance."""
    v_measure: float
    """Harmonic mean of homogeneity and completeness."""
    purity: float
    """Share of the items whose label is the commonest one of their group."""
    items: int


def agreement(labels: Sequence[object], members: Sequence[int] | Ints) -> Agreement:
    """Groups against labels, item by item."""
    from sklearn.metrics import adjusted_rand_score, v_measure_score
    from sklearn.metrics.cluster import contingency_matrix

    if len(labels) != len(members) or not len(labels):
        raise InputError(
            f"{counted(len(labels), 'label')} for {counted(len(members), 'use')}: give one for each"
        )
    names = [str(label) for label in labels]
    table = contingency_matrix(names, members)
    return Agreement(
        float(adjusted_rand_score(names, members)),
        float(v_measure_score(names, members)),
        float(table.max(0).sum() / len(names)),
        len(names),
    )
