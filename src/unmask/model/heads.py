"""Heads: from hidden states to answers. Each takes the rows it needs and nothing more.

T tokens · S sequences · M chosen tokens · D width · V vocabulary · C classes
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unmask.config import ModelConfig
from unmask.errors import ModelError
from unmask.model.encoder import activate, layer_norm
from unmask.model.products import Linear, linear

SPAN_POSITIONS = 20
"""Places within a span that the span boundary objective tells apart, as in SpanBERT."""
SPAN_WIDTH = 200
"""Width of their vectors, as in SpanBERT."""
_TILE = 64


class Transform(nn.Module):
    """Dense layer, non-linearity, norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = config.head_activation
        self.dense = Linear(config.width, config.width, bias=config.head_bias)
        self.norm = layer_norm(config)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(activate(self.activation, self.dense(x)))
        return out


def vocabulary_scores(x: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    """x Eᵀ + b: (M, V). On a GPU with rows added to E and taken away again: fast kernels want whole tiles."""
    size = len(table)
    extra = -size % _TILE if x.is_cuda else 0
    if extra:
        table = F.pad(table, (0, 0, 0, extra))
        bias = None if bias is None else F.pad(bias, (0, extra))
    return linear(x, table, bias)[:, :size]


class MaskedLMHead(nn.Module):
    """Scores over the vocabulary; the output matrix is the token table where the model is tied."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.transform = Transform(config)
        self.weight = None if config.tied else nn.Parameter(torch.empty(config.vocab_size, config.width))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        return vocabulary_scores(self.transform(x), table if self.weight is None else self.weight, self.bias)


class SpanHead(nn.Module):
    """SpanBERT's boundary objective: a token from the two tokens around its span and its place in it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.positions = nn.Embedding(SPAN_POSITIONS, SPAN_WIDTH)
        self.first = Linear(2 * config.width + SPAN_WIDTH, config.width)
        self.first_norm = layer_norm(config)
        self.second = Linear(config.width, config.width)
        self.second_norm = layer_norm(config)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, before: Tensor, after: Tensor, place: Tensor, table: Tensor) -> Tensor:
        """Vectors of the tokens before and after the span (M, D), and the place within it (M)."""
        where = self.positions(place.clamp(max=SPAN_POSITIONS - 1)).to(before.dtype)
        x = self.first_norm(F.gelu(self.first(torch.cat((before, after, where), -1))))
        x = self.second_norm(F.gelu(self.second(x)))
        return vocabulary_scores(x, table, self.bias)


class Pooler(nn.Module):
    """BERT's: the first token's vector through a dense layer and tanh."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.dense(x))


class ClassifyHead(nn.Module):
    """Classes of a whole text, as the family's published classifiers have it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.transform = Transform(config) if config.classifier == "norm" else None
        self.dense = Linear(config.width, config.width) if config.classifier in ("tanh", "relu") else None
        # ModernBERT's decoder leaves this bias out as well.
        self.linear = Linear(config.width, len(config.labels), config.head_bias or not config.causal)

    def forward(self, x: Tensor) -> Tensor:
        p = self.config.head_dropout
        if self.transform is not None:
            x = self.transform(x)
        elif self.dense is not None and self.config.classifier == "tanh":
            x = torch.tanh(self.dense(F.dropout(x, p, self.training)))
        elif self.dense is not None:
            x = F.relu(self.dense(x))
        out: Tensor = self.linear(F.dropout(x, p, self.training))  # (S, C)
        return out


class TokenHead(nn.Module):
    """Scores of every token: classes (tagging), or start and end of an answer."""

    def __init__(self, config: ModelConfig, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.transform = Transform(config) if config.classifier == "norm" else None
        self.linear = Linear(config.width, classes)

    def forward(self, x: Tensor) -> Tensor:
        if self.transform is not None:
            x = self.transform(x)
        out: Tensor = self.linear(F.dropout(x, self.dropout, self.training))  # (T, C)
        return out


def build_head(name: str, config: ModelConfig) -> nn.Module:
    """The head of that name: mlm, span, pooler, nsp, sop, classify, tag or answer."""
    if name in ("classify", "tag") and not config.labels:
        raise ModelError(f"a {name} head needs labels: set model.labels to the names of the classes")
    if name == "mlm":
        return MaskedLMHead(config)
    if name == "span":
        return SpanHead(config)
    if name == "pooler":
        return Pooler(config)
    if name in ("nsp", "sop"):
        return Linear(config.width, 2)
    if name == "classify":
        return ClassifyHead(config)
    if name == "tag":
        return TokenHead(config, len(config.labels), config.head_dropout)
    if name == "answer":
        # BERT and RoBERTa have no dropout before the answer's two scores.
        plain = config.classifier in ("pooler", "tanh")
        return TokenHead(config, 2, 0.0 if plain else config.head_dropout)
    raise ModelError(f"there is no head {name}; those we have: {', '.join(HEADS)}")


TASK_HEADS = ("classify", "tag", "answer")
"""Those of tasks; a model with several answers with the first."""
HEADS = ("mlm", "span", "pooler", "nsp", "sop", *TASK_HEADS)
