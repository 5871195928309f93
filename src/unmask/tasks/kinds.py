"""What the kinds of task have in common, and how a validation comes out."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.settings import TaskSettings
from unmask.predict.tasks import TaskModel
from unmask.tasks.batches import Item
from unmask.tasks.metrics import Calibration, ClassScore, Scores
from unmask.tasks.objective import Head
from unmask.text.split import text_hash
from unmask.tokenizer import Tokenizer

MISTAKES = 20


@dataclass(frozen=True, slots=True)
class Mistake:
    """A wrong answer, and how sure the model was of it."""

    text: str
    truth: str
    predicted: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often each class (row) was taken for each (column)."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a model did on labelled examples; the details only where they were asked for."""

    scores: Scores
    classes: tuple[ClassScore, ...] = ()
    confusion: Confusion | None = None
    calibration: Calibration | None = None
    mistakes: tuple[Mistake, ...] = ()
    """The most confident ones first."""


class TaskKind(Protocol):
    """One kind of task with the labels of its training examples."""

    head: Head
    metric: str
    """The score that decides, unless the settings name another."""
    metrics: tuple[str, ...]
    """All scores it gives."""

    @property
    def changes(self) -> dict[str, Any]:
        """Settings of the model for its new head."""

    @property
    def weights(self) -> Tensor | None:
        """How much each class counts if all are to count alike."""

    def check(self, examples: Sequence[Any]) -> None:
        """An error if examples have labels that the training had not."""

    def predictor(self, model: Model, tokenizer: Tokenizer, settings: TaskSettings) -> TaskModel:
        """The model as it will answer."""

    def prepare(self, predictor: Any, examples: Sequence[Any]) -> list[Any]:
        """Examples as windows."""

    def items(self, prepared: Sequence[Any], examples: Sequence[Any]) -> list[Item]:
        """Units of training."""

    def evaluate(
        self, predictor: Any, prepared: Sequence[Any], examples: Sequence[Any], details: bool = False
    ) -> Evaluation:
        """Score the model."""

    def finish(self, model: Model) -> None:
        """The last touch before the model is saved."""


Any_ = TypeVar("Any_")


def hold_out(
    examples: Sequence[Any_],
    share: float,
    text: Callable[[Any_], str],
    stratum: Callable[[Any_], Hashable] = lambda example: None,
) -> tuple[list[Any_], list[Any_]]:
    """Training and validation examples: of each stratum the share with the lowest hashes of their texts.

    Equal texts stay together, and adding examples moves few.
    """
    strata: dict[Hashable, list[int]] = {}
    hashes = [text_hash(text(example)) for example in examples]
    for number, example in enumerate(examples):
        strata.setdefault(stratum(example), []).append(hashes[number])
    limits = {}
    for name, found in strata.items():
        distinct = sorted(set(found))
        count = min(round(share * len(distinct)) or len(distinct) > 1, len(distinct) - 1)
        limits[name] = distinct[count]
    held = [value < limits[stratum(example)] for value, example in zip(hashes, examples, strict=True)]
    if not any(held) or all(held):
        raise InputError("too few examples to hold some out for validation: give a validation file")
    train = [example for example, out in zip(examples, held, strict=True) if not out]
    return train, [example for example, out in zip(examples, held, strict=True) if out]


def balanced(counts: Sequence[int]) -> Tensor:
    """Weights with which all classes count alike and the mean example counts 1."""
    array = np.maximum(np.asarray(counts, np.float64), 1)
    return torch.from_numpy(array.sum() / (len(array) * array)).float()


def worst(mistakes: Sequence[Mistake]) -> tuple[Mistake, ...]:
    """The mistakes of which the model was surest."""
    return tuple(sorted(mistakes, key=lambda mistake: -mistake.confidence)[:MISTAKES])
