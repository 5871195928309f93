"""Contrast sets: a text and a small edit that flips its label; a model that understands gets both right."""

from collections.abc import Mapping, Sequence
from typing import Any

from unmask.errors import InputError, ModelError
from unmask.evaluation.context import Context, rows
from unmask.evaluation.results import Measure, Outcome
from unmask.evaluation.suites import ContrastSuite, Prompt
from unmask.predict import Classifier, MaskedLM
from unmask.predict.cloze import Cloze

_MEASURES = (
    Measure("consistency", "mean", ("both",)),
    Measure("original accuracy", "mean", ("original",)),
    Measure("contrast accuracy", "mean", ("contrast",)),
)
_TEXTS = ("text", "edited", "premise")
_NAMES = ("task", "label", "edited_label")
Row = Mapping[str, Any]


def contrast(context: Context, suite: ContrastSuite) -> Outcome:
    """Accuracy on the texts, on their edits, and the share of which both are right."""
    named = [
        (f"{file}/{number}", row)
        for file, path in context.files(suite.files)
        for number, (_, row) in enumerate(rows(path, _TEXTS, _NAMES, ("premise",)))
    ]
    tasks: dict[str, list[tuple[str, Row]]] = {}
    for name, found in context.some(named):
        tasks.setdefault(found["task"], []).append((name, found))
    items, left_out = [], {}
    for task, members in tasks.items():
        given = [row for _, row in members]
        labels = {row[key].lower() for row in given for key in ("label", "edited_label")}
        if isinstance(context.subject.predictor, Classifier) and not _fits(context.subject.predictor, labels):
            left_out[task] = f"the model's classes are {', '.join(context.subject.predictor.config.labels)}"
            continue
        if word := _unwritable(context, suite, task):
            left_out[task] = f"the vocabulary cannot write {word!r}, which stands for a label"
            context.progress.say(f"{context.found.name}: {task} is left out: {left_out[task]}")
            continue
        texts, edits = (_judge(context, suite, task, given, key) for key in ("text", "edited"))
        for (name, row), one, other in zip(members, texts, edits, strict=True):
            original, changed = one == row["label"].lower(), other == row["edited_label"].lower()
            items.append(
                {"id": name, "task": task, "original": float(original), "contrast": float(changed)}
                | {"both": float(original and changed)}
            )
    if not items:
        told = "; ".join(f"{task}: {reason}" for task, reason in left_out.items())
        raise ModelError(f"{context.found.name}: no task of it suits the model ({told})")
    return Outcome(items, _MEASURES, ("task",), {"tasks left out": left_out} if left_out else {})


def _judge(context: Context, suite: ContrastSuite, task: str, given: Sequence[Row], key: str) -> list[str]:
    """The label that the model gives to each text, in small letters."""
    model = context.subject.predictor
    texts = [row[key] for row in given]
    premises = [row["premise"] for row in given if row.get("premise")] or None
    if premises is not None and len(premises) < len(given):
        raise InputError(f"{context.found.name}: of {task} some rows have a premise and others none")
    if isinstance(model, Classifier):
        found = model.classify(texts) if premises is None else model.classify(premises, texts)
        return [labels[0].name.lower() for labels in found]
    if not isinstance(model, MaskedLM):
        raise ModelError(f"{context.subject.folder}: a contrast set needs a classifier or a language model")
    if task not in suite.prompts:
        raise InputError(
            f"{context.found.name}: there is no prompt for {task}; those there are: {list(suite.prompts)}"
        )
    prompt = suite.prompts[task]
    words = {label.lower() for label in prompt.words}
    labels = [row[key] for row in given for key in ("label", "edited_label")]
    if (other := next((label for label in labels if label.lower() not in words), None)) is not None:
        raise InputError(
            f"{context.found.name}: the prompt for {task} has no word for the label {other!r}, only for"
            f" {', '.join(prompt.words)}"
        )
    return _ask(model, prompt, texts, premises)


def _unwritable(context: Context, suite: ContrastSuite, task: str) -> str | None:
    """A label's word that the model could never choose, if it is asked by a prompt."""
    model = context.subject.predictor
    if not isinstance(model, MaskedLM) or task not in suite.prompts:
        return None
    prompt = suite.prompts[task]
    cloze = Cloze(model, [prompt.text])
    return next((word for word in prompt.words.values() if not cloze.pieces(0, word)), None)


def _ask(model: MaskedLM, prompt: Prompt, texts: Sequence[str], premises: Sequence[str] | None) -> list[str]:
    filled = [
        prompt.text.replace("{text}", text).replace("{premise}", premise)
        for text, premise in zip(texts, premises or [""] * len(texts), strict=True)
    ]
    labels = [label.lower() for label in prompt.words]
    best = Cloze(model, filled).score(list(prompt.words.values())).argmax(1)
    return [labels[place] for place in best]


def _fits(model: Classifier, labels: set[str]) -> bool:
    return labels <= {label.lower() for label in model.config.labels}
