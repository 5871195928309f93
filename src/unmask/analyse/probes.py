"""Linear probes with control tasks (Hewitt and Liang 2019): what can be read off a layer, and what is memory.

A probe may score well because it learned the task from many examples rather than found it in the vectors. A
control task gives every word a label of its own at random: a probe can only learn it by heart. Selectivity,
the accuracy less that of the control task, is what the vectors themselves contribute.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.predict.predictor import Predictor
from unmask.progress import SILENT, Progress

Floats = NDArray[np.float32]
Labels = NDArray[np.str_]


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Words in their sentences, with what a probe is to predict."""

    vectors: Floats  # (L + 1, N, D)
    words: Sequence[str]
    labels: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class LayerProbe:
    """A probe of one layer: which test words it got right, and which of the control task."""

    layer: int
    right: NDArray[np.bool_]
    control_right: NDArray[np.bool_]

    @property
    def accuracy(self) -> float:
        """Of the task."""
        return float(self.right.mean())

    @property
    def control(self) -> float:
        """Accuracy of the control task."""
        return float(self.control_right.mean())

    @property
    def selectivity(self) -> float:
        """Accuracy less that of the control task."""
        return self.accuracy - self.control


def embed_words(
    model: Predictor,
    sentences: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str | None]],
    progress: Progress = SILENT,
) -> Words:
    """The words that have a label, in order, with their vectors; what the model does not take in is zero."""
    kept = [[place for place, label in enumerate(row) if label is not None] for row in labels]
    starts = np.cumsum([0, *map(len, kept)])
    vectors = np.zeros((model.config.layers + 1, starts[-1], model.config.width), np.float32)

    def take(number: int, layers: Floats) -> None:
        inside = [place for place in kept[number] if place < layers.shape[1]]
        vectors[:, starts[number] : starts[number] + len(inside)] = layers[:, inside]

    model.word_layers(sentences, take, progress)
    words = [row[place] for row, places in zip(sentences, kept, strict=True) for place in places]
    return Words(vectors, words, [label for row in labels for label in row if label is not None])


def probe_layers(train: Words, test: Words, seed: int = 0, progress: Progress = SILENT) -> list[LayerProbe]:
    """A probe of each layer, and of each for the control task."""
    if len(set(train.labels)) < 2:
        raise InputError("a probe needs at least two labels to tell apart")
    control = control_task([*train.words, *test.words], train.labels, seed)
    control_train, control_test = control[: len(train.words)], control[len(train.words) :]
    found = []
    with progress.stage("probes", len(train.vectors), "layers") as stage:
        for layer, (one, two) in enumerate(zip(train.vectors, test.vectors, strict=True)):
            right = fit_predict(one, np.array(train.labels), two) == np.array(test.labels)
            control_right = fit_predict(one, control_train, two) == control_test
            found.append(LayerProbe(layer, right, control_right))
            stage.advance(1)
    return found


def control_task(words: Sequence[str], labels: Sequence[str], seed: int = 0) -> Labels:
    """A random label for each word, the same wherever the word stands, drawn as often as in `labels`."""
    kinds, number = np.unique(np.array(words), return_inverse=True)
    drawn: Labels = np.random.default_rng(seed).choice(np.array(labels), len(kinds))[number]
    return drawn


def fit_predict(train: Floats, labels: Labels, test: Floats) -> Labels:
    """Labels of the test vectors by multinomial logistic regression on standardised vectors."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    only = np.unique(labels)
    if len(only) == 1:  # a control task over a few words may give them all the same label
        return np.full(len(test), only[0])
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-3, max_iter=100))
    with warnings.catch_warnings():
        # Stopping early is part of the regularisation, the same for the task and its control.
        warnings.simplefilter("ignore", ConvergenceWarning)
        probe.fit(train, labels)
    predicted: Labels = probe.predict(test)
    return predicted
