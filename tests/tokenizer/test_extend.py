"""More entries for an existing vocabulary: in the model, old ids unchanged."""

from pathlib import Path

import pytest

from unmask.errors import ConfigError, InputError
from unmask.tokenizer import Tokenizer, extend

LAW = [
    f"O acórdão {n} indeferiu o requerimento; o desembargador homologou a jurisprudência." for n in range(20)
]


def test_new_words_are_entries_and_old_ids_stay(tokenizer: Tokenizer, texts: list[str]) -> None:
    more = extend(tokenizer, LAW, 6)
    assert more.vocab_size == tokenizer.vocab_size + 6
    assert [more.piece(i) for i in range(tokenizer.vocab_size)] == [
        tokenizer.piece(i) for i in range(tokenizer.vocab_size)
    ]
    assert more.special_ids == tokenizer.special_ids
    assert more.mask_id == tokenizer.mask_id
    assert sum(map(len, more.encode_batch(LAW))) < sum(map(len, tokenizer.encode_batch(LAW)))
    assert more.encode("lê", "dorme").ids.tolist() == tokenizer.encode("lê", "dorme").ids.tolist()


def test_new_entries_are_used_and_remember_their_old_pieces(tokenizer: Tokenizer) -> None:
    more = extend(tokenizer, LAW, 6)
    assert sorted(more.old_pieces) == list(range(tokenizer.vocab_size, more.vocab_size))
    used = {i for encoding in more.encode_batch(LAW) for i in encoding.ids.tolist()}
    for new, old in more.old_pieces.items():
        assert more.kind == "bpe" or new in used
        assert all(i < tokenizer.vocab_size for i in old)
        if tokenizer.unk_id not in old:
            spelt = "".join(tokenizer.piece(i).removeprefix("##") for i in old)
            assert spelt == more.piece(new)


def test_saved_and_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    more = extend(tokenizer, LAW, 6)
    more.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.fingerprint == more.fingerprint
    assert again.old_pieces == more.old_pieces
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path).old_pieces == {}


def test_twice(tokenizer: Tokenizer) -> None:
    once = extend(tokenizer, LAW, 3)
    twice = extend(once, LAW, 3)
    assert twice.vocab_size == tokenizer.vocab_size + 6
    assert len(twice.old_pieces) == 6
    assert [twice.piece(i) for i in range(once.vocab_size)] == [once.piece(i) for i in range(once.vocab_size)]


def test_same_text_same_entries(tokenizer: Tokenizer) -> None:
    assert extend(tokenizer, LAW, 6).fingerprint == extend(tokenizer, reversed(LAW), 6).fingerprint


def test_added_tokens_behind_the_model_keep_their_ids(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    base = Tokenizer.load(tmp_path)
    base.backend.add_special_tokens(["<<cite>>"])
    base.save(tmp_path)
    base = Tokenizer.load(tmp_path)
    more = extend(base, LAW, 4)
    assert more.id("<<cite>>") == base.id("<<cite>>") == tokenizer.vocab_size
    assert min(more.old_pieces) == tokenizer.vocab_size + 1
    more.save(tmp_path / "more")
    assert Tokenizer.load(tmp_path / "more").encode("<<cite>>", special=False).ids.tolist() == [
        tokenizer.vocab_size
    ]


def test_byte_pairs_go_on_where_they_ended(trained: dict[str, Tokenizer]) -> None:
    base = trained["bpe"]
    more = extend(base, ["zyx zyx zyx zyx zyxw zyxw"], 3)
    assert {more.piece(i) for i in more.old_pieces} <= {"Ġz", "zy", "Ġzy", "Ġzyx", "yx", "zyx"}
    assert len(more.encode("a zyx", special=False)) < len(base.encode("a zyx", special=False))


def test_too_little_text(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"gives only \d+ new entries of 5,000"):
        extend(tokenizer, LAW, 5000)
    with pytest.raises(InputError, match="no text"):
        extend(tokenizer, [], 5)
    with pytest.raises(ConfigError, match="1 or more"):
        extend(tokenizer, LAW, 0)
