"""Word in context: two uses of a word, the same sense or not, by the cosine of their vectors."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.evaluation.context import Context
from unmask.evaluation.results import Measure, Outcome
from unmask.evaluation.suites import WicSuite
from unmask.predict.predictor import Predictor
from unmask.progress import Progress, counted
from unmask.text.sources import Source
from unmask.text.stream import numbered_lines

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_LINE = 1 << 20
_DIGITS = 6  # of a cosine: where two vectors are the same, the further ones are noise
_BEYOND = 2.0  # no cosine is as large
Use = tuple[list[str], int]  # words, and which of them is meant


def wic(context: Context, suite: WicSuite) -> Outcome:
    """Threshold and layer are chosen on the training part; the score is that of the other."""
    model = context.subject.predictor
    train_uses, train_same, _ = read_uses(context, suite.train)
    uses, same, speech = read_uses(context, suite.dev)
    train, dev = cosines(model, train_uses, context.progress), cosines(model, uses, context.progress)
    found = [best_threshold(row, train_same) for row in train]
    layer = int(np.argmax([accuracy for _, accuracy in found]))
    right = (dev[layer] >= found[layer][0]) == same
    items = [
        {"id": number, "part of speech": part, "correct": float(outcome), "cosine": float(dev[layer, number])}
        for number, (part, outcome) in enumerate(zip(speech, right, strict=True))
    ]
    layers = [
        {
            "layer": number, "threshold": threshold, "train": accuracy,
            "accuracy": float(((dev[number] >= threshold) == same).mean()),
        }
        for number, (threshold, accuracy) in enumerate(found)
    ]  # fmt: skip
    details = {"layer": layer, "layers": layers}
    return Outcome(items, (Measure("accuracy", "mean", ("correct",)),), ("part of speech",), details)


def read_uses(context: Context, pattern: str) -> tuple[list[Use], Bools, list[str]]:
    """Two uses per line, first all the first ones; which lines share a sense; parts of speech."""
    paths = context.found.paths(pattern)
    if len(paths) != 2:
        raise InputError(f"{context.found.name}: {pattern} should mean a .data and a .gold file")
    texts, answers = ([line for _, line in numbered_lines(Source(p, str(p)), _LINE) if line] for p in paths)
    lines, gold = [line.split("\t") for line in texts], [line.strip() for line in answers]
    if not lines:
        raise InputError(f"{paths[0]} is empty")
    if len(lines) != len(gold):
        raise InputError(
            f"{paths[0]} has {counted(len(lines), 'line')}, but {paths[1]} has {counted(len(gold), 'answer')}"
        )
    uses: list[list[Use]] = [[], []]
    for number, line in enumerate(lines, 1):
        try:
            _, _, places, *sentences = line
            for side, place, sentence in zip(uses, places.split("-"), sentences, strict=True):
                words = sentence.split(" ")
                if not words[range(len(words))[int(place)]]:
                    raise ValueError(place)
                side.append((words, int(place)))
        except (ValueError, IndexError):
            raise InputError(
                f"{paths[0]}, line {number}: write lemma, part of speech, positions (2-5) and two sentences,"
                " with tabs between"
            ) from None
    if (odd := next((n for n, answer in enumerate(gold, 1) if answer not in ("T", "F")), None)) is not None:
        raise InputError(f"{paths[1]}, line {odd}: {gold[odd - 1][:40]!r} is no answer: write T or F")
    kept = context.some(range(len(lines)), lambda number: "\t".join(lines[number]))
    chosen = [side[number] for side in uses for number in kept]
    return chosen, np.array([gold[n] for n in kept]) == "T", [lines[n][1] for n in kept]


def cosines(model: Predictor, uses: Sequence[Use], progress: Progress) -> Floats:
    """For every layer (L + 1, pairs) the cosine of the two uses of each pair."""
    vectors = np.zeros((model.config.layers + 1, len(uses), model.config.width))

    def take(number: int, layers: NDArray[np.float32]) -> None:
        place = uses[number][1]
        if place < layers.shape[1]:
            vectors[:, number] = layers[:, place]

    model.word_layers([words for words, _ in uses], take, progress)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    half = len(uses) // 2
    cosine: Floats = (vectors[:, :half] * vectors[:, half:]).sum(-1)
    return cosine.round(_DIGITS)


def best_threshold(values: Floats, same: Bools) -> tuple[float, float]:
    """The threshold at or above which a cosine means the same sense, and its accuracy."""
    kinds, number = np.unique(values, return_inverse=True)  # no threshold parts equal cosines
    # Below place k all are called different, from it on the same.
    below = np.concatenate([[0], np.cumsum(np.bincount(number, ~same))])
    above = same.sum() - np.concatenate([[0], np.cumsum(np.bincount(number, same))])
    place = int(np.argmax(below + above))
    ordered = np.concatenate([[-np.inf], kinds, [np.inf]])
    threshold = float(np.clip((ordered[place] + ordered[place + 1]) / 2, -1.0, _BEYOND))
    return threshold, float(((values >= threshold) == same).mean())
