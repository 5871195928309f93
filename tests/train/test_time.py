"""A run that was given a time in place of steps: the steps are counted anew as its pace becomes known."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.train.conftest import identical, rows, stopped_at

from unmask.config import Recipe
from unmask.progress import SILENT
from unmask.train import loop
from unmask.train import plan as planning
from unmask.train import pretrain as running
from unmask.train.machine import Machine
from unmask.train.material import gather
from unmask.train.plan import Clock, RunPlan, Speed
from unmask.train.pretrain import Pretraining, pretrain
from unmask.train.schedule import Schedule
from unmask.train.start import Start
from unmask.train.state import newest

Make = Callable[..., Recipe]
FOUND = {2: 9, 4: 7}
"""Steps of a run as they are counted after some of them."""


class Counted(Clock):
    """A clock that finds what a test wants."""

    def steps(self, planned: int, step: int, seconds: float) -> int:
        return FOUND.get(step, planned)


@pytest.mark.parametrize("pace", [0.2, 1.0, 1.3, 9.0])
@pytest.mark.parametrize("late", [1.0, 0.6])
def test_a_clock_comes_out_near_its_time(pace: float, late: float) -> None:
    """Ten steps a second were expected; the first ones compile, the last seventh has another pace."""
    clock, planned, step, seconds = Clock(600.0), 6000, 0, 0.0
    while step < planned:
        step += 1
        seconds += 20.0 if step < 3 else 0.1 / pace / (late if step > 0.85 * planned else 1.0)
        planned = clock.steps(planned, step, seconds)
    assert 0.97 * 600 < seconds < 1.02 * 600


def test_a_plan_that_is_near_enough_stays() -> None:
    clock = Clock(100.0)
    assert {clock.steps(1000, step, 0.1004 * step) for step in range(1, 990)} == {1000}


def test_what_compiles_is_no_pace() -> None:
    clock = Clock(80.0)
    assert clock.steps(1000, 1, 10.5) == 1000, "an eighth of the time in the first step"
    assert clock.steps(1000, 101, 20.5) == pytest.approx(101 + 595, abs=1)
    later = Clock(80.0, spent=30.0)
    assert later.steps(700, 250, 41.0) == 700
    assert later.steps(700, 350, 61.0) == pytest.approx(350 + 95, abs=1)


def test_a_run_out_of_time_ends() -> None:
    clock = Clock(10.0)
    assert clock.steps(100, 20, 2.0) == 100
    assert clock.steps(100, 30, 10.5) == 30


def test_what_is_seen_at_one_look_alone() -> None:
    assert Clock(10.0).steps(100, 1, 12.0) == 1, "the first step took all the time"
    assert Clock(10.0, spent=9.6).steps(1000, 901, 11.6) == 901, "a slower machine goes on"
    assert Clock(10.0).steps(1, 1, 0.1) == 100, "no step is left to look after"


@pytest.mark.parametrize("changes", [[], ["train.batch_warmup=1.0"]])
def test_a_run_whose_time_is_up_at_once(
    changes: list[str], small: Make, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, run = small("train.steps=", "train.seconds=0.0001", *changes), tmp_path / "run"
    monkeypatch.setattr(planning, "probe", lambda *_: Speed(recipe.train.batch_tokens * 60 / 0.0001, 1))
    result = pretrain(recipe, run, Start(data=shards))
    assert (result.steps, bool(result.model), result.stopped) == (1, True, None)
    planned = json.loads((run / "plan.json").read_text("utf-8"))
    assert (planned["steps"], planned["tokens"]) == (1, 48 if changes else 384)
    assert pretrain(recipe, run, Start(data=shards), resume=True).steps == 1


@pytest.mark.parametrize("warmup", ["0.0", "0.5"])
def test_the_tokens_of_a_changed_plan(warmup: str, small: Make) -> None:
    schedule = Schedule(small(f"train.batch_warmup={warmup}"), 100)
    plan = RunPlan(100, 384, sum(map(schedule.batch_tokens, range(100))), 2.0, 1)
    for step, steps in ((70, 80), (70, 300), (20, 20)):
        taken = sum(map(schedule.batch_tokens, range(step)))
        coming = sum(map(Schedule(schedule.recipe, steps).batch_tokens, range(step, steps)))
        assert plan.changed(schedule, step, steps).tokens == taken + coming


def test_the_mean_of_weights_is_of_the_end(
    small: Make, shards: Path, tmp_path: Path, watcher: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four steps become twelve after the third, which was in the last half when there were four."""
    monkeypatch.setattr(running, "Clock", Counted)
    monkeypatch.setitem(FOUND, 3, 12)
    monkeypatch.delitem(FOUND, 2)
    monkeypatch.delitem(FOUND, 4)
    recipe = small("train.steps=", "train.seconds=60", "train.average=0.5", "train.save_every=1")
    monkeypatch.setattr(planning, "probe", lambda *_: Speed(recipe.train.batch_tokens * 4 / 60, 1))
    run = tmp_path / "run"
    pretrain(recipe, run, Start(data=shards), progress=stopped_at(4, watcher))
    stopped = newest(run / "checkpoints")[0]
    assert stopped
    assert (stopped.average, stopped.facts["counters"]["averaged"]) == ({}, 0)
    pretrain(recipe, run, Start(data=shards), resume=True)
    ended = newest(run / "checkpoints")[0]
    assert ended
    assert ended.facts["counters"]["averaged"] == 6


@pytest.mark.parametrize("wrong", [50.0, 1.0, 0.02])
def test_a_wrong_guess_is_mended(
    wrong: float, small: Make, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step takes a hundredth of a second, by a clock that no other work on the machine slows down."""
    ticks = itertools.count()
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 100))
    recipe, run = small("train.steps=", "train.seconds=1", "train.eval_every=1000"), tmp_path / "run"
    guess = Speed(100 * wrong * recipe.train.batch_tokens, 1)
    monkeypatch.setattr(planning, "probe", lambda *_: guess)
    result = pretrain(recipe, run, Start(data=shards))
    assert result.steps == pytest.approx(100, abs=2)
    planned = json.loads((run / "plan.json").read_text("utf-8"))
    assert (planned["steps"], planned["tokens"]) == (result.steps, result.steps * planned["tokens_per_step"])
    assert result.model


@pytest.mark.parametrize("changes", [[], ["train.stages=[{share=0.5,length=16},{share=0.5,length=64}]"]])
def test_resumed_equals_uninterrupted_where_steps_changed(
    changes: list[str],
    small: Make,
    shards: Path,
    tmp_path: Path,
    watcher: type,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stage begins in between, and its boundary moves; every step may be the last for now."""
    monkeypatch.setattr(running, "Clock", Counted)
    recipe = small("train.steps=", "train.seconds=60", "train.save_every=100", "train.eval_every=2", *changes)
    monkeypatch.setattr(planning, "probe", lambda *_: Speed(recipe.train.batch_tokens * 6 / 60, 1))
    whole = pretrain(recipe, tmp_path / "whole", Start(data=shards))
    assert whole.steps == 7
    for step in (1, 2, 3, 4, 6):
        stop = stopped_at(step, watcher)
        assert pretrain(recipe, tmp_path / "parts", Start(data=shards), step > 1, stop).steps == step
    assert pretrain(recipe, tmp_path / "parts", Start(data=shards), resume=True).steps == 7
    assert identical(tmp_path / "whole", tmp_path / "parts")
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")


def test_a_run_killed_after_it_planned_anew(
    small: Make, shards: Path, tmp_path: Path, watcher: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is of before: its plan is the one that is followed, and that is told."""
    monkeypatch.setattr(running, "Clock", Counted)
    recipe, run = small("train.steps=", "train.seconds=60"), tmp_path / "run"
    monkeypatch.setattr(planning, "probe", lambda *_: Speed(recipe.train.batch_tokens * 6 / 60, 1))
    pretrain(recipe, run, Start(data=shards), progress=stopped_at(1, watcher))
    before = json.loads((run / "plan.json").read_text("utf-8"))
    (run / "plan.json").write_text(json.dumps(before | {"steps": 9, "tokens": 9 * 384}), "utf-8")
    training = Pretraining(gather(recipe, run, Start(data=shards)), Machine.choose(recipe.train), run, SILENT)
    training.resume()
    assert json.loads((run / "plan.json").read_text("utf-8")) == before
    assert training.trainer.schedule.steps == 6
