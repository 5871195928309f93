"""Published sizes, and small ones for CPUs, as settings."""

from collections.abc import Mapping
from typing import Any

from unmask.config import ModelConfig, checked
from unmask.errors import ConfigError
from unmask.model.families import FAMILIES

_LARGE = {"width": 1024, "layers": 24, "heads": 16, "inner": 4096}
_ROBERTA = {
    "family": "roberta",
    "vocab_size": 50_265,
    "norm_eps": 1e-5,
    "position_offset": 2,
    "segments": 1,
    "classifier": "tanh",
    "pad_id": 1,
    "bos_id": 0,
    "eos_id": 2,
}
_XLMR = _ROBERTA | {"family": "xlm-roberta", "vocab_size": 250_002}
_MODERN = {
    **FAMILIES["modernbert"].base,
    "family": "modernbert",
    "positions": 8192,
    "window": 64,
    "global_every": 3,
    "pooling": "mean",
}
_DECODER = {**FAMILIES["modernbert-decoder"].base, "family": "modernbert-decoder", "window": 63}

_VALUES: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"width": 128, "layers": 2, "heads": 2, "inner": 512},
    "mini": {"width": 256, "layers": 4, "heads": 4, "inner": 1024},
    "small": {"width": 512, "layers": 4, "heads": 8, "inner": 2048},
    "bert-base": {},
    "bert-base-cased": {"vocab_size": 28_996},
    "bert-large": _LARGE,
    "bert-large-cased": _LARGE | {"vocab_size": 28_996},
    "spanbert-base": {"vocab_size": 28_996},
    "distilbert": {**FAMILIES["distilbert"].base, "family": "distilbert"},
    "roberta-base": _ROBERTA,
    "roberta-large": _ROBERTA | _LARGE,
    "xlmr-base": _XLMR,
    "xlmr-large": _XLMR | _LARGE,
    "modernbert-17m": _MODERN | {"width": 256, "layers": 7, "heads": 4, "inner": 384},
    "modernbert-32m": _MODERN | {"width": 384, "layers": 10, "heads": 6, "inner": 576},
    "modernbert-68m": _MODERN | {"width": 512, "layers": 19, "heads": 8, "inner": 768},
    "modernbert-base": _MODERN,
    "modernbert-large": _MODERN | {"width": 1024, "layers": 28, "heads": 16, "inner": 2624},
    "modernbert-decoder": _MODERN | _DECODER,
}
PRESETS: Mapping[str, ModelConfig] = {name: ModelConfig(**values) for name, values in _VALUES.items()}
"""tiny, mini and small are BERT's miniatures; modernbert-17m to -68m are Ettin's sizes."""


def preset(name: str, **changes: Any) -> ModelConfig:
    """The settings of that name, with changes: a vocabulary size, a padding id."""
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name}; those we have: {', '.join(PRESETS)}")
    return checked(PRESETS[name].model_dump() | changes, f"preset {name}", ModelConfig)
