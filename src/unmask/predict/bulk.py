"""A file of texts -> a file of vectors; interrupted at any moment, the same command goes on to the same end.

OUT.work/plan.json                  the settings; others are refused
OUT.work/parts/000000.safetensors   vectors of the first texts, and so on
OUT.work/lock                       held while someone works here
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from glob import escape
from pathlib import Path
from typing import Any

import torch

from unmask.data.prepare import SHARES_PER_CORE, Job
from unmask.errors import ConfigError, InputError, OutputError
from unmask.files import check_new, disk_errors, write_json
from unmask.predict.lines import chosen_column, one_source
from unmask.predict.loading import load
from unmask.predict.parts import EmbedSettings, Part, differing, make_parts
from unmask.predict.predictor import Predictor
from unmask.predict.standardise import METHODS, Method, Standardiser
from unmask.predict.vectorfile import write_vectors
from unmask.processes import folder_lock, ray_cluster, run_on_ray
from unmask.progress import SILENT, Progress, held
from unmask.text.sources import Source

DEFAULTS = EmbedSettings()


@dataclass(frozen=True)
class EmbedSummary:
    """What was written, and what it took."""

    file: str
    texts: int
    rows: int
    """One per text, word or token."""
    width: int
    kept: int
    """Texts whose vectors an interrupted run had left."""
    seconds: float


def embed_file(
    model: Predictor,
    file: str | Path,
    out: str | Path,
    settings: EmbedSettings = DEFAULTS,
    column: str = "text",
    fit: Method | None = None,
    progress: Progress = SILENT,
) -> EmbedSummary:
    """Write the vector of every line or row of a file, or with `fit` a standardiser fitted on them."""
    start, out = time.monotonic(), Path(out)
    settings = checked(out, settings, fit)
    source = one_source(str(file))
    state = source.state()
    with held(progress) as told:
        column = chosen_column(source, column, told)
        plan = _plan(model, source, settings, column)
    with _work(out, plan) as parts:
        paths, kept = _make(model, source, settings, column, parts, lambda number: True, progress)
        if source.state() != state:
            raise InputError(f"{source} changed while it was read: run the same command when it is complete")
        with progress.stage("writing", len(paths), "parts") as stage:
            if fit:
                about = model.about(settings.level, settings.layer, _pool(model, settings))
                vectors = (Part(path).vectors for path in paths)
                Standardiser.fit(vectors, fit, about=about).save(out)
                rows, width = sum(Part(path).shape[0] for path in paths), model.config.width
            else:
                rows, *_, width = write_vectors(paths, out, settings.level, settings.facts(model), stage)
        texts = sum(len(Part(path).counts) for path in paths)
    return EmbedSummary(str(out), texts, rows, width, kept, time.monotonic() - start)


def embed_on_ray(
    folder: str | Path,
    file: str | Path,
    out: str | Path,
    settings: EmbedSettings = DEFAULTS,
    column: str = "text",
    fit: Method | None = None,
    address: str | None = None,
    progress: Progress = SILENT,
) -> EmbedSummary:
    """As `embed_file`, the parts being made by a Ray cluster whose machines all see the same files."""
    settings = checked(Path(out), settings, fit)
    source, place = one_source(str(file)), Path(out).absolute()
    source = replace(source, path=source.path and source.path.absolute())
    where = str(Path(folder).absolute()) if Path(folder).exists() else str(folder)
    model = load(folder, "cpu")
    with held(progress) as told:
        column = chosen_column(source, column, told)
        plan = _plan(model, source, settings, column)
    with _work(place, plan, keep=True) as parts, ray_cluster(address) as cores:
        count = SHARES_PER_CORE * cores
        share = partial(_share, where, source, settings, column, parts)
        with progress.stage("embedding", count, "shares") as stage:
            for _ in run_on_ray(share, [Job(number + 1, count) for number in range(count)]):
                stage.advance(1)
    return embed_file(model, file, out, settings, column, fit, progress)


def checked(out: Path, settings: EmbedSettings, fit: Method | None) -> EmbedSettings:
    """What cannot be written is told before any work; a standardiser is fitted before normalising."""
    forms = (".npy", ".parquet", ".safetensors")
    if fit is not None:
        if fit not in METHODS:
            raise ConfigError(f"there is no method {fit!r}; those we have: {', '.join(METHODS)}")
        if settings.standardise or settings.normalise:
            raise ConfigError("a standardiser is fitted on plain vectors: leave out what changes them")
        if out.suffix != ".safetensors":
            raise OutputError(f"{out}: a standardiser is written as .safetensors")
        settings = replace(settings, normalise=False)
    if settings.layer == "all" and (fit or settings.standardise):
        raise ConfigError("a standardiser is for one layer: say which with --layer")
    if out.suffix not in forms:
        raise OutputError(f"{out}: vectors are written as {' '.join(forms)}")
    if settings.level == "token" and settings.pool:
        raise ConfigError("tokens are not pooled: leave out --pool, or take another --level")
    if out.suffix == ".npy" and settings.level != "sentence":
        raise OutputError(
            f"{out}: texts have unlike numbers of {settings.level}s, which .npy cannot hold;"
            " write .parquet or .safetensors"
        )
    if not _work_folder(out).exists():
        check_new(out)
    return settings


def _make(
    model: Predictor,
    source: Source,
    settings: EmbedSettings,
    column: str,
    parts: Path,
    takes: Callable[[int], bool],
    progress: Progress,
) -> tuple[list[Path], int]:
    with progress.stage("embedding", source.expected_chars / 1e6, "MB") as stage:
        return make_parts(model, settings, source, column, parts, takes, stage)


@cache
def _loaded(folder: str) -> Predictor:
    """Tasks that the same process does one after the other share the model."""
    torch.set_num_threads(1)  # a task has one core
    return load(folder, "cpu")


def _share(folder: str, source: Source, settings: EmbedSettings, column: str, parts: Path, job: Job) -> None:
    _make(_loaded(folder), source, settings, column, parts, job.takes, SILENT)


def _plan(model: Predictor, source: Source, settings: EmbedSettings, column: str) -> dict[str, Any]:
    """Everything the parts depend on."""
    state = source.state()
    given = {"source": source.name, "state": state and list(state), "column": column}
    return given | settings.facts(model) | {"chunk": list(settings.chunk), "device": model.device.type}


def _pool(model: Predictor, settings: EmbedSettings) -> Any:
    return model.settings_for(settings.level, settings.pool).pool


def _work_folder(out: Path) -> Path:
    return out.with_name(out.name + ".work")


@contextmanager
def _work(out: Path, plan: dict[str, Any], keep: bool = False) -> Iterator[Path]:
    """The folder of the parts, ours alone while we work; it goes when the result is there, or no part is."""
    work = _work_folder(out)
    with disk_errors(out):
        (work / "parts").mkdir(parents=True, exist_ok=True)
    with folder_lock(work / "lock", out):
        if not (work / "parts").is_dir():  # another process was at work here, and has ended meanwhile
            check_new(out)
            (work / "parts").mkdir(parents=True)
        for left in out.parent.glob(f".{escape(out.name)}.*.tmp"):  # by a process that was killed
            left.unlink(missing_ok=True)
        _start(work, plan)
        try:
            yield work / "parts"
        except BaseException:
            if not any((work / "parts").glob("*.safetensors")):
                shutil.rmtree(work, ignore_errors=True)
            raise
    if not keep:
        shutil.rmtree(work, ignore_errors=True)


def _start(work: Path, plan: dict[str, Any]) -> None:
    """Go on with what is there if it is ours; of a file that has changed since, begin anew."""
    path = work / "plan.json"
    try:
        old = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        old = plan | {"state": None}
    differ = differing(old, plan)
    if settings := [key for key in differ if key != "state"]:
        raise OutputError(
            f"{work} holds the unfinished work of another command ({', '.join(settings)} differ):"
            " finish that one, or remove the folder"
        )
    if differ:
        with disk_errors(work):
            shutil.rmtree(work / "parts")
            (work / "parts").mkdir()
    write_json(path, plan)
