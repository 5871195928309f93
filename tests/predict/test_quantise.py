"""Eight-bit layers: near the original, and the same whatever stands beside a text in its batch."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from unmask.model.network import Model
from unmask.predict import MaskedLM
from unmask.predict.quantise import Int8Linear, quantise


@given(st.integers(1, 40), st.integers(1, 64), st.integers(1, 48), st.booleans(), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_rounding_is_the_only_error(rows: int, width: int, out: int, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    linear = nn.Linear(width, out, bias=bias)
    x = torch.randn(rows, width) * torch.logspace(-3, 3, rows)[:, None]
    with torch.inference_mode():
        answer, truth = Int8Linear(linear)(x), linear(x)
        # Half a step of the input times the weights, and half a step of the weights times the input.
        step_x, step_w = x.abs().amax(1, keepdim=True) / 127, linear.weight.abs().amax(1) / 127
        bound = step_x / 2 * linear.weight.abs().sum(1) + x.abs().sum(1, keepdim=True) * step_w / 2
        assert bool(((answer - truth).abs() <= bound * 1.02 + step_x * step_w * width / 4 + 1e-5).all())


def test_zeros_stay_finite() -> None:
    layer = Int8Linear(nn.Linear(4, 3))
    with torch.inference_mode():
        np.testing.assert_allclose(layer(torch.zeros(2, 4)), layer.bias.expand(2, 3), atol=1e-6)


@pytest.fixture(scope="module")
def small(lm: MaskedLM) -> MaskedLM:
    model = copy.deepcopy(lm.model)
    assert isinstance(model, Model)
    quantise(model.encoder)
    return MaskedLM(model, lm.tokenizer)


def test_vectors_are_near(lm: MaskedLM, small: MaskedLM, texts: list[str]) -> None:
    assert sum(isinstance(module, Int8Linear) for module in small.model.encoder.modules()) == 8  # type: ignore[union-attr]
    ours, theirs = (model.embed(texts, normalise=True) for model in (small, lm))
    assert (ours * theirs).sum(1).min() > 0.99
    assert abs(ours - theirs).max() > 0


def test_a_vector_does_not_depend_on_its_batch(small: MaskedLM, texts: list[str]) -> None:
    together = small.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(small.embed(text), vector, atol=1e-5)


def test_masks_are_filled(small: MaskedLM) -> None:
    assert len(small.fill("O gato [MASK] no telhado.", top=3)) == 3
