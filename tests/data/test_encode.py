"""Looking pieces up gives what encoding the whole text gives, for every kind of tokenizer and any text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from unmask.config import TextConfig, TokenizerConfig
from unmask.data import encode
from unmask.data.encode import Encoder, splits_at_spaces, without_special
from unmask.data.shards import SENTENCE_START, WORD_START
from unmask.text import Cleaner, sentence_starts
from unmask.tokenizer import Tokenizer, train_tokenizer

KINDS = ["wordpiece", "unigram", "bpe"]


@pytest.fixture(scope="module")
def tokenizers(texts: list[str]) -> dict[str, Tokenizer]:
    return {
        kind: train_tokenizer(
            texts, TokenizerConfig(kind=kind, vocab_size={"wordpiece": 185, "unigram": 80, "bpe": 300}[kind])
        )
        for kind in KINDS
    }


def whole(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(without_special(tokenizer).encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("kind", KINDS)
def test_our_tokenizers_are_looked_up(tokenizers: dict[str, Tokenizer], kind: str) -> None:
    assert splits_at_spaces(tokenizers[kind].backend)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=150)
@given(raw=st.lists(st.text(max_size=60), max_size=4))
def test_same_ids_as_the_whole_text(tokenizers: dict[str, Tokenizer], kind: str, raw: list[str]) -> None:
    clean = Cleaner(TextConfig())
    found = [clean(text)[0] for text in raw]
    ids, flags, lengths = Encoder(tokenizers[kind]).encode(found)
    expected = [whole(tokenizers[kind], text) for text in found]
    assert lengths.tolist() == [len(own) for own in expected]
    assert ids.tolist() == [i for own in expected for i in own]
    assert len(flags) == len(ids)
    starts = np.cumsum(lengths) - lengths
    assert np.all(flags[starts[lengths > 0]] == WORD_START | SENTENCE_START)


@pytest.mark.parametrize("kind", KINDS)
def test_flags_follow_words_and_sentences(
    tokenizers: dict[str, Tokenizer], texts: list[str], kind: str
) -> None:
    tokenizer = tokenizers[kind]
    ids, flags, lengths = Encoder(tokenizer).encode(texts)
    at = 0
    for text, length in zip(texts, lengths, strict=True):
        encoding = tokenizer.encode(text, special=False)
        own = flags[at : at + length]
        words = np.asarray(encoding.words)
        assert ((own & WORD_START) > 0).tolist() == [True, *(np.diff(words) > 0).tolist()]
        assert int(np.sum((own & SENTENCE_START) > 0)) == len(sentence_starts(text))
        first = [int(start) for start, _ in np.asarray(encoding.offsets)[(own & SENTENCE_START) > 0]]
        assert [text[start:].lstrip() for start in first] == [text[s:] for s in sentence_starts(text)]
        at += length
    assert at == len(ids)


def test_special_tokens_in_a_text_are_plain_letters(tokenizers: dict[str, Tokenizer]) -> None:
    for tokenizer in tokenizers.values():
        ids, _, _ = Encoder(tokenizer).encode(["o [MASK] e </s> <mask> [SEP]"])
        assert not set(ids.tolist()) & {tokenizer.mask_id, tokenizer.sep_id, tokenizer.cls_id}


def test_ordinary_text_is_encoded_as_the_tokenizer_does(
    tokenizers: dict[str, Tokenizer], texts: list[str]
) -> None:
    for tokenizer in tokenizers.values():
        ids, _, _ = Encoder(tokenizer).encode(texts)
        assert ids.tolist() == [i for text in texts for i in tokenizer.encode(text, special=False).ids]


def test_forgetting_changes_nothing(
    tokenizers: dict[str, Tokenizer], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(tokenizers["wordpiece"])
    before = encoder.encode(texts)
    monkeypatch.setattr(encode, "_MOST_CHARS", 20)
    forgetful = Encoder(tokenizers["wordpiece"])
    after = [np.concatenate(column) for column in zip(*(forgetful.encode([t]) for t in texts), strict=True)]
    assert len(forgetful._number) < len(encoder._number)
    for old, new in zip(before, after, strict=True):
        assert np.array_equal(old, new)


def test_sentences_are_encoded_whole_where_spaces_do_not_split(tokenizers: dict[str, Tokenizer]) -> None:
    backend = Backend.from_str(tokenizers["unigram"].backend.to_str())
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    texts = [
        "O gato atravessa a ponte. Nobody watched a manhã…\nO Sr. Melo abriu o jardim, devagar.",
        "",
        "A ponte.",
    ]
    ids, flags, lengths = Encoder(Tokenizer(backend, tokenizers["unigram"].special)).encode(texts)
    assert lengths[1] == 0
    assert int(np.sum((flags & SENTENCE_START) > 0)) == 4
    first = backend.encode("O gato atravessa a ponte.", add_special_tokens=False).ids
    assert ids[: len(first)].tolist() == first
    assert flags[len(first)] == WORD_START | SENTENCE_START
    assert len(ids) == lengths.sum()


def test_a_tokenizer_that_sees_across_spaces_is_not_cut_there() -> None:
    backend = Backend(models.BPE(unk_token=None))
    assert not splits_at_spaces(backend)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    assert not splits_at_spaces(backend)
    backend.pre_tokenizer = pre_tokenizers.Punctuation()
    assert not splits_at_spaces(backend)
