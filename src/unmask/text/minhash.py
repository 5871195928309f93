"""MinHash signatures of documents: the share of equal entries estimates the Jaccard index of their shingles.

A shingle is five words in a row, case folded. Signatures are compared within one run and never kept, so that
they need not be the same in every version of the library that makes them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]

PERMUTATIONS = 128
_WORDS = 5
_SEED = 1
_WINDOW = 1 << 18  # bytes hashed at once: small enough for the cache
_BASE = 0x9E3779B97F4A7C15  # any odd number; odd has an inverse modulo 2⁶⁴
_POWERS = np.cumprod(np.full(_WINDOW, _BASE, dtype=np.uint64), dtype=np.uint64)
_INVERSES = np.cumprod(np.full(_WINDOW, pow(_BASE, -1, 2**64), dtype=np.uint64), dtype=np.uint64)


def signatures(texts: Sequence[str]) -> NDArray[np.uint32]:
    """One row of PERMUTATIONS entries per clean, non-empty text; a pure function of each text."""
    from rensa import RMinHash

    if not texts:
        return np.zeros((0, PERMUTATIONS), dtype=np.uint32)
    pieces = [_pieces(_folded(text)) for text in texts]
    counts = np.array([sum(piece.count(b" ") for piece in own) for own in pieces], dtype=np.int64)
    words = np.concatenate([_hash_words(window) for window in _windows(chain.from_iterable(pieces))])
    shingles, offsets = _shingles(words, counts)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(shingles, offsets, PERMUTATIONS, _SEED)
    return np.array(matrix.to_rows(), dtype=np.uint32)


def _folded(text: str) -> bytes:
    """Lower case, a space after every word, and empty words where there are too few for a shingle."""
    folded = text.lower().replace("\n", " ").encode() + b" "
    return folded + b" " * (_WORDS - folded.count(b" "))


def _pieces(text: bytes) -> list[bytes]:
    """Cut a long text between words; every piece ends with a space and fits into a window."""
    pieces = []
    while len(text) > _WINDOW:
        cut = text.rfind(b" ", 0, _WINDOW) + 1
        pieces.append(text[:cut] if cut else text[: _WINDOW - 1] + b" ")
        text = text[cut or _WINDOW - 1 :]
    return [*pieces, text]


def _windows(pieces: Iterable[bytes]) -> Iterator[bytes]:
    batch: list[bytes] = []
    size = 0
    for piece in pieces:
        if size + len(piece) > _WINDOW:
            yield b"".join(batch)
            batch, size = [], 0
        batch.append(piece)
        size += len(piece)
    yield b"".join(batch)


def _hash_words(window: bytes) -> U64:
    """A hash of every word: Σ byte · baseⁱ modulo 2⁶⁴ over its bytes, by differences of running sums."""
    values = np.frombuffer(window, dtype=np.uint8)
    ends = np.flatnonzero(values == ord(" "))
    sums: U64 = np.cumsum(values * _POWERS[: len(values)], dtype=np.uint64)[ends]
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1] + 1
    sums[1:] -= sums[:-1].copy()
    return sums * _INVERSES[starts]


def _shingles(words: U64, counts: NDArray[np.int64]) -> tuple[U64, U64]:
    """Hashes of every run of _WORDS words within a text, and where each text's begin."""
    size = len(words) - _WORDS + 1
    hashes = np.zeros(size, dtype=np.uint64)
    for step in range(_WORDS):
        hashes = (hashes + words[step : step + size]) * np.uint64(_BASE)
        hashes ^= hashes >> np.uint64(29)
    ends = np.cumsum(counts)
    across = ends[:-1, None] - np.arange(1, _WORDS)  # runs that go on into the next text
    hashes = np.delete(hashes, across.ravel())
    offsets = np.concatenate(([0], np.cumsum(counts - _WORDS + 1)))
    return hashes, offsets.astype(np.uint64)
