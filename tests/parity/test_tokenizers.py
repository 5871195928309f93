"""The same ids as `transformers`' own tokenizers, on 10,000 lines of real Portuguese and English."""

import json
import lzma
import os
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from unmask.config import TokenizerConfig
from unmask.tokenizer import Tokenizer, extend, train_tokenizer

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

LINES_A_FILE = 2_500
WIDTH = 60


@pytest.fixture(scope="module")
def lines(data_root: Path) -> list[str]:
    found: list[str] = []
    for name in ("pt/parlamento", "pt/machado", "en/wikipedia", "en/gutenberg"):
        with lzma.open(data_root / "text" / f"{name}.txt.xz", "rt", encoding="utf-8") as file:
            parts = (line[at : at + WIDTH] for line in file for at in range(0, len(line), WIDTH))
            found += islice((part.strip() for part in parts if part.strip()), LINES_A_FILE)
    assert len(found) == 10_000
    return found


def check(ours: Tokenizer, theirs: Any, lines: list[str]) -> None:
    expected = theirs(lines)["input_ids"]
    assert [encoding.ids.tolist() for encoding in ours.encode_batch(lines)] == expected
    pairs = theirs(lines[:200], lines[-200:])["input_ids"]
    assert [e.ids.tolist() for e in ours.encode_batch(lines[:200], lines[-200:])] == pairs
    roles = (theirs.cls_token_id, theirs.sep_token_id, theirs.mask_token_id, theirs.pad_token_id)
    assert (ours.cls_id, ours.sep_id, ours.mask_id, ours.pad_id) == roles


@pytest.mark.parametrize(
    ("file", "lower"),
    [
        ("bert/cased.txt", False),
        ("bert/uncased.txt", True),
        ("bert/multilingual-cased.txt", False),
        ("bertimbau/vocab.txt", False),
    ],
)
def test_vocab_txt(file: str, lower: bool, data_root: Path, lines: list[str], tmp_path: Path) -> None:
    shutil.copyfile(data_root / "vocab" / file, tmp_path / "vocab.txt")
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path, do_lower_case=lower)
    check(Tokenizer.load(data_root / "vocab" / file), theirs, lines)


def test_roberta(data_root: Path, lines: list[str]) -> None:
    folder = data_root / "vocab" / "roberta"
    check(Tokenizer.load(folder), transformers.RobertaTokenizer.from_pretrained(folder), lines)


def test_xlm_roberta(data_root: Path, lines: list[str], tmp_path: Path) -> None:
    packed = (data_root / "vocab" / "xlm-roberta" / "tokenizer.json.xz").read_bytes()
    (tmp_path / "tokenizer.json").write_bytes(lzma.decompress(packed))
    check(Tokenizer.load(tmp_path), transformers.XLMRobertaTokenizer.from_pretrained(tmp_path), lines)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (TokenizerConfig(kind="wordpiece", vocab_size=1500, lowercase=True), "BertTokenizer"),
        (TokenizerConfig(kind="bpe", vocab_size=1500), "RobertaTokenizer"),
        (TokenizerConfig(kind="bpe", vocab_size=1500, lowercase=True, special="bert"), "TokenizersBackend"),
        (TokenizerConfig(kind="unigram", vocab_size=1000), "TokenizersBackend"),
    ],
)
def test_our_own(config: TokenizerConfig, expected: str, lines: list[str], tmp_path: Path) -> None:
    ours = train_tokenizer(lines[::8], config)
    more = extend(ours, lines[:1_000], 50)
    for tokenizer, folder in ((ours, tmp_path / "ours"), (more, tmp_path / "more")):
        tokenizer.save(folder)
        theirs = transformers.AutoTokenizer.from_pretrained(folder)
        assert type(theirs).__name__ == expected
        assert len(theirs) == tokenizer.vocab_size
        check(tokenizer, theirs, [*lines[::4], f"a {tokenizer.mask_token} b {tokenizer.mask_token}, c"])


@pytest.fixture
def train_sentencepiece(lines: list[str], tmp_path: Path) -> Callable[[str], Any]:
    sentencepiece = pytest.importorskip("sentencepiece")

    def train(kind: str) -> Any:
        (tmp_path / "lines.txt").write_text("\n".join(lines[::8]), "utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(tmp_path / "lines.txt"),
            model_prefix=str(tmp_path / "sentencepiece.bpe"),
            vocab_size=800,
            model_type=kind,
            minloglevel=2,
        )
        return sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.bpe.model"))

    return train


def test_sentencepiece_unigram(
    train_sentencepiece: Callable[[str], Any], lines: list[str], tmp_path: Path
) -> None:
    train_sentencepiece("unigram")
    theirs = transformers.XLMRobertaTokenizer.from_pretrained(tmp_path)
    ours = Tokenizer.load(tmp_path / "sentencepiece.bpe.model")
    assert ours.vocab_size == len(theirs) == 802
    check(ours, theirs, lines)
    ours.save(tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text("utf-8"))
    assert config["tokenizer_class"] == "XLMRobertaTokenizer"
    check(ours, transformers.AutoTokenizer.from_pretrained(tmp_path / "saved"), lines[:1000])


def test_sentencepiece_bpe(
    train_sentencepiece: Callable[[str], Any], lines: list[str], tmp_path: Path
) -> None:
    theirs = train_sentencepiece("bpe")
    ours = Tokenizer.load(tmp_path / "sentencepiece.bpe.model")
    for line, encoding in zip(lines, ours.encode_batch(lines, special=False), strict=True):
        pieces = [ours.piece(i) for i in encoding.ids]
        expected = [theirs.id_to_piece(i) for i in theirs.encode(line)]
        assert pieces == expected
