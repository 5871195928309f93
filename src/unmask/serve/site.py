"""What the routes share: the models, the queue, the limits; and texts on their way to it."""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from unmask.predict import Classifier
from unmask.serve.batcher import Batcher, BusyError, Lane
from unmask.serve.errors import ApiError, too_large
from unmask.serve.metrics import Measures
from unmask.serve.models import Served

Result = TypeVar("Result")
_SHORT = 20_000
"""Fewer characters are read at once; more would hold up other requests, so a thread reads them."""
_LONG = 5_000_000
"""More are not read or written for one request, where a text is repeated for each of many words."""


@dataclass(frozen=True)
class Limits:
    """What one request may ask, and how much may wait."""

    body_bytes: int = 2_000_000
    texts: int = 2048
    tokens: int = 262_144
    """Tokens that a request makes the model compute."""
    queue_tokens: int = 1_048_576
    seconds: float = 120.0


@dataclass
class Record:
    """What is told of a request in logs and headers; never its texts."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    begun: float = field(default_factory=time.perf_counter)
    model: str = ""
    texts: int = 0
    tokens: int = 0
    read: float = 0.0
    queued: float = 0.0
    computed: float = 0.0
    known: bool = True
    """The key was right, or none is needed."""


record: ContextVar[Record] = ContextVar("record")


@dataclass(frozen=True, eq=False)
class Site:
    """The server behind its routes."""

    models: dict[str, Served]
    batcher: Batcher
    measures: Measures
    limits: Limits = Limits()
    runs: Path | None = None
    key: str | None = None

    def model(self, name: str | None, able: Callable[[Served], bool], what: str) -> Served:
        """The model of that name, or the first one that is able to do what is asked."""
        if name is not None:
            served = self.named(name)
            if not able(served):
                offers = ", ".join(served.tasks)
                raise ApiError(422, "task", f"{name} does not do {what}; it does {offers}")
            return served
        for served in self.models.values():
            if able(served):
                return served
        raise ApiError(422, "task", f"no model that is loaded does {what}")

    def for_task(self, name: str | None, task: str) -> Served:
        """The model of that name, or the first one, that does a task."""
        return self.model(name, lambda served: task in served.tasks, task)

    def named(self, name: str) -> Served:
        """The model of that name."""
        if name not in self.models:
            raise ApiError(404, "model_not_found", f"no such model; loaded: {', '.join(self.models)}")
        return self.models[name]

    def check_count(self, texts: Sequence[Any]) -> None:
        """An error if a request has no texts, or too many."""
        if not texts:
            raise ApiError(400, "empty", "there is nothing to do: the list of inputs is empty")
        if len(texts) > self.limits.texts:
            raise too_large(f"{len(texts)} texts are too many: at most {self.limits.texts} go in a request")

    def check_tokens(self, cost: int) -> None:
        """An error if a request asks for too much."""
        if cost > self.limits.tokens:
            raise too_large(
                f"this would take {cost} tokens: at most {self.limits.tokens} go in a request, "
                "so send shorter texts, or fewer at a time"
            )

    def check_size(self, size: int) -> None:
        """An error if a request would have too many characters read or written, counted each time."""
        if size > _LONG:
            raise too_large(
                f"{size} characters are too many, counted again for each word: at most {_LONG} go through; "
                "send sentences rather than whole documents, or fewer words"
            )

    async def read(self, size: int, function: Callable[..., Result], *values: Any) -> Result:
        """`function(*values)`, which reads `size` characters."""
        begun = time.perf_counter()
        found = await asyncio.to_thread(function, *values) if size > _SHORT else function(*values)
        record.get().read += time.perf_counter() - begun
        return found

    async def lengths(
        self, served: Served, texts: Sequence[str], pairs: Sequence[str] | None = None
    ) -> list[int]:
        """Tokens of each text, or pair."""
        self.check_count(texts)
        size = sum(map(len, texts)) + sum(map(len, pairs or ()))
        tokenizer = served.predictor.tokenizer
        found = await self.read(size, tokenizer.ids_batch, texts, pairs)
        return [len(ids) for ids, _ in found]

    async def fitting(
        self,
        served: Served,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        truncate: bool = False,
        limit: int | None = None,
        what: str = "text",
    ) -> list[int]:
        """Tokens of each text, or pair, that the model will read; an error if one is too long for it."""
        limit = min(limit or served.longest, served.longest)
        lengths = await self.lengths(served, texts, pairs)
        for number, length in enumerate(lengths):
            if length > limit and not truncate:
                raise too_large(
                    f"{what} {number + 1} has {length} tokens, but {served.name} takes at most {limit}: "
                    'shorten it, or ask for "truncate": true where the route has it'
                )
        return [min(length, limit) for length in lengths]

    async def class_lengths(
        self, served: Served, texts: Sequence[str], pairs: Sequence[str] | None, truncate: bool
    ) -> list[int]:
        """As `fitting`, for a classifier, which may read long texts in windows."""
        classifier = served.predictor
        assert isinstance(classifier, Classifier)
        if served.refuses_long:
            return await self.fitting(served, texts, pairs, truncate, classifier.length)
        return await self.lengths(served, texts, pairs)

    async def compute(
        self,
        served: Served,
        function: Callable[..., Sequence[Any]],
        payloads: Sequence[Any],
        costs: Sequence[int],
        *options: Any,
    ) -> list[Any]:
        """Results of `function(served, payloads, *options)`, computed with whatever else waits."""
        cost = sum(costs)
        self.check_tokens(cost)
        told = record.get()
        told.model = served.name
        told.texts += len(payloads)
        told.tokens += cost
        try:
            results, timing = await self.batcher.submit(Lane(function, served, options), payloads, costs)
        except BusyError as busy:
            kind = "overloaded" if busy.status == 429 else "unhealthy"
            raise ApiError(busy.status, kind, str(busy), {"retry-after": str(busy.retry)}) from None
        told.queued += timing.queued
        told.computed += timing.computed
        return results
