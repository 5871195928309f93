"""Published sizes, and small ones for CPUs, as settings."""

from collections.abc import Mapping
from typing import Any

from unmask.config import RECIPES, ModelConfig, load_recipe
from unmask.errors import ConfigError
from unmask.model.families import FAMILIES
from unmask.sections import checked

_WITH_RECIPES = (
    "bert-base", "bert-large", "spanbert-base", "roberta-base", "roberta-large", "xlmr-base", "xlmr-large"
)  # fmt: skip
"""Sizes that have a recipe stand there."""
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
    "bert-base-cased": {"vocab_size": 28_996},
    "bert-large-cased": {"vocab_size": 28_996, "width": 1024, "layers": 24, "heads": 16, "inner": 4096},
    "distilbert": {**FAMILIES["distilbert"].base, "family": "distilbert"},
    "modernbert-17m": _MODERN | {"width": 256, "layers": 7, "heads": 4, "inner": 384},
    "modernbert-32m": _MODERN | {"width": 384, "layers": 10, "heads": 6, "inner": 576},
    "modernbert-68m": _MODERN | {"width": 512, "layers": 19, "heads": 8, "inner": 768},
    "modernbert-base": _MODERN,
    "modernbert-large": _MODERN | {"width": 1024, "layers": 28, "heads": 16, "inner": 2624},
    "modernbert-decoder": _MODERN | _DECODER,
}
PRESETS: Mapping[str, ModelConfig] = {name: ModelConfig(**values) for name, values in _VALUES.items()} | {
    name: load_recipe(RECIPES / f"{name}.toml").model for name in _WITH_RECIPES
}
"""tiny, mini and small are BERT's miniatures; modernbert-17m to -68m are Ettin's sizes."""


def preset(name: str, **changes: Any) -> ModelConfig:
    """The settings of that name, with changes: a vocabulary size, a padding id."""
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name}; those we have: {', '.join(PRESETS)}")
    return checked(PRESETS[name].model_dump() | changes, f"preset {name}", ModelConfig)
