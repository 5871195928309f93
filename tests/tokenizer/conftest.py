"""A small bilingual text and one trained tokenizer of each kind."""

from itertools import product

import pytest

from unmask.config import TokenizerConfig
from unmask.tokenizer import Tokenizer, train_tokenizer

_WHO = ("O gatinho", "A avó da Inês", "O cãozinho preto", "Um marinheiro", "The old teacher", "My neighbour")
_DOES = ("dorme", "está correndo", "canta rapidamente", "lê o jornal", "walks slowly", "is baking bread")
_WHERE = ("no jardim.", "à beira do rio!", "em São Tomé, às 7h30.", "by the window (again).", "in 1998?")
TEXTS = [" ".join(parts) for parts in product(_WHO, _DOES, _WHERE)]
SIZES = {"wordpiece": 160, "unigram": 85, "bpe": 360}


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return TEXTS


@pytest.fixture(scope="session")
def trained() -> dict[str, Tokenizer]:
    return {
        kind: train_tokenizer(TEXTS, TokenizerConfig(kind=kind, vocab_size=size))
        for kind, size in SIZES.items()
    }


@pytest.fixture(params=list(SIZES))
def tokenizer(request: pytest.FixtureRequest, trained: dict[str, Tokenizer]) -> Tokenizer:
    return trained[request.param]
