"""Against forgetting: masked-LM steps on plain text between those of a task; and how much is forgotten."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.checkpoint import load_model
from unmask.config import BatchConfig, Recipe, TextConfig
from unmask.data.batches import Batch, Batches
from unmask.data.encode import Encoder
from unmask.data.masking import Ints
from unmask.data.plan import Position
from unmask.data.prepare import tokenizer_facts
from unmask.data.shards import Special, ranges
from unmask.errors import InputError, ModelError
from unmask.model.network import Model
from unmask.model.weights import LoadReport
from unmask.tasks.batches import TaskBatch, TaskFeed
from unmask.text import Cleaner, Source, find_sources, read_documents
from unmask.tokenizer import Tokenizer
from unmask.train.feed import StepInput
from unmask.train.machine import Machine
from unmask.train.objectives import Losses, Objectives, Outcome

_LENGTH = 128  # tokens of the longest sequence
_UNITS = 32  # sequences of a batch when the loss is measured
_TOGETHER = 100  # documents tokenised at once
REPLAYED = 1 << 24  # tokens that are read of a replayed text
MEASURED = 1 << 17  # tokens of the text on which forgetting is measured


@dataclass(frozen=True, slots=True)
class Forgetting:
    """The masked-LM loss on plain text, before and after a fine-tuning."""

    before: float
    after: float
    predicted: int
    """Tokens that were hidden and predicted, the same ones both times."""
    replayed: bool = False
    """The text was replayed in the training, which so learnt what it is asked."""

    @property
    def of(self) -> str:
        """In words, which text."""
        return "the replayed text, which says less of any other" if self.replayed else "plain text"


class PlainText:
    """The documents of a text file in memory, as batches take them."""

    language_names: tuple[str, ...] = ("",)

    def __init__(self, path: Path | str, tokenizer: Tokenizer, tokens: int) -> None:
        facts = tokenizer_facts(tokenizer)
        self.vocab_size: int = facts["vocab_size"]
        self.special = Special(**facts["special"] | {"all": tuple(facts["special"]["all"])})
        parts = list(_encoded(path, tokenizer, tokens))
        if not sum(int(lengths.sum()) for _, _, lengths in parts):
            raise InputError(f"{path} holds no text to read")
        self._ids, self._flags, self.lengths = (np.concatenate(each) for each in zip(*parts, strict=True))
        self._bounds = np.concatenate(([0], np.cumsum(self.lengths)))
        self.document_count = len(self.lengths)
        self.languages = np.zeros(self.document_count, np.uint16)

    def document(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ids and flags of one document."""
        where = slice(self._bounds[number], self._bounds[number + 1])
        return self._ids[where], self._flags[where]

    def parts(self, pieces: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ids and flags of pieces of documents, one after the other."""
        where = ranges(self._bounds[pieces[:, 0]] + pieces[:, 1], pieces[:, 2] - pieces[:, 1])
        return self._ids[where], self._flags[where]


class PlainBatches:
    """Masked-LM batches of a text, for a model that takes so many positions."""

    def __init__(self, documents: PlainText, positions: int, seed: int) -> None:
        self.length = min(_LENGTH, positions)
        self._batches = Batches(documents, BatchConfig(length=self.length), seed)

    def endless(self, tokens: int) -> Iterator[Batch]:
        """Batches of about so many tokens, epoch after epoch."""
        units = max(1, round(tokens / self.length))
        return (batch for batch, _ in self._batches.steps(Position(), units))

    @torch.no_grad()
    def loss(self, model: Model, machine: Machine) -> tuple[float, int]:
        """The mean loss of hidden tokens over the text, always the same ones, and how many they are."""
        objective, total, count = Objectives(Recipe()), 0.0, 0
        model.eval()
        for batch in self._batches.one_pass(_UNITS):
            with machine.autocast():
                outcome = objective(model, batch.to(machine.device))["mlm"]
            total += float(outcome.losses.double().sum())
            count += len(outcome.losses)
        if not count:
            raise InputError("the text is too short to hide a token of it: give more")
        return total / count, count


def check_head(model: Model, report: LoadReport, folder: Path) -> None:
    """An error if the folder does not hold a masked language model."""
    lacking = any(name.startswith("heads.mlm.") for name in report.new)
    if lacking or ("mlm" in model.heads and model.config.causal):
        what = "has no masked-LM head" if lacking else "is causal: it has learnt from no masks"
        raise ModelError(
            f"{folder} {what}; a replay and the report of forgetting need a pretrained masked language model"
        )


class Measure:
    """A model's loss on plain text now, to compare with what it will be."""

    def __init__(self, folder: Path, text: PlainText, seed: int, machine: Machine) -> None:
        model, report = load_model(folder, heads=["mlm"])
        check_head(model, report, folder)
        self._machine, self._plain = machine, PlainBatches(text, model.config.positions, seed)
        self._before, self._predicted = self._plain.loss(model.to(machine.device), machine)

    def __call__(self, model: Model) -> Forgetting:
        """How it compares with a model that has learnt since."""
        return Forgetting(self._before, self._plain.loss(model, self._machine)[0], self._predicted)


class Feed(Protocol):
    """The steps of a fine-tuning."""

    steps_per_epoch: int

    def steps(self, start: int, stop: int) -> Iterator[StepInput]:
        """The inputs of some steps."""


class MixedFeed:
    """A task's steps with steps on plain text between them, evenly; they are a `share` of all."""

    def __init__(self, feed: TaskFeed, plain: PlainBatches, share: float, tokens: int) -> None:
        self._feed, self._plain, self._tokens = feed, plain, tokens
        self.steps_per_epoch = max(feed.steps_per_epoch + 1, round(feed.steps_per_epoch / (1 - share)))
        self._replays = self.steps_per_epoch - feed.steps_per_epoch

    def steps(self, start: int, stop: int) -> Iterator[StepInput]:
        """The inputs of some steps; plain text is read from its beginning."""
        plain = self._plain.endless(self._tokens)
        for number in range(start, stop):
            epoch, place = divmod(number, self.steps_per_epoch)
            before, after = ((place + n) * self._replays // self.steps_per_epoch for n in (0, 1))
            if after > before:
                yield StepInput(number, [next(plain)], Position(epoch=epoch), 1.0)
            else:
                task = self._feed.step(epoch * self._feed.steps_per_epoch + place - before)
                yield StepInput(number, task.batches, task.position, task.fill)


class WithReplay:
    """The loss of a task on its own batches, and of hidden tokens on plain text."""

    def __init__(self, task: Losses) -> None:
        self._task, self._plain = task, Objectives(Recipe())

    def weight(self, part: str) -> float:
        """Both count alike."""
        return 1.0

    def counts(self, batch: Batch) -> dict[str, int]:
        """How many predictions a batch makes."""
        return self._of(batch).counts(batch)

    def __call__(self, model: Model, batch: Batch) -> dict[str, Outcome]:
        """The predictions of a batch."""
        return self._of(batch)(model, batch)

    def _of(self, batch: Batch) -> Losses:
        return self._task if isinstance(batch, TaskBatch) else self._plain


def source_of(path: Path | str) -> Source:
    """The file that is read of what was named."""
    return find_sources([str(path)])[0]


def _encoded(path: Path | str, tokenizer: Tokenizer, most: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """Ids, flags and lengths of the file's documents, until there are enough tokens."""
    config = TextConfig()
    clean, encoder = Cleaner(config), Encoder(tokenizer)
    documents = read_documents(source_of(path), config)
    texts = (text for text, reason in (clean(document.text) for document in documents) if not reason)
    found = 0
    while part := list(islice(texts, _TOGETHER)):
        yield (encoded := encoder.encode(part))
        found += len(encoded[0])
        if found >= most:
            return
