"""What the C library does with freed memory: keep it for the next batch, but not without end.

A pass through the encoder takes and frees the same large arrays again and again. glibc would hand them back
to the system and fault every page in anew: a tenth of the time in float32, a quarter in int8 and in training,
whose arrays are larger. Those are of ever other sizes: what is freed lies in pieces that fit none, in the end
several times what is used.
"""

import ctypes
import sys
import time
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names for the two limits
_KEPT = 512 << 20
_LARGEST = 32 << 20
_LARGEST_TRAINED = 512 << 20  # the scores of hidden tokens take hundreds of megabytes
_EVERY = 30.0  # seconds; it takes a tenth of one, and most is in use again soon


@cache
def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is the one that can be told; others stay as they are."""
    library = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep up to 512 MB of freed memory; says whether it does."""
    glibc = _glibc()
    return bool(glibc and glibc.mallopt(_MMAP_THRESHOLD, _LARGEST) and glibc.mallopt(_TRIM_THRESHOLD, _KEPT))


class FreedMemory:
    """Keeps what a training frees, and hands what lies free in pieces back to the system now and then."""

    def __init__(self, every: float = _EVERY) -> None:
        self._every, self._last = every, time.monotonic()
        if keep_freed_memory() and (glibc := _glibc()):
            glibc.mallopt(_MMAP_THRESHOLD, _LARGEST_TRAINED)  # an older glibc takes no more than it has

    def give_back(self) -> None:
        """If the last time is long enough ago."""
        now = time.monotonic()
        if now - self._last >= self._every and (glibc := _glibc()):
            glibc.malloc_trim(0)
            self._last = now
