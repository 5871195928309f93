"""Batches side by side: every core computes whole batches, instead of all cores a share of every operation.

A share is so small that the cores wait for each other more than they gain, and a core that is late because
of another program holds up all of them. The numbers of a batch do not depend on who else is at work.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")

_one_at_a_time = Lock()
"""Threads per operation are a setting of the process."""


def side_by_side(work: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
    """`work(job)` of every job, in order, by as many threads as torch has if there are jobs enough."""
    cores = torch.get_num_threads()
    if cores == 1 or len(jobs) < 2 * cores or not _one_at_a_time.acquire(blocking=False):
        yield from map(work, jobs)
        return
    try:
        # On an error or Ctrl-C, `map` calls off what has not begun.
        with ThreadPoolExecutor(cores, "unmask", torch.set_num_threads, (1,)) as pool:
            yield from pool.map(work, jobs)
    finally:
        torch.set_num_threads(cores)
        _one_at_a_time.release()
