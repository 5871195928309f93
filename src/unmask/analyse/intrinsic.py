"""What the space of some vectors looks like: how narrow it is, which dimensions are loud, how many it has.

N vectors · D dimensions · G groups of U vectors each
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.floating]
NORMAL = 1.959964
"""Standard deviations to either side that hold 95 % of a normal distribution."""
_TINY = 1e-12
_BLOCK = 1 << 9
"""Vectors that are compared with all others at a time."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Dimension:
    """What one dimension adds to the expected cosine (Timkey and van Schijndel 2021)."""

    number: int
    contribution: float


def unit(vectors: Vectors) -> Floats:
    """The vectors with length 1; one of length 0 stays 0."""
    wide = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    out: Floats = wide / np.maximum(lengths, _TINY)
    return out


def expected_cosine(vectors: Vectors) -> Interval:
    """The mean cosine over all pairs of vectors (N, D), each drawn independently: anisotropy.

    A U-statistic of order two; its variance has a part from the vectors and one from the pairs (Hoeffding).
    """
    units = unit(vectors)
    count = len(units)
    pairs = count * (count - 1)
    squares = (units**2).sum(1)
    sums = units @ units.sum(0) - squares  # of each vector's cosines with the others
    value = float(sums.sum() / pairs)
    of_pairs = max(float(((_gram(units) ** 2).sum() - (squares**2).sum()) / pairs) - value**2, 0.0)
    of_means = float(np.var(sums / (count - 1), ddof=1))
    of_vectors = max(of_means - of_pairs / (count - 1), 0.0)
    error = np.sqrt((4 * (count - 2) * of_vectors + 2 * of_pairs) / pairs)
    return Interval(value, value - NORMAL * float(error), value + NORMAL * float(error))


def loudest(vectors: Vectors, top: int) -> tuple[Dimension, ...]:
    """The dimensions that add most to the expected cosine; over all D they sum to it."""
    units = unit(vectors)
    count = len(units)
    added = (units.sum(0) ** 2 - (units**2).sum(0)) / (count * (count - 1))
    return tuple(Dimension(int(n), float(added[n])) for n in np.argsort(-added)[:top])


def self_similarity(groups: Vectors) -> float:
    """The mean cosine between two vectors of a group (G, U, D), over groups."""
    units = unit(groups)
    size = units.shape[1]
    within = ((units.sum(1) ** 2).sum(1) - (units**2).sum((1, 2))) / (size * (size - 1))
    return float(within.mean())


def intra_similarity(groups: Sequence[Vectors]) -> float:
    """The mean cosine of a vector with the mean of its group, over groups of any size."""
    return float(np.mean([(unit(group) @ unit(group.mean(0))).mean() for group in groups]))


def static_share(groups: Vectors) -> float:
    """How much of a group's squared length its best single direction holds at most, over groups (G, U, D).

    The square of the first singular value by the sum of all: what a static embedding could explain.
    """
    wide = np.asarray(groups, np.float64)
    values = np.linalg.eigvalsh(wide @ wide.transpose(0, 2, 1))
    return float((values[:, -1] / np.maximum(values.sum(1), _TINY)).mean())


def two_nn(vectors: Vectors) -> float | None:
    """Intrinsic dimension by the distances to the two nearest neighbours (Facco et al. 2017).

    Their ratio is Pareto distributed with the dimension as exponent, whose maximum likelihood this is. None
    where fewer than three vectors differ, or all are as far from their second neighbour as from the first.
    """
    wide = np.unique(np.asarray(vectors, np.float64), axis=0)
    if len(wide) < 3:
        return None
    nearest = _two_nearest(wide)
    apart = nearest[:, 0] > _TINY * (wide**2).sum(1).mean()
    total = float((np.log(nearest[apart, 1] / nearest[apart, 0]) / 2).sum())
    return float(apart.sum() - 1) / total if total > _TINY else None


def _two_nearest(points: Floats) -> Floats:
    """The squared distances (N, 2) of each point to the two nearest others."""
    squares = (points**2).sum(1)
    found = np.empty((len(points), 2))
    for start in range(0, len(points), _BLOCK):
        here = slice(start, start + _BLOCK)
        distances = np.maximum(squares[here, None] + squares - 2 * points[here] @ points.T, 0)
        np.fill_diagonal(distances[:, start:], np.inf)  # of a point to itself
        found[here] = np.partition(distances, 1, axis=1)[:, :2]
    return found


def participation(vectors: Vectors) -> float:
    """How many dimensions share the variance: (Σλ)² / Σλ² over the principal components.

    Corrected for the number of vectors (Bai and Saranadasa 1996): few of them look less spread than they are.
    """
    wide = np.asarray(vectors, np.float64)
    free = len(wide) - 1
    covariance = _gram(wide - wide.mean(0)) / free
    total, squares = float(np.trace(covariance)), float((covariance**2).sum())
    squares = free**2 / ((free - 1) * (free + 2)) * (squares - total**2 / free)
    return total**2 / max(squares, _TINY * total**2, _TINY)


def _gram(rows: Floats) -> Floats:
    """XᵀX or XXᵀ, whichever is smaller: trace and sum of squares are the same."""
    product: Floats = rows.T @ rows if len(rows) > rows.shape[1] else rows @ rows.T
    return product
