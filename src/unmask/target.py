"""The folder that a model is written to: whether it is free, and a new one put in its place whole.

Loads nothing heavy: a folder that is taken is told at once. Meanwhile there are, for a folder NAME:

.NAME.unmask-1a2b3c4d   what is being written, beside NAME or in it; unlocked, it was left by a killed process
.NAME.unmask-old        the model that is being replaced, beside NAME
.NAME.unmask-new        a whole model whose files are on their way up, in NAME
"""

import errno
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from unmask.errors import OutputError
from unmask.files import disk_errors

CONFIG = "config.json"
"""Where it is, there is a model."""
WEIGHTS = ("model*.safetensors", "pytorch_model*.bin", "*.onnx")
BUNDLED = Path(__file__).parent / "models"
"""Models that come with the package, each in a folder of its name."""
_MODULES = "modules.json"
_TRIES = 100  # to have a folder that others make and remove
_PARTS = (
    CONFIG,
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "model.safetensors",
    "model-*-of-*.safetensors",
    "model.safetensors.index.json",
    "unmask_heads.safetensors",
    "pytorch_model.bin",
    "pytorch_model-*-of-*.bin",
    "pytorch_model.bin.index.json",
    "training_args.bin",
    "model.onnx",
    "model_*.onnx",
    "model*.onnx[._]data",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "sentencepiece*.model",
    "spiece.model",
    "spm.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "extension.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    _MODULES,
    "sentence_*_config.json",
    "config_sentence_transformers.json",
    "README.md",
    "metrics.jsonl",
    "report.html",
    ".gitattributes",
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
)
"""The files of model folders, ours and others', and what file managers leave in any."""


def bundled() -> dict[str, Path]:
    """The models that come with the package: name -> folder."""
    return {path.parent.name: path.parent for path in sorted(BUNDLED.glob(f"*/{CONFIG}"))}


def is_bundled(folder: Path) -> bool:
    """Whether a folder belongs to the package, and is not to be written to."""
    return _place(folder).is_relative_to(BUNDLED.resolve())


def check_place(folder: Path) -> None:
    """Refuse a folder that may not be written, or would, begun here, spoil a model or hide one of ours."""
    with disk_errors(folder):
        if not folder.exists():  # what was begun goes on
            _check_place(folder)
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        if not os.access(nearest, os.W_OK):  # told before hours of work, not at their end
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _check_place(folder: Path) -> None:
    if str(folder) in bundled():
        raise OutputError(
            f"a folder {folder} would hide the model of that name that comes with unmask:"
            f" name another, for example my-{folder}"
        )
    if is_bundled(folder):
        raise OutputError(f"{folder} is where unmask keeps the models it comes with: name another folder")
    for above in _place(folder).parents:
        # others too call their settings so
        if (above / CONFIG).is_file() and any(next(above.glob(name), None) for name in WEIGHTS):
            raise OutputError(
                f"{folder} is inside the model {above}, which could not be replaced any more:"
                " name a folder outside it"
            )


def check_page(folder: Path, name: str) -> None:
    """Refuse a folder for a page and its figures that is a model's, or holds such a file of somebody else."""
    check_place(folder)
    if (folder / CONFIG).is_file():
        raise OutputError(f"{folder} holds a model: name another folder for the results")
    found = [path for form in ("html", "json") if (path := folder / f"{name}.{form}").exists()]
    if len(found) == 1:  # we write both
        raise OutputError(f"{found[0]} is there already: name another folder, or move it away")


def check_target(folder: Path, overwrite: bool = False, sources: Iterable[object] = ()) -> None:
    """Refuse, before any work, a folder that cannot be written or holds what would be lost.

    That is a model, unless it may be replaced, and whatever else: `sources`, the files to read, among it.
    """
    with disk_errors(folder):  # it may be one that nobody here may look into
        place = _place(folder)
        _check_place(folder)
        for source in sources:
            if isinstance(source, Path | str):  # others are examples at hand
                _check_source(folder, place, Path(source))
        _put_right(place)
        _check_held(folder, overwrite)
        with _unfinished(place):
            pass  # it can be made


def check_room(folder: Path, size: int) -> None:
    """Refuse a disk without room for so many bytes, before hours of work."""
    with disk_errors(folder):
        place = _place(folder)
        free = shutil.disk_usage(next(path for path in (place, *place.parents) if path.exists())).free
    if free < size:
        raise OutputError(
            f"{folder} will take about {size / 1e6:,.0f} MB, its disk has {free / 1e6:,.0f} MB left:"
            " free some, or name a folder on another disk"
        )


@contextmanager
def whole_folder(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """A folder to build a model in, which is put in its place if the block succeeds.

    Where the place cannot be had any more, what was made stays under another name, and is told.
    """
    with disk_errors(folder):
        place = _place(folder)  # the folder itself and not a link to it is replaced
        _put_right(place)
        with _unfinished(place) as unfinished:
            yield unfinished
            with _alone(unfinished.parent):
                try:
                    with disk_errors(folder):
                        _check_held(folder, overwrite)  # others may have been faster
                        _put(unfinished, place)
                except OutputError as error:
                    kept = unfinished.with_name(f"{place.name}-{secrets.token_hex(4)}")
                    if unfinished.is_dir():
                        unfinished.rename(kept)
                    else:  # some of its files are in their place
                        kept = _new(place)
                    raise OutputError(f"{error}; the new model is in {kept}") from error


def copy_model(source: Path, folder: Path) -> None:
    """Put a copy of a model's files into the place of a folder, whole or not at all."""
    with whole_folder(folder, overwrite=True) as unfinished:
        for path in _held(source):
            if path.is_file() and _is_part(path):
                shutil.copy(path, unfinished)


def _check_source(folder: Path, place: Path, source: Path) -> None:
    if _place(source).is_relative_to(place) and source.exists():
        raise OutputError(f"{folder} holds what is to be read ({source}): name another folder to write to")


def _check_held(folder: Path, overwrite: bool) -> None:
    """Refuse a folder for what it holds."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; name a folder to write the model to")
    held = _held(folder)
    if held and not any(path.name == CONFIG for path in held):
        raise OutputError(f"{folder} holds other files and no model; choose another folder")
    if strangers := [path.name for path in held if not _is_part(path)]:
        raise OutputError(
            f"{folder} holds {strangers[0]}, which is no part of a model and would be lost; "
            "move it away, or choose another folder"
        )
    if held and not overwrite:
        raise OutputError(
            f"{folder} holds a model already: add --overwrite to replace it, or name another folder"
        )
    mount = folder.resolve().is_mount()  # of "." it would be said always
    if held and (mount or folder.samefile(".")):
        kind = "a mount" if mount else "the folder you are in"
        raise OutputError(
            f"{folder} holds a model and is {kind}, which cannot be replaced: empty it, or name another one"
        )


def _held(folder: Path) -> list[Path]:
    """What lies in a folder, but for what is being written there."""
    if not folder.is_dir():
        return []
    mark = _mark(folder.resolve())
    return sorted(path for path in folder.iterdir() if not path.name.startswith(mark))


def _is_part(path: Path) -> bool:
    """Whether a path is of a model: a file known by its name, or a module of sentence-transformers."""
    if not path.is_dir():
        return any(fnmatch(path.name, part) for part in _PARTS)
    inner = list(path.iterdir())
    if not inner:
        return path.name[0].isdecimal() and path.name.lstrip("0123456789").startswith("_")
    return path.name in _modules(path.parent) and all(file.is_file() and _is_part(file) for file in inner)


def _modules(folder: Path) -> set[str]:
    """The folders that a folder of sentence-transformers names as its modules."""
    try:
        listed = json.loads((folder / _MODULES).read_text("utf-8"))
        return {str(module["path"]) for module in listed}
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return set()  # nothing that can be trusted


def _place(path: Path) -> Path:
    """Where a path leads to."""
    try:
        return path.resolve()
    except RuntimeError:
        raise OutputError(f"{path} is a link that leads to itself: choose another folder") from None


def _mark(folder: Path) -> str:
    """How the names of what is here for a moment begin; nobody would choose them."""
    return f".{folder.name}.unmask-"


def _old(folder: Path) -> Path:
    return folder.parent / f"{_mark(folder)}old"


def _new(folder: Path) -> Path:
    return folder / f"{_mark(folder)}new"


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A new folder to build in, which goes unless it was moved.

    It is in a folder that is there and empty, for that may be a mount or the one we are in; else beside it.
    """
    room = folder if folder.is_dir() and not _held(folder) else folder.parent
    unfinished = room / f"{_mark(folder)}{secrets.token_hex(4)}"
    missing = [path for path in (room, *room.parents) if not path.exists()]
    try:
        with ExitStack() as locked:
            for left in reversed(range(_TRIES)):
                try:
                    room.mkdir(parents=True, exist_ok=True)
                    with _alone(room):  # nobody takes it for one that was left, before it is locked
                        _clear(room, folder)
                        unfinished.mkdir()
                        locked.enter_context(_alone(unfinished))
                    break
                except FileNotFoundError:  # one that only looked removed the room that it had made
                    if not left:
                        raise
            yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        for path in missing:
            with suppress(OSError):  # it is in use
                path.rmdir()


def _put(unfinished: Path, folder: Path) -> None:
    """Move a whole folder into its place."""
    if unfinished.parent == folder:
        unfinished.rename(_new(folder))
        _move_up(_new(folder))
        return
    old = _old(folder)
    try:
        if folder.exists():
            folder.rename(old)
        unfinished.rename(folder)
    finally:
        if old.is_dir() and not folder.exists():
            old.rename(folder)
    _discard(old, folder)


def _move_up(new: Path) -> None:
    """Move files to the folder above, the config last: without it there is no model."""
    if new.is_dir():
        for path in sorted(new.iterdir(), key=lambda path: path.name == CONFIG):
            path.rename(new.parent / path.name)
        new.rmdir()


def _put_right(folder: Path) -> None:
    """End what a killed process left half done: the old model comes back, or the new one is moved up."""
    if _old(folder).is_dir():
        with _alone(folder.parent):  # it may be alive
            if _old(folder).is_dir() and _is_free(folder):
                _old(folder).rename(folder)
    if _new(folder).is_dir():
        with _alone(folder):
            _move_up(_new(folder))


def _is_free(folder: Path) -> bool:
    """Whether a folder can be renamed to this: nothing is there, or an empty one that somebody made."""
    return not any(folder.iterdir()) if folder.is_dir() else not folder.exists()


def _clear(room: Path, folder: Path) -> None:
    """Remove what killed processes left."""
    if (folder / CONFIG).is_file():  # the new one is whole
        _discard(_old(folder), folder)
    with suppress(PermissionError):  # a place where one may write and not look
        for path in room.iterdir():
            if path.name.startswith(_mark(folder)) and path not in (_old(folder), _new(folder)):
                _remove_left(path)


def _discard(old: Path, folder: Path) -> None:
    """Remove what was replaced, under another name: a file in it that stays keeps nobody from the name."""
    if old.is_dir():
        gone = old.with_name(f"{_mark(folder)}{secrets.token_hex(4)}")
        old.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _remove_left(path: Path) -> None:
    """Remove a folder that nobody has locked; where locks cannot be had, it stays."""
    with suppress(OSError), _handle(path) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for others who hold this folder, and hold it; the lock ends with the process."""
    with ExitStack() as stack:
        with suppress(OSError):  # a disk that knows no locks, or a folder that one may not look into
            fcntl.flock(stack.enter_context(_handle(folder)), fcntl.LOCK_EX)
        yield


@contextmanager
def _handle(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)
