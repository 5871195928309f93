"""Tables (.jsonl, .csv, .tsv, .parquet) -> rows, as a stream."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from unmask.errors import InputError
from unmask.text.sources import Source, split_suffix
from unmask.text.stream import CHUNK, numbered_lines, reading, seekable

Rows = Iterator[tuple[str, dict[str, Any]]]  # where the row stands, in words; its values


Choose = Callable[[list[str]], Sequence[str] | None]
"""From the names of all columns those to read; None: these are no names but the first row's values."""


def read_table(source: Source, limit: int, choose: Choose = list) -> Rows:
    """The rows of a table; those of parquet files have only the columns that are chosen.

    The columns of a file without names are called 1, 2, 3 …; lines of JSON may differ, and nothing is chosen.
    """
    form = split_suffix(source.path)[0] if source.path else ".jsonl"
    if form == ".jsonl":
        return read_jsonl(source, limit)
    if form == ".parquet":
        return _parquet(source, choose)
    return _csv(source, limit, "\t" if form == ".tsv" else ",", choose)


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


def _csv(source: Source, limit: int, delimiter: str, choose: Choose) -> Rows:
    csv.field_size_limit(limit)
    lines = (line + "\n" for _, line in numbered_lines(source, limit))
    if delimiter == ",":
        reader = csv.reader(lines, strict=True)
    else:  # a tab-separated file knows no quotes: a quotation mark in it is one
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
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
                    continue
            if len(fields) != len(header) and (named or len(fields) < len(header)):
                remedy = "put quotes round fields with commas" if delimiter == "," else "a tab in a field?"
                raise InputError(
                    f"{source}, line {reader.line_num}: {len(fields)} fields, {len(header)} in the header;"
                    f" {remedy}"
                )
            yield f"{source}, line {reader.line_num}", dict(zip(header, fields, strict=named))
    except csv.Error as error:
        raise InputError(
            f"{source}, line {reader.line_num}: {error} (a quotation mark that is not closed?)"
        ) from None


def _parquet(source: Source, choose: Choose) -> Rows:
    import pyarrow.parquet as pq

    with reading(source), seekable(source) as file:
        # A small buffer, so that a row group of any size is read in pieces.
        table = pq.ParquetFile(file, buffer_size=CHUNK, pre_buffer=False)
        columns = choose(table.schema_arrow.names)
        number = 0
        for batch in table.iter_batches(batch_size=1024, columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield f"{source}, row {number}", row
