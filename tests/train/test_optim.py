"""Every weight belongs to one optimiser and one kind of decay; what they remember has names."""

from collections.abc import Callable

import pytest
import torch

from unmask.config import Recipe, TrainConfig
from unmask.model.network import Model
from unmask.model.presets import preset
from unmask.train.optim import Optimiser, clip, fused, split


@pytest.fixture
def model(small: Callable[..., Recipe]) -> Model:
    torch.manual_seed(0)
    return Model(small("model.vocab_size=60").model, ["mlm", "nsp", "span"])


def names(model: Model, weights: list[torch.Tensor]) -> set[str]:
    mine = {id(weight) for weight in weights}
    return {name for name, weight in model.named_parameters() if id(weight) in mine}


def test_groups_are_disjoint_and_whole(model: Model) -> None:
    for kind in ("adamw", "muon"):
        groups = split(model, TrainConfig(optimiser=kind))
        found = [name for group in groups.values() for name in names(model, group)]
        assert sorted(found) == sorted(name for name, _ in model.named_parameters())


def test_biases_and_norms_have_no_decay(model: Model) -> None:
    plain = names(model, split(model, TrainConfig())["plain"])
    assert plain == {name for name, _ in model.named_parameters() if name.endswith("bias") or "norm" in name}
    tables = {name for name, _ in model.named_parameters() if name.startswith("encoder.embeddings")} - plain
    more = names(model, split(model, TrainConfig(decay_embeddings=False))["plain"])
    assert more == plain | tables | {"heads.span.positions.weight"}


def test_muon_knows_which_weights_are_several_matrices() -> None:
    gated = Model(preset("modernbert-17m", vocab_size=40, pad_id=0, layers=1, global_every=1, window=0))
    parts = {name: fused(gated).get(id(weight), 1) for name, weight in gated.named_parameters()}
    several = {name.removeprefix("encoder.blocks.0."): count for name, count in parts.items() if count > 1}
    assert several == {"attention.qkv.weight": 3, "feedforward.up.weight": 2}
    assert set(fused(Model(preset("tiny"))).values()) == {3}


def test_muon_takes_the_matrices_of_the_blocks(model: Model) -> None:
    taken = names(model, split(model, TrainConfig(optimiser="muon"))["muon"])
    assert taken == {
        f"encoder.blocks.{block}.{name}.weight"
        for block in range(2)
        for name in ("attention.qkv", "attention.out", "feedforward.up", "feedforward.down")
    }


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_lower_blocks_take_smaller_steps(model: Model, kind: str) -> None:
    config = TrainConfig(optimiser=kind, lr=0.01, muon_lr=0.01, weight_decay=0.0, layer_decay=0.5)
    before = [block.attention.out.weight.detach().clone() for block in model.encoder.blocks]
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    Optimiser(model, config).step(1.0)
    after = [block.attention.out.weight.detach() for block in model.encoder.blocks]
    lower, upper = ((a - b).norm() for a, b in zip(after, before, strict=True))
    torch.testing.assert_close(lower, upper / 2)


def test_decay_shrinks_only_what_has_decay(model: Model) -> None:
    config = TrainConfig(lr=0.1, weight_decay=0.5)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    Optimiser(model, config).step(lr_share=0.5)
    plain = names(model, split(model, config)["plain"])
    for name, weight in model.named_parameters():
        factor = 1.0 if name in plain else 1 - 0.1 * 0.5 * 0.5
        torch.testing.assert_close(weight.detach(), before[name] * factor, msg=name)


def test_adamw_is_the_formula(model: Model) -> None:
    config = TrainConfig(lr=0.01, weight_decay=0.1, betas=(0.9, 0.98), eps=1e-6)
    weight = model.encoder.blocks[0].attention.qkv.weight
    expected = weight.detach().double().clone()
    mean = square = torch.zeros_like(expected)
    optimiser = Optimiser(model, config)
    for step in range(1, 4):
        gradient = torch.randn(weight.shape, generator=torch.Generator().manual_seed(step))
        weight.grad = gradient.clone()
        optimiser.step(lr_share=0.5)
        mean = 0.9 * mean + 0.1 * gradient.double()
        square = 0.98 * square + 0.02 * gradient.double() ** 2
        expected = expected * (1 - 0.005 * 0.1)
        expected -= 0.005 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.98**step)).sqrt() + 1e-6)
    torch.testing.assert_close(weight.detach().double(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_state_goes_over_to_another_optimiser(model: Model, kind: str) -> None:
    config = TrainConfig(optimiser=kind, lr=0.01)
    twin = Model(model.config, model.heads)
    first, second = Optimiser(model, config), Optimiser(twin, config)

    def step(optimiser: Optimiser, of: Model, number: int) -> None:
        for place, weight in enumerate(of.parameters()):
            draw = torch.Generator().manual_seed(100 * number + place)
            weight.grad = torch.randn(weight.shape, generator=draw)
        optimiser.step(1.0)

    step(first, model, 0)
    twin.load_state_dict(model.state_dict())
    state = {name: tensor.clone() for name, tensor in first.state().items()}
    assert "encoder.norm.weight/exp_avg" not in state
    second.load(state)
    step(first, model, 1)
    step(second, twin, 1)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, other)


def test_clip_scales_to_the_limit_and_tells_the_norm(model: Model) -> None:
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, 0.5)
    size = sum(weight.numel() for weight in model.parameters())
    assert clip(list(model.parameters()), 1.0).item() == pytest.approx(0.5 * size**0.5)
    assert clip(list(model.parameters()), 1.0).item() == pytest.approx(1.0, rel=1e-4)
    next(model.parameters()).grad[0, 0] = float("nan")
    assert clip(list(model.parameters()), 1.0).isnan()
