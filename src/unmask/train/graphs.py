"""The work of a step as CUDA graphs: one launch, where else the processor sends kernel after kernel.

T tokens · M targets
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unmask.data.batches import Batch
from unmask.data.pairs import NO_PAIR
from unmask.train.objectives import Outcome

Passes = Callable[[Batch, Mapping[str, float | Tensor]], dict[str, Outcome]]
"""Forward and backward for a batch, its parts of the loss multiplied by these numbers."""
_TARGETS = 1024  # as many places for targets at a time: every number of places is a graph
_ORDINARY = 3  # times before work is recorded: by then everything is compiled
_NO_KIND = 255


class Played:
    """Work that always reads and writes the same memory: done a few times, then recorded, then played."""

    def __init__(self, memory: Any = None) -> None:
        self._memory = memory
        self._done, self._result = 0, None
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Callable[[], Any]) -> Any:
        """Do it, always the same; what it gave before is overwritten."""
        if self._done < _ORDINARY:
            self._done += 1
            return work()
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            # Other threads go on meanwhile: the one that pins batches would else spoil it.
            with torch.cuda.graph(self._graph, self._memory, capture_error_mode="thread_local"):
                self._result = work()
        self._graph.replay()
        return self._result


def fits(batch: Batch) -> bool:
    """Whether a batch of a run that is recorded has a graph: pages have one shape but for the targets."""
    return batch.page is not None


def places(batch: Batch) -> int:
    """Room for its targets: a whole number of times _TARGETS."""
    return -(-len(batch.target_ids) // _TARGETS) * _TARGETS


def shape_key(batch: Batch) -> tuple[int, int | None, int, bool]:
    """Batches with the same are computed by the same graph."""
    return len(batch.ids), batch.page, places(batch), batch.causal


def put(batch: Batch, there: Batch) -> None:
    """Copy what the passes read; targets left over are empty and add nothing to the loss.

    Neither where sequences begin nor their languages: no pass over pages reads them.
    """
    empty = {"ids": 0, "positions": 0, "target_index": 0, "target_ids": NO_PAIR, "target_kind": _NO_KIND}
    for name, nothing in empty.items():
        values, room = getattr(batch, name), getattr(there, name)
        room[: len(values)].copy_(values, non_blocking=True)
        room[len(values) :].fill_(nothing)


def room_for(batch: Batch, device: torch.device) -> Batch:
    """Where batches of this shape can be put."""
    more = places(batch) - len(batch.target_ids)
    there = batch.to(device)
    return replace(
        there,
        target_index=F.pad(there.target_index, (0, more)),
        target_ids=F.pad(there.target_ids, (0, more)),
        target_kind=F.pad(there.target_kind, (0, more)),
    )


@dataclass(frozen=True)
class _Shape:
    """Where the batches of one shape are put, and what is done with them."""

    batch: Batch
    scales: dict[str, Tensor]
    played: Played


class Graphs:
    """The passes of one model, a graph for each shape of batch."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._gradients = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._device = self._parameters[0].device
        self._shapes: dict[tuple[int, int | None, int, bool], _Shape] = {}
        self._memory = torch.cuda.graph_pool_handle()

    @property
    def in_place(self) -> bool:
        """Whether the gradients now lie where they do after every call."""
        return self._parameters[0].grad is self._gradients[0]

    def __call__(
        self, passes: Passes, batch: Batch, scales: Mapping[str, float]
    ) -> tuple[Batch, dict[str, Outcome]]:
        """The batch on the device, and its outcomes; both are overwritten by the next call."""
        if not self.in_place:
            for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
                parameter.grad = gradient
        shape = self._shape(batch, scales)
        put(batch, shape.batch)
        for part, scale in scales.items():
            shape.scales[part].fill_(scale)

        def work() -> dict[str, Outcome]:
            torch._foreach_zero_(self._gradients)
            return passes(shape.batch, shape.scales)

        return shape.batch, shape.played(work)

    def _shape(self, batch: Batch, scales: Mapping[str, float]) -> _Shape:
        key = shape_key(batch)
        if key not in self._shapes:
            there = {part: torch.empty((), device=self._device) for part in scales}
            self._shapes[key] = _Shape(room_for(batch, self._device), there, Played(self._memory))
        return self._shapes[key]
