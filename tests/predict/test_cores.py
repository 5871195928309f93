"""Batches side by side: the same answers in the same order, and nothing left changed behind."""

import _thread
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from unmask.predict import MaskedLM
from unmask.predict.cores import side_by_side


@pytest.fixture(autouse=True)
def two_cores() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def work(job: int) -> tuple[int, int, str]:
    time.sleep(0.002 * (job % 3))
    return job, torch.get_num_threads(), threading.current_thread().name


def test_many_jobs_keep_their_order_and_have_one_core_each() -> None:
    numbers, threads, names = zip(*side_by_side(work, range(20)), strict=True)
    assert numbers == tuple(range(20))
    assert set(threads) == {1}
    assert set(names) == {"unmask_0", "unmask_1"}


def test_threads_of_others_that_begin_meanwhile_keep_their_cores() -> None:
    found: list[int] = []
    answers = side_by_side(work, range(20))
    next(answers)
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert {threads for _, threads, _ in answers} == {1}
    assert found == [2]


def test_few_jobs_have_all_the_cores() -> None:
    here = threading.current_thread().name
    assert list(side_by_side(work, range(3))) == [(job, 2, here) for job in range(3)]


def test_a_job_may_share_its_own_work() -> None:
    assert list(side_by_side(lambda job: sum(side_by_side(int, range(job))), range(8))) == [
        sum(range(job)) for job in range(8)
    ]


def test_an_error_calls_off_the_rest() -> None:
    done: list[int] = []

    def fail(job: int) -> None:
        done.append(job)
        time.sleep(0.01)
        if job == 1:
            raise ValueError("job 1")

    with pytest.raises(ValueError, match="job 1"):
        list(side_by_side(fail, range(200)))
    assert len(done) < 50
    assert len(list(side_by_side(work, range(4)))) == 4  # the next pass can have the cores


def test_an_interrupt_calls_off_the_rest() -> None:
    done: list[int] = []

    def slow(job: int) -> None:
        done.append(job)
        time.sleep(0.01)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    timer = threading.Timer(0.05, _thread.interrupt_main)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            list(side_by_side(slow, range(500)))
    finally:
        signal.signal(signal.SIGINT, before)
    timer.join()
    assert len(done) < 200


def test_who_stops_listening_ends_the_work() -> None:
    done: list[int] = []

    def slow(job: int) -> None:
        done.append(job)
        time.sleep(0.01)

    answers = side_by_side(slow, range(500))
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert len(done) < 100


def test_vectors_and_scores_do_not_depend_on_the_cores(
    lm: MaskedLM, causal: MaskedLM, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def everything() -> list[np.ndarray]:
        scores = [score.log_probability for model in (lm, causal) for score in model.score(texts)]
        return [lm.embed(texts), *lm.embed(texts, "word"), *lm.embed(texts, "token"), np.array(scores)]

    for model in (lm, causal):
        monkeypatch.setattr(model, "budget", 30)  # several batches
    shared = everything()
    torch.set_num_threads(1)
    alone = everything()
    torch.set_num_threads(2)
    for ours, theirs in zip(shared, alone, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
