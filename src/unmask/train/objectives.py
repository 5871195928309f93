"""Losses of the predictions a batch asks for; the heads run on those positions alone.

T tokens · M targets · S sequences · V vocabulary
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.config import ModelConfig, Recipe
from unmask.data.batches import Batch
from unmask.data.pairs import NO_PAIR
from unmask.model.network import Model
from unmask.train.teachers import asked, mean_distribution
from unmask.train.work import operations


class Outcome(NamedTuple):
    """One part of the loss: each prediction's −log P, and whether the likeliest was right."""

    losses: Tensor  # f32 (n), 0 where there is nothing to predict
    correct: Tensor  # bool (n)


class Losses(Protocol):
    """What the training loop asks of an objective; `batch` is of the kind the objective knows."""

    def weight(self, part: str) -> float:
        """How much a part counts in the whole loss."""

    def counts(self, batch: Any) -> dict[str, int]:
        """How many predictions each part makes; known without the model."""

    def __call__(self, model: Model, batch: Any) -> dict[str, Outcome]:
        """Each part's predictions."""


class Objectives:
    """The parts of a recipe's loss: `mlm` or `next`, and where asked `sbo`, `nsp`, `sop` or `taught`."""

    def __init__(self, recipe: Recipe, compiled: bool = False, teachers: Sequence[Model] = ()) -> None:
        self._outcome = torch.compile(_outcome, dynamic=True) if compiled else _outcome
        self._agreement = torch.compile(_agreement, dynamic=True) if compiled else _agreement
        self._teachers, self._teach = teachers, recipe.objective.teach
        self._pairs = recipe.batch.pairs
        self._sbo = recipe.objective.sbo
        self._mlm = recipe.objective.mlm

    @property
    def heads(self) -> list[str]:
        """The heads a model needs to be trained so."""
        return [
            "mlm", *(["span"] if self._sbo else []), *([self._pairs] if self._pairs != "none" else [])
        ]  # fmt: skip

    def weight(self, part: str) -> float:
        """How much a part counts in the whole loss."""
        return {"mlm": self._mlm, "taught": self._teach}.get(part, 1.0)

    def counts(self, batch: Batch) -> dict[str, int]:
        """How many predictions each part makes; known without the model."""
        targets = len(batch.target_ids)
        if batch.causal:
            return {"next": targets}
        counts = {"mlm": targets} if self._mlm else {}
        if self._teachers:
            counts["taught"] = targets
        if self._sbo:
            counts["sbo"] = targets
        if batch.pair_labels is not None:
            counts[self._pairs] = int((batch.pair_labels != NO_PAIR).sum())
        return counts

    def __call__(self, model: Model, batch: Batch) -> dict[str, Outcome]:
        """Each part's predictions."""
        given = (
            batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen, batch.segments, batch.causal
        )  # fmt: skip
        if batch.causal:  # nearly every token predicts
            hidden = model.encoder(*given, page=batch.page)[batch.target_index]
            return {"next": self._outcome(model.mlm(hidden), batch.target_ids)}
        rows = self._rows(batch)
        hidden = model.encoder(*given, rows=torch.cat(list(rows.values())), page=batch.page)
        read = dict(zip(rows, hidden.split([len(each) for each in rows.values()]), strict=True))
        outcomes = {}
        if self._mlm:
            scores = model.mlm(read["targets"])  # (M, V)
            outcomes["mlm"] = self._outcome(scores, batch.target_ids)
            if self._teachers:
                theirs = asked(self._teachers, batch)
                outcomes["taught"] = self._agreement(scores, theirs, batch.target_ids)
        if batch.spans is not None and self._sbo:
            scores = model.span(read["before"], read["after"], batch.spans[:, 2])  # (M, V)
            outcomes["sbo"] = self._outcome(scores, batch.target_ids)
        if batch.pair_labels is not None:
            scores = model.pair(read["first"], self._pairs)  # (S, 2)
            outcomes[self._pairs] = self._outcome(scores, batch.pair_labels)
        return outcomes

    def operations(self, config: ModelConfig, batch: Batch) -> float:
        """Of the matrix products with a batch; teachers only go forward, a third of the work."""
        rows = len(batch.ids) if batch.causal else sum(map(len, self._rows(batch).values()))
        targets = len(batch.target_ids)
        taught = sum(operations(teacher.config, batch, targets) / 3 for teacher in self._teachers)
        return operations(config, batch, rows) + taught

    def _rows(self, batch: Batch) -> dict[str, Tensor]:
        """The tokens whose vectors the heads read."""
        rows = {"targets": batch.target_index} if self._mlm else {}
        if batch.spans is not None and self._sbo:
            rows |= {"before": batch.spans[:, 0], "after": batch.spans[:, 1]}
        if batch.pair_labels is not None:
            rows["first"] = batch.cu_seqlens[:-1].long()
        return rows


def _outcome(scores: Tensor, targets: Tensor) -> Outcome:
    scores = scores.float()  # once: in bfloat16 a processor takes four times as long to find the largest
    losses = F.cross_entropy(scores, targets, reduction="none", ignore_index=NO_PAIR)
    with torch.no_grad():
        correct = scores.argmax(-1) == targets
    return Outcome(losses, correct)


def _agreement(scores: Tensor, theirs: list[Tensor], targets: Tensor) -> Outcome:
    """−Σ q log P, where q is the mean of what teachers expect, and whether the likeliest is theirs."""
    expected = mean_distribution(theirs, scores.shape[1])
    losses = F.cross_entropy(scores.float(), expected, reduction="none")
    with torch.no_grad():
        correct = scores.argmax(-1) == expected.argmax(-1)
    there = targets != NO_PAIR
    return Outcome(losses * there, correct & there)
