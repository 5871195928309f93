"""Checkpoints: everything a training needs to go on as if it had never stopped.

    checkpoints/00000100/
      weights.safetensors     optimiser.safetensors     average.safetensors (empty before the end)
      state.json              counters, recipe, versions; size and digest of each file, and its own

A checkpoint is written aside under a name that begins with a dot, flushed to disk and renamed: what has a
plain name is whole, unless the disk damaged it later, which the digests tell. No random state is kept: what
is drawn in a step follows from the seed and the step's number.
"""

import json
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from unmask.errors import ModelError
from unmask.files import digest, disk_errors, file_digest, flush, write_json

FORMAT = 1
STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of a training."""

    step: int
    facts: dict[str, Any]
    """What JSON can hold: counters, recipe, versions."""
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    average: dict[str, Tensor] = field(default_factory=dict)


class Saver:
    """Writes snapshots while the training goes on; keeps the last few."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder, self._keep = folder, keep
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[None] | None = None

    def save(self, snapshot: Snapshot) -> None:
        """Copy a snapshot and begin to write it; an error of the one before is raised here."""
        self.wait()
        copied = Snapshot(
            snapshot.step,
            snapshot.facts,
            _copied(snapshot.weights),
            _copied(snapshot.optimiser),
            _copied(snapshot.average),
        )
        self._pending = self._thread.submit(self._write, copied)

    def wait(self) -> None:
        """Until the last snapshot is on the disk."""
        pending, self._pending = self._pending, None
        if pending:
            pending.result()

    def _write(self, snapshot: Snapshot) -> None:
        write_checkpoint(self._folder, snapshot)
        sweep(self._folder, self._keep)


def write_checkpoint(folder: Path, snapshot: Snapshot) -> Path:
    """Write a snapshot as a checkpoint, whole or not at all."""
    target = folder / f"{snapshot.step:08d}"
    unfinished = folder / f".{target.name}.{os.getpid()}.tmp"
    with disk_errors(target):
        try:
            unfinished.mkdir(parents=True)
            files = {}
            for name, tensors in _tables(snapshot).items():
                _write_tensors(unfinished / name, tensors)
                flush(unfinished / name)
                files[name] = {
                    "bytes": (unfinished / name).stat().st_size,
                    "digest": file_digest(unfinished / name),
                }
            body = {"format": FORMAT, "step": snapshot.step, **snapshot.facts, "files": files}
            write_json(unfinished / STATE, {**body, "digest": _digest(body)})
            flush(unfinished)
            if target.exists():
                _remove(target)
            unfinished.rename(target)
            flush(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return target


def sweep(folder: Path, keep: int) -> None:
    """Remove checkpoints older than the newest `keep`, and what killed runs left behind."""
    for path in checkpoints(folder)[keep:]:
        _remove(path)
    for path in folder.glob(".*"):
        shutil.rmtree(path, ignore_errors=True)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first."""
    return sorted((path for path in folder.glob("*") if path.name.isdigit()), reverse=True)


def newest(folder: Path) -> tuple[Snapshot | None, list[str]]:
    """The newest checkpoint that is whole, and what is wrong with those newer than it."""
    broken: list[str] = []
    for path in checkpoints(folder):
        try:
            return read_checkpoint(path), broken
        except ModelError as error:
            broken.append(str(error))
    return None, broken


def read_checkpoint(path: Path) -> Snapshot:
    """Read a checkpoint and compare every file with its size and digest."""
    try:
        facts = json.loads((path / STATE).read_text("utf-8"))
        if facts.pop("digest") != _digest(facts):
            raise ModelError(f"{path / STATE} is damaged")
        files: Mapping[str, Mapping[str, Any]] = facts.pop("files")
        if facts.pop("format") != FORMAT:
            raise ModelError(f"{path} was written by another version of unmask")
        tables: dict[str, dict[str, Tensor]] = {}
        for name, expected in files.items():
            file = path / name
            if file.stat().st_size != expected["bytes"] or file_digest(file) != expected["digest"]:
                raise ModelError(f"{file} is damaged or cut short")
            tables[name.removesuffix(".safetensors")] = load_file(file)
        return Snapshot(step=facts.pop("step"), facts=facts, **tables)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ModelError(f"{path} is incomplete or damaged ({type(error).__name__})") from None


def _tables(snapshot: Snapshot) -> dict[str, dict[str, Tensor]]:
    tables = {"weights": snapshot.weights, "optimiser": snapshot.optimiser, "average": snapshot.average}
    return {f"{name}.safetensors": tensors for name, tensors in tables.items()}


def _digest(body: Mapping[str, Any]) -> str:
    return digest(json.dumps(body, sort_keys=True))


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        # safetensors reports a full disk as an error of its own, with the errno in its text only
        if "No space left" in str(error) or "os error 28" in str(error):
            raise OSError(28, "No space left on device") from error
        raise


def _remove(path: Path) -> None:
    """Take the plain name away first, so that a half-deleted checkpoint is never taken for one."""
    doomed = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
