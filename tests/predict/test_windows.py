"""Windows: every word labelled once, every answer found again, whatever the lengths."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.model.presets import preset
from unmask.predict.answer import Answerer
from unmask.predict.windows import (
    cut,
    first_pieces,
    last_pieces,
    owners,
    sliding,
    spread,
    tokens_of,
    trim,
    within,
)
from unmask.tokenizer import Tokenizer

WORDS = st.lists(st.text(st.sampled_from("abcdeçãôéz.,-!"), min_size=1, max_size=9), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(1, 60), st.integers(0, 80))
def test_windows_cover_and_overlap(count: int, room: int, stride: int) -> None:
    bounds = spread(count, room, stride)
    assert bounds[0][0] == 0
    assert bounds[-1][1] == count
    assert all(0 < stop - start <= room for start, stop in bounds)
    for (_, before), (start, _) in pairwise(bounds):
        assert before - start >= min(stride, room // 2)
    assert len(bounds) == len(set(bounds))


@settings(max_examples=60, deadline=None)
@given(words=WORDS, limit=st.integers(5, 40), stride=st.integers(0, 20))
def test_every_word_is_labelled_once(wordpiece: Tokenizer, words: list[str], limit: int, stride: int) -> None:
    encoding = wordpiece.encode_words(words)
    windows = cut(encoding, limit, stride)
    owner = owners(encoding, windows)
    first = first_pieces(encoding, len(words))
    labelled = [
        place
        for number, window in enumerate(windows)
        for place in window.places[owner[window.places] == number]
        if place in first
    ]
    assert sorted(labelled) == sorted(first[first >= 0])
    assert all(len(window) <= limit for window in windows)
    assert all(window.ids[0] == wordpiece.cls_id and window.ids[-1] == wordpiece.sep_id for window in windows)
    last = last_pieces(encoding, len(words))
    assert ((last >= first) & (encoding.words[first] == encoding.words[last]))[first >= 0].all()


@settings(max_examples=60, deadline=None)
@given(words=WORDS, limit=st.integers(6, 40), stride=st.integers(0, 20))
def test_the_owner_has_most_context(wordpiece: Tokenizer, words: list[str], limit: int, stride: int) -> None:
    encoding = wordpiece.encode_words(words)
    windows = cut(encoding, limit, stride)
    body, owner = sliding(encoding), owners(encoding, windows)

    def context(place: int, number: int) -> float:
        mine = windows[number].places[1:-1]
        before = np.inf if mine[0] == body[0] else place - mine[0]
        after = np.inf if mine[-1] == body[-1] else mine[-1] - place
        return float(min(before, after))

    for place in body:
        holding = [number for number, window in enumerate(windows) if place in window.places]
        assert context(place, owner[place]) == max(context(place, number) for number in holding)


@settings(max_examples=80, deadline=None)
@given(words=WORDS, data=st.data(), limit=st.integers(12, 40), stride=st.integers(0, 15))
def test_every_answer_is_found_again(
    wordpiece: Tokenizer, words: list[str], data: st.DataObject, limit: int, stride: int
) -> None:
    context = " ".join(words)
    begin = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(begin, min(begin + 3, len(words) - 1)))
    start = len(" ".join(words[:begin])) + (begin > 0)
    stop = start + len(" ".join(words[begin : end + 1]))
    encoding = wordpiece.encode("O quê?", context)
    found = tokens_of(encoding, start, stop)
    assert found is not None
    first, last = found
    assert encoding.offsets[first, 0] == start
    assert encoding.offsets[last, 1] == stop
    windows = cut(encoding, limit, stride)
    inside = [(window, where) for window in windows if (where := within(window, first, last))]
    room = int((windows[0].segments == 1).sum()) - 1  # without the last special token
    if last - first + 1 <= max(1, min(stride, room // 2)):
        assert inside
    for window, (a, b) in inside:
        assert (window.places[a], window.places[b]) == (first, last)
    special = np.flatnonzero(encoding.words < 0)
    for window in windows:
        assert set(special) <= set(window.places)
        assert len(window) <= max(limit, 5)


def test_a_long_question_leaves_half_of_the_room(wordpiece: Tokenizer) -> None:
    encoding = wordpiece.encode("Uma pergunta muito comprida sobre nada?", "Um contexto longo.")
    for window in cut(encoding, 11, 2):
        assert len(window) == 11
        assert (encoding.words[window.places[window.segments == 1]] >= 0).sum() == 4
    with pytest.raises(InputError, match="a length of 4 leaves no room"):
        cut(encoding, 4, 2)
    assert tokens_of(encoding, 100, 110) is None


@settings(max_examples=60, deadline=None)
@given(first=WORDS, second=WORDS, limit=st.integers(5, 30), end=st.booleans())
def test_trimming(wordpiece: Tokenizer, first: list[str], second: list[str], limit: int, end: bool) -> None:
    encoding = wordpiece.encode(" ".join(first), " ".join(second))
    window = trim(encoding, limit, end)
    assert len(window) == min(limit, len(encoding))
    special = np.flatnonzero(encoding.words < 0)
    assert set(special) <= set(window.places)
    sizes = [int(((encoding.segments == text) & (encoding.words >= 0)).sum()) for text in (0, 1)]
    kept = [int((encoding.words[window.places[window.segments == text]] >= 0).sum()) for text in (0, 1)]
    if min(kept) < min(sizes):  # the shorter text was cut too: only to the other's length
        assert abs(kept[0] - kept[1]) <= 1
    inside = [p for p in window.places if encoding.segments[p] == 0 and encoding.words[p] >= 0]
    everything = np.flatnonzero((encoding.segments == 0) & (encoding.words >= 0))
    assert inside == list(everything[len(everything) - len(inside) :] if end else everything[: len(inside)])


@pytest.mark.parametrize("context", ["", "  ", "\x00\u200b"])  # the last is not white, but no token
def test_a_context_without_any_token_is_refused(wordpiece: Tokenizer, context: str) -> None:
    config = preset("tiny", vocab_size=wordpiece.vocab_size, width=8, inner=8, positions=16)
    answerer = Answerer(Model(config, ["answer"]), wordpiece)
    with pytest.raises(InputError, match="the context is empty"):
        answerer("a b?", context)
