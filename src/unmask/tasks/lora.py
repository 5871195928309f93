"""Low-rank adapters (LoRA): a frozen matrix W learns as W + (alpha / r) B A, and is one again when saved.

r rank · D the width that goes in · E the width that comes out
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unmask.model.network import Model

Adapt = Literal["attention", "all"]
_MATRICES: dict[Adapt, tuple[str, ...]] = {
    "attention": ("attention.qkv", "attention.out"),
    "all": ("attention.qkv", "attention.out", "feedforward.up", "feedforward.down"),
}


class Adapter(nn.Module):
    """A frozen linear layer and what is added to it; B begins at zero, so that at first nothing is."""

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.linear, self.share = linear, alpha / rank
        self.a = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))  # (r, D)
        self.b = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))  # (E, r)
        nn.init.kaiming_uniform_(self.a, a=5**0.5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x) + F.linear(F.linear(x, self.a), self.b) * self.share
        return out

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The linear layer with the product of the small matrices in it."""
        self.linear.weight += self.share * self.b @ self.a
        return self.linear


def adapt(model: Model, rank: int, alpha: float, matrices: Adapt = "all") -> None:
    """Freeze the encoder and put adapters on matrices of all its blocks; the heads learn as they are."""
    model.encoder.requires_grad_(False)
    for block in model.encoder.blocks:
        for name in _MATRICES[matrices]:
            part, _, last = name.partition(".")
            owner = block.get_submodule(part)
            linear = owner.get_submodule(last)
            assert isinstance(linear, nn.Linear)
            setattr(owner, last, Adapter(linear, rank, alpha))


def merge(model: Model) -> None:
    """Make every adapted matrix one ordinary matrix again."""
    for owner in list(model.encoder.modules()):
        for name, part in list(owner.named_children()):
            if isinstance(part, Adapter):
                setattr(owner, name, part.merged())
