"""The one place that makes batches: sequences of like length together, under a token budget, unpadded.

T tokens of all sequences · S sequences
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CPU_TOKENS = 2048
"""Enough to keep every core busy, little enough to stay near the caches."""
GPU_TOKENS = 65_536


@dataclass(frozen=True, eq=False)
class Pack:
    """Sequences end to end, as the encoder takes them."""

    ids: Tensor  # (T)
    positions: Tensor  # (T)
    cu_seqlens: Tensor  # (S + 1)
    max_seqlen: int
    segments: Tensor | None
    lengths: tuple[int, ...]  # (S)

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor, int, Tensor | None]:
        """What the encoder takes, in its order."""
        return self.ids, self.positions, self.cu_seqlens, self.max_seqlen, self.segments


def plan(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Numbers of the sequences in each batch: longest first, at most `budget` tokens or one sequence."""
    batches: list[list[int]] = []
    room = 0
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if not batches or lengths[number] > room:
            batches.append([])
            room = budget
        batches[-1].append(number)
        room -= lengths[number]
    return batches


def pack(
    sequences: Sequence[NDArray[np.int64]],
    device: torch.device,
    segments: Sequence[NDArray[np.int64]] | None = None,
) -> Pack:
    """Put sequences end to end."""
    lengths = tuple(map(len, sequences))
    starts = np.fromiter(accumulate(lengths, initial=0), np.int32, len(lengths) + 1)
    positions = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    return Pack(
        ids=torch.from_numpy(np.concatenate(sequences)).to(device),
        positions=torch.from_numpy(positions).to(device),
        cu_seqlens=torch.from_numpy(starts).to(device),
        max_seqlen=max(lengths),
        segments=None if segments is None else torch.from_numpy(np.concatenate(segments)).to(device),
        lengths=lengths,
    )
