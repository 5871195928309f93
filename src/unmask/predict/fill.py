"""Fill masks: all those of a text jointly, the most confident first, by beam search.

A mask may stand for a word of several pieces. A layout says how many pieces each mask has; within a layout
every step fills, in each beam, the place the model is surest of. Answers of different layouts are compared by
their geometric mean probability per piece.

A mask that stands by itself is a word, not the tail of the one before: its first piece opens a word, the
others go on with it. What may not stand there is passed over; the other probabilities remain the model's own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.predict.inputs import MASKS, with_own_mask
from unmask.predict.results import Fill, Word
from unmask.progress import SILENT, Progress, Stage
from unmask.tokenizer import Encoding, Tokenizer

Ints = NDArray[np.int64]
LogProbabilities = Callable[[Sequence[Ints], Sequence[Ints]], list[NDArray[np.float32]]]
"""Sequences of ids and places in each -> log-probabilities over the vocabulary at those places (n, V)."""

BEAM = 10
_SPACES = ("Ġ", "▁")
"""How pieces of byte-level BPE and Unigram say that a space stands before them."""
MAX_LAYOUTS = 64
MOST_PIECES = 16
"""A word of more is none that anybody looks for; candidates may have any number."""
_ASKED = 64  # beams that the model is asked about at a time: each answer is as long as the vocabulary
_HELD = 4  # times the beams wanted, before the worst are let go
_LETTER = "a"
"""A word of one letter, to see how a vocabulary writes one in some place."""


@dataclass(frozen=True, eq=False)
class _Beam:
    ids: Ints
    logs: dict[int, float]
    """Place filled -> the log-probability it was filled with."""

    @property
    def total(self) -> float:
        return sum(self.logs.values())


class Filler:
    """The masks of one text and the ways to fill them."""

    def __init__(
        self, tokenizer: Tokenizer, text: str, candidates: Sequence[str] | None, pieces: int, limit: int
    ) -> None:
        self.tokenizer = tokenizer
        self.text = with_own_mask(text, tokenizer)
        self.encoding = tokenizer.encode(self.text)
        self.masks = np.flatnonzero(self.encoding.ids == tokenizer.mask_id)
        if not len(self.masks):
            raise InputError(f"nothing to fill: write {MASKS[0]} or {MASKS[1]} where a word is missing")
        if not 1 <= pieces <= MOST_PIECES:
            raise InputError(f"pieces must be from 1 to {MOST_PIECES}, the longest searched, not {pieces}")
        self.choices = None if candidates is None else [self._choices(candidates, int(m)) for m in self.masks]
        self.sizes = self._sizes(pieces)
        longest = len(self.encoding) + sum(max(sizes) - 1 for sizes in self.sizes)
        if longest > limit:
            raise InputError(
                f"the text has {longest} tokens, but the model takes at most {limit}: shorten it"
            )
        self.forbidden = np.array(sorted(tokenizer.special_ids), np.int64)
        starts = self.encoding.offsets[self.masks, 0].tolist()
        alone = candidates is None
        self.opens = [alone and opens_word(tokenizer, self.text, start) for start in starts]
        self.continues = continuations(tokenizer) if max(map(max, self.sizes)) > 1 else None

    def search(
        self, log_probabilities: LogProbabilities, top: int, beam: int, progress: Progress = SILENT
    ) -> list[Fill]:
        """The `top` best fillings over all layouts."""
        found: dict[str, Fill] = {}
        layouts = list(product(*self.sizes))
        with progress.stage("filling", sum(map(sum, layouts))) as stage:  # without a unit no bar stays behind
            for layout in layouts:
                for fill in self._search(layout, log_probabilities, max(beam, top), stage):
                    if fill.text not in found or found[fill.text].score < fill.score:
                        found[fill.text] = fill
                found = dict(sorted(found.items(), key=lambda each: -each[1].score)[:top])
        return list(found.values())

    def _search(
        self, layout: Sequence[int], ask: LogProbabilities, beam: int, stage: Stage
    ) -> Iterator[Fill]:
        ids, slots = self._laid_out(layout)
        beams = [_Beam(ids, {})]
        for _ in range(sum(layout)):
            beams = self._step(beams, ask, slots, beam, stage)
        yield from (self._fill(b, slots) for b in beams)

    def _step(
        self, beams: list[_Beam], ask: LogProbabilities, slots: list[range], width: int, stage: Stage
    ) -> list[_Beam]:
        """The `width` best ways to fill one more place, best first; never many more are held at once."""
        best: list[_Beam] = []
        floor = -np.inf
        for first in range(0, len(beams), _ASKED):
            some = [b for b in beams[first : first + _ASKED] if b.total > floor]
            if not some:
                break
            places = [np.array([p for slot in slots for p in slot if p not in b.logs]) for b in some]
            for b, open_places, logs in zip(some, places, ask([b.ids for b in some], places), strict=True):
                best += self._grow(b, open_places, logs, slots, width, floor)
                if len(best) > _HELD * width:
                    best = _distinct(best)[:width]
                    floor = best[-1].total if len(best) == width else floor
            stage.advance(len(beams[first : first + _ASKED]) / len(beams))
        return _distinct(best)[:width]

    def _grow(
        self,
        beam: _Beam,
        places: Ints,
        logs: NDArray[np.float32],
        slots: list[range],
        width: int,
        floor: float,
    ) -> Iterator[_Beam]:
        """The beam with its surest place filled, in the `width` likeliest ways that lie above the floor."""
        logs = logs.copy()
        logs[:, self.forbidden] = -np.inf
        logs[:, self.tokenizer.vocab_size :] = -np.inf  # rows that only round up the model's table
        for row, place in zip(logs, places, strict=True):
            self._restrict(row, int(place), beam, slots)
        surest = int(logs.max(1).argmax())
        row, place = logs[surest], int(places[surest])
        width = min(width, len(row))
        likeliest = np.argpartition(-row, width - 1)[:width]
        for token in likeliest[beam.total + row[likeliest] > floor]:
            ids = beam.ids.copy()
            ids[place] = token
            yield _Beam(ids, beam.logs | {place: float(row[token])})

    def _restrict(self, row: NDArray[np.float32], place: int, beam: _Beam, slots: list[range]) -> None:
        """Leave only what may stand at this place: pieces of candidates, or a word's opening or inside."""
        number, slot = next((n, slot) for n, slot in enumerate(slots) if place in slot)
        if self.choices is not None:
            filled = [p for p in slot if p in beam.logs]
            allowed = [
                choice[place - slot.start]
                for choice in self.choices[number]
                if len(choice) == len(slot) and all(choice[p - slot.start] == beam.ids[p] for p in filled)
            ]
            kept = row[allowed]
            row[:] = -np.inf
            row[allowed] = kept
        elif self.continues is not None and place > slot.start:
            row[: len(self.continues)][~self.continues] = -np.inf
        elif self.opens[number]:
            first = self.tokenizer.openings if len(slot) == 1 else _firsts(self.tokenizer)
            row[: self.tokenizer.vocab_size][~first] = -np.inf

    def _laid_out(self, layout: Sequence[int]) -> tuple[Ints, list[range]]:
        """The ids with as many masks as the layout says, and where those of each word are."""
        parts, slots, done, length = [], [], 0, 0
        for mask, size in zip(self.masks, layout, strict=True):
            length += int(mask) - done
            parts += [self.encoding.ids[done:mask], np.full(size, self.tokenizer.mask_id)]
            slots.append(range(length, length + size))
            length, done = length + size, int(mask) + 1
        return np.concatenate([*parts, self.encoding.ids[done:]]), slots

    def _fill(self, beam: _Beam, slots: list[range]) -> Fill:
        starts = self.tokenizer.word_starts(beam.ids)
        words, text, done = [], "", 0
        for number, (mask, slot) in enumerate(zip(self.masks, slots, strict=True)):
            ids = beam.ids[slot.start : slot.stop]
            if self.choices is None:
                word = self.tokenizer.decode(ids).strip().removeprefix("##")
            else:
                word = self.choices[number][tuple(map(int, ids))]
            words.append(
                Word(word, tuple(map(self.tokenizer.piece, ids)), exp(sum(beam.logs[p] for p in slot)))
            )
            first, last = map(int, self.encoding.offsets[mask])
            text += self.text[done:first]
            if not starts[slot.start]:
                text = text.rstrip()
            elif text[-1:].strip() and words[-1].pieces[0].startswith(_SPACES):
                text += " "
            text += word
            done = last
        mean = beam.total / len(beam.logs)
        return Fill(text + self.text[done:], tuple(words), exp(beam.total), exp(mean))

    def _sizes(self, pieces: int) -> list[list[int]]:
        if self.choices is None:
            sizes = [list(range(1, pieces + 1))] * len(self.masks)
        else:
            sizes = [sorted({len(choice) for choice in choices}) for choices in self.choices]
        count = int(np.prod([len(s) for s in sizes]))
        if count > MAX_LAYOUTS:
            raise InputError(
                f"{len(sizes)} masks of so many lengths make {count} combinations; "
                f"at most {MAX_LAYOUTS} are searched: ask for fewer pieces, candidates or masks"
            )
        return sizes

    def _choices(self, candidates: Sequence[str], mask: int) -> dict[tuple[int, ...], str]:
        """The candidates by their pieces, as they are split where this mask stands."""
        if isinstance(candidates, str) or not candidates:
            raise InputError("candidates must be a list of words")
        first, last = map(int, self.encoding.offsets[mask])
        choices: dict[tuple[int, ...], str] = {}
        for word in candidates:
            ids = pieces_in_place(self.tokenizer, self.text, (first, last), word)
            if not ids or not set(ids).isdisjoint(self.tokenizer.special_ids):
                raise InputError(f"the vocabulary cannot write the candidate {word!r}")
            choices.setdefault(ids, word.strip())
        return choices


def pieces_in_place(tokenizer: Tokenizer, text: str, place: tuple[int, int], word: str) -> tuple[int, ...]:
    """The pieces of a word as it is split where it stands in place of some characters of a text."""
    first, last = place
    encoding = tokenizer.encode(text[:first] + word + text[last:])
    touched = _between(encoding, first, first + len(word))
    if touched is None:  # it would melt into its neighbours
        return tuple(map(int, tokenizer.encode(word, special=False).ids))
    before = touched[0] - 1
    if before >= 0 and tokenizer.blanks[encoding.ids[before]] and _takes_the_space(tokenizer, text[:last]):
        touched = np.append(before, touched)
    return tuple(map(int, encoding.ids[touched]))


def _between(encoding: Encoding, first: int, last: int) -> Ints | None:
    """The places of the tokens that are these characters, and no others."""
    starts, ends = encoding.offsets.T
    touched = (encoding.words >= 0) & (starts < last) & (ends > first)
    if not touched.any() or starts[touched].min() < first or ends[touched].max() > last:
        return None
    return np.flatnonzero(touched)


def _takes_the_space(tokenizer: Tokenizer, text: str) -> bool:
    """Whether the mask that ends this text stands for the space before it too, as in byte-level BPE."""
    ids = tokenizer.encode(text, special=False).ids
    return len(ids) < 2 or not tokenizer.blanks[ids[-2]]


def opens_word(tokenizer: Tokenizer, text: str, start: int) -> bool:
    """Whether a word at this character begins with a piece that is marked so.

    It does not behind a letter or another mask. Byte-level BPE and Unigram mark the space before a word:
    where there is none, as after a bracket, they write the beginning of a word like its inside.
    """
    before = text[:start]
    if before.endswith(tokenizer.mask_token):
        return False
    encoding = tokenizer.encode(before + _LETTER)
    touched = _between(encoding, start, start + 1)
    return touched is not None and bool(_firsts(tokenizer)[encoding.ids[touched[0]]])


def _firsts(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Which entries a word of several may begin with."""
    return tokenizer.openings | tokenizer.blanks


def _distinct(beams: list[_Beam]) -> list[_Beam]:
    """Each sequence once, best first; different orders lead to the same one."""
    seen: dict[bytes, _Beam] = {}
    for beam in sorted(beams, key=lambda b: -b.total):
        seen.setdefault(beam.ids.tobytes(), beam)
    return list(seen.values())


def continuations(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Which entries go on with the word before them."""
    ids = np.full(2 * tokenizer.vocab_size, tokenizer.unk_id)
    ids[1::2] = np.arange(tokenizer.vocab_size)
    return ~tokenizer.word_starts(ids)[1::2]
