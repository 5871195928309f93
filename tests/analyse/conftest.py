"""A small random model and made-up sentences."""

from pathlib import Path

import pytest
import torch

from unmask.checkpoint import save_model
from unmask.config import ModelConfig, TokenizerConfig
from unmask.model.network import Model
from unmask.predict import MaskedLM
from unmask.tokenizer import Tokenizer, train_tokenizer

SENTENCES = [
    f"{who} {did} {what} {where}."
    for who in ("O gato", "A vizinha", "Um velho", "The black cat", "Nobody")
    for did in ("dorme sobre", "encontrou", "viu", "sleeps on")
    for what in ("a carta", "o telhado", "the old roof")
    for where in ("no jardim", "perto do rio", "all night")
]


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    return SENTENCES


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return train_tokenizer(SENTENCES, TokenizerConfig(vocab_size=120))


def make_model(tokenizer: Tokenizer, heads: tuple[str, ...] = ("mlm",), positions: int = 40) -> Model:
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id, width=24, layers=3, heads=3, inner=48,
        positions=positions, init_std=0.2,
    )  # fmt: skip
    return Model(config, heads, torch.Generator().manual_seed(1)).eval()


@pytest.fixture(scope="session")
def model(tokenizer: Tokenizer) -> MaskedLM:
    return MaskedLM(make_model(tokenizer), tokenizer)


@pytest.fixture(scope="session")
def folder(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "model"
    save_model(make_model(tokenizer), place, tokenizer)
    return place


@pytest.fixture(scope="session")
def headless(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without a masked-LM head."""
    place = tmp_path_factory.mktemp("models") / "headless"
    save_model(make_model(tokenizer, ()), place, tokenizer)
    return place


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("\n\n".join(SENTENCES), "utf-8")
    return file
