"""Answers: small frozen records; `--json` and the server print them as they are."""

from dataclasses import dataclass
from functools import cached_property
from math import exp


@dataclass(frozen=True)
class Word:
    """What one mask was filled with."""

    text: str
    pieces: tuple[str, ...]
    probability: float
    """Of its pieces, each given those that were filled before it."""


@dataclass(frozen=True)
class Fill:
    """One way to fill all the masks of a text."""

    text: str
    """The text with its masks filled."""
    words: tuple[Word, ...]
    """One per mask, from left to right."""
    probability: float
    """Joint probability of all the pieces, in the order in which they were filled."""
    score: float
    """Its geometric mean per piece, by which answers are ranked whatever their number of pieces."""


@dataclass(frozen=True)
class TokenScore:
    """How likely a token is, given the rest of its text."""

    piece: str
    start: int
    end: int
    log_probability: float


@dataclass(frozen=True)
class Score:
    """How likely a text is: the (pseudo-)log-likelihood and its terms."""

    text: str
    log_probability: float
    tokens: tuple[TokenScore, ...]

    @cached_property
    def perplexity(self) -> float:
        """Pseudo-perplexity: the exponential of the mean surprise per token."""
        return exp(min(-self.log_probability / max(len(self.tokens), 1), 700.0))


@dataclass(frozen=True)
class Generated:
    """A continuation."""

    text: str
    """The prompt and what follows it."""
    new: str
    """What follows it."""
    tokens: int
    finished: bool
    """The model closed the text by itself."""


@dataclass(frozen=True)
class Label:
    """A class and its probability; in regression, the number itself."""

    name: str
    score: float


@dataclass(frozen=True)
class Entity:
    """A stretch of text and what it is."""

    label: str
    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True)
class Answer:
    """The stretch of a context that answers a question."""

    text: str
    start: int
    end: int
    score: float
