"""The texts of one file, each a line of .txt or a row of a table, and where they stand; without torch."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from unmask.errors import InputError
from unmask.progress import Progress
from unmask.text.columns import TEXT, no_column, parts_of, taken, text_column, text_in
from unmask.text.sources import Source, find_sources, split_suffix
from unmask.text.stream import HALF, HALF_SAID, decoded
from unmask.text.tables import read_table

Placed = tuple[str, str]
"""Where a text stands, in words; the text."""
_LONGEST = 1 << 24  # characters of a line
_REMEDY = "say which with --column NAME"


def one_source(file: str, out: Path | None = None) -> Source:
    """The file meant; it can be read again, so that interrupted work goes on."""
    is_text = out is not None and split_suffix(out)[0]
    sources = find_sources([file], out if is_text else None)
    if len(sources) > 1:
        raise InputError(f"{file} means {len(sources)} files: name one")
    if sources[0].path is None:
        raise InputError("standard input cannot be read again after an interruption: name a file")
    return sources[0]


def placed_texts(source: Source, column: str = "text") -> Iterator[Placed]:
    """One text for every line or row, also for an empty one, so that the n-th vector is that of the n-th."""
    if source.path and split_suffix(source.path)[0] == ".txt":
        yield from _lines(source)
        return
    for place, row in read_table(source, _LONGEST, lambda there: parts_of(column, there)):
        yield place, _text(row, column, place)


def chosen_column(source: Source, column: str, progress: Progress) -> str:
    """The column that holds the texts, by the file's header or first row; told if it is not the one named."""
    if source.path and split_suffix(source.path)[0] == ".txt":
        if column != TEXT[0]:
            raise InputError(f"{source} is plain text, every line is one: leave --column {column} out")
        return column
    names: list[str] = []

    def look(there: list[str]) -> list[str]:
        names.extend(there)
        return []

    first = next(read_table(source, _LONGEST, look), None)
    there = names or (list(first[1]) if first else [column])
    found = text_column(there, column, str(source), _REMEDY)
    if found != column:
        progress.say(taken(str(source), found))
    return found


def _lines(source: Source) -> Iterator[Placed]:
    """Every line to the last space; what follows the last newline is one only if it holds something."""
    for number, line in enumerate(_split(decoded(source)), 1):
        place = f"{source}, line {number}"
        if len(line) > _LONGEST:
            raise InputError(f"{place}: longer than {_LONGEST:,} characters; write one text a line")
        yield place, line


def _split(pieces: Iterable[str]) -> Iterator[str]:
    held = ""
    for piece in pieces:
        *whole, held = (held + piece).split("\n")
        yield from whole
        if len(held) > _LONGEST:
            break
    if held:
        yield held


def _text(row: dict[str, Any], column: str, place: str) -> str:
    for name in parts_of(column, row):  # lines of JSON may differ; no other key is taken for one of them
        if name not in row:
            raise no_column(list(row), name, place, _REMEDY)
    text = text_in(row, column, place)
    if HALF.search(text):
        raise InputError(f"{place}: {column} {HALF_SAID}")
    return text
