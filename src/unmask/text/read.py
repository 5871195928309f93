"""Raw files -> documents, as a stream: memory does not grow with the size of the file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from unmask.config import TextConfig
from unmask.errors import InputError
from unmask.progress import SILENT, Progress
from unmask.text.columns import TEXT, no_column, parts_of, taken, text_column, text_in
from unmask.text.document import Document
from unmask.text.sources import Source, find_sources, split_suffix
from unmask.text.stream import BLANK_LINE, decoded, records, split_lines
from unmask.text.tables import nothing_in, read_jsonl, read_table

__all__ = [
    "Source",
    "TextColumns",
    "find_sources",
    "nothing_left",
    "read_documents",
    "read_sources",
    "read_texts",
    "say_passed_over",
]

_LONGEST_LANGUAGE = 40


class TextColumns:
    """Which columns hold text and language; a text column that was not named is told once."""

    def __init__(
        self,
        config: TextConfig,
        progress: Progress = SILENT,
        remedy: str = "say which with --set text.column=NAME (prepare: --column NAME)",
    ) -> None:
        self._text, self._language, self._progress = config.column, config.language_column, progress
        self._remedy = remedy
        self._told = {config.column}

    def __call__(self, there: list[str], place: str) -> list[str]:
        """Those to read of the columns that are there."""
        text = text_column(there, self._text, place, self._remedy)
        if text not in self._told:
            self._told.add(text)
            self._progress.say(taken(place, text))
        if self._language is None:
            return [text]
        if self._language not in there:
            raise no_column(there, self._language, place, "say which with --set text.language_column=NAME")
        return [text, self._language]


def read_documents(
    source: Source, config: TextConfig, columns: TextColumns | None = None
) -> Iterator[Document]:
    """The documents of one source, as they stand in it; a source without any is an error.

    One longer than `max_chars` may be cut, but stays longer than that, so that cleaning drops and counts it.
    """
    empty: list[Source] = []
    yield from read_sources([source], config, empty, columns)
    if empty:
        raise nothing_in(source, "document")


def read_sources(
    sources: Sequence[Source], config: TextConfig, empty: list[Source], columns: TextColumns | None = None
) -> Iterator[Document]:
    """The documents of several sources in order; those without any are put into `empty`."""
    return (document for _, document, _ in _placed(sources, config, empty, columns or TextColumns(config)))


def _placed(
    sources: Sequence[Source], config: TextConfig, empty: list[Source], columns: TextColumns
) -> Iterator[tuple[Source, Document, str | int]]:
    """Documents, and where each stands: the source, and its place there, as `Row` has it."""
    for source in sources:
        found = False
        for document, place in _documents(source, config, columns):
            found = True
            yield source, document, place
        if not found:
            empty.append(source)


def read_texts(arguments: Sequence[str], progress: Progress = SILENT, column: str = TEXT[0]) -> Iterator[str]:
    """The text of every line or row of files that has one; where none has, that is an error."""
    return (text for _, text in placed_texts(arguments, progress, column))


def placed_texts(
    arguments: Sequence[str], progress: Progress = SILENT, column: str = TEXT[0]
) -> Iterator[tuple[str, str]]:
    """Where each text stands, in words, and the text.

    Rows without one are counted and told. A file that is named twice is read twice.
    """
    config = TextConfig(documents="line", column=column)
    sources = [source for argument in arguments for source in find_sources([argument])]
    empty: list[Source] = []
    found, left_out = False, 0
    columns = TextColumns(config, progress, "say which with --column NAME")
    for source, document, place in _placed(sources, config, empty, columns):
        if text := document.text.strip():
            found = True
            yield place if isinstance(place, str) else f"{source}, line {place}", text
        else:
            left_out += 1
    if not found and len(empty) == len(sources) == 1:
        raise nothing_in(sources[0], "text")
    if not found:
        raise InputError(f"there is no text in {_named(sources)}")
    say_passed_over(empty, sources, progress)
    if left_out:
        progress.say(f"rows without any text, left out: {left_out:,}")


def say_passed_over(empty: Sequence[object], sources: Sequence[Source], progress: Progress) -> None:
    """Say which files are without text; if all are, the error to come says so, once."""
    if not 0 < len(empty) < len(sources):
        return
    progress.say(f"passed over {len(empty)} without any text: {_named(empty)}")


def nothing_left(sources: Sequence[object], dropped: Mapping[str, int]) -> InputError:
    """The error for files of which cleaning, which counts what it drops, leaves no document."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    reasons = reasons or "none, there is no text in the input"
    return InputError(f"no documents of {_named(sources)} are left (dropped: {reasons})")


def _named(sources: Sequence[object]) -> str:
    return ", ".join(map(str, sources[:3])) + (", …" if len(sources) > 3 else "")


def _documents(
    source: Source, config: TextConfig, columns: TextColumns
) -> Iterator[tuple[Document, str | int]]:
    rows = _plain(source, config, columns) if _format(source) == ".txt" else _rows(source, config, columns)
    for text, language, place in rows:
        if len(language) > _LONGEST_LANGUAGE or not language.isprintable():
            raise InputError(f"{source}: {language[:40]!r} is no language; is text.language_column right?")
        yield Document(text, language or source.language, source.name), place


def _format(source: Source) -> str:
    return split_suffix(source.path)[0] if source.path else ".txt"


Row = tuple[str, str, str | int]
"""Text, language, and where it stands: in words, or of plain text the number of the record."""


def _plain(source: Source, config: TextConfig, columns: TextColumns) -> Iterator[Row]:
    pieces = decoded(source)
    if source.path is None:  # standard input may be jsonl as well
        first = next(pieces, "")
        pieces = chain([first], pieces)
        if re.match(r'\s*\{\s*"', first):
            for place, row in read_jsonl(source, _line_limit(config), pieces):
                yield _pick(row, columns(list(row), place), place)
            return
    split = {"block": _blocks, "line": split_lines, "file": _whole}[config.documents]
    for number, record in enumerate(records(pieces, split, config.max_chars), 1):
        if record and not record.isspace():
            yield record, "", number


def _blocks(text: str) -> list[str]:
    return BLANK_LINE.split(text)


def _whole(text: str) -> list[str]:
    return [text]


def _rows(source: Source, config: TextConfig, columns: TextColumns) -> Iterator[Row]:
    names: tuple[str, ...] = ()

    def choose(there: list[str]) -> list[str]:
        return [part for said in columns(there, str(source)) for part in parts_of(said, there)]

    for place, row in read_table(source, _line_limit(config), choose):
        if tuple(row) != names:  # once for a table; lines of JSON may differ
            names = tuple(row)
            chosen = columns(list(row), place)
        yield _pick(row, chosen, place)


def _pick(row: dict[str, Any], columns: Sequence[str], place: str) -> Row:
    """The text and language of a row; null counts as empty."""
    values = [text_in(row, column, place) for column in columns]
    return values[0], values[1] if len(values) > 1 else "", place


def _line_limit(config: TextConfig) -> int:
    """How long a line of a jsonl or csv file may be: room for max_chars written as escapes, and more."""
    return min(12 * config.max_chars + (1 << 20), 2**31 - 1)
