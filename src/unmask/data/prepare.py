"""Clean documents -> a corpus folder; interrupted at any moment, the same command goes on and ends the same.

The input is read in order and cut into chunks; a chunk becomes one part file, a pure function of its
documents and the settings. Parts are joined into shards at the end, where duplicates across the whole
input are dropped. So the bytes depend on the input alone: not on workers, restarts, or on how many
machines shared the work with `--shard i/n`.

    OUT/.work/plan.json               the settings; others are refused
    OUT/.work/parts/B-C.safetensors   chunk C of batch B of input files; B follows from their names, sizes
                                      and times: after a file was mended only its batch is made again
    OUT/.work/parts/B.json            how many chunks batch B has, and which of its files hold no text
    OUT/.work/lock                    held while someone works here
"""

import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unmask.config import Recipe, write_recipe
from unmask.data.join import join_parts
from unmask.data.parts import PartPool
from unmask.data.shards import FORMAT, MANIFEST, VOCABULARY, Special, file_facts, read_manifest
from unmask.errors import ConfigError, CorpusError, InputError, OutputError, UserError
from unmask.files import digest, disk_errors, write_json
from unmask.processes import cores, folder_lock, ray_cluster, run_on_ray, workers_end_first
from unmask.progress import SILENT, Progress
from unmask.text import Document, Source, State, TextColumns, nothing_left, read_sources, say_passed_over
from unmask.tokenizer import Tokenizer

WORK = ".work"
CHUNK_CHARS = 4_000_000
BATCH_BYTES = 8_000_000
SHARES_PER_CORE = 4
_LITTLE = 4_000_000  # characters that are encoded before processes would have started
_SETTINGS = ("text", "prepare", "tokenizer")
_LASTING = ("sources", *_SETTINGS)


@dataclass(frozen=True, slots=True)
class Job:
    """Which of the machines sharing the work this one is: `--shard number/of`, counted from 1."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Job":
        """Read `i/n`."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
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
    recipe, job = recipe or Recipe(), job or Job()
    if job.of > 1:
        _check_shareable(sources)
    plan = make_plan(sources, tokenizer, recipe)
    if finished := _finished(out, plan, sources):
        return finished
    work = out / WORK
    with folder_lock(work / "lock", out, shared=job.of > 1):
        if finished := _finished(out, plan, sources):  # by the one who held the lock a moment ago
            return finished
        if any(source.path is None for source in sources):
            _clear(work)  # standard input cannot be read twice
        _start(work, {key: plan[key] for key in _SETTINGS})
        batches = file_batches(sources)
        try:
            _make_parts(work, batches, tokenizer, recipe, workers or _workers(batches), job, progress)
        except UserError:
            if job.of == 1 and not any((work / "parts").iterdir()):  # there is nothing to go on with
                _remove(out)
            raise
        if job.of > 1:
            return {"parts": len(list((work / "parts").glob("*.safetensors"))), "job": asdict(job)}
        parts, empty = parts_in_order(work / "parts", batches)
        say_passed_over(empty, sources, progress)
        manifest = _finish(out, tokenizer, recipe, plan, parts, progress)
        if left := _documents(manifest):
            _date(out / MANIFEST, batches)
    if not left:
        _remove(out)
        raise nothing_left(sources, manifest["dropped"])
    shutil.rmtree(work, ignore_errors=True)
    return manifest


def prepare_on_ray(
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    out: Path,
    recipe: Recipe | None = None,
    workers: int | None = None,
    address: str | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """As `prepare`, the shares being tasks of a Ray cluster whose machines all see the same files.

    Without an address a cluster of `workers` processes is started on this machine, and ended.
    """
    _check_shareable(sources)
    recipe, out = recipe or Recipe(), out.absolute()
    sources = [replace(source, path=source.path and source.path.absolute()) for source in sources]
    if not _finished(out, make_plan(sources, tokenizer, recipe), sources):
        with ray_cluster(address, workers) as there:
            # A share reads files of its own if there are enough; more shares than cores even out the load.
            count = max(there, min(len(file_batches(sources)), SHARES_PER_CORE * there))
            jobs = [Job(number + 1, count) for number in range(count)]
            with progress.stage("preparing", count, "shares") as stage:
                for _ in run_on_ray(partial(_share, sources, tokenizer, out, recipe), jobs):
                    stage.advance(1)
    return prepare(sources, tokenizer, out, recipe, 1, progress=progress)


def _check_shareable(sources: Sequence[Source]) -> None:
    if any(source.path is None for source in sources):
        raise ConfigError("standard input cannot be shared among machines: name files instead")


def _share(sources: Sequence[Source], tokenizer: Tokenizer, out: Path, recipe: Recipe, job: Job) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a task has one core
    prepare(sources, tokenizer, out, recipe, 1, job)


def _finish(
    out: Path,
    tokenizer: Tokenizer,
    recipe: Recipe,
    plan: dict[str, Any],
    parts: Sequence[Path],
    progress: Progress,
) -> dict[str, Any]:
    """Build the whole folder aside, then, if it holds anything, move it into place, the manifest last."""
    aside = out / WORK / "joined"
    with disk_errors(out):
        shutil.rmtree(aside, ignore_errors=True)
        tokenizer.save(aside / "tokenizer")
        write_recipe(recipe, aside / "recipe.toml")
        facts = join_parts(parts, aside, recipe.prepare, plan, progress)
        made = {"vocabulary": file_facts(aside, VOCABULARY), **facts}
        manifest = {"format": FORMAT, **{key: plan[key] for key in _LASTING}, **made}
        if not _documents(manifest):
            return manifest
        write_json(aside / MANIFEST, manifest)
        for path in sorted(aside.iterdir(), key=lambda path: path.name == MANIFEST):
            target = out / path.name
            if target.is_dir():
                shutil.rmtree(target)
            path.replace(target)
    return manifest


def _date(manifest: Path, batches: Sequence["FileBatch"]) -> None:
    """The manifest is no older than the files it was made from, even where those are dated in the future."""
    times = [state.mtime_ns for batch in batches for state in batch.states if state]
    newest = max(manifest.stat().st_mtime_ns, *times, 0)
    os.utime(manifest, ns=(newest, newest))


def make_plan(sources: Sequence[Source], tokenizer: Tokenizer, recipe: Recipe) -> dict[str, Any]:
    """Everything the result depends on, but for what is in the files."""
    return {
        "sources": [
            {"name": s.name, "language": s.language, "bytes": state and state.size}
            for s, state in ((source, source.state()) for source in sources)
        ],
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


def _finished(out: Path, plan: dict[str, Any], sources: Sequence[Source]) -> dict[str, Any] | None:
    path = out / MANIFEST
    if not path.is_file():
        if out.is_dir() and any(p.name != WORK for p in out.iterdir()) and not (out / WORK).is_dir():
            raise OutputError(f"{out} holds other files: choose an empty folder")
        return None
    manifest = read_manifest(out)
    if differ := [key for key in _LASTING if manifest[key] != plan[key]]:
        raise OutputError(
            f"{out} holds a corpus made of other input or settings ({', '.join(differ)} differ): "
            "choose another folder or delete it"
        )
    made = path.stat().st_mtime_ns
    for source in sources:  # of the same size, but the text may be another
        state = source.state()
        if state is None:
            raise OutputError(f"{out} holds a finished corpus: choose another folder or delete it")
        if state.mtime_ns > made:
            raise OutputError(
                f"{source} is newer than the corpus in {out}: choose another folder or delete it, "
                f"or if the text is the same, {shlex.join(['touch', '-r', str(source), str(path)])}"
            )
    shutil.rmtree(out / WORK, ignore_errors=True)
    return manifest


def _documents(manifest: dict[str, Any]) -> int:
    """How many are in the splits."""
    return sum(split["documents"] for split in manifest["splits"].values())


def _remove(out: Path) -> None:
    """Leave nothing of a corpus that cannot be made."""
    shutil.rmtree(out / WORK, ignore_errors=True)
    with suppress(OSError):
        out.rmdir()  # unless it holds other things


def _clear(work: Path) -> None:
    """Forget what was made; the lock stays."""
    (work / "plan.json").unlink(missing_ok=True)
    shutil.rmtree(work / "parts", ignore_errors=True)


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
        old = {}
    if what := [key for key in plan if old.get(key) != plan[key]]:
        raise CorpusError(
            f"{work.parent} holds an unfinished corpus made with other settings "
            f"({', '.join(what)} differ): finish that one, or delete {work} to start anew"
        )


def _workers(batches: Sequence["FileBatch"]) -> int:
    """A process per core, or this one alone for a little text."""
    return 1 if 0 < sum(batch.expected_chars for batch in batches) < _LITTLE else cores()


def _make_parts(
    work: Path,
    batches: Sequence["FileBatch"],
    tokenizer: Tokenizer,
    recipe: Recipe,
    workers: int,
    job: Job,
    progress: Progress,
) -> None:
    parts, columns = work / "parts", TextColumns(recipe.text, progress)
    whole = len(batches) >= job.of  # enough files: each machine reads its own and no others
    total = sum(batch.expected_chars for batch in batches) / 1e6
    with (
        progress.stage("preparing", total or None, "MB") as stage,
        workers_end_first(),
        PartPool(workers, tokenizer, recipe) as pool,
    ):
        for number, batch in enumerate(batches):
            if (whole and not job.takes(number)) or _batch_done(parts, batch.name, number, job, whole):
                stage.skip(batch.expected_chars / 1e6)
                continue
            chunks, empty = 0, list[Source]()
            for index, documents in enumerate(_chunks(batch, recipe, empty, columns)):
                chunks = index + 1
                chars = sum(len(doc.text) for doc in documents) / 1e6
                path = parts / f"{batch.name}-{index:06d}.safetensors"
                if path.exists() or not (whole or job.takes(number + index)):
                    stage.skip(chars)
                else:
                    pool.submit(path, documents, chars, stage)
            pool.drain(stage)
            batch.check()
            write_json(parts / f"{batch.name}.json", {"chunks": chunks, "empty": list(map(str, empty))})


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Neighbouring input files; the name changes when one of them does."""

    name: str
    sources: tuple[Source, ...]
    states: tuple[State | None, ...]

    @property
    def expected_chars(self) -> float:
        """About how much text is in them."""
        return sum(source.expected_chars for source in self.sources)

    def check(self) -> None:
        """Refuse what was read if a file has changed since the batch was named."""
        for source, state in zip(self.sources, self.states, strict=True):
            if source.state() != state:
                raise InputError(
                    f"{source} changed while it was read: run the same command again when it is complete"
                )


def file_batches(sources: Sequence[Source]) -> list[FileBatch]:
    """Small files together, a large file alone: by order and size only; equal batches are numbered."""
    groups: list[list[tuple[Source, State | None]]] = []
    room = 0
    for source in sources:
        state = source.state()
        size = state.size if state else BATCH_BYTES
        if not groups or size > room:
            groups.append([])
            room = BATCH_BYTES
        groups[-1].append((source, state))
        room -= size
    seen: Counter[str] = Counter()
    batches = []
    for group in groups:
        name = digest(*(f"{s.name} {s.language} {state and tuple(state)}" for s, state in group))
        batches.append(FileBatch(f"{name}-{seen[name]}", *zip(*group, strict=True)))
        seen[name] += 1
    return batches


def _chunks(
    batch: FileBatch, recipe: Recipe, empty: list[Source], columns: TextColumns
) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    chars = 0
    for document in read_sources(batch.sources, recipe.text, empty, columns):
        chunk.append(document)
        chars += len(document.text)
        if chars >= CHUNK_CHARS:
            yield chunk
            chunk, chars = [], 0
    if chunk:
        yield chunk


def _batch_done(parts: Path, name: str, number: int, job: Job, whole: bool) -> bool:
    try:
        chunks = json.loads((parts / f"{name}.json").read_text("utf-8"))["chunks"]
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    ours = (index for index in range(chunks) if whole or job.takes(number + index))
    return all((parts / f"{name}-{index:06d}.safetensors").exists() for index in ours)


def parts_in_order(parts: Path, batches: Sequence[FileBatch]) -> tuple[list[Path], list[str]]:
    """Every part of every batch, in the order of the input, and the files that hold no text."""
    paths: list[Path] = []
    empty: list[str] = []
    for batch in batches:
        batch.check()
        facts = json.loads((parts / f"{batch.name}.json").read_text("utf-8"))
        paths += [parts / f"{batch.name}-{index:06d}.safetensors" for index in range(facts["chunks"])]
        empty += facts["empty"]
    return paths, empty
