"""What attention does in one text: weights of every head, what each head looks at, and attention rollout.

L blocks · H heads · n tokens
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.predict.inputs import with_own_mask
from unmask.predict.predictor import Predictor
from unmask.tokenizer import Encoding, Tokenizer

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
_MOST_WEIGHTS = 1 << 28
"""Weights of one text that are held at a time: 1 GB."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the text: its piece, its characters, and the number of its word (-1: a special token)."""

    text: str
    start: int
    end: int
    word: int

    @property
    def special(self) -> bool:
        """It is none of the text's own tokens, but one that the model wants around it."""
        return self.word < 0


@dataclass(frozen=True, slots=True)
class Head:
    """What one head does, averaged over the tokens that look; shares are of its attention."""

    entropy: float
    """In nats: 0 where each token looks at a single one, log n where at all alike."""
    distance: float
    """Tokens between a token and what it looks at."""
    first: float
    """Share on the first token, [CLS] in most models."""
    separator: float
    """Share on [SEP]."""
    previous: float
    next: float
    itself: float


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMaps:
    """The attention of a model in one text."""

    text: str
    tokens: tuple[Token, ...]
    weights: Floats  # (L, H, n, n) row i says what token i looks at
    heads: tuple[tuple[Head, ...], ...]  # by block, then by head
    rollout: Doubles  # (n, n) what each token of the last layer was made of

    @property
    def names(self) -> list[str]:
        """The tokens as they stand in the text, as pieces of bytes cannot be read; · for a mere space."""
        return [
            token.text if token.special else self.text[token.start : token.end].strip() or "·"
            for token in self.tokens
        ]


def read_attention(model: Predictor, text: str) -> AttentionMaps:
    """The attention of every head in a text."""
    text = with_own_mask(text, model.tokenizer)
    encoding = encode_whole(model, text)
    size = model.config.layers * model.config.heads * len(encoding) ** 2
    if size > _MOST_WEIGHTS:
        raise InputError(
            f"the text has {len(encoding)} tokens, whose attention weights take {size >> 28} GB: shorten it"
        )
    weights = model.attention(text)
    separators = np.flatnonzero((encoding.ids == model.tokenizer.sep_id) & (encoding.words < 0))
    heads = tuple(tuple(describe(head, separators) for head in block) for block in weights)
    return AttentionMaps(text, tokens_of(encoding, model.tokenizer), weights, heads, rollout(weights))


def encode_whole(model: Predictor, text: str) -> Encoding:
    """The tokens of a text that is not empty and not too long."""
    if not text.strip():
        raise InputError("the text is empty: write a sentence")
    encoding = model.tokenizer.encode(text)
    limit = model.inputs.limit
    if len(encoding) > limit:
        raise InputError(
            f"the text has {len(encoding)} tokens, but the model takes at most {limit}: shorten it"
        )
    return encoding


def tokens_of(encoding: Encoding, tokenizer: Tokenizer) -> tuple[Token, ...]:
    """The tokens of an encoded text, to be shown."""
    spots = zip(encoding.ids, encoding.offsets.tolist(), encoding.words.tolist(), strict=True)
    return tuple(Token(tokenizer.piece(token), start, end, word) for token, (start, end), word in spots)


def describe(weights: Floats, separators: NDArray[np.int64]) -> Head:
    """What one head (n, n) does."""
    w = weights.astype(np.float64)
    place = np.arange(len(w))
    logs = np.log(w, out=np.zeros_like(w), where=w > 0)
    return Head(
        entropy=float(-(w * logs).sum(1).mean()),
        distance=float((w * abs(place[:, None] - place)).sum(1).mean()),
        first=float(w[:, 0].mean()),
        separator=float(w[:, separators].sum(1).mean()),
        previous=_mean(w.diagonal(-1)),
        next=_mean(w.diagonal(1)),
        itself=_mean(w.diagonal()),
    )


def _mean(values: Doubles) -> float:
    return float(values.mean()) if len(values) else 0.0  # a single token has no neighbour


def rollout(weights: Floats) -> Doubles:
    """Attention rollout (Abnar and Zuidema 2020): the product over blocks of (mean over heads + I) / 2."""
    size = weights.shape[-1]
    flow = np.eye(size)
    for block in weights.mean(1, dtype=np.float64):
        flow = (block + np.eye(size)) / 2 @ flow
    return flow


def most_pointed(maps: AttentionMaps) -> tuple[int, int]:
    """The block and the head that point most at single words, other than the neighbours and punctuation."""
    named = zip(maps.tokens, maps.names, strict=True)
    inside = np.array([not token.special and any(map(str.isalnum, name)) for token, name in named])
    place = np.arange(len(inside))
    far = (abs(place[:, None] - place) > 1) & inside & inside[:, None]
    peaks = np.where(far, maps.weights, 0).max(-1)[..., inside]
    layer, head = divmod(int(peaks.sum(-1).argmax()), maps.weights.shape[1])
    return layer, head
