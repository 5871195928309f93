"""Which documents an epoch takes in which order, and the units made of them.

The documents of an epoch are taken in windows of about a million tokens; a window is cut, packed and shuffled
on its own. Every step is a pure function of (seed, epoch, window), so the k-th unit of an epoch is the same
for every number of workers and ranks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from unmask.config import BatchConfig
from unmask.data.masking import Ints
from unmask.data.packing import Documents, best_fit, costs, fill_gaps, single_sentences, whole_documents
from unmask.data.pairs import NO_PAIR, make_pairs, several_sentences
from unmask.errors import ConfigError, CorpusError
from unmask.text.languages import sampling_weights

WINDOW_TOKENS, WINDOW_UNITS = 1 << 20, 512

ORDER, SHUFFLE, PACK, HIDE = range(4)  # what a stream of random numbers is for


class _Key(ISeedSequence):
    """A key as it is; `Philox(key=…)` asks the system for entropy first, which takes three times as long."""

    def __init__(self, *words: int) -> None:
        self._words = np.array(words, np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> npt.NDArray[np.uint64]:
        return self._words


def generator(seed: int, stream: int, *place: int) -> np.random.Generator:
    """The random numbers for one purpose at one place: a counter-based generator, keyed and never shared."""
    counter = np.array((0, 0, 0, *place)[-4:], np.uint64)
    key: Any = _Key(seed % 2**64, stream)  # numpy's own type hints do not know that it may be one
    return np.random.Generator(np.random.Philox(key, counter=counter))


@dataclass(frozen=True, slots=True)
class Position:
    """The next unit to take. `window` and `first`, the number of its first unit, only spare the search."""

    epoch: int = 0
    unit: int = 0
    window: int = 0
    first: int = 0


class Unit(NamedTuple):
    """The sequences packed into the `number`-th unit of an epoch."""

    epoch: int
    number: int
    sequences: Ints


@dataclass(frozen=True, slots=True)
class Window:
    """The units of one window: `sequences[bounds[i]:bounds[i + 1]]` are those of the i-th."""

    sequences: Ints
    bounds: Ints

    def __len__(self) -> int:
        return len(self.bounds) - 1


class Plan:
    """The order of units in every epoch of a corpus."""

    def __init__(self, documents: Documents, config: BatchConfig, seed: int) -> None:
        self._documents, self._config, self._seed = documents, config, seed
        filled = np.flatnonzero(documents.lengths)
        if not len(filled):
            raise CorpusError("the corpus holds no text in this split: prepare more text or a larger share")
        if config.pairs == "nsp" and len(filled) < 2:
            raise CorpusError(
                "next-sentence pairs need at least two documents: set batch.pairs to sop or none"
            )
        self._groups = _language_groups(documents, filled)
        self._takes = _documents_per_epoch(documents, self._groups, config.alpha)
        tokens = max(WINDOW_TOKENS, WINDOW_UNITS * config.length)
        per_window = max(2, int(tokens / documents.lengths[filled].mean()))
        self.windows = max(1, sum(self._takes) // per_window)
        self._order = lru_cache(maxsize=1)(self._draw_order)
        self.tokens = self.capacity = 0  # of the windows planned so far

    def units(self, start: Position) -> Iterator[tuple[Unit, Position]]:
        """Units from a position on, epoch after epoch without end, each with the position after it."""
        epoch, window, first = start.epoch, start.window, start.first
        if not (0 <= window < self.windows and 0 <= first <= start.unit and epoch >= 0):
            raise CorpusError(f"there is no {start} here: it was saved with another corpus or other settings")
        while True:
            packed = self.window(epoch, window)
            for i in range(max(start.unit - first, 0) if epoch == start.epoch else 0, len(packed)):
                rows = packed.sequences[packed.bounds[i] : packed.bounds[i + 1]]
                yield Unit(epoch, first + i, rows), Position(epoch, first + i + 1, window, first)
            window, first = window + 1, first + len(packed)
            if window == self.windows:
                epoch, window, first = epoch + 1, 0, 0

    def window(self, epoch: int, number: int) -> Window:
        """Cut, pack and shuffle one window of an epoch."""
        order = self._order(epoch)
        low, high = (len(order) * edge // self.windows for edge in (number, number + 1))
        rng = generator(self._seed, PACK, epoch, number)
        sequences, bins = self._pack(order[low:high].astype(np.int64), rng)
        pairless = self._config.pairs != "none" and (sequences[:, 6] == NO_PAIR).all()
        if pairless and epoch == number == 0 and not several_sentences(self._documents):
            raise ConfigError(
                f"batch.pairs = {self._config.pairs} needs documents of several sentences, there are none: "
                "read longer documents (text.documents) or set batch.pairs to none"
            )
        unit_of_bin = rng.permutation(int(bins.max()) + 1)
        units = unit_of_bin[bins]
        by_unit = np.argsort(units, kind="stable")
        bounds = np.searchsorted(units[by_unit], np.arange(len(unit_of_bin) + 1))
        self.tokens += int(costs(sequences, self._documents.special.pair_separators).sum())
        self.capacity += len(unit_of_bin) * self._config.length
        return Window(sequences[by_unit], bounds)

    def _pack(self, numbers: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        documents, config = self._documents, self._config
        if config.pairs != "none":
            sequences = make_pairs(documents, numbers, config, rng)
        elif config.sentences:
            sequences = single_sentences(documents, numbers, config.length)
        else:
            pieces = whole_documents(documents, numbers, config.length)
            return fill_gaps(documents, pieces, best_fit(costs(pieces, 0), config.length), config.length)
        sizes = costs(sequences, documents.special.pair_separators)
        return sequences, best_fit(sizes, config.length)

    def _draw_order(self, epoch: int) -> npt.NDArray[np.uint32]:
        """The documents of an epoch; a language goes through all of its documents before any comes again."""
        parts = []
        for code, (group, take) in enumerate(zip(self._groups, self._takes, strict=True)):
            low, high = epoch * take, (epoch + 1) * take
            for turn in range(low // len(group), -(-high // len(group))):
                shuffled = generator(self._seed, ORDER, code, turn).permutation(group)
                base = turn * len(group)
                parts.append(shuffled[max(low - base, 0) : high - base])
        order = np.concatenate(parts)
        generator(self._seed, SHUFFLE, epoch).shuffle(order)
        return order


def _language_groups(documents: Documents, filled: npt.NDArray[np.intp]) -> list[npt.NDArray[np.uint32]]:
    languages = documents.languages[filled]
    return [filled[languages == code].astype(np.uint32) for code in np.unique(languages)]


def _documents_per_epoch(
    documents: Documents, groups: list[npt.NDArray[np.uint32]], alpha: float
) -> list[int]:
    sizes = {str(i): float(documents.lengths[group].sum()) for i, group in enumerate(groups)}
    wanted, natural = sampling_weights(sizes, alpha), sampling_weights(sizes, 1.0)
    return [max(1, round(len(g) * wanted[str(i)] / natural[str(i)])) for i, g in enumerate(groups)]
