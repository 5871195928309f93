"""Pairs: labels half and half, B what the label says, no token lost."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.config import BatchConfig
from unmask.data.packing import costs
from unmask.data.pairs import NO_PAIR, make_pairs
from unmask.data.shards import SENTENCE_START


def table(documents, pairs: str, length: int, seed: int = 0, short: float = 0.1) -> np.ndarray:
    config = BatchConfig(length=length, pairs=pairs, short=short)
    numbers = np.arange(documents.document_count)
    return make_pairs(documents, numbers, config, np.random.default_rng(seed))


def texts_in_order(rows: np.ndarray) -> np.ndarray:
    """The (document, start, stop) that come from the walk through the documents, strangers left out."""
    first, second = rows[:, :3], rows[:, 3:6]
    own = (rows[:, 6] != NO_PAIR) & (rows[:, 0] == rows[:, 3])
    both = np.concatenate([first, second[own]])
    return both[np.lexsort((both[:, 1], both[:, 0]))]


@pytest.mark.parametrize("pairs", ["nsp", "sop"])
@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 150), min_size=2, max_size=20),
    length=st.integers(8, 64),
    seed=st.integers(0, 999),
    short=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_every_token_once_and_labels_true(
    make_documents: Callable, pairs: str, sizes: list[int], length: int, seed: int, short: float
) -> None:
    documents = make_documents(sizes, seed=seed)
    rows = table(documents, pairs, length, seed, short)
    assert (costs(rows, documents.special.pair_separators) <= length).all()
    walked = texts_in_order(rows)
    for number in range(len(sizes)):
        own = walked[walked[:, 0] == number]
        assert own[0, 1] == 0
        assert own[-1, 2] == sizes[number]
        assert np.array_equal(own[1:, 1], own[:-1, 2])
    for a, a_start, a_stop, b, b_start, b_stop, label in rows.tolist():
        assert a_start < a_stop
        if label == NO_PAIR:
            assert (b, b_start, b_stop) == (0, 0, 0)
            assert not (documents.document(a)[1][a_start + 1 : a_stop] & SENTENCE_START).any()
            continue
        swapped = pairs == "sop" and label == 1
        border = documents.document(a)[1][a_start] if swapped else documents.document(b)[1][b_start]
        assert border & SENTENCE_START, "A and B meet where a sentence begins"
        if label == 0:
            assert (a, a_stop) == (b, b_start)
        elif pairs == "sop":
            assert (a, a_start) == (b, b_stop)
        else:
            assert a != b


@pytest.mark.parametrize("pairs", ["nsp", "sop"])
def test_labels_are_half_and_half(make_documents: Callable, pairs: str) -> None:
    rng = np.random.default_rng(2)
    documents = make_documents(rng.geometric(1 / 80, 3000))  # many documents of one sentence among them
    labels = table(documents, pairs, 64)[:, 6]
    assert (labels == NO_PAIR).sum() > 100
    pairs_made = labels[labels != NO_PAIR]
    assert abs(pairs_made.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(pairs_made))


def test_a_stranger_speaks_the_same_language(make_documents: Callable) -> None:
    documents = make_documents([600] * 40, languages=[0] * 30 + [1] * 9 + [2])
    rows = table(documents, "nsp", 64)
    strangers = rows[(rows[:, 6] == 1)]
    languages = documents.languages
    lonely = languages[strangers[:, 0]] == 2
    assert lonely.any()
    assert (languages[strangers[:, 0]] == languages[strangers[:, 3]])[~lonely].all()
    assert (strangers[lonely, 0] != strangers[lonely, 3]).all()
    assert len(set(strangers[languages[strangers[:, 0]] == 1, 3])) > 5, "not always the same one"


def test_some_pairs_are_short(make_documents: Callable) -> None:
    documents = make_documents([5000] * 4)
    sizes = {short: costs(table(documents, "sop", 128, short=short), 1) for short in (0.0, 0.5)}
    assert (sizes[0.0] > 110).mean() > 0.97
    assert 0.3 < (sizes[0.5] > 110).mean() < 0.75


def test_two_separators_leave_less_room(make_documents: Callable) -> None:
    from dataclasses import replace

    documents = make_documents([900, 900])
    documents.special = replace(documents.special, pair_separators=2)
    assert costs(table(documents, "nsp", 32), 2).max() == 32
