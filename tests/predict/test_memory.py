"""Freed memory is kept, so that the next batch does not fault its pages in again."""

import subprocess
import sys

import pytest

CODE = """
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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc can be told")
def test_pages_stay() -> None:
    import platform

    if platform.libc_ver()[0] != "glibc":
        pytest.skip("only glibc can be told")
    faults = {
        how: int(subprocess.run([sys.executable, "-c", CODE, how], capture_output=True, check=True).stdout)
        for how in ("keep", "plain")
    }
    assert faults["keep"] < 500 < faults["plain"]
