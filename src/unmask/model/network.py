"""An encoder with its heads, and how new weights are drawn.

T tokens · S sequences · M chosen tokens · D width · V vocabulary · C classes
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor, nn

from unmask.config import ModelConfig
from unmask.errors import ModelError
from unmask.model.encoder import Encoder
from unmask.model.heads import HEADS, TASK_HEADS, build_head

Result = TypeVar("Result")


class Model(nn.Module):
    """`model.encoder` gives hidden states; `model.mlm`, `model.classify`, … turn them into answers."""

    def __init__(
        self, config: ModelConfig, heads: Iterable[str] = ("mlm",), generator: Generator | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        wanted = with_pooler(config, heads)
        self.heads = nn.ModuleDict({name: build_head(name, config) for name in wanted})
        initialise(self, generator)

    def forward(self, use: Callable[..., Result], *given: Any) -> Result:
        """`use(self, *given)`; around it weights that several processes hold in parts are put together."""
        return use(self, *given)

    @property
    def task(self) -> str | None:
        """The head of the task that it was fine-tuned for, if it was."""
        return next((head for head in TASK_HEADS if head in self.heads), None)

    @property
    def pair_head(self) -> str | None:
        """The head that says whether two texts follow each other, if it was trained on pairs."""
        return next((head for head in ("nsp", "sop") if head in self.heads), None)

    def mlm(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary (M, V) for the rows given; give only those that are asked for."""
        out: Tensor = self._head("mlm")(hidden, self.encoder.embeddings.tokens.weight)
        return out

    def span(self, before: Tensor, after: Tensor, place: Tensor) -> Tensor:
        """Span boundary scores (M, V) from the tokens around each span (M, D) and the place in it (M)."""
        out: Tensor = self._head("span")(before, after, place, self.encoder.embeddings.tokens.weight)
        return out

    def pair(self, first: Tensor, head: str = "nsp") -> Tensor:
        """Scores (S, 2) of pairs by their first tokens: adjacent or not (`nsp`), in order or not (`sop`)."""
        out: Tensor = self._head(head)(self.pooled(first))
        return out

    def pooled(self, first: Tensor) -> Tensor:
        """BERT's pooled vector (S, D) from each sequence's first token."""
        out: Tensor = self._head("pooler")(first)
        return out

    def classify(self, hidden: Tensor, cu_seqlens: Tensor) -> Tensor:
        """Scores (S, C) of each sequence; a single number per sequence in regression."""
        if self.config.classifier == "pooler":
            rows = self.pooled(pool(hidden, cu_seqlens, "first"))
        else:
            rows = pool(hidden, cu_seqlens, self.config.pooling)
        out: Tensor = self._head("classify")(rows)
        return out

    def tag(self, hidden: Tensor) -> Tensor:
        """Scores (T, C) of each token."""
        out: Tensor = self._head("tag")(hidden)
        return out

    def answer(self, hidden: Tensor) -> Tensor:
        """Scores (T, 2) of each token to begin and to end the answer."""
        out: Tensor = self._head("answer")(hidden)
        return out

    def _head(self, name: str) -> nn.Module:
        if name not in self.heads:
            present = ", ".join(self.heads) or "none"
            raise ModelError(f"this model has no {name} head (heads: {present})")
        return self.heads[name]


def pool(hidden: Tensor, cu_seqlens: Tensor, pooling: str) -> Tensor:
    """One vector per sequence (S, D): its first or last token's, or the mean of all."""
    if pooling == "first":
        return hidden[cu_seqlens[:-1]]
    if pooling == "last":
        return hidden[cu_seqlens[1:] - 1]
    return reduce_rows(hidden, cu_seqlens.diff(), pooling)


def reduce_rows(rows: Tensor, lengths: Tensor, how: str) -> Tensor:
    """The `mean` or `max` of each group of `lengths` neighbouring rows: (groups, D)."""
    if rows.device.type == "mps":  # torch has no such kernel there
        return reduce_rows(rows.cpu(), lengths.cpu(), how).to(rows.device)
    return torch.segment_reduce(rows, how, lengths=lengths, axis=0)


def with_pooler(config: ModelConfig, heads: Iterable[str]) -> list[str]:
    """The heads in their usual order, with the pooler where one of them reads its result."""
    wanted = set(heads)
    for name in wanted - set(HEADS):
        raise ModelError(f"there is no head {name}; those we have: {', '.join(HEADS)}")
    if wanted & {"nsp", "sop"} or ("classify" in wanted and config.classifier == "pooler"):
        wanted.add("pooler")
    return [name for name in HEADS if name in wanted]


@torch.no_grad()
def initialise(model: Model, generator: Generator | None = None, only: Iterable[str] | None = None) -> None:
    """Draw new weights as the families do: all of them, or those named."""
    config = model.config
    wanted = None if only is None else set(only)
    for name, weight in model.named_parameters():
        if wanted is not None and name not in wanted:
            continue
        if weight.ndim == 1:
            weight.fill_(1.0 if name.endswith("norm.weight") else 0.0)
        elif config.scaled_init:
            std = config.init_std
            if name.endswith(("attention.out.weight", "feedforward.down.weight", "transform.dense.weight")):
                std /= (2 * config.layers) ** 0.5
            elif name.endswith(".linear.weight"):
                std = config.width**-0.5
            nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std, generator=generator)
        else:
            nn.init.normal_(weight, std=config.init_std, generator=generator)
