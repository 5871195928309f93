"""Scores against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score

from unmask.tasks import metrics


def test_classes() -> None:
    scores = metrics.classification(["a", "b", "b", "b"], ["a", "b", "a", "b"], ["a", "b"])
    assert scores["accuracy"] == 0.75
    assert scores["f1"] == pytest.approx(0.8)  # precision 1, recall 2/3
    assert scores["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)
    assert scores["matthews"] == pytest.approx((2 * 1 - 1 * 0) / np.sqrt(2 * 3 * 1 * 2))
    rows = metrics.per_class(["a", "b", "b", "b"], ["a", "b", "a", "b"], ["a", "b"])
    assert [(row.label, row.support) for row in rows] == [("a", 1), ("b", 3)]
    assert rows[0].precision == 0.5


def test_several_classes_at_once() -> None:
    truth = np.array([[1, 0], [1, 1]], np.bool_)
    scores = metrics.multilabel(truth, np.array([[1, 0], [0, 1]], np.bool_))
    assert scores["exact"] == 0.5
    assert scores["micro_f1"] == pytest.approx(0.8)


def test_a_class_that_occurs_nowhere_does_not_count() -> None:
    """As scikit-learn has it, and `unmask evaluate`: a model that is always right has 1."""
    labels = ["a", "b", "c"]
    assert metrics.classification(["a", "b"], ["a", "b"], labels)["macro_f1"] == 1
    assert metrics.classification(["a", "b"], ["a", "c"], labels)["macro_f1"] == pytest.approx(1 / 3)
    none = np.array([[1, 0, 0], [0, 1, 0]], np.bool_)
    assert metrics.multilabel(none, none)["macro_f1"] == 1
    wrong = np.array([[1, 0, 0], [0, 0, 1]], np.bool_)
    assert metrics.multilabel(none, wrong)["macro_f1"] == pytest.approx(1 / 3)
    assert metrics.multilabel(none & False, none & False)["macro_f1"] == 0
    one = np.array([[1, 0], [1, 0], [1, 0], [0, 0], [0, 0]], np.bool_)
    found = one & np.array([[1], [0], [0], [0], [0]], np.bool_)
    assert metrics.multilabel(one, found)["macro_f1"] == pytest.approx(0.5)  # of the class, not of its lack


def test_numbers() -> None:
    scores = metrics.regression([1.0, 2.0, 3.0], [1.0, 4.0, 9.0])
    assert scores["spearman"] == pytest.approx(1.0)
    assert scores["mae"] == pytest.approx(8 / 3)
    assert metrics.regression([1.0, 2.0], [3.0, 3.0])["spearman"] == 0.0


TAGS = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B"]), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TAGS, st.randoms()), min_size=1, max_size=4))
def test_spans_equal_seqeval(sentences: list[tuple[list[str], object]]) -> None:
    truth = [["B-A", *tags] for tags, _ in sentences]
    predicted = [["B-A", *reversed(tags)] for tags, _ in sentences]
    scores = metrics.tagging(truth, predicted, spans=True)
    assert scores["f1"] == pytest.approx(f1_score(truth, predicted))
    assert {row.label for row in metrics.per_span(truth, predicted)} >= {"A"}


def test_tags_without_spans_have_accuracy_alone() -> None:
    assert metrics.tagging([["NOUN", "VERB"]], [["NOUN", "NOUN"]], spans=False) == {"accuracy": 0.5}


def test_spans_that_are_nowhere_score_nothing() -> None:
    assert metrics.tagging([["O"]], [["O"]], spans=True) == {
        "f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0
    }  # fmt: skip


# SQuAD compares after lower case, without punctuation, articles and repeated white space.
@pytest.mark.parametrize(
    ("answer", "gold", "exact", "f1"),
    [
        ("The cat", "cat!", 1, 1),
        ("the black cat", "a cat", 0, 2 / 3),
        ("", "", 1, 1),
        ("", "cat", 0, 0),
        ("the", "", 1, 1),
        ("cat cat dog", "cat dog dog", 0, 2 / 3),
        ("U.S.", "us", 1, 1),
        ("dog", "cat", 0, 0),
    ],
)
def test_answers(answer: str, gold: str, exact: float, f1: float) -> None:
    assert metrics.exact_match(answer, gold) == exact
    assert metrics.answer_f1(answer, gold) == pytest.approx(f1)


def test_the_best_of_several_answers_counts() -> None:
    scores = metrics.answers([["in Rome", "Rome"], []], ["Rome", "Paris"])
    assert scores == {"f1": 0.5, "exact": 0.5, "answerable_f1": 1.0, "unanswerable_right": 0.0}
    assert set(metrics.answers([["Rome"]], ["Rome"])) == {"f1", "exact"}


def test_calibration() -> None:
    sure = np.array([0.95, 0.95, 0.55, 0.55])
    assert metrics.calibration(sure, np.array([True, True, True, False])).error == pytest.approx(0.05)
    found = metrics.calibration(np.array([1.0, 0.0]), np.array([False, False]))
    assert found.error == pytest.approx(0.5)
    assert [count for _, _, count in found.bins] == [1, 1]


def test_one_example_has_no_correlation() -> None:
    assert metrics.regression([2.0], [3.0]) == {"spearman": 0.0, "pearson": 0.0, "mae": 1.0}
    assert metrics.classification(["a"], ["a"], ["a", "b"])["matthews"] == 0
