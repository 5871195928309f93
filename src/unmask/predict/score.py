"""(Pseudo-)log-likelihood: how surprised the model is by each token of a text.

A masked model sees one copy of the text per token, with that token masked; `word-l2r` masks the later pieces
of the same word too, so that a word cannot be guessed from its own tail. A causal model needs a single pass.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unmask.predict.results import Score, TokenScore
from unmask.tokenizer import Encoding, Tokenizer

Ints = NDArray[np.int64]
METHODS = ("word-l2r", "token")


def targets(encoding: Encoding, tokenizer: Tokenizer) -> Ints:
    """Places of the tokens to score: those of the text itself that are not hidden already."""
    return np.flatnonzero((encoding.words >= 0) & (encoding.ids != tokenizer.mask_id))


def masked_copy(encoding: Encoding, place: int, tokenizer: Tokenizer, method: str) -> Ints:
    """The ids with the token at `place` masked and, by `word-l2r`, the later pieces of its word."""
    ids = encoding.ids.copy()
    ids[place] = tokenizer.mask_id
    if method == "word-l2r":
        later = np.arange(len(ids)) > place
        ids[later & (encoding.words == encoding.words[place])] = tokenizer.mask_id
    return ids


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
