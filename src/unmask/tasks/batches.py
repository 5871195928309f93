"""Examples -> packed batches of whole steps: a pure function of (items, settings, seed) and the step.

S sequences · n examples
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.data.batches import Batch
from unmask.data.plan import Position, generator
from unmask.predict.batching import pack
from unmask.predict.windows import Window
from unmask.train.feed import StepInput

_ORDER = 17  # the stream of random numbers for the order; data and schedule have lower ones
_CPU = torch.device("cpu")


class Item(NamedTuple):
    """A unit of training: the windows of an example and what they should say."""

    windows: Sequence[Window]
    targets: NDArray[Any]
    """One row per prediction."""
    rows: Sequence[NDArray[np.int64]] = ()
    """For each window the tokens that predict; none: the task's head knows."""

    @property
    def tokens(self) -> int:
        """Tokens of all windows."""
        return sum(map(len, self.windows))


@dataclass(frozen=True, slots=True)
class TaskBatch(Batch):
    """A batch whose targets are labels: `target_ids` holds classes, numbers, or begin and end of answers."""

    windows: Tensor | None = None  # i64[n], how many sequences each example has; None: one


class TaskFeed:
    """The steps of a fine-tuning."""

    def __init__(
        self, items: Sequence[Item], batch: int, micro_tokens: int, seed: int, segments: bool
    ) -> None:
        self._items, self._batch, self._seed = items, batch, seed
        self._micro_tokens, self._segments = micro_tokens, segments
        self.steps_per_epoch = -(-len(items) // batch)

    def steps(self, start: int, stop: int) -> Iterator[StepInput]:
        """The inputs of some steps."""
        return map(self.step, range(start, stop))

    def step(self, number: int) -> StepInput:
        """What one step trains on: items of like length together, so that attention runs on many at once."""
        epoch, place = divmod(number, self.steps_per_epoch)
        order = _order(self._seed, epoch, len(self._items))
        chosen = [self._items[k] for k in order[place * self._batch : (place + 1) * self._batch]]
        chosen.sort(key=lambda item: -item.tokens)
        batches: list[Batch] = [
            make_batch(part, self._segments) for part in _parts(chosen, self._micro_tokens)
        ]
        return StepInput(number, batches, Position(epoch=epoch), 1.0)


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    return generator(seed, _ORDER, epoch).permutation(count)


def _parts(items: Sequence[Item], tokens: int) -> Iterator[list[Item]]:
    """Neighbours of at most so many tokens together, or one item."""
    part: list[Item] = []
    room = tokens
    for item in items:
        if part and item.tokens > room:
            yield part
            part, room = [], tokens
        part.append(item)
        room -= item.tokens
    yield part


def make_batch(items: Sequence[Item], segments: bool) -> TaskBatch:
    """The windows of some items end to end."""
    windows = [window for item in items for window in item.windows]
    packed = pack([w.ids for w in windows], _CPU, [w.segments for w in windows] if segments else None)
    rows = [each for item in items for each in item.rows]
    starts = packed.cu_seqlens.tolist()
    index = [start + each for start, each in zip(starts, rows, strict=False)]
    several = any(len(item.windows) > 1 for item in items)
    return TaskBatch(
        ids=packed.ids,
        positions=packed.positions,
        cu_seqlens=packed.cu_seqlens,
        max_seqlen=packed.max_seqlen,
        causal=False,
        target_index=torch.from_numpy(np.concatenate(index) if index else np.empty(0, np.int64)),
        target_ids=torch.from_numpy(np.concatenate([item.targets for item in items])),
        target_kind=torch.empty(0, dtype=torch.uint8),
        languages=torch.empty(0, dtype=torch.int64),
        segments=packed.segments,
        windows=torch.tensor([len(item.windows) for item in items]) if several else None,
    )
