"""Linear probes of every layer for the tags of words, with control tasks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unmask.analyse.probes import Words, embed_words, probe_layers
from unmask.evaluation.context import Context
from unmask.evaluation.results import Measure, Outcome
from unmask.evaluation.suites import ProbeSuite
from unmask.predict.predictor import Predictor
from unmask.progress import Progress
from unmask.tasks.examples import TaggedExample
from unmask.tasks.read import read_examples

_MEASURES = (
    Measure("accuracy", "ratio", ("right", "words")),
    Measure("control accuracy", "ratio", ("control", "words")),
    Measure("selectivity", "ratio", ("selective", "words")),
)


def probe(context: Context, suite: ProbeSuite) -> Outcome:
    """The layer is chosen on a tenth of the training words; scores are per sentence of the other part."""
    learn, judged = (
        context.some(_first_words(context.found.path(part), suite.words), lambda one: " ".join(one.words))
        for part in (suite.train, suite.dev)
    )
    cut = max(1, len(learn) // 10)
    model = context.subject.predictor
    train, held_back, test = (
        _vectors(model, sentences, context.progress) for sentences in (learn[cut:], learn[:cut], judged)
    )
    chosen = probe_layers(train, _joined(held_back, test), context.seed, context.progress)
    inner = len(held_back.words)
    best = max(chosen, key=lambda one: float(one.right[:inner].mean()))
    ends = np.cumsum([len(sentence.words) for sentence in judged])[:-1]
    items = [
        {
            "id": number, "words": len(right), "right": int(right.sum()), "control": int(control.sum()),
            "selective": int(right.sum()) - int(control.sum()),
        }
        for number, (right, control) in enumerate(
            zip(np.split(best.right[inner:], ends), np.split(best.control_right[inner:], ends), strict=True)
        )
    ]  # fmt: skip
    layers = [
        {
            "layer": one.layer,
            "accuracy": float(one.right[inner:].mean()),
            "control": float(one.control_right[inner:].mean()),
            "selectivity": float(one.right[inner:].mean() - one.control_right[inner:].mean()),
        }
        for one in chosen
    ]
    return Outcome(items, _MEASURES, details={"layer": best.layer, "layers": layers})


def _first_words(path: Path, limit: int) -> list[TaggedExample]:
    """Whole sentences until there are so many words."""
    kept: list[TaggedExample] = []
    count = 0
    for example in read_examples("tag", path):
        assert isinstance(example, TaggedExample)
        if kept and count + len(example.words) > limit:
            break
        kept.append(example)
        count += len(example.words)
    return kept


def _vectors(model: Predictor, sentences: Sequence[TaggedExample], progress: Progress) -> Words:
    return embed_words(model, [one.words for one in sentences], [one.tags for one in sentences], progress)


def _joined(first: Words, second: Words) -> Words:
    vectors = np.concatenate([first.vectors, second.vectors], axis=1)
    return Words(vectors, [*first.words, *second.words], [*first.labels, *second.labels])
