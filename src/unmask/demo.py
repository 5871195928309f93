"""The demo: prose that is on every machine already, through the ordinary pipeline, step by step."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from unmask.config import Recipe
from unmask.data.shards import Corpus
from unmask.errors import ConfigError, OutputError
from unmask.files import atomic_path, disk_errors, write_atomic
from unmask.progress import SILENT, Progress, counted, duration
from unmask.report import Heading, Part, Table, write_page
from unmask.target import check_place
from unmask.text import find_sources, harvest_docs
from unmask.text.harvest import PACKAGES
from unmask.tokenizer import Tokenizer
from unmask.train.pretrain import RunResult, pretrain
from unmask.train.report import run_parts
from unmask.train.start import Start

CLOZES = {
    "If None, the default [MASK] is used.": "value",
    "Raises an [MASK] if the file does not exist.": "error",
    "The function returns a new [MASK] with the same shape as the input.": "array",
    "Set this to [MASK] to turn the warning off.": "false",
    "The number of [MASK] to run in parallel.": "jobs",
    "See the documentation for more [MASK].": "information",
    "The [MASK] along which the sum is computed.": "axis",
    "An array of the same [MASK] as the input.": "shape",
    "This method is called [MASK] the object is created.": "when",
    "For [MASK], the following line prints a message.": "example",
}
_KINDS = ("masked", "random", "kept")
_MADE = ("text.jsonl", "clozes.txt", "run", "report.html")


@dataclass(frozen=True, slots=True)
class Hidden:
    """One token that the model will have to predict."""

    shown: str
    original: str
    kind: str


@dataclass(frozen=True, slots=True)
class MaskedSequence:
    """A sequence as the model sees it, and what was hidden in it."""

    text: str
    hidden: tuple[Hidden, ...]


@dataclass(frozen=True, slots=True)
class Filled:
    """A sentence with a hole, and the likeliest words for it, best first."""

    text: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo made."""

    documents: int
    tokens: int
    tokens_per_word: float
    seconds: float
    """From the first word read to the last mask filled, if it was not stopped in between."""
    examples: tuple[MaskedSequence, ...]
    training: RunResult
    filled: tuple[Filled, ...]
    """Empty if the training was stopped before its end."""
    report: str


def run_demo(
    out: Path, recipe: Recipe, packages: Sequence[str] = PACKAGES, progress: Progress = SILENT
) -> DemoResult:
    """Harvest, train a vocabulary, prepare shards, pretrain, fill masks, write `report.html`.

    What was stopped goes on where it was.
    """
    if recipe.objective.causal == 1 or not recipe.objective.mlm:
        raise ConfigError(
            "the demo ends with filled masks: its model must learn to fill them (objective.mlm)"
        )
    began = time.monotonic()
    text, clozes, run, report = (out / name for name in _MADE)
    _check_folder(out)
    if not text.is_file():
        _harvest(text, packages, progress)
    write_atomic(clozes, "".join(f"{sentence}\t{answer}\n" for sentence, answer in CLOZES.items()))
    train = recipe.train.model_copy(update={"cloze": str(clozes)})
    recipe = recipe.model_copy(update={"train": train})
    training = pretrain(recipe, run, Start(find_sources([f"en={text}"])), resume=True, progress=progress)
    corpus = Corpus.open(run / "shards")
    facts = corpus.manifest["splits"]["train"]
    result = DemoResult(
        documents=facts["documents"],
        tokens=facts["tokens"],
        tokens_per_word=facts["tokens"] / facts["words"],
        examples=masked_examples(corpus, Tokenizer.load(run / "vocab"), recipe),
        training=training,
        filled=fill_clozes(Path(training.model)) if training.model else (),
        seconds=time.monotonic() - began,
        report=str(report),
    )
    _write_report(result)
    return result


def _check_folder(out: Path) -> None:
    """The demo works in a folder of its own, and goes on in one that it began."""
    check_place(out)
    with disk_errors(out):
        names = {path.name for path in out.iterdir() if path.name[0] != "."} if out.exists() else set()
    if names and (_MADE[0] not in names or not names.issubset(_MADE)):
        raise OutputError(f"{out} holds other files: name a folder of its own for the demo")


def fill_clozes(model: Path, top: int = 3) -> tuple[Filled, ...]:
    """The likeliest words for the holes of a few sentences."""
    from unmask.predict import MaskedLM, load

    loaded = load(model)
    assert isinstance(loaded, MaskedLM)
    return tuple(
        Filled(text, tuple(fill.words[0].text for fill in loaded.fill(text, top=top))) for text in CLOZES
    )


def masked_examples(
    corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe, count: int = 6
) -> tuple[MaskedSequence, ...]:
    """Some sequences of the first batch, as the model sees them."""
    from unmask.data.batches import Batches
    from unmask.data.plan import Position

    batch, _ = next(
        iter(Batches(corpus, recipe.batch, recipe.seed).steps(Position(), units_per_step=4 * count))
    )
    ids, bounds = batch.ids.numpy(), batch.cu_seqlens.tolist()
    found = []
    for start, end in pairwise(bounds):
        chosen = ((batch.target_index >= start) & (batch.target_index < end)).nonzero().flatten().tolist()
        hidden = tuple(
            Hidden(
                tokenizer.piece(int(ids[batch.target_index[i]])),
                tokenizer.piece(int(batch.target_ids[i])),
                _KINDS[int(batch.target_kind[i])],
            )
            for i in chosen
        )
        if len(hidden) > 1:
            found.append(MaskedSequence(tokenizer.decode(ids[start + 1 : end - 1], special=True), hidden))
    return tuple(found[:count])


def _harvest(path: Path, packages: Sequence[str], progress: Progress) -> None:
    with (
        progress.stage("harvesting documentation", None, "words") as stage,
        atomic_path(path) as temporary,
        temporary.open("w", encoding="utf-8") as file,
    ):
        for document in harvest_docs(packages):
            file.write(json.dumps({"text": document.text}, ensure_ascii=False) + "\n")
            stage.advance(document.text.count(" ") + 1)


def _write_report(result: DemoResult) -> None:
    shown = [
        [example.text, "; ".join(f"{h.shown} → {h.original} ({h.kind})" for h in example.hidden)]
        for example in result.examples
    ]
    parts: list[Part] = [
        f"{counted(result.documents, 'document')} of installed documentation, "
        f"{counted(result.tokens, 'token')}, {result.tokens_per_word:.2f} tokens per word; "
        f"{duration(result.seconds)} in all."
    ]
    if result.filled:
        filled = [[each.text, ", ".join(each.words)] for each in result.filled]
        parts += [Heading("What the model fills in"), Table(("sentence", "likeliest words"), filled)]
    parts += [Heading("The training"), *run_parts(Path(result.training.run))]
    parts += [Heading("What the model was asked"), Table(("as the model sees it", "hidden"), shown)]
    write_page(Path(result.report), "unmask demo", parts)
