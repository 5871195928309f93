"""Batches that other processes build: the same ones, and nothing of them is left behind."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.resource_sharer import DupFd
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.data.conftest import CONFIGS, SIZES, same, steps

from unmask.config import BatchConfig, MaskConfig, Recipe
from unmask.data.batches import Batches, Objective
from unmask.data.plan import Plan, Position, Window
from unmask.data.prepare import prepare
from unmask.data.shards import Corpus
from unmask.errors import ConfigError, CorpusError, UserError
from unmask.processes import worker_errors
from unmask.text import find_sources
from unmask.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("small_windows")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than cores
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_change_nothing(make_documents: Callable, workers: int) -> None:
    documents = make_documents(SIZES)
    batches = Batches(documents, CONFIGS["sop"], 3)
    objectives = [Objective(ratio=0.3), Objective("causal"), Objective(ratio=0.1)] * 4
    alone = steps(batches, 99, objectives=objectives)
    shared = steps(batches, 99, objectives=objectives, workers=workers)
    assert len(alone) == len(shared) == len(objectives)
    for (first, at_first), (second, at_second) in zip(alone, shared, strict=True):
        assert at_first == at_second
        assert same(first, second)
    passes = [list(batches.one_pass(5, workers=count)) for count in (0, workers)]
    assert all(same(a, b) for a, b in zip(*passes, strict=True))


def test_workers_leave_signals_to_their_parent(make_documents: Callable) -> None:
    batches = Batches(make_documents(SIZES), BatchConfig(length=32), 1)
    stream = batches.steps(Position(), 2, workers=2)
    next(stream)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert not before & {signal.SIGTERM, signal.SIGINT}
    workers = multiprocessing.active_children()
    assert len(workers) == 3, "two build, one plans"
    for worker in workers:
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(worker.pid, number)
    for _ in range(20):  # more than were built ahead
        next(stream)
    stream.close()
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_an_error_in_a_worker_stays_one_line(make_documents: Callable, workers: int) -> None:
    batches = Batches(make_documents([500]), BatchConfig(length=32, mask=MaskConfig(kind="span")))
    with pytest.raises(ConfigError) as caught:
        steps(batches, 1, objectives=[Objective(ratio=0.9)], workers=workers)
    assert "\n" not in str(caught.value)
    assert not multiprocessing.active_children(), "though the error remembers who raised it"


@pytest.mark.parametrize("error", [ConnectionResetError, ConnectionRefusedError, EOFError])
def test_a_worker_that_dies_while_it_hands_over_is_one_clear_line(
    make_documents: Callable, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """As multiprocessing tells it, where a worker is killed at that very moment."""

    def lost(*_: object) -> None:
        raise error

    stream = Batches(make_documents(SIZES), BatchConfig(length=32), 1).steps(Position(), 2, workers=1)
    next(stream)
    monkeypatch.setattr(DupFd, "detach", lost)
    with pytest.raises(UserError, match="a worker process died"), worker_errors():
        list(stream)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [0, 1])  # the second window is asked for while the workers begin
def test_an_error_of_the_plan_leaves_no_process(
    make_documents: Callable, monkeypatch: pytest.MonkeyPatch, workers: int, number: int
) -> None:
    whole = Plan.window

    def window(self: Plan, turn: tuple[int, int]) -> Window:
        if turn == (0, number):
            raise CorpusError("this window is gone")
        return whole(self, turn)

    monkeypatch.setattr(Plan, "window", window)
    with pytest.raises(CorpusError) as caught:
        steps(Batches(make_documents(SIZES), BatchConfig(length=32)), 9, workers=workers)
    assert str(caught.value) == "this window is gone"
    assert not multiprocessing.active_children()


_LEFT_ALONE = """
import multiprocessing, time
from tests.data.conftest import MemoryDocuments
from unmask.config import BatchConfig
from unmask.data.batches import Batches
from unmask.data.plan import Position

documents = MemoryDocuments([30] * 4000)  # a window of more than a pipe takes
stream = Batches(documents, BatchConfig(length=32)).steps(Position(), 4, workers=2)
next(stream)
print(*(process.pid for process in multiprocessing.active_children()), flush=True)
time.sleep(60)
"""


def test_workers_end_with_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", _LEFT_ALONE]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as parent:
        assert parent.stdout
        workers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        time.sleep(1)  # until the one that plans waits for someone to read
        parent.kill()
    assert len(workers) == 3
    _, alive = psutil.wait_procs(workers, timeout=30)
    for worker in alive:
        worker.kill()
    assert not alive


def test_what_workers_need_is_sent_to_a_fresh_process(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    """Where processes are not forked, as on macOS."""
    recipe = Recipe.model_validate({"prepare": {"valid": 0.0, "test": 0.0, "shard_tokens": 600}})
    prepare(find_sources([str(text_folder)]), tokenizer, tmp_path / "out", recipe, workers=1)
    batches = Batches(Corpus.open(tmp_path / "out"), BatchConfig(length=24), 1)
    there = pickle.loads(pickle.dumps((batches._plan.window, batches._builder.build)))
    ((request, _),) = batches.requests(Position(), 3, [Objective()])
    assert same(there[1](pickle.loads(pickle.dumps(request))), batches.batch(request))
    assert np.array_equal(there[0]((0, 0)).sequences, batches._plan.window((0, 0)).sequences)
