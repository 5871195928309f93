"""How long a run is and what it costs, before it begins."""

import itertools
import json
import statistics
import time
from bisect import bisect
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unmask.config import Recipe
from unmask.data.packing import ENDS, Documents
from unmask.data.plan import Position
from unmask.errors import InputError, OutputError
from unmask.files import write_json
from unmask.progress import SILENT, Progress, Stage
from unmask.train import parallel
from unmask.train.feed import feed
from unmask.train.loop import Trainer, parameter_count
from unmask.train.machine import Machine
from unmask.train.material import Material
from unmask.train.objectives import Objectives
from unmask.train.schedule import Schedule
from unmask.train.teachers import load_teacher

PLAN = "plan.json"
_MOST = 30  # steps to measure
_SOON = 4096  # tokens of a step that a CPU, too, computes soon enough
_LONG = 2.0  # seconds of a step on a CPU from which those of a longer one can be told
_LOOKS = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8, 15 / 16, 1.0)  # of a run's time: when its pace is looked at
_NEAR = 0.01  # of the steps: a plan that is as near as that stays


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run will do."""

    steps: int
    tokens_per_step: int
    tokens: int
    epochs: float
    parameters: int
    tokens_per_s: float | None = None
    """Measured on this machine, if it was."""
    memory_bytes: int | None = None
    """The most that was held while measuring, or would be."""
    estimated_from: int | None = None
    """Tokens of the largest step that was measured, where the run's own would have taken too long."""

    @property
    def seconds(self) -> float | None:
        """How long it will take."""
        return None if self.tokens_per_s is None else self.tokens / self.tokens_per_s

    def changed(self, before: Schedule, step: int, steps: int) -> "RunPlan":
        """The plan with another number of steps, after `step` of those there were before."""
        after = replace(before, steps=steps)
        tokens = self.tokens - before.tokens_from(step) + after.tokens_from(step)
        return replace(self, steps=steps, tokens=tokens, epochs=self.epochs * tokens / self.tokens)


def make_plan(
    material: Material, machine: Machine, measure: bool = False, progress: Progress = SILENT
) -> RunPlan:
    """The plan of a run; measured if asked, or if the recipe sets a time."""
    recipe, parameters = material.recipe, parameter_count(material.model())  # gone before others are made
    speed = probe(material, machine, progress) if measure or recipe.train.seconds else None
    epoch = epoch_tokens(material.corpus, Schedule(recipe, 1).stages()[0].length)
    steps = _steps(recipe, epoch, speed.tokens_per_s if speed else 0.0)
    tokens = Schedule(recipe, steps).tokens_from(0)
    return RunPlan(
        steps=steps,
        tokens_per_step=recipe.train.batch_tokens,
        tokens=tokens,
        epochs=tokens / epoch,
        parameters=parameters,
        **(speed._asdict() if speed else {}),
    )


def run_plan(material: Material, machine: Machine, run: Path, progress: Progress = SILENT) -> RunPlan:
    """The plan of the run in a folder: made once, so that a run that goes on has the steps it began with."""
    path = run / PLAN
    if parallel.first(path.is_file()):  # as the first process sees it: to measure takes all of them
        if not path.is_file():
            raise OutputError(f"{path} is not on this machine: put the run on a disk that all share")
        try:
            return RunPlan(**json.loads(path.read_text("utf-8")))
        except (ValueError, TypeError):
            raise InputError(f"{path} is damaged: delete it, and go on with --resume") from None
    plan = make_plan(material, machine, progress=progress)
    if parallel.rank() == 0:
        write_plan(plan, run)
    return plan


def write_plan(plan: RunPlan, run: Path) -> None:
    """Into the run's folder."""
    write_json(run / PLAN, asdict(plan))


class Clock:
    """Keeps a run within the time it was given, by counting its steps anew now and then.

    The first count is a guess: kernels are compiled, longer sequences come, other work shares the machine.
    The pace is that between two looks: the first look of a process, which compiles, only begins to measure.
    """

    def __init__(self, seconds: float, spent: float = 0.0) -> None:
        self._seconds, self._passed = seconds, bisect(_LOOKS, spent / seconds)
        self._mark: tuple[int, float] | None = None

    def over(self, seconds: float) -> bool:
        """Whether so much is all the time there was."""
        return seconds >= self._seconds

    def steps(self, planned: int, step: int, seconds: float) -> int:
        """How many steps the run has, now that `step` are done and took so long."""
        passed = bisect(_LOOKS, max(seconds / self._seconds, min(step / planned, _LOOKS[-2])))
        if passed <= self._passed:
            return planned
        mark, self._mark, self._passed = self._mark, (step, seconds), passed
        if mark is None:
            if step < planned and not self.over(seconds):
                return planned
            mark = (0, 0.0)  # there may be no second look
        pace = (step - mark[0]) / max(seconds - mark[1], 1e-9)
        steps = step + max(0, round((self._seconds - seconds) * pace))
        return steps if abs(steps - planned) > _NEAR * planned else planned


def epoch_tokens(corpus: Documents, length: int) -> float:
    """About how many tokens an epoch has, the ends of sequences included."""
    lengths = corpus.lengths
    return float(lengths.sum() + ENDS * np.ceil(lengths / (length - ENDS)).sum())


def _steps(recipe: Recipe, epoch: float, tokens_per_s: float) -> int:
    train = recipe.train
    if train.steps:
        return train.steps
    tokens = train.seconds * tokens_per_s if train.seconds else (train.epochs or 1.0) * epoch
    return max(1, round(tokens / train.batch_tokens / (1 - train.batch_warmup * 7 / 16)))


def make_trainer(material: Material, machine: Machine, schedule: Schedule) -> Trainer:
    """The first weights of a run on the machine, with everything that trains them."""
    train = schedule.recipe.train
    model = material.model()
    machine.fit(model, train)
    teachers = [machine.fit_teacher(load_teacher(folder), train) for folder in material.teachers]
    objectives = Objectives(schedule.recipe, machine.compiles(train), teachers)
    return Trainer(model, schedule, objectives, machine)


class Speed(NamedTuple):
    """What a probe found, under the names that a plan has for it."""

    tokens_per_s: float
    memory_bytes: int
    estimated_from: int | None = None


def probe(material: Material, machine: Machine, progress: Progress = SILENT) -> Speed:
    """The speed of a run and what it holds, from a few steps of one micro-batch each.

    On a CPU a large one may take minutes, but its time and its memory are lines: so much for the step (the
    optimiser), so much for each token. There steps grow until they are long enough, and the first and the
    last give the lines. A GPU gets steps of the run's own size: small ones are mostly launching.
    """
    ranks, train = parallel.ranks(), material.recipe.train.model_copy(update={"batch_warmup": 0.0})
    recipe = material.recipe.model_copy(update={"train": train})
    schedule = Schedule(recipe, 10 * _MOST)
    longest = max(stage.length for stage in schedule.stages())
    whole = min(recipe.train.batch_tokens, max(recipe.train.micro_tokens, longest) * ranks)
    trainer = make_trainer(material, machine, schedule)
    with progress.stage("measuring", unit="tokens") as stage:
        if machine.device.type != "cpu" or whole <= _SOON:
            step = _measure(trainer, material.corpus, whole, 2, 5.0, stage)
            return Speed(step.tokens / step.seconds, step.memory)
        size = min(longest * ranks, whole)
        first = last = _measure(trainer, material.corpus, size, 1, 1.0, stage)
        while size < whole and last.seconds < max(_LONG, 1.5 * first.seconds):
            size = min(whole, int(size * min(max(_LONG / last.seconds, 2.0), 8.0)))
            last = _measure(trainer, material.corpus, size, 1, 1.0, stage)
    if size == whole:
        return Speed(last.tokens / last.seconds, last.memory)
    step, held = (on_line(first, last, tokens) for tokens in (recipe.train.batch_tokens, whole))
    return Speed(step.tokens / step.seconds, held.memory, size)


class Step(NamedTuple):
    """What a step took, and the most bytes that were held."""

    tokens: int
    seconds: float
    memory: int


def on_line(first: Step, last: Step, tokens: int) -> Step:
    """The step of more tokens, on the line through two that were measured."""
    beyond = (tokens - last.tokens) / (last.tokens - first.tokens)
    seconds = last.seconds + (last.seconds - first.seconds) * beyond
    return Step(tokens, seconds, round(last.memory + (last.memory - first.memory) * beyond))


def _measure(trainer: Trainer, corpus: Documents, size: int, warm: int, seconds: float, stage: Stage) -> Step:
    """A step of `size` tokens, after some that warm up and over about so many seconds."""
    recipe = trainer.schedule.recipe
    train = recipe.train.model_copy(update={"batch_tokens": size})
    schedule = Schedule(recipe.model_copy(update={"train": train}), trainer.schedule.steps)
    rates: list[float] = []
    tokens, before, began = 0, trainer.counters.tokens, 0.0
    gpu, pages = trainer.machine.device.type == "cuda", trainer.graphs is not None  # as the run is fed
    with closing(feed(corpus, schedule, 0, Position(), gpu, pages)) as inputs:
        for record in itertools.islice(trainer.run(inputs), _MOST):
            tokens, before = record.tokens - before, record.tokens
            stage.advance(tokens)
            if record.step <= warm:
                began = time.perf_counter()
                continue
            rates.append(record.tokens_per_s)
            if parallel.mean(time.perf_counter() - began) > seconds:
                break
    # The middle one: a step that compiles a new shape takes seconds, and there are few of them in a run.
    rate = parallel.mean(statistics.median(rates))
    return Step(tokens, tokens / rate, trainer.machine.peak_memory())
