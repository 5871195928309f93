"""Batches side by side: every core computes whole batches, instead of all cores a share of every operation.

A share is so small that the cores wait for each other more than they gain, and a core that is late because
of another program holds up all of them. The numbers of a batch do not depend on who else is at work.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Lock
from typing import TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")

_one_at_a_time = Lock()
"""Two at once would have more threads than there are cores."""


def side_by_side(work: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
    """`work(job)` of every job, in order, by as many threads as torch has if there are jobs enough."""
    cores = torch.get_num_threads()
    if cores == 1 or len(jobs) < 2 * cores or not _one_at_a_time.acquire(blocking=False):
        yield from map(work, jobs)
        return
    try:
        begun = Barrier(cores + 1)
        with ThreadPoolExecutor(cores, "unmask", _begin, (begun,)) as pool:
            try:
                results = pool.map(work, jobs)  # on an error or Ctrl-C it calls off what has not begun
                begun.wait()
            finally:
                begun.abort()
                torch.set_num_threads(cores)  # or threads that others start meanwhile would stay at one
            yield from results
    finally:
        _one_at_a_time.release()


def _begin(all_begun: Barrier) -> None:
    """One core for this thread: torch sets it with the first question, from what the process has then."""
    torch.set_num_threads(1)
    torch.get_num_threads()
    with suppress(BrokenBarrierError):
        all_begun.wait()
