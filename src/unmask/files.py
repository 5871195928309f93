"""Writing so that a reader sees the old file or the whole new one, never a part; and fingerprints."""

import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unmask.errors import OutputError

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


_ERRNO = re.compile(r"os error (\d+)")
_AGAIN = "free some and run the same command again"


@contextmanager
def disk_errors(target: Path, full: str = _AGAIN) -> Iterator[None]:
    """Turn the operating system's refusals to write into one clear line; `full`: what to do without room."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise OutputError(f"no space left while writing {target}: {full}") from error
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise OutputError(f"not allowed to write {target}: check the folder's permissions") from error
        if error.errno in {errno.ENOTDIR, errno.EEXIST}:
            raise OutputError(
                f"cannot write {target}: a file is where a folder is wanted; name another"
            ) from error
        raise OutputError(f"cannot write {target}: {error.strerror or error}") from error


def check_new(path: Path) -> None:
    """Refuse a file that is there: it is somebody's work."""
    if path.exists():
        raise OutputError(f"{path} is there already: name another file, or remove it")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary name to write to; flushed to disk and renamed to `path` if the block succeeds."""
    # Not the process's number: machines that share a disk may have the same.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with disk_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            flush(temporary)
            temporary.replace(path)
            flush(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def safetensors_errors(path: Path) -> Iterator[None]:
    """Around what writes a safetensors file, to mend two habits of that library.

    It makes files that nobody else can read, and tells of a full disk with the number in the text alone.
    """
    path.touch()
    mode = path.stat().st_mode
    try:
        yield
    except Exception as error:
        if number := _ERRNO.search(str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
        raise
    path.chmod(mode)


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a whole file or none of it; what is no character, as in some names of files, as an escape."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Write JSON that people can read, whole or not at all."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def digest(*parts: bytes | str) -> str:
    """A short fingerprint of some content."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def file_digest(path: Path) -> str:
    """The fingerprint of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def flush(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
