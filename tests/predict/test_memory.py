"""What the C library does with freed memory: pages stay for the next batch, pieces go back."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc",
    reason="only glibc can be told",
)
KEPT = """
import resource, sys
import numpy as np
from unmask.predict.memory import FreedMemory, keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
if sys.argv[1] == "train":
    FreedMemory()
size = int(sys.argv[2])
def work():
    for _ in range(20):
        np.ones(size, np.float32) + np.ones(size, np.float32)
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PIECES = """
import sys
import numpy as np
from unmask.predict.memory import FreedMemory
memory = FreedMemory(float(sys.argv[1]))
def resident():
    return int(open("/proc/self/statm").read().split()[1])
held = [np.ones(64 << 10, np.uint8) for _ in range(3000)]
held = held[::10]
before = resident()
memory.give_back()
print(before - resident())
"""


def printed(code: str, *arguments: str) -> int:
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)
    return int(found.stdout)


def test_pages_stay() -> None:
    assert printed(KEPT, "keep", "3000000") < 500 < printed(KEPT, "plain", "3000000")


def test_those_of_larger_arrays_stay_in_a_training() -> None:
    if not printed("import ctypes; print(ctypes.CDLL(None).mallopt(-3, 512 << 20))"):
        pytest.skip("this glibc is an older one, which keeps at most 32 MB")
    assert printed(KEPT, "train", "12000000") < 500 < printed(KEPT, "keep", "12000000")


def test_pieces_go_back_after_a_while() -> None:
    """Nine tenths of 3,000 arrays of 16 pages, between those that are held."""
    assert printed(PIECES, "0") > 2000 * 16
    assert abs(printed(PIECES, "3600")) < 100
