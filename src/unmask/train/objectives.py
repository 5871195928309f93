"""Losses of the predictions a batch asks for; the heads run on those positions alone.

T tokens · M targets · S sequences · V vocabulary
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.config import Recipe
from unmask.data.batches import Batch
from unmask.data.pairs import NO_PAIR
from unmask.model.network import Model


@dataclass(frozen=True, slots=True)
class Outcome:
    """One part of the loss: each prediction's −log P, and whether the likeliest was right."""

    losses: Tensor  # f32 (n), 0 where there is nothing to predict
    correct: Tensor  # bool (n)


class Objectives:
    """The parts of a recipe's loss: `mlm` or `next`, and where asked `sbo`, `nsp` or `sop`."""

    def __init__(self, recipe: Recipe) -> None:
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
        return self._mlm if part == "mlm" else 1.0

    def counts(self, batch: Batch) -> dict[str, int]:
        """How many predictions each part makes; known without the model."""
        targets = len(batch.target_ids)
        if batch.causal:
            return {"next": targets}
        counts = {"mlm": targets} if self._mlm else {}
        if self._sbo:
            counts["sbo"] = targets
        if batch.pair_labels is not None:
            counts[self._pairs] = int((batch.pair_labels != NO_PAIR).sum())
        return counts

    def __call__(self, model: Model, batch: Batch) -> dict[str, Outcome]:
        """Each part's predictions."""
        hidden = model.encoder(
            batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen, batch.segments, batch.causal
        )  # (T, D)
        outcomes = {}
        if batch.causal or self._mlm:
            scores = model.mlm(hidden[batch.target_index])  # (M, V)
            outcomes["next" if batch.causal else "mlm"] = _outcome(scores, batch.target_ids)
        if self._sbo and not batch.causal:
            assert batch.spans is not None
            outcomes["sbo"] = _outcome(model.span(hidden, batch.spans), batch.target_ids)
        if batch.pair_labels is not None:
            scores = model.pair(hidden, batch.cu_seqlens, self._pairs)  # (S, 2)
            outcomes[self._pairs] = _outcome(scores, batch.pair_labels)
        return outcomes


def _outcome(scores: Tensor, targets: Tensor) -> Outcome:
    losses = F.cross_entropy(scores.float(), targets, reduction="none", ignore_index=NO_PAIR)
    with torch.no_grad():
        correct = scores.argmax(-1) == targets
    return Outcome(losses, correct)
