"""Classes of texts and pairs, one or several per text, and numbers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.classify import Classifier
from unmask.predict.settings import TaskSettings
from unmask.predict.windows import Window
from unmask.tasks import metrics
from unmask.tasks.batches import Item
from unmask.tasks.examples import TextExample, second_texts
from unmask.tasks.kinds import MISTAKES, Baseline, Confusion, Evaluation, Mistake, balanced, worst
from unmask.tasks.objective import Head
from unmask.tokenizer import Tokenizer

_UNEVEN = 1.5  # where a class has so many times its fair share, macro-F1 says more than accuracy
_SHOWN = 30  # classes of the largest confusion matrix


class _Texts:
    """What classes and numbers have in common: a classification head on one or two texts."""

    head: Head = "classify"

    def predictor(self, model: Model, tokenizer: Tokenizer, settings: TaskSettings) -> Classifier:
        """The model as it will answer."""
        return Classifier(model, tokenizer, settings=settings)

    def prepare(self, predictor: Classifier, examples: Sequence[TextExample]) -> list[list[Window]]:
        """Examples as windows."""
        return predictor.prepare([example.text for example in examples], second_texts(examples))

    def finish(self, model: Model) -> None:
        """Nothing is left to do."""


class Classes(_Texts):
    """One class per text or, if any example has several, any number of them."""

    def __init__(self, examples: Sequence[TextExample]) -> None:
        self.multi = any(isinstance(example.target, tuple) for example in examples)
        counts = Counter(name for example in examples for name in _names(example))
        if len(counts) < 2:
            only = next(iter(counts), "")
            raise InputError(f"there is no label but {only!r}: name another class to tell it from")
        self.labels = tuple(sorted(counts, key=_natural))
        self._counts, self._size = [counts[label] for label in self.labels], len(examples)
        self._number = {label: number for number, label in enumerate(self.labels)}
        if self.multi:
            self.metrics: tuple[str, ...] = ("micro_f1", "macro_f1", "exact")
            self.metric = "macro_f1"
            return
        uneven = max(self._counts) * len(self.labels) > _UNEVEN * len(examples)
        self.metric = "macro_f1" if uneven else "accuracy"
        self.metrics = ("accuracy", "macro_f1", *(("f1", "matthews") if len(self.labels) == 2 else ()))

    @property
    def meanings(self) -> dict[str, str]:
        """What each score is of, in words."""
        return {
            "accuracy": "share of the texts that are right",
            "micro_f1": "over all decisions together",
            "macro_f1": "mean over the classes",
            "f1": f"of the class {self.labels[-1]!r}",
            "matthews": "correlation; 0 is chance",
            "exact": "share of the texts with every class right",
        }

    @property
    def changes(self) -> dict[str, Any]:
        """Settings of the model for its new head."""
        return {"labels": self.labels, "problem": "multi" if self.multi else "single"}

    @property
    def weights(self) -> Tensor | None:
        """How much each class counts, so that all count alike; of several labels, how much having it does."""
        if self.multi:
            return torch.tensor([max(self._size - count, 1) / count for count in self._counts])
        return balanced(self._counts)

    def check(self, examples: Sequence[TextExample]) -> None:
        """An error if a label was not among those of the training."""
        for example in examples:
            if not self.multi and isinstance(example.target, tuple):
                raise InputError(f"{example.place}: several labels, but the training examples have one each")
            for name in _names(example):
                if name not in self._number:
                    known = ", ".join(self.labels[:20])
                    raise InputError(
                        f"{example.place}: no training example has the label {name!r}, only {known}"
                    )

    def items(self, prepared: Sequence[Sequence[Window]], examples: Sequence[TextExample]) -> list[Item]:
        """Units of training."""
        truth = self._truth(examples)
        targets = truth.astype(np.float32) if self.multi else truth.argmax(1)
        return [Item(each, targets[n : n + 1]) for n, each in enumerate(prepared)]

    def evaluate(
        self,
        predictor: Classifier,
        prepared: Sequence[Sequence[Window]],
        examples: Sequence[TextExample],
        details: bool = False,
    ) -> Evaluation:
        """Score the model."""
        probabilities = predictor.probabilities(predictor.scores(prepared))
        if self.multi:
            return self._evaluate_multi(probabilities, examples, details)
        best = probabilities.argmax(1)
        truth = [self.labels[number] for number in self._truth(examples).argmax(1)]
        predicted = [self.labels[number] for number in best]
        scores = metrics.classification(truth, predicted, self.labels)
        if not details:
            return Evaluation(scores)
        sure = probabilities.max(1).astype(np.float64)
        right = np.array([a == b for a, b in zip(truth, predicted, strict=True)])
        return Evaluation(
            scores,
            tuple(metrics.per_class(truth, predicted, self.labels)),
            _confusion(truth, predicted, self.labels) if len(self.labels) <= _SHOWN else None,
            metrics.calibration(sure, right),
            worst([
                Mistake(_shown(examples[n]), truth[n], predicted[n], float(sure[n]))
                for n in np.flatnonzero(~right).tolist()
            ]),
        )  # fmt: skip

    def _evaluate_multi(
        self, probabilities: NDArray[np.float32], examples: Sequence[TextExample], details: bool
    ) -> Evaluation:
        truth, predicted = self._truth(examples), probabilities > 0.5
        scores = metrics.multilabel(truth, predicted)
        if not details:
            return Evaluation(scores)
        from sklearn.metrics import precision_recall_fscore_support

        columns = precision_recall_fscore_support(truth, predicted, zero_division=0.0)
        sure = np.maximum(probabilities, 1 - probabilities).astype(np.float64)
        wrong = truth != predicted
        return Evaluation(
            scores,
            tuple(metrics.class_scores(self.labels, columns)),
            None,
            metrics.calibration(sure.ravel(), ~wrong.ravel()),
            worst([
                Mistake(
                    _shown(examples[n]), _joined(self.labels, truth[n]), _joined(self.labels, predicted[n]),
                    float(sure[n][wrong[n]].max()),
                )
                for n in np.flatnonzero(wrong.any(1)).tolist()
            ]),
        )  # fmt: skip

    def baseline(self, examples: Sequence[TextExample]) -> Baseline:
        """The scores of always naming the commonest class; of several labels, those of most texts."""
        truth = self._truth(examples)
        if self.multi:
            usual = np.array(self._counts) * 2 > self._size
            said = np.tile(usual, (len(examples), 1))
            return Baseline(f"always {_joined(self.labels, usual)!r}", metrics.multilabel(truth, said))
        most = self.labels[int(np.argmax(self._counts))]
        names = [self.labels[number] for number in truth.argmax(1)]
        scores = metrics.classification(names, [most] * len(names), self.labels)
        return Baseline(f"always {most!r}", scores)

    def _truth(self, examples: Sequence[TextExample]) -> NDArray[np.bool_]:
        truth = np.zeros((len(examples), len(self.labels)), np.bool_)
        for number, example in enumerate(examples):
            truth[number, [self._number[name] for name in _names(example)]] = True
        return truth


class Numbers(_Texts):
    """A number per text. It is learnt in units of its deviation, which are put into the head at the end."""

    metric = "spearman"
    metrics: tuple[str, ...] = ("spearman", "pearson")
    weights: Tensor | None = None
    meanings: Mapping[str, str] = MappingProxyType(
        {
            "spearman": "correlation of the order",
            "pearson": "correlation of the numbers",
            "mae": "mean absolute error",
        }
    )

    def __init__(self, examples: Sequence[TextExample]) -> None:
        values = _values(examples)
        self._mean, self._deviation = float(values.mean()), float(values.std())
        if not self._deviation:
            raise InputError(f"every example has the number {values[0]:g}: there is nothing to learn")

    @property
    def changes(self) -> dict[str, Any]:
        """Settings of the model for its new head."""
        return {"labels": ("score",), "problem": "regression"}

    def check(self, examples: Sequence[TextExample]) -> None:
        """Every number will do."""

    def items(self, prepared: Sequence[Sequence[Window]], examples: Sequence[TextExample]) -> list[Item]:
        """Units of training."""
        targets = ((_values(examples) - self._mean) / self._deviation).astype(np.float32)
        return [Item(each, targets[n : n + 1]) for n, each in enumerate(prepared)]

    def evaluate(
        self,
        predictor: Classifier,
        prepared: Sequence[Sequence[Window]],
        examples: Sequence[TextExample],
        details: bool = False,
    ) -> Evaluation:
        """Score the model, whose head is not finished yet."""
        truth = _values(examples)
        predicted = predictor.scores(prepared)[:, 0] * self._deviation + self._mean
        scores = metrics.regression(truth.tolist(), predicted.tolist())
        if not details:
            return Evaluation(scores)
        far = np.argsort(-np.abs(truth - predicted))[:MISTAKES].tolist()
        return Evaluation(
            scores,
            mistakes=tuple(
                Mistake(_shown(examples[n]), f"{truth[n]:.3g}", f"{predicted[n]:.3g}", 0.0) for n in far
            ),
        )

    def baseline(self, examples: Sequence[TextExample]) -> Baseline:
        """The scores of always giving the mean."""
        scores = metrics.regression(_values(examples).tolist(), [self._mean] * len(examples))
        return Baseline(f"always {self._mean:.3g}", scores)

    @torch.no_grad()
    def finish(self, model: Model) -> None:
        """From units of the deviation to the numbers themselves."""
        linear: Any = model.heads["classify"].linear
        linear.weight.mul_(self._deviation)
        if linear.bias is not None:
            linear.bias.mul_(self._deviation).add_(self._mean)


def _names(example: TextExample) -> tuple[str, ...]:
    target = example.target
    if isinstance(target, tuple):
        return target
    if not isinstance(target, str):
        raise InputError(f"{example.place or example.text[:40]!r} has no label")
    return (target,)


def _values(examples: Sequence[TextExample]) -> NDArray[np.float64]:
    for example in examples:
        if not isinstance(example.target, int | float):
            raise InputError(f"{example.place or example.text[:40]!r} has no number")
    values = np.array([example.target for example in examples], np.float64)
    if not np.isfinite(values).all():
        place = examples[int(np.flatnonzero(~np.isfinite(values))[0])]
        raise InputError(f"{place.place or place.text[:40]!r} has a number that is not finite")
    return values


def _natural(label: str) -> tuple[int, float, str]:
    """Numbers by their size, then names by the alphabet."""
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)


def _confusion(truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Confusion:
    from sklearn.metrics import confusion_matrix

    counts = confusion_matrix(truth, predicted, labels=list(labels)).tolist()
    return Confusion(tuple(labels), tuple(map(tuple, counts)))


def _shown(example: TextExample) -> str:
    return example.text if example.pair is None else f"{example.text} ‖ {example.pair}"


def _joined(labels: Sequence[str], chosen: NDArray[np.bool_]) -> str:
    return " | ".join(label for label, here in zip(labels, chosen, strict=True) if here) or "none"
