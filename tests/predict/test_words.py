"""Vectors of pre-split words at every layer: the mean over each word's pieces."""

import numpy as np
import pytest

from unmask.predict import MaskedLM
from unmask.predict.predictor import Floats


def word_layers(lm: MaskedLM, sentences: list[list[str]]) -> dict[int, Floats]:
    found: dict[int, Floats] = {}
    lm.word_layers(sentences, found.__setitem__)
    return found


def test_word_layers_are_means_over_pieces(any_lm: MaskedLM) -> None:
    sentences = [["O", "gatinho", "dorme", "."], ["Nobody", "knew"], [f"chuva{n}" for n in range(9)]]
    found = word_layers(any_lm, sentences)
    assert sorted(found) == [0, 1, 2]
    for number, words in enumerate(sentences):
        encoding = any_lm.tokenizer.encode_words(words)
        hidden = any_lm.hidden(" ".join(words))
        assert hidden.shape[1] == len(encoding)
        for place in range(len(words)):
            expected = hidden[:, encoding.words == place].mean(1)
            assert found[number][:, place] == pytest.approx(expected, abs=1e-4)


def test_long_sentences_are_cut_off(lm: MaskedLM) -> None:
    found = word_layers(lm, [["gato"] * 100, []])
    assert 0 < found[0].shape[1] < 100
    assert np.isfinite(found[0]).all()
    assert found[1].shape == (3, 0, 32)
