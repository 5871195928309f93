"""Training: exact size, the same bytes every time, bounded memory, clear refusals."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import Heard

from unmask.config import TokenizerConfig
from unmask.errors import ConfigError, InputError
from unmask.tokenizer import Tokenizer, train_tokenizer
from unmask.tokenizer.sample import Sample, count_characters, split_by_frequency

KINDS = ("wordpiece", "unigram", "bpe")
SMALL = {"wordpiece": 140, "unigram": 80, "bpe": 330}


@pytest.mark.parametrize("kind", KINDS)
def test_exactly_the_size_asked_for(kind: str, texts: list[str]) -> None:
    tokenizer = train_tokenizer(iter(texts), TokenizerConfig(kind=kind, vocab_size=SMALL[kind]))
    assert tokenizer.kind == kind
    assert tokenizer.vocab_size == SMALL[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_too_little_text_says_what_to_ask_for(kind: str, texts: list[str]) -> None:
    with pytest.raises(
        InputError, match=r"it gives [\d,]+; ask for \d+ or fewer \(tokenizer.vocab_size\), or bring"
    ) as failed:
        train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=5000))
    reached = int(str(failed.value).split("ask for ")[1].split()[0])
    fitting = train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=min(reached, 999)))
    assert fitting.vocab_size == min(reached, 999)


@pytest.mark.parametrize("kind", KINDS)
def test_too_small_a_vocabulary(kind: str, texts: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"at least \d+ entries"):
        train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=5))
    if kind == "bpe":
        return
    with pytest.raises(ConfigError, match=r"special tokens alone are \d+") as failed:
        train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=30))
    needed = int(str(failed.value).split("alone are ")[1].split(";")[0])
    assert train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=needed)).vocab_size == needed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nothing", [[], ["", "  \n"]])
def test_no_text(kind: str, nothing: list[str]) -> None:
    with pytest.raises(InputError, match="no text"):
        train_tokenizer(nothing, TokenizerConfig(kind=kind, vocab_size=300))


def test_the_readers_own_errors_pass_through() -> None:
    def broken() -> Iterator[str]:
        yield "um texto"
        raise InputError("line 2 is not UTF-8")

    with pytest.raises(InputError, match="line 2"):
        train_tokenizer(broken(), TokenizerConfig(vocab_size=300))


TRAIN = """
import sys
from unmask.config import TokenizerConfig
from unmask.tokenizer import train_tokenizer
texts = open(sys.argv[1], encoding="utf-8").read().split("\\n")
config = TokenizerConfig(kind=sys.argv[2], vocab_size=int(sys.argv[3]))
train_tokenizer(texts, config).save(sys.argv[4])
"""


@pytest.mark.parametrize("kind", KINDS)
def test_same_text_same_bytes_in_every_process(kind: str, texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(texts), "utf-8")
    made = set()
    for number, threads in enumerate(("1", "4")):
        folder = tmp_path / str(number)
        subprocess.run(
            [sys.executable, "-c", TRAIN, str(tmp_path / "text.txt"), kind, str(SMALL[kind]), str(folder)],
            check=True,
            env={**os.environ, "RAYON_NUM_THREADS": threads},
        )
        made.add((folder / "tokenizer.json").read_bytes())
    assert len(made) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_folding(kind: str, texts: list[str]) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=SMALL[kind] - 25, lowercase=True, strip_accents=True)
    tokenizer = train_tokenizer(texts, config)
    assert tokenizer.encode("A AVÓ DORME").ids.tolist() == tokenizer.encode("a avo dorme").ids.tolist()
    plain = train_tokenizer(texts, TokenizerConfig(kind=kind, vocab_size=SMALL[kind]))
    assert plain.encode("Avó").ids.tolist() != plain.encode("avo").ids.tolist()


def test_special_tokens_of_the_other_family(texts: list[str]) -> None:
    tokenizer = train_tokenizer(texts, TokenizerConfig(kind="bpe", vocab_size=330, special="bert"))
    assert [tokenizer.piece(i) for i in range(5)] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pair = tokenizer.encode("lê", "dorme").ids.tolist()
    assert pair.count(tokenizer.sep_id) == 2
    other = train_tokenizer(texts, TokenizerConfig(vocab_size=140, special="roberta"))
    assert other.mask_id == 139
    assert other.encode("lê", "dorme").ids.tolist().count(other.sep_id) == 3


def test_rare_characters_take_no_entries(texts: list[str]) -> None:
    odd = [*texts * 5, "ж"]
    config = TokenizerConfig(vocab_size=140, coverage=0.9999)
    assert train_tokenizer(odd, config).encode("ж", special=False).ids.tolist() == [1]
    full = TokenizerConfig(vocab_size=142, coverage=1.0)
    assert "ж" in train_tokenizer(odd, full).backend.get_vocab()


@pytest.mark.parametrize("kind", KINDS)
def test_signs_that_a_trainer_has_a_use_for(kind: str, texts: list[str]) -> None:
    odd = ["▁▂▃▄▅▆▇█ crescem", "▁▅ <s> ## <unk> </s> [UNK] <0x41>"]
    config = TokenizerConfig(kind=kind, vocab_size=SMALL[kind] + 30, coverage=1.0)
    tokenizer = train_tokenizer(texts + 5 * odd, config)
    assert tokenizer.vocab_size == SMALL[kind] + 30
    assert tokenizer.unk_id not in tokenizer.encode("▄▆█ crescem").ids
    if kind == "unigram":
        assert [tokenizer.piece(i) for i in tokenizer.encode("▅").ids] == ["<s>", "▁", "<unk>", "</s>"]


def test_characters_by_frequency() -> None:
    common, rare = split_by_frequency(count_characters(["aaaaabbbbc"]), 0.9)
    assert (common, rare) == (["a", "b"], ["c"])
    assert split_by_frequency(count_characters(["aab"]), 1.0) == (["a", "b"], [])


def test_ascii_is_there_but_for_toy_texts() -> None:
    sentences = [f"palavra{n} chega{n * 7} depois" for n in range(40_000)]
    tokenizer = train_tokenizer(sentences, TokenizerConfig(vocab_size=400))
    signs = "".join(map(chr, range(0x21, 0x7F)))
    assert tokenizer.unk_id not in tokenizer.encode(signs).ids


def test_the_sample_is_bounded_uniform_and_repeatable() -> None:
    stream = [f"texto número {n} " + "x" * 80 for n in range(60_000)]
    sample = Sample(1, stream)
    held = list(sample)
    assert sample.megabytes <= 1
    assert sample.megabytes > 0.3
    assert sample.share > 1
    assert held == list(Sample(1, stream))
    assert sorted(held) == sorted(Sample(1, reversed(stream)))
    early = sum(int(text.split()[2]) < 30_000 for text in held) / len(held)
    assert 0.4 < early < 0.6


def test_one_text_bigger_than_the_sample_is_kept() -> None:
    assert len(list(Sample(1, ["a" * 3_000_000]))) == 1


@pytest.mark.parametrize("first", range(8))
def test_a_sample_of_a_few_large_texts_is_never_empty(first: int) -> None:
    books = [f"livro {n} " + "x" * 700_000 for n in range(first, first + 3)]
    held = sorted(Sample(1, books))
    assert 1 <= len(held) <= 1_000_000 // len(books[0])
    assert held == sorted(Sample(1, reversed(books)))


def test_training_on_a_sample_is_said(heard: Heard) -> None:
    sentences = [f"o barco {n} chega ao porto de manhã cedo" for n in range(40_000)]
    trained = train_tokenizer(sentences, TokenizerConfig(vocab_size=100, sample_mb=1), heard)
    assert isinstance(trained, Tokenizer)
    assert any("one document in 2" in remark for remark in heard.said)
