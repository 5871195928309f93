"""A paradigm is a function that draws words and returns two sentences, the second wrong in one point."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from pairs_pt.lexicon import PLURAL, SINGULAR

T = TypeVar("T")


class Draw:
    """Draws from a sequence, the same on every run: each paradigm has its own, seeded by its name."""

    def __init__(self, name: str) -> None:
        self._random = Random(name)

    def __call__(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]  # random() is the same in every Python

    def number(self) -> int:
        return self((SINGULAR, PLURAL))

    def two(self, options: Sequence[T]) -> tuple[T, T]:
        """Two different ones."""
        first = self(options)
        return first, self([option for option in options if option != first])


Paradigm = Callable[[Draw], tuple[str, str]]


def both(frame: str, good: str, bad: str) -> tuple[str, str]:
    """The frame with each filling in place of its `_`, as two sentences."""
    first, second = (frame.replace("_", filling) for filling in (good, bad))
    return f"{first[0].upper()}{first[1:]}.", f"{second[0].upper()}{second[1:]}."
