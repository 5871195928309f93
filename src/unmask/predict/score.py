"""(Pseudo-)log-likelihood: how surprised the model is by each token of a text.

A masked model sees one copy of the text per token, with that token masked; `word-l2r` masks the later pieces
of the same word too, so that a word cannot be guessed from its own tail. A causal model needs a single pass.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.predict.results import Score, TokenScore
from unmask.tokenizer import Encoding, Tokenizer

Ints = NDArray[np.int64]
METHODS = ("word-l2r", "token")


def check_method(name: str) -> None:
    """An error if there is no such method."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; those we have: {', '.join(METHODS)}")


Job = tuple[int, int]
"""A token to score: the number of its text, and its number among the places of that text."""


def targets(encoding: Encoding, tokenizer: Tokenizer) -> Ints:
    """Places of the tokens to score: those of the text itself that are not hidden already."""
    return np.flatnonzero((encoding.words >= 0) & (encoding.ids != tokenizer.mask_id))


def masked_copy(encoding: Encoding, place: int, tokenizer: Tokenizer, method: str) -> Ints:
    """The ids with the token at `place` masked and, by `word-l2r`, the later pieces of its word."""
    ids = encoding.ids.copy()
    ids[place] = tokenizer.mask_id
    if method == "word-l2r":
        ids[place:][encoding.words[place:] == encoding.words[place]] = tokenizer.mask_id
    return ids


def shared_copies(
    encodings: Sequence[Encoding], places: Sequence[Ints], tokenizer: Tokenizer, method: str
) -> list[list[Job]]:
    """The jobs, grouped by the masked copy they need: the two texts of a minimal pair share some."""
    groups: dict[bytes, list[Job]] = {}
    for text, (encoding, where) in enumerate(zip(encodings, places, strict=True)):
        for spot, place in enumerate(where.tolist()):
            copy = masked_copy(encoding, place, tokenizer, method)
            key = blake2b(copy.tobytes(), digest_size=16).digest()
            groups.setdefault(key, []).append((text, spot))
    return list(groups.values())


def collect(
    texts: Sequence[str],
    encodings: Sequence[Encoding],
    places: Sequence[Ints],
    logs: Sequence[NDArray[np.float64]],
    tokenizer: Tokenizer,
) -> list[Score]:
    """The records of some texts from the log-probabilities of their tokens."""
    scores = []
    for text, encoding, where, values in zip(texts, encodings, places, logs, strict=True):
        tokens = tuple(
            TokenScore(tokenizer.piece(encoding.ids[p]), start, end, float(value))
            for p, (start, end), value in zip(where, encoding.offsets[where].tolist(), values, strict=True)
        )
        scores.append(Score(text, float(sum(values)), tokens))
    return scores
