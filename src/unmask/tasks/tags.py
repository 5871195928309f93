"""Tags of words: entities (IOB2) or parts of speech."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.settings import TaskSettings
from unmask.predict.tag import Tagger, word_rows
from unmask.predict.tasks import Prepared
from unmask.tasks import metrics
from unmask.tasks.batches import Item
from unmask.tasks.examples import TaggedExample
from unmask.tasks.kinds import Baseline, Evaluation, Mistake, balanced, worst
from unmask.tasks.objective import Head
from unmask.tasks.read import check_tags
from unmask.tokenizer import Tokenizer

_AROUND = 6  # words shown on each side of a mistake


class Tags:
    """A tag per word, learnt at the word's first piece."""

    head: Head = "tag"
    meanings: Mapping[str, str] = MappingProxyType(
        {
            "f1": "of whole spans, all kinds together",
            "precision": "of whole spans",
            "recall": "of whole spans",
            "accuracy": "share of the words that are right",
        }
    )

    def __init__(self, examples: Sequence[TaggedExample]) -> None:
        for example in examples:
            check_tags(example.words, example.tags, example.place)
        counts = Counter(tag for example in examples for tag in example.tags)
        if len(counts) < 2:
            raise InputError(f"every word has the tag {next(iter(counts), '')!r}: there is nothing to learn")
        self.labels = tuple(sorted(counts, key=lambda tag: (tag != "O", tag[2:], tag)))
        self._counts = [counts[label] for label in self.labels]
        self._number = {label: number for number, label in enumerate(self.labels)}
        spans = metrics.has_spans(self.labels)
        self.metric = "f1" if spans else "accuracy"
        self.metrics: tuple[str, ...] = ("f1", "precision", "recall", "accuracy") if spans else ("accuracy",)

    @property
    def changes(self) -> dict[str, Any]:
        """Settings of the model for its new head."""
        return {"labels": self.labels, "problem": "single"}

    @property
    def weights(self) -> Tensor | None:
        """How much each tag counts if all are to count alike."""
        return balanced(self._counts)

    def check(self, examples: Sequence[TaggedExample]) -> None:
        """An error if words and tags do not go together; an `I-` alone may be new."""
        for example in examples:
            check_tags(example.words, example.tags, example.place)
            for tag in example.tags:
                if tag not in self._number and f"B-{tag[2:]}" not in self._number:
                    known = ", ".join(self.labels[:20])
                    raise InputError(
                        f"{example.place}: no training example has the tag {tag!r}, only {known}"
                    )

    def predictor(self, model: Model, tokenizer: Tokenizer, settings: TaskSettings) -> Tagger:
        """The model as it will answer."""
        return Tagger(model, tokenizer, settings=settings)

    def prepare(self, predictor: Tagger, examples: Sequence[TaggedExample]) -> list[Prepared]:
        """Examples as windows."""
        return predictor.prepare([example.words for example in examples])

    def items(self, prepared: Sequence[Prepared], examples: Sequence[TaggedExample]) -> list[Item]:
        """Units of training: every word counts once, in the window where it has most context."""
        items = []
        for each, example in zip(prepared, examples, strict=True):
            numbers = np.array([self._number[tag] for tag in example.tags], np.int64)
            places = word_rows(each, len(example.words))
            targets = np.concatenate([numbers[words] for words, _ in places])
            if len(targets):
                items.append(Item(each.windows, targets, [rows for _, rows in places]))
        if not items:
            raise InputError("no word of the training examples is anything but white space")
        return items

    def evaluate(
        self,
        predictor: Tagger,
        prepared: Sequence[Prepared],
        examples: Sequence[TaggedExample],
        details: bool = False,
    ) -> Evaluation:
        """Score the model."""
        scored = predictor.scores(prepared, [len(example.words) for example in examples])
        truth = [example.tags for example in examples]
        predicted = [[self.labels[number] for number in rows.argmax(1)] for rows in scored]
        scores = metrics.tagging(truth, predicted, metrics.has_spans(self.labels))
        if not details:
            return Evaluation(scores)
        flat = [tag for tags in truth for tag in tags], [tag for tags in predicted for tag in tags]
        sure = np.concatenate([rows.max(1) for rows in scored]).astype(np.float64)
        right = np.array([a == b for a, b in zip(*flat, strict=True)])
        classes = (
            metrics.per_span(truth, predicted)
            if metrics.has_spans(self.labels)
            else metrics.per_class(*flat, self.labels)
        )
        mistakes = [
            Mistake(_around(example.words, place), example.tags[place], tags[place], float(rows[place].max()))
            for example, tags, rows in zip(examples, predicted, scored, strict=True)
            for place in range(len(tags))
            if tags[place] != example.tags[place]
        ]
        return Evaluation(scores, tuple(classes), None, metrics.calibration(sure, right), worst(mistakes))

    def baseline(self, examples: Sequence[TaggedExample]) -> Baseline:
        """The scores of always giving the commonest tag."""
        most = self.labels[int(np.argmax(self._counts))]
        said = [[most] * len(example.tags) for example in examples]
        scores = metrics.tagging([e.tags for e in examples], said, metrics.has_spans(self.labels))
        return Baseline(f"always {most!r}", scores)

    def finish(self, model: Model) -> None:
        """Nothing is left to do."""


def _around(words: Sequence[str], place: int) -> str:
    before = " ".join(words[max(0, place - _AROUND) : place])
    after = " ".join(words[place + 1 : place + 1 + _AROUND])
    return f"{before} [{words[place]}] {after}".strip()
