"""Options and outputs that several commands share."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.progress import SILENT, Progress

if TYPE_CHECKING:
    from unmask.predict import MaskedLM
    from unmask.predict.predictor import Predictor

Texts = Annotated[
    list[str],
    typer.Argument(
        metavar="TEXT...",
        help="Files, folders, globs, or - for standard input; `pt=PATH` says the language.",
        show_default=False,
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe",
        help="A recipe: a TOML file or the name of one of ours; options go before it.",
        show_default=False,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a value of the recipe, e.g. text.min_chars=20; an empty one restores the default.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object per line, one line per text.")]
ModelFolder = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="DIR",
        help="A model folder, a bundled model (`unmask info` lists them), or a name in the local "
        "Hugging Face cache.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result and errors.")]


def progress(quiet: bool) -> Progress:
    """What to report progress to."""
    if quiet:
        return SILENT
    from unmask.progress import Console

    return Console()


def load_model(folder: str, quiet: bool = False) -> "Predictor":
    """The model to use; what did not fit when it was read is said once, on standard error."""
    from unmask.predict.folders import find_folder

    find_folder(folder)  # before torch is loaded, which takes seconds
    from unmask.predict import load

    model = load(folder)
    if model.report:
        progress(quiet).say(str(model.report))
    return model


def load_language_model(folder: str, quiet: bool = False) -> "MaskedLM":
    """The model to use, if it is a language model."""
    from unmask.errors import ModelError

    model = load_model(folder, quiet)
    from unmask.predict import MaskedLM

    if not isinstance(model, MaskedLM):
        raise ModelError(
            f"{folder} holds a {type(model).__name__.lower()}, not a language model: "
            "name the folder it was fine-tuned from, or another of unmask pretrain"
        )
    return model


def changes(given: Sequence[str] | None, **options: Any) -> list[str]:
    """`--set` values, then the command's own options as changes (`section__key=value`), if given."""
    own = [
        f"{key.replace('__', '.')}={json.dumps(value)}" for key, value in options.items() if value is not None
    ]
    return [*(given or ()), *own]


def print_json(value: Any) -> None:
    """Print a result for scripts."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Any) -> None:
    """Print one of many results for scripts."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
