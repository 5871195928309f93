"""Worker processes, here and on Ray: they answer, ignore Ctrl-C, do not outlive their parent; and a lock."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest

from unmask.errors import OutputError, UserError
from unmask.processes import cores, folder_lock, signals_held, worker_errors, worker_pool

PARENT = """
import time
from unmask.processes import worker_pool

if __name__ == "__main__":
    pool = worker_pool(2)
    print(pool.submit(int, "7").result(), flush=True)
    time.sleep(60)
"""

HOLDER = """
import sys, time
from pathlib import Path
from unmask.processes import folder_lock

with folder_lock(Path(sys.argv[1]) / "lock", Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


# Asks a worker for something, in the way that tensors are handed over, and leaves before it comes.
LEAVER = """
import os, time
from multiprocessing import connection, process
from multiprocessing.resource_sharer import _resource_sharer
from unmask.processes import worker_pool

def send(asked, _):
    time.sleep(0.2)
    asked.send_bytes(b"too late")

def offer():
    return _resource_sharer.register(send, int)

if __name__ == "__main__":
    with worker_pool(1) as pool:
        address, key = pool.submit(offer).result()
        with connection.Client(address, authkey=process.current_process().authkey) as asked:
            asked.send((key, os.getpid()))
        pool.submit(time.sleep, 0.4).result()
        pool.submit(exec, "import sys; sys.excepthook(ValueError, ValueError('told'), None)").result()
"""


def test_at_least_one_core() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_workers_are_set_up_and_ignore_ctrl_c() -> None:
    with worker_pool(1, os.chdir, "/") as pool:
        assert pool.submit(os.getcwd).result() == "/"
        os.kill(pool.submit(os.getpid).result(), signal.SIGINT)
        assert pool.submit(int, "7").result() == 7
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_all_workers_begin_before_a_signal_can_come() -> None:
    mine = psutil.Process()
    before = set(mine.children())
    with worker_pool(3) as pool:
        begun = set(mine.children()) - before  # what each will run is seen a moment later
        workers, until = set[psutil.Process](), time.monotonic() + 60
        while len(workers) < 3 and time.monotonic() < until:
            workers = {child for child in begun if "spawn_main" in " ".join(child.cmdline())}
        assert len(workers) == 3
        assert pool.submit(int, "7").result() == 7


def test_signals_wait_for_the_block_to_end() -> None:
    """Also those that another thread hears, of which Python tells the main one."""
    ended, after, told = threading.Event(), threading.Event(), []
    threading.Thread(target=ended.wait, daemon=True).start()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        with signals_held(signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):  # Python looks for signals between its own steps
                time.sleep(0)
            told.append("the block was whole")
        after.set()
    ended.set()
    assert told
    assert not after.is_set()
    assert signal.getsignal(signal.SIGINT) is before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}


def test_nothing_is_said_of_locks_where_sigterm_ends_a_pool(tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(
        "import os, signal, time\n"
        "from unmask.processes import worker_pool, workers_end_first\n"
        "if __name__ == '__main__':\n"
        "    with workers_end_first(), worker_pool(1) as pool:\n"
        "        pool.submit(int).result()\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "", "")


def test_a_dead_worker_is_one_clear_line() -> None:
    with pytest.raises(UserError, match="a worker process died"), worker_errors(), worker_pool(1) as pool:
        lost: Future[None] = pool.submit(os._exit, 9)
        lost.result()


def test_a_worker_says_nothing_of_one_that_left(tmp_path: Path) -> None:
    script = tmp_path / "leaver.py"
    script.write_text(LEAVER)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stderr == "ValueError: told\n"  # of other faults it still speaks


def test_workers_do_not_outlive_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "7\n"
        workers = psutil.Process(parent.pid).children(recursive=True)
        assert len(workers) >= 2
        parent.kill()
    _, alive = psutil.wait_procs(workers, timeout=20)
    for process in alive:
        process.kill()
    assert not alive


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    held = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(held, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        for shared in (False, True):
            with pytest.raises(OutputError, match="another process is at work"):
                with folder_lock(tmp_path / "lock", tmp_path, shared):
                    pass
        holder.kill()
    with folder_lock(tmp_path / "lock", tmp_path):
        pass


def test_sharers_hold_a_lock_together(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with folder_lock(lock, tmp_path, shared=True), folder_lock(lock, tmp_path, shared=True):
        with pytest.raises(OutputError, match="another process is at work"), folder_lock(lock, tmp_path):
            pass


def test_a_lock_that_was_removed_keeps_nobody_out(tmp_path: Path) -> None:
    """One who waited for it makes it anew, or the next one would not know of him."""
    lock = tmp_path / "room" / "lock"
    entered, told = threading.Event(), threading.Event()

    def wait() -> None:
        with folder_lock(lock, tmp_path):
            entered.set()
            told.wait(20)

    with folder_lock(lock, tmp_path):
        second = threading.Thread(target=wait)
        second.start()
        time.sleep(0.2)  # it has opened the file by now
        shutil.rmtree(lock.parent)
    assert entered.wait(20)
    with pytest.raises(OutputError, match="another process is at work"), folder_lock(lock, tmp_path):
        pass
    told.set()
    second.join()
