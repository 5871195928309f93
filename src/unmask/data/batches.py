"""Units -> batches of packed tensors with their targets, resumable to the unit.

T tokens, S sequences, M targets
"""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from itertools import repeat
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from unmask.config import BatchConfig
from unmask.data.masking import NEXT, Draws, Ints, Kinds, Masked, Masker, Text, mask_ratio
from unmask.data.packing import Documents, costs
from unmask.data.plan import HIDE, Plan, Position, Units, Window, generator
from unmask.data.shards import WORD_START, ranges
from unmask.errors import ConfigError, UserError
from unmask.processes import end_with_parent, signals_held

Asked = TypeVar("Asked")
Made = TypeVar("Made")

LONGEST_PAGE = 256  # tokens: what a page costs grows with their square
LONGEST_ASKED = 512  # the same where whoever asks for pages has more to gain: a step in one launch


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences one after the other, and what to predict."""

    ids: Tensor  # i64[T]
    positions: Tensor  # i64[T], from 0 in each sequence
    cu_seqlens: Tensor  # i32[S + 1], where each sequence begins
    max_seqlen: int
    causal: bool
    target_index: Tensor  # i64[M], the token that predicts
    target_ids: Tensor  # i64[M], what it should predict
    target_kind: Tensor  # u8[M]: masking.MASK, RANDOM, KEPT or NEXT
    languages: Tensor  # i64[S], index into the corpus' language names
    segments: Tensor | None = None  # i64[T]: 0 in the first text of a pair, 1 in the second
    spans: Tensor | None = None  # i64[M, 3]: token before the span, token after it, place from 1
    pair_labels: Tensor | None = None  # i64[S]: 0 adjacent or in order, 1 not, pairs.NO_PAIR no pair
    page: int | None = None
    """No sequence crosses a multiple of this many tokens; each page's empty rest is a sequence too."""
    empty: int = 0
    """Tokens of such rests."""

    @property
    def tokens(self) -> int:
        """Tokens that hold something."""
        return len(self.ids) - self.empty

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """The same batch in memory from which a GPU copies fastest."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Any) -> Self:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self)(**{k: change(v) if isinstance(v, Tensor) else v for k, v in values.items()})


@dataclass(frozen=True, slots=True)
class Objective:
    """What one batch is for: masked tokens, a `ratio` of all, or the next token at every place."""

    kind: Literal["mlm", "causal"] = "mlm"
    ratio: float = 0.15


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that decides a batch; small, so that it travels to a worker in place of the plan."""

    units: Units
    objective: Objective


class Batches:
    """Batches of a corpus: a pure function of (corpus, config, seed) and the units asked for.

    A step takes the next `units_per_step` units, and of these a rank takes every `ranks`-th. Workers build
    tensors from the memory-mapped corpus; where there are several, one more plans.
    """

    def __init__(
        self,
        documents: Documents,
        config: BatchConfig,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
        pages: bool = False,
    ) -> None:
        if not 0 <= rank < ranks:
            raise ConfigError(f"there is no rank {rank} of {ranks}: ranks are counted from 0")
        self._documents, self._config, self._seed = documents, config, seed
        self._rank, self._ranks = rank, ranks
        self._plan = Plan(documents, config, seed)
        self._builder = Builder(documents, config, seed, pages)

    @property
    def fill_rate(self) -> float:
        """The share of the units' room that holds tokens, over what has been planned so far."""
        return self._plan.tokens / self._plan.capacity if self._plan.capacity else 1.0

    def requests(
        self,
        start: Position,
        units_per_step: int | Iterable[int],
        objectives: Iterable[Objective],
        windows: Iterable[Window] | None = None,
    ) -> Iterator[tuple[Request, Position]]:
        """This rank's part of each step, one step per objective, and the position after the step."""
        sizes = repeat(units_per_step) if isinstance(units_per_step, int) else units_per_step
        steps = self._plan.units(start, sizes, windows)
        for objective, (units, position) in zip(objectives, steps, strict=False):
            yield Request(self._ours(units), objective), position

    def _ours(self, units: Units) -> Units:
        return units if self._ranks == 1 else units.only(np.arange(len(units)) % self._ranks == self._rank)

    def batch(self, request: Request) -> Batch:
        """Build one batch."""
        return self._builder.build(request)

    def steps(
        self,
        start: Position,
        units_per_step: int | Iterable[int],
        objectives: Iterable[Objective] | None = None,
        workers: int = 0,
        pin: bool = False,
    ) -> Iterator[tuple[Batch, Position]]:
        """One batch per objective (without end by default), with the position to save after it."""
        if objectives is None:
            objectives = repeat(Objective(ratio=mask_ratio(self._config.mask, 0)))
        positions: deque[Position] = deque()

        def ask(windows: Iterable[Window] | None) -> Iterator[Request]:
            for request, position in self.requests(start, units_per_step, objectives, windows):
                positions.append(position)
                yield request

        with ExitStack() as running:
            windows = None
            if workers > 1:
                windows = running.enter_context(_made(self._plan.window, self._plan.turns(start), 1))
            batches = running.enter_context(_made(self._builder.build, ask(windows), workers, pin))
            for batch in batches:
                yield batch, positions.popleft()

    def units_holding(self, tokens: int) -> int:
        """How many units of `one_pass` hold so many tokens; all, if they hold fewer."""
        found = 0
        for units, _ in self._natural().units(Position(), repeat(1)):
            if tokens <= 0 or units.epochs[0]:
                break
            tokens -= int(costs(units.sequences, self._documents.special.pair_separators).sum())
            found += 1
        return found

    def _natural(self) -> Plan:
        """The plan of one pass: languages in their own shares."""
        return Plan(self._documents, self._config.model_copy(update={"alpha": 1.0}), self._seed)

    def one_pass(
        self,
        units_per_batch: int | Iterable[int],
        workers: int = 0,
        pin: bool = False,
        objective: Objective | None = None,
    ) -> Iterator[Batch]:
        """Every document once, in the natural shares of languages, with masks that never change.

        Where the sizes of the batches are given one by one, it ends with the last of them.
        """
        plan = self._natural()
        objective = objective or Objective(ratio=mask_ratio(self._config.mask, 1))
        sizes = repeat(units_per_batch) if isinstance(units_per_batch, int) else units_per_batch

        def ask() -> Iterator[Request]:
            for units, _ in plan.units(Position(), (size * self._ranks for size in sizes)):
                mine = self._ours(units)
                mine = mine.only(mine.epochs == 0)
                if len(mine):
                    yield Request(mine, objective)
                if units.epochs[-1]:
                    break

        with _made(self._builder.build, ask(), workers, pin) as batches:
            yield from batches


@contextmanager
def _made(
    make: Callable[[Asked], Made], asked: Iterator[Asked], workers: int, pin: bool = False
) -> Iterator[Iterator[Made]]:
    """What `make` gives for each thing that is asked, in order, made ahead by so many processes."""
    once = _Once(asked)
    loader: DataLoader[Made | UserError] = DataLoader(
        _Making(make),
        batch_size=None,
        sampler=once,
        num_workers=workers,
        worker_init_fn=end_with_parent,
        pin_memory=pin,
        generator=torch.Generator(),  # else it would draw from the global one
    )
    others, found = multiprocessing.active_children(), None
    try:
        with signals_held(signal.SIGINT, signal.SIGTERM):  # their parent may need one more batch
            found = iter(loader)
        yield _told(found, once)
    finally:  # an error's traceback may keep them alive, and Python would wait for them at its end
        if workers and found is not None:
            found._shutdown_workers()  # type: ignore[attr-defined]
        elif workers:  # it failed while they began: they hear of nothing gentler
            for process in set(multiprocessing.active_children()) - set(others):
                process.kill()
                process.join()


def _told(found: Iterator[Made | UserError], once: "_Once") -> Iterator[Made]:
    for each in _received(found):
        if isinstance(each, UserError):
            raise each
        yield each
    if once.error:
        raise once.error


def _received(found: Iterator[Made | UserError]) -> Iterator[Made | UserError]:
    """What others made; one that dies while it hands something over breaks the line, in one of two ways."""
    try:
        yield from found
    except (ConnectionError, EOFError) as error:
        raise BrokenProcessPool("a process that makes batches died") from error


class _Once:
    """What DataLoader calls a sampler: what is asked, in order."""

    def __init__(self, asked: Iterator[Any]) -> None:
        self._asked = asked
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._asked
        except Exception as error:  # raised while workers begin, it would leave them without an end
            self.error = error


class _Making(Dataset[Any]):
    """What DataLoader calls a dataset."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __getitem__(self, asked: Any) -> Any:
        try:
            return self._make(asked)
        except UserError as error:
            return error  # raised in a worker it would come back as a long text


class Builder:
    """Builds a batch from a request; all that a worker needs."""

    def __init__(self, documents: Documents, config: BatchConfig, seed: int, pages: bool) -> None:
        self._documents, self._seed = documents, seed
        # Kernels for sequences of any length take 128 queries at a time: sentences share pages instead.
        longest = LONGEST_ASKED if pages else LONGEST_PAGE if config.sentences else 0
        self._page = config.length if config.length <= longest else None
        self._masker = Masker(config.mask, documents.vocab_size, documents.special)
        self._reserved = np.zeros(documents.vocab_size, np.bool_)
        self._reserved[list(documents.special.all)] = True

    def build(self, request: Request) -> Batch:
        """The batch of a request."""
        table = request.units.sequences
        sizes = costs(table, self._documents.special.pair_separators)
        places = _places(sizes, request.units.counts, self._page)
        bounds = places.bounds
        ids, flags = self._write(table, places)
        causal = request.objective.kind == "causal"
        masked = _next_tokens(ids, places) if causal else self._hide(request, ids, flags, places)
        pairs = table.shape[1] > 3
        owners = np.searchsorted(places.starts, bounds[:-1], side="right") - 1
        return Batch(
            ids=torch.from_numpy(masked.ids),
            positions=torch.from_numpy(np.arange(len(ids)) - np.repeat(bounds[:-1], np.diff(bounds))),
            cu_seqlens=torch.from_numpy(bounds.astype(np.int32)),
            max_seqlen=int(np.diff(bounds).max()),
            causal=causal,
            target_index=torch.from_numpy(masked.index),
            target_ids=torch.from_numpy(masked.originals),
            target_kind=torch.from_numpy(masked.kinds),
            languages=torch.from_numpy(self._documents.languages[table[owners, 0]].astype(np.int64)),
            segments=torch.from_numpy(_segments(table, bounds)) if pairs else None,
            spans=None if masked.spans is None else torch.from_numpy(masked.spans),
            pair_labels=torch.from_numpy(table[:, 6].copy()) if pairs else None,
            page=self._page,
            empty=len(ids) - int(sizes.sum()),
        )

    def _write(self, table: Ints, places: "Places") -> tuple[Ints, Kinds]:
        special = self._documents.special
        ids = np.full(int(places.bounds[-1]), special.sep, np.int64)
        flags = np.zeros(len(ids), np.uint8)
        ids[places.starts] = special.cls
        begins, sizes = places.starts + 1, table[:, 2] - table[:, 1]
        where, pieces = ranges(begins, sizes), table[:, :3]
        if table.shape[1] > 3 and (second := table[:, 5] > 0).any():
            ends = (begins + sizes + special.pair_separators)[second]
            more = table[second, 3:6]
            where = np.concatenate([where, ranges(ends, more[:, 2] - more[:, 1])])
            pieces = np.concatenate([pieces, more])
        ids[where], flags[where] = self._documents.parts(pieces)
        return ids, flags

    def _hide(self, request: Request, ids: Ints, flags: Kinds, places: "Places") -> Masked:
        text = Text(self._reserved[ids], (flags & WORD_START).astype(np.bool_), places.units)
        units = zip(request.units.epochs.tolist(), request.units.numbers.tolist(), strict=True)
        draws = Draws([generator(self._seed, HIDE, epoch, number) for epoch, number in units])
        return self._masker(ids, text, request.objective.ratio, draws)


class Places(NamedTuple):
    """Where things lie among the tokens of a batch."""

    starts: Ints
    """Where each text begins."""
    bounds: Ints
    """Where each sequence begins, the empty rests of pages included, and the end of the last."""
    units: Ints
    """Where each unit begins, and the end of the last."""


def _places(sizes: Ints, counts: Ints, page: int | None) -> Places:
    """Texts of these sizes one after the other; with pages every unit, so many texts, begins a new one."""
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    units = bounds[np.concatenate([[0], np.cumsum(counts)])]
    if page is None:
        return Places(bounds[:-1], bounds, units)
    pages = page * np.arange(len(units))
    moved = pages[:-1] - units[:-1]
    starts = bounds[:-1] + np.repeat(moved, counts)
    return Places(starts, np.unique(np.concatenate([starts, units[1:] + moved, pages[-1:]])), pages)


def _next_tokens(ids: Ints, places: Places) -> Masked:
    last = np.zeros(len(ids), np.bool_)
    last[places.bounds[1:] - 1] = True
    rests = ~np.isin(places.bounds[:-1], places.starts)
    index = np.flatnonzero(~last & ~np.repeat(rests, np.diff(places.bounds)))
    return Masked(ids, index, ids[index + 1], np.full(len(index), NEXT, np.uint8), None)


def _segments(table: Ints, bounds: Ints) -> Ints:
    """1 in the second text and its separator, 0 elsewhere."""
    second = table[:, 5] - table[:, 4]
    second += second > 0
    total = np.diff(bounds)
    return np.repeat(np.tile([0, 1], len(table)), np.stack([total - second, second], axis=1).ravel())
