"""Documents -> sequences -> units of at most `length` tokens, with little cut and almost nothing left empty.

A table of sequences has a row (document, start, stop) for each; with pairs seven columns: the same three for
the second text (0 0 0 where there is none) and the label. Special tokens are counted here, written later.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from unmask.data.masking import Ints
from unmask.data.shards import SENTENCE_START, WORD_START, Array, Special

ENDS = 2  # the special tokens around a sequence: [CLS] … [SEP]


class Documents(Protocol):
    """What packing and batches need of a corpus."""

    document_count: int
    vocab_size: int
    language_names: tuple[str, ...]
    special: Special

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of every document."""

    @property
    def languages(self) -> npt.NDArray[np.uint16]:
        """The language of every document, as an index into `language_names`."""

    def document(self, number: int, /) -> tuple[Array, Array]:
        """The ids and flags of one document."""

    def parts(self, pieces: Ints, /) -> tuple[Array, Array]:
        """The ids and flags of pieces, rows of (document, start, stop), one after the other."""


_RANKS = bytes(2 if flag & SENTENCE_START else flag & WORD_START for flag in range(256))


def ranks(flags: Array) -> bytes:
    """How good a place each token is to begin with: 2 a sentence, 1 a word, 0 inside a word."""
    return flags.tobytes().translate(_RANKS)


def cut(places: bytes, start: int, stop: int, length: int) -> int:
    """Where to cut the text from `start` so that it ends at `stop` or a little before.

    A sentence start that is very near wins, then a word start that is near.
    """
    near = max(start + 1, stop - max(2, length // 64))
    best = places.rfind(b"\2", near, stop + 1)
    if best < 0:
        near = max(start + 1, stop - min(length // 8, (stop - start) // 2))
        best = max(places.rfind(b"\1", near, stop + 1), places.rfind(b"\2", near, stop + 1))
    return best if best >= 0 else stop


def whole_documents(documents: Documents, numbers: Ints, length: int) -> Ints:
    """Each document as one piece, or several where it is too long for a sequence."""
    lengths = documents.lengths[numbers]
    fits = lengths <= length - ENDS
    pieces = np.stack([numbers, np.zeros_like(numbers), lengths], axis=1)
    return np.concatenate([pieces[fits], _cut_up(documents, pieces[~fits], length)])


def single_sentences(documents: Documents, numbers: Ints, length: int) -> Ints:
    """Each sentence as one piece, or several where it is too long for a sequence."""
    flags = np.concatenate([documents.document(number)[1] for number in numbers.tolist()])
    lengths = documents.lengths[numbers]
    ends = np.cumsum(lengths)
    begins = (flags & SENTENCE_START).astype(bool)
    begins[ends - lengths] = True
    starts = np.flatnonzero(begins)
    owner = np.searchsorted(ends, starts, side="right")
    local = starts - (ends - lengths)[owner]
    pieces = np.stack([numbers[owner], local, local + np.diff(starts, append=len(flags))], axis=1)
    fits = pieces[:, 2] - pieces[:, 1] <= length - ENDS
    return np.concatenate([pieces[fits], _cut_up(documents, pieces[~fits], length)])


def _cut_up(documents: Documents, pieces: Ints, length: int) -> Ints:
    room = length - ENDS
    rows: list[tuple[int, int, int]] = []
    for number, start, stop in pieces.tolist():
        places = ranks(documents.document(number)[1][start:stop])
        done = 0
        while len(places) - done > room:
            end = cut(places, done, done + room, length)
            rows.append((number, start + done, start + end))
            done = end
        rows.append((number, start + done, stop))
    return _table(rows)


def _table(rows: Sequence[Sequence[int]]) -> Ints:
    return np.array(rows, np.int64).reshape(-1, 3)


def costs(table: Ints, separators: int) -> Ints:
    """The tokens of each sequence, special tokens included."""
    own: Ints = table[:, 2] - table[:, 1] + ENDS
    if table.shape[1] == 3:
        return own
    second: Ints = table[:, 5] - table[:, 4]
    own += second + separators * (second > 0)
    return own


def best_fit(sizes: Ints, capacity: int) -> Ints:
    """The bin of each item: largest items first, each into the fullest bin that still has room for it.

    Items of one size and bins with one room left are handled together, so the work depends on how many
    different sizes there are, not on how many items.
    """
    order = np.argsort(-sizes, kind="stable")
    distinct, counts = np.unique(-sizes, return_counts=True)
    bins: list[Ints] = []
    rooms: dict[int, list[int]] = {}  # room left -> bins
    open_rooms = 0  # bit r is set where rooms[r] has bins
    bin_count = 0
    for size, left in zip((-distinct).tolist(), counts.tolist(), strict=True):
        while left:
            larger = open_rooms >> size
            if larger:
                room = size + (larger & -larger).bit_length() - 1
                free = rooms[room]
            else:
                room = capacity
                free = list(range(bin_count, bin_count - (-left // (capacity // size))))
                bin_count += len(free)
                rooms[room] = free
            each = min(room // size, left)
            count = min(len(free), left // each)
            taken = free[-count:]
            del free[-count:]
            bins.append(np.repeat(np.array(taken, np.int64), each))
            left -= count * each
            rooms.setdefault(room - each * size, []).extend(taken)
            open_rooms |= 1 << (room - each * size)
            open_rooms = open_rooms | (1 << room) if free else open_rooms & ~(1 << room)
    result = np.empty(len(sizes), np.int64)
    result[order] = np.concatenate(bins) if bins else np.empty(0, np.int64)
    return result


def fill_gaps(documents: Documents, pieces: Ints, bins: Ints, length: int) -> tuple[Ints, Ints]:
    """Share the pieces of the emptiest bins out among the gaps of the others, cutting them where needed."""
    free = length - np.bincount(bins, weights=costs(pieces, 0)).astype(np.int64)
    tolerated = max(8, length // 64)
    gaping = np.flatnonzero(free > tolerated)
    gaping = gaping[np.argsort(-free[gaping], kind="stable")]
    by_bin = np.argsort(bins, kind="stable")
    bounds = np.searchsorted(bins[by_bin], np.arange(len(free) + 1))
    rows, homes = pieces.tolist(), bins.tolist()
    giver, taker = -1, len(gaping) - 1
    gap = int(free[gaping[taker]]) if len(gaping) else 0
    giving: list[int] = []
    while True:
        while not giving and giver < taker:
            giver += 1
            giving = by_bin[bounds[gaping[giver]] : bounds[gaping[giver] + 1]].tolist()
        if giver >= taker:
            break
        piece = giving[-1]
        number, start, stop = rows[piece]
        if stop - start + ENDS <= gap:
            homes[piece] = int(gaping[taker])
            gap -= stop - start + ENDS
            giving.pop()
        else:
            places = ranks(documents.document(number)[1][start:stop])
            middle = start + cut(places, 0, gap - ENDS, length)
            rows.append([number, start, middle])
            homes.append(int(gaping[taker]))
            rows[piece][1] = middle
            gap = 0
        if gap <= tolerated:
            taker -= 1
            gap = int(free[gaping[taker]])
    return _table(rows), np.unique(homes, return_inverse=True)[1].astype(np.int64)
