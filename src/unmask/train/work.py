"""How much arithmetic a step does, and how much the machine could do: the share of its peak.

T tokens · R tokens whose last vectors are read · l length of a sequence · D width · V vocabulary
"""

import time
from functools import cache

import torch
from torch import Tensor

from unmask.config import ModelConfig
from unmask.data.batches import Batch


def operations(config: ModelConfig, batch: Batch, rows: int) -> float:
    """Floating-point operations of matrix products, forward and backward; nothing computed twice is counted.

    A product of T rows with n weights takes 2·T·n forward and twice that backward.
    """
    tokens, width = len(batch.ids), config.width
    inner = width * config.inner * (3 if config.gated else 2)
    whole = tokens * (4 * width**2 + inner)
    last = tokens * 3 * width**2 + rows * (width**2 + inner)
    lengths = batch.cu_seqlens.diff().double()
    wide = len(range(0, config.layers, config.global_every))
    seen = wide * _pairs(lengths, 0, batch.causal)
    if wide < config.layers:
        seen += (config.layers - wide) * _pairs(lengths, config.window, batch.causal)
    mixed = 2 * width * seen
    head = len(batch.target_ids) * (width**2 + width * config.vocab_size)
    return 6 * ((config.layers - 1) * whole + last + mixed + head)


def _pairs(lengths: Tensor, window: int, causal: bool) -> float:
    """How many (query, key) pairs see each other; a window of 0 is none."""
    reach = (lengths - 1).clamp(max=window) if window else lengths - 1
    one_side = reach * lengths - reach * (reach + 1) / 2
    return float((lengths + one_side * (1 if causal else 2)).sum())


@cache
def matmul_peak(device: torch.device, bf16: bool) -> float:
    """Operations per second of a large matrix product here and now."""
    cuda = device.type == "cuda"
    size, times = (8192, 10) if cuda else (1024, 3)
    a, b = torch.randn(2, size, size, device=device, dtype=torch.bfloat16 if bf16 else torch.float32)
    for count in (2, times):  # the first two warm up
        began = time.perf_counter()
        for _ in range(count):
            a @ b
        if cuda:
            torch.cuda.synchronize(device)
    return 2 * size**3 * times / (time.perf_counter() - began)
