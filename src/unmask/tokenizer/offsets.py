"""Character offsets that mean the same for every kind: no white space, no accent left behind."""

import unicodedata

import numpy as np
from numpy.typing import NDArray

_SPACES = np.array([code for code in range(0x3001) if chr(code).isspace()], np.uint32)


def fit_offsets(offsets: NDArray[np.int64], text: str) -> NDArray[np.int64]:
    """Leave out white space at either end, and take in the marks that were composed into a character."""
    if not len(offsets):
        return offsets
    space = np.isin(np.frombuffer(text.encode("utf-32-le"), np.uint32), _SPACES)
    places = np.arange(len(text) + 1)
    following = np.append(np.where(space, len(text), places[:-1]), len(text))
    following = np.minimum.accumulate(following[::-1])[::-1]
    before = np.maximum.accumulate(np.append(0, np.where(space, 0, places[1:])))
    starts = np.minimum(following[offsets[:, 0]], offsets[:, 1])
    ends = np.maximum(before[offsets[:, 1]], starts)
    for place in np.flatnonzero(~space & ~_covered(starts, ends, len(text))):
        if _joins(text[place]):
            ends[(ends == place) & (starts < place)] = place + 1
    return np.stack([starts, ends], axis=1)


def _covered(starts: NDArray[np.int64], ends: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    depth = np.bincount(starts, minlength=length + 1) - np.bincount(ends, minlength=length + 1)
    covered: NDArray[np.bool_] = np.cumsum(depth)[:length] > 0
    return covered


def _joins(character: str) -> bool:
    """Whether composition may join it to the character before: combining marks, and the vowels of Hangul."""
    return unicodedata.category(character)[0] == "M" or "\u1160" <= character <= "\u11ff"
