"""Loss and gradients of every objective against plain float64 formulas, accumulated over micro-batches."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unmask.config import Recipe
from unmask.data.batches import Batch
from unmask.data.plan import Position
from unmask.data.shards import Corpus
from unmask.model.network import Model
from unmask.train.feed import StepInput, feed
from unmask.train.loop import Trainer
from unmask.train.machine import Machine
from unmask.train.material import gather
from unmask.train.objectives import Objectives
from unmask.train.schedule import Schedule
from unmask.train.start import Start

Make = Callable[..., Recipe]
NO_DROPOUT = ["model.dropout=0.0", "model.attention_dropout=0.0", "train.clip=1e9"]
CAUSAL = ["model.causal=true", "model.family=unmask"]
KINDS = {
    "mlm": [],
    "weighted": ["objective.mlm=0.5", "batch.pairs=nsp"],
    "words": ["batch.mask.kind=word", "batch.mask.ratio=0.3"],
    "nsp": ["batch.pairs=nsp"],
    "sop": ["batch.pairs=sop"],
    "sbo": ["batch.mask.kind=span", "objective.sbo=true"],
    "causal": ["objective.causal=1.0", *CAUSAL],
    "sentences": ["batch.sentences=true"],
    "sentences, causal": ["batch.sentences=true", "objective.causal=1.0", *CAUSAL],
}


def prepare(recipe: Recipe, shards: Path, tmp_path: Path) -> tuple[Trainer, StepInput]:
    material = gather(recipe, tmp_path, Start(data=shards))
    schedule = Schedule(material.recipe, 6)
    trainer = Trainer(
        material.model(), schedule, Objectives(material.recipe), Machine(torch.device("cpu"), False)
    )
    return trainer, next(feed(material.corpus, schedule, 0, Position()))


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def norm(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def dense(x: Tensor, weights: dict[str, Tensor], name: str) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def surprise(scores: Tensor, targets: Tensor) -> Tensor:
    """Σ −log P(target), one row after the other."""
    total = scores.new_zeros(())
    for row, target in zip(scores, targets.tolist(), strict=True):
        total = total - (row[target] - row.exp().sum().log())
    return total


def reference(model: Model, batches: list[Batch], recipe: Recipe) -> Tensor:
    """The loss of a step as the formulas say it."""
    weights = dict(model.named_parameters())
    table = weights["encoder.embeddings.tokens.weight"]
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}

    def add(name: str, value: Tensor, count: int) -> None:
        sums[name], counts[name] = sums.get(name, 0) + value, counts.get(name, 0) + count

    for batch in batches:
        hidden = model.encoder(
            batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen, batch.segments, batch.causal
        )
        x = gelu(dense(hidden, weights, "heads.mlm.transform.dense"))
        scores = norm(x, weights, "heads.mlm.transform.norm") @ table.T + weights["heads.mlm.bias"]
        add("token", surprise(scores[batch.target_index], batch.target_ids), len(batch.target_ids))
        if recipe.objective.sbo:
            assert batch.spans is not None
            left, right, place = batch.spans.T
            around = [hidden[left], hidden[right], weights["heads.span.positions.weight"][place]]
            x = norm(
                gelu(dense(torch.cat(around, 1), weights, "heads.span.first")),
                weights,
                "heads.span.first_norm",
            )
            x = norm(gelu(dense(x, weights, "heads.span.second")), weights, "heads.span.second_norm")
            scores = x @ table.T + weights["heads.span.bias"]
            add("sbo", surprise(scores, batch.target_ids), len(batch.target_ids))
        if batch.pair_labels is not None:
            paired = batch.pair_labels >= 0
            pooled = torch.tanh(dense(hidden[batch.cu_seqlens[:-1]], weights, "heads.pooler.dense"))
            scores = dense(pooled, weights, f"heads.{recipe.batch.pairs}")
            add("pair", surprise(scores[paired], batch.pair_labels[paired]), int(paired.sum()))
    share = recipe.objective.mlm if not batches[0].causal else 1.0
    return sum(value / counts[name] * (share if name == "token" else 1) for name, value in sums.items())


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_those_of_the_formula(
    kind: str, small: Make, shards: Path, tmp_path: Path
) -> None:
    recipe = small(*NO_DROPOUT, *KINDS[kind])
    trainer, inputs = prepare(recipe, shards, tmp_path)
    assert len(inputs.batches) == 2
    assert len({len(batch.target_ids) for batch in inputs.batches}) == 2, (
        "micro-batches should differ in size"
    )
    plain = Model(trainer.model.config, trainer.model.heads).double()
    plain.load_state_dict(trainer.model.state_dict())
    record = next(trainer.run([inputs]))
    expected = reference(plain, inputs.batches, recipe)
    expected.backward()
    assert record.loss == pytest.approx(expected.item(), rel=1e-6)
    wanted = {name: weight.grad for name, weight in plain.named_parameters()}
    assert all(grad is not None for grad in wanted.values()), "every weight takes part"
    size = math.sqrt(sum(grad.square().sum().item() for grad in wanted.values() if grad is not None))
    assert record.grad_norm == pytest.approx(size, rel=1e-5)
    for name, weight in trainer.model.named_parameters():
        assert weight.grad is not None
        torch.testing.assert_close(weight.grad.double(), wanted[name], rtol=1e-3, atol=1e-6 * size, msg=name)


def test_accumulation_changes_nothing(small: Make, shards: Path, tmp_path: Path) -> None:
    losses = []
    for micro in (48, 96, 384):
        recipe = small(*NO_DROPOUT, "batch.pairs=nsp", f"train.micro_tokens={micro}")
        trainer, inputs = prepare(recipe, shards, tmp_path)
        losses.append((len(inputs.batches), next(trainer.run([inputs]))))
    assert [count for count, _ in losses] == [8, 4, 1]
    for _, record in losses[1:]:
        assert record.loss == pytest.approx(losses[0][1].loss, rel=1e-6)
        assert record.grad_norm == pytest.approx(losses[0][1].grad_norm, rel=1e-5)
        assert record.accuracy == pytest.approx(losses[0][1].accuracy)


def test_a_hybrid_has_both_kinds_of_steps(small: Make, shards: Path, tmp_path: Path) -> None:
    recipe = small("objective.causal=0.5", "train.steps=40")
    schedule = Schedule(recipe, 40)
    parts = [
        set(Objectives(recipe).counts(each.batches[0]))
        for each in feed(Corpus.open(shards), schedule, 0, Position())
    ]
    assert {"mlm"} in parts
    assert {"next"} in parts
    assert parts == [{"next"} if schedule.objective(step).kind == "causal" else {"mlm"} for step in range(40)]


def test_accuracy_by_kind_is_of_that_kind(small: Make, shards: Path, tmp_path: Path) -> None:
    trainer, inputs = prepare(small(*NO_DROPOUT, "batch.mask.ratio=0.4"), shards, tmp_path)
    right: dict[int, list[bool]] = {0: [], 1: [], 2: []}
    with torch.no_grad():
        for batch in inputs.batches:
            hidden = trainer.model.encoder(batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen)
            guess = trainer.model.mlm(hidden[batch.target_index]).argmax(-1)
            for kind, hit in zip(
                batch.target_kind.tolist(), (guess == batch.target_ids).tolist(), strict=True
            ):
                right[kind].append(hit)
    record = next(trainer.run([inputs]))
    for kind, name in enumerate(("masked", "random", "kept")):
        assert record.accuracy[name] == pytest.approx(sum(right[kind]) / len(right[kind]))
