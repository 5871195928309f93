"""Tables (.jsonl, .csv, .tsv, .parquet) -> rows, as a stream."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from unmask.errors import InputError
from unmask.progress import counted
from unmask.text.columns import listed
from unmask.text.sources import Source, split_suffix
from unmask.text.stream import CHUNK, numbered_lines, reading, seekable

Rows = Iterator[tuple[str, dict[str, Any]]]  # where the row stands, in words; its values


Choose = Callable[[list[str]], Sequence[str] | None]
"""From the names of all columns those to read; None: these are no names but the first row's values."""


_WITH_HEADER = (".csv", ".tsv", ".parquet")
_QUOTED = re.compile(r'"[^"]*(?:"|$)')
_REMEDIES = {
    ",": "put quotes round fields with commas",
    ";": "put quotes round fields with semicolons",
    "\t": "a tab in a field?",
}
_MISSING = "is one missing, or a line broken in two? Write the separator of an empty field too"
_NO_NAMES = ", or write the names above that row if it holds none"
LIMIT = 1 << 27
"""Characters of the longest line or cell, where no setting says another."""


def read_table(source: Source, limit: int, choose: Choose = list) -> Rows:
    """The rows of a table; those of parquet files have only the columns that are chosen.

    The columns of a file without names are called 1, 2, 3 …; lines of JSON may differ, and nothing is chosen.
    """
    form = split_suffix(source.path)[0] if source.path else ".jsonl"
    if form == ".jsonl":
        return read_jsonl(source, limit)
    if form == ".parquet":
        return _parquet(source, choose)
    return _csv(source, limit, form == ".tsv", choose)


def nothing_in(source: Source, what: str, table: bool = True) -> InputError:
    """The error for a source in which nothing was found; a table may have a header all the same."""
    names: list[str] = []
    if table and source.path and split_suffix(source.path)[0] in _WITH_HEADER:
        next(read_table(source, LIMIT, names.extend), None)
    if names:
        return InputError(f"{source} has a header ({listed(names)}) but no rows: write some below it")
    return InputError(f"{source} is empty: there is no {what} in it")


def read_jsonl(source: Source, limit: int, pieces: Iterable[str] | None = None) -> Rows:
    """One JSON object a line."""
    for number, line in numbered_lines(source, limit, pieces):
        if not line or line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "it cannot be read")
            raise InputError(f"{source}, line {number}: not JSON ({reason}): {line[:60]!r}") from None
        if not isinstance(row, dict):
            raise InputError(f"{source}, line {number}: write one JSON object a line, with a key per column")
        yield f"{source}, line {number}", row


def _csv(source: Source, limit: int, tabs: bool, choose: Choose) -> Rows:
    csv.field_size_limit(limit)
    lines: Iterator[str] = (line + "\n" for _, line in numbered_lines(source, limit))
    if tabs:  # a tab-separated file knows no quotes: a quotation mark in it is one
        delimiter = "\t"
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        delimiter, lines = _separator(lines)
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    named = True
    try:
        for fields in reader:
            if not fields:
                continue
            if header is None:
                named = choose(fields) is not None
                header = fields if named else [str(number + 1) for number in range(len(fields))]
                if named:
                    _check_names(f"{source}: its first row", header, _NO_NAMES)
                    continue
            if len(fields) != len(header) and (named or len(fields) < len(header)):
                many = counted(len(fields), "field")
                remedy = _MISSING if len(fields) < len(header) else _REMEDIES[delimiter]
                raise InputError(
                    f"{source}, line {reader.line_num}: {many}, {len(header)} in the header; {remedy}"
                )
            yield f"{source}, line {reader.line_num}", dict(zip(header, fields, strict=named))
    except csv.Error as error:
        raise InputError(
            f"{source}, line {reader.line_num}: {error} (a quotation mark that is not closed?)"
        ) from None


def _check_names(place: str, names: Sequence[str], otherwise: str = "") -> None:
    """Of two columns with one name one would be lost; without a name nobody can ask for them."""
    twice = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if twice is not None:
        raise InputError(
            f"{place} names two columns {twice!r} ({listed(names)}): rename one of them{otherwise}"
        )


def decimal_comma(source: Source) -> bool:
    """Whether numbers of a table may have a decimal comma: those of a .csv file with semicolons."""
    if not source.path or split_suffix(source.path)[0] != ".csv":
        return False
    return _separator(line for _, line in numbered_lines(source, LIMIT))[0] == ";"


def _separator(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """What stands between the fields, and all lines: a comma, unless the first line has only semicolons.

    So do spreadsheets write where the comma is the decimal sign.
    """
    seen: list[str] = []
    for line in lines:
        seen.append(line)
        if line.strip():
            break
    first = _QUOTED.sub("", seen[-1]) if seen else ""
    return ";" if ";" in first and "," not in first else ",", chain(seen, lines)


def _parquet(source: Source, choose: Choose) -> Rows:
    import pyarrow.parquet as pq

    with reading(source), seekable(source) as file:
        # A small buffer, so that a row group of any size is read in pieces.
        table = pq.ParquetFile(file, buffer_size=CHUNK, pre_buffer=False)
        columns = choose(table.schema_arrow.names)
        _check_names(str(source), table.schema_arrow.names)
        number = 0
        for batch in table.iter_batches(batch_size=1024, columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield f"{source}, row {number}", row
