"""What one answer for all scores, and the remark on a model that does no better."""

from collections.abc import Sequence
from typing import Any

import pytest

from unmask.tasks.examples import QuestionExample, Span, TaggedExample, TextExample
from unmask.tasks.finetune import make_kind
from unmask.tasks.kinds import Baseline
from unmask.tasks.run import FinetuneResult

SPANS = [TaggedExample(("Rui", "mora", "aqui"), ("B-PER", "O", "O"))]
CLASSES = [TextExample("a", None, target) for target in ("não", "sim", "sim", "sim")]
SEVERAL = [TextExample("a", None, target) for target in (("x", "y"), ("x",), ("x",), ())]
NUMBERS = [TextExample("a", None, number) for number in (1.0, 2.0, 6.0)]
ANSWERED = [
    QuestionExample("Quem?", "Rui mora aqui.", (Span("Rui", 0),)),
    QuestionExample("Quando?", "Rui mora aqui."),
]


@pytest.mark.parametrize(
    ("task", "examples", "answer", "scores"),
    [
        ("classify", CLASSES, "always 'sim'", {"accuracy": 0.75, "f1": 6 / 7, "macro_f1": 3 / 7}),
        ("classify", SEVERAL, "always 'x'", {"exact": 0.5, "micro_f1": 0.75}),
        ("regress", NUMBERS, "always 3", {"spearman": 0.0, "mae": 2.0}),
        ("tag", SPANS, "always 'O'", {"f1": 0.0, "accuracy": 2 / 3}),
        ("qa", ANSWERED, "never an answer", {"f1": 0.5, "exact": 0.5, "unanswerable_right": 1.0}),
    ],
)
def test_one_answer_for_all(
    task: Any, examples: Sequence[Any], answer: str, scores: dict[str, float]
) -> None:
    kind = make_kind(task, examples)
    found = kind.baseline(examples)
    assert found.answer == answer
    assert {name: found.scores[name] for name in scores} == pytest.approx(scores)
    assert found.scores.keys() <= kind.meanings.keys()
    assert set(kind.metrics) <= kind.meanings.keys()


def result(metric: str, score: float, base: float, examples: int) -> FinetuneResult:
    return FinetuneResult(
        folder="out", task="classify", metric=metric, scores={metric: score}, seeds={0: score}, mean=None,
        deviation=None, train_examples=9, valid_examples=examples, lr=1e-3, epochs=1, kept_epoch=1,
        kept_seed=0, steps=1, seconds=1.0, baseline=Baseline("always 'sim'", {metric: base}),
    )  # fmt: skip


def test_a_score_near_that_of_one_answer_is_doubted() -> None:
    doubt = result("accuracy", 0.55, 0.5, 100).doubt
    assert doubt is not None
    assert doubt.startswith(
        "accuracy 0.5500 is not clearly better than 0.5000 (always 'sim'): look at the labels"
    )
    assert result("accuracy", 0.61, 0.5, 100).doubt is None
    assert result("accuracy", 0.61, 0.5, 50).doubt is not None  # fewer examples say less
    assert result("f1", 0.01, 0.0, 50).doubt is None
    few = result("accuracy", 1.0, 2 / 3, 6).doubt
    assert few == (
        "accuracy 1.0000 says little: on so few examples (6) even 1.0000 is not clearly better than 0.6667"
        " (always 'sim'): validate on more"
    )
    assert result("accuracy", 1.0, 2 / 3, 9).doubt is None
    assert result("spearman", 0.1, 0.0, 100).doubt is not None
    assert result("spearman", 0.3, 0.0, 100).doubt is None
