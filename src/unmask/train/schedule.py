"""What each step does, as pure functions of its number (from 0): learning rate, size, length, mask ratio."""

import math
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from unmask.config import Recipe
from unmask.data.batches import Objective
from unmask.data.masking import mask_ratio
from unmask.data.plan import generator

_CAUSAL = 16  # the stream of random numbers that says which steps are causal; data has the lower ones
_SMALLEST = 8  # a growing batch begins with this part of its size


@dataclass(frozen=True, slots=True)
class Stage:
    """The steps from `start` until `stop` have sequences of at most `length` tokens."""

    start: int
    stop: int
    length: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything about a step that follows from its number, for a training of `steps` steps."""

    recipe: Recipe
    steps: int

    def lr_share(self, step: int) -> float:
        """The learning rate of a step as a share of the highest."""
        train = self.recipe.train
        warmup = round(train.warmup * self.steps)
        if step < warmup:
            return (step + 1) / warmup
        start = warmup if train.schedule != "wsd" else self.steps - round(train.decay * self.steps)
        # The last step still learns: the rate would reach its end one step later.
        done = min(max((step - start) / max(self.steps - start, 1), 0.0), 1.0)
        if train.schedule == "cosine":
            done = (1 - math.cos(math.pi * done)) / 2
        return 1 - (1 - train.final) * done

    def batch_tokens(self, step: int) -> int:
        """Tokens of a step, over all ranks."""
        train = self.recipe.train
        if not self.growing(step):
            return train.batch_tokens
        share = 1 / _SMALLEST + (1 - 1 / _SMALLEST) * step / self._grown
        return max(1, round(train.batch_tokens * share))

    def tokens_from(self, step: int) -> int:
        """Tokens of a step and all after it, over all ranks."""
        grown = max(step, self._grown)
        rest = (self.steps - grown) * self.recipe.train.batch_tokens
        return sum(map(self.batch_tokens, range(step, grown))) + rest

    def growing(self, step: int) -> bool:
        """Whether a step's batch is smaller than the next ones."""
        return step < self._grown

    @property
    def _grown(self) -> int:
        return round(self.recipe.train.batch_warmup * self.steps)

    def stages(self) -> list[Stage]:
        """The lengths of sequences in turn, covering every step once."""
        stages = self.recipe.train.stages
        if not stages:
            return [Stage(0, self.steps, self.recipe.batch.length)]
        ends = [round(share * self.steps) for share in accumulate(stage.share for stage in stages)]
        ends[-1] = self.steps
        return [
            Stage(start, stop, stage.length)
            for start, stop, stage in zip([0, *ends], ends, stages, strict=False)
            if stop > start
        ]

    def stage(self, step: int) -> Stage:
        """The stage that a step belongs to."""
        return next(stage for stage in self.stages() if step < stage.stop)

    def objective(self, step: int) -> Objective:
        """What the batches of a step are for."""
        share = self.recipe.objective.causal
        if share and generator(self.recipe.seed, _CAUSAL, step).random() < share:
            return Objective("causal")
        return Objective("mlm", mask_ratio(self.recipe.batch.mask, step / max(self.steps - 1, 1)))

    def averages(self, step: int) -> bool:
        """Whether the weights after this step belong to the mean that is kept."""
        return step >= self.steps - round(self.recipe.train.average * self.steps)


def micro_batches(units: int, length: int, micro_tokens: int, ranks: int) -> list[int]:
    """Units of a step -> units of each of its micro-batches over all ranks, as equal as can be."""
    fits = max(1, micro_tokens // length) * ranks
    count = max(1, min(-(-units // fits), units // ranks))
    edges = np.linspace(0, units, count + 1).round().astype(int)
    return [int(size) for size in np.diff(edges)]
