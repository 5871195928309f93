"""A chunk of raw documents -> one part file, in this process or in several."""

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

import numpy as np

from unmask.config import Recipe
from unmask.data.encode import Encoder
from unmask.data.shards import Array, language_codes, write_arrays
from unmask.processes import worker_errors, worker_pool
from unmask.progress import Stage
from unmask.text import Cleaner, Document, split_of, text_hash
from unmask.tokenizer import Tokenizer


class PartPool:
    """Worker processes that make parts; with one worker the work is done in this process."""

    def __init__(self, workers: int, tokenizer: Tokenizer, recipe: Recipe) -> None:
        self._waiting: dict[Future[None], float] = {}
        self._limit = workers + 1
        self._executor = worker_pool(workers, _start_worker, tokenizer, recipe) if workers > 1 else None
        if self._executor is None:
            self._maker = PartMaker(tokenizer, recipe)

    def __enter__(self) -> "PartPool":
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor:
            self._executor.shutdown(wait=True, cancel_futures=True)

    def submit(self, path: Path, documents: list[Document], chars: float, stage: Stage) -> None:
        """Hand over a chunk; waits when enough are under way, so that memory stays flat."""
        if self._executor is None:
            self._maker.make(path, documents)
            stage.advance(chars)
            return
        while len(self._waiting) >= self._limit:
            self._collect(stage)
        with worker_errors():
            self._waiting[self._executor.submit(_work, path, documents)] = chars

    def drain(self, stage: Stage) -> None:
        """Wait for everything handed over."""
        while self._waiting:
            self._collect(stage)

    def _collect(self, stage: Stage) -> None:
        for future in wait(self._waiting, return_when=FIRST_COMPLETED).done:
            chars = self._waiting.pop(future)
            with worker_errors():
                future.result()
            stage.advance(chars)


class PartMaker:
    """Turns the documents of a chunk into a part file."""

    def __init__(self, tokenizer: Tokenizer, recipe: Recipe) -> None:
        self._encoder = Encoder(tokenizer)
        self._clean = Cleaner(recipe.text)
        self._config = recipe.prepare

    def make(self, path: Path, documents: Sequence[Document]) -> None:
        """Clean, hash, split and encode; the part is visible only when it is whole."""
        dropped: Counter[str] = Counter()
        texts: list[str] = []
        languages: list[str] = []
        hashes: list[int] = []
        seen: set[int] = set()
        for document in documents:
            text, reason = self._clean(document.text)
            mark = text_hash(text) if reason is None else 0
            if reason is None and self._config.deduplicate and mark in seen:
                reason = "duplicate"
            if reason is not None:
                dropped[reason] += 1
                continue
            seen.add(mark)
            texts.append(text)
            hashes.append(mark)
            languages.append(document.language)
        ids, flags, lengths = self._encoder.encode(texts)
        kept = lengths > 0  # a text of nothing the tokenizer keeps has no tokens
        dropped["empty"] += int(np.sum(~kept))
        config, codes = self._config, language_codes(languages)
        table: dict[str, Array] = {
            "lengths": lengths,
            "hashes": np.array(hashes, np.uint64),
            "splits": np.array([split_of(h, config.valid, config.test) for h in hashes], np.uint8),
            "languages": np.array([codes[language] for language in languages], np.uint16),
            "bytes": np.array([len(text.encode()) for text in texts], np.int64),
        }
        arrays = {"ids": ids, "flags": flags, **{name: column[kept] for name, column in table.items()}}
        write_arrays(path, arrays, {"languages": list(codes), "dropped": dropped, "read": len(documents)})


_maker: PartMaker


def _start_worker(tokenizer: Tokenizer, recipe: Recipe) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread for each worker
    global _maker
    _maker = PartMaker(tokenizer, recipe)


def _work(path: Path, documents: list[Document]) -> None:
    _maker.make(path, documents)
