"""Packing: every token once, no document crossed, little left empty."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.data.packing import (
    ENDS,
    best_fit,
    costs,
    cut,
    fill_gaps,
    ranks,
    single_sentences,
    whole_documents,
)
from unmask.data.shards import SENTENCE_START, WORD_START

lengths_of_documents = st.lists(st.integers(1, 200), min_size=1, max_size=40)
lengths = st.integers(8, 64)


def assert_every_token_once(documents, pieces: np.ndarray) -> None:
    assert (pieces[:, 1] < pieces[:, 2]).all()
    ordered = pieces[np.lexsort((pieces[:, 1], pieces[:, 0]))]
    for number in range(documents.document_count):
        own = ordered[ordered[:, 0] == number]
        assert own[0, 1] == 0
        assert own[-1, 2] == documents.lengths[number]
        assert np.array_equal(own[1:, 1], own[:-1, 2])


@settings(deadline=None, max_examples=60)
@given(sizes=lengths_of_documents, length=lengths, seed=st.integers(0, 999))
def test_whole_documents_every_token_once(make_documents, sizes, length: int, seed: int) -> None:
    documents = make_documents(sizes, seed=seed)
    pieces = whole_documents(documents, np.arange(len(sizes)), length)
    assert_every_token_once(documents, pieces)
    assert (costs(pieces, 1) <= length).all()
    short = np.flatnonzero(documents.lengths <= length - ENDS)
    assert np.isin(short, pieces[pieces[:, 2] == documents.lengths[pieces[:, 0]], 0]).all()
    assert (np.bincount(pieces[:, 0])[short] == 1).all(), "a document that fits is not cut"


@settings(deadline=None, max_examples=60)
@given(sizes=lengths_of_documents, length=lengths, seed=st.integers(0, 999))
def test_sentences_every_token_once_and_cut_only_when_too_long(
    make_documents, sizes, length: int, seed: int
) -> None:
    documents = make_documents(sizes, seed=seed)
    documents.flags = documents.flags.copy()
    documents.flags[documents.bounds[1:-1]] = 0  # a document may begin without a mark
    pieces = single_sentences(documents, np.arange(len(sizes)), length)
    assert_every_token_once(documents, pieces)
    assert (costs(pieces, 1) <= length).all()
    for number, start, stop in pieces.tolist():
        flags = documents.document(number)[1]
        assert not (flags[start + 1 : stop] & SENTENCE_START).any(), "one sentence at most"
        if start and not flags[start] & SENTENCE_START:
            begin = max((i for i in range(start) if flags[i] & SENTENCE_START), default=0)
            end = next((i for i in range(stop, len(flags)) if flags[i] & SENTENCE_START), len(flags))
            assert end - begin > length - ENDS


@settings(deadline=None, max_examples=60)
@given(sizes=lengths_of_documents, length=lengths, seed=st.integers(0, 999))
def test_filled_bins_hold_every_token_once(make_documents, sizes, length: int, seed: int) -> None:
    documents = make_documents(sizes, seed=seed)
    pieces = whole_documents(documents, np.arange(len(sizes)), length)
    bins = best_fit(costs(pieces, 1), length)
    filled, homes = fill_gaps(documents, pieces, bins, length)
    assert_every_token_once(documents, filled)
    fill = np.bincount(homes, weights=costs(filled, 1))
    assert fill.max() <= length
    assert fill.min() > 0
    assert len(fill) <= bins.max() + 1
    assert set(homes) == set(range(len(fill)))


def simple_best_fit(sizes: list[int], capacity: int) -> list[int]:
    """Best fit decreasing, the slow and obvious way: the room left in each bin."""
    rooms: list[int] = []
    for size in sorted(sizes, reverse=True):
        fitting = [room for room in rooms if room >= size]
        if fitting:
            room = min(fitting)
            rooms[rooms.index(room)] -= size
        else:
            rooms.append(capacity - size)
    return rooms


@settings(deadline=None, max_examples=200)
@given(sizes=st.lists(st.integers(1, 50), max_size=120), capacity=st.integers(50, 70))
def test_best_fit_is_best_fit(sizes: list[int], capacity: int) -> None:
    bins = best_fit(np.array(sizes, np.int64), capacity)
    assert len(bins) == len(sizes)
    rooms = [
        capacity - sum(s for s, b in zip(sizes, bins, strict=True) if b == n) for n in range(len(set(bins)))
    ]
    assert sorted(rooms) == sorted(simple_best_fit(sizes, capacity))


def test_a_gap_takes_a_whole_piece_that_fits_and_a_part_of_one_that_does_not(
    make_documents: Callable,
) -> None:
    for room, bins_left in ((18, [0, 0]), (19, [0, 1, 1])):
        documents = make_documents([10, room])  # the first costs 12; the second leaves 12, or one less
        pieces = whole_documents(documents, np.arange(2), 32)
        filled, homes = fill_gaps(documents, pieces, np.array([0, 1]), 32)
        assert sorted(homes) == bins_left
        assert np.bincount(homes, weights=costs(filled, 1)).max() <= 32
        assert_every_token_once(documents, filled)


def test_a_cut_prefers_a_sentence_then_a_word() -> None:
    places = bytearray(64)
    places[60] = 1
    assert cut(bytes(places), 0, 62, 128) == 60
    places[61] = 2
    places[62] = 1
    assert cut(bytes(places), 0, 62, 128) == 61
    places[61] = 0
    places[50] = 2
    assert cut(bytes(places), 0, 62, 128) == 62, "a sentence start too far away does not count"
    assert cut(bytes(64), 0, 62, 128) == 62, "no place at all"
    assert cut(b"\2\2" + bytes(8), 0, 1, 64) == 1, "never an empty piece"


def test_ranks() -> None:
    flags = np.array([0, WORD_START, SENTENCE_START, WORD_START | SENTENCE_START], np.uint8)
    assert ranks(flags) == bytes([0, 1, 2, 2])


@pytest.mark.parametrize("shape", ["short", "long", "same"])
@pytest.mark.parametrize("length", [128, 512])
def test_little_is_left_empty_and_little_is_cut(make_documents: Callable, shape: str, length: int) -> None:
    rng = np.random.default_rng(5)
    sizes = {
        "short": rng.geometric(1 / 60, 4000),
        "long": rng.integers(1000, 9000, 60),
        "same": np.full(800, int(length * 0.6)),  # the worst case: no two fit together
    }[shape]
    documents = make_documents(sizes)
    pieces = whole_documents(documents, np.arange(len(sizes)), length)
    filled, homes = fill_gaps(documents, pieces, best_fit(costs(pieces, 1), length), length)
    assert np.bincount(homes, weights=costs(filled, 1)).max() <= length
    assert costs(filled, 1).sum() / (length * (homes.max() + 1)) >= 0.985
    if shape == "short":
        whole = (filled[:, 2] - filled[:, 1] == documents.lengths[filled[:, 0]]).sum()
        assert whole / (documents.lengths <= length - ENDS).sum() > 0.95
    starts = np.array([documents.document(n)[1][s] for n, s, _ in filled.tolist()])
    assert (starts & (WORD_START | SENTENCE_START) > 0).mean() > 0.97, "pieces begin with a word"
