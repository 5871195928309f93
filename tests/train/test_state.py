"""Checkpoints: whole or not there, checked when read, the last few kept."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.errors import ModelError, OutputError
from unmask.files import digest
from unmask.train.state import Saver, Snapshot, checkpoint_path, checkpoints, newest, read_checkpoint


def snapshot(step: int) -> Snapshot:
    draw = torch.Generator().manual_seed(step)
    weights = {"a": torch.randn(7, 5, generator=draw), "b.c": torch.randn(3, generator=draw)}
    optimiser = {"a/step": torch.tensor(float(step)), "a/exp_avg": torch.randn(7, 5, generator=draw)}
    return Snapshot(step, {"counters": {"step": step}, "best": None}, weights, optimiser)


def write_checkpoint(folder: Path, moment: Snapshot) -> Path:
    saver = Saver(folder, keep=9)
    saver.save(moment)
    saver.wait()
    return checkpoint_path(folder, moment.step)


def same(one: Snapshot, other: Snapshot) -> bool:
    tables = [(one.weights, other.weights), (one.optimiser, other.optimiser), (one.average, other.average)]
    return (one.step, one.facts) == (other.step, other.facts) and all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in tables
    )


def test_round_trip(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, snapshot(12))
    assert path.name == "00000012"
    assert same(read_checkpoint(path), snapshot(12))
    assert [p.name for p in tmp_path.iterdir()] == ["00000012"]


def test_the_last_few_are_kept_and_leftovers_go(tmp_path: Path) -> None:
    (tmp_path / ".00000001.99.tmp").mkdir(parents=True)
    saver = Saver(tmp_path, keep=2)
    for step in (3, 20, 100, 101):
        saver.save(snapshot(step))
    saver.wait()
    assert [p.name for p in checkpoints(tmp_path)] == ["00000101", "00000100"]
    assert len(list(tmp_path.iterdir())) == 2
    found, broken = newest(tmp_path)
    assert found
    assert same(found, snapshot(101))
    assert not broken


def test_a_broken_checkpoint_never_outlives_a_whole_one(tmp_path: Path) -> None:
    (write_checkpoint(tmp_path, snapshot(200)) / "state.json").write_text("{", "utf-8")
    saver = Saver(tmp_path, keep=1)
    saver.save(snapshot(150))  # the training went on from an older one
    saver.wait()
    found, broken = newest(tmp_path)
    assert found
    assert (found.step, len(broken)) == (150, 1)
    saver.save(snapshot(250))
    saver.wait()
    assert [p.name for p in checkpoints(tmp_path)] == ["00000250"]


def test_what_is_saved_is_the_moment_of_saving(tmp_path: Path) -> None:
    saver, weights = Saver(tmp_path, keep=2), {"a": torch.zeros(1000, 1000)}
    saver.save(Snapshot(1, {}, weights, {}))
    weights["a"].fill_(7)
    saver.wait()
    assert not read_checkpoint(tmp_path / "00000001").weights["a"].any()


def test_the_same_step_again_takes_the_place_of_the_old(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, snapshot(5))
    other = Snapshot(5, {"new": True}, snapshot(6).weights, {})
    write_checkpoint(tmp_path, other)
    assert same(read_checkpoint(tmp_path / "00000005"), other)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_damage_is_passed_over(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damage")
    write_checkpoint(folder, snapshot(1))
    path = write_checkpoint(folder, snapshot(2))
    victim = data.draw(st.sampled_from(sorted(path.iterdir())))
    content = bytearray(victim.read_bytes())
    damage = data.draw(st.sampled_from(["flip", "cut", "lose"]))
    place = data.draw(st.integers(0, len(content) - 1))
    if damage == "flip":
        content[place] ^= 1 << data.draw(st.integers(0, 7))
        victim.write_bytes(content)
    elif damage == "cut":
        victim.write_bytes(content[: min(place, len(content) - 2)])
    else:
        victim.unlink()
    found, broken = newest(folder)
    assert found
    assert same(found, snapshot(1))
    assert len(broken) == 1
    assert "00000002" in broken[0]
    assert "\n" not in broken[0]


def test_another_format_is_named(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, snapshot(1)) / "state.json"
    values = json.loads(path.read_text()) | {"format": 99}
    del values["digest"]
    path.write_text(json.dumps(values | {"digest": digest(json.dumps(values, sort_keys=True))}))
    with pytest.raises(ModelError, match="another version"):
        read_checkpoint(path.parent)


def test_nothing_there_is_nothing_found(tmp_path: Path) -> None:
    assert newest(tmp_path / "none") == (None, [])


def test_a_place_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    saver = Saver(tmp_path / "file" / "checkpoints", keep=2)
    saver.save(snapshot(1))
    with pytest.raises(OutputError, match="cannot write"):
        saver.wait()
