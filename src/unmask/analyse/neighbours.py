"""Texts, and uses of a word, whose vectors are nearest to those of a query: an index folder and its search.

    INDEX/index.json              the model and settings that made its vectors, and the files it holds
    INDEX/000/000000.safetensors  vectors and texts of the first file, part after part
    INDEX/approximate-….usearch   made when approximate search is first asked for
    INDEX/.work                   what is being added; goes on after an interruption

Vectors have length 1, so that a product is a cosine. Exact search reads part after part: memory stays flat.
"""

import heapq
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.analyse.graph import make_graph, search_graph
from unmask.analyse.uses import Language, Use, directions, find_uses, forms_of
from unmask.errors import ConfigError, InputError, ModelError, OutputError
from unmask.files import digest, disk_errors, write_json
from unmask.predict.lines import chosen_column, one_source
from unmask.predict.parts import EmbedSettings, Part, differing, make_parts
from unmask.predict.predictor import Layer, Predictor
from unmask.predict.standardise import Standardiser
from unmask.processes import folder_lock
from unmask.progress import SILENT, Progress, Stage

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
_MANIFEST, _STANDARDISER, _WORK = "index.json", "standardiser.safetensors", ".work"
_ADDING, _LOCK = "adding.json", "lock"
_REMEDY = "build the index again"
_USES = 32  # embedded at a time: with more, texts of a thousand tokens show no progress for long
_WIDER = 8  # times as many as asked for are compared exactly after an approximate search
_ROOM = 4  # times as many rows as asked for are looked at first, for some texts may be the same
_ROWS = 1 << 16  # rows that are looked at at most, unless more are asked for
_DEFAULTS = EmbedSettings()


@dataclass(frozen=True)
class Neighbour:
    """A text of the index, the characters of it that were compared, and their cosine with the query."""

    score: float
    text: str
    start: int
    end: int
    file: str
    number: int
    """Of the line or row in its file, from 1."""
    times: int = 1
    """How many texts of the index are the same (an approximate search knows of one alone)."""


@dataclass(frozen=True)
class _Place:
    """A part of the index, and the numbers of its first text in the file and in the index."""

    file: str
    number: int
    row: int
    count: int
    path: Path

    @property
    def part(self) -> Part:
        """Opened anew, so that nothing of it is kept."""
        return Part(self.path, _REMEDY)


class Index:
    """An index folder with the model that made it."""

    def __init__(self, folder: Path | str, model: Predictor) -> None:
        self.folder, self.model = Path(folder), model
        manifest = _read(self.folder)
        self.files: list[dict[str, Any]] = manifest["files"]
        if manifest["vectors"]["model"] != model.fingerprint:
            raise ModelError(
                f"{folder} was built by another model ({manifest['name']}): use that one,"
                " or build another index"
            )
        standardiser = self.folder / _STANDARDISER
        fitted = Standardiser.load(standardiser) if manifest["vectors"]["standardise"] else None
        self.settings: EmbedSettings = replace(manifest["settings"], standardise=fitted)
        if changed := differing(manifest["vectors"], self.settings.facts(model)):
            raise ModelError(
                f"{folder} holds vectors that were made otherwise ({', '.join(changed)} differ by now):"
                f" restore that, or {_REMEDY}"
            )

    def __len__(self) -> int:
        return sum(file["texts"] for file in self.files)

    @cached_property
    def places(self) -> list[_Place]:
        """Where its parts are, in order."""
        found, row = [], 0
        for folder, file in enumerate(self.files):
            number = 0
            for index in range(file["parts"]):
                path = _part_folder(self.folder, folder) / f"{index:06d}.safetensors"
                count = Part(path, _REMEDY).shape[0]
                found.append(_Place(file["name"], number, row, count, path))
                number, row = number + count, row + count
        return found

    def nearest(
        self,
        queries: Sequence[str],
        top: int = 10,
        approximate: bool = False,
        truncate: bool | None = None,
        progress: Progress = SILENT,
    ) -> list[list[Neighbour]]:
        """The texts nearest to each query, best first, each once.

        A query that is too long is cut off or refused.
        """
        self._check(top)
        cut = self.settings.truncate if truncate is None else truncate
        wanted: Floats = replace(self.settings, truncate=cut).embed(self.model, list(queries))
        rows = min(top, len(self))
        if approximate:
            found = self._ranked(wanted, self._approximate(wanted, rows, progress))
        else:
            rows, most = _ROOM * rows, min(len(self), max(rows, _ROWS))
            found = self._ranked(wanted, self._exact(wanted, min(rows, most), progress))
            while rows < most and any(len(each) <= top for each in found):  # the last may stand there again
                rows *= 2 * _ROOM
                found = self._ranked(wanted, self._exact(wanted, min(rows, most), progress))
        return [each[:top] for each in found]

    def _ranked(self, wanted: Floats, candidates: Sequence[Ints]) -> list[list[Neighbour]]:
        """Of each query the texts of its rows, best first, equal ones once."""
        texts = self._texts(np.unique(np.concatenate([*candidates, np.empty(0, np.int64)])))
        found = []
        for query, rows in zip(wanted, map(np.ndarray.tolist, candidates), strict=True):
            once: dict[str, Neighbour] = {}
            for score, row in _best(((float(texts[row][0] @ query), row) for row in rows), len(rows)):
                text = texts[row][1].text
                before = once.get(text)
                once[text] = (
                    replace(before, times=before.times + 1) if before else replace(texts[row][1], score=score)
                )
            found.append(list(once.values()))
        return found

    def nearest_uses(
        self,
        word: str,
        query: str,
        top: int = 10,
        layer: Layer = -1,
        plural: Language | None = None,
        standardise: Standardiser | None = None,
        progress: Progress = SILENT,
    ) -> list[Neighbour]:
        """Uses of a word in the index nearest to its use in the query, best first; of equal texts once.

        A use is the word itself as it is written, in lower or upper case, and with a language its regular
        plurals. Their vectors are computed now, for an index of every word would be too large; those of a
        standardised index are standardised too, by what was fitted on words.
        """
        self._check(top)
        if self.settings.standardise and not standardise:
            raise ConfigError(
                "the texts of this index are standardised, and so should be the uses of a word: fit on words"
                " (unmask embed --level word --fit-standardise), and give that with --standardise"
            )
        forms = forms_of(word, plural)
        asked = next(find_uses([query], forms), None)
        if asked is None:
            raise InputError(f"the query does not hold {' or '.join(forms)}: {query[:60]!r}")
        (wanted,) = directions(self.model, [asked], layer, standardise)
        best: list[tuple[float, int, Neighbour]] = []
        times: Counter[int] = Counter()
        seen = 0
        with progress.stage("texts", len(self), "texts") as stage:
            uses = self._uses(forms, asked, times, stage)
            while chunk := list(islice(uses, _USES)):
                scores = directions(self.model, [use for use, _ in chunk], layer, standardise) @ wanted
                found = [
                    (
                        float(score),
                        -(seen + n),
                        replace(place, score=float(score), start=use.start, end=use.end),
                    )
                    for n, (score, (use, place)) in enumerate(zip(scores, chunk, strict=True))
                ]
                seen += len(chunk)
                best = heapq.nlargest(top, [*best, *found])
        if not best:
            raise InputError(f"no text of {self.folder} holds {' or '.join(forms)}, but for the query")
        return [replace(each, times=times[hash((each.text, each.start))]) for *_, each in best]

    def _check(self, top: int) -> None:
        if top < 1:
            raise InputError("top must be at least 1")
        if not len(self):
            raise InputError(f"{self.folder} holds no text yet: add some with --add FILE")

    def _uses(
        self, forms: Sequence[str], asked: Use, times: Counter[int], stage: Stage
    ) -> Iterator[tuple[Use, Neighbour]]:
        """Every use, and where it stands first, counted by its hash; not the one asked about."""
        for place in self.places:
            for number, text in enumerate(place.part.strings, place.number + 1):
                for use in find_uses([text], forms):
                    mark = hash((text, use.start))
                    times[mark] += 1
                    if use != asked and times[mark] == 1:
                        yield use, Neighbour(0.0, text, 0, 0, place.file, number)
                stage.advance(1)

    def _exact(self, wanted: Floats, top: int, progress: Progress) -> list[Ints]:
        """The rows nearest to each query, by comparing all."""
        best: list[list[tuple[float, int]]] = [[] for _ in wanted]
        with progress.stage("comparing", len(self), "texts") as stage:
            for place in self.places:
                scores = wanted @ place.part.vectors.T
                kept = min(top, place.count)
                chosen = np.argpartition(-scores, kept - 1, axis=1)[:, :kept]
                for query, rows in enumerate(chosen):
                    found = zip(scores[query, rows].tolist(), (place.row + rows).tolist(), strict=True)
                    best[query] = _best([*best[query], *found], top)
                stage.advance(place.count)
        return [np.array([row for _, row in found]) for found in best]

    def _approximate(self, wanted: Floats, top: int, progress: Progress) -> list[Ints]:
        """Several times as many rows near each query, from a graph that is made if it is not there."""
        path = self.folder / f"approximate-{digest(json.dumps(self.files))[:16]}.usearch"
        if not path.exists():
            with _alone(self.folder):
                make_graph(path, self.model.config.width, self._blocks(progress))
                for old in self.folder.glob("approximate-*.usearch"):
                    if old != path:
                        old.unlink()
        return search_graph(path, wanted, _WIDER * top)

    def _blocks(self, progress: Progress) -> Iterator[tuple[int, Floats]]:
        with progress.stage("indexing", len(self), "texts") as stage:
            for place in self.places:
                yield place.row, place.part.vectors
                stage.advance(place.count)

    def _texts(self, rows: Ints) -> dict[int, tuple[Floats, Neighbour]]:
        """The vector and text of some rows, in order."""
        found: dict[int, tuple[Floats, Neighbour]] = {}
        for place in self.places:
            mine = rows[(rows >= place.row) & (rows < place.row + place.count)]
            if not len(mine):
                continue
            vectors, texts = place.part.rows((mine - place.row).tolist())
            for row, vector, text in zip(mine.tolist(), vectors, texts, strict=True):
                number = place.number + row - place.row + 1
                found[row] = vector, Neighbour(0.0, text, 0, len(text), place.file, number)
        return found


def add_file(
    folder: Path | str,
    model: Predictor,
    file: str | Path,
    settings: EmbedSettings | None = None,
    column: str = "text",
    progress: Progress = SILENT,
) -> int:
    """Add the lines or rows of a file to an index, which is made if it is not there; how many they are.

    `settings` are for a new index; what is added later follows them, but may be cut off where it is too long.
    """
    folder, source = Path(folder), one_source(str(file))
    _check_place(folder)
    if settings and (settings.level != "sentence" or settings.layer == "all"):
        raise ConfigError("an index holds one vector for each text")
    if settings:
        model.check_layer(settings.layer, ("last4",))
    missing = [path for path in (folder / _WORK / _LOCK, folder / _WORK, folder) if not path.exists()]
    with _alone(folder), _nothing_left(folder, missing):
        if not (folder / _MANIFEST).exists():
            _create(folder, model, settings or _DEFAULTS)
        elif settings is not None and not _read(folder)["files"]:
            _create(folder, model, settings)
        elif settings is not None and settings != EmbedSettings(truncate=settings.truncate):
            raise ConfigError(f"{folder} is there already: how its vectors are made was decided with it")
        index = Index(folder, model)
        made = replace(index.settings, truncate=settings.truncate) if settings else index.settings
        entry: dict[str, Any] = {"name": source.name, "state": list(source.state() or ())}
        if any(entry.items() <= before.items() for before in index.files):
            raise InputError(f"{source} is in {folder} already: leave --add out to search it")
        parts, column = _part_folder(folder, len(index.files)), chosen_column(source, column, progress)
        _begin(folder, parts, entry | {"column": column} | made.facts(model))
        with progress.stage("embedding", source.expected_chars / 1e6, "MB") as stage:
            paths, _ = make_parts(model, made, source, column, parts, lambda number: True, stage)
        if list(source.state() or ()) != entry["state"]:
            raise InputError(f"{source} changed while it was read: run the same command when it is complete")
        entry |= {"texts": sum(Part(path).shape[0] for path in paths), "parts": len(paths)}
        _write(folder, _read(folder) | {"files": [*index.files, entry]})
    return int(entry["texts"])


def _check_place(folder: Path) -> None:
    """Nothing but an index, perhaps one that was begun, is in the folder."""
    if not folder.exists() or (folder / _MANIFEST).exists():
        return
    work = folder / _WORK
    begun = work.is_dir()  # before anything else is written: without it a standardiser is another's
    if (
        not folder.is_dir()
        or {path.name for path in folder.iterdir()} - ({_WORK, _STANDARDISER} if begun else set())
        or (begun and {path.name for path in work.iterdir()} - {_LOCK, _ADDING})
    ):
        raise OutputError(f"{folder} holds other things and no index: name a new folder")


def _create(folder: Path, model: Predictor, settings: EmbedSettings) -> None:
    settings = replace(settings, normalise=True)
    if settings.standardise:
        settings.standardise.save(folder / _STANDARDISER)
    name = model.folder.resolve().name if model.folder else "in memory"
    _write(folder, {"name": name, "vectors": settings.facts(model), "settings": settings, "files": []})


def _begin(folder: Path, parts: Path, adding: dict[str, Any]) -> None:
    """Go on with what an interruption left if it is of the same file, else begin anew."""
    path = folder / _WORK / _ADDING
    try:
        old = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        old = {}
    with disk_errors(folder):
        if differing(old, adding):
            shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(exist_ok=True)
    write_json(path, adding)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else writes; what a killed process was writing goes."""
    with disk_errors(folder):
        (folder / _WORK).mkdir(parents=True, exist_ok=True)
    with folder_lock(folder / _WORK / _LOCK, folder):
        for left in folder.rglob(".*.tmp"):
            left.unlink(missing_ok=True)
        yield


@contextmanager
def _nothing_left(folder: Path, missing: Sequence[Path]) -> Iterator[None]:
    """Where nothing could be added, what was made for it goes, unless parts are there to go on with.

    `missing` are places that were not there before the folder was ours; what was there stays.
    """
    made = [*missing]
    if not (folder / _MANIFEST).exists():
        files = folder / _MANIFEST, folder / _STANDARDISER
        made = [*(path for path in files if not path.exists()), *missing]
    try:
        yield
    except BaseException:
        with suppress(InputError, OSError):  # the index is damaged, or the disk: that is told already
            _clear(folder, made)
        raise


def _clear(folder: Path, made: Sequence[Path]) -> None:
    files = _read(folder)["files"] if (folder / _MANIFEST).exists() else []
    parts = _part_folder(folder, len(files))
    if any(parts.glob("*.safetensors")):
        return
    shutil.rmtree(parts, ignore_errors=True)
    (folder / _WORK / _ADDING).unlink(missing_ok=True)
    for path in made:
        if path.is_dir():
            path.rmdir()  # only if it is empty
        else:
            path.unlink(missing_ok=True)


def _read(folder: Path) -> dict[str, Any]:
    path = folder / _MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
        manifest |= {"settings": EmbedSettings(**manifest["settings"])}
        if not {"name", "vectors", "files"} <= manifest.keys():
            raise ValueError("keys are missing")
        if not {"model", "standardise"} <= manifest["vectors"].keys():
            raise ValueError("keys of the vectors are missing")
        if not all({"name", "texts", "parts"} <= file.keys() for file in manifest["files"]):
            raise ValueError("keys of a file are missing")
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"there is no index at {folder}: make one with --add FILE") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} is damaged: {_REMEDY}") from None
    return manifest


def _write(folder: Path, manifest: dict[str, Any]) -> None:
    settings = asdict(replace(manifest["settings"], standardise=None))  # which has a file of its own
    write_json(folder / _MANIFEST, manifest | {"settings": settings})


def _part_folder(folder: Path, number: int) -> Path:
    return folder / f"{number:03d}"


def _best(scored: Iterable[tuple[float, int]], top: int) -> list[tuple[float, int]]:
    """The highest scores; of equal ones the first rows."""
    return heapq.nsmallest(top, scored, key=lambda pair: (-pair[0], pair[1]))
