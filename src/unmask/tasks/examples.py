"""Labelled examples, as the readers give them; `place` says where one stands, for messages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unmask.errors import InputError
from unmask.files import digest
from unmask.progress import Progress, counted

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


def second_texts(examples: Sequence[TextExample]) -> list[str] | None:
    """The second text of every example; None if there are no pairs."""
    pairs = [example.pair for example in examples if example.pair is not None]
    if pairs and len(pairs) < len(examples):
        lonely = next(example for example in examples if example.pair is None)
        raise InputError(f"{lonely.place or lonely.text[:40]!r} has no second text, but others have one")
    return pairs or None


def count_repeated(valid: Sequence[Example], train: Sequence[Example], progress: Progress) -> int:
    """How many validation examples are among those of the training, label and all; it is told."""
    known = {(read_of(example), _said_of(example)) for example in train}
    repeated = sum((read_of(example), _said_of(example)) in known for example in valid)
    if repeated:
        progress.say(
            f"{repeated:,} of {counted(len(valid), 'validation example')} "
            "trained on too: the scores will say less of new texts; validate on others"
        )
    return repeated


def read_of(example: Example) -> str:
    """What a model reads of an example, whatever is to be said of it; a pair is the same either way round."""
    if isinstance(example, TextExample):
        return repr(sorted((example.text, example.pair or "")))
    if isinstance(example, TaggedExample):
        return repr(tuple(example.words))
    return repr((example.question, example.context))


def data_mark(examples: Sequence[Example]) -> str:
    """The same for the same labelled examples, in any order and from any file."""
    return digest(*sorted(repr(replace(example, place="")) for example in examples))


def _said_of(example: Example) -> str:
    """What is to be said of an example."""
    if isinstance(example, TextExample):
        return repr(example.target)
    return repr(tuple(example.tags if isinstance(example, TaggedExample) else example.answers))
