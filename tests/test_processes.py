"""Worker processes, here and on Ray: they answer, ignore Ctrl-C, do not outlive their parent; and a lock."""

import os
import signal
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import psutil
import pytest

from unmask.errors import OutputError, UserError
from unmask.processes import cores, folder_lock, worker_errors, worker_pool

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

with folder_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_at_least_one_core() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_workers_are_set_up_and_ignore_ctrl_c() -> None:
    with worker_pool(1, os.chdir, "/") as pool:
        assert pool.submit(os.getcwd).result() == "/"
        os.kill(pool.submit(os.getpid).result(), signal.SIGINT)
        assert pool.submit(int, "7").result() == 7
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_dead_worker_is_one_clear_line() -> None:
    with pytest.raises(UserError, match="a worker process died"), worker_errors(), worker_pool(1) as pool:
        lost: Future[None] = pool.submit(os._exit, 9)
        lost.result()


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
                with folder_lock(tmp_path, shared):
                    pass
        holder.kill()
    with folder_lock(tmp_path):
        pass


def test_sharers_hold_a_lock_together(tmp_path: Path) -> None:
    with folder_lock(tmp_path, shared=True), folder_lock(tmp_path, shared=True):
        with pytest.raises(OutputError, match="another process is at work"), folder_lock(tmp_path):
            pass
