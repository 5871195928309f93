"""Draw the next token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.errors import InputError

_COLDEST = 1e-6
"""At a lower temperature float32 tells only the likeliest token from the others."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn."""

    temperature: float = 1.0
    top_k: int | None = None
    """Only among this many of the likeliest."""
    top_p: float | None = None
    """Only among the likeliest that together reach this probability."""

    def __post_init__(self) -> None:
        if not self.temperature >= 0:  # nan too
            raise InputError("the temperature must be 0 or more")
        if self.top_k is not None and self.top_k < 1:
            raise InputError("top_k must be at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError("top_p must be above 0 and at most 1")


def seeded(seed: int | None) -> torch.Generator:
    """Where tokens are drawn from: always the same ones with a seed, else others each time."""
    generator = torch.Generator()
    try:
        generator.seed() if seed is None else generator.manual_seed(seed)
    except ValueError:
        raise InputError(f"the seed {seed} is too large: choose one of at most 64 bits") from None
    return generator


def sample(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """A token drawn from scores (V)."""
    if sampling.temperature < _COLDEST:
        return int(logits.argmax())
    logits = logits.cpu() / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < len(logits):
        logits = logits.masked_fill(logits < logits.topk(sampling.top_k).values[-1], -torch.inf)
    probabilities = logits.softmax(-1)
    if sampling.top_p is not None:
        ordered, order = probabilities.sort(descending=True)
        beyond = ordered.cumsum(0) - ordered >= sampling.top_p
        probabilities = probabilities.index_fill(0, order[beyond], 0.0)
    return int(torch.multinomial(probabilities, 1, generator=generator))
