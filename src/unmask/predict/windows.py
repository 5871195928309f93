"""Long texts in windows: an encoding is cut into stretches the model can read, and answers are put together.

A window keeps the special tokens and, of a pair, the first text; only the last text slides. n tokens of a
window · W words
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.tokenizer import Encoding

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """What the model reads at once."""

    ids: Ints  # (n)
    segments: Ints  # (n)
    places: Ints  # (n) each token's place in the whole encoding

    def __len__(self) -> int:
        return len(self.ids)


def spread(count: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Bounds of windows of `room` tokens that overlap by at least `stride` and cover `count` tokens."""
    if count <= room:
        return [(0, count)]
    step = room - min(stride, room // 2)
    starts = [*range(0, count - room, step), count - room]
    return [(start, start + room) for start in starts]


def cut(encoding: Encoding, limit: int, stride: int) -> list[Window]:
    """Windows over the last text of an encoding, each of at most `limit` tokens.

    The first text of a pair stands in all of them, up to half of their room.
    """
    if len(encoding) <= limit:
        return [window_of(encoding, np.arange(len(encoding)))]
    body = sliding(encoding)
    special = np.flatnonzero(encoding.words < 0)
    fixed = np.setdiff1d(np.arange(len(encoding)), np.concatenate((body, special)))
    room = limit - len(special)
    if room < 2:
        raise InputError(f"a length of {limit} leaves no room for text: raise it")
    fixed = fixed[: room // 2]
    return [
        window_of(encoding, np.sort(np.concatenate((special, fixed, body[start:stop]))))
        for start, stop in spread(len(body), room - len(fixed), stride)
    ]


def trim(encoding: Encoding, limit: int, end: bool = False) -> Window:
    """One window: the longer text loses its last tokens, or its first if the `end` is to be kept."""
    kept = np.ones(len(encoding), np.bool_)
    texts = [np.flatnonzero((encoding.segments == text) & (encoding.words >= 0)) for text in (0, 1)]
    for _ in range(len(encoding) - limit):
        longer = int(len(texts[1]) >= len(texts[0]))
        if not len(texts[longer]):
            raise InputError(f"a length of {limit} leaves no room for text: raise it")
        kept[texts[longer][0 if end else -1]] = False
        texts[longer] = texts[longer][1:] if end else texts[longer][:-1]
    return window_of(encoding, np.flatnonzero(kept))


def window_of(encoding: Encoding, places: Ints) -> Window:
    """The window of some tokens."""
    return Window(encoding.ids[places], encoding.segments[places], places)


def sliding(encoding: Encoding) -> Ints:
    """Places of the last text's tokens."""
    last = encoding.segments.max(initial=0)
    places: Ints = np.flatnonzero((encoding.segments == last) & (encoding.words >= 0))
    return places


def owners(encoding: Encoding, windows: Sequence[Window]) -> Ints:
    """For every token of the whole encoding the window in which it has most context; -1 for none.

    The context is the distance to the nearer end of the window's stretch, unless the text itself ends there.
    """
    best = np.full(len(encoding), -1.0)
    owner = np.full(len(encoding), -1, np.int64)
    body = sliding(encoding)
    for number, window in enumerate(windows):
        mine = window.places[np.isin(window.places, body)]
        if not len(mine):
            continue
        before = np.inf if mine[0] == body[0] else mine - mine[0]
        after = np.inf if mine[-1] == body[-1] else mine[-1] - mine
        context = np.broadcast_to(np.minimum(before, after), mine.shape)
        better = context > best[mine]
        best[mine[better]] = context[better]
        owner[mine[better]] = number
    return owner


def first_pieces(encoding: Encoding, count: int | None = None) -> Ints:
    """For each word of a single text the place of its first token (W); -1 for a word that has none."""
    count = int(encoding.words.max(initial=-1)) + 1 if count is None else count
    first = np.full(count, -1, np.int64)
    inside = np.flatnonzero(encoding.words >= 0)[::-1]
    first[encoding.words[inside]] = inside
    return first


def last_pieces(encoding: Encoding, count: int | None = None) -> Ints:
    """For each word the place of its last token (W); -1 for a word that has none."""
    count = int(encoding.words.max(initial=-1)) + 1 if count is None else count
    last = np.full(count, -1, np.int64)
    inside = np.flatnonzero(encoding.words >= 0)
    last[encoding.words[inside]] = inside
    return last


def tokens_of(encoding: Encoding, start: int, end: int) -> tuple[int, int] | None:
    """First and last token of the characters `start` to `end` of the last text; None if no token is there."""
    body = sliding(encoding)
    touched = body[(encoding.offsets[body, 0] < end) & (encoding.offsets[body, 1] > start)]
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


def within(window: Window, first: int, last: int) -> tuple[int, int] | None:
    """Where a stretch of the whole encoding stands in a window, if all of it does."""
    begin, end = (int(np.searchsorted(window.places, place)) for place in (first, last))
    found = end < len(window) and window.places[begin] == first and window.places[end] == last
    return (begin, end) if found else None
