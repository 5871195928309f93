"""What a step does follows from its number alone."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.config import load_recipe
from unmask.errors import ConfigError
from unmask.train.schedule import Schedule, Stage, micro_batches


def schedule(steps: int, *changes: str) -> Schedule:
    return Schedule(load_recipe(None, list(changes)), steps)


def test_linear_rises_and_falls_in_straight_lines() -> None:
    plan = schedule(100, "train.warmup=0.1")
    assert [plan.lr_share(step) for step in range(10)] == pytest.approx([i / 10 for i in range(1, 11)])
    assert [plan.lr_share(step) for step in range(10, 100)] == pytest.approx([1 - i / 90 for i in range(90)])


def test_cosine_is_half_way_down_in_the_middle() -> None:
    plan = schedule(110, "train.warmup=0.0909", "train.schedule=cosine", "train.final=0.2")
    assert plan.lr_share(10) == 1
    assert plan.lr_share(60) == pytest.approx(0.6)
    assert plan.lr_share(35) == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2)


def test_wsd_stays_and_then_falls() -> None:
    plan = schedule(100, "train.warmup=0.1", "train.schedule=wsd", "train.decay=0.3", "train.final=0.1")
    assert {plan.lr_share(step) for step in range(9, 71)} == {1}
    assert plan.lr_share(85) == pytest.approx(0.55)
    assert 0.1 < plan.lr_share(99) < 0.14


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 300),
    st.sampled_from(["linear", "cosine", "wsd"]),
    st.floats(0, 0.5),
    st.floats(0.01, 0.5),
    st.floats(0, 1),
)
def test_learning_rates_stay_within_bounds(
    steps: int, kind: str, warmup: float, decay: float, final: float
) -> None:
    plan = schedule(
        steps,
        f"train.schedule={kind}",
        f"train.warmup={warmup}",
        f"train.decay={decay}",
        f"train.final={final}",
    )
    shares = [plan.lr_share(step) for step in range(steps)]
    assert all(0 < share <= 1 for share in shares)
    peak = shares.index(max(shares))
    assert shares[peak:] == sorted(shares[peak:], reverse=True)


def test_batches_grow() -> None:
    plan = schedule(100, "train.batch_warmup=0.2", "train.batch_tokens=8000")
    sizes = [plan.batch_tokens(step) for step in range(100)]
    assert sizes[0] == 1000
    assert sizes[10] == pytest.approx(4500)
    assert sizes[:21] == sorted(sizes[:21])
    assert set(sizes[20:]) == {8000}


def test_stages_cover_every_step_once() -> None:
    stages = "train.stages=[{share=0.9,length=128},{share=0.1,length=512}]"
    assert schedule(1000, stages).stages() == [Stage(0, 900, 128), Stage(900, 1000, 512)]
    assert schedule(1, stages).stages() == [Stage(0, 1, 128)]
    assert schedule(50, "batch.length=64").stages() == [Stage(0, 50, 64)]


def test_mask_ratio_follows_its_line() -> None:
    plan = schedule(101, "batch.mask.ratio=0.4", "batch.mask.ratio_end=0.15")
    assert plan.objective(0).ratio == pytest.approx(0.4)
    assert plan.objective(50).ratio == pytest.approx(0.275)
    assert plan.objective(100).ratio == pytest.approx(0.15)


def test_which_steps_are_causal_follows_from_seed_and_step() -> None:
    kinds = [
        [
            schedule(steps, "objective.causal=0.25", f"seed={seed}").objective(step).kind
            for step in range(2000)
        ]
        for steps, seed in ((2000, 1), (9000, 1), (2000, 2))
    ]
    assert kinds[0] == kinds[1]
    assert kinds[0] != kinds[2]
    assert kinds[0].count("causal") / 2000 == pytest.approx(0.25, abs=0.03)
    assert {schedule(9, "objective.causal=1.0").objective(step).kind for step in range(9)} == {"causal"}


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 500), st.integers(8, 600), st.integers(1, 5000), st.integers(1, 8))
def test_micro_batches_share_the_step_out(units: int, length: int, micro: int, ranks: int) -> None:
    units = max(units, ranks)
    sizes = micro_batches(units, length, micro, ranks)
    assert sum(sizes) == units
    assert min(sizes) >= ranks
    assert max(sizes) - min(sizes) <= 1
    fits = max(1, micro // length) * ranks
    assert max(sizes) <= max(fits, 2 * ranks - 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["train.steps=3", "objective.sbo=true"], "set batch.mask.kind to span"),
        (["objective.causal=0.5", "batch.pairs=nsp"], "neither batch.pairs nor objective.sbo"),
        (["objective.mlm=0"], "leaves no token to predict"),
        (["objective.mlm=0", "batch.pairs=nsp"], "leaves no token to predict"),
        (["train.stages=[{share=0.5,length=128}]"], "must sum to 1"),
        (["train.schedule=wsd", "train.warmup=0.6", "train.decay=0.6"], "together at most 1"),
    ],
)
def test_settings_that_contradict_each_other_are_one_clear_line(changes: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_recipe(None, changes)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "changes",
    [
        ["train.steps=7"],
        ["train.epochs=", "train.steps=7"],
        ["train.steps=7", "train.epochs="],
        ["train.epochs=2", "train.epochs=", "train.steps=7"],
    ],
)
def test_a_change_of_budget_takes_the_place_of_a_recipe_s(changes: list[str]) -> None:
    train = load_recipe("tiny-docs", changes).train
    assert (train.steps, train.epochs, train.seconds) == (7, None, None)


@pytest.mark.parametrize(
    ("name", "change", "kept"),
    [
        ("bert-base", "train.seconds=", (1_000_000, None, None)),
        ("tiny-docs", "train.steps=", (None, None, 240)),
        ("tiny-docs", "train.epochs=", (None, None, 240)),
    ],
)
def test_emptying_a_budget_keeps_the_recipe_s_other(
    name: str, change: str, kept: tuple[int | None, ...]
) -> None:
    train = load_recipe(name, [change]).train
    assert (train.steps, train.epochs, train.seconds) == kept


def test_two_changes_of_budget_are_refused() -> None:
    message = "^--set train.steps=2 and --set train.seconds=1 exclude each other: leave one of them out$"
    with pytest.raises(ConfigError, match=message):
        load_recipe("tiny-docs", ["train.steps=2", "train.seconds=1"])
