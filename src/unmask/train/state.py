"""Checkpoints: everything a training needs to go on as if it had never stopped.

    checkpoints/00000100/
      rank-00000-of-00002.safetensors   weights/…, optimiser/…, average/… (empty before the end)
      state.json                        counters, recipe, versions; of each file its size and digest, and the
                                        rows it holds of a tensor that is split; its own digest

A process writes the rows it holds of tensors that are split (see parallel.py), and the first one all others;
any number of processes can read them. Everything is written aside under a name that begins with a dot,
flushed to disk and, when all are done, renamed: what has a plain name is whole, unless the disk damaged it
later, which the digests tell. No random state is kept: what is drawn in a step follows from the seed and the
step's number.
"""

import json
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from unmask.errors import ModelError, OutputError
from unmask.files import digest, disk_errors, file_digest, flush, safetensors_errors, write_json
from unmask.train import parallel

FORMAT = 2
STATE = "state.json"
_TABLES = ("weights", "optimiser", "average")
_LOOK, _LONGEST = 0.02, 1800.0  # seconds between two looks for the other processes' parts, and in all


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of a training."""

    step: int
    facts: dict[str, Any]
    """What JSON can hold: counters, recipe, versions."""
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    average: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """What this process writes of a snapshot, copied."""

    tensors: dict[str, Tensor]
    rows: dict[str, tuple[int, int]]
    """Of a tensor that is split: the first row here, and how many there are in all."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Part":
        """Copy it, so that the training can go on."""
        part = cls({}, {})
        for table in _TABLES:
            for name, tensor in getattr(snapshot, table).items():
                key, split = f"{table}/{name}", parallel.is_split(tensor)
                if split:
                    part.rows[key] = parallel.first_row(tensor), len(tensor)
                if split or parallel.rank() == 0:
                    part.tensors[key] = parallel.held(tensor).to("cpu", copy=True).contiguous()
        return part


class Saver:
    """Writes snapshots while the training goes on; keeps the last few."""

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder, self._keep = folder, keep
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[None] | None = None
        self._closed = threading.Event()
        if parallel.rank() == 0:
            for leftover in folder.glob(".*"):  # of runs that were killed
                shutil.rmtree(leftover, ignore_errors=True)
        # Processes that write together, and no others, use this name for what is unfinished.
        self._start = f"{parallel.first(secrets.randbits(40)):010x}"

    def save(self, snapshot: Snapshot) -> None:
        """Copy a snapshot and begin to write it; an error of the one before is raised here."""
        self.wait()
        part = Part.of(snapshot)
        if part.tensors or parallel.rank() == 0:
            self._pending = self._thread.submit(self._write, snapshot.step, snapshot.facts, part)

    def wait(self) -> None:
        """Until the last snapshot is on the disk; on the first process, with the parts of all others."""
        pending, self._pending = self._pending, None
        if pending:
            pending.result()

    def close(self) -> None:
        """Wait for other processes no longer: the run has ended, or failed."""
        self._closed.set()

    def _write(self, step: int, facts: dict[str, Any], part: Part) -> None:
        target = checkpoint_path(self._folder, step)
        unfinished = self._folder / f".{target.name}.{self._start}.tmp"
        writers = parallel.ranks() if part.rows else 1
        names = [f"rank-{number:05d}-of-{writers:05d}.safetensors" for number in range(writers)]
        mine = unfinished / names[parallel.rank()]
        with disk_errors(target, "free some and go on with --resume"):
            try:
                unfinished.mkdir(parents=True, exist_ok=True)
                entry = _write_part(mine, part)
                if parallel.rank() > 0:
                    write_json(mine.with_suffix(".json"), entry)
                    return
                files = {mine.name: entry}
                for name in names[1:]:
                    files[name] = self._entry(unfinished / name)
                body = {"format": FORMAT, "step": step, **facts, "files": files}
                write_json(unfinished / STATE, {**body, "digest": _digest(body)})
                _commit(unfinished, target)
            finally:
                if parallel.rank() == 0:
                    shutil.rmtree(unfinished, ignore_errors=True)
        done = [path for path in checkpoints(self._folder) if path.name <= target.name]
        for path in done[self._keep :]:  # newer ones are broken, or the training would have gone on from them
            _remove(path)

    def _entry(self, file: Path) -> dict[str, Any]:
        """What the manifest says of another process's part, once it is whole."""
        path, began = file.with_suffix(".json"), time.monotonic()
        while not path.exists():
            if self._closed.wait(_LOOK) or time.monotonic() - began > _LONGEST:
                raise OutputError(f"{file} is missing: a process failed, or has the folder on another disk")
        entry: dict[str, Any] = json.loads(path.read_text("utf-8"))
        path.unlink()
        return entry


def _write_part(path: Path, part: Part) -> dict[str, Any]:
    with safetensors_errors(path):
        save_file(part.tensors, path)
    flush(path)
    return {"bytes": path.stat().st_size, "digest": file_digest(path), "rows": part.rows}


def _commit(unfinished: Path, target: Path) -> None:
    flush(unfinished)
    if target.exists():
        _remove(target)
    unfinished.rename(target)
    flush(target.parent)


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return folder / f"{step:08d}"


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
    """Read a checkpoint, comparing every file with its size and digest, and put split tensors together."""
    try:
        facts = json.loads((path / STATE).read_text("utf-8"))
        if facts.pop("digest") != _digest(facts):
            raise ModelError(f"{path / STATE} is damaged")
        files: Mapping[str, Mapping[str, Any]] = facts.pop("files")
        if facts.pop("format") != FORMAT:
            raise ModelError(f"{path} was written by another version of unmask")
        pieces: dict[str, list[tuple[int, Tensor]]] = {}
        totals: dict[str, int] = {}
        for name, expected in files.items():
            file = path / name
            if file.stat().st_size != expected["bytes"] or file_digest(file) != expected["digest"]:
                raise ModelError(f"{file} is damaged or cut short")
            for key, tensor in load_file(file).items():
                first, totals[key] = expected["rows"].get(key, (0, 0))
                pieces.setdefault(key, []).append((first, tensor))
        tables: dict[str, dict[str, Tensor]] = {table: {} for table in _TABLES}
        for key, found in pieces.items():
            table, _, name = key.partition("/")
            parts = [tensor for _, tensor in sorted(found, key=itemgetter(0))]
            tables[table][name] = torch.cat(parts) if totals[key] else parts[0]
            if totals[key] and len(tables[table][name]) != totals[key]:
                raise ModelError(f"{path} lacks a part of {key}")
        return Snapshot(step=facts.pop("step"), facts=facts, **tables)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise ModelError(f"{path} is incomplete or damaged ({type(error).__name__})") from None


def _digest(body: Mapping[str, Any]) -> str:
    return digest(json.dumps(body, sort_keys=True))


def _remove(path: Path) -> None:
    """Take the plain name away first, so that a half-deleted checkpoint is never taken for one."""
    doomed = path.with_name(f".{path.name}.{secrets.token_hex(4)}.old")
    path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
