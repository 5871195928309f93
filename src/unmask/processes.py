"""Worker processes here (deaf to Ctrl-C, gone when their parent is) or on a Ray cluster; and a lock."""

import fcntl
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, redirect_stdout
from multiprocessing import connection, get_context, parent_process, resource_tracker
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, BinaryIO, TypeVar

from unmask.errors import ConfigError, OutputError, UserError
from unmask.files import disk_errors

Item = TypeVar("Item")
Result = TypeVar("Result")

_LOOKS, _LOOK = 10, 0.1  # how often, and after how many seconds, to look whether a folder is free
_RETRIES = 3  # of a task whose process or machine was lost
_OBJECTS = 1 << 27  # bytes that a Ray of our own keeps for all its tasks: what they share is small


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_pool(
    workers: int, setup: Callable[..., object] | None = None, *values: Any
) -> ProcessPoolExecutor:
    """Processes that each call `setup(*values)` first. Ctrl-C is for their parent, who ends them."""
    spawn = get_context("spawn")  # a forked copy of a process with threads may hang
    resource_tracker.ensure_running()  # started by the first lock, it would undo the mask
    with signals_held(signal.SIGINT):  # left half begun, they and their locks would be complained of
        pool = ProcessPoolExecutor(workers, spawn, _begin, (setup, values))
        for _ in range(workers):  # each starts one
            pool.submit(int)
    return pool


@contextmanager
def signals_held(*numbers: signal.Signals) -> Iterator[None]:
    """Processes that start in the block never hear of these signals; this one does, after it."""
    held: list[int] = []
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # which is told what other threads hear
        before = {number: signal.signal(number, lambda heard, _: held.append(heard)) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # what starts here inherits it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
        for heard in held:
            signal.raise_signal(heard)


@contextmanager
def workers_end_first() -> Iterator[None]:
    """Within the block SIGTERM ends the program as an exception does, or Python complains of locks."""
    main = threading.current_thread() is threading.main_thread()  # no other may say what signals do
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def worker_errors(
    advice: str = "run the same command again, perhaps with fewer --workers",
) -> Iterator[None]:
    """A worker that dies is one clear line."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, BrokenProcessPool) and not str(error).startswith("DataLoader worker"):
            raise
        raise UserError(f"a worker process died (out of memory, or killed): {advice}") from error


@contextmanager
def ray_cluster(address: str | None = None, workers: int | None = None) -> Iterator[int]:
    """Connect to a Ray cluster, or start one here and end it; gives the number of its cores."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray reports home otherwise
    if not address and "ray" not in sys.modules:  # which reads this once
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # the network can reach its ports
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError as error:
        raise ConfigError("Ray is not installed: pip install 'unmask[ray]'") from error
    quiet = {"log_to_driver": False, "logging_level": "error"}
    with (
        redirect_stdout(sys.stderr),  # where Ray prints its remarks
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
    ):
        try:
            if address:
                with _ray_errors(f"no Ray cluster answers at {address}"):
                    _knock(address)
                    ray.init(address, **quiet)
            else:
                with _ray_errors("Ray does not start"):
                    ray.init(
                        "local",
                        num_cpus=workers or cores(),
                        include_dashboard=False,
                        object_store_memory=_OBJECTS,
                        _temp_dir=folder,
                        **quiet,
                    )
            yield max(1, int(ray.cluster_resources().get("CPU", 1)))
        finally:
            ray.shutdown()


def run_on_ray(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Call a function on every item, each as a task of the cluster; results come as they are ready.

    A task whose process or machine is lost is run again elsewhere.
    """
    import ray

    task = ray.remote(max_retries=_RETRIES)(_call)
    shared = ray.put(function)
    waiting = [task.remote(shared, item) for item in items]
    while waiting:
        (done,), waiting = ray.wait(waiting)
        try:
            result = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"a task on Ray failed, also when tried again: {reason}") from error
        yield result


def _knock(address: str) -> None:
    """Fail soon where nobody listens: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), 10).close()


def _call(function: Callable[[Item], Result], item: Item) -> Result:
    return function(item)


@contextmanager
def _ray_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (ConnectionError, ImportError, OSError, RuntimeError, ValueError) as error:
        raise UserError(f"{what}: {(str(error).strip() or repr(error)).splitlines()[0]}") from error


@contextmanager
def folder_lock(path: Path, place: Path, shared: bool = False) -> Iterator[None]:
    """Make a folder or file alone, or with others who share it; the lock, a file, ends with the process."""
    with ExitStack() as held:
        while True:
            with disk_errors(place):
                path.parent.mkdir(parents=True, exist_ok=True)
                file = held.enter_context(path.open("a+b"))
            if not _locked(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
                raise OutputError(
                    f"another process is at work in {place}: wait for it, or name another place"
                )
            if _is_there(file, path):
                break  # else those who had it removed it, and it keeps nobody out
        yield


def _is_there(file: BinaryIO, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _locked(file: BinaryIO, how: int) -> bool:
    """Whether a file is ours; the workers of a process that was killed hold it for a moment."""
    for _ in range(_LOOKS):
        try:
            fcntl.flock(file, fcntl.LOCK_NB | how)
        except BlockingIOError:
            time.sleep(_LOOK)
        except OSError:
            return True  # a disk that knows no locks
        else:
            return True
    return False


def _begin(setup: Callable[..., object] | None, values: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # one that began later inherited no mask
    end_with_parent()
    if setup:
        setup(*values)


def end_with_parent(*_: object) -> None:
    """For a process that was started: be gone when the one that started it is, however it ended."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
    sys.excepthook = _told_unless_left


def _told_unless_left(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A parent that ends while something is handed over to it breaks the line: nobody needs to read that."""
    if not issubclass(kind, ConnectionError | EOFError):
        sys.__excepthook__(kind, error, trace)
