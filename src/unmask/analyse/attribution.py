"""Which words decided a fill: integrated gradients (Sundararajan et al. 2017) on the vectors of the tokens.

The way leads from the same text with a mask for every word to the text itself; the score is the
log-probability of the word at one mask. What the words contribute sums to the gain in log-probability; by
how much it does not is the completeness error, and more steps are taken until it is small.

T tokens · n tokens of the text · D width · K pieces of the word
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from math import exp

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.analyse.attention import Token, encode_whole, tokens_of
from unmask.errors import InputError, ModelError
from unmask.model.network import Model
from unmask.predict.fill import opens_word, pieces_in_place
from unmask.predict.inputs import MASKS, with_own_mask
from unmask.predict.masked import MaskedLM
from unmask.predict.predictor import Predictor
from unmask.predict.quantise import Int8Linear
from unmask.progress import counted
from unmask.tokenizer import Encoding

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]
Scores = Callable[[Tensor], Tensor]
"""Vectors of some sequences of equal length (S, n, D) -> a score of each (S)."""

STEPS = (16, 32, 64, 128, 256, 512)
_SETTLED = 0.1
"""An error that twice the steps change by less than this share comes from rounding."""
SMALL = 0.01
"""A completeness error below this share of the gain, or below so many nats, is small."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """How much a token or a word raised (or, below zero, lowered) the log-probability, in nats."""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """What decided one fill."""

    text: str
    mask: int
    """Number of the mask, from 0."""
    target: str
    pieces: tuple[str, ...]
    probability: float
    """Of the target in this text; of several pieces, of all of them at once."""
    baseline: float
    """Its probability where every word of the text is a mask."""
    tokens: tuple[Contribution, ...]
    words: tuple[Contribution, ...]
    completeness_error: float
    """Sum of the contributions less the gain in log-probability, in nats."""
    steps: int
    complete: bool
    """Whether that error is small."""


def fills(model: Predictor, text: str) -> bool:
    """Whether the text has a mask and the model a head that fills it."""
    network = model.model
    able = isinstance(network, Model) and "mlm" in network.heads and not model.config.causal
    return able and has_mask(model, text)


def has_mask(model: Predictor, text: str) -> bool:
    """Whether a word of the text is to be filled in."""
    return model.tokenizer.mask_token in with_own_mask(text, model.tokenizer)


@torch.inference_mode(False)  # whoever calls may have turned gradients off
def attribute(model: MaskedLM, text: str, mask_number: int = 0, target: str | None = None) -> Attribution:
    """What each word did for `target` (by default the likeliest) at the mask of that number, from 0."""
    network = _differentiable(model)
    text = with_own_mask(text, model.tokenizer)
    encoding = encode_whole(model, text)
    masks = np.flatnonzero(encoding.ids == model.tokenizer.mask_id)
    if not len(masks):
        raise InputError(f"there is no mask: write {MASKS[0]} or {MASKS[1]} where a word is missing")
    if mask_number not in range(len(masks)):
        raise InputError(f"there is no mask {mask_number + 1}: the text has {len(masks)}")
    place = int(masks[mask_number])
    pieces = _target_pieces(model, text, encoding, place, target)
    encoding = _widened(encoding, place, len(pieces), model.inputs.limit)
    score = _target_score(network, place, pieces)
    with torch.no_grad():
        table = network.encoder.embeddings.tokens
        inputs = table(torch.from_numpy(encoding.ids).to(model.device))  # (n, D)
        words_masked = np.where(encoding.words < 0, encoding.ids, model.tokenizer.mask_id)
        baseline = table(torch.from_numpy(words_masked).to(model.device))
        before, after = score(torch.stack([baseline, inputs])).tolist()
    found, steps = _integrate_well(score, inputs, baseline, after - before, model.budget)
    error = float(found.sum()) - (after - before)
    tokens = tokens_of(encoding, model.tokenizer)
    return Attribution(
        text, mask_number, target or model.tokenizer.decode(pieces).strip().removeprefix("##"),
        tuple(map(model.tokenizer.piece, pieces)), exp(after), exp(before),
        tuple(Contribution(t.text, t.start, t.end, float(s)) for t, s in zip(tokens, found, strict=True)),
        _by_word(text, tokens, found), error, steps, _is_small(error, after - before),
    )  # fmt: skip


def integrated_gradients(
    score: Scores, inputs: Tensor, baseline: Tensor, steps: int, budget: int = 1 << 11
) -> Doubles:
    """Each token's share (n) of score(inputs) - score(baseline), by Gauss-Legendre quadrature of `steps`."""
    points, weights = np.polynomial.legendre.leggauss(steps)
    along = torch.tensor((points + 1) / 2, dtype=inputs.dtype, device=inputs.device)[:, None, None]
    together = max(1, budget // len(inputs))
    total = torch.zeros(inputs.shape, dtype=torch.float64)
    for at in range(0, steps, together):
        between = (baseline + along[at : at + together] * (inputs - baseline)).detach().requires_grad_()
        weight = torch.tensor(weights[at : at + together] / 2)[:, None, None]
        (slope,) = torch.autograd.grad(score(between).sum(), between)
        total += (weight * slope.cpu().double()).sum(0)
    shared: Doubles = ((inputs - baseline).cpu().double() * total).sum(-1).numpy()
    return shared


def _integrate_well(
    score: Scores, inputs: Tensor, baseline: Tensor, gain: float, budget: int
) -> tuple[Doubles, int]:
    """The contributions by the fewest steps whose completeness error is small, or settled, or by the most."""
    before = float("inf")
    for steps in STEPS:
        found = integrated_gradients(score, inputs, baseline, steps, budget)
        error = abs(float(found.sum()) - gain)
        if _is_small(error, gain) or abs(error - before) < _SETTLED * before:
            break
        before = error
    return found, steps


def _is_small(error: float, gain: float) -> bool:
    return abs(error) <= SMALL * max(abs(gain), 1.0)


def _differentiable(model: MaskedLM) -> Model:
    if model.config.causal:
        raise ModelError("a causal model fills no mask: attributions need a masked language model")
    if not isinstance(model.model, Model) or any(isinstance(m, Int8Linear) for m in model.model.modules()):
        raise ModelError("a model in eight bits or ONNX has no gradients: load the folder as float32")
    return model.model


def _target_pieces(
    model: MaskedLM, text: str, encoding: Encoding, place: int, target: str | None
) -> tuple[int, ...]:
    """The pieces of the word asked about, as it is split where the mask stands; else the likeliest piece."""
    tokenizer = model.tokenizer
    special = np.array(sorted(tokenizer.special_ids), np.int64)
    first, last = map(int, encoding.offsets[place])
    if target is None:
        logs = model.log_probabilities([encoding.ids], [np.array([place])])[0][0, : tokenizer.vocab_size]
        logs[special] = -np.inf
        if opens_word(tokenizer, text, first):
            logs[~tokenizer.openings] = -np.inf
        return (int(logs.argmax()),)
    pieces = pieces_in_place(tokenizer, text, (first, last), target)
    if len(pieces) != 1 and (entry := tokenizer.backend.token_to_id(target)) is not None:
        pieces = (entry,)  # a piece as the vocabulary writes it, such as ##ing
    if not pieces or np.isin(pieces, special).any():
        raise InputError(f"the vocabulary cannot write the candidate {target!r}")
    return pieces


def _widened(encoding: Encoding, place: int, size: int, limit: int) -> Encoding:
    """The text with as many masks at a place as the target has pieces."""
    if len(encoding) + size - 1 > limit:
        raise InputError(
            f"with {counted(size, 'piece')} at the mask the text has {len(encoding) + size - 1} tokens, "
            f"but the model takes at most {limit}: shorten it"
        )
    kept = np.repeat(np.arange(len(encoding)), np.where(np.arange(len(encoding)) == place, size, 1))
    return Encoding(encoding.ids[kept], encoding.words[kept], encoding.offsets[kept], encoding.segments[kept])


def _target_score(network: Model, place: int, pieces: tuple[int, ...]) -> Scores:
    """Log-probability of the pieces at their places, for any vectors in place of the tokens'."""

    def score(vectors: Tensor) -> Tensor:
        count, length, _ = vectors.shape
        device = vectors.device
        starts = torch.arange(count + 1, device=device, dtype=torch.int32) * length
        rows = starts[:-1, None] + torch.arange(place, place + len(pieces), device=device)  # (S, K)
        positions = torch.arange(length, device=device).repeat(count)
        hidden = network.encoder(vectors.flatten(0, 1), positions, starts, length, rows=rows.flatten())
        logs = network.mlm(hidden).float().log_softmax(-1).view(count, len(pieces), -1)
        chosen = torch.tensor(pieces, device=device)[None, :, None].expand(count, -1, 1)
        return logs.gather(2, chosen).sum((1, 2))

    return score


def _by_word(text: str, tokens: tuple[Token, ...], scores: Doubles) -> tuple[Contribution, ...]:
    pairs = zip(tokens, scores.tolist(), strict=True)
    words = []
    for number, group in groupby(pairs, lambda pair: pair[0].word):
        members = list(group)
        if number >= 0:
            start, end = members[0][0].start, members[-1][0].end
            words.append(Contribution(text[start:end], start, end, sum(score for _, score in members)))
    return tuple(words)
