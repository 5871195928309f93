"""Worker processes: as many as there are cores, deaf to Ctrl-C, and gone when their parent is."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any

from unmask.errors import UserError


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_pool(
    workers: int, setup: Callable[..., object] | None = None, *values: Any
) -> ProcessPoolExecutor:
    """Processes that each call `setup(*values)` first. Ctrl-C is for their parent, who ends them."""
    spawn = get_context("spawn")  # a forked copy of a process with threads may hang
    pool = ProcessPoolExecutor(workers, spawn, _begin, (setup, values))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # they inherit it
    try:
        pool.submit(int)  # starts them all
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return pool


@contextmanager
def worker_errors() -> Iterator[None]:
    """A worker that dies is one clear line."""
    try:
        yield
    except BrokenProcessPool as error:
        raise UserError(
            "a worker process died (out of memory, or killed): run the same command again, "
            "perhaps with fewer --workers"
        ) from error


def _begin(setup: Callable[..., object] | None, values: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if setup:
        setup(*values)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
