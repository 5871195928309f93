"""The loop: it learns, averages, skips what is not finite, and draws dropout from the step's place alone."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import torch

from unmask.config import Recipe, TrainConfig
from unmask.data.plan import Position
from unmask.errors import ConfigError
from unmask.train import feed as feed_module
from unmask.train.feed import feed
from unmask.train.loop import Trainer, seed_of
from unmask.train.machine import Machine, repeatable
from unmask.train.material import Material, gather
from unmask.train.objectives import Objectives
from unmask.train.schedule import Schedule
from unmask.train.start import Start

Make = Callable[..., Recipe]
CPU = Machine(torch.device("cpu"), False)


def trainer_of(material: Material) -> Trainer:
    schedule = Schedule(material.recipe, material.recipe.train.steps or 1)
    return Trainer(material.model(), schedule, Objectives(material.recipe), CPU)


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}


def test_a_handful_of_sentences_is_learnt_by_heart(small: Make, shards: Path, tmp_path: Path) -> None:
    recipe = small(
        "model.dropout=0.0", "model.attention_dropout=0.0", "model.width=64", "train.steps=150",
        "train.lr=0.01", "train.batch_tokens=192", "train.weight_decay=0.0",
    )  # fmt: skip
    material = gather(recipe, tmp_path, Start(data=shards))
    trainer = trainer_of(material)
    one = next(feed(material.corpus, trainer.schedule, 0, Position()))
    records = [
        record
        for step in range(150)
        for record in trainer.run([type(one)(step, one.batches, one.position, one.fill)])
    ]
    assert records[0].loss > 4
    assert records[-1].loss < 0.01
    assert records[-1].accuracy["mlm"] == 1


def test_records_count_what_was_done(small: Make, shards: Path, tmp_path: Path) -> None:
    material = gather(small(), tmp_path, Start(data=shards))
    trainer = trainer_of(material)
    inputs = list(feed(material.corpus, trainer.schedule, 0, Position()))
    records = list(trainer.run(inputs))
    assert [record.step for record in records] == [1, 2, 3, 4, 5, 6]
    sizes = [sum(len(batch.ids) for batch in each.batches) for each in inputs]
    assert [record.tokens for record in records] == [sum(sizes[: n + 1]) for n in range(6)]
    assert [record.lr for record in records] == [0.003 * trainer.schedule.lr_share(n) for n in range(6)]
    assert all(
        record.seconds > 0 and record.tokens_per_s > 0 and 0.5 < record.fill <= 1 for record in records
    )
    assert not any(record.skipped for record in records)
    assert trainer.counters.position == inputs[-1].position


def test_dropout_follows_from_seed_step_and_place(small: Make, shards: Path, tmp_path: Path) -> None:
    material = gather(small(), tmp_path, Start(data=shards))
    losses = []
    for noise in (1, 2):
        trainer = trainer_of(material)
        torch.manual_seed(noise)
        losses.append([record.loss for record in islice(trainer.run(_inputs(trainer, material)), 3)])
    assert losses[0] == losses[1]
    assert len({seed_of(*place) for place in ((1, 2, 3), (1, 3, 2), (12, 3, 0), (1, 23, 0))}) == 4


def _inputs(trainer: Trainer, material: Material):  # type: ignore[no-untyped-def]
    return feed(material.corpus, trainer.schedule, 0, Position())


def test_the_average_is_the_mean_of_the_last_weights(small: Make, shards: Path, tmp_path: Path) -> None:
    material = gather(small("train.average=0.5"), tmp_path, Start(data=shards))
    trainer = trainer_of(material)
    seen = [weights(trainer) for _ in trainer.run(_inputs(trainer, material))]
    assert trainer.counters.averaged == 3
    last = weights(trainer)
    with trainer.averaged() as model:
        for name, weight in model.named_parameters():
            mean = torch.stack([each[name].double() for each in seen[3:]]).mean(0)
            torch.testing.assert_close(weight.detach().double(), mean, rtol=1e-5, atol=1e-6)
    assert all(torch.equal(last[name], weight) for name, weight in weights(trainer).items())


def test_a_step_that_is_not_finite_changes_nothing(small: Make, shards: Path, tmp_path: Path) -> None:
    material = gather(small(), tmp_path, Start(data=shards))
    trainer = trainer_of(material)
    inputs = list(_inputs(trainer, material))
    list(trainer.run(inputs[:1]))
    before = weights(trainer)
    remembered = {name: tensor.clone() for name, tensor in trainer.optimiser.state().items()}
    bias = trainer.model.heads["mlm"].bias
    with torch.no_grad():
        bias[7] = float("inf")
    record = next(trainer.run(inputs[1:2]))
    assert record.skipped
    assert trainer.counters.skipped == 1
    assert trainer.counters.step == 2
    with torch.no_grad():
        bias[7] = before["heads.mlm.bias"][7]
    assert all(torch.equal(before[name], weight) for name, weight in weights(trainer).items())
    assert all(torch.equal(remembered[name], tensor) for name, tensor in trainer.optimiser.state().items())
    assert not next(trainer.run(inputs[2:3])).skipped
    assert trainer.counters.skipped == 0


def test_less_memory_gives_the_same_gradients(small: Make, shards: Path, tmp_path: Path) -> None:
    norms = []
    for again in ("false", "true"):
        material = gather(small(f"train.checkpoint_activations={again}"), tmp_path, Start(data=shards))
        trainer = trainer_of(material)
        CPU.fit(trainer.model, material.recipe.train)
        norms.append([record.grad_norm for record in islice(trainer.run(_inputs(trainer, material)), 2)])
    assert norms[0] == norms[1]


def test_stages_change_the_length_and_begin_an_epoch(small: Make, shards: Path, tmp_path: Path) -> None:
    recipe = small("train.stages=[{share=0.5,length=16},{share=0.5,length=64}]")
    material = gather(recipe, tmp_path, Start(data=shards))
    schedule = Schedule(material.recipe, 6)
    inputs = list(feed(material.corpus, schedule, 0, Position()))
    assert [max(batch.max_seqlen for batch in each.batches) <= 16 for each in inputs] == [True] * 3 + [
        False
    ] * 3
    assert inputs[3].position.epoch == inputs[2].position.epoch + 1
    for start in range(1, 6):
        again = list(feed(material.corpus, schedule, start, inputs[start - 1].position))
        assert [each.position for each in again] == [each.position for each in inputs[start:]]
        for one, other in zip(again, inputs[start:], strict=True):
            assert all(torch.equal(a.ids, b.ids) for a, b in zip(one.batches, other.batches, strict=True))


def test_a_later_stage_too_small_for_all_processes_is_told_at_once(
    small: Make, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small("train.stages=[{share=0.5,length=16},{share=0.5,length=64}]")
    material = gather(recipe, tmp_path, Start(data=shards))
    schedule = Schedule(material.recipe, 6)
    monkeypatch.setattr("unmask.train.parallel.ranks", lambda: 8)
    with pytest.raises(ConfigError, match="6 sequences of 64 tokens a step: too few for 8 processes"):
        next(feed(material.corpus, schedule, 0, Position()))
    monkeypatch.setattr("unmask.train.parallel.ranks", lambda: 6)
    assert next(feed(material.corpus, schedule, 0, Position())).step == 0


def test_repeatable_leaves_torch_as_it_was() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with repeatable(CPU):
        assert torch.are_deterministic_algorithms_enabled()
        torch.manual_seed(99)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.rand(2), expected)


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_precision(small: Make, shards: Path, tmp_path: Path, precision: str) -> None:
    material = gather(small(f"train.precision={precision}"), tmp_path, Start(data=shards))
    machine = Machine.choose(material.recipe.train)
    trainer = Trainer(material.model(), Schedule(material.recipe, 6), Objectives(material.recipe), machine)
    machine.fit(trainer.model, material.recipe.train)
    assert machine.bf16 == (precision == "bf16")
    assert all(weight.dtype == torch.float32 for weight in trainer.model.parameters())
    assert next(trainer.run(_inputs(trainer, material))).loss == pytest.approx(5, abs=0.5)


def test_how_many_build_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, expected in ((2, 1), (4, 3), (64, 4)):
        monkeypatch.setattr(feed_module, "cores", lambda cores=cores: cores)
        assert feed_module._workers(TrainConfig(), True) == expected
        assert feed_module._workers(TrainConfig(), False) == 1
        assert feed_module._workers(TrainConfig(workers=0), True) == 0
    monkeypatch.setattr(feed_module.parallel, "ranks_here", lambda: 8)
    monkeypatch.setattr(feed_module, "cores", lambda: 16)
    assert feed_module._workers(TrainConfig(), True) == 1, "of the cores that each of eight processes has"
