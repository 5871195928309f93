"""What the kinds of task have in common, and how a validation comes out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
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


@dataclass(frozen=True, slots=True)
class Baseline:
    """What giving every example the same answer scores."""

    answer: str
    scores: Scores


class TaskKind(Protocol):
    """One kind of task with the labels of its training examples."""

    head: Head
    metric: str
    """The score that decides, unless the settings name another."""
    metrics: tuple[str, ...]
    """The scores that may decide, the higher the better."""

    @property
    def meanings(self) -> Mapping[str, str]:
        """What each score is of, in words."""

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

    def baseline(self, examples: Sequence[Any]) -> Baseline:
        """The scores of the answer that is the commonest in training, given to all of these."""

    def finish(self, model: Model) -> None:
        """The last touch before the model is saved."""


Any_ = TypeVar("Any_")


def hold_out(
    examples: Sequence[Any_],
    share: float,
    text: Callable[[Any_], str],
    labels: Callable[[Any_], Sequence[str]],
) -> tuple[list[Any_], list[Any_]]:
    """Training and validation examples: a share of all, of each class those with the lowest hashes.

    Equal texts stay together, every label is among those of the training, and adding examples moves few.
    """
    hashes = [text_hash(text(example)) for example in examples]
    said = [labels(example) for example in examples]
    single = all(len(each) == 1 for each in said)
    firsts: dict[int, str | None] = {}
    for value, each in zip(hashes, said, strict=True):
        firsts.setdefault(value, each[0] if single else None)
    strata: dict[str | None, list[int]] = {}
    for value, name in firsts.items():
        strata.setdefault(name, []).append(value)
    held: set[int] = set()
    seats = _seats({name: len(found) for name, found in strata.items()}, round(share * len(firsts)))
    for name, count in seats.items():
        held.update(sorted(strata[name])[:count])
    known = {name for value, each in zip(hashes, said, strict=True) if value not in held for name in each}
    for value, each in zip(hashes, said, strict=True):
        if value in held and not known.issuperset(each):  # it is needed to learn from
            held.remove(value)
            known.update(each)
    if not held:
        raise InputError("too few examples to hold some out for validation: give a validation file")
    rows = list(zip(hashes, examples, strict=True))
    train = [example for value, example in rows if value not in held]
    return train, [example for value, example in rows if value in held]


def _seats(sizes: Mapping[str | None, int], total: int) -> Counter[str | None]:
    """How many to hold out of each class: where there are enough, every class has one before any has two.

    The next is of the class of which the least share would be; at least one of each is left.
    """
    seats: Counter[str | None] = Counter()
    queue = [(0.0, -size, text_hash(name or ""), name) for name, size in sizes.items() if size > 1]
    heapify(queue)
    for _ in range(max(total, 1)):
        if not queue:
            break
        _, size, mark, name = heappop(queue)
        seats[name] += 1
        if seats[name] < -size - 1:
            heappush(queue, ((seats[name] + 0.5) / -size, size, mark, name))
    return seats


def balanced(counts: Sequence[int]) -> Tensor:
    """Weights with which all classes count alike and the mean example counts 1."""
    array = np.maximum(np.asarray(counts, np.float64), 1)
    return torch.from_numpy(array.sum() / (len(array) * array)).float()


def worst(mistakes: Sequence[Mistake]) -> tuple[Mistake, ...]:
    """The mistakes of which the model was surest."""
    return tuple(sorted(mistakes, key=lambda mistake: -mistake.confidence)[:MISTAKES])
