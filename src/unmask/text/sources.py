"""Which files are meant: files, folders, globs, standard input, each perhaps with a language."""

import difflib
import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from unmask.errors import InputError, OutputError

FORMATS = (".txt", ".jsonl", ".csv", ".tsv", ".parquet")
COMPRESSIONS = (".gz", ".xz", ".zst")

_PACKED = {".gz": 3.0, ".xz": 4.5, ".zst": 3.5, ".parquet": 2.0}  # text per byte on disk
_LANGUAGE = re.compile(r"([A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*)=(.+)", re.DOTALL)
_SAID = "before = stands a language code of two or three letters, such as en or pt-BR"
_READABLE = f"unmask reads {' '.join(FORMATS)}, each also with {' '.join(COMPRESSIONS)}"


class State(NamedTuple):
    """What differs after a file was changed."""

    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read (`path` None is standard input); `name` does not depend on where the file lies."""

    path: Path | None
    name: str
    language: str = ""

    def __str__(self) -> str:
        return _writable(self.path) if self.path else "standard input"

    @property
    def expected_chars(self) -> float:
        """About how much text is in it, for the time left; 0 when nothing is known."""
        state = self.state()
        return state.size * _PACKED.get(self.path.suffix, 1.0) if self.path and state else 0.0

    def state(self) -> State | None:
        """How the file is at this moment; None for standard input."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except FileNotFoundError:
            raise InputError(f"{self} is not there any more") from None
        except OSError as error:
            raise InputError(f"cannot look at {self}: {error.strerror}") from None
        return State(found.st_size, found.st_mtime_ns)


def find_sources(arguments: Sequence[str], out: Path | None = None) -> list[Source]:
    """Expand files, folders, globs, `-` and `pt=PATH` in the order given; folders and globs are sorted.

    A file that is meant twice is there once. `out`, where the result will be, must not lie where it would be
    found as text the next time.
    """
    found: dict[str, Source] = {}
    for argument in arguments:
        try:
            if out:
                _check_outside(out, argument)
            sources = list(_expand(argument))
        except OSError as error:
            raise InputError(f"cannot look at {error.filename or argument}: {error.strerror}") from None
        for source in sources:
            place = os.path.realpath(source.path) if source.path else "-"
            before = found.setdefault(place, source)
            if before.language != source.language:
                raise InputError(
                    f"{source} is given twice, as {before.language or 'no language'}"
                    f" and as {source.language or 'no language'}: give it once"
                )
    if not found:
        raise InputError("no text given: name files, folders, globs, or - for standard input")
    return list(found.values())


def split_suffix(path: Path) -> tuple[str, str]:
    """The format and the compression that a file's name says, each "" where it says none."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSIONS else ""
    form = suffixes[-1] if suffixes and suffixes[-1] in FORMATS else ""
    return form, compression


def _split_language(argument: str) -> tuple[str, str]:
    if (match := _LANGUAGE.fullmatch(argument)) and not os.path.lexists(argument):
        return match[1], match[2]
    return "", argument


def _check_outside(out: Path, argument: str) -> None:
    path = Path(_split_language(argument)[1])
    if path.is_dir():
        base = path
    elif glob.has_magic(str(path)) and not path.exists():
        base = _glob_base(path)
    else:
        return
    place, folder = Path(os.path.realpath(out)), Path(os.path.realpath(base))
    if not place.is_relative_to(folder):
        return
    inside = place.relative_to(folder).parts
    is_file = bool(split_suffix(place)[0])
    if not _hidden(inside) and _finds(path.relative_to(base).parts, inside, is_file):
        raise OutputError(
            f"{out} is inside {path}, and would be read as text from then on: write to a place outside it"
        )


def _finds(pattern: Sequence[str], parts: Sequence[str], is_file: bool) -> bool:
    """Whether a glob may find a path, or what lies above or below it."""
    if not pattern:
        return True  # a folder that is found is read whole
    if not parts:
        return not is_file
    if pattern[0] == "**":
        return _finds(pattern[1:], parts, is_file) or _finds(pattern, parts[1:], is_file)
    return fnmatchcase(parts[0], pattern[0]) and _finds(pattern[1:], parts[1:], is_file)


def _expand(argument: str) -> Iterator[Source]:
    language, argument = _split_language(argument)
    if argument == "-":
        yield Source(None, "-", language)
        return
    path = Path(argument)
    if path.is_dir():
        found = [(inner, inner.relative_to(path).as_posix()) for inner in _walk(path)]
    elif os.path.lexists(path):
        if not split_suffix(path)[0]:
            raise InputError(f"{path}: unknown kind of file; {_READABLE}")
        found = [(path, path.name)]
    elif glob.has_magic(argument):
        base = _glob_base(path)
        matches = list(base.glob(path.relative_to(base).as_posix()))
        files = {inner for match in matches for inner in (_walk(match) if match.is_dir() else [match])}
        relative = ((inner, inner.relative_to(base)) for inner in files)
        found = [(inner, inside.as_posix()) for inner, inside in relative if _wanted(inside)]
    else:
        raise InputError(f"there is no {path}{_suggest(path)}")
    if not found:
        meant = "" if path.is_dir() else _no_language(path)
        raise InputError(f"nothing to read in {argument}: {meant or _READABLE}")
    for inner, name in sorted(found, key=lambda pair: Path(pair[1]).parts):
        _check_readable(inner)
        yield Source(inner, _writable(name), language)


def _writable(path: Path | str) -> str:
    """A path that can be shown and stored, also where its bytes are no characters."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _check_readable(path: Path) -> None:
    if not path.exists():
        raise InputError(f"{path} leads to no file: mend the link, or remove it")
    if not path.is_file():  # it could be read only once, or would be waited for without end
        raise InputError(f"{path} is a pipe or a device, no file: pipe its text in, and name - in its place")
    if not os.access(path, os.R_OK):
        raise InputError(f"not allowed to read {path}: check its permissions")


def _walk(folder: Path) -> Iterator[Path]:
    """The files below a folder to read; links to folders are not followed, for they may lead in circles."""
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if _wanted(Path(name)):
                yield Path(parent, name)


def _refuse(error: OSError) -> None:
    raise error  # a folder that cannot be read is not passed over in silence


def _wanted(path: Path) -> bool:
    return not _hidden(path.parts) and bool(split_suffix(path)[0])


def _hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(".") for part in parts)


def _glob_base(pattern: Path) -> Path:
    """The folder above the first part with a wildcard."""
    return Path(*takewhile(lambda part: not glob.has_magic(part), pattern.parts))


def _no_language(path: Path) -> str:
    """What may have been meant by `news=PATH`, of a path that is not there."""
    before, sign, _ = path.parts[0].partition("=")
    return _SAID if before and sign and not Path(path.parts[0]).is_dir() else ""


def _suggest(path: Path) -> str:
    if said := _no_language(path):
        return f"; {said}"
    if not path.parent.is_dir():
        return f" (nor a folder {path.parent})"
    close = difflib.get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1)
    return f"; did you mean {path.parent / close[0]}?" if close else ""
