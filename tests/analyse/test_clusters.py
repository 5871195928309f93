"""Groups of points: as many as were planted, one where none were, scores against labels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.analyse.clusters import Space, agreement, group, group_by_label, near_their_own
from unmask.analyse.intrinsic import unit
from unmask.errors import InputError


def planted(groups: int, each: int = 30, apart: float = 8.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centres = apart * np.linalg.qr(rng.normal(size=(12, 12)))[0][:groups]
    labels = np.repeat(np.arange(groups), each)
    return centres[labels] + rng.normal(size=(groups * each, 12)), labels


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_as_many_groups_as_were_planted(groups: int) -> None:
    points, labels = planted(groups)
    found = group(points)
    scores = agreement(list(labels), found.members)
    assert (scores.ari, scores.v_measure, scores.purity) == pytest.approx((1, 1, 1))
    assert found.silhouette == pytest.approx(1 - np.sqrt(24 / (2 * 64 + 24)), abs=0.08)
    for number, centre in enumerate(found.centres):
        assert centre == pytest.approx(points[found.members == number].mean(0))


@pytest.mark.parametrize("seed", range(6))
def test_a_cloud_is_one_group(seed: int) -> None:
    """Round or long: where a Gaussian of the same spread seems as grouped, nothing separates."""
    rng = np.random.default_rng(seed)
    spread = np.array([6.0, 2.0, *[1.0] * 6]) if seed % 2 else np.ones(8)
    found = group(rng.normal(size=(80, 8)) * spread)
    assert len(found.centres) == 1
    assert found.silhouette is None


def test_the_number_may_be_given_and_the_largest_group_is_first() -> None:
    points, _ = planted(2)
    uneven = np.concatenate([points[:30], points[30:40]])
    assert np.bincount(group(uneven, 2).members).tolist() == [30, 10]
    assert len(group(points, 4).centres) == 4
    assert len(group(points, 1).centres) == 1
    with pytest.raises(InputError, match="61 senses cannot be found in 60 uses"):
        group(points, 61)


def test_a_few_strays_are_no_group() -> None:
    points, _ = planted(1, each=100)
    points[0] += 60
    assert len(group(points).centres) == 1


@pytest.mark.parametrize("count", [2, 3, 4])
def test_hardly_any_points(count: int) -> None:
    vectors = np.random.default_rng(1).normal(size=(count, 6))
    points = Space.of(vectors).place(vectors)
    assert points.shape == (count, count - 1)
    assert len(group(points).members) == count


def test_points_that_are_all_the_same_are_one_group() -> None:
    same = np.ones((9, 4))
    assert len(group(Space.of(same).place(same)).centres) == 1


def test_the_space_keeps_distances_as_far_as_it_has_components() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(8, 30)) * rng.uniform(1, 9, size=(8, 1))
    points = Space.of(vectors).place(vectors)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for one in range(8):
        for two in range(one):
            expected = np.linalg.norm(units[one] - units[two])
            assert np.linalg.norm(points[one] - points[two]) == pytest.approx(expected)


def test_agreement_by_hand() -> None:
    found = agreement(["a", "a", "a", "b", "b", "c"], [0, 0, 1, 1, 1, 1])
    assert found.purity == pytest.approx((2 + 2) / 6)
    pairs_together = 1  # of 4 pairs with one label: the first two uses
    expected = 4 * 7 / 15
    assert found.ari == pytest.approx((pairs_together + 1 - expected) / ((4 + 7) / 2 - expected))
    with pytest.raises(InputError, match="2 labels for 3 uses"):
        agreement(["a", "b"], [0, 0, 1])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=30), st.permutations(range(4)))
def test_names_of_groups_do_not_matter(members: list[int], names: list[int]) -> None:
    same = agreement(members, [names[member] for member in members])
    assert (same.ari, same.v_measure, same.purity) == pytest.approx((1, 1, 1))


def test_groups_by_label_have_centres_of_length_one_and_the_largest_is_first() -> None:
    points = unit(np.array([[1.0, 0.1], [0.1, 1.0], [1.0, -0.1], [1.0, 0.3], [0.0, 1.0]]))
    found, names = group_by_label(points, ["sofá", "banco", "sofá", "sofá", "banco"])
    assert names == ("sofá", "banco")
    assert found.members.tolist() == [0, 1, 0, 0, 1]
    assert found.centres == pytest.approx(unit(np.stack([points[[0, 2, 3]].mean(0), points[[1, 4]].mean(0)])))


def test_a_point_is_compared_with_centres_that_were_made_without_it() -> None:
    rng = np.random.default_rng(3)
    points = unit(rng.normal(size=(30, 4)))
    labels = [*"aabbbccccdddddddddddddddddddd", "alone"]
    rng.shuffle(labels)
    expected = []
    for number, point in enumerate(points):
        rest = [n for n in range(len(points)) if n != number]
        cosines = {}
        for name in sorted({labels[n] for n in rest}):
            centre = points[[n for n in rest if labels[n] == name]].sum(0)
            cosines[name] = point @ centre / np.linalg.norm(centre)
        expected.append(max(cosines, key=lambda name: cosines[name]) == labels[number])
    assert near_their_own(points, labels).tolist() == expected
    assert 0 < sum(expected) < 30
    assert not near_their_own(points, labels)[labels.index("alone")]
