"""The loss on held-out text with masks that never change: by kind of hiding, by language, by frequency."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from unmask.config import Recipe
from unmask.data.batches import Batch, Batches, Objective
from unmask.data.masking import Ints
from unmask.data.packing import Documents
from unmask.model.network import Model
from unmask.train import parallel
from unmask.train.frequency import Bands
from unmask.train.loop import KINDS
from unmask.train.machine import Machine
from unmask.train.objectives import Objectives, Outcome
from unmask.train.schedule import micro_batches

Scores = dict[str, dict[str, float]]
Sums = dict[tuple[str, str], npt.NDArray[np.float64]]
"""(what the predictions are grouped by, name of the group) -> sum of losses, number right, number."""


@dataclass(frozen=True, slots=True)
class Validation:
    """What a model scored."""

    loss: float
    """Of the main objective: hidden tokens, or next tokens if the model is causal alone."""
    parts: dict[str, float]
    accuracy: dict[str, float]
    languages: Scores
    """Loss and accuracy of the main objective in each language."""
    frequency: Scores
    """The same by the rank of the right token among all by frequency in the training text."""
    guess: float
    """The accuracy that the commonest token of the training text would have."""


class Validator:
    """Scores models on the same batches every time; `counts` are of the training text's tokens."""

    def __init__(self, corpus: Documents, recipe: Recipe, machine: Machine, counts: Ints) -> None:
        self._objectives, self._machine = Objectives(recipe), machine
        self._languages, self._bands = corpus.language_names, Bands.cut(counts)
        self._main = "next" if recipe.objective.causal == 1 else "mlm" if recipe.objective.mlm else "sbo"
        self._every = list(validation_batches(corpus, recipe))
        parts = dict.fromkeys(part for batch in self._every for part in self._objectives.counts(batch))
        self._groups = [
            *(("part", part) for part in parts),
            *(("kind", kind) for kind in KINDS),
            *(("language", name) for name in self._languages),
            *(("frequency", name) for name in self._bands.names),
        ]
        targets = np.concatenate(
            [b.target_ids.numpy() for b in self._every if b.causal == (self._main == "next")]
        )
        self._guess = float(np.mean(targets == self._bands.commonest))

    @torch.no_grad()
    def __call__(self, model: Model) -> Validation:
        """Score a model."""
        model.eval()
        sums: Sums = {group: np.zeros(3) for group in self._groups}
        ranks, mine = parallel.ranks(), self._every[parallel.rank() :: parallel.ranks()]
        for number in range(math.ceil(len(self._every) / ranks)):
            # All ranks compute equally often, as a model that is divided among them needs all of them.
            batch = mine[number] if number < len(mine) else self._every[0]
            with self._machine.autocast():
                outcomes = model(self._objectives, batch.to(self._machine.device))
            if number < len(mine):
                self._add(sums, batch, outcomes)
        return self._result(_agreed(sums))

    def _add(self, sums: Sums, batch: Batch, outcomes: dict[str, Outcome]) -> None:
        counts = self._objectives.counts(batch)
        for part, outcome in outcomes.items():
            losses, right = outcome.losses.cpu().double().numpy(), outcome.correct.cpu().numpy()
            sums["part", part] += losses.sum(), right.sum(), counts[part]
            if part == "mlm":
                _add_groups(sums, "kind", KINDS, batch.target_kind.numpy(), losses, right)
            if part == self._main:
                bands = self._bands.of[batch.target_ids.numpy()]
                _add_groups(sums, "language", self._languages, _languages(batch), losses, right)
                _add_groups(sums, "frequency", self._bands.names, bands, losses, right)

    def _result(self, sums: Sums) -> Validation:
        means: dict[str, Scores] = {"part": {}, "kind": {}, "language": {}, "frequency": {}}
        for (group, name), (loss, right, count) in sums.items():
            if count:
                means[group][name] = {"loss": float(loss / count), "accuracy": float(right / count)}
        parts = {name: score["loss"] for name, score in means["part"].items()}
        accuracy = {name: score["accuracy"] for name, score in (means["part"] | means["kind"]).items()}
        return Validation(
            loss=parts.get(self._main, math.nan),
            parts=parts,
            accuracy=accuracy,
            languages=means["language"],
            frequency=means["frequency"],
            guess=self._guess,
        )


def validation_batches(corpus: Documents, recipe: Recipe) -> Iterator[Batch]:
    """The first `eval_tokens` of the split, for each objective that the recipe trains."""
    length = recipe.train.stages[-1].length if recipe.train.stages else recipe.batch.length
    config = recipe.batch.model_copy(update={"length": length})
    batches = Batches(corpus, config, recipe.seed)
    causal = recipe.objective.causal
    # How much a device takes at once decides how the text is cut, not how much of it is taken.
    units = batches.units_holding(recipe.train.eval_tokens)
    sizes = micro_batches(units, length, recipe.train.micro_tokens, 1)
    for objective in ([None] if causal < 1 else []) + ([Objective("causal")] if causal else []):
        yield from batches.one_pass(sizes, objective=objective)


def _languages(batch: Batch) -> Ints:
    """The language of each target."""
    sequence = torch.searchsorted(batch.cu_seqlens, batch.target_index.int(), right=True) - 1
    return batch.languages[sequence].numpy()


def _add_groups(
    sums: Sums,
    group: str,
    names: Sequence[str],
    of: npt.NDArray[np.integer],
    losses: npt.NDArray[np.float64],
    right: npt.NDArray[np.bool_],
) -> None:
    """Add to each named group the predictions that belong to it."""
    columns = (np.bincount(of, values, minlength=len(names)) for values in (losses, right, np.ones(len(of))))
    for name, *values in zip(names, *columns, strict=True):
        sums[group, name] += values


def _agreed(sums: Sums) -> Sums:
    """Sums over all ranks."""
    flat = parallel.total(np.concatenate(list(sums.values())).tolist())
    return dict(zip(sums, np.array(flat).reshape(-1, 3), strict=True))
