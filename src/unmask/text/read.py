"""Raw files -> documents, as a stream: memory does not grow with the size of the file."""

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from unmask.config import TextConfig
from unmask.errors import InputError
from unmask.text.document import Document
from unmask.text.sources import Source, find_sources, split_suffix
from unmask.text.stream import BLANK_LINE, decoded, records, split_lines
from unmask.text.tables import read_jsonl, read_table

__all__ = ["Source", "find_sources", "passed_over", "read_documents", "read_sources"]

_LONGEST_LANGUAGE = 40


def read_documents(source: Source, config: TextConfig) -> Iterator[Document]:
    """The documents of one source, as they stand in it; a source without any is an error.

    One longer than `max_chars` may be cut, but stays longer than that, so that cleaning drops and counts it.
    """
    empty: list[Source] = []
    yield from read_sources([source], config, empty)
    if empty:
        raise InputError(f"{source} is empty: there is no document in it")


def read_sources(sources: Sequence[Source], config: TextConfig, empty: list[Source]) -> Iterator[Document]:
    """The documents of several sources in order; those without any are put into `empty`."""
    for source in sources:
        found = False
        for document in _documents(source, config):
            found = True
            yield document
        if not found:
            empty.append(source)


def passed_over(empty: Sequence[object]) -> str:
    """What is said of files without text."""
    names = ", ".join(map(str, empty[:3])) + (", …" if len(empty) > 3 else "")
    return f"passed over {len(empty)} without any text: {names}"


def _documents(source: Source, config: TextConfig) -> Iterator[Document]:
    rows = _plain(source, config) if _format(source) == ".txt" else _rows(source, config)
    for text, language in rows:
        if len(language) > _LONGEST_LANGUAGE or not language.isprintable():
            raise InputError(f"{source}: {language[:40]!r} is no language; is text.language_column right?")
        yield Document(text, language or source.language, source.name)


def _format(source: Source) -> str:
    return split_suffix(source.path)[0] if source.path else ".txt"


Row = tuple[str, str]  # text, language


def _plain(source: Source, config: TextConfig) -> Iterator[Row]:
    pieces = decoded(source)
    if source.path is None:  # standard input may be jsonl as well
        first = next(pieces, "")
        pieces = chain([first], pieces)
        if re.match(r'\s*\{\s*"', first):
            for place, row in read_jsonl(source, _line_limit(config), pieces):
                yield _pick(row, config, place)
            return
    split = {"block": _blocks, "line": split_lines, "file": _whole}[config.documents]
    for record in records(pieces, split, config.max_chars):
        if record and not record.isspace():
            yield record, ""


def _blocks(text: str) -> list[str]:
    return BLANK_LINE.split(text)


def _whole(text: str) -> list[str]:
    return [text]


def _rows(source: Source, config: TextConfig) -> Iterator[Row]:
    def is_header(there: list[str]) -> bool:
        _check_columns(there, config, str(source))
        return True

    columns = [column for column in (config.column, config.language_column) if column]
    for place, row in read_table(source, _line_limit(config), is_header, columns):
        yield _pick(row, config, place)


def _pick(row: dict[str, Any], config: TextConfig, place: str) -> Row:
    """The text and language of a row; null counts as empty."""
    values = []
    for column in (config.column, config.language_column):
        if column is None:
            values.append("")
            continue
        if column not in row:
            _check_columns(list(row), config, place)
        value = row[column]
        if value is not None and not isinstance(value, str):
            raise InputError(f"{place}: {column} holds {str(value)[:40]}, not text")
        values.append(value or "")
    return values[0], values[1]


def _check_columns(there: list[str], config: TextConfig, place: str) -> None:
    for key, column in (("column", config.column), ("language_column", config.language_column)):
        if column and column not in there:
            close = difflib.get_close_matches(column, there, n=1) or there[:1] or ["NAME"]
            raise InputError(
                f"{place}: there is no column {column}, only {', '.join(there[:20])};"
                f" say which with --set text.{key}={close[0]}"
            )


def _line_limit(config: TextConfig) -> int:
    """How long a line of a jsonl or csv file may be: room for max_chars written as escapes, and more."""
    return min(12 * config.max_chars + (1 << 20), 2**31 - 1)
