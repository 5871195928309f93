"""The loss on held-out text with masks that never change: overall, by kind of hiding, by language."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from unmask.config import Recipe
from unmask.data.batches import Batch, Batches, Objective
from unmask.data.packing import Documents
from unmask.model.network import Model
from unmask.train import parallel
from unmask.train.loop import KINDS
from unmask.train.machine import Machine
from unmask.train.objectives import Objectives


@dataclass(frozen=True, slots=True)
class Validation:
    """What a model scored."""

    loss: float
    """Of the main objective: hidden tokens, or next tokens if the model is causal alone."""
    parts: dict[str, float]
    accuracy: dict[str, float]
    languages: dict[str, dict[str, float]]


class Validator:
    """Scores models on the same batches every time."""

    def __init__(self, corpus: Documents, recipe: Recipe, machine: Machine) -> None:
        self._objectives, self._machine = Objectives(recipe), machine
        self._names = corpus.language_names
        self._main = "next" if recipe.objective.causal == 1 else "mlm" if recipe.objective.mlm else "sbo"
        self._batches = list(_batches(corpus, recipe))

    @torch.no_grad()
    def __call__(self, model: Model) -> Validation:
        """Score a model."""
        model.eval()
        sums: dict[str, npt.NDArray[np.float64]] = {}
        for batch in self._batches:
            with self._machine.autocast():
                outcomes = self._objectives(model, batch.to(self._machine.device))
            counts = self._objectives.counts(batch)
            for part, outcome in outcomes.items():
                losses, right = outcome.losses.cpu().double().numpy(), outcome.correct.cpu().numpy()
                _add(sums, part, losses.sum(), right.sum(), counts[part])
                if part == "mlm":
                    _add_groups(sums, losses, right, batch.target_kind.numpy(), KINDS)
                if part == self._main:
                    names = [f"language {name}" for name in self._names]
                    _add_groups(sums, losses, right, _languages(batch), names)
        return self._result(_agreed(sums, self._machine.device))

    def _result(self, sums: dict[str, npt.NDArray[np.float64]]) -> Validation:
        means = {name: values[:2] / values[2] for name, values in sums.items() if values[2]}
        parts = {n: float(m[0]) for n, m in means.items() if n not in KINDS and not n.startswith("language ")}
        accuracy = {n: float(m[1]) for n, m in means.items() if not n.startswith("language ")}
        languages = {
            name.removeprefix("language "): {"loss": float(mean[0]), "accuracy": float(mean[1])}
            for name, mean in means.items()
            if name.startswith("language ")
        }
        return Validation(parts.get(self._main, float("nan")), parts, accuracy, languages)


def _batches(corpus: Documents, recipe: Recipe) -> Iterator[Batch]:
    """The first `eval_tokens` of the split, for each objective that the recipe trains."""
    length = recipe.train.stages[-1].length if recipe.train.stages else recipe.batch.length
    config = recipe.batch.model_copy(update={"length": length})
    batches = Batches(corpus, config, recipe.seed, parallel.rank(), parallel.ranks())
    causal = recipe.objective.causal
    for objective in ([None] if causal < 1 else []) + ([Objective("causal")] if causal else []):
        taken = 0
        for batch in batches.one_pass(max(1, recipe.train.micro_tokens // length), objective=objective):
            yield batch
            taken += len(batch.ids)
            if taken * parallel.ranks() >= recipe.train.eval_tokens:
                break


def _languages(batch: Batch) -> npt.NDArray[np.int64]:
    """The language of each target."""
    sequence = torch.searchsorted(batch.cu_seqlens, batch.target_index.int(), right=True) - 1
    return batch.languages[sequence].numpy()


def _add(sums: dict[str, npt.NDArray[np.float64]], name: str, *values: float) -> None:
    sums[name] = sums.get(name, np.zeros(3)) + values


def _add_groups(
    sums: dict[str, npt.NDArray[np.float64]],
    losses: npt.NDArray[np.float64],
    right: npt.NDArray[np.bool_],
    groups: npt.NDArray[np.integer],
    names: tuple[str, ...] | list[str],
) -> None:
    for number, name in enumerate(names):
        mine = groups == number
        _add(sums, name, losses[mine].sum(), right[mine].sum(), mine.sum())


def _agreed(
    sums: dict[str, npt.NDArray[np.float64]], device: torch.device
) -> dict[str, npt.NDArray[np.float64]]:
    """Sums over all ranks."""
    flat = parallel.total(np.concatenate(list(sums.values())).tolist() if sums else [], device)
    return dict(zip(sums, np.array(flat).reshape(-1, 3), strict=True))
