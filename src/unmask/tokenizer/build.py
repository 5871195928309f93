"""From text files to a tokenizer folder: what `unmask tokenizer` does."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from unmask.config import Recipe, TextConfig, write_recipe
from unmask.errors import OutputError
from unmask.files import disk_errors
from unmask.progress import SILENT, Progress
from unmask.target import CONFIG, check_place
from unmask.text import Cleaner, Document, Source, TextColumns, nothing_left, read_sources, say_passed_over
from unmask.tokenizer.extend import extend
from unmask.tokenizer.report import Meter, VocabularyReport
from unmask.tokenizer.tokenizer import Tokenizer
from unmask.tokenizer.train import train_tokenizer


def build_tokenizer(
    sources: Sequence[Source],
    out: Path,
    recipe: Recipe,
    base: tuple[Tokenizer, int] | None = None,
    words: Sequence[str] = (),
    progress: Progress = SILENT,
) -> VocabularyReport:
    """Train a tokenizer, or add so many entries to a base, and write its folder with a report."""
    meter = Meter()
    documents = meter.watch(clean_documents(sources, recipe.text, progress))
    texts = (document.text for document in documents)
    if base:
        tokenizer = extend(base[0], texts, base[1], progress)
    else:
        tokenizer = train_tokenizer(texts, recipe.tokenizer, progress)
    report = meter.report(tokenizer, words)
    tokenizer.save(out)
    write_recipe(recipe, out / "recipe.toml")
    report.save(out)
    return report


def measure_tokenizer(
    tokenizer: Tokenizer,
    sources: Sequence[Source],
    config: TextConfig,
    words: Sequence[str] = (),
    progress: Progress = SILENT,
) -> VocabularyReport:
    """How a tokenizer fits some text."""
    meter = Meter()
    for _ in meter.watch(clean_documents(sources, config, progress)):
        pass
    return meter.report(tokenizer, words)


def check_free(out: Path, overwrite: bool = False) -> None:
    """Refuse a folder that is in use or cannot be made, before the work and not after it."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file: name a folder to write to")
    check_place(out)
    new = not out.exists()
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    held = {path.name for path in out.iterdir()}
    if new:
        out.rmdir()
    if CONFIG in held:
        raise OutputError(f"{out} holds a model, which needs its own tokenizer: choose another folder")
    if held and not overwrite:
        raise OutputError(f"{out} is in use ({min(held)} …): choose another folder, or add --overwrite")


def clean_documents(
    sources: Iterable[Source], config: TextConfig, progress: Progress = SILENT
) -> Iterator[Document]:
    """The cleaned documents of all sources, with progress by size."""
    sources = list(sources)
    empty: list[Source] = []
    clean, dropped, found = Cleaner(config), Counter[str](), False
    total = sum(source.expected_chars for source in sources) / 1e6
    with progress.stage("reading", total or None, "MB") as stage:
        for document in read_sources(sources, config, empty, TextColumns(config, progress)):
            stage.advance(len(document.text) / 1e6)
            text, reason = clean(document.text)
            if reason is None:
                found = True
                yield Document(text, document.language, document.source)
            else:
                dropped[reason] += 1
    if not found:
        raise nothing_left(sources, dropped)
    say_passed_over(empty, sources, progress)
