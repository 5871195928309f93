"""Losses of tasks, for the training loop.

n examples or words · S sequences · C classes
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from unmask.model.network import Model, reduce_rows
from unmask.predict.answer import answer_scores
from unmask.predict.batching import Pack
from unmask.predict.classify import class_scores
from unmask.predict.tag import tag_scores
from unmask.tasks.batches import TaskBatch
from unmask.train.objectives import Outcome

Head = Literal["classify", "tag", "answer"]


class TaskLoss:
    """The loss of one head, the mean over examples (classify), words (tag) or windows (answer)."""

    def __init__(self, head: Head, weights: Tensor | None = None, frozen: bool = False) -> None:
        self._head, self._weights, self._frozen = head, weights, frozen

    def weight(self, part: str) -> float:
        """There is one part."""
        return 1.0

    def counts(self, batch: TaskBatch) -> dict[str, int]:
        """How many predictions a batch makes."""
        return {self._head: len(batch.target_ids)}

    def __call__(self, model: Model, batch: TaskBatch) -> dict[str, Outcome]:
        """The predictions of a batch."""
        if self._frozen:
            model.encoder.eval()  # what does not learn needs no dropout
        lengths = tuple(batch.cu_seqlens.diff().tolist())
        packed = Pack(batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen, batch.segments, lengths)
        if self._head == "answer":
            return {self._head: _ends(answer_scores(model, packed), batch.target_ids, lengths)}
        if self._head == "tag":
            scores = tag_scores(model, packed, batch.target_index)
        else:
            scores = class_scores(model, packed).float()
            if batch.windows is not None:
                scores = reduce_rows(scores, batch.windows, "mean")
        return {self._head: self._outcome(scores.float(), batch.target_ids, model.config.problem)}

    def _outcome(self, scores: Tensor, targets: Tensor, problem: str) -> Outcome:
        if problem == "regression":
            return Outcome((scores[:, 0] - targets) ** 2, torch.zeros_like(targets, dtype=torch.bool))
        if problem == "multi":
            weights = None if self._weights is None else self._weights.to(scores.device)
            losses = F.binary_cross_entropy_with_logits(scores, targets, reduction="none", pos_weight=weights)
            return Outcome(losses.mean(1), ((scores > 0) == (targets > 0)).all(1))
        losses = F.cross_entropy(scores, targets, reduction="none")
        if self._weights is not None:
            losses = losses * self._weights.to(losses.device)[targets]
        return Outcome(losses, scores.argmax(-1) == targets)


def _ends(scores: Tensor, targets: Tensor, lengths: tuple[int, ...]) -> Outcome:
    """Begin and end (S, 2) among the tokens of each sequence."""
    grid = pad_sequence(list(torch.split(scores.float(), list(lengths))), True, float("-inf"))  # (S, n, 2)
    losses = F.cross_entropy(grid, targets, reduction="none").mean(1)
    return Outcome(losses, (grid.argmax(1) == targets).all(1))
