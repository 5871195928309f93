"""`unmask pretrain`, alone and under torchrun, with kill -9, signals, a full disk: the end is the same."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from safetensors.torch import load_file
from tests.faults.conftest import STORE, fail, finish, start

from unmask.config import TokenizerConfig, load_recipe
from unmask.data.prepare import prepare
from unmask.runs import read_metrics
from unmask.text import find_sources
from unmask.tokenizer import train_tokenizer
from unmask.train.state import checkpoints, newest

Outcome = tuple[dict[str, bytes], list[dict[str, object]]]
KILLS = 20
CHANGES = [
    "model.width=64", "model.layers=2", "model.heads=2", "model.inner=128", "model.positions=64",
    "batch.length=64", "batch.pairs=nsp", "train.batch_tokens=512", "train.micro_tokens=256",
    "train.steps=200", "train.workers=1", "train.save_every=3", "train.eval_every=40",
    "train.eval_tokens=2000", "train.average=0.1",
]  # fmt: skip
# A driver, so that a run starts in the time it takes to import torch, and says when it begins to train.
DRIVER = """
import sys
from pathlib import Path
import torch
from unmask.config import load_recipe
from unmask.errors import UserError
from unmask.train.start import Start
from unmask.train.pretrain import pretrain
if __name__ == "__main__":
    torch.set_num_threads(1)
    recipe = load_recipe(None, sys.argv[2:])
    sys.stdout.write("ready\\n")  # one write, unlike print: processes share the pipe
    sys.stdout.flush()
    try:
        result = pretrain(recipe, Path(sys.argv[1]), Start(data=Path("shards")), resume=True)
    except UserError as error:
        sys.exit(f"unmask: {error}")
    sys.exit(128 + result.stopped if result.stopped else 0)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> Path:
    """Invented text as shards, and the driver."""
    folder = tmp_path_factory.mktemp("faults")
    draw = random.Random(0)
    documents = [
        " ".join(
            " ".join(draw.choices(words, k=draw.randint(3, 9))).capitalize() + "."
            for _ in range(draw.randint(2, 9))
        )
        for _ in range(600)
    ]
    (folder / "text.txt").write_text("\n\n".join(documents), "utf-8")
    tokenizer = train_tokenizer(documents, TokenizerConfig(vocab_size=150))
    recipe = load_recipe(None, ["prepare.valid=0.05"])
    prepare(find_sources([str(folder / "text.txt")]), tokenizer, folder / "shards", recipe, workers=1)
    (folder / "driver.py").write_text(DRIVER, "utf-8")
    return folder


TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]


def train(place: Path, run: Path, *changes: str, launcher: Sequence[str] = ()) -> subprocess.Popen[str]:
    return start(place, run, *CHANGES, *changes, launcher=launcher)


def result(run: Path) -> Outcome:
    """The final weights, byte for byte, and the metrics without the clock."""
    snapshot, broken = newest(run / "checkpoints")
    assert snapshot
    assert not broken
    tables = {
        "weights": snapshot.weights, "optimiser": snapshot.optimiser, "average": snapshot.average,
        "model": load_file(run / "model" / "model.safetensors"),
    }  # fmt: skip
    tensors = {
        f"{table} {name}": t.numpy().tobytes() for table, ts in tables.items() for name, t in ts.items()
    }
    clock = ("seconds", "tokens_per_s", "mfu")
    return tensors, [{k: v for k, v in row.items() if k not in clock} for row in read_metrics(run)]


@pytest.fixture(scope="module")
def undisturbed(place: Path) -> Outcome:
    """The outcome of a run that nothing disturbed."""
    finish(train(place, place / "whole"))
    return result(place / "whole")


def signal_all(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """To every process, one after the other."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    assert len(family) > 1
    for each in family:
        each.send_signal(number)


def wait_for_step(run: Path, step: int) -> None:
    while not any(int(path.name) >= step for path in checkpoints(run / "checkpoints")):
        time.sleep(0.005)


def test_killed_twenty_times_ends_with_the_same_weights(place: Path, undisturbed: Outcome) -> None:
    draw, run, kills = random.Random(1), place / "killed", 0
    while kills < KILLS:
        process = train(place, run)
        done = max((int(path.name) for path in checkpoints(run / "checkpoints")), default=0)
        goal = min(done + draw.randint(3, 15), 195)
        wait_for_step(run, goal)
        time.sleep(draw.uniform(0, 0.1))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kills += 1
    assert not (run / "model").exists()
    finish(train(place, run))
    assert result(run) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_stops(place: Path, undisturbed: Outcome, number: signal.Signals) -> None:
    run = place / f"signal-{number}"
    process = train(place, run, "train.save_every=1000")
    while len(list(read_metrics(run))) < 5:
        time.sleep(0.01)
    signal_all(process, number)  # the workers hear it too, as they do on a terminal and under Slurm
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    saved = int(checkpoints(run / "checkpoints")[0].name)
    assert saved == list(read_metrics(run))[-1]["step"]
    finish(train(place, run))
    assert result(run) == undisturbed


def test_a_worker_that_dies_is_one_clear_line(place: Path, undisturbed: Outcome) -> None:
    """Two that build batches and one that plans: whichever it is."""
    run = place / "worker"
    for number in range(3):
        process = train(place, run, "train.workers=2")
        wait_for_step(run, 10 * (number + 1))
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) == 3
        workers[number].kill()
        fail(process, "a worker process died (out of memory, or killed): go on with --resume")
    finish(train(place, run, "train.workers=2"))
    assert result(run) == undisturbed


def test_a_full_disk_is_one_clear_line_and_the_last_checkpoint_is_whole(
    place: Path, undisturbed: Outcome, small_disk: Any
) -> None:
    small = small_disk.mount(megabytes=4)
    fail(train(place, small / "run", "train.keep=20"), "no space left")
    snapshot, broken = newest(small / "run" / "checkpoints")
    assert snapshot
    assert not broken
    assert not list((small / "run" / "checkpoints").glob(".*"))
    small_disk.grow(megabytes=64)
    finish(train(place, small / "run"))
    assert result(small / "run") == undisturbed


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def together(place: Path, request: pytest.FixtureRequest) -> tuple[list[str], Outcome]:
    """The outcome of a run of two processes that nothing disturbed."""
    changes = [f"train.parallel={request.param}", "train.steps=60"]
    finish(train(place, place / request.param, *changes, launcher=TORCHRUN))
    return changes, result(place / request.param)


def worker(process: subprocess.Popen[str], rank: int) -> psutil.Process:
    """The process of that rank which torchrun started."""
    found = psutil.Process(process.pid).children()
    return next(each for each in found if each.environ()["RANK"] == str(rank))


def test_torchrun_goes_on_after_a_worker_was_killed(place: Path, together: tuple[list[str], Outcome]) -> None:
    changes, expected = together
    run = place / f"restarted-{changes[0]}"
    process = train(place, run, *changes, launcher=TORCHRUN)
    wait_for_step(run, 15)
    worker(process, 1).kill()
    wait_for_step(run, 35)
    worker(process, 0).kill()
    finish(process)
    assert result(run) == expected


def test_a_scheduler_that_signals_everyone(place: Path, together: tuple[list[str], Outcome]) -> None:
    changes, expected = together
    run = place / f"preempted-{changes[0]}"
    process = train(place, run, *changes, "train.save_every=1000", launcher=TORCHRUN)
    while len(list(read_metrics(run))) < 5:
        time.sleep(0.01)
    signal_all(process, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode
    assert int(checkpoints(run / "checkpoints")[0].name) == list(read_metrics(run))[-1]["step"]
    finish(train(place, run, *changes, launcher=TORCHRUN))
    assert result(run) == expected


def test_from_raw_text_under_torchrun(place: Path) -> None:
    sets = [f"--set={change}" for change in (*CHANGES, "train.steps=5", "tokenizer.vocab_size=150")]
    run, text = place / "text-run", place / "text.txt"
    options = ["--text", text, "-o", run, "--set=train.parallel=fsdp", "--resume"]
    command = [sys.executable, *TORCHRUN, "-m", "unmask", "pretrain", "tiny-docs", *options, *sets]
    models = []
    for _ in range(2):  # the same line begins a run and goes on with it
        done = subprocess.run(
            list(map(str, command)), env=os.environ | STORE, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("5 steps") == 1
        models.append((run / "model" / "model.safetensors").read_bytes())
    assert models[0] == models[1]
    assert (run / "shards" / "manifest.json").is_file()
