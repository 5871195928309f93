"""How long a run is and what it costs, before it begins."""

import itertools
import json
import math
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from unmask.config import Recipe
from unmask.data.packing import ENDS, Documents
from unmask.data.plan import Position
from unmask.errors import ConfigError, OutputError
from unmask.files import write_json
from unmask.train import parallel
from unmask.train.feed import feed
from unmask.train.loop import Trainer, parameter_count
from unmask.train.machine import Machine
from unmask.train.material import Material
from unmask.train.objectives import Objectives
from unmask.train.schedule import Schedule

PLAN = "plan.json"
_WARM, _SECONDS, _MOST = 2, 5.0, 30  # steps before measuring, time to measure for, most steps


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
    """The most that was held while measuring."""

    @property
    def seconds(self) -> float | None:
        """How long it will take."""
        return None if self.tokens_per_s is None else self.tokens / self.tokens_per_s


def make_plan(material: Material, machine: Machine, measure: bool = False) -> RunPlan:
    """The plan of a run; measured if asked, or if the recipe sets a time."""
    recipe = material.recipe
    speed = probe(material, machine) if measure or recipe.train.seconds else None
    epoch = epoch_tokens(material.corpus, Schedule(recipe, 1).stages()[0].length)
    steps = _steps(recipe, epoch, speed[0] if speed else 0.0)
    schedule = Schedule(recipe, steps)
    growing = math.ceil(recipe.train.batch_warmup * steps)
    tokens = sum(map(schedule.batch_tokens, range(growing))) + (steps - growing) * recipe.train.batch_tokens
    return RunPlan(
        steps=steps,
        tokens_per_step=recipe.train.batch_tokens,
        tokens=tokens,
        epochs=tokens / epoch,
        parameters=parameter_count(material.model()),
        tokens_per_s=speed[0] if speed else None,
        memory_bytes=speed[1] if speed else None,
    )


def run_plan(material: Material, machine: Machine, run: Path) -> RunPlan:
    """The plan of the run in a folder: made once, so that a run that goes on has the steps it began with."""
    path = run / PLAN
    if parallel.first(path.is_file()):  # as the first process sees it: to measure takes all of them
        if not path.is_file():
            raise OutputError(f"{path} is not on this machine: put the run on a disk that all share")
        return RunPlan(**json.loads(path.read_text("utf-8")))
    plan = make_plan(material, machine)
    if parallel.rank() == 0:
        write_json(path, asdict(plan))
    return plan


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


def probe(material: Material, machine: Machine) -> tuple[float, int]:
    """Tokens per second and bytes of memory, from a few steps of one micro-batch each."""
    train = material.recipe.train
    longest = max(stage.length for stage in Schedule(material.recipe, 10 * _MOST).stages())
    room = max(train.micro_tokens, longest) * parallel.ranks()
    small = train.model_copy(update={"batch_tokens": min(train.batch_tokens, room), "batch_warmup": 0.0})
    recipe = material.recipe.model_copy(update={"train": small})
    schedule = Schedule(recipe, 10 * _MOST)
    model = material.model()
    machine.fit(model, recipe.train)
    trainer = Trainer(model, schedule, Objectives(recipe, machine.compiles(recipe.train)), machine)
    inputs = feed(material.corpus, schedule, 0, Position())
    rates: list[float] = []
    began = 0.0
    for record in itertools.islice(trainer.run(inputs), _MOST):
        if record.step <= _WARM:
            began = time.perf_counter()
            continue
        rates.append(record.tokens_per_s)
        if parallel.total([time.perf_counter() - began])[0] / parallel.ranks() > _SECONDS:
            break
    if not rates:
        raise ConfigError("the corpus is too small to measure on: set train.steps or train.epochs")
    # The middle one: a step that compiles a new shape takes seconds, and there are few of them in a run.
    return parallel.total([statistics.median(rates)])[0] / parallel.ranks(), machine.peak_memory()
