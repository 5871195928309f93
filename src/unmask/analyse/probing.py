"""Where in the layers a property of words becomes linearly readable: figures, JSON and a page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from unmask.analyse.probes import Words, embed_words, probe_layers
from unmask.charts import lines
from unmask.errors import InputError
from unmask.files import write_json
from unmask.predict.predictor import Predictor
from unmask.progress import SILENT, Progress, counted
from unmask.report import Part, Table, write_page
from unmask.text.conllu import LabelledSentence

COLUMNS = ("layer", "accuracy", "control", "selectivity")
_FIFTH = 5


@dataclass(frozen=True, slots=True)
class LayerScore:
    """A probe of one layer; 0 is the embeddings."""

    layer: int
    accuracy: float
    control: float
    """Accuracy on random labels, one for each word form."""
    selectivity: float
    """Accuracy less that of the control task: what the vectors contribute, not the probe's memory."""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a probe of every layer found."""

    label: str
    values: dict[str, int]
    """How often each value is among the words learned from."""
    train_words: int
    test_words: int
    majority: float
    """Accuracy of always saying the commonest value."""
    layers: tuple[LayerScore, ...]

    @property
    def best(self) -> LayerScore:
        """The layer where most can be read."""
        return max(self.layers, key=lambda layer: layer.accuracy)


def hold_back(sentences: Sequence[LabelledSentence]) -> tuple[list[LabelledSentence], list[LabelledSentence]]:
    """Every fifth sentence to score on, the others to learn from."""
    if len(sentences) < _FIFTH:
        raise InputError(
            f"{counted(len(sentences), 'sentence')} with the label: too few to hold a fifth back; "
            "give a second file"
        )
    learn = [sentence for number, sentence in enumerate(sentences, 1) if number % _FIFTH]
    return learn, list(sentences[_FIFTH - 1 :: _FIFTH])


def probe_label(
    model: Predictor,
    learn: Sequence[LabelledSentence],
    judged: Sequence[LabelledSentence],
    label: str,
    seed: int = 0,
    progress: Progress = SILENT,
) -> ProbeReport:
    """A probe of every layer, learned from some sentences and scored on others; what is both is told."""
    known = set(learn)
    if repeated := sum(sentence in known for sentence in judged):
        progress.say(
            f"{repeated:,} of {counted(len(judged), 'sentence')} to score on learned from too: the figures"
            " will say less of new text"
        )
    train, test = (_embed(model, sentences, progress) for sentences in (learn, judged))
    values = Counter(train.labels)
    commonest = values.most_common(1)[0][0]
    layers = tuple(
        LayerScore(one.layer, one.accuracy, one.control, one.selectivity)
        for one in probe_layers(train, test, seed, progress)
    )
    majority = sum(value == commonest for value in test.labels) / len(test.labels)
    return ProbeReport(
        label, dict(values.most_common()), len(train.labels), len(test.labels), majority, layers
    )


def _embed(model: Predictor, sentences: Sequence[LabelledSentence], progress: Progress) -> Words:
    return embed_words(model, [s.words for s in sentences], [s.labels for s in sentences], progress)


def write_probe(folder: Path, found: ProbeReport) -> None:
    """Write probe.html and probe.json."""
    write_json(folder / "probe.json", asdict(found))
    curves = {
        "accuracy": [(one.layer, one.accuracy) for one in found.layers],
        "control task": [(one.layer, one.control) for one in found.layers],
        "selectivity": [(one.layer, one.selectivity) for one in found.layers],
        "commonest value": [(one.layer, found.majority) for one in found.layers],
    }
    parts: list[Part] = [
        summary(found),
        lines(f"{found.label} by layer", "share of the words scored on", curves, "layer", percent=True),
        "Layer 0 is the embeddings. The control task gives every word form a random value, which a probe can"
        " only learn by heart; selectivity is the accuracy less that of the control task.",
        Table(COLUMNS, [(str(o.layer), o.accuracy, o.control, o.selectivity) for o in found.layers]),
        Table((found.label, "words"), list(found.values.items())),
    ]
    write_page(folder / "probe.html", f"Probe: {found.label}", parts)


def summary(found: ProbeReport) -> str:
    """One line about a probe."""
    best = found.best
    return (
        f"{found.label} is read best at layer {best.layer}: {best.accuracy:.2%} right, selectivity"
        f" {best.selectivity:.2%}; {counted(len(found.values), 'value')}, commonest {found.majority:.2%};"
        f" {counted(found.train_words, 'word')} to learn from, {found.test_words:,} to score on"
    )
