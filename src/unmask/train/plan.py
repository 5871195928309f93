"""How long a run is and what it costs, before it begins."""

import gc
import itertools
import json
import statistics
import time
from bisect import bisect
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from unmask.config import Recipe
from unmask.data.packing import ENDS, Documents
from unmask.data.plan import Position
from unmask.errors import InputError, OutputError
from unmask.files import write_json
from unmask.model.network import Model
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
_PROBE = 10 * _MOST  # those of a run of which they are the first
_SOON = 4096  # tokens of a step that a CPU, too, computes soon enough
_LONG = 2.0  # seconds of a step on a CPU from which those of a longer one can be told
_HEAVY = 200_000_000  # weights from which a CPU measures a model of fewer blocks
_FEW = 4  # blocks of such a one
_FORGET = Path("/proc/self/clear_refs")  # Linux: a 5 written there begins the peak of memory anew
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
    estimated_blocks: int | None = None
    """Blocks of the largest model that was measured, where the run's own would have taken too long."""

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
    recipe = material.recipe
    speed = probe(material, machine, progress) if measure or recipe.train.seconds else None
    gc.collect()  # what was measured with, before there is another
    epoch = epoch_tokens(material.corpus, Schedule(recipe, 1).stages()[0].length)
    steps = _steps(recipe, epoch, speed.tokens_per_s if speed else 0.0)
    tokens = Schedule(recipe, steps).tokens_from(0)
    return RunPlan(
        steps=steps,
        tokens_per_step=recipe.train.batch_tokens,
        tokens=tokens,
        epochs=tokens / epoch,
        parameters=_parameters(recipe),
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


def _parameters(recipe: Recipe) -> int:
    """How many weights the model has; none is drawn."""
    with torch.device("meta"):
        return parameter_count(Model(recipe.model, Objectives(recipe).heads))


class Speed(NamedTuple):
    """What a probe found, under the names that a plan has for it."""

    tokens_per_s: float
    memory_bytes: int | None
    estimated_from: int | None = None
    estimated_blocks: int | None = None


def probe(material: Material, machine: Machine, progress: Progress = SILENT) -> Speed:
    """The speed of a run and what it holds, from a few steps of one micro-batch each.

    On a CPU a large one may take minutes, but its time and its memory are lines: so much for the step (the
    optimiser), so much for each token. There steps grow until they are long enough, and the first and the
    last give the lines. A GPU gets steps of the run's own size: small ones are mostly launching.
    """
    ranks, train = parallel.ranks(), material.recipe.train.model_copy(update={"batch_warmup": 0.0})
    recipe = material.recipe.model_copy(update={"train": train})
    material, cpu = replace(material, recipe=recipe), machine.device.type == "cpu"
    longest = max(stage.length for stage in Schedule(recipe, _PROBE).stages())
    whole = min(train.batch_tokens, max(train.micro_tokens, longest) * ranks)
    first = min(longest * ranks, whole)
    with progress.stage("measuring", unit="tokens") as stage:
        if cpu and _heavy(recipe):
            return _by_few_blocks(material, machine, sorted({first, min(4 * first, whole)}), whole, stage)
        if not cpu or whole <= _SOON:
            step = _measure(_trainer(material, machine), material.corpus, whole, 2, 5.0, stage)
            return Speed(step.tokens / step.seconds, step.memory)
        steps = _tried(material, machine, [first], whole, stage)
    step, held = _estimated(steps, train.batch_tokens, whole)
    return Speed(step.tokens / step.seconds, held.memory, None if whole in steps else max(steps))


def _heavy(recipe: Recipe) -> bool:
    """Whether a CPU would take too long, or too much, for a step of the whole model."""
    return max(_few(recipe)) < recipe.model.layers and _parameters(recipe) >= _HEAVY


def _few(recipe: Recipe) -> tuple[int, int]:
    """Two small numbers of blocks, with local and global ones in their shares."""
    every = recipe.model.global_every
    return every, every * max(2, _FEW // every)


def _by_few_blocks(
    material: Material, machine: Machine, sizes: Sequence[int], whole: int, stage: Stage
) -> Speed:
    """The speed of a heavy model: time and memory are lines in the number of its blocks, too."""
    recipe, ends = material.recipe, list[list[Step]]()
    low, high = _few(recipe)
    for blocks in (low, high):
        model = recipe.model.model_copy(update={"layers": blocks})
        cut = replace(material, recipe=recipe.model_copy(update={"model": model}), base=None)
        steps = _tried(cut, machine, sizes, sizes[-1], stage)
        ends.append(_estimated(steps, recipe.train.batch_tokens, whole))
    far = (recipe.model.layers - low) / (high - low)
    step, held = (on_line(first, last, far) for first, last in zip(*ends, strict=True))
    memory = held.memory if _forget() else None  # else what was held before counts, too
    return Speed(step.tokens / step.seconds, memory, sizes[-1], high)


class Step(NamedTuple):
    """What a step took, and the most bytes that were held."""

    tokens: int
    seconds: float
    memory: int


def on_line(first: Step, last: Step, far: float) -> Step:
    """The step `far` times as far from the first as the last is, on the line through both; none falls."""
    tokens, seconds, memory = (a + max(b - a, 0) * far for a, b in zip(first, last, strict=True))
    return Step(round(tokens), seconds, round(memory))


def _estimated(steps: Mapping[int, Step], tokens: int, whole: int) -> list[Step]:
    """A step of so many tokens, and one of a whole micro-batch, from those of some sizes."""
    first, last = steps[min(steps)], steps[max(steps)]
    if whole in steps:
        return [Step(tokens, last.seconds / last.tokens * tokens, last.memory), last]
    wide = last.tokens - first.tokens
    return [on_line(first, last, (each - first.tokens) / wide) for each in (tokens, whole)]


def _tried(
    material: Material, machine: Machine, sizes: Sequence[int], whole: int, stage: Stage
) -> dict[int, Step]:
    """Steps of these sizes, then of larger ones up to the whole, until they are long enough."""
    trainer = _trainer(material, machine)
    warm = [1] + [0] * (len(sizes) - 1)
    steps = {
        size: _measure(trainer, material.corpus, size, first, 1.0, stage)
        for size, first in zip(sizes, warm, strict=True)
    }
    size, first = max(steps), steps[min(steps)]
    while size < whole and steps[size].seconds < max(_LONG, 1.5 * first.seconds):
        size = min(whole, int(size * min(max(_LONG / steps[size].seconds, 2.0), 8.0)))
        steps[size] = _measure(trainer, material.corpus, size, 1, 1.0, stage)
    return steps


def _trainer(material: Material, machine: Machine) -> Trainer:
    """One to measure with; what was held before does not count."""
    gc.collect()  # one that was measured with before: its blocks hold themselves
    _forget()
    return make_trainer(material, machine, Schedule(material.recipe, _PROBE))


def _forget() -> bool:
    """Count the most that is held from here on, if the system can."""
    try:
        _FORGET.write_text("5")
    except OSError:
        return False
    return True


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
