"""Threads and waiters, with plain functions in place of a model."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from unmask.errors import InputError
from unmask.serve.batcher import Batcher, BusyError, Done, Lane

Make = Callable[..., Batcher]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Batcher] = []

    def batcher(workers: int = 1, budget: int = 100, limit: int = 1000, **told: Any) -> Batcher:
        made.append(Batcher(workers, budget, limit, **told))
        return made[-1]

    yield batcher
    for each in made:
        each.stop()
        assert not each.alive


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 20))


class Panic(BaseException):
    pass


def double(model: object, payloads: list[Any]) -> list[Any]:
    for payload in payloads:
        if payload == "bad":
            raise InputError("a bad text")
        if payload == "panic":
            raise Panic
        if payload == "fault":
            raise RuntimeError("a fault")
    return [2 * payload for payload in payloads]


class Gate:
    """A function that waits to be let on, and says what it was given."""

    def __init__(self) -> None:
        self.open, self.entered = threading.Event(), threading.Event()
        self.given: list[list[Any]] = []

    def __call__(self, model: object, payloads: list[Any]) -> list[Any]:
        self.given.append(payloads)
        self.entered.set()
        assert self.open.wait(10)
        return payloads


async def until(happened: threading.Event) -> None:
    while not happened.is_set():
        await asyncio.sleep(0.002)


def test_results_come_back_in_order(make: Make) -> None:
    results, timing = run(make().submit(Lane(double, None), [1, 2, 3], [60, 60, 60]))
    assert results == [2, 4, 6]
    assert timing.computed > 0
    assert timing.queued >= 0
    assert run(make().submit(Lane(double, None), [], []))[0] == []


def test_requests_that_wait_share_a_batch_and_options_keep_them_apart(make: Make) -> None:
    batcher, gate = make(), Gate()

    async def main() -> None:
        first = asyncio.create_task(batcher.submit(Lane(gate, "m"), ["a"], [10]))
        await until(gate.entered)
        others = [asyncio.create_task(batcher.submit(Lane(gate, "m"), [x], [10])) for x in "bc"]
        apart = asyncio.create_task(batcher.submit(Lane(gate, "other"), ["d"], [10]))
        await asyncio.sleep(0.01)
        gate.open.set()
        assert [(await task)[0] for task in (first, *others, apart)] == [["a"], ["b"], ["c"], ["d"]]

    run(main())
    assert gate.given == [["a"], ["b", "c"], ["d"]]


@pytest.mark.parametrize(
    ("bad", "expected"), [("bad", InputError), ("panic", InputError), ("fault", RuntimeError)]
)
def test_an_error_reaches_its_own_waiter_only(make: Make, bad: str, expected: type[Exception]) -> None:
    batcher, gate = make(), Gate()

    async def main() -> None:
        first = asyncio.create_task(batcher.submit(Lane(gate, None), ["x"], [1]))
        await until(gate.entered)
        lane = Lane(double, None)
        given: list[list[Any]] = [[1], ["ok", bad, 3], [4, 5]]
        tasks = [asyncio.create_task(batcher.submit(lane, each, [1] * len(each))) for each in given]
        await asyncio.sleep(0.01)
        gate.open.set()
        await first
        good, failed, also = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(failed, expected)
        assert (good[0], also[0]) == ([2], [8, 10])  # type: ignore[index]

    run(main())
    assert batcher.alive
    assert run(batcher.submit(Lane(double, None), [1], [1]))[0] == [2]


def test_a_cancelled_waiter_is_dropped_and_others_are_served(make: Make) -> None:
    batcher, gate = make(), Gate()

    async def main() -> None:
        first = asyncio.create_task(batcher.submit(Lane(gate, None), ["a"], [10]))
        await until(gate.entered)
        gone = asyncio.create_task(batcher.submit(Lane(gate, None), ["gone"], [10]))
        stays = asyncio.create_task(batcher.submit(Lane(gate, None), ["stays"], [10]))
        await asyncio.sleep(0.01)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert batcher.queue.size == 1
        first.cancel()  # its batch is running: the result finds nobody
        gate.open.set()
        assert (await stays)[0] == ["stays"]

    run(main())
    assert gate.given == [["a"], ["stays"]]


def test_a_full_queue_says_when_to_come_again(make: Make) -> None:
    batcher, gate = make(limit=100), Gate()

    async def main() -> None:
        first = asyncio.create_task(batcher.submit(Lane(gate, None), ["a"], [10]))
        await until(gate.entered)
        second = asyncio.create_task(batcher.submit(Lane(gate, None), ["b"], [90]))
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError) as refused:
            await batcher.submit(Lane(gate, None), ["c"], [20])
        assert (refused.value.status, refused.value.retry >= 1) == (429, True)
        gate.open.set()
        await asyncio.gather(first, second)

    run(main())


def test_stopping_finishes_what_was_accepted_and_takes_no_more(make: Make) -> None:
    batcher, gate = make(), Gate()

    async def main() -> None:
        tasks = [asyncio.create_task(batcher.submit(Lane(gate, n), [n], [10])) for n in range(3)]
        await until(gate.entered)
        stopping = asyncio.create_task(asyncio.to_thread(batcher.stop))
        while not batcher.ended:
            await asyncio.sleep(0.002)
        with pytest.raises(BusyError) as refused:
            await batcher.submit(Lane(gate, None), ["late"], [1])
        assert refused.value.status == 503
        gate.open.set()
        await stopping
        assert [(await task)[0] for task in tasks] == [[0], [1], [2]]

    run(main())


def test_threads_compute_side_by_side_and_know_when_they_are_alone(make: Make) -> None:
    alone: list[int] = []
    done: list[Done] = []
    gate = Gate()
    batcher = make(workers=2, prepare=alone.append, told=done.append)

    async def main() -> None:
        first = asyncio.create_task(batcher.submit(Lane(gate, 1), ["a"], [30]))
        await until(gate.entered)
        second = asyncio.create_task(batcher.submit(Lane(gate, 2), ["b"], [40]))
        while len(gate.given) < 2:
            await asyncio.sleep(0.002)
        gate.open.set()
        await asyncio.gather(first, second)

    run(main())
    assert alone == [30, 0]
    assert sorted((each.items, each.tokens) for each in done) == [(1, 30), (1, 40)]


def test_waiting_work_is_divided_among_idle_threads(make: Make) -> None:
    gate = Gate()
    batcher = make(workers=2, budget=4000, limit=10_000)

    async def main() -> None:
        task = asyncio.create_task(batcher.submit(Lane(gate, None), list(range(10)), [200] * 10))
        while len(gate.given) < 2:
            await asyncio.sleep(0.002)
        gate.open.set()
        assert (await task)[0] == list(range(10))

    run(main())
    assert [len(each) for each in gate.given] == [5, 5]
