"""Recorded passes: empty targets change nothing, and on a GPU a played step is an ordinary step."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from unmask.config import Recipe
from unmask.data.plan import Position
from unmask.model.network import Model
from unmask.train.feed import feed
from unmask.train.graphs import fits, put, room_for, shape_key
from unmask.train.loop import Trainer
from unmask.train.machine import Machine
from unmask.train.material import gather
from unmask.train.objectives import Objectives
from unmask.train.schedule import Schedule
from unmask.train.start import Start

Make = Callable[..., Recipe]
PAGES = [
    "model.dropout=0.0", "model.attention_dropout=0.0", "batch.sentences=true", "train.micro_tokens=384"
]  # fmt: skip


def test_only_pages_are_recorded(small: Make, shards: Path, tmp_path: Path) -> None:
    for change, expected in (("batch.sentences=true", True), ("batch.sentences=false", False)):
        material = gather(small(change), tmp_path, Start(data=shards))
        step = next(feed(material.corpus, Schedule(material.recipe, 1), 0, Position()))
        assert fits(step.batches[0]) is expected


def test_a_shape_is_its_pages_too(small: Make, shards: Path, tmp_path: Path) -> None:
    """Stages of two lengths have as many tokens and, for a while, as many places for targets."""
    stages = "train.stages=[{ share = 0.5, length = 24 }, { share = 0.5, length = 48 }]"
    material = gather(small(stages, "train.micro_tokens=384"), tmp_path, Start(data=shards))
    steps = list(feed(material.corpus, Schedule(material.recipe, 2), 0, Position(), pages=True))
    first, second = (step.batches[0] for step in steps)
    assert len(first.ids) == len(second.ids)
    assert (first.page, second.page) == (24, 48)
    assert shape_key(first) != shape_key(second)


def test_what_is_recorded(small: Make) -> None:
    machine = Machine(torch.device("cuda"), True)
    recipe = small(*PAGES)
    assert machine.graphs(recipe.model, recipe)
    for change in (
        "model.dropout=0.1", "model.attention_dropout=0.1", "train.checkpoint_activations=true",
        "train.compile=false", "train.micro_tokens=192", "batch.mask.kind=span",
    ):  # fmt: skip
        other = small(*PAGES, change)
        assert not machine.graphs(other.model, other), change
    assert not Machine(torch.device("cpu"), False).graphs(recipe.model, recipe)


def test_empty_targets_change_nothing(small: Make, shards: Path, tmp_path: Path) -> None:
    material = gather(small(*PAGES), tmp_path, Start(data=shards))
    model, objectives = material.model(), Objectives(material.recipe)
    (batch,) = next(feed(material.corpus, Schedule(material.recipe, 1), 0, Position())).batches
    filled = room_for(batch, torch.device("cpu"))
    put(batch, filled)
    assert len(filled.target_ids) == 1024 > len(batch.target_ids)
    found = []
    for each in (batch, filled):
        model.zero_grad()
        outcome = objectives(model, each)["mlm"]
        outcome.losses.sum().backward()  # type: ignore[no-untyped-call]
        kinds = [(outcome.correct & (each.target_kind == kind)).sum().item() for kind in range(3)]
        found.append((outcome.losses, kinds, [parameter.grad for parameter in model.parameters()]))
    (losses, kinds, gradients), (more, same, alike) = found
    torch.testing.assert_close(more[: len(losses)], losses)
    assert more[len(losses) :].abs().max() == 0
    assert same == kinds
    torch.testing.assert_close(alike, gradients)


def other(recipe: Recipe) -> Model:
    """A model of the run's size that expects other things, each time the same."""
    config = recipe.model.model_copy(update={"init_std": 0.3})
    return Model(config, generator=torch.Generator().manual_seed(5))


@pytest.mark.filterwarnings("ignore")  # of torch's compiler
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA_VISIBLE_DEVICES=0")
@pytest.mark.parametrize(
    ("optimiser", "apart", "taught"),
    [("adamw", 1e-3, False), ("muon", 1e-2, False), ("adamw", 1e-3, True)],
)
def test_a_played_step_is_an_ordinary_one(
    small: Make, shards: Path, tmp_path: Path, optimiser: str, apart: float, taught: bool
) -> None:
    """Muon takes every direction of a gradient equally far, those of rounding errors too."""
    stages = "train.stages=[{ share = 0.5, length = 24 }, { share = 0.5, length = 48 }]"
    changes = [stages, "train.compile=true", "train.precision=fp32", "train.steps=16"]
    recipe = small(*PAGES, *changes, f"train.optimiser={optimiser}")
    losses, weights = [], []
    for graphs in (True, False):
        material = gather(recipe, tmp_path, Start(data=shards))
        machine, model = Machine.choose(recipe.train), material.model()
        machine.fit(model, recipe.train)
        teachers = [machine.fit_teacher(other(material.recipe), recipe.train)] if taught else []
        trainer = Trainer(model, Schedule(recipe, 16), Objectives(material.recipe, True, teachers), machine)
        assert trainer.graphs
        if not graphs:
            trainer.graphs = None
        inputs = feed(material.corpus, trainer.schedule, 0, Position(), True, True)
        records = list(trainer.run(inputs))
        assert all(("taught" in each.parts) is taught for each in records)
        losses.append([each.loss for each in records])
        weights.append([parameter.detach() for parameter in model.parameters()])
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-2, atol=apart)
