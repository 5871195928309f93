"""Metrics over resamples, intervals that cover, tests that find what is there and nothing else."""

import warnings

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import f1_score as seqeval_f1
from seqeval.metrics.sequence_labeling import get_entities
from sklearn.metrics import f1_score, matthews_corrcoef

from unmask.evaluation import statistics
from unmask.evaluation.results import Measure, Outcome, summarise
from unmask.evaluation.statistics import METRICS, compare, estimate, mean, ratio, span_f1


def test_metrics_are_those_of_the_libraries() -> None:
    rng = np.random.default_rng(0)
    gold, guess = rng.integers(0, 3, (2, 60)).astype(float)
    x, y = rng.normal(size=(2, 60))
    expected = {
        "matthews": matthews_corrcoef(gold, guess),
        "macro_f1": f1_score(gold, guess, average="macro"),
        "pearson": stats.pearsonr(x, y).statistic,
        "spearman": stats.spearmanr(x, y).statistic,
    }
    for name, value in expected.items():
        columns = (gold, guess) if name in ("matthews", "macro_f1") else (x, y)
        found = METRICS[name](*(np.stack([column, column[::-1]]) for column in columns))
        assert found == pytest.approx([value, value]), name


def test_a_class_that_a_resample_lacks() -> None:
    gold, guess = np.array([0.0, 1, 0, 1]), np.array([1.0, 1, 0, 1])
    rows = np.stack([gold, np.full(4, 2.0)]), np.stack([guess, np.full(4, 2.0)])
    assert METRICS["matthews"](*rows) == pytest.approx([matthews_corrcoef(gold, guess), 0])
    assert METRICS["macro_f1"](*rows) == pytest.approx([f1_score(gold, guess, average="macro"), 1])


def test_span_f1_is_that_of_seqeval() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"], ["O", "O"]]
    guess = [["B-PER", "O", "O", "B-LOC"], ["B-LOC", "B-ORG"], ["O", "O"]]
    counts = [
        (len(set(get_entities(g)) & set(get_entities(p))), len(get_entities(p)), len(get_entities(g)))
        for g, p in zip(gold, guess, strict=True)
    ]
    columns = np.array(counts, float).T[:, None]
    assert span_f1(*columns)[0] == pytest.approx(seqeval_f1(gold, guess))
    assert span_f1(*np.zeros((3, 1, 4)))[0] == 0


def test_a_constant_side_has_no_correlation() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert METRICS["pearson"](np.ones((1, 5)), np.arange(5.0)[None])[0] == 0


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for seed in range(150):
        sample = (rng.random(80) < 0.7).astype(float)
        found = estimate(mean, [sample], seed=seed)
        assert found.low <= found.value <= found.high
        covered += found.low <= 0.7 <= found.high
    assert 0.88 <= covered / 150 <= 0.99


def test_the_same_seed_gives_the_same_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = np.random.default_rng(2).normal(size=50)
    whole = estimate(mean, [sample], seed=3)
    assert whole == estimate(mean, [sample], seed=3)
    assert whole != estimate(mean, [sample], seed=4)
    monkeypatch.setattr(statistics, "_CELLS", 500)  # a few resamples at a time
    assert estimate(mean, [sample], seed=3) == whole


def test_strata_are_kept() -> None:
    strata = np.array([1, 0, 1, 1, 0, 2])
    for picks in statistics._draws(6, strata, 0):
        assert (strata[picks] == np.sort(strata)).all()
        assert len(np.unique(picks)) == 6


def test_macro_average_is_the_mean_of_the_groups() -> None:
    items = [{"id": n, "set": "a", "right": 1.0} for n in range(9)]
    items += [{"id": n, "set": "b", "right": n % 2 / 1} for n in range(10, 12)]
    measure = Measure("accuracy", "mean", ("right",), macro="set")
    scores, groups = summarise(Outcome(items, (measure,), ("set",)))
    assert scores["accuracy"].value == pytest.approx((1 + 0.5) / 2)
    assert scores["accuracy"].low >= 0.5  # set a is always right, whatever is drawn
    assert groups["set"]["a"]["accuracy"].value == 1
    assert groups["set"]["b"]["accuracy"].items == 2


def test_a_planted_difference_is_found_and_none_is_not() -> None:
    rng = np.random.default_rng(5)
    difficulty = rng.random(400)
    good = (difficulty < 0.8).astype(float)
    bad = (difficulty + rng.normal(0, 0.1, 400) < 0.7).astype(float)
    found = compare(mean, [good], [bad])
    assert found.p < 0.01
    assert found.low > 0
    assert found.value == pytest.approx(good.mean() - bad.mean())
    values = rng.normal(size=(2, 300))
    assert compare(mean, [values[0]], [values[0] + 0.3 + 0.1 * values[1]]).p <= 2 / statistics.RESAMPLES
    assert compare(mean, [values[0]], [values[0]]).p == 1


def test_under_the_null_few_comparisons_are_significant() -> None:
    rng = np.random.default_rng(6)
    metrics = [(mean, 1), (ratio, 2), (METRICS["pearson"], 2)]
    small = sum(
        compare(metric, rng.random((count, 40)), rng.random((count, 40)), seed=seed).p < 0.05
        for metric, count in metrics
        for seed in range(40)
    )
    assert small <= 14  # 6 expected of 120


def test_few_items_are_tested_exactly() -> None:
    first, second = np.array([3.0, 1.0, 4.0, 1.0]), np.array([1.0, 2.0, 1.0, 1.0])
    gaps = np.array([2, -1, 3])  # the fourth item does not differ
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1)
    expected = (abs(gaps @ signs) >= abs(gaps.sum())).mean()
    assert compare(mean, [first], [second]).p == pytest.approx(expected)


def test_right_against_wrong_is_mcnemar() -> None:
    first = np.r_[np.ones(30), np.zeros(12), np.ones(5)]
    second = np.r_[np.zeros(30), np.ones(12), np.ones(5)]
    assert compare(mean, [first], [second]).p == pytest.approx(stats.binomtest(30, 42).pvalue)
