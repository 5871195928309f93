"""Tasks: a model with the right head is scored, another one is fine-tuned first."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unmask.errors import InputError, ModelError
from unmask.evaluation.context import Context
from unmask.evaluation.results import HEAD, Measure, Outcome
from unmask.evaluation.suites import FinetuneSuite
from unmask.predict import Answerer, Classifier, Tagger, load
from unmask.predict.predictor import Predictor
from unmask.predict.tasks import TaskModel
from unmask.progress import counted
from unmask.tasks.columns import Columns
from unmask.tasks.examples import QuestionExample, TaggedExample, data_mark, read_of, second_texts
from unmask.tasks.finetune import finetune, split_examples
from unmask.tasks.metrics import answer_f1, exact_match, has_spans
from unmask.tasks.read import read_examples

_HELD_BACK = 0.1
VALIDATION = "best validation score"
LEFT_OUT = "left out of the training, as they are scored"
_CLASSES = {
    "accuracy": Measure("accuracy", "mean", ("correct",)),
    "macro_f1": Measure("macro F1", "macro_f1", ("gold", "predicted")),
    "matthews": Measure("Matthews", "matthews", ("gold", "predicted")),
}
_NUMBERS = {
    "spearman": Measure("Spearman", "spearman", ("gold", "predicted")),
    "pearson": Measure("Pearson", "pearson", ("gold", "predicted")),
}


def finetuned(context: Context, suite: FinetuneSuite) -> Outcome:
    """Scores on examples that neither the training nor its early stopping has seen."""
    given, judged = read_parts(context, suite)
    train = _unseen(given, judged)
    known = len(given) - len(train)
    train, judged = (
        context.some(_some(examples, limit, context.seed), lambda example: repr(replace(example, place="")))
        for examples, limit in ((train, suite.examples), (judged, suite.scored))
    )
    model = context.subject.predictor
    if fits(model, suite, judged, data_mark(given)):
        head = _described(model, suite, given, judged)
        context.progress.say(f"{context.found.name}: only scored, with {head}")
        return replace(score(model, suite, judged), details={HEAD: head})
    if suite.dev and known:
        context.progress.say(
            f"{context.found.name}: {known:,} of {counted(len(given), 'training example')} {LEFT_OUT}"
        )
    if not train:
        raise InputError(
            f"{context.found.name}: {suite.dev} holds all of {suite.train}: name another file to learn from"
        )
    settings = suite.settings.suited(model.config).model_copy(
        update={"seed": context.seed, "metric": suite.metric or suite.settings.metric}
    )
    folder = context.out / f".{context.found.name}.model"
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    try:
        result = finetune(
            suite.task,
            context.subject.folder,
            train,
            out=folder,
            settings=settings,
            progress=context.progress,
        )
        if result.stopped is not None:
            context.progress.say(f"{context.found.name}: stopped; the same command begins it again")
            raise KeyboardInterrupt
        if result.folder is None:
            raise ModelError(f"{context.found.name}: the training came to no model")
        outcome = score(load(folder), suite, judged)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    details = {
        HEAD: "a new one, fine-tuned here", "learned from": result.train_examples, "epochs": result.epochs,
        "training seconds": result.seconds, "learning rate": settings.lr,
        VALIDATION: round(result.scores[result.metric], 6),
    }  # fmt: skip
    details |= {LEFT_OUT: known} if suite.dev and known else {}
    return replace(outcome, details=details)


def read_parts(context: Context, suite: FinetuneSuite) -> tuple[list[Any], list[Any]]:
    """All examples of the file to learn from, and those to score on, which may be a part of them."""
    text, pair, label = (suite.columns.get(name) for name in ("text", "pair", "label"))
    given, *others = (
        list(read_examples(suite.task, context.found.path(part), Columns(text, pair, label)))
        for part in (suite.train, suite.dev)
        if part is not None
    )
    if several := next((one for one in given if isinstance(getattr(one, "target", None), tuple)), None):
        raise InputError(
            f"{several.place}: several classes, but a suite scores one for each text:"
            " unmask finetune classify has scores of several"
        )
    return given, others[0] if others else split_examples(given, _HELD_BACK)[1]


def _unseen(examples: Sequence[Any], judged: Sequence[Any]) -> list[Any]:
    """Those that are not judged: some published files to learn from hold the ones to score on."""
    scored = set(map(read_of, judged))
    return [example for example in examples if read_of(example) not in scored]


def fits(model: Predictor, suite: FinetuneSuite, examples: Sequence[Any], mark: str) -> bool:
    """Whether a model has the head for a task already: fine-tuned on the suite's own examples (`mark`).

    Where a folder does not say on what, as published ones, the same labels will do.
    """
    labels = set(model.config.labels)
    if not isinstance(model, TaskModel) or model.settings.name not in ("", suite.task):
        return False
    if model.settings.data not in ("", mark):
        return False
    if suite.task == "qa":
        return isinstance(model, Answerer)
    if suite.task == "tag":
        return isinstance(model, Tagger) and {tag for example in examples for tag in example.tags} <= labels
    if not isinstance(model, Classifier):
        return False
    if suite.task == "regress":
        return model.config.problem == "regression"
    return model.config.problem == "single" and {str(example.target) for example in examples} <= labels


def _described(model: Predictor, suite: FinetuneSuite, given: Sequence[Any], judged: Sequence[Any]) -> str:
    """The head that a model came with."""
    if not (isinstance(model, TaskModel) and model.settings.data):
        labels = ", ".join(model.config.labels[:10])
        return "the model's own head; on what it was trained is not known" + f" ({labels})" * bool(labels)
    seen = len(judged) - len(_unseen(judged, given))
    which = "the scored examples" if seen == len(judged) else f"{seen:,} of the scored examples"
    known = f", of which {which} are a part: they are not new to it" if seen else ""
    return f"the model's own head, trained on {suite.train}{known}"


def score(model: Predictor, suite: FinetuneSuite, examples: Sequence[Any]) -> Outcome:
    """The outcome of every example."""
    if isinstance(model, Answerer):
        return _score_answers(model, examples)
    if isinstance(model, Tagger):
        return _score_tags(model, examples)
    assert isinstance(model, Classifier)
    found = model.classify([example.text for example in examples], second_texts(examples))
    if suite.task == "regress":
        numbers = [
            {"id": number, "gold": float(example.target), "predicted": labels[0].score}
            for number, (example, labels) in enumerate(zip(examples, found, strict=True))
        ]
        return Outcome(numbers, _first(_NUMBERS, suite.metric))
    classes = [
        {
            "id": number, "gold": str(example.target), "predicted": labels[0].name,
            "correct": float(labels[0].name == str(example.target)), "confidence": labels[0].score,
        }
        for number, (example, labels) in enumerate(zip(examples, found, strict=True))
    ]  # fmt: skip
    return Outcome(classes, _first(_CLASSES, suite.metric))


def _score_tags(model: Tagger, examples: Sequence[TaggedExample]) -> Outcome:
    from seqeval.metrics.sequence_labeling import get_entities

    found = model.tag_words([example.words for example in examples])
    with_spans = has_spans(model.config.labels)  # a few sentences may hold none
    items = []
    for number, (example, labels) in enumerate(zip(examples, found, strict=True)):
        names = [label.name for label in labels]
        sides = (example.tags, names) if with_spans else ((), ())
        gold, predicted = (set(get_entities(list(tags))) for tags in sides)
        items.append(
            {
                "id": number, "words": len(names), "gold": len(gold), "predicted": len(predicted),
                "right": len(gold & predicted),
                "right words": sum(a == b for a, b in zip(example.tags, names, strict=True)),
            }
        )  # fmt: skip
    spans = (Measure("span F1", "span_f1", ("right", "predicted", "gold")),)
    words = Measure("accuracy", "ratio", ("right words", "words"))
    return Outcome(items, (*(spans if with_spans else ()), words))


def _score_answers(model: Answerer, examples: Sequence[QuestionExample]) -> Outcome:
    found = model.answer_all([e.question for e in examples], [e.context for e in examples])
    items = []
    for number, (example, answer) in enumerate(zip(examples, found, strict=True)):
        golds = [gold.text for gold in example.answers] or [""]
        items.append(
            {
                "id": example.id or number,
                "answer": answer.text,
                "f1": max(answer_f1(answer.text, gold) for gold in golds),
                "exact": max(exact_match(answer.text, gold) for gold in golds),
            }
        )
    return Outcome(items, (Measure("F1", "mean", ("f1",)), Measure("exact match", "mean", ("exact",))))


def _first(measures: dict[str, Measure], name: str | None) -> tuple[Measure, ...]:
    """The measures, that which stands for the suite first."""
    return tuple(sorted(measures.values(), key=lambda measure: measure is not measures.get(name or "")))


def _some(examples: list[Any], limit: int, seed: int) -> list[Any]:
    """At most so many, drawn evenly, in their order."""
    if len(examples) <= limit:
        return examples
    drawn = np.random.default_rng(seed).permutation(len(examples))[:limit]
    return [examples[number] for number in np.sort(drawn)]
