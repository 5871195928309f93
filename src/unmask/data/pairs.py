"""Pairs of texts for next-sentence (nsp) and sentence-order (sop) prediction, made as BERT made them.

A run of sentences that fills a sequence is divided at a random sentence start into A and B. For nsp B is
replaced half of the time by a run from another document of the same language (label 1), and the sentences
of the old B are used for the next pair; for sop A and B change places half of the time (label 1). A run
without a sentence start inside, such as a document of one sentence, cannot be a pair in order; pairing it
with strangers only would tilt the labels. It stays a single text with the label NO_PAIR, which losses ignore.
"""

import random
from bisect import bisect_left, bisect_right
from functools import cache

import numpy as np

from unmask.config import BatchConfig
from unmask.data.masking import Ints
from unmask.data.packing import ENDS, Documents, cut, ranks
from unmask.data.shards import SENTENCE_START

NO_PAIR = -100


def make_pairs(documents: Documents, numbers: Ints, config: BatchConfig, rng: np.random.Generator) -> Ints:
    """The table of sequences for these documents: every token once, besides the strangers' texts of nsp."""
    room = config.length - ENDS - documents.special.pair_separators
    draw = random.Random(int(rng.integers(1 << 62))).random
    others = _Others(documents, numbers)

    @cache
    def read(number: int) -> tuple[bytes, list[int]]:
        flags = documents.document(number)[1]
        return ranks(flags), np.flatnonzero(flags & SENTENCE_START).tolist()

    def run(number: int, start: int, size: int) -> int:
        places = read(number)[0]
        return len(places) if len(places) - start <= size else cut(places, start, start + size, config.length)

    rows: list[tuple[int, ...]] = []
    for number in numbers.tolist():
        places, starts = read(number)
        start = 0
        while start < len(places):
            size = 2 + int(draw() * (room - 1)) if draw() < config.short else room
            stop = run(number, start, size)
            low, high = bisect_right(starts, start), bisect_left(starts, stop)
            if low == high:
                rows.append((number, start, stop, 0, 0, 0, NO_PAIR))
                start = stop
                continue
            middle = starts[low + int(draw() * (high - low))]
            if draw() < 0.5:
                rows.append((number, start, middle, number, middle, stop, 0))
            elif config.pairs == "sop":
                rows.append((number, middle, stop, number, start, middle, 1))
            else:
                other = others.pick(number, draw())
                begins = read(other)[1] or [0]
                begin = begins[int(draw() * len(begins))]
                end = run(other, begin, size - (middle - start))
                rows.append((number, start, middle, other, begin, end, 1))
                stop = middle
            start = stop
    return np.array(rows, np.int64).reshape(-1, 7)


def several_sentences(documents: Documents) -> bool:
    """Whether any document has more than one sentence."""
    flags = (documents.document(number)[1] for number in range(documents.document_count))
    return any((each[1:] & SENTENCE_START).any() for each in flags)


class _Others:
    """Picks another document, of the same language where there is one."""

    def __init__(self, documents: Documents, numbers: Ints) -> None:
        unique = np.unique(numbers)
        languages = documents.languages[unique]
        self._all = unique.tolist()
        self._language = dict(zip(self._all, languages.tolist(), strict=True))
        self._same = {code: unique[languages == code].tolist() for code in np.unique(languages).tolist()}

    def pick(self, number: int, drawn: float) -> int:
        """Any but `number`, by a number drawn from [0, 1); itself only where it is alone."""
        same = self._same[self._language[number]]
        pool = same if len(same) > 1 else self._all
        if len(pool) == 1:
            return number
        place = int(drawn * (len(pool) - 1))
        return int(pool[place + (place >= bisect_left(pool, number))])
