"""Small random models with a real vocabulary."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from unmask.checkpoint import save_model
from unmask.config import ModelConfig, TokenizerConfig
from unmask.model.network import Model
from unmask.predict import MaskedLM
from unmask.tokenizer import Tokenizer, train_tokenizer

LogsOf = Callable[[MaskedLM, np.ndarray], torch.Tensor]
TEXTS = [
    "O gato preto dorme no telhado da casa velha.",
    "A chuva caiu durante a noite inteira, e o rio subiu.",
    "The black cat sleeps on the roof of the old house.",
    "Rain fell all night long, and the river rose.",
    "Os pescadores voltaram ao porto antes da tempestade.",
    "Nobody knew why the lighthouse had gone dark.",
]
SIZES = {"wordpiece": 180, "bpe": 340, "unigram": 70}


def make_tokenizer(kind: str) -> Tokenizer:
    documents = [f"{text} {number}" for number in range(30) for text in TEXTS]
    return train_tokenizer(documents, TokenizerConfig(kind=kind, vocab_size=SIZES[kind]))  # type: ignore[arg-type]


def make_config(tokenizer: Tokenizer, **changes: object) -> ModelConfig:
    sizes = {"width": 32, "layers": 2, "heads": 4, "inner": 64, "positions": 64, "init_std": 0.3}
    return ModelConfig(
        **{"vocab_size": tokenizer.vocab_size, "pad_id": tokenizer.pad_id} | sizes | changes  # type: ignore[arg-type]
    )


def make_model(config: ModelConfig, heads: tuple[str, ...] = ("mlm",), seed: int = 0) -> Model:
    return Model(config, heads, torch.Generator().manual_seed(seed)).eval()


@pytest.fixture(scope="session")
def wordpiece() -> Tokenizer:
    return make_tokenizer("wordpiece")


@pytest.fixture(scope="session", params=["wordpiece", "bpe", "unigram"])
def any_tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return make_tokenizer(request.param)


@pytest.fixture(scope="session")
def any_lm(any_tokenizer: Tokenizer) -> MaskedLM:
    return MaskedLM(make_model(make_config(any_tokenizer)), any_tokenizer)


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return TEXTS


@pytest.fixture(scope="session")
def logs_of() -> LogsOf:
    """Log-probabilities (n, V) at every place of one sequence, computed alone and through the padded path."""

    @torch.no_grad()
    def compute(lm: MaskedLM, ids: np.ndarray) -> torch.Tensor:
        assert isinstance(lm.model, Model)
        grid = torch.from_numpy(ids)[None]
        return lm.model.mlm(lm.model.encoder.padded(grid, torch.ones_like(grid))[0]).log_softmax(-1)

    return compute


@pytest.fixture(scope="session")
def lm(wordpiece: Tokenizer) -> MaskedLM:
    """A bidirectional model with a masked-LM head."""
    return MaskedLM(make_model(make_config(wordpiece)), wordpiece)


@pytest.fixture(scope="session")
def causal(wordpiece: Tokenizer) -> MaskedLM:
    config = make_config(
        wordpiece, family="modernbert-decoder", causal=True, norm="before", position="rotary", segments=0,
        gated=True, classifier="norm", pooling="last", norm_bias=False, attention_bias=False,
        inner_bias=False, head_bias=False, scaled_init=True, norm_eps=1e-5,
        bos_id=wordpiece.cls_id, eos_id=wordpiece.sep_id,
    )  # fmt: skip
    return MaskedLM(make_model(config), wordpiece)


@pytest.fixture
def folder(tmp_path: Path, wordpiece: Tokenizer) -> Callable[..., Path]:
    """Writes a model folder: its heads, changes to its settings."""

    def write(heads: tuple[str, ...] = ("mlm",), name: str = "model", **changes: object) -> Path:
        model = make_model(make_config(wordpiece, **changes), heads)
        save_model(model, tmp_path / name, wordpiece, "---\nlicense: mit\nlanguage: pt\n---\n# A card\n")
        return tmp_path / name

    return write
