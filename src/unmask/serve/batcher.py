"""Requests to batches to answers: threads compute what waits, and each result goes to its own waiter.

On a CPU there is one thread per core, and each computes whole batches by itself; a large batch that has the
machine to itself may use several cores.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from unmask.errors import InputError
from unmask.serve.queue import FullError, Item, Queue, Ticket

_SHARE = 256
"""Fewer tokens are not divided among threads: small batches waste what a core can do."""
_SMOOTH = 0.9


class Lane(NamedTuple):
    """Work that can be done together: a function of a model, some payloads, and options."""

    function: Callable[..., Sequence[Any]]
    model: Hashable
    options: tuple[Hashable, ...] = ()

    def compute(self, payloads: list[Any]) -> Sequence[Any]:
        """One result per payload."""
        return self.function(self.model, payloads, *self.options)


class BusyError(Exception):
    """Come again in so many seconds: the queue is full, or the server is going away."""

    def __init__(self, message: str, status: int, retry: int) -> None:
        super().__init__(message)
        self.status, self.retry = status, retry


@dataclass
class Timing:
    """Seconds of one request: until its last batch began, and in that batch."""

    queued: float = 0.0
    computed: float = 0.0


@dataclass(frozen=True)
class Done:
    """A batch that was computed, for those who measure."""

    items: int
    tokens: int
    seconds: float


class _Waiter(NamedTuple):
    future: "asyncio.Future[None]"
    timing: Timing
    arrived: float


class Batcher:
    """A queue, and the threads that empty it.

    `prepare` is called in a thread before each batch, with its tokens if it has the machine to itself, else
    with 0; `told` is called after it.
    """

    def __init__(
        self,
        workers: int,
        budget: int,
        limit: int,
        prepare: Callable[[int], None] = lambda tokens: None,
        told: Callable[[Done], None] = lambda done: None,
    ) -> None:
        self.queue: Queue[Lane] = Queue(limit)
        self.budget, self.workers = budget, workers
        self.rate = 1000.0
        """Tokens per second, smoothed."""
        self._prepare, self._told = prepare, told
        self._change = threading.Condition()
        self._busy, self.ended = 0, False
        self._waiters: dict[Ticket, _Waiter] = {}
        self._threads = [
            threading.Thread(target=self._work, name=f"unmask-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """All threads are at work or waiting for it."""
        return all(thread.is_alive() for thread in self._threads)

    async def submit(
        self, lane: Lane, payloads: Sequence[Any], costs: Sequence[int]
    ) -> tuple[list[Any], Timing]:
        """Results of the payloads, in order; what is left of them is dropped if the caller is cancelled."""
        timing = Timing()
        if not payloads:
            return [], timing
        done = asyncio.get_running_loop().create_future()
        with self._change:
            if self.ended:
                raise BusyError("the server is shutting down", 503, 5)
            try:
                ticket = self.queue.add(lane, payloads, costs)
            except FullError:
                wait = max(1, round(self.queue.tokens / self.rate))
                raise BusyError("too many requests are waiting: try again later", 429, wait) from None
            self._waiters[ticket] = _Waiter(done, timing, time.perf_counter())
            self._change.notify(len(payloads))
        try:
            await done
        finally:
            with self._change:
                self.queue.close(ticket)
                self._waiters.pop(ticket, None)
        return ticket.results, timing

    def stop(self) -> None:
        """Accept nothing more, compute what waits, end the threads."""
        with self._change:
            self.ended = True
            self._change.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            lane, batch, alone = taken
            self._prepare(sum(item.cost for item in batch) if alone else 0)
            begun = time.perf_counter()
            found = run_batch(lane, batch)
            self._finish(batch, found, begun)

    def _next(self) -> tuple[Lane, list[Item], bool] | None:
        with self._change:
            while True:
                idle = self.workers - self._busy
                share = max(_SHARE, -(-self.queue.tokens // idle))
                if (taken := self.queue.take(min(self.budget, share))) is not None:
                    self._busy += 1
                    lane, batch = taken
                    return lane, batch, self._busy == 1 and not self.queue.size
                if self.ended:
                    return None
                self._change.wait()

    def _finish(self, batch: list[Item], found: list[Any], begun: float) -> None:
        now = time.perf_counter()
        tokens = sum(item.cost for item in batch)
        ready: list[tuple[_Waiter, BaseException | None]] = []
        with self._change:
            self._busy -= 1
            self.rate = _SMOOTH * self.rate + (1 - _SMOOTH) * tokens / (now - begun) * self.workers
            for item, result in zip(batch, found, strict=True):
                ticket = item.ticket
                if ticket.closed:
                    continue
                ticket.results[item.number] = result
                ticket.missing -= 1
                failed = isinstance(result, BaseException)
                if failed or not ticket.missing:
                    self.queue.close(ticket)
                    ready.append((self._waiters[ticket], result if failed else None))
        self._told(Done(len(batch), tokens, now - begun))
        for (future, timing, arrived), error in ready:
            timing.queued, timing.computed = begun - arrived, now - begun
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                future.get_loop().call_soon_threadsafe(_resolve, future, error)


def run_batch(lane: Lane, batch: Sequence[Item]) -> list[Any]:
    """A result or an error for every item; a batch that fails is tried again request by request."""
    tickets = {item.ticket: None for item in batch}
    try:
        return list(lane.compute([item.payload for item in batch]))
    except Exception as error:
        failure: Exception = error
    except BaseException as error:  # a panic of the Rust side, which is no `Exception`
        failure = InputError(f"the text cannot be read ({type(error).__name__})")
    if len(tickets) == 1:
        return [failure] * len(batch)
    found: dict[Item, Any] = {}
    for ticket in tickets:
        own = [item for item in batch if item.ticket is ticket]
        found |= dict(zip(own, run_batch(lane, own), strict=True))
    return [found[item] for item in batch]


def _resolve(future: "asyncio.Future[None]", error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
