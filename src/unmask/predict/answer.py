"""Answers to questions, found in a context.

n tokens of a window
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.batching import Pack
from unmask.predict.inputs import TextError, TooLongError
from unmask.predict.results import Answer
from unmask.predict.tasks import Prepared, TaskModel
from unmask.predict.windows import sliding
from unmask.progress import SILENT, Progress

ANSWER_TOKENS = 30
"""No answer is longer."""
_SHOWN = 40  # characters of a question that is too long

Floats = NDArray[np.floating]


class Answerer(TaskModel):
    """Answers to questions; long contexts are read in windows."""

    def __call__(
        self, questions: str | Sequence[str], contexts: str | Sequence[str]
    ) -> Answer | list[Answer]:
        """The answer to a question, or to each of many."""
        if isinstance(questions, str) and isinstance(contexts, str):
            return self.answer(questions, contexts)
        if isinstance(questions, str) or isinstance(contexts, str):
            raise InputError("give one question and one context, or a list of each")
        return self.answer_all(questions, contexts)

    def answer(self, question: str, context: str) -> Answer:
        """The likeliest stretch of the context; "" if the model holds that there is none."""
        return self.answer_all([question], [context])[0]

    def answer_all(self, questions: Sequence[str], contexts: Sequence[str]) -> list[Answer]:
        """The answer to each question in the context of the same number."""
        prepared = self.prepare(questions, contexts)
        for number, question in enumerate(questions):
            if (
                len(prepared[number].encoding) > self.length
            ):  # only now is it worth knowing whose tokens they are
                self._check(question, number)
        return self.answers(prepared, contexts)

    def prepare(self, questions: Sequence[str], contexts: Sequence[str]) -> list[Prepared]:
        """Questions as the windows that `answers` takes."""
        encodings = self.tokenizer.encode_batch(questions, contexts)
        for number, encoding in enumerate(encodings):  # of spaces some vocabularies make tokens
            if not contexts[number].strip() or not (encoding.segments == 1).any():
                raise TextError("the context is empty", number)
        return [self._cut(encoding) for encoding in encodings]

    def answers(
        self, prepared: Sequence[Prepared], contexts: Sequence[str], progress: Progress = SILENT
    ) -> list[Answer]:
        """The answers to prepared questions."""
        scores: list[list[Floats]] = [[np.empty(0)] * len(each.windows) for each in prepared]
        for text, number, rows in self._scores([each.windows for each in prepared], self._ends, progress):
            scores[text][number] = rows
        return [
            choose(each, rows, context, self.settings.unanswerable)
            for each, rows, context in zip(prepared, scores, contexts, strict=True)
        ]

    def _check(self, question: str, number: int) -> None:
        """Of a question longer than the model takes only the first half would be read, in every window."""
        tokens = len(self.tokenizer.encode(question))
        if tokens > self.length:
            which = f"the question {question[:_SHOWN]!r}…"
            reason = f"has {tokens} tokens, but the model takes at most {self.length}: shorten it"
            raise TooLongError(which, reason, number)

    def _ends(self, packed: Pack, which: list[tuple[int, int]]) -> Sequence[Tensor]:
        return torch.split(answer_scores(self.network, packed), list(packed.lengths))


def answer_scores(model: Model, packed: Pack) -> Tensor:
    """Scores (T, 2) of each token to begin and to end the answer."""
    hidden = model.encoder(
        packed.ids, packed.positions, packed.cu_seqlens, packed.max_seqlen, packed.segments
    )
    return model.answer(hidden)


def choose(prepared: Prepared, scores: Sequence[Floats], context: str, unanswerable: bool) -> Answer:
    """The best stretch within one window, among all windows; or none, told by each window's first token.

    Probabilities are over the tokens of all windows, as if they were one.
    """
    encoding = prepared.encoding
    body = sliding(encoding)
    best, where = -np.inf, (0, 0)
    totals: list[Floats] = []
    for window, rows in zip(prepared.windows, scores, strict=True):
        inside = np.flatnonzero(np.isin(window.places, body))
        mine = rows[inside].astype(np.float64)  # (n, 2)
        totals.append(mine)
        score, first, last = best_stretch(mine[:, 0], mine[:, 1])
        if score > best:
            best, where = score, (int(window.places[inside[first]]), int(window.places[inside[last]]))
    nothing = min((rows[0].astype(np.float64) for rows in scores), key=lambda row: float(row.sum()))
    if unanswerable:
        totals.append(nothing[None])
    together = np.concatenate(totals)
    highest = together.max(0)
    scale = float((highest + np.log(np.exp(together - highest).sum(0))).sum())
    if unanswerable and nothing.sum() > best:
        return Answer("", 0, 0, float(np.exp(nothing.sum() - scale)))
    start, end = int(encoding.offsets[where[0], 0]), int(encoding.offsets[where[1], 1])
    return Answer(context[start:end], start, end, float(np.exp(best - scale)))


def best_stretch(begin: Floats, end: Floats) -> tuple[float, int, int]:
    """The highest sum of a beginning and an end that is no more than ANSWER_TOKENS on, and where it is."""
    best, first, last = -np.inf, 0, 0
    for further in range(min(ANSWER_TOKENS, len(begin))):
        sums = begin[: len(begin) - further] + end[further:]
        place = int(sums.argmax())
        if sums[place] > best:
            best, first, last = float(sums[place]), place, place + further
    return best, first, last
