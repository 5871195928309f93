"""Labelled examples, as the readers give them; `place` says where one stands, for messages."""

from dataclasses import dataclass

Target = str | tuple[str, ...] | float | None
"""A class, any number of classes, a number, or nothing (to be predicted)."""


@dataclass(frozen=True, slots=True)
class TextExample:
    """A text, or a pair of texts, and what is to be said of it."""

    text: str
    pair: str | None = None
    target: Target = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """Words and the tag of each (no tags: to be predicted)."""

    words: tuple[str, ...]
    tags: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """An answer and the character of the context where it begins."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question about a context; without answers it cannot be answered from it."""

    question: str
    context: str
    answers: tuple[Span, ...] = ()
    id: str = ""
    place: str = ""


Example = TextExample | TaggedExample | QuestionExample
