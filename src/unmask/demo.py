"""The demo: prose that is on every machine already, through the ordinary pipeline, step by step."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from unmask.config import Recipe
from unmask.data.prepare import prepare
from unmask.data.shards import Corpus
from unmask.files import atomic_path
from unmask.progress import SILENT, Progress
from unmask.report import Heading, Table, bars, write_page
from unmask.text import find_sources, harvest_docs
from unmask.tokenizer import Tokenizer
from unmask.tokenizer.build import build_tokenizer

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
class DemoResult:
    """What the demo made."""

    documents: int
    tokens: int
    tokens_per_word: float
    fill_rate: float
    hidden: dict[str, int]
    """Tokens to predict in one batch, by what was done to them."""
    examples: tuple[MaskedSequence, ...]
    report: str


def run_demo(out: Path, recipe: Recipe, progress: Progress = SILENT) -> DemoResult:
    """Harvest, train a vocabulary, prepare shards, make a masked batch, write `report.html`."""
    text = out / "text.jsonl"
    if not text.is_file():
        _harvest(text, progress)
    sources = find_sources([f"en={text}"])
    vocab = out / "vocab"
    if not (vocab / "report.json").is_file():
        build_tokenizer(sources, vocab, recipe, progress=progress)
    tokenizer = Tokenizer.load(vocab)
    manifest = prepare(sources, tokenizer, out / "shards", recipe, progress=progress)
    train = manifest["splits"]["train"]
    examples, hidden, fill_rate = masked_examples(Corpus.open(out / "shards"), tokenizer, recipe)
    result = DemoResult(
        documents=train["documents"],
        tokens=train["tokens"],
        tokens_per_word=train["tokens"] / train["words"],
        fill_rate=fill_rate,
        hidden=hidden,
        examples=examples,
        report=str(out / "report.html"),
    )
    _write_report(out / "report.html", result, manifest)
    return result


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


def _write_report(path: Path, result: DemoResult, manifest: dict[str, Any]) -> None:
    rows = [
        [example.text, "; ".join(f"{h.shown} → {h.original} ({h.kind})" for h in example.hidden)]
        for example in result.examples
    ]
    write_page(
        path,
        "unmask demo",
        [
            f"{result.documents:,} documents of installed documentation, {result.tokens:,} tokens, "
            f"{result.tokens_per_word:.3f} tokens per word; bins are {result.fill_rate:.2%} full.",
            Heading("What the model is asked"),
            Table(["as the model sees it", "hidden"], rows),
            bars("Tokens to predict in one batch", "tokens", {"tokens": result.hidden}),
            Heading("Documents dropped"),
            Table(["reason", "documents"], list(manifest["dropped"].items())),
        ],
    )
