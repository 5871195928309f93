"""A bounded, uniform, repeatable sample of a stream of texts, and counts over it."""

import re
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend
from tokenizers import models, trainers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from unmask.errors import InputError
from unmask.tokenizer.guard import backend_errors

_MEGABYTE = 1_000_000
_UNSEEN = "\0"


class Sample:
    """At most so many megabytes of what is added: when it grows too big, every second text is let go.

    Which texts stay follows from their content, so the sample depends neither on chance nor on order.
    """

    def __init__(self, megabytes: float, texts: Iterable[str] = ()) -> None:
        self.share = 1
        """One text in so many is held."""
        self._limit = megabytes * _MEGABYTE
        self._size = 0
        self._texts: list[bytes] = []
        self._last = (0, 0, b"")  # the one to let go last: it stands in where too few large texts leave none
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Take one more text into account."""
        data = text.encode("utf-8", "replace")
        mark = zlib.crc32(data)
        if mark % self.share:
            return
        self._last = max(self._last, (mark & -mark, mark, data))  # the lowest bit says how long it stays
        self._texts.append(data)
        self._size += len(data)
        while self._size > self._limit:
            self.share *= 2
            self._texts = [data for data in self._texts if zlib.crc32(data) % self.share == 0]
            self._size = sum(map(len, self._texts))

    @property
    def megabytes(self) -> float:
        """How much is held."""
        return sum(map(len, self._held)) / _MEGABYTE

    @property
    def _held(self) -> list[bytes]:
        return self._texts or [self._last[2]]

    def require_text(self) -> None:
        """Refuse to go on with nothing."""
        if not any(map(bytes.strip, self._held)):
            raise InputError("there is no text to learn a vocabulary from")

    def __iter__(self) -> Iterator[str]:
        return (data.decode("utf-8") for data in self._held)

    def batches(self, size: int = 1000) -> Iterator[list[str]]:
        """The texts, so many at a time."""
        held = self._held
        for first in range(0, len(held), size):
            yield [data.decode("utf-8") for data in held[first : first + size]]

    def without(self, characters: Iterable[str]) -> Iterator[str]:
        """The texts with these characters blanked out."""
        unwanted = "".join(map(re.escape, characters))
        if not unwanted:
            return iter(self)
        pattern = re.compile(f"[{unwanted}]")
        return (pattern.sub(" ", text) for text in self)


def count_characters(texts: Iterable[str]) -> NDArray[np.int64]:
    """How often each code point occurs."""
    counts = np.zeros(0x110000, np.int64)
    for text in _joined(texts):
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        counts += np.bincount(codes, minlength=len(counts))
    return counts


def _joined(texts: Iterable[str]) -> Iterator[str]:
    """All texts end to end, a million characters or more at a time."""
    held: list[str] = []
    size = 0
    for text in texts:
        held.append(text)
        size += len(text)
        if size >= _MEGABYTE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def split_by_frequency(counts: NDArray[np.int64], coverage: float) -> tuple[list[str], list[str]]:
    """The commonest characters that make up this share of the text, and the rare rest."""
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    kept = int(np.searchsorted(np.cumsum(counts[order]), coverage * counts.sum())) + 1
    characters = [chr(code) for code in order]
    return characters[:kept], characters[kept:]


def count_words(
    sample: Sample, normaliser: Normalizer | None, splitter: PreTokenizer | None
) -> dict[str, int]:
    """How often each word occurs that occurs twice or more; the commonest first."""
    counter = Backend(models.WordLevel(unk_token=_UNSEEN))
    counter.normalizer, counter.pre_tokenizer = normaliser, splitter
    trainer = trainers.WordLevelTrainer(
        vocab_size=2**31, min_frequency=2, special_tokens=[_UNSEEN], show_progress=False
    )
    with backend_errors("the words of the text cannot be counted", InputError):
        counter.train_from_iterator(sample, trainer)
        counts = np.zeros(counter.get_vocab_size(), np.int64)
        for texts in sample.batches():
            results = counter.encode_batch_fast(texts, add_special_tokens=False)
            ids = np.concatenate([np.array(result.ids, np.int64) for result in results])
            counts += np.bincount(ids, minlength=len(counts))
    words = {word: int(counts[i]) for word, i in counter.get_vocab().items() if word != _UNSEEN}
    return dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))
