"""A small corpus of our own, and a tokenizer trained on it."""

from pathlib import Path

import pytest

from unmask.config import TokenizerConfig
from unmask.tokenizer import Tokenizer, train_tokenizer

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
    """A WordPiece vocabulary of 200 entries."""
    return train_tokenizer(texts, TokenizerConfig(vocab_size=200))


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
