"""Encoding with words and offsets, saving and loading, one tokenizer of each kind."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from unmask.config import TokenizerConfig
from unmask.errors import InputError, ModelError
from unmask.tokenizer import Encoding, Tokenizer, extend, train_tokenizer

ANY_TEXT = st.text(max_size=40) | st.text("aé .,\n\t€日\u0301\u200d🙂ﬁ½‑…«»ÇA1\u00ad\x07", max_size=30)


def pieces(tokenizer: Tokenizer, encoding: Encoding) -> list[str]:
    return [tokenizer.piece(i) for i in encoding.ids]


def test_no_torch() -> None:
    code = "import sys, unmask.tokenizer, unmask.tokenizer.build; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_template_of_one_and_of_two(tokenizer: Tokenizer) -> None:
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    one = tokenizer.encode("O gatinho dorme.")
    assert (one.ids[0], one.ids[-1]) == (cls, sep)
    assert not one.segments.any()
    two = tokenizer.encode("O gatinho dorme.", "Ele canta.")
    between = [sep] if tokenizer.kind == "wordpiece" else [sep, sep]
    bare = [tokenizer.encode(text, special=False).ids.tolist() for text in ("O gatinho dorme.", "Ele canta.")]
    assert two.ids.tolist() == [cls, *bare[0], *between, *bare[1], sep]
    assert two.segments.tolist() == [0] * (1 + len(bare[0]) + len(between)) + [1] * (len(bare[1]) + 1)


def test_special_tokens_by_family(trained: dict[str, Tokenizer]) -> None:
    bert = trained["wordpiece"]
    assert [bert.piece(i) for i in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for kind in ("unigram", "bpe"):
        tokenizer = trained[kind]
        assert [tokenizer.piece(i) for i in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
        assert tokenizer.mask_id == tokenizer.vocab_size - 1
        assert tokenizer.special_ids == (0, 1, 2, 3, tokenizer.mask_id)


def test_words_are_the_same_for_every_kind(tokenizer: Tokenizer) -> None:
    text = "O gatinho dorme (à beira), não?"
    encoding = tokenizer.encode(text)
    found = []
    for word in range(encoding.words.max() + 1):
        spans = encoding.offsets[encoding.words == word]
        found.append(text[spans[:, 0].min() : spans[:, 1].max()])
    assert found == ["O", "gatinho", "dorme", "(", "à", "beira", ")", ",", "não", "?"]
    assert encoding.words[0] == encoding.words[-1] == -1


def test_a_mask_in_the_text_is_a_word(tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode(f"O {tokenizer.mask_token} dorme.")
    at = encoding.ids.tolist().index(tokenizer.mask_id)
    assert encoding.words[at] == 1
    assert encoding.offsets[at].tolist() == [2, 2 + len(tokenizer.mask_token)]
    assert encoding.words[at + 1] == 2


def test_numbering_restarts_in_the_second_text(tokenizer: Tokenizer) -> None:
    first = tokenizer.encode("O gatinho", special=False)
    second = tokenizer.encode("canta no jardim", special=False)
    both = tokenizer.encode("O gatinho", "canta no jardim")
    assert both.words[both.words >= 0].tolist() == [*first.words, *second.words]
    assert both.offsets[both.words >= 0].tolist() == [*first.offsets.tolist(), *second.offsets.tolist()]


def test_words_given(tokenizer: Tokenizer) -> None:
    given_words = ["O", "gatinho", "está", "correndo", "no", "jardim."]
    encoding = tokenizer.encode_words(given_words)
    joined = tokenizer.encode(" ".join(given_words))
    assert encoding.ids.tolist() == joined.ids.tolist()
    for number, word in enumerate(given_words):
        spans = encoding.offsets[encoding.words == number]
        assert (spans[:, 0].min(), spans[:, 1].max()) == (0, len(word))
    pair = tokenizer.encode_words(given_words[:2], given_words[2:])
    assert pair.ids.tolist() == tokenizer.encode("O gatinho", "está correndo no jardim.").ids.tolist()
    assert pair.words[pair.segments == 1].max() == 3


def test_words_given_with_white_space_or_nothing_in_them(tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode_words(["O", "São Tomé", "", "dorme"], special=False)
    assert set(encoding.words.tolist()) == {0, 1, 3}
    place = encoding.offsets[encoding.words == 1]
    assert "São Tomé"[place[-1, 0] : place[-1, 1]] in "Tomé"
    assert len(tokenizer.encode_words([], special=False)) == 0
    assert len(tokenizer.encode("", special=False)) == 0
    with pytest.raises(InputError, match="list of words"):
        tokenizer.encode_words("um texto")


@settings(deadline=None, max_examples=150)
@example(text="Ç\x07\u0301", words=["", "Sz", "\u0301"])
@given(text=ANY_TEXT, words=st.lists(ANY_TEXT, max_size=5))
def test_alignment_on_any_text(trained: dict[str, Tokenizer], text: str, words: list[str]) -> None:
    for tokenizer in trained.values():
        encoding = tokenizer.encode(text, special=False)
        check_offsets(tokenizer, text, encoding.offsets)
        assert (np.diff(encoding.words) >= 0).all()
        assert encoding.words.tolist() == (np.cumsum(tokenizer.word_starts(encoding.ids)) - 1).tolist()
        split = tokenizer.encode_words(words, special=False)
        for number, word in enumerate(words):
            check_offsets(tokenizer, word, split.offsets[split.words == number])


def check_offsets(tokenizer: Tokenizer, text: str, offsets: np.ndarray) -> None:
    starts, ends = offsets[:, 0], offsets[:, 1]
    assert (np.diff(starts) >= 0).all()
    assert (np.diff(ends) >= 0).all()
    assert ((starts >= 0) & (starts <= ends) & (ends <= len(text))).all()
    covered = np.zeros(len(text), bool)
    for start, end in offsets:
        covered[start:end] = True
    normalise = tokenizer.backend.normalizer.normalize_str if tokenizer.backend.normalizer else str
    kept = [i for i, c in enumerate(text) if not c.isspace() and normalise(c).strip()]
    assert covered[kept].all(), (tokenizer.kind, text, offsets)


def test_batches_and_threads_agree_with_one_by_one(tokenizer: Tokenizer, texts: list[str]) -> None:
    def ids(encoding: Encoding) -> list[int]:
        return encoding.ids.tolist()

    alone = [ids(tokenizer.encode(text, "fim")) for text in texts]
    assert [ids(e) for e in tokenizer.encode_batch(texts, ["fim"] * len(texts))] == alone
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: ids(tokenizer.encode(text, "fim")), texts)) == alone
    with pytest.raises(InputError, match="to pair them with"):
        tokenizer.encode_batch(texts, ["fim"])


def test_pieces_ids_and_back(tokenizer: Tokenizer) -> None:
    assert tokenizer.id(tokenizer.piece(20)) == 20
    text = "O gatinho dorme"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.mask_token in tokenizer.decode([20, tokenizer.mask_id], special=True)
    with pytest.raises(InputError, match="no entry has id"):
        tokenizer.piece(tokenizer.vocab_size)
    with pytest.raises(InputError, match="no entry has id"):
        tokenizer.piece(-1)
    with pytest.raises(InputError, match="not in the vocabulary"):
        tokenizer.id("não há")


def test_saved_and_loaded_is_the_same(tokenizer: Tokenizer, texts: list[str], tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.fingerprint == tokenizer.fingerprint
    assert (again.kind, again.vocab_size, again.special_ids) == (
        tokenizer.kind,
        tokenizer.vocab_size,
        tokenizer.special_ids,
    )
    for before, after in zip(tokenizer.encode_batch(texts), again.encode_batch(texts), strict=True):
        assert before.ids.tolist() == after.ids.tolist()
        assert before.words.tolist() == after.words.tolist()
    again.save(tmp_path / "twice")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_scores_survive_being_saved(texts: list[str], tmp_path: Path) -> None:
    """Numbers of seventeen digits come back from JSON with another last one."""
    many = [f"{text} {'abcdefgh'[n % 8 :]}{'ijklmnop'[n % 7 :]}" for n, text in enumerate(texts)]
    tokenizer = train_tokenizer(many, TokenizerConfig(kind="unigram", vocab_size=120))
    for made in (tokenizer, extend(tokenizer, ["um acórdão, outro acórdão"], 1)):
        made.save(tmp_path)
        assert Tokenizer.load(tmp_path).fingerprint == made.fingerprint


def test_fingerprints_differ(trained: dict[str, Tokenizer]) -> None:
    assert len({tokenizer.fingerprint for tokenizer in trained.values()}) == 3


def test_text_that_is_no_text(tokenizer: Tokenizer) -> None:
    half = r"holds half a character: an escape such as \\ud83d alone, or bytes that are not UTF-8$"
    with pytest.raises(InputError, match=f"^the text {half}"):
        tokenizer.encode("half a pair \ud800")
    with pytest.raises(InputError, match=f"^the text {half}"):
        tokenizer.encode_words(["ok", "\udc00"])
    with pytest.raises(InputError, match=f"^text 2 {half}"):
        tokenizer.ids_batch(["ok", "ok"], ["ok", "\udc00"])
    with pytest.raises(InputError, match="^text 2 holds 5, not text$"):
        tokenizer.encode_batch(["ok", 5])  # type: ignore[list-item]


def test_a_rule_that_explodes_is_one_line(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    trained["bpe"].save(tmp_path)
    broken = Tokenizer.load(tmp_path)
    broken.backend.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    broken.save(tmp_path)
    with pytest.raises(ModelError, match="cannot be tokenised"):
        Tokenizer.load(tmp_path).encode("a" * 40 + "b")
