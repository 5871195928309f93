"""Attention over packed sequences: one function, five engines.

T tokens of all sequences · S sequences · B × L a padded grid · H heads · d width of a head · w window
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._compile import _disable_dynamo

from unmask.model.grids import Grids, in_pieces, make_grids

Engine = Literal["auto", "varlen", "pages", "grids", "runs", "eager"]
_FLASH_FROM = 1024  # keys: from here on bfloat16 on a processor is faster in blocks than as a whole


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each sequence lies among the tokens, and whether a token sees those after it."""

    cu_seqlens: Tensor
    """Where sequences begin, and the end of the last: int32 (S + 1)."""
    max_seqlen: int
    causal: bool = False
    mask: Tensor | None = None
    """Of a padded grid: which tokens are real, bool (B, L). The tokens are then T = B · L."""
    page: int | None = None
    """No sequence crosses a multiple of this many tokens; T is one."""
    far: Tensor | None = None
    """Added to the scores of each page, 0 where a query sees a key, else −∞: (T / page, 1, page, page)."""
    near: Tensor | None = None
    """The same within the window."""
    _grids: dict[object, Grids] = field(default_factory=dict)

    def on_pages(self, positions: Tensor, window: int, dtype: torch.dtype) -> "Layout":
        """The same with what each query sees, worked out once for all blocks."""
        assert self.page
        owner = (torch.arange(len(positions), device=positions.device) - positions).view(-1, self.page)
        same = (owner[:, :, None] == owner[:, None])[:, None]

        def bias(window: int | None) -> Tensor:
            allowed = self.visible(owner.shape[1], window)
            seen = same if allowed is None else same & allowed
            return torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, -torch.inf)

        return replace(self, far=bias(None), near=bias(window) if window else None)

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Neighbours of equal length: (how many, length)."""
        runs: list[tuple[int, int]] = []
        for length in self.cu_seqlens.diff().tolist():
            count = runs.pop()[0] if runs and runs[-1][1] == length else 0
            runs.append((count + 1, length))
        return [run for run in runs if run[1]]

    def visible(self, length: int, window: int | None) -> Tensor | None:
        """Which keys each query of a sequence sees, bool (L, L); None: all of them."""
        if not self.causal and window is None:
            return None
        place = torch.arange(length, device=self.cu_seqlens.device)
        distance = place[:, None] - place  # (L, L), positive towards the past
        seen = distance >= (0 if self.causal else -length)
        return seen if window is None else seen & (distance.abs() <= window)

    def grids(self, window: int | None, heads: int, run: tuple[int, int] | None = None) -> Grids:
        """How the sequences, or those of a run, lie side by side, worked out once for all alike blocks."""
        key = window, heads, run
        if key not in self._grids:
            bounds = torch.arange(run[0] + 1) * run[1] if run else self.cu_seqlens.cpu()
            made = make_grids(bounds.numpy(), window, self.causal, heads)
            self._grids[key] = made.to(self.cu_seqlens.device)
        return self._grids[key]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: Layout,
    window: int | None = None,
    dropout: float = 0.0,
    engine: Engine = "auto",
) -> Tensor:
    """softmax(QKᵀ/√d)V within each sequence; q, k, v and the result are (T, H, d)."""
    if engine == "auto":
        engine = choose_engine(q, layout)
    if engine in ("grids", "runs") and torch.compiler.is_compiling():
        return _uncompiled(q, k, v, layout, window, dropout, engine)
    if engine == "varlen":
        return _varlen(q, k, v, layout, window, dropout)
    if engine == "pages":
        return _pages(q, k, v, layout, window, dropout)
    if engine == "grids":
        return _grids(q, k, v, layout.grids(window, q.shape[1]), dropout)
    if engine == "runs":
        return _runs(q, k, v, layout, window, dropout)
    return eager_attention(q, k, v, layout, window, dropout)[0]


# Their steps follow the lengths, so a compiler would begin anew with each batch. This finds the compiler when
# it is called; `torch.compiler.disable` would load it now, which takes seconds.
_uncompiled = _disable_dynamo(attention)


def choose_engine(q: Tensor, layout: Layout) -> Engine:
    """The fastest engine that can do what is asked."""
    if layout.mask is not None:
        return "eager"
    if layout.page is not None:
        return "pages"
    if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16):
        return "varlen"
    # Grids cost copies. They are worth it backward, where each call is dear, and in bfloat16: see `_mix`.
    exact = q.dtype != torch.bfloat16 and not (q.requires_grad and torch.is_grad_enabled())
    return "runs" if exact else "grids"


def _varlen(q: Tensor, k: Tensor, v: Tensor, layout: Layout, window: int | None, dropout: float) -> Tensor:
    before = -1 if window is None else window
    reach = (before, 0 if layout.causal else before)
    starts, longest = layout.cu_seqlens, layout.max_seqlen
    if dropout:  # the same kernel, one level below: `varlen_attn` has no dropout
        flash = torch.ops.aten._flash_attention_forward
        given = (q, k, v, starts, starts, longest, longest, dropout, False, False)
        dropped: Tensor = flash(*given, window_size_left=reach[0], window_size_right=reach[1])[0]
        return dropped
    from torch.nn.attention.varlen import varlen_attn  # it loads the compiler, which takes seconds

    out = varlen_attn(q, k, v, starts, starts, longest, longest, window_size=reach)
    assert isinstance(out, Tensor)  # a pair only when the log-sum-exp is asked for
    return out


def _pages(q: Tensor, k: Tensor, v: Tensor, layout: Layout, window: int | None, dropout: float) -> Tensor:
    """Each page as one grid: no short sequence pays for a kernel's large tiles."""
    assert layout.page
    bias = layout.far if window is None else layout.near
    q, k, v = (_grid(x, len(x) // layout.page, layout.page) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, bias, dropout).transpose(1, 2).flatten(0, 1)


def _grid(x: Tensor, count: int, length: int) -> Tensor:
    """Sequences of one length as (b, H, l, d), without a copy."""
    return x.view(count, length, *x.shape[1:]).transpose(1, 2)


def _runs(q: Tensor, k: Tensor, v: Tensor, layout: Layout, window: int | None, dropout: float) -> Tensor:
    """Neighbours of equal length in one call, without a copy: batches are sorted by length.

    Long ones under a window are taken in pieces, whatever stands beside them.
    """
    sizes = [count * length for count, length in layout.runs]
    outputs = []
    for run, a, b, c in zip(layout.runs, *(torch.split(x, sizes) for x in (q, k, v)), strict=True):
        if in_pieces(run[1], window):
            outputs.append(_grids(a, b, c, layout.grids(window, q.shape[1], run), dropout))
            continue
        near = None if window is None or run[1] <= window + 1 else layout.visible(run[1], window)
        a, b, c = (_grid(x, *run) for x in (a, b, c))
        out = F.scaled_dot_product_attention(a, b, c, near, dropout, layout.causal and near is None)
        outputs.append(out.transpose(1, 2).flatten(0, 1))  # (b·l, H, d)
    return torch.cat(outputs) if outputs else torch.zeros_like(q)


def _grids(q: Tensor, k: Tensor, v: Tensor, grids: Grids, dropout: float) -> Tensor:
    """Sequences of like length in one call, (n, H, l, d); a short one never pays for a long one."""
    if not len(q):
        return torch.zeros_like(q)
    outputs = [_mix(a, b, c, hidden, dropout) for a, b, c, hidden in grids.spread(q, k, v)]
    return grids.collect(outputs)


def _mix(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None, dropout: float) -> Tensor:
    """softmax(QKᵀ/√d)V of (n, H, l, d).

    No fused kernel of a CPU drops weights, and on short sequences those for bfloat16 are slower than two
    ordinary products: there the formula stands as it is.
    """
    half = q.dtype == torch.bfloat16 and k.shape[2] < _FLASH_FROM
    if q.device.type == "cpu" and (dropout or half):
        return _softmax_attention(q * q.shape[-1] ** -0.5, k, v, hidden, dropout)[0]
    seen = None if hidden is None else ~hidden
    return F.scaled_dot_product_attention(q, k, v, seen, dropout)


def eager_attention(
    q: Tensor, k: Tensor, v: Tensor, layout: Layout, window: int | None = None, dropout: float = 0.0
) -> tuple[Tensor, list[Tensor]]:
    """The formula in plain operations, and its weights: (H, l, l) per sequence, (B, H, L, L) of a grid."""
    q = q * q.shape[-1] ** -0.5
    if layout.mask is not None:
        count, length = layout.mask.shape
        seen = layout.mask[:, None, None]  # (B, 1, 1, L)
        allowed = layout.visible(length, window)
        mask = seen if allowed is None else seen & allowed
        q, k, v = (x.reshape(count, length, *x.shape[1:]).transpose(1, 2) for x in (q, k, v))
        out, weights = _softmax_attention(q, k, v, ~mask, dropout)
        return out.transpose(1, 2).flatten(0, 1), [weights]
    outputs, all_weights = [], []
    lengths = layout.cu_seqlens.diff().tolist()
    for parts in zip(*(torch.split(x, lengths) for x in (q, k, v)), strict=True):
        a, b, c = (x.transpose(0, 1) for x in parts)  # (H, l, d)
        allowed = layout.visible(a.shape[1], window)
        out, weights = _softmax_attention(a, b, c, None if allowed is None else ~allowed, dropout)
        outputs.append(out.transpose(0, 1))
        all_weights.append(weights)
    return torch.cat(outputs), all_weights


def _softmax_attention(
    q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    product = torch.bmm if q.ndim == 3 else torch.matmul  # matmul reshapes before and after
    scores = product(q, k.transpose(-1, -2))
    if hidden is not None:
        # The lowest number and not −∞: a padded query may see nothing at all.
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return product(F.dropout(weights, dropout, dropout > 0), v), weights
