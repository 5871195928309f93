"""Cloze prompts: how likely each of some answers is where the mask of a prompt stands.

An answer of k pieces is asked with k masks at once, and scored by its mean log-probability per piece, so that
answers of different lengths can be compared.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError, ModelError
from unmask.predict.fill import pieces_in_place
from unmask.predict.inputs import MASKS, with_own_mask
from unmask.predict.masked import MaskedLM

Floats = NDArray[np.float32]
_PROMPTS = 64
"""Prompts whose scores over the vocabulary are held at a time."""
_BEFORE, _AFTER = re.compile(r"\s?\S*\Z"), re.compile(r"\S*\s?")


class Cloze:
    """Prompts with one mask each, ready to be asked."""

    def __init__(self, lm: MaskedLM, prompts: Sequence[str]) -> None:
        if lm.config.causal:
            raise ModelError(
                "a causal model sees only what stands before a mask: cloze prompts need both sides"
            )
        self.lm = lm
        self.texts = [with_own_mask(prompt, lm.tokenizer) for prompt in prompts]
        self.encodings = lm.tokenizer.encode_batch(self.texts)
        self.masks = [np.flatnonzero(encoding.ids == lm.tokenizer.mask_id) for encoding in self.encodings]
        for prompt, masks in zip(prompts, self.masks, strict=True):
            if len(masks) != 1:
                raise InputError(f"write one {MASKS[0]} in the prompt, not {len(masks)}: {prompt!r}")
        self._places = [
            (int(encoding.offsets[masks[0], 0]), int(encoding.offsets[masks[0], 1]))
            for encoding, masks in zip(self.encodings, self.masks, strict=True)
        ]
        # A word is split by what touches it, up to the white space on both sides.
        self._around = [
            (_BEFORE.findall(text[:first])[0], _AFTER.findall(text[last:])[0])
            for text, (first, last) in zip(self.texts, self._places, strict=True)
        ]
        self._known: dict[tuple[str, tuple[str, str]], tuple[int, ...]] = {}
        self._barred = np.array(sorted(lm.tokenizer.special_ids), np.int64)

    def pieces(self, number: int, answer: str) -> tuple[int, ...]:
        """The answer as it is split where this prompt has its mask; nothing if the vocabulary lacks it."""
        key = (answer, self._around[number])
        if key not in self._known:
            tokenizer = self.lm.tokenizer
            found = pieces_in_place(tokenizer, self.texts[number], self._places[number], answer)
            self._known[key] = () if tokenizer.unk_id in found else found
        return self._known[key]

    def score(self, answers: Sequence[str]) -> Floats:
        """Mean log-probability per piece (prompts, answers); −∞ for what the vocabulary cannot write."""
        out = np.full((len(self.texts), len(answers)), -np.inf, np.float32)
        split = [[self.pieces(number, answer) for answer in answers] for number in range(len(self.texts))]
        for size in sorted({len(pieces) for row in split for pieces in row if pieces}):
            for number, logs in self._logs(size):
                for place, pieces in enumerate(split[number]):
                    if len(pieces) == size:
                        out[number, place] = logs[np.arange(size), pieces].mean()
        return out

    def ranks(self, answers: Sequence[str]) -> list[int | None]:
        """The rank of each prompt's own answer among all entries; None if it has several pieces."""
        out: list[int | None] = [None] * len(self.texts)
        split = [self.pieces(number, answer) for number, answer in enumerate(answers)]
        for number, logs in self._logs(1):
            if len(split[number]) == 1:
                row = logs[0, : self.lm.tokenizer.vocab_size].copy()
                row[self._barred] = -np.inf
                out[number] = 1 + int((row > row[split[number][0]]).sum())
        return out

    def _logs(self, size: int) -> Iterator[tuple[int, Floats]]:
        """For each prompt with `size` masks: its number and the log-probabilities (size, V)."""
        for start in range(0, len(self.texts), _PROMPTS):
            numbers = range(start, min(start + _PROMPTS, len(self.texts)))
            sequences, places = [], []
            for number in numbers:
                ids, mask = self.encodings[number].ids, int(self.masks[number][0])
                sequences.append(np.concatenate([ids[:mask], np.repeat(ids[mask], size), ids[mask + 1 :]]))
                places.append(np.arange(mask, mask + size))
            self._check(sequences)
            yield from zip(numbers, self.lm.log_probabilities(sequences, places), strict=True)

    def _check(self, sequences: Sequence[NDArray[np.int64]]) -> None:
        longest, limit = max(map(len, sequences)), self.lm.inputs.limit
        if longest > limit:
            raise InputError(
                f"a prompt has {longest} tokens, but the model takes at most {limit}: shorten it"
            )
