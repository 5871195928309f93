"""The training loop: a generator of records. Logging, evaluating, saving, stopping belong to its caller."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from unmask.data.batches import Batch
from unmask.data.plan import Position
from unmask.files import digest
from unmask.model.network import Model
from unmask.predict.memory import FreedMemory
from unmask.train import parallel
from unmask.train.feed import StepInput
from unmask.train.graphs import Graphs, fits
from unmask.train.machine import Machine
from unmask.train.objectives import Losses, Objectives, Outcome
from unmask.train.optim import Optimiser, clip
from unmask.train.schedule import Schedule
from unmask.train.work import matmul_peak

KINDS = ("masked", "random", "kept")


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did."""

    step: int
    """Steps done, this one included."""
    epoch: int
    tokens: int
    """Tokens seen so far, by all ranks."""
    seconds: float
    """Time spent in steps so far, waiting for their batches included."""
    loss: float
    parts: dict[str, float]
    """Mean loss of each objective."""
    accuracy: dict[str, float]
    """Share predicted right: of each objective, and of hidden tokens by what was done to them."""
    lr: float
    grad_norm: float
    tokens_per_s: float
    mfu: float | None
    """This process's matrix products as a share of what its device can do (model FLOPs utilisation).

    Known for pretraining alone: what tasks freeze, adapt and read off is not counted.
    """
    fill: float
    skipped: bool
    """The loss or a gradient was not finite: the weights were left as they were."""


@dataclass
class Counters:
    """How far a training is; all of it is saved."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    position: Position = field(default_factory=Position)
    skipped: int = 0
    """Steps in a row that were skipped."""
    averaged: int = 0
    """Steps in the mean of weights."""


class Trainer:
    """A model and what its training remembers from step to step."""

    def __init__(self, model: Model, schedule: Schedule, objectives: Losses, machine: Machine) -> None:
        self.model, self.schedule, self.machine = model, schedule, machine
        self.objectives = objectives
        recorded = isinstance(objectives, Objectives) and machine.graphs(model.config, schedule.recipe)
        self.graphs = Graphs(model) if recorded else None
        self.optimiser = Optimiser(model, schedule.recipe.train, recorded)
        self.counters = Counters()
        self.average: dict[str, Tensor] = {}
        self._gradients = parallel.GradientSum(model)
        self._parameters = list(model.parameters())  # looking them up takes as long as launching a graph

    def run(self, inputs: Iterable[StepInput]) -> Iterator[StepRecord]:
        """Train on each step's input and say how it went."""
        counted = isinstance(self.objectives, Objectives)
        peak = matmul_peak(self.machine.device, self.machine.bf16) if counted else None
        coming, memory = iter(inputs), FreedMemory() if self.machine.device.type == "cpu" else None
        following = next(coming, None)
        while each := following:
            began = time.perf_counter()
            if not self.model.training:
                self.model.train()
            tally = self._backward(each)
            self._gradients.finish()
            norm = clip(self._parameters, self.schedule.recipe.train.clip)
            work = self._work(each) if counted else 0.0
            following = next(coming, None)  # now, while the device computes
            measured = tally.read(norm)  # the only wait for the device: a second one would leave it idle
            loss = sum(self.objectives.weight(part) * value for part, value in measured.parts.items())
            finite = math.isfinite(loss) and math.isfinite(measured.grad_norm)
            share = self.schedule.lr_share(each.step)
            if finite:
                self.optimiser.step(share, self.graphs is not None and self.graphs.in_place)
            self._count(each, measured.tokens, finite, time.perf_counter() - began)
            yield StepRecord(
                step=self.counters.step,
                epoch=each.position.epoch,
                tokens=self.counters.tokens,
                seconds=self.counters.seconds,
                loss=loss,
                parts=measured.parts,
                accuracy=measured.accuracy,
                lr=share * self.schedule.recipe.train.lr,
                grad_norm=measured.grad_norm,
                tokens_per_s=measured.tokens / (time.perf_counter() - began),
                mfu=peak and work / (time.perf_counter() - began) / peak,
                fill=each.fill,
                skipped=not finite,
            )
            if memory:
                memory.give_back()

    def _work(self, each: StepInput) -> float:
        assert isinstance(self.objectives, Objectives)
        return sum(self.objectives.operations(self.model.config, batch) for batch in each.batches)

    def _backward(self, each: StepInput) -> "Tally":
        """Gradients of the whole step: every micro-batch is weighed by the predictions of all of them."""
        tally = Tally()
        for batch in each.batches:
            tally.expect(batch, self.objectives)
        tally.agree()
        # A growing batch has a new shape every few steps: recording each would cost more than it gives.
        grown = not self.schedule.growing(each.step)
        for number, batch in enumerate(each.batches):
            scales = {
                part: self.objectives.weight(part) / max(tally.counts[part], 1)
                for part in self.objectives.counts(batch)
            }
            if number == len(each.batches) - 1:
                self._gradients.begin()
            if self.graphs and grown and len(each.batches) == 1 and fits(batch):
                batch, outcomes = self.graphs(self._passes, batch, scales)
            else:
                if number == 0:
                    self.optimiser.clear()
                torch.manual_seed(seed_of(self.schedule.recipe.seed, each.step, number, parallel.rank()))
                batch = batch.to(self.machine.device, non_blocking=True)
                outcomes = self._passes(batch, scales)
            tally.add(outcomes, batch)
        return tally

    def _passes(self, batch: Batch, scales: Mapping[str, float | Tensor]) -> dict[str, Outcome]:
        """Forward and backward."""
        with self.machine.autocast():
            outcomes = self.model(self.objectives, batch)
        loss = sum(outcome.losses.sum() * scales[part] for part, outcome in outcomes.items())
        assert isinstance(loss, Tensor)
        loss.backward()  # type: ignore[no-untyped-call]
        return {part: Outcome(outcome.losses.detach(), outcome.correct) for part, outcome in outcomes.items()}

    def _count(self, each: StepInput, tokens: int, finite: bool, seconds: float) -> None:
        counters = self.counters
        counters.step, counters.position = each.step + 1, each.position
        counters.tokens += tokens
        counters.seconds += seconds
        counters.skipped = 0 if finite else counters.skipped + 1
        if self.schedule.averages(each.step):
            self._average()
        elif self.average:  # the training became longer: these are of its middle
            self.average, counters.averaged = {}, 0

    @torch.no_grad()
    def _average(self) -> None:
        weights = dict(self.model.named_parameters())
        self.counters.averaged += 1
        if not self.average:
            self.average = {name: weight.detach().clone() for name, weight in weights.items()}
            return
        means = list(map(parallel.held, self.average.values()))
        now = [parallel.held(weights[name]) for name in self.average]
        torch._foreach_lerp_(means, now, 1 / self.counters.averaged)

    @contextmanager
    def averaged(self) -> Iterator[Model]:
        """The model with the mean of its weights, where there is one."""
        self._exchange()
        try:
            yield self.model
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        """In place: torch keeps other views of weights that are split."""
        for name, parameter in self.model.named_parameters():
            if name in self.average:
                weight, mean = parallel.held(parameter), parallel.held(self.average[name])
                before = weight.clone()
                weight.copy_(mean)
                mean.copy_(before)


def seed_of(*numbers: int) -> int:
    """A seed for torch from the place it is for, so that nothing needs to be carried on."""
    return int(digest(" ".join(map(str, numbers)))[:15], 16)


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over a whole step, all ranks and micro-batches together."""

    parts: dict[str, float]
    accuracy: dict[str, float]
    tokens: int
    grad_norm: float


class Tally:
    """Sums over the micro-batches of a step, left on the device until they are read at once."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {"tokens": 0.0}
        self._sums: dict[str, Tensor] = {}

    def expect(self, batch: Batch, objectives: Losses) -> None:
        """Count what a batch will predict, before it is computed."""
        kinds = torch.bincount(batch.target_kind, minlength=len(KINDS))[: len(KINDS)].tolist()
        counts = objectives.counts(batch) | dict(zip(KINDS, kinds, strict=True)) | {"tokens": batch.tokens}
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count

    def agree(self) -> None:
        """Counts of all ranks."""
        self.counts = dict(zip(self.counts, parallel.total(list(self.counts.values())), strict=True))

    @torch.no_grad()
    def add(self, outcomes: dict[str, Outcome], batch: Batch) -> None:
        """Add a batch's outcomes."""
        for part, outcome in outcomes.items():
            self._add(f"loss {part}", outcome.losses.sum())
            self._add(f"right {part}", outcome.correct.sum())
            if part == "mlm":
                for number, kind in enumerate(KINDS):
                    self._add(f"right {kind}", (outcome.correct & (batch.target_kind == number)).sum())

    def _add(self, name: str, value: Tensor) -> None:
        value = value.detach().double()
        self._sums[name] = self._sums[name] + value if name in self._sums else value

    def read(self, norm: Tensor) -> Measured:
        """The means, and the gradients' norm; waits for the device."""
        *sums, grad_norm = torch.stack([*self._sums.values(), norm.double()]).tolist()
        values = parallel.total(sums)
        means: dict[str, dict[str, Any]] = {"loss": {}, "right": {}}
        for name, value in zip(self._sums, values, strict=True):
            what, part = name.split(" ")
            if self.counts[part]:
                means[what][part] = value / self.counts[part]
        return Measured(means["loss"], means["right"], int(self.counts["tokens"]), grad_norm)


def parameter_count(model: nn.Module) -> int:
    """Weights that are trained."""
    return sum(parameter.numel() for parameter in model.parameters())
