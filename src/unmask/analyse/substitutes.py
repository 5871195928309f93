"""What a masked language model would put in a word's place: more in these uses than in others.

V vocabulary · K groups of uses
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from unmask.analyse.uses import Use, fitting, pieces_of
from unmask.predict.masked import MaskedLM
from unmask.predict.predictor import Predictor
from unmask.progress import SILENT, Progress
from unmask.tokenizer import Tokenizer

Floats = NDArray[np.float64]
_USES = 40
"""Uses of each group that are asked about."""
_LOOKED_AT = 300
"""Vocabulary entries that may turn out to have no letters."""
_TOP = 5
_TINY = 1e-12


def no_substitutes(model: Predictor) -> str | None:
    """Why a model proposes no words; None if it does."""
    if not isinstance(model, MaskedLM) or "mlm" not in model.model.heads:
        return "this model has no masked-LM head that proposes words"
    return "a causal model sees only what stands before a word" if model.config.causal else None


def typical_substitutes(
    model: Predictor,
    groups: Sequence[Sequence[Use]],
    own: Collection[str] = (),
    progress: Progress = SILENT,
) -> list[tuple[str, ...]]:
    """For each group of uses the words that fit there and less so in the others, best first.

    A word's weight is its probability times the logarithm of how many times likelier it is here (its part of
    the divergence between here and elsewhere); with one group, its probability. Those of `own`, in lower
    case, are left out.
    """
    assert isinstance(model, MaskedLM)
    with progress.stage("substitutes", len(groups), "senses") as stage:
        means = []
        for uses in groups:
            means.append(_mean_probabilities(model, uses[:_USES]))
            stage.advance(1)
    here = np.stack(means)  # (K, V)
    here[:, ~model.tokenizer.openings] = 0  # else the end of a word could name a sense
    weights = here
    if len(groups) > 1:
        elsewhere = (here.sum(0) - here) / (len(groups) - 1)
        weights = here * np.log((here + _TINY) / (elsewhere + _TINY))
    return [_best(row, model.tokenizer, own) for row in weights]


def _mean_probabilities(model: MaskedLM, uses: Sequence[Use]) -> Floats:
    """Over the vocabulary (V), the word hidden behind one mask."""
    fitted = [fitting(use, model.inputs) for use in uses]
    sequences, places = [], []
    for use, encoding in zip(fitted, model.inputs.encode([use.text for use in fitted]), strict=True):
        first, last = np.flatnonzero(pieces_of(use, encoding))[[0, -1]]
        hidden = np.array([model.tokenizer.mask_id])
        sequences.append(np.concatenate([encoding.ids[:first], hidden, encoding.ids[last + 1 :]]))
        places.append(np.array([first]))
    logs = np.concatenate(model.log_probabilities(sequences, places))
    mean: Floats = np.exp(logs[:, : model.tokenizer.vocab_size].astype(np.float64)).mean(0)
    return mean


def _best(weights: Floats, tokenizer: Tokenizer, own: Collection[str]) -> tuple[str, ...]:
    found: list[str] = []
    for entry in np.argsort(-weights)[:_LOOKED_AT]:
        word = tokenizer.decode([int(entry)]).strip().lower()
        if weights[entry] > 0 and len(word) > 1 and word.isalpha() and word not in own and word not in found:
            found.append(word)
        if len(found) == _TOP:
            break
    return tuple(found)
