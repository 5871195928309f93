"""Questions whose answers stand in a context, or do not."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.answer import Answerer
from unmask.predict.inputs import TextError
from unmask.predict.settings import TaskSettings
from unmask.predict.tasks import Prepared
from unmask.predict.windows import Window, tokens_of, within
from unmask.tasks import metrics
from unmask.tasks.batches import Item
from unmask.tasks.examples import QuestionExample
from unmask.tasks.kinds import Baseline, Evaluation, Mistake, worst
from unmask.tasks.objective import Head
from unmask.tokenizer import Tokenizer


class Questions:
    """Begin and end of an answer; a window that does not hold it points to its first token."""

    head: Head = "answer"
    metric = "f1"
    metrics: tuple[str, ...] = ("f1", "exact")
    weights: Tensor | None = None
    meanings: Mapping[str, str] = MappingProxyType(
        {
            "f1": "words in common with the answer, mean over the questions",
            "exact": "share of the questions with the very answer",
            "answerable_f1": "the same F1 where there is an answer",
            "unanswerable_right": "share right where there is none",
        }
    )

    def __init__(self, examples: Sequence[QuestionExample]) -> None:
        if not any(example.answers for example in examples):
            raise InputError("no question has an answer: there is nothing to learn")
        self.unanswerable = not all(example.answers for example in examples)
        self.lost = 0
        """Answers that no window holds whole, because they are longer than the stride."""

    @property
    def changes(self) -> dict[str, Any]:
        """The head needs no settings."""
        return {"labels": (), "problem": "single"}

    def check(self, examples: Sequence[QuestionExample]) -> None:
        """Every question will do."""

    def predictor(self, model: Model, tokenizer: Tokenizer, settings: TaskSettings) -> Answerer:
        """The model as it will answer."""
        return Answerer(model, tokenizer, settings=settings)

    def prepare(self, predictor: Answerer, examples: Sequence[QuestionExample]) -> list[Prepared]:
        """Examples as windows."""
        try:
            return predictor.prepare([e.question for e in examples], [e.context for e in examples])
        except TextError as error:
            raise InputError(f"{examples[error.number].place}: {error}") from None

    def items(self, prepared: Sequence[Prepared], examples: Sequence[QuestionExample]) -> list[Item]:
        """Units of training: every window by itself."""
        items: list[Item] = []
        self.lost = 0
        for each, example in zip(prepared, examples, strict=True):
            ends = [_target(each, window, example) for window in each.windows]
            self.lost += bool(example.answers) and not any(ends)
            items += [
                Item([window], np.array([end or (0, 0)], np.int64))
                for window, end in zip(each.windows, ends, strict=True)
            ]
        return items

    def evaluate(
        self,
        predictor: Answerer,
        prepared: Sequence[Prepared],
        examples: Sequence[QuestionExample],
        details: bool = False,
    ) -> Evaluation:
        """Score the model."""
        found = predictor.answers(prepared, [example.context for example in examples])
        truth = [[answer.text for answer in example.answers] for example in examples]
        scores = metrics.answers(truth, [answer.text for answer in found])
        if not details:
            return Evaluation(scores)
        overlap = [
            max(metrics.answer_f1(answer.text, gold) for gold in golds or [""])
            for golds, answer in zip(truth, found, strict=True)
        ]
        sure = np.array([answer.score for answer in found])
        mistakes = [
            Mistake(
                example.question,
                " / ".join(dict.fromkeys(golds)) or "no answer",
                answer.text or "no answer",
                answer.score,
            )
            for example, golds, answer, score in zip(examples, truth, found, overlap, strict=True)
            if not score
        ]
        right = np.array(overlap) > 0.5
        return Evaluation(scores, calibration=metrics.calibration(sure, right), mistakes=worst(mistakes))

    def baseline(self, examples: Sequence[QuestionExample]) -> Baseline:
        """The scores of never answering."""
        truth = [[answer.text for answer in example.answers] for example in examples]
        return Baseline("never an answer", metrics.answers(truth, [""] * len(truth)))

    def finish(self, model: Model) -> None:
        """Nothing is left to do."""


def _target(prepared: Prepared, window: Window, example: QuestionExample) -> tuple[int, int] | None:
    """Where the first answer stands in a window, if the window holds all of it."""
    if not example.answers:
        return None
    answer = example.answers[0]
    found = tokens_of(prepared.encoding, answer.start, answer.start + len(answer.text))
    return None if found is None else within(window, *found)
