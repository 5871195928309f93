"""The batches of each step, stage after stage, from any step on."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from unmask.config import TrainConfig
from unmask.data.batches import Batch, Batches
from unmask.data.packing import Documents
from unmask.data.plan import Position
from unmask.errors import ConfigError
from unmask.processes import cores
from unmask.progress import counted
from unmask.train import parallel
from unmask.train.schedule import Schedule, Stage, micro_batches

_WORKERS = 4  # for a GPU: one of them builds 2 to 4 million tokens a second, a small model takes more


@dataclass(frozen=True, slots=True)
class StepInput:
    """What one step trains on."""

    step: int
    batches: list[Batch]
    """This rank's micro-batches."""
    position: Position
    """Where the corpus goes on after the step."""
    fill: float
    """How full the sequences' room is."""


def feed(
    corpus: Documents,
    schedule: Schedule,
    start: int,
    position: Position,
    pin: bool = False,
    pages: bool = False,
) -> Generator[StepInput, None, None]:
    """The inputs of every step from `start` on; `position` is the one after the step before.

    `pin`: for a GPU. `pages`: on pages wherever they can be, not only where that saves work, so that shapes
    stay the same.
    """
    ahead = [stage for stage in schedule.stages() if stage.stop > start]
    for stage in ahead:  # told now, not when the stage begins: days may lie between
        units = _units(schedule, stage, max(stage.start, start))
        if units < parallel.ranks():
            raise ConfigError(
                f"{counted(units, 'sequence')} of {stage.length} tokens a step: too few for"
                f" {parallel.ranks()} processes; raise train.batch_tokens, or start fewer"
            )
    for stage in ahead:
        if start == stage.start > 0:  # units of another length are other units: take a fresh epoch
            position = Position(epoch=position.epoch + 1)
        for inputs in _stage_inputs(corpus, schedule, stage, start, position, pin, pages):
            position = inputs.position
            yield inputs
        start = stage.stop


def _units(schedule: Schedule, stage: Stage, step: int) -> int:
    """Sequences' worth of room in a step, over all ranks; within a stage it never shrinks."""
    return max(1, round(schedule.batch_tokens(step) / stage.length))


def _workers(train: TrainConfig, gpu: bool) -> int:
    """Processes that build batches; for a GPU a core is left for this one."""
    if train.workers is not None:
        return train.workers
    return max(1, min(_WORKERS, cores() // parallel.ranks_here() - 1)) if gpu else 1


def _stage_inputs(
    corpus: Documents,
    schedule: Schedule,
    stage: Stage,
    start: int,
    position: Position,
    pin: bool,
    pages: bool,
) -> Iterator[StepInput]:
    recipe, ranks = schedule.recipe, parallel.ranks()
    config = recipe.batch.model_copy(update={"length": stage.length})
    batches = Batches(corpus, config, recipe.seed, parallel.rank(), ranks, pages)
    steps = range(start, stage.stop)

    def sizes(step: int) -> list[int]:
        units = _units(schedule, stage, step)
        return micro_batches(units, stage.length, recipe.train.micro_tokens, ranks)

    stream = batches.steps(
        position,
        (size for step in steps for size in sizes(step)),
        (schedule.objective(step) for step in steps for _ in sizes(step)),
        _workers(recipe.train, pin),
        pin,
    )
    for step in steps:
        room = sum(sizes(step)) * stage.length / ranks
        taken = [next(stream) for _ in sizes(step)]
        fill = sum(batch.tokens for batch, _ in taken) / room
        yield StepInput(step, [batch for batch, _ in taken], taken[-1][1], fill)
