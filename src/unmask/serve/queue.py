"""What waits to be computed: pure, without threads, models or clocks.

A request is a `Ticket` with one item per text. Items of one lane (model, task and settings) can be computed
together. The lane whose first item waits longest is served, in the order of arrival, up to a token budget.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar

Lane = TypeVar("Lane")


class FullError(Exception):
    """There is no room for a request now; it is refused whole."""


@dataclass(eq=False)
class Ticket:
    """A request and what has been found for it."""

    results: list[Any]
    missing: int
    """Items without a result."""
    waiting: int = 0
    """Items not yet taken."""
    tokens: int = 0
    """Their cost."""
    closed: bool = False
    """Nobody wants the rest: the client left, its time is over, or one of its items failed."""


@dataclass(eq=False, slots=True)
class Item:
    """One text of a request."""

    ticket: Ticket
    number: int
    payload: Any
    cost: int
    order: int


@dataclass(eq=False)
class Queue(Generic[Lane]):
    """Items by lane, bounded by their cost in tokens."""

    limit: int
    tokens: int = 0
    size: int = 0
    _lanes: dict[Lane, deque[Item]] = field(default_factory=dict)
    _orders: "count[int]" = field(default_factory=count)

    def add(self, lane: Lane, payloads: Sequence[Any], costs: Sequence[int]) -> Ticket:
        """Accept a request whole, or raise `FullError`; an empty queue takes a request of any size."""
        cost = sum(costs)
        if self.tokens and self.tokens + cost > self.limit:
            raise FullError
        ticket = Ticket([None] * len(payloads), len(payloads), len(payloads), cost)
        items = self._lanes.setdefault(lane, deque())
        for number, (payload, each) in enumerate(zip(payloads, costs, strict=True)):
            items.append(Item(ticket, number, payload, each, next(self._orders)))
        self.tokens += cost
        self.size += len(payloads)
        return ticket

    def take(self, budget: int) -> tuple[Lane, list[Item]] | None:
        """The next batch: at most `budget` tokens, or one item that is larger; None if nothing waits."""
        for lane, items in list(self._lanes.items()):
            while items and items[0].ticket.closed:
                items.popleft()
            if not items:
                del self._lanes[lane]
        if not self._lanes:
            return None
        lane = min(self._lanes, key=lambda name: self._lanes[name][0].order)
        items, batch = self._lanes[lane], [self._lanes[lane].popleft()]
        room = budget - batch[0].cost
        while items and (items[0].ticket.closed or items[0].cost <= room):
            item = items.popleft()
            if not item.ticket.closed:
                batch.append(item)
                room -= item.cost
        for item in batch:
            self._leave(item.ticket, 1, item.cost)
        return lane, batch

    def close(self, ticket: Ticket) -> None:
        """Drop what still waits of a request."""
        if not ticket.closed:
            ticket.closed = True
            self._leave(ticket, ticket.waiting, ticket.tokens)

    def _leave(self, ticket: Ticket, items: int, cost: int) -> None:
        ticket.waiting -= items
        ticket.tokens -= cost
        self.size -= items
        self.tokens -= cost
