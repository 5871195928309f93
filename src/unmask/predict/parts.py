"""Chunks of a file's texts -> part files with their vectors, each a pure function of its texts and settings.

So interrupted work goes on at the first part that is missing, and ends with the same bytes on any number of
cores or machines.  R rows of all texts of a part · N texts · D width
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from unmask.data.shards import write_arrays
from unmask.errors import InputError
from unmask.predict.inputs import TooLongError
from unmask.predict.lines import Placed, placed_texts
from unmask.predict.onnx import OnnxModel
from unmask.predict.predictor import Floats, Ints, Layer, Level, Predictor
from unmask.predict.sentence import Pool
from unmask.predict.standardise import Standardiser
from unmask.progress import Stage, counted
from unmask.text.sources import Source
from unmask.text.tables import nothing_in

CHUNK_TEXTS = 2048
CHUNK_CHARS = 1 << 19
_PER_ROW = 16  # how much less text makes a part when every word or token, or every layer, has a vector


@dataclass(frozen=True)
class EmbedSettings:
    """Everything that decides a vector but the text and the model; None is as the model's folder says."""

    level: Level = "sentence"
    layer: Layer = -1
    pool: Pool | None = None
    normalise: bool | None = None
    truncate: bool | None = None
    standardise: Standardiser | None = None

    @property
    def chunk(self) -> tuple[int, int]:
        """Texts and characters at which a part is full."""
        rows = (self.level != "sentence") + (self.layer == "all")
        return CHUNK_TEXTS, CHUNK_CHARS // _PER_ROW**rows

    def embed(self, model: Predictor, texts: str | Sequence[str]) -> Any:
        """The vectors of some texts."""
        return model.embed(
            texts, self.level, self.layer, self.pool, self.normalise, self.truncate, self.standardise
        )

    def facts(self, model: Predictor) -> dict[str, Any]:
        """The same for vectors that can stand beside each other."""
        own = model.settings_for(self.level, self.pool, self.normalise)
        cut = own.max_length is not None if self.truncate is None else self.truncate
        mark = self.standardise.fingerprint if self.standardise else None
        about = model.about(self.level, self.layer, own.pool)
        return asdict(own) | about | {"truncate": cut, "standardise": mark}


@dataclass(frozen=True, eq=False)
class Part:
    """A part file: what is asked for is read."""

    path: Path
    remedy: str = "remove it and run the same command again"
    """When it is damaged."""

    @cached_property
    def vectors(self) -> Floats:
        """(R, D), or (R, L + 1, D) of all layers."""
        vectors: Floats = self._read("vectors")
        return vectors

    @cached_property
    def counts(self) -> Ints:
        """Rows of each text (N)."""
        counts: Ints = self._read("counts")
        return counts

    @cached_property
    def spans(self) -> Ints:
        """Where each row's word or token begins and ends in its text (R, 2)."""
        spans: Ints = self._read("spans")
        return spans

    @cached_property
    def strings(self) -> list[str]:
        """The text, word or token of every row."""
        joined, ends = self._read("strings").tobytes(), self._read("ends").tolist()
        return [joined[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """That of the vectors, which are not read for it."""
        with self._open() as file:
            return tuple(file.get_slice("vectors").get_shape())

    def rows(self, numbers: Sequence[int]) -> tuple[Floats, list[str]]:
        """Some vectors and their texts, without reading the others."""
        with self._open() as file:
            vectors, joined, ends = map(file.get_slice, ("vectors", "strings", "ends"))
            found = np.concatenate([vectors[number : number + 1] for number in numbers])
            strings = []
            for number in numbers:
                start = int(ends[number - 1 : number][0]) if number else 0
                strings.append(joined[start : int(ends[number : number + 1][0])].tobytes().decode())
        return found, strings

    def _read(self, name: str) -> Any:
        with self._open() as file:
            return file.get_tensor(name)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            with safe_open(self.path, "np") as file:
                yield file
        except (SafetensorError, OSError, ValueError, IndexError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{self.path} is damaged: {self.remedy} ({reason})") from None


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """In what the plan of unfinished parts differs from ours; the key `truncate` is in both."""
    found = [key for key in new if old.get(key) != new[key]]
    # Whoever asks for truncation now finds whole texts, none of which was too long.
    return [key for key in found if key != "truncate" or not new[key]]


def make_part(model: Predictor, settings: EmbedSettings, path: Path, texts: Sequence[Placed]) -> None:
    """Embed the texts of a chunk; the part is visible only when it is whole."""
    plain = [text for _, text in texts]
    try:
        found = settings.embed(model, plain)
        arrays: dict[str, NDArray[Any]]
        if settings.level == "sentence":
            arrays, strings = {"vectors": found, "counts": np.ones(len(plain), np.int64)}, plain
        else:
            spans, strings = _spans(model, settings, plain)
            arrays = {
                "vectors": np.concatenate(found),
                "counts": np.array([len(rows) for rows in found]),
                "spans": spans,
            }
    except TooLongError as error:
        raise error.at(texts[error.number][0]) from None
    encoded = [string.encode() for string in strings]
    arrays["strings"] = np.frombuffer(b"".join(encoded), np.uint8)
    arrays["ends"] = np.cumsum([len(each) for each in encoded], dtype=np.int64)
    write_arrays(path, arrays, {})


def _spans(model: Predictor, settings: EmbedSettings, texts: Sequence[str]) -> tuple[Ints, list[str]]:
    """Characters of every word or token, and what it is; the template's special tokens are at 0 to 0."""
    spans: list[Ints] = []
    strings: list[str] = []
    for text, encoding in zip(texts, model.inputs.encode(texts, truncate=True), strict=True):
        inside = encoding.words >= 0
        if settings.level == "token":
            spans.append(np.where(inside[:, None], encoding.offsets, 0))
            strings += [model.tokenizer.piece(int(number)) for number in encoding.ids]
            continue
        offsets = encoding.offsets[inside]
        starts = np.flatnonzero(np.diff(encoding.words[inside], prepend=-1))
        ends = np.append(starts[1:], len(offsets))[: len(starts)] - 1
        words = np.column_stack((offsets[starts, 0], offsets[ends, 1]))
        spans.append(words)
        strings += [text[start:end] for start, end in words.tolist()]
    return np.concatenate(spans), strings


def make_parts(
    model: Predictor,
    settings: EmbedSettings,
    source: Source,
    column: str,
    folder: Path,
    takes: Callable[[int], bool],
    stage: Stage,
) -> tuple[list[Path], int]:
    """Make the parts of a file that are missing and ours; the paths of all, and how many texts were left."""
    paths: list[Path] = []
    alone = 0

    def jobs() -> Iterator[tuple[Path, list[Placed]]]:
        nonlocal alone
        for number, chunk in enumerate(_chunks(placed_texts(source, column), settings)):
            path = folder / f"{number:06d}.safetensors"
            paths.append(path)
            if takes(number) and not path.exists():
                yield path, chunk
            else:
                alone += len(chunk)
                stage.skip(_megabytes(chunk))

    def work(job: tuple[Path, list[Placed]]) -> tuple[int, float]:
        make_part(model, settings, *job)
        return len(job[1]), _megabytes(job[1])

    done = 0
    for texts, size in _whole_chunks(model, work, jobs()):
        done += texts
        stage.advance(size)
        stage.note(counted(done, "text"))
    if not paths:
        raise nothing_in(source, "text")
    return paths, alone


def _chunks(texts: Iterable[Placed], settings: EmbedSettings) -> Iterator[list[Placed]]:
    most, size = settings.chunk
    chunk: list[Placed] = []
    chars = 0
    for placed in texts:
        chunk.append(placed)
        chars += len(placed[1])
        if chars >= size or len(chunk) >= most:
            yield chunk
            chunk, chars = [], 0
    if chunk:
        yield chunk


def _megabytes(chunk: Sequence[Placed]) -> float:
    return sum(len(text) for _, text in chunk) / 1e6


def _whole_chunks(
    model: Predictor,
    work: Callable[[Any], tuple[int, float]],
    jobs: Iterable[Any],
) -> Iterator[tuple[int, float]]:
    """`work(job)` of every job, in order; each core does whole chunks, so that its bits are its own.

    Few are under way at a time, so that memory does not grow. A GPU and onnxruntime share out their work
    themselves, and need another chunk only to read and write meanwhile.
    """
    cores = torch.get_num_threads()
    shared = model.device.type != "cpu" or isinstance(model.model, OnnxModel)
    workers = 2 if shared else cores
    waiting: deque[Future[tuple[int, float]]] = deque()
    if not shared:
        torch.set_num_threads(1)  # threads that are started from now on have one core each
    pool = ThreadPoolExecutor(workers, "unmask")
    try:
        for job in jobs:
            waiting.append(pool.submit(work, job))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(cores)
