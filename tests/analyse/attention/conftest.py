"""Small random models with a real vocabulary."""

from collections.abc import Callable

import pytest
import torch

from unmask.config import ModelConfig, TokenizerConfig
from unmask.model.network import Model
from unmask.predict import MaskedLM
from unmask.tokenizer import Tokenizer, train_tokenizer

TEXTS = [
    "O gato preto dorme no telhado da casa velha.",
    "A chuva caiu durante a noite inteira, e o rio subiu.",
    "The black cat sleeps on the roof of the old house.",
    "Rain fell all night long, and the river rose.",
]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    documents = [f"{text} {number}" for number in range(20) for text in TEXTS]
    return train_tokenizer(documents, TokenizerConfig(vocab_size=160))


@pytest.fixture(scope="session")
def make_lm(tokenizer: Tokenizer) -> Callable[..., MaskedLM]:
    """Makes a model of three blocks and four heads, with changes to its settings."""

    def make(**changes: object) -> MaskedLM:
        sizes = {"width": 32, "layers": 3, "heads": 4, "inner": 64, "positions": 64, "init_std": 0.3}
        given = {"vocab_size": tokenizer.vocab_size, "pad_id": tokenizer.pad_id} | sizes | changes
        model = Model(ModelConfig(**given), generator=torch.Generator().manual_seed(0))  # type: ignore[arg-type]
        return MaskedLM(model.eval(), tokenizer)

    return make
