"""What every kind of suite is given, and how it reads its rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from unmask.errors import InputError, ModelError
from unmask.evaluation.suites import Found
from unmask.predict import MaskedLM, load
from unmask.predict.predictor import Predictor
from unmask.progress import SILENT, Progress
from unmask.text import text_hash
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

    def some(self, items: Sequence[AnyItem], text: Callable[[AnyItem], str] = repr) -> list[AnyItem]:
        """The sample of some items: those whose texts have the lowest hashes, in their order."""
        if self.sample is None:
            return list(items)
        numbers = sorted(range(len(items)), key=lambda number: text_hash(text(items[number])))
        return [items[number] for number in sorted(numbers[: self.sample])]


def rows(path: Path, *columns: str) -> Iterator[dict[str, Any]]:
    """The rows of a table, each with the columns asked for."""
    source, found = Source(path, path.name), False
    for place, row in read_table(source, _LONGEST_LINE):
        missing = [column for column in columns if column not in row]
        if missing:
            raise InputError(f"{place}: there is no column {missing[0]}, only {', '.join(row)}")
        found = True
        yield row
    if not found:
        raise nothing_in(source, "row")
