"""Losses over the pairs of a batch: each text should find its own among all the others.

n pairs · T tokens · D width
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from unmask.errors import InputError
from unmask.model.network import Model, reduce_rows
from unmask.predict.windows import Window
from unmask.tasks.batches import Item, TaskBatch
from unmask.tasks.examples import TextExample, second_texts
from unmask.train.objectives import Outcome

Contrast = Literal["pairs", "scores", "texts"]
"""Pairs that mean the same, pairs with a score, or texts alone, each with itself under other dropout."""


def contrast_of(examples: Sequence[TextExample]) -> Contrast:
    """What can be learnt from these examples."""
    if second_texts(examples) is None:
        return "texts"
    scored = [isinstance(e.target, int | float) and math.isfinite(e.target) for e in examples]
    if all(example.target is None for example in examples):
        return "pairs"
    if not all(scored):
        wrong = examples[scored.index(False)]
        raise InputError(
            f"{wrong.place or wrong.text[:40]!r} has no number as its score: give all one, or none"
        )
    return "scores"


def contrast_items(
    examples: Sequence[TextExample], ids: Sequence[NDArray[np.int64]], pair_ids: Sequence[NDArray[np.int64]]
) -> list[Item]:
    """Units of training: two sequences, and their score or the numbers by which equal texts are known."""
    numbers: dict[str, int] = {}
    items = []
    for example, first, second in zip(examples, ids, pair_ids, strict=True):
        if not isinstance(example.target, int | float):
            texts = (example.text, example.text if example.pair is None else example.pair)
            targets = np.array([[numbers.setdefault(text, len(numbers)) for text in texts]], np.int64)
        else:
            targets = np.array([example.target], np.float32)
        items.append(Item([_window(first), _window(second)], targets))
    return items


class ContrastLoss:
    """In-batch negatives (pairs, texts), or the order of the scores (CoSENT); on means over the tokens."""

    def __init__(self, contrast: Contrast, temperature: float) -> None:
        self._contrast, self._temperature = contrast, temperature

    def weight(self, part: str) -> float:
        """There is one part."""
        return 1.0

    def counts(self, batch: TaskBatch) -> dict[str, int]:
        """How many pairs a batch has."""
        return {"contrast": len(batch.target_ids)}

    def __call__(self, model: Model, batch: TaskBatch) -> dict[str, Outcome]:
        """The loss of each pair, and whether a text is nearest to its own."""
        hidden = model.encoder(batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen, batch.segments)
        vectors = reduce_rows(hidden.float(), batch.cu_seqlens.diff(), "mean")  # (2n, D)
        first, second = F.normalize(vectors, dim=1).view(-1, 2, vectors.shape[1]).unbind(1)
        if self._contrast == "scores":
            losses = ordered((first * second).sum(1) / self._temperature, batch.target_ids)
            return {"contrast": Outcome(losses, torch.zeros_like(losses, dtype=torch.bool))}
        scores = first @ second.T / self._temperature  # (n, n)
        scores = scores.masked_fill(_repeated(batch.target_ids), float("-inf"))
        own = torch.arange(len(scores), device=scores.device)
        both = (F.cross_entropy(side, own, reduction="none") for side in (scores, scores.T))
        return {"contrast": Outcome(torch.stack(list(both)).mean(0), scores.argmax(1) == own)}


def ordered(cosines: Tensor, truth: Tensor) -> Tensor:
    """CoSENT: log(1 + Σ exp(c_j − c_i)) over the pairs with truth_i > truth_j, the same for each (n)."""
    gaps = cosines[None, :] - cosines[:, None]  # (i, j): c_j − c_i
    wrong = gaps[truth[:, None] > truth[None, :]]
    return torch.logsumexp(torch.cat((wrong.new_zeros(1), wrong)), 0).expand(len(cosines))


def _repeated(numbers: Tensor) -> Tensor:
    """Where another pair of the batch (n, n) holds one of this pair's texts, so that it is no negative."""
    first, second = numbers.unbind(1)
    same = torch.zeros(len(numbers), len(numbers), dtype=torch.bool, device=numbers.device)
    for mine in (first, second):
        for other in (first, second):
            same |= mine[:, None] == other[None, :]
    return same.fill_diagonal_(False)


def _window(ids: NDArray[np.int64]) -> Window:
    return Window(ids, np.zeros_like(ids), np.arange(len(ids)))
