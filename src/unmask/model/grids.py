"""Packed sequences side by side: where each token lies in grids that ordinary kernels take.

Sequences of like length form a grid and are filled up; of long ones under a window each piece of queries is a
row with the keys around it. How far a sequence is filled follows from its own length, so that its result does
not depend on the others in its batch. One look-up brings tokens, heads and fill in order, and knows its
inverse: gradients are looked up, too.

T tokens of all sequences · n rows of a grid · H heads · d width of a head · R = T · H vectors · P places
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]

_MOST = 1 << 21  # scores of a grid: near the caches
_STEPS = ((128, 16), (256, 32), (512, 64))  # sequences of up to so many tokens: filled to a multiple of this
_PIECE = 16  # queries of a piece, at least


class Rows(NamedTuple):
    """Rows of one grid: for each, where its sequence begins, how long it is, and its first query."""

    starts: Ints
    lengths: Ints
    first: Ints
    queries: int
    keys: int
    back: int
    """How many keys lie before the first query."""

    def places(self) -> tuple[Ints, Ints, Ints]:
        """Of each query and each key its place in the sequence (n, l), and the sequence's length (n, 1)."""
        queries = self.first[:, None] + np.arange(self.queries)
        keys = self.first[:, None] - self.back + np.arange(self.keys)
        return queries, keys, self.lengths[:, None]


@dataclass(frozen=True, eq=False)
class Side:
    """Queries or keys of all grids, one after the other."""

    index: Tensor
    """Of each place the vector that lies there: (P), rows × heads × length; fill repeats a vector."""
    inverse: Tensor
    """Of each vector its place (R), or its places (R, m), the last ones fill where it has fewer."""
    fill: Tensor
    """The places that hold nothing."""

    def to(self, device: torch.device) -> "Side":
        """The same on another device."""
        return Side(self.index.to(device), self.inverse.to(device), self.fill.to(device))

    def spread(self, x: Tensor) -> Tensor:
        """Vectors (T, H, d) at their places (P, d)."""
        if not (x.requires_grad and torch.is_grad_enabled()):
            return x.reshape(-1, x.shape[-1]).index_select(0, self.index)
        out: Tensor = _Spread.apply(x, self.index, self.inverse)  # type: ignore[no-untyped-call]
        return out

    def collect(self, x: Tensor) -> Tensor:
        """The vectors (R, d) that lie at these places (P, d)."""
        if not (x.requires_grad and torch.is_grad_enabled()):
            return x.index_select(0, self.inverse)
        out: Tensor = _Collect.apply(x, self.inverse, self.index, self.fill)  # type: ignore[no-untyped-call]
        return out


@dataclass(frozen=True, eq=False)
class Grids:
    """All grids of a batch."""

    queries: Side
    keys: Side
    shapes: Sequence[tuple[int, int, int]]
    """Of each grid rows, queries, keys."""
    hidden: Sequence[Tensor | None]
    """Of each grid what a query does not see: bool, (n, 1, l or 1, keys); None: it sees all."""
    heads: int

    def to(self, device: torch.device) -> "Grids":
        """The same on another device."""
        if self.queries.index.device == device:
            return self
        hidden = [None if each is None else each.to(device) for each in self.hidden]
        queries = self.queries.to(device)
        keys = queries if self.keys is self.queries else self.keys.to(device)
        return replace(self, queries=queries, keys=keys, hidden=hidden)

    def spread(self, q: Tensor, k: Tensor, v: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Any]]:
        """Queries, keys and values (n, H, l, d) of each grid, and what is hidden in it."""
        sizes = [(n * self.heads * a, n * self.heads * b) for n, a, b in self.shapes]
        rows = torch.split(self.queries.spread(q), [a for a, _ in sizes])
        others = [torch.split(self.keys.spread(x), [b for _, b in sizes]) for x in (k, v)]
        for (n, _, _), hidden, *parts in zip(self.shapes, self.hidden, rows, *others, strict=True):
            a, b, c = (part.view(n, self.heads, -1, part.shape[-1]) for part in parts)
            yield a, b, c, hidden

    def collect(self, outputs: Sequence[Tensor]) -> Tensor:
        """The tokens' vectors (T, H, d) again."""
        whole = torch.cat([each.flatten(0, 2) for each in outputs]) if len(outputs) > 1 else outputs[0]
        return self.queries.collect(whole.reshape(-1, whole.shape[-1])).view(-1, self.heads, whole.shape[-1])


class _Spread(torch.autograd.Function):
    """Vectors to their places. A place of fill gets no gradient: no query sees it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        ctx.shape = x.shape
        return x.reshape(-1, x.shape[-1]).index_select(0, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        found = gradient.index_select(0, inverse.flatten())
        if inverse.ndim > 1:
            found = found.view(*inverse.shape, -1).sum(1)
        return found.view(ctx.shape), None, None


class _Collect(torch.autograd.Function):
    """The way back; what lies in the fill is dropped."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inverse: Tensor, index: Tensor, fill: Tensor) -> Tensor:
        ctx.save_for_backward(index, fill)
        return x.index_select(0, inverse)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        index, fill = ctx.saved_tensors
        return gradient.index_select(0, index).index_fill_(0, fill, 0.0), None, None, None


def in_pieces(length: int, window: int | None) -> bool:
    """Whether a sequence is so long for the window that its queries are taken in pieces."""
    return window is not None and length > 4 * _piece(window)


def _piece(window: int) -> int:
    return max(window, _PIECE)


def make_grids(bounds: NDArray[np.int32], window: int | None, causal: bool, heads: int) -> Grids:
    """Grids of the sequences between these bounds, for blocks that see so far."""
    rows = list(_rows(bounds.astype(np.int64), window, causal, heads))
    count = int(bounds[-1]) * heads
    hidden, queries, keys = [], [], []
    for each in rows:
        asked, offered, length = each.places()
        begin = each.starts[:, None]
        there = (offered >= 0) & (offered < length)
        queries.append(_look_up(begin + np.minimum(asked, length - 1), asked < length, heads))
        if each.back:
            keys.append(_look_up(begin + np.clip(offered, 0, length - 1), there, heads))
        else:
            keys.append(queries[-1])
        hidden.append(_hidden(each, asked < length, there, window, causal))
    one = _side(queries, count)
    other = _side(keys, count) if any(each.back for each in rows) else one
    return Grids(one, other, [(len(each.starts), each.queries, each.keys) for each in rows], hidden, heads)


def _rows(bounds: Ints, window: int | None, causal: bool, heads: int) -> Iterator[Rows]:
    """Longest first, so that neighbours are alike."""
    lengths = np.diff(bounds)
    order = np.argsort(-lengths, kind="stable")[: int((lengths > 0).sum())]
    starts, lengths = bounds[:-1][order], lengths[order]
    done = 0
    if window is not None:
        piece = _piece(window)
        after = 0 if causal else window
        keys = piece + window + after
        done = sum(in_pieces(length, window) for length in lengths.tolist())
        counts = -(-lengths[:done] // piece)
        first = piece * (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))
        begin, size = np.repeat(starts[:done], counts), np.repeat(lengths[:done], counts)
        most = max(1, _MOST // (heads * piece * keys))
        for a in range(0, len(first), most):
            part = slice(a, a + most)
            yield Rows(begin[part], size[part], first[part], piece, keys, window)
    while done < len(lengths):
        step = next((step for most, step in _STEPS if lengths[done] <= most), 1)
        room = -(-int(lengths[done]) // step) * step
        alike = int((lengths[done:] > room - step).sum())
        stop = done + min(alike, max(1, _MOST // (heads * room**2)))
        nothing = np.zeros(stop - done, np.int64)
        yield Rows(starts[done:stop], lengths[done:stop], nothing, room, room, 0)
        done = stop


def _look_up(tokens: Ints, there: NDArray[np.bool_], heads: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Of each place (n, H, l) its vector, and whether it holds one."""
    vectors = tokens[:, None] * heads + np.arange(heads)[:, None]
    return vectors.ravel(), np.broadcast_to(there[:, None], vectors.shape).ravel()


def _side(parts: Sequence[tuple[Ints, NDArray[np.bool_]]], count: int) -> Side:
    index = np.concatenate([vectors for vectors, _ in parts]) if parts else np.zeros(0, np.int64)
    there = np.concatenate([held for _, held in parts]) if parts else np.zeros(0, np.bool_)
    places, fill = np.flatnonzero(there), np.flatnonzero(~there)
    vectors = index[places]
    times = np.bincount(vectors, minlength=count)
    most = int(times.max(initial=1))
    if most == 1:
        inverse = np.empty(count, np.int64)
        inverse[vectors] = places
    else:
        inverse = np.full((count, most), fill[0])
        order = np.argsort(vectors, kind="stable")
        turn = np.arange(len(order)) - np.repeat(np.cumsum(times) - times, times)
        inverse[vectors[order], turn] = places[order]
    return Side(torch.from_numpy(index), torch.from_numpy(inverse), torch.from_numpy(fill))


def _hidden(
    rows: Rows, asked: NDArray[np.bool_], there: NDArray[np.bool_], window: int | None, causal: bool
) -> Tensor | None:
    """What a query must not see: other sequences, fill, what is too far away or comes after it."""
    query, key = np.arange(rows.queries)[:, None] + rows.back, np.arange(rows.keys)
    before = rows.keys if window is None else window
    far = (key < query - before) | (key > query + (0 if causal else before))
    if not far.any():
        return None if there.all() else torch.from_numpy(~there[:, None, None])
    # A query that is fill is thrown away, but must see something or its softmax is not a number.
    hidden = far if there.all() else (far | ~there[:, None]) & asked[:, :, None]
    return torch.from_numpy(hidden if hidden.ndim == 3 else hidden[None])[:, None]
