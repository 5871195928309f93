"""How well a vocabulary fits a text: figures per language, and how example words are split."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unmask.charts import bars
from unmask.errors import InputError
from unmask.files import write_json
from unmask.report import Heading, Table, write_page
from unmask.text import Document
from unmask.tokenizer.sample import Sample
from unmask.tokenizer.tokenizer import Encoding, Tokenizer
from unmask.tokenizer.words import count_words

_SAMPLE_MB = 2
_MOST_PIECES = 6
_SPLIT_WORDS = 10
_PORTUGUESE = ("gatinho", "cãozinho", "correndo", "rapidamente")


@dataclass(frozen=True, slots=True)
class Fit:
    """How a vocabulary fits the text of one language; a word is as in `Tokenizer.word_starts`."""

    words: int
    tokens: int
    bytes: int
    tokens_per_word: float
    bytes_per_token: float
    unknown: float
    """Share of the tokens that are unknown."""
    whole: float
    """Share of the words that are one token."""
    pieces: tuple[float, ...]
    """Share of the words of one piece, two pieces, … and of so many or more."""


@dataclass(frozen=True, slots=True)
class VocabularyReport:
    """A vocabulary measured on a sample of text."""

    kind: str
    vocab_size: int
    fingerprint: str
    languages: Mapping[str, Fit]
    examples: Mapping[str, tuple[str, ...]]
    """Words and their pieces: those asked for, then the commonest split words of the text."""

    def save(self, folder: Path) -> None:
        """Write report.json and report.html."""
        write_json(folder / "report.json", asdict(self))
        columns, rows = self.table()
        figure = bars(
            "Pieces per word",
            "share of the words",
            {name: _labelled(fit.pieces) for name, fit in self.languages.items()},
        )
        examples = Table(("word", "pieces"), [(word, " ".join(p)) for word, p in self.examples.items()])
        write_page(
            folder / "report.html",
            "Vocabulary",
            [
                f"{self.kind}, {self.vocab_size:,} entries, fingerprint {self.fingerprint}.",
                Table(columns, rows),
                figure,
                Heading("How words are split"),
                examples,
            ],
        )

    def table(self) -> tuple[list[str], list[list[str | int | float]]]:
        """Columns and rows of the figures per language."""
        columns = ["language", "words", "tokens/word", "bytes/token", "unknown %", "whole words %"]
        rows: list[list[str | int | float]] = [
            [
                name,
                fit.words,
                fit.tokens_per_word,
                fit.bytes_per_token,
                100 * fit.unknown,
                100 * fit.whole,
            ]
            for name, fit in self.languages.items()
        ]
        return columns, rows


class Meter:
    """Gathers a sample of each language as documents pass by."""

    def __init__(self) -> None:
        self._samples: dict[str, Sample] = {}

    def watch(self, documents: Iterable[Document]) -> Iterable[Document]:
        """The same documents, sampled on the way."""
        for document in documents:
            self._samples.setdefault(document.language, Sample(_SAMPLE_MB)).add(document.text)
            yield document

    def report(self, tokenizer: Tokenizer, words: Sequence[str] = ()) -> VocabularyReport:
        """What was sampled, measured with this tokenizer."""
        if not self._samples:
            raise InputError("there is no text to measure the vocabulary on")
        split: Counter[str] = Counter()
        unnamed = "all" if len(self._samples) == 1 else "none"  # texts of which nobody said the language
        languages = {
            language or unnamed: _measure(tokenizer, sample, split)
            for language, sample in sorted(self._samples.items())
        }
        portuguese = any(language.lower().startswith("pt") for language in languages)
        shown = dict.fromkeys([*words, *(_PORTUGUESE if portuguese else ())])
        examples = {word: split_word(tokenizer, word) for word in [*shown, *_common(split)]}
        split_up = [word for word in examples if word not in shown and len(examples[word]) > 1]
        return VocabularyReport(
            kind=tokenizer.kind,
            vocab_size=tokenizer.vocab_size,
            fingerprint=tokenizer.fingerprint,
            languages=languages,
            examples={word: examples[word] for word in [*shown, *split_up[:_SPLIT_WORDS]]},
        )


def _common(counts: Counter[str]) -> list[str]:
    """More words than are shown, as some are split at the start of a text only; equals by spelling."""
    return sorted(counts, key=lambda word: (-counts[word], word))[: 5 * _SPLIT_WORDS]


def split_word(tokenizer: Tokenizer, word: str) -> tuple[str, ...]:
    """The pieces of one word in running text; those of bytes as the characters they stand for."""
    encoding = tokenizer.encode_words(["a", word], special=False)
    mine = encoding.words == 1
    return tuple(_shown(tokenizer, int(i)) for i in encoding.ids[mine])


def _shown(tokenizer: Tokenizer, id_: int) -> str:
    if tokenizer.kind != "bpe" or id_ == tokenizer.unk_id:
        return tokenizer.piece(id_)
    text = tokenizer.decode([id_]).strip()
    return text if text and "\ufffd" not in text else tokenizer.piece(id_)


def _measure(tokenizer: Tokenizer, sample: Sample, split: Counter[str]) -> Fit:
    tokens = unknown = words = size = 0
    pieces = np.zeros(_MOST_PIECES + 1, np.int64)
    for texts in sample.batches():
        for text, encoding in zip(texts, tokenizer.encode_batch(texts, special=False), strict=True):
            tokens += len(encoding)
            unknown += int(np.count_nonzero(encoding.ids == tokenizer.unk_id))
            words += count_words(text)
            size += len(text.encode())
            counts = np.bincount(encoding.words) if len(encoding) else np.zeros(0, np.int64)
            pieces += np.bincount(np.minimum(counts, _MOST_PIECES), minlength=_MOST_PIECES + 1)
            split.update(_split_words(text, encoding, counts))
    found = max(int(pieces.sum()), 1)
    return Fit(
        words=words,
        tokens=tokens,
        bytes=size,
        tokens_per_word=tokens / max(words, 1),
        bytes_per_token=size / max(tokens, 1),
        unknown=unknown / max(tokens, 1),
        whole=int(pieces[1]) / found,
        pieces=tuple((pieces[1:] / found).tolist()),
    )


def _split_words(text: str, encoding: Encoding, counts: NDArray[np.int64]) -> list[str]:
    """The words of letters, four or more, that became several tokens."""
    last = np.cumsum(counts) - 1
    chosen = counts > 1
    starts = encoding.offsets[(last - counts + 1)[chosen], 0].tolist()
    ends = encoding.offsets[last[chosen], 1].tolist()
    words = (text[start:end] for start, end in zip(starts, ends, strict=True))
    return [word for word in words if len(word) > 3 and word.isalpha()]


def _labelled(shares: Sequence[float]) -> dict[str, float]:
    names = [str(n) for n in range(1, len(shares))] + [f"{len(shares)} or more"]
    return dict(zip(names, shares, strict=True))
