"""Where words start, from ids alone."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.tokenizer import Tokenizer
from unmask.tokenizer.words import count_words, piece_flags, word_starts


def starts(
    pieces: list[str], mark: str, special: tuple[int, ...] = (), unknown: int | None = None
) -> list[int]:
    """Each distinct piece is an entry; 1 where a word starts."""
    vocabulary = list(dict.fromkeys([*pieces, "<unknown>"]))
    flags = piece_flags(
        vocabulary, mark, special, vocabulary.index("<unknown>") if unknown is None else unknown
    )
    return word_starts(np.array([vocabulary.index(p) for p in pieces]), flags).astype(int).tolist()


@pytest.mark.parametrize(
    ("mark", "pieces", "expected"),
    [
        ("##", ["dor", "##me", "."], [1, 0, 1]),
        ("##", ["5", "##€", "##x"], [1, 1, 1]),
        ("##", ["##me", "##ta"], [1, 0]),
        ("▁", ["▁dor", "me", ".", "▁Não"], [1, 0, 1, 1]),
        ("▁", ["▁", "cão", "zinho"], [1, 0, 0]),
        ("▁", ["▁(", "a", ")"], [1, 1, 1]),
        ("▁", ["▁日本", "語"], [1, 1]),
        ("▁", ["▁a", "<0x2E>", "b"], [1, 1, 1]),
        ("▁", ["▁a", "<0xC3>", "<0xA9>"], [1, 0, 0]),
        ("bytes", ["O", "Ġg", "ato", ".", "Ċ", "fim"], [1, 1, 0, 1, 1, 0]),
        ("bytes", ["Ġ", "Ġgato"], [1, 0]),
        ("bytes", ["ĠâĢľ", "ok", "âĢĿ"], [1, 1, 1]),
        ("bytes", ["ĠâĢ", "ľ", "ok"], [1, 0, 0]),
        ("bytes", ["Ġit", "'s", "ok"], [1, 1, 0]),
    ],
)
def test_marks_and_punctuation(mark: str, pieces: list[str], expected: list[int]) -> None:
    assert starts(pieces, mark) == expected


def test_special_and_unknown_entries() -> None:
    assert starts(["▁", "<mask>", "a"], "▁", special=(1,)) == [1, 1, 1]
    assert starts(["▁a", "<unk>", "b"], "▁", unknown=1) == [1, 0, 0]
    assert starts(["a", "[UNK]", "b"], "##", unknown=1) == [1, 1, 1]


def test_no_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.word_starts(np.array([], np.uint16)).tolist() == []


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from(["gatinho", "São", "dorme", "lê", "1998", ".", "?", "(", "jardim"]), max_size=12)
)
def test_same_number_of_words_as_in_the_text(trained: dict[str, Tokenizer], words: list[str]) -> None:
    text = " ".join(words)
    assert count_words(text) == len(words)
    for tokenizer in trained.values():
        assert tokenizer.word_starts(tokenizer.encode(text, special=False).ids).sum() == len(words)


def test_words_of_a_text() -> None:
    assert count_words("") == 0
    assert count_words("O  gato,\ndorme… 5€ e\u0301 日本 🙂\U00020000") == 12


def test_ids_are_not_looked_up_one_by_one(tokenizer: Tokenizer) -> None:
    ids = np.random.default_rng(0).integers(0, tokenizer.vocab_size, 300_000)
    numbers, table = ids.tolist(), dict.fromkeys(range(tokenizer.vocab_size), True)

    def work(call: Callable[[], object]) -> float:
        spent = []
        for _ in range(5):
            begin = time.thread_time()
            call()
            spent.append(time.thread_time() - begin)
        return min(spent)

    one_by_one = work(lambda: [table[number] and number > 7 for number in numbers])
    assert work(lambda: tokenizer.word_starts(ids)) < one_by_one
