"""Several processes against one: the same samples, losses, weights; any number reads what another saved."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from unmask.config import Recipe
from unmask.errors import ConfigError
from unmask.runs import read_metrics
from unmask.train.pretrain import pretrain
from unmask.train.start import Start
from unmask.train.state import checkpoints, newest

Make = Callable[..., Recipe]
EXACT = ["model.dropout=0.0", "model.attention_dropout=0.0", "train.micro_tokens=96", "train.eval_every=3"]
KINDS = {
    "pairs": [*EXACT, "batch.pairs=nsp", "train.average=0.5", "train.clip=0.3"],
    "hybrid": [*EXACT, "objective.causal=0.5", "train.batch_tokens=432", "batch.mask.kind=word"],
    "unused": [*EXACT, "batch.pairs=sop", "objective.mlm=0.0", "batch.mask.kind=span", "objective.sbo=true"],
    "muon": [*EXACT, "train.optimiser=muon", "train.muon_lr=0.001"],
}
# One start of two processes for all runs: importing torch takes longer than training.
DRIVER = """
import json, signal, sys
from contextlib import contextmanager
from pathlib import Path
import torch
from unmask.config import Recipe
from unmask.progress import Progress, Stage
from unmask.train import parallel
from unmask.train.start import Start
from unmask.train.pretrain import dry_run, pretrain

class Stopping(Progress):
    def __init__(self, step):
        self.last = step
    @contextmanager
    def stage(self, label, total=None, unit=""):
        yield Steps(self.last)

class Steps(Stage):
    def __init__(self, last):
        self.last, self.done = last, 0
    def advance(self, amount):
        self.done += amount
    def note(self, text):
        if self.done == self.last:
            signal.raise_signal(signal.SIGTERM)

torch.set_num_threads(1)
parallel._BUCKET = 8192  # several buckets even in a model this small
with parallel.processes():
    for run, recipe, stop in json.loads(Path(sys.argv[2]).read_text()):
        result = pretrain(
            Recipe.model_validate(recipe), Path(run), Start(data=Path(sys.argv[1])), True, Stopping(stop)
        )
        assert (result.steps, result.stopped) == ((stop, signal.SIGTERM) if stop else (6, None)), result
    recipe["train"]["micro_tokens"] = 16  # less than a sequence
    assert dry_run(Recipe.model_validate(recipe), Path(run), Start(data=Path(sys.argv[1]))).tokens_per_s
print("rank", parallel.rank())
"""
Plan = list[tuple[str, Recipe, int]]


def start_all(folder: Path, shards: Path, plan: Plan, ranks: int) -> None:
    """Run one after the other what the plan says: folder, recipe, step to stop after or 0."""
    (folder / "driver.py").write_text(DRIVER, "utf-8")
    listed = [(run, recipe.model_dump(mode="json"), stop) for run, recipe, stop in plan]
    (folder / "plan.json").write_text(json.dumps(listed), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = os.environ | {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [sys.executable, folder / "driver.py", shards, folder / "plan.json"],
            env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    errors = [process.communicate(timeout=300)[1] for process in started]
    assert not any(process.returncode for process in started), "\n".join(errors)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, shards: Path, small: Make, watcher: type) -> Path:
    """Runs of one process and of two, whole and in parts."""
    folder = tmp_path_factory.mktemp("ranks")
    kinds = KINDS | {"taught": [*EXACT, f"objective.teachers={json.dumps([f'{folder}/one-pairs/model'])}"]}
    for kind, changes in kinds.items():
        pretrain(small(*changes), folder / f"one-{kind}", Start(data=shards))
    plan: Plan = [(f"{folder}/ddp-{kind}", small(*changes), 0) for kind, changes in kinds.items()]
    for kind in ("pairs", "hybrid", "unused", "taught"):
        plan.append((f"{folder}/fsdp-{kind}", small(*kinds[kind], "train.parallel=fsdp"), 0))
    for mode in ("ddp", "fsdp"):
        recipe = small(*KINDS["pairs"], f"train.parallel={mode}")
        plan += [(f"{folder}/{mode}-parts", recipe, step) for step in (2, 4, 0)]
        plan.append((f"{folder}/{mode}-then-one", recipe, 4))
    recipe = small(*KINDS["pairs"], "train.parallel=fsdp")
    stop = watcher(lambda step: signal.raise_signal(signal.SIGTERM) if step == 4 else None)
    pretrain(recipe, folder / "one-then-fsdp", Start(data=shards), progress=stop)
    plan.append((f"{folder}/one-then-fsdp", recipe, 0))
    start_all(folder, shards, plan, 2)
    for mode in ("ddp", "fsdp"):
        pretrain(small(*KINDS["pairs"]), folder / f"{mode}-then-one", Start(data=shards), resume=True)
    return folder


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def state(run: Path) -> dict[str, torch.Tensor]:
    """Everything the last checkpoint holds."""
    snapshot, broken = newest(run / "checkpoints")
    assert snapshot
    assert not broken
    tables = {"weights": snapshot.weights, "optimiser": snapshot.optimiser, "average": snapshot.average}
    return {f"{table}/{name}": tensor for table, held in tables.items() for name, tensor in held.items()}


def close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(
            other[name], tensor, rtol=0, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


def assert_same_metrics(one: Path, other: Path, tolerance: float = 1.5e-5) -> None:
    """To 1e-5, and half of the last digit that is written."""
    mine, theirs = list(read_metrics(one)), list(read_metrics(other))
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        same = ("split", "step", "epoch", "tokens", "lr", "skipped", "best")
        assert [a.get(key) for key in same] == [b.get(key) for key in same]
        if a["split"] != "cloze":
            assert a["loss"] == pytest.approx(b["loss"], abs=tolerance)
            assert a["parts"] == pytest.approx(b["parts"], abs=tolerance)
            assert a["accuracy"] == pytest.approx(b["accuracy"], abs=1e-6)
            assert a.get("grad_norm", 0) == pytest.approx(b.get("grad_norm", 0), rel=20 * tolerance)


CASES = [f"{mode}-{kind}" for mode in ("ddp", "fsdp") for kind in ("pairs", "hybrid", "unused", "taught")]
MIXED = ["ddp-then-one", "fsdp-then-one", "one-then-fsdp"]


@pytest.mark.parametrize("case", [*CASES, *MIXED])
def test_as_many_processes_as_you_like(place: Path, case: str) -> None:
    kind = case.partition("-")[2] if case in CASES else "pairs"
    assert_same_metrics(place / f"one-{kind}", place / case)
    close(state(place / f"one-{kind}"), state(place / case), 2e-5)
    close(weights(place / f"one-{kind}"), weights(place / case), 2e-5)
    close(
        load_file(place / f"one-{kind}/best/model.safetensors"),
        load_file(place / case / "best/model.safetensors"),
        2e-5,
    )


def test_muon_keeps_whole_matrices(place: Path, small: Make) -> None:
    assert_same_metrics(place / "one-muon", place / "ddp-muon", 2e-3)  # it computes in half precision
    with pytest.raises(ConfigError, match="muon needs whole matrices"):
        small("train.optimiser=muon", "train.parallel=fsdp")


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_resumed_equals_uninterrupted(place: Path, mode: str) -> None:
    whole, parts = place / f"{mode}-pairs", place / f"{mode}-parts"
    close(state(whole), state(parts), 0)
    close(weights(whole), weights(parts), 0)
    assert [r["loss"] for r in read_metrics(whole) if "loss" in r] == [
        r["loss"] for r in read_metrics(parts) if "loss" in r
    ]


def test_who_writes_what(place: Path) -> None:
    ddp, fsdp = (checkpoints(place / f"{mode}-pairs" / "checkpoints") for mode in ("ddp", "fsdp"))
    assert [path.name for path in ddp] == [path.name for path in fsdp] == ["00000006", "00000005"]
    assert sorted(path.name for path in ddp[0].iterdir()) == ["rank-00000-of-00001.safetensors", "state.json"]
    names = [f"rank-0000{rank}-of-00002.safetensors" for rank in range(2)]
    assert sorted(path.name for path in fsdp[0].iterdir()) == [*names, "state.json"]
    files = json.loads((fsdp[0] / "state.json").read_text())["files"]
    parts = [load_file(fsdp[0] / name) for name in names]
    table = "weights/encoder.embeddings.tokens.weight"
    assert [files[name]["rows"][table] for name in names] == [[0, 140], [70, 140]]
    assert [part[table].shape for part in parts] == [(70, 32), (70, 32)]
    assert not any(path.name.startswith(".") for path in fsdp[0].parent.iterdir())


def test_a_lost_part_is_noticed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    path = checkpoints(place / "fsdp-pairs" / "checkpoints")[0]
    copy = tmp_path / "checkpoints" / path.name
    copy.mkdir()
    for file in path.iterdir():
        if "00001-of" not in file.name:
            (copy / file.name).write_bytes(file.read_bytes())
    snapshot, broken = newest(tmp_path / "checkpoints")
    assert snapshot is None
    assert "incomplete" in broken[0]
