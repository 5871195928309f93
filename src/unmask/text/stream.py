"""Bytes of a file -> decoded text -> records, as a stream; whatever goes wrong is one clear line."""

import codecs
import gzip
import io
import lzma
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import IO, cast

from unmask.errors import InputError, OutputError
from unmask.files import NO_SPACE
from unmask.text.sources import Source, split_suffix

CHUNK = 1 << 16  # small enough for the cache: twice as fast as a megabyte
HALF = re.compile("[\ud800-\udfff]")
HALF_SAID = r"holds half a character: an escape such as \ud83d alone, or bytes that are not UTF-8"
"""Of a text in which HALF is found: no vocabulary can write it."""
BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


def numbered_lines(
    source: Source, limit: int, pieces: Iterable[str] | None = None
) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1; one longer than `limit` characters is an error."""
    pieces = decoded(source) if pieces is None else pieces
    for number, line in enumerate(records(pieces, split_lines, limit), 1):
        if len(line) > limit:
            raise InputError(
                f"{source}, line {number}: longer than {limit:,} characters; write one record a line"
                " or raise text.max_chars"
            )
        yield number, line


def split_lines(text: str) -> list[str]:
    """At every newline."""
    return text.split("\n")


def records(pieces: Iterable[str], split: Callable[[str], list[str]], limit: int) -> Iterator[str]:
    """Split a stream at separators made of white space; of a record beyond the limit the rest is let go."""
    held: list[str] = []
    size = 0
    space = ""
    for piece in pieces:
        piece = space + piece
        text = piece.rstrip()
        space = piece[len(text) :]  # may be the beginning of a separator
        if len(space) > CHUNK:
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
    if BLANK_LINE.search(space):
        return "\n\n"
    return "\n" if "\n" in space else " "


def decoded(source: Source) -> Iterator[str]:
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
    marked = position == 0 and error.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    wide = error.object.count(0) > len(error.object) // 4
    # Windows' has what Latin 1 has, and its signs.
    encoding = "utf-16" if marked else "utf-16le (or utf-16be)" if wide else "WINDOWS-1252"
    unpacked = " of what it unpacks to" if source.path and split_suffix(source.path)[1] else ""
    wrong = error.object[error.start]
    return InputError(
        f"{source} is not UTF-8: byte {position}{unpacked}, counted from 0, is {wrong:#04x};"
        f" convert it, for example with: iconv -f {encoding} -t utf-8 FILE > NEW"
    )


def _chunks(source: Source) -> Iterator[bytes]:
    with reading(source), _open(source) as file:
        while chunk := file.read(CHUNK):
            yield chunk


@contextmanager
def _open(source: Source) -> Iterator[IO[bytes]]:
    if source.path is None:
        if sys.stdin is None:
            raise InputError("standard input is closed: pipe some text in, or name files")
        yield sys.stdin.buffer
        return
    with source.path.open("rb") as file:
        compression = split_suffix(source.path)[1]
        if compression == ".gz":
            with gzip.open(file) as unpacked:
                yield cast(IO[bytes], unpacked)
        elif compression == ".zst":
            import pyarrow as pa  # the one zstd reader at hand that notices a cut-off file

            with pa.input_stream(file, compression="zstd") as unpacked:
                yield unpacked
        else:
            yield cast(IO[bytes], _Xz(file)) if compression else file


class _Xz:
    """What the streams of an .xz file unpack to; `lzma.open` drops all from the first that is damaged on."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._stream = file, lzma.LZMADecompressor()

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        while True:
            packed = b""
            if self._stream.eof:
                packed = self._stream.unused_data.lstrip(b"\0")  # zeros may stand between two streams
                while not packed:
                    if not (more := self._file.read(CHUNK)):
                        return b""
                    packed = more.lstrip(b"\0")
                self._stream = lzma.LZMADecompressor()
            elif self._stream.needs_input and not (packed := self._file.read(CHUNK)):
                raise EOFError("it ends in the middle of a stream")
            if data := self._stream.decompress(packed, size):
                return data


@contextmanager
def seekable(source: Source) -> Iterator[IO[bytes]]:
    with _open(source) as file:
        if source.path and split_suffix(source.path)[1]:
            with tempfile.TemporaryFile() as unpacked:
                shutil.copyfileobj(file, unpacked, CHUNK)
                unpacked.seek(0)
                yield unpacked
        else:
            yield file


@contextmanager
def reading(source: Source) -> Iterator[None]:
    """Turn whatever reading may raise into one clear line."""
    try:
        yield
    except PermissionError:
        raise InputError(f"not allowed to read {source}: check its permissions") from None
    except FileNotFoundError:
        raise InputError(f"{source} is not there any more") from None
    except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        # pyarrow's errors are OSError and ValueError.
        if getattr(error, "errno", None) in NO_SPACE:
            raise OutputError(
                f"no space left in {tempfile.gettempdir()} to unpack {source}: free some, or set TMPDIR"
            ) from error
        raise InputError(f"{source} is damaged or cut off: {str(error).splitlines()[0]}") from error
