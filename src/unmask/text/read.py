"""Raw files -> documents, as a stream: memory does not grow with the size of the file."""

import codecs
import csv
import difflib
import gzip
import io
import json
import lzma
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO, Any

from unmask.config import TextConfig
from unmask.errors import InputError
from unmask.text.document import Document
from unmask.text.sources import Source, find_sources, split_suffix

__all__ = ["Source", "find_sources", "read_documents"]

_CHUNK = 1 << 16  # small enough for the cache: twice as fast as a megabyte
_LONGEST_LANGUAGE = 40
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


def read_documents(source: Source, config: TextConfig) -> Iterator[Document]:
    """The documents of one source, as they stand in it.

    One longer than `max_chars` may be cut, but stays longer than that, so that cleaning drops and counts it.
    """
    rows = _plain(source, config) if _format(source) == ".txt" else _rows(source, config)
    found = False
    for text, language in rows:
        found = True
        if len(language) > _LONGEST_LANGUAGE or not language.isprintable():
            raise InputError(f"{source}: {language[:40]!r} is no language; is text.language_column right?")
        yield Document(text, language or source.language, source.name)
    if not found:
        raise InputError(f"{source} is empty: there is no document in it")


def _format(source: Source) -> str:
    return split_suffix(source.path)[0] if source.path else ".txt"


Row = tuple[str, str]  # text, language


def _plain(source: Source, config: TextConfig) -> Iterator[Row]:
    pieces = _text(source)
    if source.path is None:  # standard input may be jsonl as well
        first = next(pieces, "")
        pieces = chain([first], pieces)
        if re.match(r'\s*\{\s*"', first):
            yield from _jsonl(source, config, pieces)
            return
    split = {"block": _blocks, "line": _lines, "file": _whole}[config.documents]
    for record in _records(pieces, split, config.max_chars):
        if record and not record.isspace():
            yield record, ""


def _blocks(text: str) -> list[str]:
    return _BLANK_LINE.split(text)


def _whole(text: str) -> list[str]:
    return [text]


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _rows(source: Source, config: TextConfig) -> Iterator[Row]:
    form = _format(source)
    if form == ".jsonl":
        return _jsonl(source, config, _text(source))
    if form == ".parquet":
        return _parquet(source, config)
    return _csv(source, config, "\t" if form == ".tsv" else ",")


def _jsonl(source: Source, config: TextConfig, pieces: Iterable[str]) -> Iterator[Row]:
    for number, line in _numbered_lines(source, config, pieces):
        if not line or line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "it cannot be read")
            raise InputError(f"{source}, line {number}: not JSON ({reason}): {line[:60]!r}") from None
        if not isinstance(row, dict):
            raise InputError(
                f"{source}, line {number}: write one JSON object a line, with a key {config.column}"
            )
        yield _pick(row, config, f"{source}, line {number}")


def _csv(source: Source, config: TextConfig, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(_line_limit(config))
    lines = (line + "\n" for _, line in _numbered_lines(source, config, _text(source)))
    if delimiter == ",":
        reader = csv.reader(lines, strict=True)
    else:  # a tab-separated file knows no quotes: a quotation mark in it is one
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    header: list[str] | None = None
    try:
        for fields in reader:
            if not fields:
                continue
            if header is None:
                header = fields
                _check_columns(header, config, str(source))
            elif len(fields) != len(header):
                remedy = "put quotes round fields with commas" if delimiter == "," else "a tab in a field?"
                raise InputError(
                    f"{source}, line {reader.line_num}: {len(fields)} fields, {len(header)} in the header;"
                    f" {remedy}"
                )
            else:
                yield _pick(dict(zip(header, fields, strict=True)), config, str(source))
    except csv.Error as error:
        raise InputError(
            f"{source}, line {reader.line_num}: {error} (a quotation mark that is not closed?)"
        ) from None


def _parquet(source: Source, config: TextConfig) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _reading(source), _seekable(source) as file:
        # A small buffer, so that a row group of any size is read in pieces.
        table = pq.ParquetFile(file, buffer_size=_CHUNK, pre_buffer=False)
        _check_columns(table.schema_arrow.names, config, str(source))
        columns = [column for column in (config.column, config.language_column) if column]
        for batch in table.iter_batches(batch_size=1024, columns=columns):
            values = [batch.column(name) for name in columns]
            for name, value in zip(columns, values, strict=True):
                kind = value.type.value_type if pa.types.is_dictionary(value.type) else value.type
                if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
                    raise InputError(f"{source}: the column {name} holds {kind}, not text")
            for row in zip(*(value.to_pylist() for value in values), strict=True):
                yield row[0] or "", (row[1] or "") if len(row) > 1 else ""


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
            raise InputError(f"{place}: {column} holds {json.dumps(value)[:40]}, not text")
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


def _numbered_lines(source: Source, config: TextConfig, pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    limit = _line_limit(config)
    for number, line in enumerate(_records(pieces, _lines, limit), 1):
        if len(line) > limit:
            raise InputError(
                f"{source}, line {number}: longer than {limit:,} characters; write one record a line"
                " or raise text.max_chars"
            )
        yield number, line


def _records(pieces: Iterable[str], split: Callable[[str], list[str]], limit: int) -> Iterator[str]:
    """Split a stream at separators made of white space; of a record beyond the limit the rest is let go."""
    held: list[str] = []
    size = 0
    space = ""
    for piece in pieces:
        piece = space + piece
        text = piece.rstrip()
        space = piece[len(text) :]  # may be the beginning of a separator
        if len(space) > _CHUNK:
            space = _shorten(space)
        first, *rest = split(text)
        if size <= limit:
            held.append(first)
            size += len(first)
        if rest:
            yield "".join(held)
            *whole, last = rest
            yield from whole
            held, size = [last], len(last)
    yield from split("".join(held) + space)


def _shorten(space: str) -> str:
    if _BLANK_LINE.search(space):
        return "\n\n"
    return "\n" if "\n" in space else " "


def _text(source: Source) -> Iterator[str]:
    """Decode UTF-8 in large pieces, every kind of line end as a newline."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    position = 0
    for chunk in chain(_chunks(source), [b""]):
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            raise _not_utf8(source, position - pending + error.start, error) from None
        if position == 0:
            text = text.removeprefix("\ufeff")
        position += len(chunk)
        yield newlines.decode(text, final=not chunk)


def _not_utf8(source: Source, position: int, error: UnicodeDecodeError) -> InputError:
    utf16 = position == 0 and error.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if utf16 else "latin1"
    unpacked = " of what it unpacks to" if source.path and split_suffix(source.path)[1] else ""
    wrong = error.object[error.start]
    return InputError(
        f"{source} is not UTF-8: byte {position}{unpacked}, counted from 0, is {wrong:#04x};"
        f" convert it, for example with: iconv -f {encoding} -t utf-8 FILE > NEW"
    )


def _chunks(source: Source) -> Iterator[bytes]:
    with _reading(source), _open(source) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


@contextmanager
def _open(source: Source) -> Iterator[IO[bytes]]:
    if source.path is None:
        if sys.stdin is None:
            raise InputError("standard input is closed: pipe some text in, or name files")
        yield sys.stdin.buffer
        return
    compression = split_suffix(source.path)[1]
    if compression == ".zst":
        import pyarrow as pa  # the one zstd reader at hand that notices a cut-off file

        with pa.input_stream(str(source.path), compression="zstd") as file:
            yield file
        return
    opener: Any = {".gz": gzip.open, ".xz": lzma.open, "": open}[compression]
    with opener(source.path, "rb") as file:
        yield file


@contextmanager
def _seekable(source: Source) -> Iterator[IO[bytes]]:
    with _open(source) as file:
        if source.path and split_suffix(source.path)[1]:
            with tempfile.TemporaryFile() as unpacked:
                shutil.copyfileobj(file, unpacked, _CHUNK)
                unpacked.seek(0)
                yield unpacked
        else:
            yield file


@contextmanager
def _reading(source: Source) -> Iterator[None]:
    """Turn whatever reading may raise into one clear line."""
    try:
        yield
    except PermissionError:
        raise InputError(f"not allowed to read {source}: check its permissions") from None
    except FileNotFoundError:
        raise InputError(f"{source} is not there any more") from None
    except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        # pyarrow's errors are OSError and ValueError.
        raise InputError(f"{source} is damaged or cut off: {str(error).splitlines()[0]}") from error
