"""The recipes of published models hold the values that their papers print; their comments say where."""

from typing import Any

import pytest

from unmask.config import load_recipe
from unmask.data.masking import SPAN_LONGEST, SPAN_P
from unmask.model.heads import SPAN_WIDTH

# Sequences a step, at a length; everything else is a value of the recipe, warm-up in steps.
PUBLISHED: dict[str, dict[str, Any]] = {
    "bert-base": {  # Devlin et al. 2019: section 3, appendix A.2; optimization.py
        "step": (256, 512), "warmup_steps": 10_000,
        "tokenizer": {"kind": "wordpiece", "vocab_size": 30_522, "lowercase": True},
        "model": {"layers": 12, "width": 768, "heads": 12, "inner": 3072, "dropout": 0.1},
        "batch": {"length": 512, "pairs": "nsp", "short": 0.1},
        "mask": {"kind": "token", "ratio": 0.15, "mask": 0.8, "random": 0.1, "keep": 0.1},
        "train": {
            "steps": 1_000_000, "lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-6,
            "weight_decay": 0.01, "schedule": "linear", "final": 0.0, "clip": 1.0,
        },
    },
    "roberta-base": {  # Liu et al. 2019: table 9
        "step": (8192, 512), "warmup_steps": 24_000,
        "tokenizer": {"kind": "bpe", "vocab_size": 50_265},
        "model": {"layers": 12, "width": 768, "heads": 12, "inner": 3072, "attention_dropout": 0.1},
        "batch": {"length": 512, "pairs": "none"},
        "mask": {"kind": "token", "ratio": 0.15, "mask": 0.8, "random": 0.1, "keep": 0.1},
        "train": {
            "steps": 500_000, "lr": 6e-4, "betas": (0.9, 0.98), "eps": 1e-6,
            "weight_decay": 0.01, "schedule": "linear", "final": 0.0, "clip": 1e9,
        },
    },
    "xlmr-base": {  # Conneau et al. 2020: sections 3 and 5.2, table 7; the optimiser is RoBERTa's
        "step": (8192, 512), "warmup_steps": 24_000,
        "tokenizer": {"kind": "unigram", "vocab_size": 250_002},
        "model": {"layers": 12, "width": 768, "heads": 12, "inner": 3072},
        "batch": {"length": 512, "pairs": "none", "alpha": 0.3},
        "mask": {"kind": "token", "ratio": 0.15, "mask": 0.8, "random": 0.1, "keep": 0.1},
        "train": {
            "steps": 1_500_000, "lr": 6e-4, "betas": (0.9, 0.98), "eps": 1e-6,
            "weight_decay": 0.01, "schedule": "linear", "final": 0.0, "clip": 1e9,
        },
    },
    "spanbert-base": {  # Joshi et al. 2020: sections 3.1, 3.3 and 4.2
        "step": (256, 512), "warmup_steps": 10_000,
        "tokenizer": {"kind": "wordpiece", "vocab_size": 28_996, "lowercase": False},
        "model": {"layers": 12, "width": 768, "heads": 12, "inner": 3072, "dropout": 0.1},
        "batch": {"length": 512, "pairs": "none"},
        "mask": {"kind": "span", "ratio": 0.15, "mask": 0.8, "random": 0.1, "keep": 0.1},
        "train": {
            "steps": 2_400_000, "lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8,
            "weight_decay": 0.1, "schedule": "linear", "final": 0.0, "clip": 1.0, "stages": (),
        },
    },
}  # fmt: skip
LARGE = {"layers": 24, "width": 1024, "heads": 16, "inner": 4096, "dropout": 0.1}
PUBLISHED |= {
    name.replace("base", "large"): PUBLISHED[name]
    | {
        "warmup_steps": steps,
        "model": LARGE,
        "train": PUBLISHED[name]["train"] | {"lr": lr},
    }
    for name, steps, lr in (
        ("bert-base", 10_000, 1e-4),  # Devlin et al. 2019: section 3, appendix A.2
        ("roberta-base", 30_000, 4e-4),  # Liu et al. 2019: table 9
        ("xlmr-base", 30_000, 4e-4),  # Conneau et al. 2020: table 7; rate and warm-up are RoBERTa's
    )
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recipe_is_as_published(name: str) -> None:
    recipe, published = load_recipe(name), PUBLISHED[name]
    train = recipe.train
    assert train.steps
    assert train.batch_tokens == published["step"][0] * published["step"][1]
    assert round(train.warmup * train.steps) == published["warmup_steps"]
    assert recipe.model.vocab_size == recipe.tokenizer.vocab_size
    sections = {"tokenizer": recipe.tokenizer, "model": recipe.model, "batch": recipe.batch}
    for section, values in {**sections, "mask": recipe.batch.mask, "train": train}.items():
        found = values.model_dump()
        expected = published[section]
        assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", ["bert", "roberta", "xlmr"])
def test_a_large_recipe_is_the_base_one_but_for_its_size_and_pace(name: str) -> None:
    base, large = (flat(load_recipe(f"{name}-{size}").model_dump()) for size in ("base", "large"))
    own = {"model.width", "model.layers", "model.heads", "model.inner", "train.micro_tokens"}
    own |= set() if name == "bert" else {"train.lr", "train.warmup"}
    assert {key for key in base if base[key] != large[key]} | {"train.micro_tokens"} == own


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every setting under its whole key."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


@pytest.mark.parametrize("name", ["bert-base", "bert-large"])
def test_bert_learns_the_later_positions_last(name: str) -> None:
    stages = [(stage.share, stage.length) for stage in load_recipe(name).train.stages]
    assert stages == [(0.9, 128), (0.1, 512)]  # appendix A.2


def test_spanbert_draws_and_predicts_spans_as_published() -> None:
    assert load_recipe("spanbert-base").objective.sbo
    assert (SPAN_P, SPAN_LONGEST, SPAN_WIDTH) == (0.2, 10, 200)  # sections 3.1 and 4.2
