"""How sure a score is: metrics over many resamples at once, bootstrap intervals, paired tests.

A metric takes columns (B, N), a resample of N items per row, and gives one value per row (B).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Metric = Callable[..., Floats]

RESAMPLES = 1000
LEVEL = 0.95
_CELLS = 1 << 22
"""Values held at a time."""
_EXACT = 12
"""With so many items that differ, or fewer, every way to swap them is tried."""


def mean(values: Floats) -> Floats:
    """The mean of the items' own outcomes."""
    out: Floats = values.mean(1)
    return out


def ratio(above: Floats, below: Floats) -> Floats:
    """A sum over items by another sum; 0 where the other is 0."""
    total = below.sum(1)
    out: Floats = above.sum(1) / np.where(total, total, 1)
    return out


def exp_ratio(above: Floats, below: Floats) -> Floats:
    """The exponential of a ratio: perplexity."""
    out: Floats = np.exp(np.minimum(ratio(above, below), 700))
    return out


def bits(above: Floats, below: Floats) -> Floats:
    """A ratio of nats, in bits."""
    return ratio(above, below) / log(2)


def span_f1(right: Floats, predicted: Floats, gold: Floats) -> Floats:
    """F1 of spans from counts per sentence, as seqeval's micro average."""
    return ratio(2 * right, predicted + gold)


def matthews(gold: Floats, predicted: Floats) -> Floats:
    """Matthews correlation of classes, as scikit-learn has it; 0 where one side is constant."""
    counts = _confusion(gold, predicted)
    size = counts.sum((1, 2))
    truth, guess = counts.sum(2), counts.sum(1)
    above = np.trace(counts, axis1=1, axis2=2) * size - (truth * guess).sum(1)
    below = np.sqrt((size**2 - (guess**2).sum(1)) * (size**2 - (truth**2).sum(1)))
    out: Floats = above / np.where(below, below, 1)
    return out


def macro_f1(gold: Floats, predicted: Floats) -> Floats:
    """Mean F1 of the classes that occur on either side, as scikit-learn has it."""
    counts = _confusion(gold, predicted)
    both = counts.sum(1) + counts.sum(2)
    f1 = 2 * np.diagonal(counts, axis1=1, axis2=2) / np.where(both, both, 1)
    out: Floats = f1.sum(1) / (both > 0).sum(1)
    return out


def pearson(gold: Floats, predicted: Floats) -> Floats:
    """Correlation of numbers; 0 where one side is constant."""
    varied = (np.ptp(gold, axis=1) > 0) & (np.ptp(predicted, axis=1) > 0)
    out = np.zeros(len(gold))
    if varied.any():
        out[varied] = stats.pearsonr(gold[varied], predicted[varied], axis=1).statistic
    return out


def spearman(gold: Floats, predicted: Floats) -> Floats:
    """Correlation of ranks."""
    return pearson(stats.rankdata(gold, axis=1), stats.rankdata(predicted, axis=1))


METRICS: dict[str, Metric] = {
    metric.__name__: metric
    for metric in (mean, ratio, exp_ratio, bits, span_f1, matthews, macro_f1, pearson, spearman)
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval."""

    value: float
    low: float
    high: float
    items: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first model's value less the second's, on the same items."""

    first: float
    second: float
    value: float
    low: float
    high: float
    p: float
    """How often chance alone would make a difference as large: items' outcomes swapped between the models."""
    items: int


def estimate(
    metric: Metric, columns: Sequence[Floats], strata: Ints | None = None, seed: int = 0
) -> Estimate:
    """The metric over all items, with its bootstrap interval; items are drawn within their stratum."""
    drawn = np.concatenate(
        [metric(*(column[picks] for column in columns)) for picks in _draws(len(columns[0]), strata, seed)]
    )
    low, high = _interval(drawn)
    return Estimate(_whole(metric, columns), low, high, len(columns[0]))


def compare(
    metric: Metric,
    first: Sequence[Floats],
    second: Sequence[Floats],
    strata: Ints | None = None,
    seed: int = 0,
) -> Difference:
    """Two models on the same items: paired bootstrap for the interval, paired randomisation for p."""
    size = len(first[0])
    drawn = np.concatenate(
        [
            metric(*(column[picks] for column in first)) - metric(*(column[picks] for column in second))
            for picks in _draws(size, strata, seed)
        ]
    )
    low, high = _interval(drawn)
    a, b = _whole(metric, first), _whole(metric, second)
    return Difference(a, b, a - b, low, high, _randomisation(metric, first, second, seed), size)


def _randomisation(metric: Metric, first: Sequence[Floats], second: Sequence[Floats], seed: int) -> float:
    """The share of swaps that make a difference at least as large: exact where the items are few."""
    differ = np.flatnonzero(np.any([a != b for a, b in zip(first, second, strict=True)], axis=0))
    if not len(differ):
        return 1.0
    if metric is mean:
        gaps = (first[0] - second[0])[differ]
        if np.allclose(abs(gaps), abs(gaps[0])):  # right against wrong: McNemar's exact test
            return float(stats.binomtest(int((gaps > 0).sum()), len(gaps)).pvalue)
    observed = abs(_whole(metric, first) - _whole(metric, second))
    exact = len(differ) <= _EXACT
    reached = tried = 0
    for swaps in _swaps(len(differ), len(first[0]), exact, seed):
        mixed = np.zeros((len(swaps), len(first[0])), bool)
        mixed[:, differ] = swaps
        one = metric(*(np.where(mixed, b, a) for a, b in zip(first, second, strict=True)))
        two = metric(*(np.where(mixed, a, b) for a, b in zip(first, second, strict=True)))
        reached += int((abs(one - two) >= observed - 1e-12).sum())
        tried += len(swaps)
    return reached / tried if exact else (reached + 1) / (tried + 1)


def _swaps(differ: int, size: int, exact: bool, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Which of the items that differ change sides, many ways at a time."""
    if exact:
        ways = np.array(list(product([False, True], repeat=differ)))
        step = max(1, _CELLS // size)
        yield from (ways[start : start + step] for start in range(0, len(ways), step))
        return
    generator = np.random.default_rng(seed)
    for count in _chunks(size):
        yield generator.random((count, differ)) < 0.5


def _draws(size: int, strata: Ints | None, seed: int) -> Iterator[Ints]:
    """Numbers of the items in each resample (B, N): each place is filled from its own stratum."""
    order = np.arange(size) if strata is None else np.argsort(strata, kind="stable")
    sizes = np.array([size]) if strata is None else np.unique(strata, return_counts=True)[1]
    starts, widths = np.repeat(np.cumsum(sizes) - sizes, sizes), np.repeat(sizes, sizes)
    generator = np.random.default_rng(seed)
    for count in _chunks(size):
        yield order[starts + (generator.random((count, size)) * widths).astype(np.int64)]


def _chunks(size: int) -> Iterator[int]:
    """How many resamples are made at a time."""
    step = max(1, _CELLS // max(size, 1))
    for done in range(0, RESAMPLES, step):
        yield min(step, RESAMPLES - done)


def _whole(metric: Metric, columns: Sequence[Floats]) -> float:
    return float(metric(*(column[None] for column in columns))[0])


def _interval(drawn: Floats) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _confusion(gold: Floats, predicted: Floats) -> Floats:
    """How often each class, a number from 0, was taken for each, per row (B, C, C)."""
    rows, classes = len(gold), int(max(gold.max(), predicted.max())) + 1
    cells = (np.arange(rows)[:, None] * classes + gold.astype(np.int64)) * classes + predicted.astype(
        np.int64
    )
    counts = np.bincount(cells.ravel(), minlength=rows * classes**2)
    return counts.reshape(rows, classes, classes).astype(np.float64)
