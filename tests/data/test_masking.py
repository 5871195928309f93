"""Masking: one list of checks over every masker, then what each one promises."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.config import MaskConfig
from unmask.data.masking import CHOOSERS, KEPT, MASK, RANDOM, Draws, Masked, Masker, Text, mask_ratio
from unmask.data.shards import Special
from unmask.errors import ConfigError

SPECIAL = Special(cls=2, sep=3, mask=7, pad=0, unk=None, all=(0, 2, 3, 7))
VOCAB = 40
KINDS = sorted(CHOOSERS)

units = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=5), min_size=1, max_size=4)
ratios = st.floats(0.01, 0.5)
seeds = st.integers(0, 2**32)


def make_text(lengths: list[list[int]], seed: int = 0) -> tuple[np.ndarray, Text]:
    """Units of sequences [CLS] … [SEP] with these numbers of ordinary tokens between."""
    rng = np.random.default_rng(seed)
    ordinary = np.setdiff1d(np.arange(VOCAB), SPECIAL.all)
    ids, bounds = [], [0]
    for unit in lengths:
        for length in unit:
            ids += [SPECIAL.cls, *rng.choice(ordinary, length).tolist(), SPECIAL.sep]
        bounds.append(len(ids))
    array = np.array(ids, np.int64)
    text = Text(np.isin(array, SPECIAL.all), rng.random(len(ids)) < 0.6, np.array(bounds))
    for each in (array, text.special, text.word_start, text.bounds):
        each.flags.writeable = False
    return array, text


def apply(kind: str, ids: np.ndarray, text: Text, ratio: float, seed: int, **shares: float) -> Masked:
    draws = Draws([np.random.default_rng((seed, unit)) for unit in range(len(text.bounds) - 1)])
    return Masker(MaskConfig(kind=kind, **shares), VOCAB, SPECIAL)(ids, text, ratio, draws)


def word_numbers(text: Text) -> np.ndarray:
    """The word of each token, −1 at special tokens; written without the code under test."""
    numbers, word = [], -1
    for i, special in enumerate(text.special):
        if not special and (text.word_start[i] or text.special[i - 1]):
            word += 1
        numbers.append(-1 if special else word)
    return np.array(numbers)


def check_deterministic(kind: str, ids: np.ndarray, text: Text, ratio: float, seed: int) -> None:
    first, second = (apply(kind, ids, text, ratio, seed) for _ in range(2))
    for name in ("ids", "index", "originals", "kinds"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


def check_units_do_not_see_each_other(
    kind: str, ids: np.ndarray, text: Text, ratio: float, seed: int
) -> None:
    together = apply(kind, ids, text, ratio, seed)
    for unit, (low, high) in enumerate(zip(text.bounds[:-1], text.bounds[1:], strict=True)):
        alone = Text(text.special[low:high], text.word_start[low:high], np.array([0, high - low]))
        draws = Draws([np.random.default_rng((seed, unit))])
        masked = Masker(MaskConfig(kind=kind), VOCAB, SPECIAL)(ids[low:high], alone, ratio, draws)
        assert np.array_equal(masked.ids, together.ids[low:high])


def check_special_tokens_never(kind: str, ids: np.ndarray, text: Text, ratio: float, seed: int) -> None:
    masked = apply(kind, ids, text, ratio, seed)
    assert not text.special[masked.index].any()
    assert not np.isin(masked.ids[masked.index[masked.kinds != MASK]], SPECIAL.all).any()


def check_ids_outside_targets_unchanged(
    kind: str, ids: np.ndarray, text: Text, ratio: float, seed: int
) -> None:
    masked = apply(kind, ids, text, ratio, seed)
    outside = np.delete(np.arange(len(ids)), masked.index)
    assert np.array_equal(masked.ids[outside], ids[outside])


def check_targets_are_the_originals(kind: str, ids: np.ndarray, text: Text, ratio: float, seed: int) -> None:
    masked = apply(kind, ids, text, ratio, seed)
    assert np.array_equal(masked.originals, ids[masked.index])
    assert (np.diff(masked.index) > 0).all()
    assert (masked.ids[masked.index[masked.kinds == MASK]] == SPECIAL.mask).all()
    kept = masked.kinds == KEPT
    assert np.array_equal(masked.ids[masked.index[kept]], masked.originals[kept])


def check_input_not_mutated(kind: str, ids: np.ndarray, text: Text, ratio: float, seed: int) -> None:
    before = [each.copy() for each in (ids, text.special, text.word_start, text.bounds)]
    apply(kind, ids, text, ratio, seed)
    for old, new in zip(before, (ids, text.special, text.word_start, text.bounds), strict=True):
        assert np.array_equal(old, new)


CHECKS: list[Callable[[str, np.ndarray, Text, float, int], None]] = [
    check_deterministic,
    check_units_do_not_see_each_other,
    check_special_tokens_never,
    check_ids_outside_targets_unchanged,
    check_targets_are_the_originals,
    check_input_not_mutated,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=25)
@given(lengths=units, ratio=ratios, seed=seeds)
def test_contract(kind: str, check: Callable, lengths: list[list[int]], ratio: float, seed: int) -> None:
    ids, text = make_text(lengths, seed)
    check(kind, ids, text, ratio, seed)


@pytest.mark.parametrize("kind", ["word", "span"])
@settings(deadline=None, max_examples=100)
@given(lengths=units, ratio=ratios, seed=seeds)
def test_words_are_never_split(kind: str, lengths: list[list[int]], ratio: float, seed: int) -> None:
    ids, text = make_text(lengths, seed)
    words = word_numbers(text)
    index = apply(kind, ids, text, ratio, seed).index
    visible = np.delete(np.arange(len(ids)), index)
    assert not set(words[index]) & set(words[visible])


@settings(deadline=None, max_examples=150)
@given(lengths=units, ratio=ratios, seed=seeds)
def test_spans_are_contiguous_and_their_boundaries_visible(
    lengths: list[list[int]], ratio: float, seed: int
) -> None:
    ids, text = make_text(lengths, seed)
    words = word_numbers(text)
    masked = apply("span", ids, text, ratio, seed)
    assert masked.spans is not None
    chosen = set(masked.index.tolist())
    seen = []
    for left, right in np.unique(masked.spans[:, :2], axis=0).tolist():
        inside = list(range(left + 1, right))
        assert inside
        assert chosen >= set(inside)
        assert left not in chosen
        assert right not in chosen
        assert not text.special[inside].any()
        assert 1 <= len(set(words[inside])) <= 10
        rows = (masked.spans[:, :2] == (left, right)).all(axis=1)
        assert masked.index[rows].tolist() == inside
        assert masked.spans[rows, 2].tolist() == list(range(1, len(inside) + 1))
        assert len(set(masked.kinds[rows])) == 1, "a span has one fate"
        seen += inside
    assert sorted(seen) == sorted(chosen)


@settings(deadline=None, max_examples=100)
@given(lengths=units, ratio=ratios, seed=seeds)
def test_the_count_is_the_ratio_rounded(lengths: list[list[int]], ratio: float, seed: int) -> None:
    ids, text = make_text(lengths, seed)
    words = word_numbers(text)
    tokens = apply("token", ids, text, ratio, seed).index
    span = apply("span", ids, text, ratio, seed).index
    for low, high in zip(text.bounds[:-1], text.bounds[1:], strict=True):
        there = np.flatnonzero(~text.special[low:high])
        chosen = ((tokens >= low) & (tokens < high)).sum()
        assert abs(chosen - ratio * len(there)) < 1
        all_words = len(set(words[low:high])) - 1
        masked_words = len(set(words[span[(span >= low) & (span < high)]]))
        assert abs(masked_words - ratio * all_words) < 1


@pytest.fixture(scope="module")
def million() -> tuple[np.ndarray, Text]:
    """10⁶ ordinary tokens in units of 512."""
    return make_text([[298, 208, 0]] * (1_000_000 // 506 + 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ratio", [0.15, 0.4])
def test_rates_on_a_million_tokens(kind: str, ratio: float, million: tuple[np.ndarray, Text]) -> None:
    ids, text = million
    masked = apply(kind, ids, text, ratio, seed=1)
    n = int((~text.special).sum())
    assert n >= 1_000_000
    count = len(masked.index)
    # Rounding is the only noise for tokens and words; spans also vary with the lengths of the words hit.
    spread = {"token": 0.5, "word": 2.0, "span": 12.0}[kind] * np.sqrt(len(text.bounds) - 1)
    assert abs(count - ratio * n) < 5 * spread

    fates = masked.kinds if masked.spans is None else masked.kinds[masked.spans[:, 2] == 1]
    for fate, share in ((MASK, 0.8), (RANDOM, 0.1), (KEPT, 0.1)):
        sigma = np.sqrt(share * (1 - share) * len(fates))
        assert abs((fates == fate).sum() - share * len(fates)) < 5 * sigma

    randoms = masked.ids[masked.index[masked.kinds == RANDOM]]
    ordinary = np.setdiff1d(np.arange(VOCAB), SPECIAL.all)
    found = np.bincount(randoms, minlength=VOCAB)[ordinary]
    assert found.sum() == len(randoms), "no special token"
    mean = len(randoms) / len(ordinary)
    assert np.abs(found - mean).max() < 6 * np.sqrt(mean)

    places = masked.index % 512
    rates = np.bincount(places, minlength=512)[~text.special[:512]] / (len(text.bounds) - 1)
    tolerated = 5 * np.sqrt(ratio * (1 - ratio) / (len(text.bounds) - 1))
    assert np.abs(rates - ratio).max() < tolerated, "every place is chosen alike, the edges too"


def test_spans_have_spanberts_lengths(million: tuple[np.ndarray, Text]) -> None:
    ids, text = million
    words = word_numbers(text)
    masked = apply("span", ids, text, 0.15, seed=3)
    assert masked.spans is not None
    pairs = np.unique(masked.spans[:, :2], axis=0)
    sizes = words[pairs[:, 1] - 1] - words[pairs[:, 0] + 1] + 1
    assert sizes.max() == 10
    shares = np.bincount(sizes, minlength=11)[1:] / len(sizes)
    expected = 0.8 ** np.arange(10) / (0.8 ** np.arange(10)).sum()
    assert np.abs(shares - expected).max() < 0.02, "cut at the ends of units and sequences, else geometric"
    assert 3.5 < sizes.mean() < 3.8


def test_shares_of_the_fates_are_free(million: tuple[np.ndarray, Text]) -> None:
    ids, text = million
    assert set(apply("word", ids, text, 0.3, 0, mask=1.0, random=0.0, keep=0.0).kinds) == {MASK}
    assert set(apply("token", ids, text, 0.3, 0, mask=0.0, random=0.0, keep=1.0).kinds) == {KEPT}
    assert set(apply("span", ids, text, 0.3, 0, mask=0.5, random=0.5, keep=0.0).kinds) == {MASK, RANDOM}


def test_the_ratio_follows_its_schedule() -> None:
    assert mask_ratio(MaskConfig(ratio=0.15), 0.7) == 0.15
    falling = MaskConfig(ratio=0.4, ratio_end=0.15)
    assert [mask_ratio(falling, p) for p in (0, 1, 2)] == [0.4, pytest.approx(0.15), pytest.approx(0.15)]
    assert mask_ratio(falling, 0.5) == pytest.approx(0.275)


def test_what_cannot_be_is_refused() -> None:
    ids, text = make_text([[20]])
    with pytest.raises(ConfigError, match=r"above 0\.5"):
        apply("span", ids, text, 0.6, 0)
    with pytest.raises(ConfigError, match="nothing but special"):
        Masker(MaskConfig(), 4, SPECIAL)
