"""Scores: scikit-learn, scipy and seqeval; SQuAD's exact match and F1 by their official definition."""

import re
import string
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Scores = dict[str, float]


def classification(truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Scores:
    """Accuracy and macro-F1; of two classes also the second one's F1 and Matthews' correlation.

    The macro-F1 is the mean over the classes that occur on either side, as `unmask evaluate` has it.
    """
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    scores = {
        "accuracy": float(accuracy_score(truth, predicted)),
        "macro_f1": float(f1_score(truth, predicted, average="macro", zero_division=0.0)),
    }
    if len(labels) == 2:
        scores["f1"] = float(f1_score(truth, predicted, pos_label=labels[1], zero_division=0.0))
        varied = len({*truth, *predicted}) > 1
        scores["matthews"] = float(matthews_corrcoef(truth, predicted)) if varied else 0.0
    return scores


def multilabel(truth: NDArray[np.bool_], predicted: NDArray[np.bool_]) -> Scores:
    """F1 over all decisions and over the classes that occur, and the share of texts that are all right."""
    from sklearn.metrics import f1_score

    there = (truth | predicted).any(0)
    of_each = f1_score(truth, predicted, average=None, zero_division=0.0)
    return {
        "micro_f1": float(f1_score(truth, predicted, average="micro", zero_division=0.0)),
        "macro_f1": float(of_each[there].mean()) if there.any() else 0.0,
        "exact": float((truth == predicted).all(1).mean()),
    }


def regression(truth: Sequence[float], predicted: Sequence[float]) -> Scores:
    """Spearman's and Pearson's correlation (0 of one number, or a constant) and the mean absolute error."""
    from scipy.stats import pearsonr, spearmanr

    a, b = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    error = {"mae": float(np.abs(a - b).mean())}
    if len(a) < 2:
        return {"spearman": 0.0, "pearson": 0.0} | error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a constant side, which is counted as 0
        found = {"spearman": spearmanr(a, b).statistic, "pearson": pearsonr(a, b).statistic}
    scores = {name: float(value) if np.isfinite(value) else 0.0 for name, value in found.items()}
    return scores | error


def tagging(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], spans: bool) -> Scores:
    """The share of words right and, if the tags are of spans (IOB2), their precision, recall and F1."""
    right = sum(a == b for x, y in zip(truth, predicted, strict=True) for a, b in zip(x, y, strict=True))
    scores = {"accuracy": right / max(1, sum(map(len, truth)))}
    if not spans:
        return scores
    from seqeval.metrics import f1_score, precision_score, recall_score

    both = [list(tags) for tags in truth], [list(tags) for tags in predicted]
    functions = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
    return {name: float(score(*both, zero_division=0)) for name, score in functions.items()} | scores


def has_spans(tags: Any) -> bool:
    """Whether tags are IOB2."""
    return any(tag.startswith("B-") for tag in tags)


def answers(truth: Sequence[Sequence[str]], predicted: Sequence[str]) -> Scores:
    """SQuAD's exact match and F1: the best over the answers given; no answers means "" is the right one."""
    pairs = [(answer, golds or [""]) for golds, answer in zip(truth, predicted, strict=True)]
    exact = [max(exact_match(answer, gold) for gold in golds) for answer, golds in pairs]
    overlap = [max(answer_f1(answer, gold) for gold in golds) for answer, golds in pairs]
    scores = {"f1": float(np.mean(overlap)), "exact": float(np.mean(exact))}
    answerable = np.array([bool(golds) for golds in truth])
    if not answerable.all():
        scores["answerable_f1"] = float(np.mean(np.array(overlap)[answerable])) if answerable.any() else 0.0
        scores["unanswerable_right"] = float(np.mean(np.array(exact)[~answerable]))
    return scores


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise_answer(text: str) -> str:
    """Lower case, without punctuation, English articles and repeated white space, as SQuAD compares."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """1 if two answers are the same when normalised."""
    return float(normalise_answer(answer) == normalise_answer(gold))


def answer_f1(answer: str, gold: str) -> float:
    """F1 of the words two answers have in common; with an empty one, 1 if both are."""
    ours, theirs = normalise_answer(answer).split(), normalise_answer(gold).split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs))


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How one class, or kind of span, was recognised."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


def per_class(truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> list[ClassScore]:
    """Precision, recall and F1 of every class."""
    from sklearn.metrics import precision_recall_fscore_support

    columns = precision_recall_fscore_support(truth, predicted, labels=list(labels), zero_division=0.0)
    return class_scores(labels, columns)


def per_span(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[ClassScore]:
    """Precision, recall and F1 of every kind of span, by seqeval."""
    from seqeval.metrics.sequence_labeling import get_entities, precision_recall_fscore_support

    both = [list(tags) for tags in truth], [list(tags) for tags in predicted]
    kinds = sorted({kind for side in both for kind, _, _ in get_entities(side)})
    columns = precision_recall_fscore_support(*both, average=None, zero_division=0)
    return class_scores(kinds, columns)


def class_scores(labels: Sequence[str], columns: Any) -> list[ClassScore]:
    """From the columns that scikit-learn and seqeval give."""
    rows = zip(labels, *columns, strict=True)
    return [ClassScore(label, float(p), float(r), float(f), int(n)) for label, p, r, f, n in rows]


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far confidence is from the share that is right."""

    error: float
    """Expected calibration error."""
    bins: tuple[tuple[float, float, int], ...]
    """Mean confidence, share right and number of predictions, of each bin that holds any."""


def calibration(confidence: Floats, right: NDArray[np.bool_], bins: int = 10) -> Calibration:
    """Compare confidence with the share right in equal bins of confidence."""
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    rows = []
    for number in np.unique(which):
        mine = which == number
        rows.append((float(confidence[mine].mean()), float(right[mine].mean()), int(mine.sum())))
    error = sum(abs(mean - share) * count for mean, share, count in rows) / max(1, len(confidence))
    return Calibration(error, tuple(rows))
