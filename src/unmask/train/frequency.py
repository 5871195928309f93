"""How often each token comes in the training text, and the bands by which validation reports."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from unmask.data.masking import Ints
from unmask.data.packing import Documents

_MOST = 1 << 24  # tokens to count; of a longer text every n-th document
_DOCUMENTS = 256  # at a time
_EDGES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


def token_counts(corpus: Documents) -> Ints:
    """How often each entry of the vocabulary comes (V)."""
    stride = max(1, int(corpus.lengths.sum()) // _MOST)
    numbers = range(0, corpus.document_count, stride)
    counts: Ints = np.zeros(corpus.vocab_size, np.int64)
    for first in range(0, len(numbers), _DOCUMENTS):
        ids = [corpus.document(number)[0] for number in numbers[first : first + _DOCUMENTS]]
        counts += np.bincount(np.concatenate(ids), minlength=corpus.vocab_size)
    return counts


@dataclass(frozen=True, slots=True)
class Bands:
    """Entries by how common they are: the commonest ten are `1-10`, the next twenty `11-30`, and so on."""

    names: tuple[str, ...]
    of: Ints
    """The number of each entry's band (V)."""
    commonest: int
    """The id of the commonest entry."""

    @classmethod
    def cut(cls, counts: Ints) -> "Bands":
        """Bands of a vocabulary with these counts."""
        order = ranked(counts)
        edges = [0, *(edge for edge in _EDGES if edge < len(counts)), len(counts)]
        of = np.empty_like(order)
        of[order] = np.searchsorted(edges[1:], np.arange(len(order)), side="right")
        names = tuple(f"{before + 1}-{edge}" for before, edge in pairwise(edges))
        return cls(names, of, int(order[0]))


def ranked(counts: Ints) -> Ints:
    """Ids from the commonest to the rarest, equals by their number."""
    return np.argsort(-counts, kind="stable")
