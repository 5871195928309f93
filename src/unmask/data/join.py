"""Part files -> shards: duplicates across the whole input are dropped, and everything is counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unmask.config import PrepareConfig
from unmask.data.shards import (
    SENTENCE_START,
    WORD_START,
    Array,
    file_facts,
    language_codes,
    read_arrays,
    token_dtype,
    write_arrays,
)
from unmask.progress import SILENT, Progress
from unmask.text import SPLITS

_MOST_HASHES = 8_000_000  # sorted at a time: about 300 MB


def join_parts(
    parts: Sequence[Path],
    out: Path,
    config: PrepareConfig,
    plan: Mapping[str, Any],
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write the shards of every split below `out` and return what the manifest says of them."""
    codes = language_codes(name for path in parts for name in read_arrays(path)[1]["languages"])
    languages = list(codes)
    keep = first_occurrences(parts) if config.deduplicate else None
    dtype = token_dtype(plan["tokenizer"]["vocab_size"])
    writers = [_SplitWriter(out, name, config.shard_tokens, dtype, languages) for name in SPLITS]
    dropped: Counter[str] = Counter()
    read = 0
    with progress.stage("joining", len(parts), "parts") as stage:
        at = 0
        for path in parts:
            arrays, facts = read_arrays(path)
            count = len(arrays["lengths"])
            ours = np.ones(count, bool) if keep is None else keep[at : at + count]
            at += count
            read += facts["read"]
            dropped.update(facts["dropped"])
            dropped["duplicate"] += int(np.sum(~ours))
            numbers = np.array([codes[name] for name in facts["languages"]], np.uint16)
            for split, writer in enumerate(writers):
                writer.add(arrays, ours & (arrays["splits"] == split), numbers)
            stage.advance(1)
    return {
        "languages": languages,
        "documents_read": read,
        "dropped": {reason: count for reason, count in sorted(dropped.items()) if count},
        "splits": {writer.name: writer.finish() for writer in writers},
    }


def first_occurrences(parts: Sequence[Path]) -> npt.NDArray[np.bool_]:
    """For every document, in order, whether its hash was not seen before; memory stays flat."""
    counts = [len(read_arrays(path)[0]["hashes"]) for path in parts]
    keep = np.zeros(sum(counts), bool)
    buckets = 1 + len(keep) // _MOST_HASHES
    starts = np.cumsum([0, *counts])
    for bucket in range(buckets):
        hashes, numbers = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for path, start in zip(parts, starts, strict=False):
            own = np.asarray(read_arrays(path)[0]["hashes"])
            here = np.flatnonzero(own % np.uint64(buckets) == bucket)
            hashes.append(own[here])
            numbers.append(here + start)
        _, first = np.unique(np.concatenate(hashes), return_index=True)
        keep[np.concatenate(numbers)[first]] = True
    return keep


class _SplitWriter:
    """Collects the documents of one split and writes a shard whenever enough tokens are there."""

    def __init__(self, out: Path, name: str, shard_tokens: int, dtype: Any, languages: list[str]) -> None:
        self.name, self._out, self._limit, self._dtype = name, out, shard_tokens, dtype
        self._languages = languages
        self._counts = {key: np.zeros(len(languages), np.int64) for key in _COUNTED}
        self._shards: list[dict[str, Any]] = []
        self._ready: list[dict[str, Array]] = []
        self._tokens = 0

    def add(self, arrays: Mapping[str, Array], chosen: npt.NDArray[np.bool_], numbers: Array) -> None:
        """Take the chosen documents of a part, in order."""
        if not chosen.any():
            return
        every = np.repeat(chosen, arrays["lengths"])
        taken = {
            "ids": arrays["ids"][every],
            "flags": arrays["flags"][every],
            "lengths": arrays["lengths"][chosen],
            "languages": numbers[arrays["languages"][chosen]],
        }
        self._count(taken, arrays["bytes"][chosen])
        while (room := self._limit - self._tokens) <= len(taken["ids"]):
            ends = np.cumsum(taken["lengths"])
            documents = int(np.searchsorted(ends, room)) + 1
            taken = self._close(taken, documents, int(ends[documents - 1]))
        self._ready.append(taken)
        self._tokens += len(taken["ids"])

    def finish(self) -> dict[str, Any]:
        """Write what is left and return the split's entry in the manifest."""
        if self._tokens:
            self._write()
        totals = {key: int(values.sum()) for key, values in self._counts.items()}
        by_language = {
            name: {key: int(values[number]) for key, values in self._counts.items()}
            for number, name in enumerate(self._languages)
        }
        return {**totals, "languages": by_language, "shards": self._shards}

    def _close(self, taken: dict[str, Array], documents: int, tokens: int) -> dict[str, Array]:
        cut = {"ids": tokens, "flags": tokens, "lengths": documents, "languages": documents}
        self._ready.append({name: values[: cut[name]] for name, values in taken.items()})
        self._write()
        return {name: values[cut[name] :] for name, values in taken.items()}

    def _write(self) -> None:
        arrays = {name: np.concatenate([part[name] for part in self._ready]) for name in self._ready[0]}
        self._ready, self._tokens = [], 0
        offsets = np.concatenate(([0], np.cumsum(arrays.pop("lengths")))).astype(np.int64)
        file = f"{self.name}/{len(self._shards):05d}.safetensors"
        write_arrays(self._out / file, {**arrays, "offsets": offsets}, {"documents": len(offsets) - 1})
        self._shards.append(
            {**file_facts(self._out, file), "documents": len(offsets) - 1, "tokens": int(offsets[-1])}
        )

    def _count(self, taken: Mapping[str, Array], sizes: Array) -> None:
        language, owner = taken["languages"], np.repeat(taken["languages"], taken["lengths"])
        for key, of, weight in (
            ("documents", language, None),
            ("tokens", owner, None),
            ("words", owner, (taken["flags"] & WORD_START) > 0),
            ("sentences", owner, (taken["flags"] & SENTENCE_START) > 0),
            ("bytes", language, sizes),
        ):
            counts = np.bincount(of, weight, len(self._languages))
            self._counts[key] += counts.astype(np.int64)


_COUNTED = ("documents", "tokens", "words", "sentences", "bytes")
