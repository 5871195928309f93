"""Batches: every sequence once, under the budget, packed without padding."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.predict.batching import pack, plan


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 120))
@settings(deadline=None, max_examples=60)
def test_plan_takes_every_sequence_once_under_the_budget(lengths: list[int], budget: int) -> None:
    batches = plan(lengths, budget)
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[number] for number in batch) <= budget
    ordered = [lengths[number] for batch in batches for number in batch]
    assert ordered == sorted(ordered, reverse=True)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
@settings(deadline=None, max_examples=30)
def test_pack_lays_sequences_end_to_end(lengths: list[int]) -> None:
    sequences = [np.full(length, number) for number, length in enumerate(lengths)]
    packed = pack(sequences, torch.device("cpu"), sequences)
    assert packed.cu_seqlens.diff().tolist() == lengths == list(packed.lengths)
    assert packed.positions.tolist() == [place for length in lengths for place in range(length)]
    assert packed.ids.tolist() == [n for n, length in enumerate(lengths) for _ in range(length)]
    assert packed.segments is not None
    assert packed.segments.tolist() == packed.ids.tolist()
    assert packed.max_seqlen == max(lengths)
