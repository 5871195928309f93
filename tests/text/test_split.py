import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.text import SPLITS, split_of, text_hash

hashes = st.integers(0, 2**64 - 1)
shares = st.floats(0, 0.5)


def test_the_hash_never_changes() -> None:
    """Splits of corpora already made depend on it; the digits are those of `b2sum -l 64`."""
    assert text_hash("O gato preto dorme.").to_bytes(8, "little").hex() == "e6e09c74e7212b73"


def test_shares_are_kept() -> None:
    splits = [split_of(text_hash(f"documento {i}"), 0.1, 0.2) for i in range(20_000)]
    counts = [splits.count(i) / len(splits) for i in range(len(SPLITS))]
    assert counts == pytest.approx([0.7, 0.1, 0.2], abs=0.01)


@pytest.mark.parametrize("value", [0, 1, 2**63, 2**64 - 1])
def test_extremes(value: int) -> None:
    assert split_of(value, 0, 0) == 0
    assert split_of(value, 1, 0) == 1
    assert split_of(value, 0, 1) == 2


@settings(deadline=None)
@given(value=hashes, valid=shares, more=shares, test=shares)
def test_a_larger_share_only_takes_from_train(value: int, valid: float, more: float, test: float) -> None:
    before, after = split_of(value, valid, test), split_of(value, valid + more, test)
    assert after == before or (before, after) == (0, 1)
    larger = min(test + more, 1 - valid)
    before, after = split_of(value, valid, test), split_of(value, valid, larger)
    assert after == before or (before, after) == (0, 2)
