"""Which documents an epoch takes in which order, and the units made of them.

The documents of an epoch are taken in windows of about a million tokens; a window is cut, packed and shuffled
on its own. Every step is a pure function of (seed, epoch, window), so the k-th unit of an epoch is the same
for every number of workers and ranks.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from unmask.config import BatchConfig
from unmask.data.masking import Bools, Ints
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


@dataclass(frozen=True, slots=True)
class Units:
    """Some units and the sequences packed into them: few arrays, which travel to a worker fast."""

    epochs: Ints
    numbers: Ints
    """Of each in its epoch."""
    counts: Ints
    """Sequences of each."""
    sequences: Ints
    """Those of the first, those of the second, …"""

    def __len__(self) -> int:
        return len(self.numbers)

    def only(self, these: Bools) -> "Units":
        """Those for which it is true."""
        rows = np.repeat(these, self.counts)
        return Units(self.epochs[these], self.numbers[these], self.counts[these], self.sequences[rows])

    @staticmethod
    def joined(parts: Sequence["Units"]) -> "Units":
        """All of them in a row."""
        if len(parts) == 1:
            return parts[0]
        return Units(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Units)))


@dataclass(frozen=True, slots=True)
class Window:
    """The units of one window: `sequences[bounds[i]:bounds[i + 1]]` are those of the i-th."""

    sequences: Ints
    bounds: Ints
    tokens: int

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def units(self, low: int, high: int, epoch: int, first: int) -> Units:
        """Some of them, of a window of this epoch whose first unit has this number."""
        bounds = self.bounds[low : high + 1]
        return Units(
            np.full(high - low, epoch),
            np.arange(first + low, first + high),
            np.diff(bounds),
            self.sequences[bounds[0] : bounds[-1]],
        )


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
        self._drawn = -1, np.empty(0, np.uint32)
        self.tokens = self.capacity = 0  # of the windows taken so far

    def turns(self, start: Position) -> Iterator[tuple[int, int]]:
        """The epoch and number of the windows from a position on, without end."""
        yield from ((start.epoch, number) for number in range(start.window, self.windows))
        yield from ((epoch, number) for epoch in count(start.epoch + 1) for number in range(self.windows))

    def units(
        self, start: Position, sizes: Iterable[int], windows: Iterable[Window] | None = None
    ) -> Iterator[tuple[Units, Position]]:
        """So many units at a time, epoch after epoch, each time with the position after them.

        `windows`: those of `turns`, if something else makes them.
        """
        if not (0 <= start.window < self.windows and 0 <= start.first <= start.unit and start.epoch >= 0):
            raise CorpusError(f"there is no {start} here: it was saved with another corpus or other settings")
        made = map(self.window, self.turns(start)) if windows is None else windows
        coming = zip(self.turns(start), made, strict=False)
        (epoch, number), window = next(coming)
        first, at = start.first, start.unit - start.first
        self._note(window)
        for size in sizes:
            parts: list[Units] = []
            while size:
                while at >= len(window):
                    before = epoch, len(window)
                    (epoch, number), window = next(coming)
                    self._note(window)
                    first, at = (first + before[1], at - before[1]) if epoch == before[0] else (0, 0)
                stop = min(at + size, len(window))
                parts.append(window.units(at, stop, epoch, first))
                at, size = stop, size - (stop - at)
            yield Units.joined(parts), Position(epoch, first + at, number, first)

    def _note(self, window: Window) -> None:
        self.tokens += window.tokens
        self.capacity += len(window) * self._config.length

    def window(self, turn: tuple[int, int]) -> Window:
        """Cut, pack and shuffle one window of an epoch."""
        epoch, number = turn
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
        tokens = int(costs(sequences, self._documents.special.pair_separators).sum())
        return Window(sequences[by_unit], bounds, tokens)

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

    def _order(self, epoch: int) -> npt.NDArray[np.uint32]:
        """The documents of an epoch; a language goes through all of its documents before any comes again."""
        if self._drawn[0] == epoch:
            return self._drawn[1]
        parts = []
        for code, (group, take) in enumerate(zip(self._groups, self._takes, strict=True)):
            low, high = epoch * take, (epoch + 1) * take
            for turn in range(low // len(group), -(-high // len(group))):
                shuffled = generator(self._seed, ORDER, code, turn).permutation(group)
                base = turn * len(group)
                parts.append(shuffled[max(low - base, 0) : high - base])
        order = np.concatenate(parts)
        generator(self._seed, SHUFFLE, epoch).shuffle(order)
        self._drawn = epoch, order
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
