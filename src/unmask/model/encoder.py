"""The transformer encoder: one stack of blocks whose shape `ModelConfig` decides.

T tokens of all sequences, packed · S sequences · B × L a padded grid · D width · H heads · d = D / H
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unmask.config import ModelConfig
from unmask.model.attention import Layout, attention, eager_attention
from unmask.model.products import Linear


@dataclass
class Trace:
    """What a pass through the encoder leaves behind when asked."""

    hidden: list[Tensor] = field(default_factory=list)
    """Embeddings, then the output of each block: (T, D); the last one is the encoder's result."""
    attention: list[list[Tensor]] | None = None
    """Weights per block and sequence: (H, l, l)."""


def activate(name: str, x: Tensor) -> Tensor:
    """The non-linearity of that name."""
    if name == "gelu":
        return F.gelu(x)
    if name == "gelu_tanh":
        return F.gelu(x, approximate="tanh")
    return F.relu(x) if name == "relu" else F.silu(x)


class Norm(nn.LayerNorm):
    """A layer norm that gives back the precision it was given: autocast would make it float32."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu":  # whose kernel takes half precision beside weights in float32
            with torch.autocast("cpu", enabled=False):
                return super().forward(x)
        return super().forward(x).to(x.dtype)


def layer_norm(config: ModelConfig) -> Norm:
    """A layer norm as this model has them."""
    return Norm(config.width, eps=config.norm_eps, bias=config.norm_bias)


def rotary(positions: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each position's angles: (T, 1, 1, d / 2)."""
    steps = torch.arange(0, width, 2, device=positions.device).float() / width
    angles = positions.float()[:, None] * (1.0 / base**steps)
    return angles.cos()[:, None, None], angles.sin()[:, None, None]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the two halves of each head's vector by the position's angles, in no less than float32."""
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


class Embeddings(nn.Module):
    """Token + position + segment vectors, normalised."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.width)
        self.segments = nn.Embedding(config.segments, config.width) if config.segments else None
        if config.position == "learned":
            self.positions = nn.Embedding(config.positions + config.position_offset, config.width)
        self.norm = layer_norm(config)

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        x = ids if ids.is_floating_point() else self.tokens(ids)  # (T, D)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        if self.config.position == "learned":
            x = x + self.positions(positions + self.config.position_offset)
        x = F.dropout(self.norm(x), self.config.dropout, self.training)
        kind = x.device.type
        # Half precision from the first block on: what is added between blocks is half of all memory traffic.
        return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


class Attention(nn.Module):
    """Multi-head self-attention with one fused projection."""

    def __init__(self, config: ModelConfig, window: int | None) -> None:
        super().__init__()
        self.config, self.window = config, window
        self.qkv = Linear(config.width, 3 * config.width, bias=config.attention_bias)
        self.out = Linear(config.width, config.width, bias=config.attention_bias)

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        angles: tuple[Tensor, Tensor] | None,
        weights: list[list[Tensor]] | None,
        rows: Tensor | None,
    ) -> Tensor:
        qkv = self.qkv(x).view(x.shape[0], 3, self.config.heads, -1)  # (T, 3, H, d)
        if angles is None and not self.config.qk_norm:
            q, k, v = qkv.unbind(1)
        else:
            qk, v = qkv[:, :2], qkv[:, 2]
            if self.config.qk_norm:
                qk = F.rms_norm(qk, qk.shape[-1:], eps=self.config.norm_eps).to(v.dtype)
            q, k = (qk if angles is None else rotate(qk, *angles)).unbind(1)
        dropout = self.config.attention_dropout if self.training else 0.0
        if weights is None:
            mixed = attention(q, k, v, layout, self.window, dropout)
        else:
            mixed, seen = eager_attention(q, k, v, layout, self.window, dropout)
            weights.append(seen)
        out: Tensor = self.out((mixed if rows is None else mixed[rows]).flatten(1))
        return out


class FeedForward(nn.Module):
    """Two projections with a non-linearity between, gated or not."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.up = Linear(config.width, config.inner * (2 if config.gated else 1), bias=config.inner_bias)
        self.down = Linear(config.inner, config.width, bias=config.inner_bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        if self.config.gated:
            x, gate = x.chunk(2, -1)
            x = activate(self.config.activation, x) * gate
        else:
            x = activate(self.config.activation, x)
        out: Tensor = self.down(x)
        return out


class Block(nn.Module):
    """Attention, then feed-forward, each added to what came in."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.config = config
        self.local = index % config.global_every != 0
        self.attention = Attention(config, config.window if self.local else None)
        # The embeddings are normalised already, so that a first norm before attention would be idle.
        idle = config.norm == "before" and index == 0
        self.attention_norm = nn.Identity() if idle else layer_norm(config)
        self.feedforward = FeedForward(config)
        self.feedforward_norm = layer_norm(config)

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        angles: tuple[Tensor, Tensor] | None,
        weights: list[list[Tensor]] | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """With `rows` only those tokens come out; they have seen all the others."""
        p, before = self.config.dropout, self.config.norm == "before"
        y = self.attention_norm(x) if before else x
        mixed = F.dropout(self.attention(y, layout, angles, weights, rows), p, self.training)
        x = (x if rows is None else x[rows]) + mixed
        if before:
            return x + F.dropout(self.feedforward(self.feedforward_norm(x)), p, self.training)
        x = self.attention_norm(x)
        out: Tensor = self.feedforward_norm(x + F.dropout(self.feedforward(x), p, self.training))
        return out


class Encoder(nn.Module):
    """Packed token ids to one vector per token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.blocks = nn.ModuleList(Block(config, index) for index in range(config.layers))
        self.norm = layer_norm(config) if config.norm == "before" else nn.Identity()

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int,
        segments: Tensor | None = None,
        causal: bool | None = None,
        rows: Tensor | None = None,
        page: int | None = None,
    ) -> Tensor:
        """Hidden states (T, D) of packed sequences; `causal` is the config's unless the batch says it.

        Instead of `ids` (T) the tokens' vectors (T, D) may be given, to ask for gradients.
        With `rows` only those (R, D): the last block does no more than they need.
        With `page` no sequence crosses a multiple of that many tokens.
        """
        layout = Layout(cu_seqlens, max_seqlen, self._causal(causal), page=page)
        return self._run(ids, positions, segments, layout, rows=rows)

    def trace(
        self,
        ids: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int,
        segments: Tensor | None = None,
        causal: bool | None = None,
        attention: bool = False,
    ) -> Trace:
        """The hidden states of every layer and, if asked, the attention weights."""
        trace = Trace(attention=[] if attention else None)
        self._run(ids, positions, segments, Layout(cu_seqlens, max_seqlen, self._causal(causal)), trace)
        return trace

    def padded(
        self, ids: Tensor, mask: Tensor, segments: Tensor | None = None, causal: bool | None = None
    ) -> Tensor:
        """Hidden states (B, L, D) of a grid padded on the right, in operations that export to ONNX."""
        count, length = ids.shape
        positions = torch.arange(length, device=ids.device).expand(count, length).flatten()
        starts = torch.arange(count + 1, device=ids.device, dtype=torch.int32) * length
        layout = Layout(starts, length, self._causal(causal), mask.bool())
        flat = None if segments is None else segments.flatten()
        return self._run(ids.flatten(), positions, flat, layout).view(count, length, -1)

    def _causal(self, asked: bool | None) -> bool:
        return self.config.causal if asked is None else asked

    def _run(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor | None,
        layout: Layout,
        trace: Trace | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        config = self.config
        everywhere = nearby = None
        if config.position == "rotary":
            width = config.width // config.heads
            everywhere = rotary(positions, width, config.rope_base)
            if config.global_every > 1:
                nearby = rotary(positions, width, config.local_rope_base)
        weights = trace.attention if trace else None
        x: Tensor = self.embeddings(ids, positions, segments)
        if layout.page:
            layout = layout.on_pages(positions, config.window, x.dtype)
        for block in self.blocks:
            if trace:
                trace.hidden.append(x)
            read = rows if block is self.blocks[-1] else None
            x = block(x, layout, nearby if block.local else everywhere, weights, read)
        x = self.norm(x)
        if trace:
            trace.hidden.append(x)
        return x
