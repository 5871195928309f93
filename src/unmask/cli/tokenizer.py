"""`unmask tokenizer`: train a vocabulary, add to one, or measure one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli.options import (
    Changes,
    Json,
    Quiet,
    RecipeCommand,
    RecipeFile,
    Texts,
    changes,
    print_framed,
    print_json,
    progress,
    refuse_without,
)

if TYPE_CHECKING:
    from unmask.sections import Change
    from unmask.tokenizer import Tokenizer
    from unmask.tokenizer.report import VocabularyReport

_EXAMPLES = """
    unmask tokenizer corpus/ -o vocab/

    unmask tokenizer pt=livros/ en=books/*.txt.gz --kind unigram --vocab-size 64000 -o vocab/

    unmask tokenizer --extend vocab/ law.txt --add 2000 -o law-vocab/

    unmask tokenizer --report vocab/ pt=other.txt --word gatinho --json
"""
_ADDED = 1000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tokenizer", cls=RecipeCommand, epilog=_EXAMPLES)(tokenizer)


def tokenizer(
    texts: Texts,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder to make.", show_default=False)
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="wordpiece|unigram|bpe", help="The model.", show_default="wordpiece")
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(help="Entries in all, special tokens included.", show_default="32000")
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase/--cased", help="Fold case.", show_default="cased")
    ] = None,
    strip_accents: Annotated[
        bool | None,
        typer.Option("--strip-accents/--keep-accents", help="Remove accents.", show_default="keep"),
    ] = None,
    extend: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Add entries to this tokenizer.", show_default=False)
    ] = None,
    add: Annotated[
        int | None, typer.Option(min=1, help="How many entries --extend adds.", show_default=str(_ADDED))
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Only measure this tokenizer on the text; -o is optional.", show_default=False
        ),
    ] = None,
    word: Annotated[
        list[str] | None, typer.Option(help="A word to show the pieces of; may be repeated.")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Write into a folder that holds files; those of other names stay."),
    ] = False,
    recipe: RecipeFile = None,
    set_: Changes = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a vocabulary from text, add entries to one, or report how well one fits."""
    from unmask.config import check_changes, load_recipe
    from unmask.errors import ConfigError, OutputError
    from unmask.predict.folders import find_tokenizer
    from unmask.progress import held
    from unmask.text import find_sources
    from unmask.tokenizer import Tokenizer
    from unmask.tokenizer.build import build_tokenizer, check_free, measure_tokenizer

    if extend and report:
        raise ConfigError("give --extend or --report, not both")
    if not (out or report):
        raise ConfigError("say where to write the tokenizer: -o DIR")
    if extend and out and extend.resolve() == out.resolve():
        raise OutputError(f"{out} is the tokenizer to start from: write the new one to another folder")
    own = {"kind": kind, "vocab_size": vocab_size, "lowercase": lowercase, "strip_accents": strip_accents}
    asked = changes(set_, **{f"tokenizer__{key}": v for key, v in own.items()})
    settings = load_recipe(recipe, asked)
    check_changes(settings, [each for each in set_ or () if each.strip().startswith("tokenizer.")])
    if not extend:
        refuse_without({"--add": add}, "--extend")
    show, words = progress(quiet), word or ()
    with held(show) as told:
        loaded = Tokenizer.load(find_tokenizer(given), told) if (given := extend or report) else None
        if loaded:
            unread = recipe if recipe and "text" not in load_recipe(recipe).model_fields_set else None
            _refuse_training(asked, unread, loaded, vocab_size if extend else None, bool(extend))
        if out:
            check_free(out, overwrite)
    if loaded and report:
        result = measure_tokenizer(loaded, find_sources(texts, out), settings.text, words, show)
        if out:
            result.save(out)
    else:
        assert out is not None
        base = (loaded, add or _ADDED) if loaded else None
        result = build_tokenizer(find_sources(texts, out), out, settings, base, words, show)
    if json_:
        from dataclasses import asdict

        print_json(asdict(result))
    else:
        _print_report(result)


def _refuse_training(
    asked: "Sequence[str | Change]",
    recipe: Path | None,
    base: "Tokenizer",
    size: int | None,
    extend: bool,
) -> None:
    """Refuse settings of a vocabulary that is there already, and a recipe that has nothing but them."""
    from unmask.errors import ConfigError

    given = [] if recipe is None else [f"--recipe {recipe}"]
    given += [
        f"--set {each}" if isinstance(each, str) else each.option
        for each in asked
        if not isinstance(each, str) or each.strip().startswith("tokenizer.")
    ]
    if size is not None and size > base.vocab_size:
        raise ConfigError(
            f"--vocab-size {size}: --extend adds to the {base.vocab_size:,} entries that are there: say"
            f" --add {size - base.vocab_size} in its place"
        )
    if given:
        told = "--report measures a vocabulary that is there"
        if extend:
            told = f"--extend keeps {base.vocab_size:,} entries and their settings, and adds what --add says"
        raise ConfigError(f"{', '.join(given)} would change nothing, since {told}: leave it out")


def _print_report(result: "VocabularyReport") -> None:
    from rich.table import Table

    columns, rows = result.table()
    figures = Table(*columns, title=f"{result.kind}, {result.vocab_size:,} entries", title_justify="left")
    for column in figures.columns[1:]:
        column.justify = "right"
    for name, count, *numbers in rows:
        figures.add_row(str(name), f"{count:,}", *(f"{number:.3f}" for number in numbers))
    examples = Table("word", "pieces")
    for word, pieces in result.examples.items():
        examples.add_row(word, " ".join(pieces))
    print_framed(figures)
    print_framed(examples)
