"""Clean documents -> a corpus folder; interrupted at any moment, the same command goes on and ends the same.

The input is read in order and cut into chunks; a chunk becomes one part file, a pure function of its
documents and the settings. Parts are joined into shards at the end, where duplicates across the whole
input are dropped. So the bytes depend on the input alone: not on workers, restarts, or on how many
machines shared the work with `--shard i/n`.

    OUT/.work/plan.json            what is being prepared; another input or setting is refused
    OUT/.work/parts/B-C.safetensors   chunk C of batch B of input files
    OUT/.work/parts/B.json            how many chunks batch B has
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unmask.config import Recipe, write_recipe
from unmask.data.join import join_parts
from unmask.data.parts import PartPool
from unmask.data.shards import FORMAT, MANIFEST, Special, read_manifest
from unmask.errors import ConfigError, CorpusError, InputError, OutputError
from unmask.files import disk_errors, write_json
from unmask.progress import SILENT, Progress
from unmask.text import Document, Source, read_documents
from unmask.tokenizer import Tokenizer

WORK = ".work"
CHUNK_CHARS = 4_000_000
BATCH_BYTES = 8_000_000
_LASTING = ("sources", "text", "prepare", "tokenizer")


@dataclass(frozen=True, slots=True)
class Job:
    """Which of the machines sharing the work this one is: `--shard number/of`, counted from 1."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Job":
        """Read `i/n`."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
            raise ConfigError(f"--shard {text}: write it as i/n with 1 ≤ i ≤ n, for example 3/16")
        return cls(int(number), int(of))

    def takes(self, number: int) -> bool:
        """Whether the work with this running number is ours."""
        return number % self.of == self.number - 1


def prepare(
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    out: Path,
    recipe: Recipe | None = None,
    workers: int | None = None,
    job: Job | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Make the corpus folder `out` and return its manifest (with a `job`, only its parts are made)."""
    recipe = recipe or Recipe()
    plan = make_plan(sources, tokenizer, recipe)
    if finished := _finished(out, plan):
        return finished
    work = out / WORK
    if any(source.path is None for source in sources):
        shutil.rmtree(work, ignore_errors=True)  # standard input cannot be read twice
    _start(work, plan)
    _make_parts(work, list(sources), tokenizer, recipe, workers or _cores(), job or Job(), progress)
    if job and job.of > 1:
        return {"parts": len(list((work / "parts").glob("*.safetensors"))), "job": asdict(job)}
    return _finish(out, tokenizer, recipe, plan, len(file_batches(sources)), progress)


def _finish(
    out: Path, tokenizer: Tokenizer, recipe: Recipe, plan: dict[str, Any], batches: int, progress: Progress
) -> dict[str, Any]:
    """Build the whole folder aside, then move it into place, the manifest last."""
    aside = out / WORK / "joined"
    with disk_errors(out):
        shutil.rmtree(aside, ignore_errors=True)
        tokenizer.save(aside / "tokenizer")
        write_recipe(recipe, aside / "recipe.toml")
        facts = join_parts(
            parts_in_order(out / WORK / "parts", batches), aside, recipe.prepare, plan, progress
        )
        manifest = {"format": FORMAT, **{key: plan[key] for key in _LASTING}, **facts}
        if not any(split["documents"] for split in facts["splits"].values()):
            shutil.rmtree(out / WORK)
            reasons = ", ".join(f"{count} {reason}" for reason, count in facts["dropped"].items())
            raise InputError(
                f"no documents are left to prepare (dropped: {reasons or 'none, the input is empty'})"
            )
        write_json(aside / MANIFEST, manifest)
        for path in sorted(aside.iterdir(), key=lambda path: path.name == MANIFEST):
            target = out / path.name
            if target.is_dir():
                shutil.rmtree(target)
            path.replace(target)
        shutil.rmtree(out / WORK)
    return manifest


def make_plan(sources: Sequence[Source], tokenizer: Tokenizer, recipe: Recipe) -> dict[str, Any]:
    """Everything the result depends on; two runs with equal plans may continue one another."""
    return {
        "sources": [
            {"name": s.name, "language": s.language, "bytes": s.path.stat().st_size if s.path else None}
            for s in sources
        ],
        "changed": [s.path.stat().st_mtime_ns if s.path else None for s in sources],
        "text": recipe.text.model_dump(mode="json"),
        "prepare": recipe.prepare.model_dump(mode="json"),
        "tokenizer": tokenizer_facts(tokenizer),
    }


def tokenizer_facts(tokenizer: Tokenizer) -> dict[str, Any]:
    """What the later stages need to know of the vocabulary."""
    pair = tokenizer.encode("a", "b").ids
    special = Special(
        cls=tokenizer.cls_id,
        sep=tokenizer.sep_id,
        mask=tokenizer.mask_id,
        pad=tokenizer.pad_id,
        unk=tokenizer.unk_id,
        all=tokenizer.special_ids,
        pair_separators=max(1, int(np.sum(np.asarray(pair) == tokenizer.sep_id)) - 1),
    )
    return {
        "fingerprint": tokenizer.fingerprint,
        "kind": tokenizer.kind,
        "vocab_size": tokenizer.vocab_size,
        "special": {**asdict(special), "all": list(special.all)},
    }


def _finished(out: Path, plan: dict[str, Any]) -> dict[str, Any] | None:
    if not (out / MANIFEST).is_file():
        if out.is_dir() and any(p.name != WORK for p in out.iterdir()) and not (out / WORK).is_dir():
            raise OutputError(f"{out} holds other files: choose an empty folder")
        return None
    manifest = read_manifest(out)
    if all(manifest[key] == plan[key] for key in _LASTING):
        shutil.rmtree(out / WORK, ignore_errors=True)
        return manifest
    raise OutputError(
        f"{out} holds a corpus made of other input or settings: choose another folder or delete it"
    )


def _start(work: Path, plan: dict[str, Any]) -> None:
    path = work / "plan.json"
    if not path.is_file():
        with disk_errors(work):
            (work / "parts").mkdir(parents=True, exist_ok=True)
        write_json(path, plan)
        return
    try:
        old = json.loads(path.read_text("utf-8"))
    except json.JSONDecodeError:
        old = None
    if old != plan:
        what = [key for key in plan if old is None or old.get(key) != plan[key]]
        raise CorpusError(
            f"{work.parent} holds an unfinished corpus of other input or settings "
            f"({', '.join(what)} differ): finish that one, or delete {work} to start anew"
        )


def _make_parts(
    work: Path,
    sources: list[Source],
    tokenizer: Tokenizer,
    recipe: Recipe,
    workers: int,
    job: Job,
    progress: Progress,
) -> None:
    parts = work / "parts"
    batches = file_batches(sources)
    whole = len(batches) >= job.of  # enough files: each machine reads its own and no others
    total = sum(source.expected_chars for source in sources) / 1e6
    with (
        progress.stage("preparing", total or None, "MB") as stage,
        PartPool(workers, tokenizer, recipe) as pool,
    ):
        for number, batch in enumerate(batches):
            marker = parts / f"{number:06d}.json"
            if (whole and not job.takes(number)) or _batch_done(parts, number, marker, job, whole):
                stage.advance(sum(source.expected_chars for source in batch) / 1e6)
                continue
            chunks = 0
            for index, documents in enumerate(_chunks(batch, recipe)):
                chunks = index + 1
                chars = sum(len(doc.text) for doc in documents) / 1e6
                path = parts / f"{number:06d}-{index:06d}.safetensors"
                if path.exists() or not (whole or job.takes(number + index)):
                    stage.advance(chars)
                else:
                    pool.submit(path, documents, chars, stage)
            pool.drain(stage)
            write_json(marker, {"chunks": chunks})


def file_batches(sources: Sequence[Source]) -> list[list[Source]]:
    """Neighbouring small files together, a large file alone: by order and size only."""
    batches: list[list[Source]] = []
    room = 0
    for source in sources:
        size = source.path.stat().st_size if source.path else BATCH_BYTES
        if not batches or size > room:
            batches.append([])
            room = BATCH_BYTES
        batches[-1].append(source)
        room -= size
    return batches


def _chunks(batch: Sequence[Source], recipe: Recipe) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    chars = 0
    for source in batch:
        for document in read_documents(source, recipe.text):
            chunk.append(document)
            chars += len(document.text)
            if chars >= CHUNK_CHARS:
                yield chunk
                chunk, chars = [], 0
    if chunk:
        yield chunk


def _batch_done(parts: Path, number: int, marker: Path, job: Job, whole: bool) -> bool:
    try:
        chunks = json.loads(marker.read_text("utf-8"))["chunks"]
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    ours = (index for index in range(chunks) if whole or job.takes(number + index))
    return all((parts / f"{number:06d}-{index:06d}.safetensors").exists() for index in ours)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parts_in_order(parts: Path, batches: int) -> list[Path]:
    """Every part of every batch, in the order of the input; what is missing is named."""
    paths: list[Path] = []
    for number in range(batches):
        chunks = json.loads((parts / f"{number:06d}.json").read_text("utf-8"))["chunks"]
        paths += [parts / f"{number:06d}-{index:06d}.safetensors" for index in range(chunks)]
    return paths
