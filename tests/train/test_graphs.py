"""Recorded passes: empty targets change nothing, and on a GPU a played step is an ordinary step."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from unmask.config import Recipe
from unmask.data.plan import Position
from unmask.train.feed import feed
from unmask.train.graphs import fits, put, room_for
from unmask.train.loop import Trainer
from unmask.train.machine import Machine
from unmask.train.material import Start, gather
from unmask.train.objectives import Objectives
from unmask.train.schedule import Schedule

Make = Callable[..., Recipe]
PAGES = [
    "model.dropout=0.0", "model.attention_dropout=0.0", "batch.sentences=true", "train.micro_tokens=384"
]  # fmt: skip


def test_only_pages_are_recorded(small: Make, shards: Path, tmp_path: Path) -> None:
    for change, expected in (("batch.sentences=true", True), ("batch.sentences=false", False)):
        material = gather(small(change), tmp_path, Start(data=shards))
        step = next(feed(material.corpus, Schedule(material.recipe, 1), 0, Position()))
        assert fits(step.batches[0]) is expected


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


@pytest.mark.filterwarnings("ignore")  # of torch's compiler
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_played_step_is_an_ordinary_one(small: Make, shards: Path, tmp_path: Path) -> None:
    recipe = small(*PAGES, "train.compile=true", "train.precision=fp32", "train.steps=12")
    losses, weights = [], []
    for graphs in (True, False):
        material = gather(recipe, tmp_path, Start(data=shards))
        machine, model = Machine.choose(recipe.train), material.model()
        machine.fit(model, recipe.train)
        trainer = Trainer(model, Schedule(recipe, 12), Objectives(material.recipe, True), machine)
        assert trainer.graphs
        if not graphs:
            trainer.graphs = None
        inputs = feed(material.corpus, trainer.schedule, 0, Position(), True)
        losses.append([each.loss for each in trainer.run(inputs)])
        weights.append([parameter.detach() for parameter in model.parameters()])
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-2, atol=1e-3)
