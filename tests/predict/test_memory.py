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
from unmask.predict.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def work():
    for _ in range(20):
        np.ones(3_000_000, np.float32) + np.ones(3_000_000, np.float32)
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


def printed(code: str, argument: str) -> int:
    return int(subprocess.run([sys.executable, "-c", code, argument], capture_output=True, check=True).stdout)


def test_pages_stay() -> None:
    assert printed(KEPT, "keep") < 500 < printed(KEPT, "plain")


def test_pieces_go_back_after_a_while() -> None:
    """Nine tenths of 3,000 arrays of 16 pages, between those that are held."""
    assert printed(PIECES, "0") > 2000 * 16
    assert abs(printed(PIECES, "3600")) < 100
