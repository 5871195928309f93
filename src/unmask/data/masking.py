"""Which tokens are hidden and what stands in their place: pure functions of arrays and generators.

A chooser says which tokens; `Masker` puts the mask token, a random token or nothing in their place. They work
on many units at once, each with its own generator, so a unit's masks do not depend on its neighbours. How
many tokens of a unit are chosen is the ratio times the tokens there are, rounded at random so that the mean
is exact: the number of predictions is steady from batch to batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unmask.config import MaskConfig
from unmask.data.shards import Special, ranges
from unmask.errors import ConfigError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Kinds = npt.NDArray[np.uint8]

MASK, RANDOM, KEPT, NEXT = range(4)

SPAN_P, SPAN_LONGEST = 0.2, 10
_span_shares = (1 - SPAN_P) ** np.arange(SPAN_LONGEST)
_SPAN_CDF = np.cumsum(_span_shares[:-1] / _span_shares.sum())


@dataclass(frozen=True, slots=True)
class Text:
    """The tokens of some units, one unit after the other: which are special, and which begin a word."""

    special: Bools
    word_start: Bools
    bounds: Ints
    """Where each unit begins, and the end of the last."""

    def count(self, places: Ints) -> Ints:
        """How many of these ascending places lie in each unit."""
        return np.diff(np.searchsorted(places, self.bounds))

    def words(self) -> tuple[Ints, Ints]:
        """Where each word begins and how many tokens it has; what follows a special token begins a word."""
        edge = self.word_start | self.special
        edge[1:] |= self.special[:-1]
        edge[self.bounds[:-1]] = True
        starts = np.flatnonzero(edge)
        sizes = np.diff(starts, append=len(edge))
        text = ~self.special[starts]
        return starts[text], sizes[text]


class Draws:
    """Random numbers for several units at once, each from its own generator."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = generators

    def one(self) -> Floats:
        """A number from [0, 1) for each unit."""
        return np.array([rng.random() for rng in self._generators])

    def many(self, counts: Ints) -> Floats:
        """So many numbers from [0, 1) for each unit, one unit after the other."""
        return np.concatenate(
            [rng.random(count) for rng, count in zip(self._generators, counts.tolist(), strict=True)]
        )

    def order(self, counts: Ints) -> Ints:
        """The numbers from 0 to the sum of the counts, shuffled within each unit."""
        unit = np.repeat(np.arange(len(counts)), counts)
        return np.argsort(unit + self.many(counts))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The tokens to predict, ascending, and for each the group that shares one fate: itself, or its span."""

    index: Ints
    group: Ints


Chooser = Callable[[Text, float, Draws], Chosen]


def choose_tokens(text: Text, ratio: float, draws: Draws) -> Chosen:
    """Single tokens, each as likely as any other."""
    tokens = np.flatnonzero(~text.special)
    counts = text.count(tokens)
    wanted = (ratio * counts + draws.one()).astype(np.int64)
    taken = _within(counts) < np.repeat(wanted, counts)
    index = tokens[np.sort(draws.order(counts)[taken])]
    return Chosen(index, np.arange(len(index)))


def choose_words(text: Text, ratio: float, draws: Draws) -> Chosen:
    """Whole words; the last one drawn is taken as often as makes the mean number of tokens exact."""
    starts, sizes = text.words()
    counts = text.count(starts)
    order = draws.order(counts)
    goal = ratio * np.diff(_total(sizes)[_total(counts)])
    before = _before(sizes[order], counts)
    taken = before + np.repeat(draws.one(), counts) * sizes[order] < np.repeat(goal, counts)
    words = np.sort(order[taken])
    index = ranges(starts[words], sizes[words])
    return Chosen(index, np.arange(len(index)))


def choose_spans(text: Text, ratio: float, draws: Draws) -> Chosen:
    """Spans of whole words that never touch: the token before and the one after each span stay visible.

    The words to mask are cut into spans, and the spans are dealt to different gaps between the visible words;
    no placement is tried and thrown away. The words of a unit are seen as a ring that is turned at random,
    so that every word is as likely as any other; a span that runs over the end of a sequence becomes two.
    """
    if ratio > 0.5:
        raise ConfigError(f"spans need unmasked words between them: a ratio of {ratio} is above 0.5")
    starts, sizes = text.words()
    counts = text.count(starts)
    masked = np.minimum((ratio * counts + draws.one()).astype(np.int64), counts // 2)
    lengths = np.searchsorted(_SPAN_CDF, draws.many(masked), side="right") + 1
    before, limit = _before(lengths, masked), np.repeat(masked, masked)
    drawn = before < limit
    lengths = np.minimum(lengths, limit - before)[drawn]
    spans = np.diff(_total(drawn)[_total(masked)])

    visible = counts - masked
    gaps = draws.order(visible)[_within(visible) < np.repeat(spans, visible)]
    order = np.argsort(gaps)
    lengths = lengths[order]
    first = gaps[order] + _total(lengths)[:-1]  # visible words before, and words of earlier spans
    words = ranges(first, lengths)
    base, turn = _total(counts)[:-1], (draws.one() * counts).astype(np.int64)
    base, turn, around = (np.repeat(each, masked) for each in (base, turn, counts))
    words = np.sort(base + (words - base + turn) % around)
    opens = (np.diff(words, prepend=-2) != 1) | text.special[starts[words] - 1]
    return Chosen(ranges(starts[words], sizes[words]), np.repeat(np.cumsum(opens) - 1, sizes[words]))


CHOOSERS: dict[str, Chooser] = {"token": choose_tokens, "word": choose_words, "span": choose_spans}


def _total(counts: npt.NDArray[np.integer] | Bools) -> Ints:
    """0, then the running total."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _within(counts: Ints) -> Ints:
    """0, 1, … in each group."""
    return ranges(np.zeros_like(counts), counts)


def _before(values: Ints, counts: Ints) -> Ints:
    """The sum of the values before each one in its group."""
    total = _total(values)
    return total[:-1] - np.repeat(total[_total(counts)[:-1]], counts)


@dataclass(frozen=True, slots=True)
class Masked:
    """Tokens of which some are hidden, and what those were."""

    ids: Ints
    index: Ints
    originals: Ints
    kinds: Kinds
    spans: Ints | None
    """For spans: the visible tokens before and after, and the place in the span counted from 1."""


class Masker:
    """Hides tokens as the recipe says; the same generator states give the same result."""

    def __init__(self, config: MaskConfig, vocab_size: int, special: Special) -> None:
        reserved = np.unique(special.all)
        if vocab_size <= len(reserved):
            raise ConfigError("the vocabulary has nothing but special tokens: train another one")
        self._config, self._mask = config, special.mask
        self._choose = CHOOSERS[config.kind]
        self._ordinary = vocab_size - len(reserved)
        self._skips = reserved - np.arange(len(reserved))  # x-th ordinary token: x + skips at or below x

    def __call__(self, ids: Ints, text: Text, ratio: float, draws: Draws) -> Masked:
        """Choose among the tokens of `text` and hide them in a copy of `ids`."""
        chosen = self._choose(text, ratio, draws)
        index, group = chosen.index, chosen.group
        leads = index[np.flatnonzero(np.diff(group, prepend=-1))]
        fate = draws.many(text.count(leads))[group]
        kinds = (fate >= self._config.mask).astype(np.uint8) + (fate >= 1 - self._config.keep)
        hidden = ids.copy()
        hidden[index[kinds == MASK]] = self._mask
        replaced = index[kinds == RANDOM]
        hidden[replaced] = self._ordinary_token(draws.many(text.count(replaced)))
        spans = _boundaries(index, group) if self._config.kind == "span" else None
        return Masked(hidden, index, ids[index], kinds, spans)

    def _ordinary_token(self, drawn: Floats) -> Ints:
        number = (drawn * self._ordinary).astype(np.int64)
        return number + np.searchsorted(self._skips, number, side="right")


def _boundaries(index: Ints, group: Ints) -> Ints:
    firsts = np.flatnonzero(np.diff(group, prepend=-1))
    sizes = np.diff(firsts, append=len(group))
    left = np.repeat(index[firsts] - 1, sizes)
    right = left + np.repeat(sizes, sizes) + 1
    return np.stack([left, right, index - left], axis=1)


def mask_ratio(config: MaskConfig, progress: float) -> float:
    """The share of tokens to predict when `progress` (0 to 1) of the training is done."""
    if config.ratio_end is None:
        return config.ratio
    return config.ratio + (config.ratio_end - config.ratio) * min(max(progress, 0.0), 1.0)
