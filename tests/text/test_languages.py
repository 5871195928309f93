import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.errors import ConfigError
from unmask.text import sampling_weights

SIZES = {"en": 900.0, "pt": 90.0, "mwl": 10.0}


def test_by_hand() -> None:
    # p = 0.9, 0.09, 0.01; with alpha 1/2 the roots are 0.94868, 0.3, 0.1, in all 1.34868.
    weights = sampling_weights(SIZES, 0.5)
    assert weights == pytest.approx({"en": 0.70341, "pt": 0.22244, "mwl": 0.07415}, abs=1e-5)


def test_one_keeps_the_shares_and_zero_levels_them() -> None:
    assert sampling_weights(SIZES, 1) == pytest.approx({"en": 0.9, "pt": 0.09, "mwl": 0.01})
    assert sampling_weights({**SIZES, "xx": 0}, 0) == pytest.approx(
        {"en": 1 / 3, "pt": 1 / 3, "mwl": 1 / 3, "xx": 0}
    )


@given(
    sizes=st.dictionaries(st.text(max_size=3), st.floats(1, 1e12), min_size=1, max_size=6),
    alpha=st.floats(0.05, 1),
)
def test_small_languages_gain_and_order_stays(sizes: dict[str, float], alpha: float) -> None:
    weights = sampling_weights(sizes, alpha)
    assert sum(weights.values()) == pytest.approx(1)
    smallest = min(sizes, key=sizes.__getitem__)
    assert weights[smallest] >= sizes[smallest] / sum(sizes.values()) - 1e-9
    ranked = sorted(sizes, key=sizes.__getitem__)
    assert [weights[name] for name in ranked] == sorted(weights.values())


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(ConfigError, match="give a number from 0"):
        sampling_weights(SIZES, alpha)


def test_sizes_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="no text in any language"):
        sampling_weights({"pt": 0}, 0.5)
    with pytest.raises(ConfigError, match="negative"):
        sampling_weights({"pt": -1, "en": 3}, 0.5)
