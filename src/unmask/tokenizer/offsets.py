"""Character offsets that mean the same for every kind: no white space, no accent left behind."""

import unicodedata

import numpy as np
from numpy.typing import NDArray

_SPACE = np.array([chr(code).isspace() for code in range(0x3002)])  # no white space lies beyond


def fit_offsets(offsets: NDArray[np.int64], text: str) -> NDArray[np.int64]:
    """Leave out white space at either end, and take in the marks that were composed into a character."""
    if not len(offsets):
        return offsets
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    space = _SPACE[np.minimum(codes, len(_SPACE) - 1)]
    before = np.zeros(len(text) + 1, np.int64)  # number of the last character before that is no space, plus 1
    np.maximum.accumulate(np.where(space, 0, np.arange(1, len(text) + 1)), out=before[1:])
    after = np.full(len(text) + 1, len(text))  # number of the next character that is no space
    np.minimum.accumulate(np.where(space, len(text), np.arange(len(text)))[::-1], out=after[-2::-1])
    starts = np.minimum(after[offsets[:, 0]], offsets[:, 1])
    ends = np.maximum(before[offsets[:, 1]], starts)
    for place in np.flatnonzero(~space & ~_covered(starts, ends, len(text))):
        if _joins(text[place]):
            last = ends[ends <= place].max(initial=0)  # characters that were dropped may lie between
            if not space[last:place].any():
                ends[(ends == last) & (starts < last)] = place + 1
    return np.column_stack((starts, ends))


def _covered(starts: NDArray[np.int64], ends: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    depth = np.bincount(starts, minlength=length + 1) - np.bincount(ends, minlength=length + 1)
    covered: NDArray[np.bool_] = np.cumsum(depth)[:length] > 0
    return covered


def _joins(character: str) -> bool:
    """Whether composition may join it to the character before: combining marks, and the vowels of Hangul."""
    return unicodedata.category(character)[0] == "M" or "\u1160" <= character <= "\u11ff"
