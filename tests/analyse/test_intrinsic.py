"""Each measure gives what theory says of a space whose form is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.analyse import intrinsic
from unmask.analyse.intrinsic import (
    expected_cosine,
    intra_similarity,
    loudest,
    participation,
    self_similarity,
    static_share,
    two_nn,
    unit,
)


def gaussian(count: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, width))


def test_an_isotropic_gaussian_has_no_anisotropy() -> None:
    """Cosines of independent directions have mean 0 and variance 1/D; the interval follows from both."""
    found = expected_cosine(gaussian(1000, 64))
    width = 2 * 1.96 * np.sqrt(2 / (1000 * 999) / 64)
    assert found.low < 0 < found.high
    assert found.high - found.low == pytest.approx(width, rel=0.1)


@pytest.mark.parametrize("strength", [0.5, 1.0, 3.0])
def test_one_dominant_direction(strength: float) -> None:
    """Mean a along one axis and unit noise in D dimensions: the cosine tends to a²/(a² + D)."""
    width = 200
    vectors = gaussian(800, width)
    vectors[:, 17] += strength * np.sqrt(width)
    found = expected_cosine(vectors)
    assert found.value == pytest.approx(strength**2 / (strength**2 + 1), abs=0.01)
    first, second = loudest(vectors, 2)
    assert first.number == 17
    assert first.contribution == pytest.approx(found.value, abs=0.01)
    assert abs(second.contribution) < 0.005


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    centre = np.zeros(20)
    centre[0] = 3.0
    truth = expected_cosine(gaussian(4000, 20, 99) + centre).value
    held = 0
    for seed in range(200):
        found = expected_cosine(gaussian(60, 20, seed) + centre)
        held += found.low <= truth <= found.high
    assert 180 <= held <= 198


@settings(deadline=None, max_examples=25)
@given(st.integers(3, 30), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_contributions_sum_to_the_expected_cosine(count: int, width: int, seed: int) -> None:
    vectors = gaussian(count, width, seed) + 0.3
    units = unit(vectors)
    pairs = [units[i] @ units[j] for i in range(count) for j in range(count) if i != j]
    found = expected_cosine(vectors)
    assert found.value == pytest.approx(np.mean(pairs))
    means = np.reshape(pairs, (count, count - 1)).mean(1)
    of_vectors = max(np.var(means, ddof=1) - np.var(pairs) / (count - 1), 0)
    spread = np.sqrt((4 * (count - 2) * of_vectors + 2 * np.var(pairs)) / len(pairs))
    assert found.high - found.low == pytest.approx(2 * 1.959964 * spread, abs=1e-6)
    assert sum(each.contribution for each in loudest(vectors, width)) == pytest.approx(found.value)


def test_planted_clusters() -> None:
    """k orthogonal centres, equally often: 1 within a group, 0 between, 1/k over random pairs."""
    groups, uses, width = 8, 25, 64
    centres = np.eye(width)[:groups]
    planted = np.repeat(centres[:, None], uses, 1)
    assert self_similarity(planted) == pytest.approx(1)
    assert static_share(planted) == pytest.approx(1)
    flat = planted.reshape(-1, width)
    count = groups * uses
    assert expected_cosine(flat).value == pytest.approx((uses - 1) * groups * uses / (count * (count - 1)))
    assert participation(flat) == pytest.approx(groups - 1, rel=0.05)
    # A group that holds each centre once: each is 1/√k from their mean, and explains 1/k of it.
    mixed = planted.transpose(1, 0, 2)
    assert self_similarity(mixed) == pytest.approx(0)
    assert static_share(mixed) == pytest.approx(1 / groups)
    assert intra_similarity(list(mixed)) == pytest.approx(1 / np.sqrt(groups))


def test_similarity_of_noisy_uses() -> None:
    """A word's vector and noise of s² per dimension: two uses have cosine 1/(1 + s²)."""
    rng = np.random.default_rng(0)
    words = rng.normal(size=(200, 1, 300))
    noisy = words + 0.7 * rng.normal(size=(200, 10, 300))
    assert self_similarity(noisy) == pytest.approx(1 / (1 + 0.49), abs=0.01)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_two_nn_finds_the_dimension_of_a_flat_sheet(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    sheet = rng.uniform(size=(2000, dimension)) @ np.linalg.qr(rng.normal(size=(50, dimension)))[0].T
    assert two_nn(sheet) == pytest.approx(dimension, rel=0.12)
    assert two_nn(np.concatenate([sheet, sheet[:300]])) == pytest.approx(two_nn(sheet))


def test_two_nn_of_a_curved_line_is_one() -> None:
    turn = np.random.default_rng(0).uniform(0, 20, 1500)
    spiral = np.stack([turn * np.cos(turn), turn * np.sin(turn), turn], 1)
    assert two_nn(spiral) == pytest.approx(1, rel=0.1)


def test_two_nn_compares_part_after_part(monkeypatch: pytest.MonkeyPatch) -> None:
    points = gaussian(50, 4)
    whole = two_nn(points)
    monkeypatch.setattr(intrinsic, "_BLOCK", 7)
    assert two_nn(points) == pytest.approx(whole)


def test_a_dimension_that_cannot_be_told_is_none() -> None:
    grid = np.array([[n % 6, n // 6] for n in range(36)], float)  # two neighbours of each are as near
    for vectors in (np.ones((30, 8)), np.repeat(np.eye(8)[:2], 15, 0), grid):
        assert two_nn(vectors) is None
    assert two_nn(gaussian(3, 2)) is not None


@pytest.mark.parametrize("count", [60, 300, 2000])
def test_participation_of_an_isotropic_gaussian_is_its_width(count: int) -> None:
    """Whatever the number of vectors: without the correction 60 of them would seem to fill 36 dimensions."""
    found = [participation(gaussian(count, 90, seed)) for seed in range(10)]
    assert np.mean(found) == pytest.approx(90, rel=0.06)


def test_participation_follows_the_spectrum() -> None:
    values = np.array([4.0, 2.0, 1.0, 1.0])
    vectors = gaussian(20_000, 4) * np.sqrt(values)
    assert participation(vectors) == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=0.03)


def test_a_vector_of_length_zero_counts_as_unlike_everything() -> None:
    vectors = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    assert expected_cosine(vectors).value == pytest.approx(1 / 3)
