"""Texts to token ids, within the length the model takes."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.predict.windows import trim
from unmask.tokenizer import Encoding, Tokenizer
from unmask.tokenizer.guard import backend_errors

Ints = NDArray[np.int64]
MASKS = ("[MASK]", "<mask>")


class TextError(InputError):
    """What is wrong with one of the texts given; `number` says with which, from 0."""

    def __init__(self, said: str, number: int = 0) -> None:
        super().__init__(said)
        self.number = number


class TooLongError(TextError):
    """A text with more tokens than the model takes."""

    def __init__(self, which: str, reason: str = "", number: int = 0) -> None:
        super().__init__(f"{which} {reason}".strip(), number)
        self.reason = reason

    def at(self, place: str) -> "TooLongError":
        """The same, said of a place in a file."""
        return TooLongError(f"{place}: the text", self.reason, self.number)


class Inputs:
    """A tokenizer and the longest sequence its model takes."""

    def __init__(self, tokenizer: Tokenizer, limit: int) -> None:
        self.tokenizer, self.limit = tokenizer, limit
        template = tokenizer.encode("a").words
        self.closing = int((template[::-1] >= 0).argmax()) if (template >= 0).any() else 0
        """How many special tokens close a text."""

    def encode(self, texts: Sequence[str], truncate: bool = False) -> list[Encoding]:
        """Texts with words and offsets."""
        return [
            encoding if len(encoding) <= self.limit else self._cut(encoding, truncate, number, len(texts))
            for number, encoding in enumerate(self.tokenizer.encode_batch(self._spelt(texts)))
        ]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        """Sentences split into words already; what is too long is cut off."""
        encodings = map(self.tokenizer.encode_words, sentences)
        return [e if len(e) <= self.limit else self._cut(e, True, 0, 1) for e in encodings]

    def ids(
        self, texts: Sequence[str], truncate: bool | None = False, limit: int | None = None
    ) -> list[Ints]:
        """Ids alone, which is several times faster. None: what is too long cannot be cut off here."""
        limit = min(limit or self.limit, self.limit)
        spelt = self._spelt(texts)
        with backend_errors("the text cannot be tokenised", texts=spelt):
            results = self.tokenizer.backend.encode_batch_fast(spelt)
        sequences = [np.array(result.ids, np.int64) for result in results]
        return [
            ids if len(ids) <= limit else ids[self._kept(len(ids), limit, truncate, number, len(texts))]
            for number, ids in enumerate(sequences)
        ]

    def pairs(
        self, first: Sequence[str], second: Sequence[str], truncate: bool = False
    ) -> tuple[list[tuple[Ints, Ints]], int]:
        """Ids and segments of pairs, and how many were cut: the longer text loses its last tokens."""
        firsts, seconds = self._spelt(first), self._spelt(second)
        found, cut = self.tokenizer.ids_batch(firsts, seconds), 0
        for number, (ids, _) in enumerate(found):
            if len(ids) > self.limit:
                if not truncate:
                    raise self._too_long(len(ids), self.limit, "pair", number, len(found))
                window = trim(self.tokenizer.encode(firsts[number], seconds[number]), self.limit)
                found[number], cut = (window.ids, window.segments), cut + 1
        return found, cut

    def _spelt(self, texts: Sequence[str]) -> list[str]:
        return [with_own_mask(text, self.tokenizer) for text in texts]

    def _cut(self, encoding: Encoding, truncate: bool, number: int, count: int) -> Encoding:
        kept = self._kept(len(encoding), self.limit, truncate, number, count)
        return Encoding(
            encoding.ids[kept], encoding.words[kept], encoding.offsets[kept], encoding.segments[kept]
        )

    def _kept(self, length: int, limit: int, truncate: bool | None, number: int, count: int) -> Ints:
        """Places that stay: the beginning, and the special tokens that close the text."""
        if not truncate:
            raise self._too_long(length, limit, "text", number, count, truncate is not None)
        places = np.arange(length)
        return places[(places < limit - self.closing) | (places >= length - self.closing)]

    @staticmethod
    def _too_long(
        length: int, limit: int, what: str, number: int, count: int, can_cut: bool = True
    ) -> TooLongError:
        which = f"{what} {number + 1}" if count > 1 else f"the {what}"
        cut = ", or have it cut off (--truncate, truncate=True)" if can_cut else ""
        reason = f"has {length} tokens, but the model takes at most {limit}: shorten it{cut}"
        return TooLongError(which, reason, number)


def with_own_mask(text: object, tokenizer: Tokenizer) -> str:
    """The text with either spelling of the mask written as this tokenizer writes it."""
    if not isinstance(text, str):
        raise InputError(f"{repr(text)[:40]} is no text: give a string")
    for spelling in MASKS:
        text = text.replace(spelling, tokenizer.mask_token)
    return text


def as_list(texts: Any) -> list[str]:
    """One text or many, as a list; anything else is an error that a caller in Python can read."""
    many = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else [texts]
    for number, text in enumerate(many, 1):
        if not isinstance(text, str):
            raise InputError(f"text {number} is {repr(text)[:40]}, no text: give a string, or a list of them")
    return many
