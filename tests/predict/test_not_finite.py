"""A damaged or diverged model is told: it fills, scores, embeds, generates and converts nothing."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unmask.checkpoint import save_model
from unmask.model.network import Model
from unmask.predict import MaskedLM
from unmask.predict.convert import convert
from unmask.predict.predictor import NotFiniteError


def broken(lm: MaskedLM, part: str) -> MaskedLM:
    """The model with one number of its encoder, or of its head, that is none."""
    assert isinstance(lm.model, Model)
    model = deepcopy(lm.model)
    with torch.no_grad():
        last = list(model.encoder.parameters() if part == "encoder" else model.heads["mlm"].parameters())[-1]
        last.view(-1)[-1] = np.nan
    return MaskedLM(model, lm.tokenizer)


@pytest.mark.parametrize(
    "ask",
    [
        lambda lm: lm.fill("O [MASK] preto."),
        lambda lm: lm.fill("O [MASK] preto.", candidates=["gato"]),
        lambda lm: lm.score(["O gato preto."]),
    ],
)
@pytest.mark.parametrize("part", ["encoder", "head"])
def test_of_words(lm: MaskedLM, part: str, ask: Callable[[MaskedLM], Any]) -> None:
    with pytest.raises(NotFiniteError, match="the model: its weights or scores are not finite"):
        ask(broken(lm, part))


@pytest.mark.parametrize(
    "ask",
    [
        lambda lm: lm.embed("O gato."),
        lambda lm: lm.embed(["O gato.", "A chuva."], level="word", layer="all"),
        lambda lm: lm.embed("O gato.", level="token", layer="last4"),
        lambda lm: lm.hidden("O gato."),
        lambda lm: lm.attention("O gato."),
    ],
)
def test_of_vectors(lm: MaskedLM, ask: Callable[[MaskedLM], Any]) -> None:
    with pytest.raises(NotFiniteError):
        ask(broken(lm, "encoder"))


@pytest.mark.parametrize("part", ["encoder", "head"])
def test_of_a_causal_model(causal: MaskedLM, part: str) -> None:
    lm = broken(causal, part)
    for ask in (lm.generate, lm.score):
        with pytest.raises(NotFiniteError):
            ask("O gato")


@pytest.mark.parametrize("to", ["hf", "bfloat16"])
@pytest.mark.parametrize("part", ["encoder", "head"])
def test_of_a_copy(lm: MaskedLM, part: str, to: str, tmp_path: Path) -> None:
    model = broken(lm, part).model
    assert isinstance(model, Model)
    save_model(model, tmp_path / "broken", lm.tokenizer, "# A card\n")
    with pytest.raises(NotFiniteError, match="broken: its weights"):
        convert(tmp_path / "broken", tmp_path / "copy", to)
    assert not (tmp_path / "copy").exists()
