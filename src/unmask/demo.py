"""The demo: prose that is on every machine already, through the ordinary pipeline, step by step."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from unmask.charts import bars
from unmask.config import Recipe
from unmask.data.shards import Corpus
from unmask.files import atomic_path
from unmask.progress import SILENT, Progress
from unmask.report import Heading, Table, write_page
from unmask.text import find_sources, harvest_docs
from unmask.tokenizer import Tokenizer
from unmask.train.material import Start
from unmask.train.pretrain import RunResult, pretrain

CLOZES = (
    "If None, the default [MASK] is used.",
    "Raises an [MASK] if the file does not exist.",
    "The function returns a new [MASK] with the same shape as the input.",
    "Set this to [MASK] to turn the warning off.",
    "The number of [MASK] to run in parallel.",
)
_KINDS = ("masked", "random", "kept")


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
class Cloze:
    """A sentence with a hole, and the likeliest words for it, best first."""

    text: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo made."""

    documents: int
    tokens: int
    tokens_per_word: float
    fill_rate: float
    hidden: dict[str, int]
    """Tokens to predict in one batch, by what was done to them."""
    examples: tuple[MaskedSequence, ...]
    training: RunResult
    baseline: float
    """Share of the hidden tokens that the most frequent token of the corpus would get right."""
    clozes: tuple[Cloze, ...]
    report: str | None
    """None if the training was stopped before its end."""


def run_demo(out: Path, recipe: Recipe, progress: Progress = SILENT) -> DemoResult:
    """Harvest, train a vocabulary, prepare shards, pretrain, fill masks, write `report.html`.

    What was stopped goes on where it was.
    """
    text, run = out / "text.jsonl", out / "run"
    if not text.is_file():
        _harvest(text, progress)
    training = pretrain(recipe, run, Start(find_sources([f"en={text}"])), resume=True, progress=progress)
    corpus = Corpus.open(run / "shards")
    facts = corpus.manifest["splits"]["train"]
    examples, hidden, fill_rate = masked_examples(corpus, Tokenizer.load(run / "vocab"), recipe)
    result = DemoResult(
        documents=facts["documents"],
        tokens=facts["tokens"],
        tokens_per_word=facts["tokens"] / facts["words"],
        fill_rate=fill_rate,
        hidden=hidden,
        examples=examples,
        training=training,
        baseline=most_frequent_share(corpus),
        clozes=fill_clozes(Path(training.model)) if training.model else (),
        report=str(out / "report.html") if training.model else None,
    )
    if result.report:
        _write_report(Path(result.report), result, corpus.manifest)
    return result


def most_frequent_share(corpus: Corpus) -> float:
    """How often the most frequent token comes: what a guess without any model gets right."""
    counts = np.zeros(corpus.vocab_size, np.int64)
    for number in range(corpus.document_count):
        np.add.at(counts, corpus.document(number)[0], 1)
    return float(counts.max() / max(counts.sum(), 1))


def fill_clozes(model: Path, top: int = 3) -> tuple[Cloze, ...]:
    """The likeliest words for the holes of a few sentences."""
    from unmask.predict import MaskedLM, load

    loaded = load(model)
    assert isinstance(loaded, MaskedLM)
    return tuple(
        Cloze(text, tuple(fill.words[0].text for fill in loaded.fill(text, top=top))) for text in CLOZES
    )


def masked_examples(
    corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe, count: int = 6
) -> tuple[tuple[MaskedSequence, ...], dict[str, int], float]:
    """Some sequences of the first batch, how many of its tokens are hidden, and how full its bins are."""
    from unmask.data.batches import Batches
    from unmask.data.plan import Position

    batches = Batches(corpus, recipe.batch, recipe.seed)
    batch, _ = next(iter(batches.steps(Position(), units_per_step=256)))
    ids, bounds = batch.ids.numpy(), batch.cu_seqlens.tolist()
    found = []
    for start, end in pairwise(bounds):
        chosen = ((batch.target_index >= start) & (batch.target_index < end)).nonzero().flatten().tolist()
        if len(chosen) < 2:
            continue
        hidden = tuple(
            Hidden(
                tokenizer.piece(int(ids[batch.target_index[i]])),
                tokenizer.piece(int(batch.target_ids[i])),
                _KINDS[int(batch.target_kind[i])],
            )
            for i in chosen
        )
        found.append(MaskedSequence(tokenizer.decode(ids[start + 1 : end - 1], special=True), hidden))
    counts = batch.target_kind.bincount(minlength=len(_KINDS)).tolist()
    return tuple(found[:count]), dict(zip(_KINDS, counts, strict=False)), batches.fill_rate


def _harvest(path: Path, progress: Progress) -> None:
    with (
        progress.stage("harvesting documentation", None, "words") as stage,
        atomic_path(path) as temporary,
        temporary.open("w", encoding="utf-8") as file,
    ):
        for document in harvest_docs():
            file.write(json.dumps({"text": document.text}, ensure_ascii=False) + "\n")
            stage.advance(document.text.count(" ") + 1)


def _write_report(path: Path, result: DemoResult, manifest: Mapping[str, Any]) -> None:
    rows = [
        [example.text, "; ".join(f"{h.shown} → {h.original} ({h.kind})" for h in example.hidden)]
        for example in result.examples
    ]
    valid = result.training.valid
    learned = f"{valid.accuracy['mlm']:.1%} of the hidden tokens are guessed right" if valid else "Trained"
    write_page(
        path,
        "unmask demo",
        [
            f"{result.documents:,} documents of installed documentation, {result.tokens:,} tokens, "
            f"{result.tokens_per_word:.3f} tokens per word; bins are {result.fill_rate:.2%} full.",
            f"{learned} after {result.training.steps:,} steps in {result.training.seconds:,.0f} s; "
            f"the most frequent token alone would be right in {result.baseline:.1%}.",
            Heading("What the model fills in"),
            Table(["sentence", "likeliest words"], [[c.text, ", ".join(c.words)] for c in result.clozes]),
            Heading("What the model is asked"),
            Table(["as the model sees it", "hidden"], rows),
            bars("Tokens to predict in one batch", "tokens", {"tokens": result.hidden}),
            Heading("Documents dropped"),
            Table(["reason", "documents"], list(manifest["dropped"].items())),
        ],
    )
