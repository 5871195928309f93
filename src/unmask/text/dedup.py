"""Near-duplicates out, as a pass of its own: what grows with the corpus lies on disk, not in memory.

Sign every document (MinHash), let documents meet that agree on a band of their signatures, join those whose
signatures are alike enough, and keep the first document of every cluster.
"""

import json
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from unmask.config import TextConfig
from unmask.errors import ConfigError, OutputError
from unmask.files import atomic_path, check_new, disk_errors
from unmask.processes import folder_lock, worker_errors, worker_pool, workers_end_first
from unmask.progress import SILENT, Progress
from unmask.text.clean import Cleaner
from unmask.text.document import Document
from unmask.text.minhash import PERMUTATIONS, U64, signatures
from unmask.text.read import TextColumns, nothing_left, read_sources, say_passed_over
from unmask.text.sources import Source

I64 = NDArray[np.int64]
Joined = tuple[float, int, int]  # similarity, the two documents

_BATCH_CHARS = 1 << 20
_STEP = 1 << 21  # rows looked at or sorted at once
_MET = 0.98  # the least chance that a pair at the threshold meets in a band
_ROUNDS = 32  # heads tried per bucket; only a bucket of unlike documents needs more than one
_EXAMPLES = 5


@dataclass(frozen=True)
class Pair:
    """Two documents that were joined, from shortly before the place where they begin to differ."""

    similarity: float
    first: str
    second: str


@dataclass(frozen=True)
class DedupResult:
    """What a pass did; `examples` are the least similar pairs it joined, to judge the threshold by."""

    documents: int
    dropped: dict[str, int]
    near_duplicates: int
    kept: int
    examples: list[Pair]


def deduplicate(
    sources: Sequence[Source],
    output: Path,
    config: TextConfig,
    threshold: float = 0.8,
    workers: int = 1,
    progress: Progress = SILENT,
) -> DedupResult:
    """Clean the documents of the sources and write those that are like no earlier one to a .jsonl[.zst]."""
    if not 0.1 <= threshold <= 1:
        raise ConfigError(f"--threshold is {threshold}: give a Jaccard index from 0.1 to 1, for example 0.8")
    if not output.name.endswith((".jsonl", ".jsonl.zst")):
        raise OutputError(f"cannot write {output}: end its name with .jsonl or .jsonl.zst")
    with disk_errors(output), _room(output) as folder:
        rows = band_rows(threshold)
        count, dropped = _sign(sources, config, folder, rows, workers, progress)
        if not count:
            raise nothing_left(sources, dropped)
        clusters = _Clusters(folder, count)
        joined = _join(folder, rows, threshold, clusters, progress)
        kept, texts = _write(folder, output, clusters, {i for _, *pair in joined for i in pair}, progress)
    return DedupResult(
        documents=count + dropped.total(),
        dropped=dict(dropped),
        near_duplicates=count - kept,
        kept=kept,
        examples=[_pair(similarity, texts[a], texts[b]) for similarity, a, b in joined],
    )


@contextmanager
def _room(output: Path) -> Iterator[Path]:
    """A folder to work in beside the output, which is ours alone until then; it goes at the end."""
    folder = output.with_name(f".{output.name}.dedup")
    lock = folder / "lock"
    with folder_lock(lock, output):
        try:
            check_new(output)
            yield folder
        finally:
            with suppress(OSError):  # the lock last: once it is gone, what comes there is of others
                for path in sorted(folder.iterdir(), key=lock.__eq__):
                    path.unlink()
                folder.rmdir()


def band_rows(threshold: float) -> int:
    """How many entries make a band: as many as let a pair at the threshold meet almost surely."""
    rows = range(PERMUTATIONS, 1, -1)
    return next((r for r in rows if 1 - (1 - threshold**r) ** (PERMUTATIONS // r) >= _MET), 1)


def _sign(
    sources: Sequence[Source], config: TextConfig, folder: Path, rows: int, workers: int, progress: Progress
) -> tuple[int, Counter[str]]:
    """Write every clean document, its signature and the keys of its bands to the folder, as they come."""
    count = 0
    dropped: Counter[str] = Counter()
    with ExitStack() as stack:
        names = ["documents.jsonl", "signatures", *(_band(band) for band in range(PERMUTATIONS // rows))]
        texts, signs, *bands = (stack.enter_context((folder / name).open("wb")) for name in names)
        stage = stack.enter_context(progress.stage("sign", unit="MB"))
        for batch in _signed(_batches(sources, config, progress), Cleaner(config), workers):
            dropped.update(batch.dropped)
            texts.write(batch.lines)
            signs.write(batch.signatures.tobytes())
            for band, file in enumerate(bands):
                file.write(_keys(batch.signatures[:, band * rows : (band + 1) * rows]).tobytes())
            count += len(batch.signatures)
            stage.advance(len(batch.lines) / 1e6)
    return count, dropped


def _batches(sources: Sequence[Source], config: TextConfig, progress: Progress) -> Iterator[list[Document]]:
    batch: list[Document] = []
    empty: list[Source] = []
    size = 0
    for doc in read_sources(sources, config, empty, TextColumns(config, progress)):
        batch.append(doc)
        size += len(doc.text)
        if size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    yield batch
    say_passed_over(empty, sources, progress)


@dataclass(frozen=True)
class _Batch:
    lines: bytes
    signatures: NDArray[np.uint32]
    dropped: Counter[str]


def _signed(batches: Iterator[list[Document]], cleaner: Cleaner, workers: int) -> Iterator[_Batch]:
    """Clean and sign in this process or in several; in order, and few batches under way at a time."""
    if workers == 1:
        yield from (_sign_batch(batch, cleaner) for batch in batches)
        return
    waiting: deque[Future[_Batch]] = deque()
    with worker_errors(), workers_end_first(), worker_pool(workers) as pool:
        for batch in batches:
            waiting.append(pool.submit(_sign_batch, batch, cleaner))
            if len(waiting) > workers + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _sign_batch(documents: list[Document], cleaner: Cleaner) -> _Batch:
    dropped: Counter[str] = Counter()
    texts: list[str] = []
    lines: list[str] = []
    for doc in documents:
        text, reason = cleaner(doc.text)
        if reason:
            dropped[reason] += 1
            continue
        texts.append(text)
        lines.append(json.dumps({"text": text, "language": doc.language}, ensure_ascii=False) + "\n")
    return _Batch("".join(lines).encode(), signatures(texts), dropped)


def _band(band: int) -> str:
    return f"band-{band}"


def _keys(columns: NDArray[np.uint32]) -> U64:
    """One number per row; rows are equal where it is, but for one chance in 2⁶⁴."""
    keys = np.zeros(len(columns), dtype=np.uint64)
    for column in columns.T:
        keys = (keys ^ column) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
    return keys


class _Clusters:
    """Union-find over documents, on disk; the root of a cluster is its first document."""

    def __init__(self, folder: Path, count: int) -> None:
        path = folder / "parents"
        with path.open("wb") as file:  # written, not mapped: where no room is left, a map ends the process
            for start in range(0, count, _STEP):
                file.write(np.arange(start, min(start + _STEP, count), dtype=np.int64).tobytes())
        self.parents: I64 = np.memmap(path, dtype=np.int64, mode="r+")

    def root(self, doc: int) -> int:
        parents = self.parents
        while (parent := int(parents[doc])) != doc:
            parents[doc] = parents[parent]
            doc = parent
        return doc

    def join(self, first: int, second: int) -> None:
        a, b = sorted((self.root(first), self.root(second)))
        self.parents[b] = a

    def kept(self) -> Iterator[bool]:
        """For every document, whether it is the first of its cluster."""
        for start in range(0, len(self.parents), _STEP):
            chunk = self.parents[start : start + _STEP]
            yield from (chunk == np.arange(start, start + len(chunk))).tolist()


def _join(folder: Path, rows: int, threshold: float, clusters: _Clusters, progress: Progress) -> list[Joined]:
    """Join what is alike enough; gives the least similar pairs joined."""
    count = len(clusters.parents)
    signs = np.memmap(folder / "signatures", dtype=np.uint32, mode="r", shape=(count, PERMUTATIONS))
    examples: list[Joined] = []
    bands = PERMUTATIONS // rows
    with progress.stage("compare", bands, "bands") as stage:
        for band in range(bands):
            keys = np.memmap(folder / _band(band), dtype=np.uint64, mode="r")
            for part in range(parts := count // _STEP + 1):
                for joined in _meetings(*_partition(keys, part, parts), signs, threshold, clusters):
                    examples = sorted({*examples, *joined})[:_EXAMPLES]
            stage.advance(1)
    return examples


def _partition(keys: U64, part: int, parts: int) -> tuple[U64, I64]:
    """The keys of one partition with their documents, sorted by key, then document."""
    docs = np.concatenate(
        [
            start + np.flatnonzero(keys[start : start + _STEP] % np.uint64(parts) == part)
            for start in range(0, len(keys), _STEP)
        ]
    )
    own = keys[docs]
    order = np.argsort(own, kind="stable")
    return own[order], docs[order]


def _meetings(
    keys: U64, docs: I64, signs: NDArray[np.uint32], threshold: float, clusters: _Clusters
) -> Iterator[list[Joined]]:
    """Compare documents with the first of their bucket; those unlike it try again among themselves."""
    for _ in range(_ROUNDS):
        following = np.concatenate(([False], keys[1:] == keys[:-1]))
        if not following.any():
            return
        heads = np.maximum.accumulate(np.where(following, 0, np.arange(len(keys))))[following]
        first, second, keys = docs[heads], docs[following], keys[following]
        alike = clusters.parents[first] == clusters.parents[second]  # joined in an earlier band
        open_pairs = np.flatnonzero(~alike)
        for start in range(0, len(open_pairs), 1 << 14):
            pairs = open_pairs[start : start + (1 << 14)]
            similarity = (signs[first[pairs]] == signs[second[pairs]]).mean(axis=1)
            enough = similarity >= threshold
            alike[pairs] = enough
            joined = list(
                zip(
                    similarity[enough].tolist(),
                    first[pairs[enough]].tolist(),
                    second[pairs[enough]].tolist(),
                    strict=True,
                )
            )
            for _, a, b in joined:
                clusters.join(a, b)
            yield sorted(joined)[:_EXAMPLES]
        keys, docs = keys[~alike], second[~alike]


def _write(
    folder: Path, output: Path, clusters: _Clusters, wanted: set[int], progress: Progress
) -> tuple[int, dict[int, str]]:
    """Copy the documents that stay; gives their number and the texts of the wanted ones."""
    kept = 0
    texts: dict[int, str] = {}
    total = len(clusters.parents)
    with (
        atomic_path(output) as temporary,
        (folder / "documents.jsonl").open("rb") as lines,
        _open_output(temporary, output.suffix == ".zst") as file,
        progress.stage("write", total, "documents") as stage,
    ):
        for index, (line, keep) in enumerate(zip(lines, clusters.kept(), strict=True)):
            if keep:
                file.write(line)
                kept += 1
            if index in wanted:
                texts[index] = json.loads(line)["text"]
            if index % 1000 == 999 or index == total - 1:
                stage.advance(index % 1000 + 1)
    return kept, texts


def _open_output(path: Path, compressed: bool) -> IO[bytes]:
    if not compressed:
        return path.open("wb")
    import pyarrow as pa

    stream: Any = pa.output_stream(str(path), compression="zstd", buffer_size=1 << 16)
    return stream  # type: ignore[no-any-return]


def _pair(similarity: float, first: str, second: str) -> Pair:
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
    begin = max(0, common - 60)
    return Pair(round(similarity, 3), first[begin : begin + 160], second[begin : begin + 160])
