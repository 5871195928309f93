"""A tiny random model, and data written for these tests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from unmask.checkpoint import save_model
from unmask.config import ModelConfig, TokenizerConfig
from unmask.model.network import Model
from unmask.tokenizer import Tokenizer, train_tokenizer

TEXTS = [
    "O barco azul voltou ao porto antes da chuva.",
    "As redes secaram ao sol durante a tarde inteira.",
    "The blue boat came back to the harbour before the rain.",
    "The nets dried in the sun for the whole afternoon.",
    "Ninguém sabia onde o velho pescador guardava a chave.",
    "Nobody knew where the old fisherman kept the key.",
]
PAIRS = [
    ("The boats come back.", "The boats comes back."),
    ("The boat comes back.", "The boat come back."),
    ("The fishermen kept the keys.", "The fishermans kept the keys."),
    ("The old nets dried.", "The old nets dried."),  # a tie
    ("Nobody kept the key in the harbour.", "Nobody keeped the key in the harbour."),
]
Write = Callable[..., Path]
Save = Callable[..., Path]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    documents = [f"{text} {number}" for number in range(30) for text in TEXTS]
    return train_tokenizer(documents, TokenizerConfig(vocab_size=246))


def make_model(
    tokenizer: Tokenizer, heads: tuple[str, ...] = ("mlm",), seed: int = 0, **changes: Any
) -> Model:
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id, width=32, layers=2, heads=4, inner=64,
        init_std=0.3, **{"positions": 128} | changes,
    )  # fmt: skip
    return Model(config, heads, torch.Generator().manual_seed(seed)).eval()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    """A masked language model; tests that change the folder copy it."""
    place = tmp_path_factory.mktemp("models") / "model"
    save_model(make_model(tokenizer), place, tokenizer, "---\nlicense: mit\n---\n# A card\n")
    return place


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    """Another, with other weights."""
    place = tmp_path_factory.mktemp("models") / "other"
    save_model(make_model(tokenizer, seed=1), place, tokenizer)
    return place


@pytest.fixture
def save(tmp_path: Path, tokenizer: Tokenizer) -> Save:
    """Writes a model folder with other heads or settings."""

    def save(*heads: str, **changes: Any) -> Path:
        save_model(make_model(tokenizer, heads, **changes), tmp_path / "saved", tokenizer)
        return tmp_path / "saved"

    return save


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a suite and its data: rows as JSON lines, or text as it is."""

    def write(toml: str, **files: Any) -> Path:
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
            path.write_text(text, "utf-8")
        suite = tmp_path / "mine.toml"
        suite.write_text(f'about = "ours"\nsource = "these tests"\nlicence = "none"\n{toml}\n', "utf-8")
        return suite

    return write


@pytest.fixture
def pair_suite(write: Write) -> Path:
    rows = [{"sentence_good": good, "sentence_bad": bad, "kind": "k"} for good, bad in PAIRS]
    return write(
        'kind = "pairs"\nfiles = ["*.jsonl"]\nphenomenon = "kind"', a__jsonl=rows[:3], b__jsonl=rows[3:]
    )
