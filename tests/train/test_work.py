"""Operations counted against torch's own counter, and a peak that is a speed."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from unmask.data.batches import Batch
from unmask.model.network import Model
from unmask.model.presets import preset
from unmask.train.work import matmul_peak, operations

SMALL = {"vocab_size": 50, "width": 32, "layers": 3, "heads": 2, "inner": 48, "positions": 64, "pad_id": 0}


def batch_of(lengths: list[int], targets: int) -> Batch:
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    return Batch(
        ids=torch.arange(int(starts[-1])) % 50,
        positions=torch.cat([torch.arange(length) for length in lengths]),
        cu_seqlens=starts,
        max_seqlen=max(lengths),
        causal=False,
        target_index=torch.arange(targets),
        target_ids=torch.arange(targets),
        target_kind=torch.zeros(targets, dtype=torch.uint8),
        languages=torch.zeros(len(lengths), dtype=torch.int64),
    )


@pytest.mark.parametrize("name", ["bert-base", "modernbert-base"])
def test_operations_are_those_torch_counts(name: str) -> None:
    config = preset(name, **SMALL, **({"window": 40, "global_every": 3} if name.startswith("modern") else {}))
    # In float64, or a processor might be given products that the counter does not know.
    model, batch = Model(config).double(), batch_of([32, 32, 32], 7)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        hidden = model.encoder(
            batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen, rows=batch.target_index
        )
        model.mlm(hidden).sum().backward()
    assert operations(config, batch, rows=7) == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_a_window_leaves_pairs_out() -> None:
    wide, narrow = (preset("modernbert-base", **SMALL, window=w, global_every=3) for w in (20, 2))
    batch = batch_of([20], 0)
    # Two of the three blocks are local: 20 × 20 pairs against a band of 5 less its corners.
    fewer = 2 * (20 * 20 - (20 * 5 - 6))
    assert operations(wide, batch, 0) - operations(narrow, batch, 0) == fewer * 12 * 32


def test_the_peak_is_measured_once() -> None:
    cpu = torch.device("cpu")
    assert matmul_peak(cpu, False) == matmul_peak(cpu, False) > 1e8
