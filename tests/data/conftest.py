"""A small corpus of our own, and a tokenizer trained on it."""

from collections.abc import Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from unmask.config import BatchConfig, MaskConfig, TokenizerConfig
from unmask.data import plan as plan_module
from unmask.data.batches import Batch, Batches
from unmask.data.plan import Position
from unmask.data.shards import SENTENCE_START, WORD_START, Special
from unmask.tokenizer import Tokenizer, train_tokenizer

CONFIGS = {
    "documents": BatchConfig(length=32),
    "words": BatchConfig(length=32, mask=MaskConfig(kind="word")),
    "sentences": BatchConfig(length=32, sentences=True),
    "nsp": BatchConfig(length=32, pairs="nsp"),
    "sop": BatchConfig(length=32, pairs="sop", mask=MaskConfig(kind="span", ratio=0.3)),
}
SIZES = [1, 7, 90, 33, 30, 31, 2, 64, 250, 12, 5, 18, 29, 77, 41]
SUBJECTS = [
    "O gato",
    "A Dra. Inês",
    "O banco",
    "Um navio velho",
    "The river",
    "My neighbour",
    "Nobody",
    "O Sr. Melo",
]
VERBS = ["atravessa", "esqueceu", "watched", "pintou", "carries", "não encontrou", "counted", "abriu"]
OBJECTS = [
    "a ponte.",
    "o jardim, devagar.",
    "the old letters.",
    "três livros!",
    "nothing at all?",
    "a manhã…",
]


def sentences() -> list[str]:
    """Every subject with every verb and object: 384 short sentences in two languages."""
    return [f"{s} {v} {o}" for s in SUBJECTS for v in VERBS for o in OBJECTS]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Documents of one to seven sentences, some with two paragraphs."""
    every = sentences()
    found, at, size = [], 0, 1
    while at < len(every):
        lines = every[at : at + size]
        found.append(" ".join(lines[: size // 2 + 1]) + ("\n" + " ".join(lines[size // 2 + 1 :])).rstrip())
        at, size = at + size, size % 7 + 1
    return found


@pytest.fixture(scope="session")
def tokenizer(texts: list[str]) -> Tokenizer:
    """A WordPiece vocabulary of 185 entries."""
    return train_tokenizer(texts, TokenizerConfig(vocab_size=185))


@pytest.fixture
def text_folder(tmp_path: Path, texts: list[str]) -> Path:
    """The documents as files of several kinds."""
    import json

    folder = tmp_path / "text"
    folder.mkdir()
    third = len(texts) // 3
    (folder / "a.txt").write_text("\n\n".join(texts[:third]), "utf-8")
    rows = [json.dumps({"text": text, "lang": "en"}) for text in texts[third : 2 * third]]
    (folder / "b.jsonl").write_text("\n".join(rows), "utf-8")
    (folder / "c.txt").write_text("\n\n".join(texts[2 * third :]), "utf-8")
    return folder


class MemoryDocuments:
    """A corpus in memory in which every token has an id of its own, so that a lost one is missed."""

    special = Special(cls=1, sep=2, mask=3, pad=0, unk=4, all=(0, 1, 2, 3, 4))

    def __init__(self, lengths: Sequence[int], languages: Sequence[int] = (), seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.lengths = np.array(lengths, np.int64)
        self.document_count = len(lengths)
        self.languages = np.array(languages if len(languages) else [0] * len(lengths), np.uint16)
        self.language_names = tuple("pt en de fr".split())
        total = int(self.lengths.sum())
        self.ids = np.arange(5, 5 + total, dtype=np.uint32)
        self.vocab_size = 5 + total
        words = (rng.random(total) < 0.7).astype(np.uint8)
        sentences = rng.random(total) < 0.08
        self.bounds = np.concatenate([[0], np.cumsum(self.lengths)])
        sentences[self.bounds[:-1][self.lengths > 0]] = True
        self.flags = np.where(sentences, WORD_START | SENTENCE_START, words).astype(np.uint8)
        self.ids.flags.writeable = self.flags.flags.writeable = False

    def document(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        start, stop = self.bounds[number], self.bounds[number + 1]
        return self.ids[start:stop], self.flags[start:stop]

    def parts(self, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = [
            place
            for number, start, stop in pieces.tolist()
            for place in range(self.bounds[number] + start, self.bounds[number] + stop)
        ]
        return self.ids[places], self.flags[places]

    def owner(self, ids: np.ndarray) -> np.ndarray:
        """The document that each token comes from."""
        return np.searchsorted(self.bounds, np.asarray(ids) - 5, side="right") - 1


@pytest.fixture(scope="session")
def make_documents() -> type[MemoryDocuments]:
    """Builds corpora in memory from the lengths of their documents."""
    return MemoryDocuments


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few sequences each, so that a short text has several."""
    monkeypatch.setattr(plan_module, "WINDOW_TOKENS", 200)
    monkeypatch.setattr(plan_module, "WINDOW_UNITS", 4)


def same(first: Batch, second: Batch) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a == b
        for a, b in ((getattr(first, f.name), getattr(second, f.name)) for f in fields(Batch))
    )


def steps(batches: Batches, count: int, start: Position | None = None, **options) -> list:
    return list(islice(batches.steps(start or Position(), 4, **options), count))
