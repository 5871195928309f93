"""Keep freed memory for the next batch.

A pass through the encoder takes and frees the same large arrays again and again. The C library would hand
them back to the system and fault every page in anew: a tenth of the time in float32, a quarter in int8.
"""

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names for the two limits
_KEPT = 512 << 20
_LARGEST = 32 << 20


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep up to 512 MB of freed memory; says whether it does. Other libraries stay as they are."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, _KEPT))
