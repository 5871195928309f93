"""Pseudo-log-likelihood: equal to one copy per mask, whatever the batch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from unmask.errors import InputError
from unmask.predict import MaskedLM

LogsOf = Callable[[MaskedLM, np.ndarray], torch.Tensor]


def reference(lm: MaskedLM, text: str, method: str, logs_of: LogsOf) -> list[float]:
    encoding = lm.tokenizer.encode(text)
    logs = []
    for place in range(len(encoding)):
        if encoding.words[place] < 0:
            continue
        ids = encoding.ids.copy()
        for other in range(place, len(encoding)):
            same = encoding.words[other] == encoding.words[place]
            if other == place or (method == "word-l2r" and same):
                ids[other] = lm.tokenizer.mask_id
        logs.append(float(logs_of(lm, ids)[place, encoding.ids[place]]))
    return logs


@pytest.mark.parametrize("method", ["word-l2r", "token"])
def test_equals_one_copy_per_mask(any_lm: MaskedLM, method: str, logs_of: LogsOf, texts: list[str]) -> None:
    any_lm.budget = 200
    scores = any_lm.score(texts[:3], method)
    for text, score in zip(texts[:3], scores, strict=True):
        expected = reference(any_lm, text, method, logs_of)
        assert [token.log_probability for token in score.tokens] == pytest.approx(expected, abs=1e-4)
        assert score.log_probability == pytest.approx(sum(expected), abs=1e-3)
        assert score.perplexity == pytest.approx(np.exp(-np.mean(expected)), rel=1e-4)
        assert score.text == text
        assert all(0 <= token.start <= token.end <= len(text) for token in score.tokens)


def test_methods_differ_only_inside_words(lm: MaskedLM) -> None:
    text = "O gatinho dorminhoco."
    words = lm.tokenizer.encode(text).words[1:-1]
    by_word, by_token = lm.score(text), lm.score(text, "token")
    last = np.r_[words[1:] != words[:-1], True]
    assert not last.all()
    for is_last, first, second in zip(last, by_word.tokens, by_token.tokens, strict=True):
        if is_last:
            assert first.log_probability == pytest.approx(second.log_probability, abs=1e-5)
        else:
            assert abs(first.log_probability - second.log_probability) > 1e-6


def test_many_equal_one_by_one(lm: MaskedLM, texts: list[str]) -> None:
    for text, score in zip(texts, lm.score(texts), strict=True):
        assert lm.score(text).log_probability == pytest.approx(score.log_probability, abs=1e-4)


def test_causal_score_is_next_token(causal: MaskedLM, logs_of: LogsOf, texts: list[str]) -> None:
    text = texts[0]
    ids = causal.tokenizer.encode(text).ids
    logs = logs_of(causal, ids)
    expected = [float(logs[place - 1, ids[place]]) for place in range(1, len(ids) - 1)]
    score = causal.score(text)
    assert [token.log_probability for token in score.tokens] == pytest.approx(expected, abs=1e-4)


def test_empty_and_masked_texts(lm: MaskedLM) -> None:
    empty, masked, plain = lm.score(["", "O [MASK] dorme.", "O gato dorme."])
    assert empty.tokens == ()
    assert empty.perplexity == 1
    assert len(masked.tokens) < len(plain.tokens)
    assert "[MASK]" not in [token.piece for token in masked.tokens]


def test_mistakes(lm: MaskedLM) -> None:
    with pytest.raises(InputError, match="word-l2r, token"):
        lm.score("O gato.", "l2r")
    long = "gato " * 100
    too_long = "has 102 tokens, but the model takes at most 64: shorten it"
    with pytest.raises(InputError, match=rf"^text 2 {too_long}, or have it cut off \(--truncate, "):
        lm.score(["O gato.", long])
    for which, given in (("text 2", ["O gato.", long]), ("the text", [long])):
        with pytest.raises(InputError, match=f"^{which} {too_long}$"):
            lm.scored_places(given)
    for look in (lm.hidden, lm.attention):  # nobody can ask these to cut it off
        with pytest.raises(InputError, match=f"^the text {too_long}$"):
            look(long)
    assert len(lm.score(long, truncate=True).tokens) == 62


def test_both_spellings_of_the_mask(any_lm: MaskedLM) -> None:
    brackets, angles = (any_lm.score(f"O gato {mask} no telhado.") for mask in ("[MASK]", "<mask>"))
    assert brackets.tokens == angles.tokens
    assert any_lm.tokenizer.mask_token not in [token.piece for token in brackets.tokens]
    one, two = any_lm.embed(["O gato [MASK] no telhado.", "O gato <mask> no telhado."])
    np.testing.assert_allclose(one, two, atol=1e-6)
