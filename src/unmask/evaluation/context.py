"""What every kind of suite is given, and how it reads its rows."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os.path import commonpath
from pathlib import Path
from typing import Any, TypeVar

from unmask.errors import InputError, ModelError
from unmask.evaluation.suites import Found
from unmask.predict import MaskedLM, load
from unmask.predict.predictor import Predictor
from unmask.progress import SILENT, Progress
from unmask.tasks.columns import class_name
from unmask.text import text_hash
from unmask.text.columns import not_text
from unmask.text.sources import Source
from unmask.text.tables import nothing_in, read_table

_LONGEST_LINE = 1 << 24
AnyItem = TypeVar("AnyItem")


class Subject:
    """The model under test; loaded when first asked for."""

    def __init__(self, folder: Path, progress: Progress = SILENT) -> None:
        self.folder, self._progress = folder, progress

    @cached_property
    def predictor(self) -> Predictor:
        """With whatever head the folder has; what did not fit when it was read is said."""
        model = load(self.folder)
        if model.report:
            self._progress.say(str(model.report))
        return model

    @property
    def language_model(self) -> MaskedLM:
        """The model, if it has a language model's head."""
        model = self.predictor
        if not isinstance(model, MaskedLM):
            kind = type(model).__name__.lower()
            raise ModelError(f"{self.folder} holds a {kind}, but this suite needs a language model")
        return model


@dataclass(frozen=True)
class Context:
    """One suite to run on one model."""

    found: Found
    subject: Subject
    out: Path
    """The folder of the results."""
    seed: int = 0
    sample: int | None = None
    """At most so many items, to learn from and to score on; None: all."""
    progress: Progress = SILENT

    def files(self, patterns: Sequence[str]) -> list[tuple[str, Path]]:
        """The files that some patterns mean, each once, by their names; where two are alike, with folders."""
        paths = list(dict.fromkeys(path for pattern in patterns for path in self.found.paths(pattern)))
        alike = Counter(path.stem for path in paths)
        root = commonpath([path.absolute().parent for path in paths])
        return [
            (path.stem if alike[path.stem] == 1 else path.absolute().relative_to(root).as_posix(), path)
            for path in paths
        ]

    def some(self, items: Sequence[AnyItem], text: Callable[[AnyItem], str] = repr) -> list[AnyItem]:
        """The sample of some items: those whose texts have the lowest hashes, in their order."""
        if self.sample is None:
            return list(items)
        numbers = sorted(range(len(items)), key=lambda number: text_hash(text(items[number])))
        return [items[number] for number in sorted(numbers[: self.sample])]


def rows(
    path: Path, texts: Sequence[str], names: Sequence[str] = (), maybe: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each row of a table stands, and its values: every text and every name asked for is one.

    Names, of classes and groups, may be numbers. Columns in `maybe` may be missing, or hold nothing (None).
    """
    source, found = Source(path, path.name), False
    for place, row in read_table(source, _LONGEST_LINE):
        missing = [column for column in (*texts, *names) if column not in row and column not in maybe]
        if missing:
            raise InputError(f"{place}: there is no column {missing[0]}, only {', '.join(row)}")
        found = True
        held = {column: row[column] for column in (*texts, *names) if column in row}
        yield (
            place,
            row | {c: _text(value, c, place, c in names, c in maybe) for c, value in held.items()},
        )
    if not found:
        raise nothing_in(source, "row")


def _text(value: object, column: str, place: str, name: bool, maybe: bool) -> str | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        if maybe:
            return None
        raise not_text(None, column, place)  # as text, nothing would be the likeliest of all
    if name and isinstance(value, int | float) and value == value:
        return class_name(value)
    if not isinstance(value, str):
        raise not_text(value, column, place)
    return value
