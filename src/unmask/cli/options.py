"""Options and outputs that several commands share."""

import difflib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from unmask.progress import SILENT, Progress

if TYPE_CHECKING:
    from rich.table import Table

    from unmask.predict import MaskedLM
    from unmask.predict.predictor import Predictor
    from unmask.sections import Change, Section

UsageError: Any = typer.BadParameter.__base__  # typer has its own click, or not, and does not export it

_WIDEST = 10_000  # characters of a table

Texts = Annotated[
    list[str],
    typer.Argument(
        metavar="TEXT...",
        help="Files, folders, globs, or - for standard input; `pt=PATH` says the language, by a code such as "
        "pt or pt-BR.",
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
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace the model that the folder holds; anything else is refused."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result and errors.")]


def progress(quiet: bool) -> Progress:
    """What to report progress to."""
    if quiet:
        return SILENT
    from unmask.progress import Console

    return Console()


def page_folder(name: str, holds: str) -> Any:
    """The option for the folder of a page `NAME.html`; it is checked before any work."""

    def check(folder: Path | None) -> Path | None:
        from unmask.target import check_page

        if folder is not None:
            check_page(folder, name)
        return folder

    return typer.Option(
        "--out", "-o", metavar="DIR", file_okay=False, help=holds, callback=check, show_default=False
    )


@contextmanager
def kept_when_interrupted() -> Iterator[None]:
    """Say, where Ctrl-C ends the block, that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("what is done is kept: the same command goes on", err=True)
        raise


def check_piped(otherwise: str) -> None:
    """Refuse to wait for lines that nobody types: on a terminal, a command without a text was cut short.

    Of a standard input that was closed nothing can come either.
    """
    from unmask.errors import InputError

    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(f"nothing to read: {otherwise}, or pipe texts in, one per line")


def check_no_file(text: str, remedy: str) -> None:
    """Refuse a file in place of a text: the shell gives an option the first of `*.txt` alone."""
    from unmask.errors import ConfigError

    if os.path.isfile(text):  # noqa: PTH113  Path.is_file() fails where a text is too long for a name
        raise ConfigError(f"{text} is a file, {remedy}")


def load_model(folder: str, quiet: bool = False) -> "Predictor":
    """The model to use; what did not fit when it was read is said once, on standard error."""
    model = _loaded(folder)
    _tell(model, quiet)
    return model


def _loaded(folder: str) -> "Predictor":
    from unmask.predict.folders import find_folder

    find_folder(folder)  # before torch is loaded, which takes seconds
    from unmask.predict import load

    return load(folder)


def _tell(model: "Predictor", quiet: bool) -> None:
    if model.report:
        progress(quiet).say(str(model.report))


def load_language_model(folder: str, quiet: bool = False) -> "MaskedLM":
    """The model to use, if it is a language model."""
    from unmask.errors import ModelError

    model = _loaded(folder)
    from unmask.predict import MaskedLM

    if not isinstance(model, MaskedLM):
        raise ModelError(
            f"{folder} holds a {type(model).__name__.lower()}, not a language model: "
            "name the folder it was fine-tuned from, or another of unmask pretrain"
        )
    _tell(model, quiet)
    return model


def changes(given: Sequence[str] | None, **options: Any) -> "list[str | Change]":
    """`--set` values, then the command's own options as changes (`section__key=value`), if given.

    Of an option with a default nobody could tell whether it was given: these have none.
    """
    from unmask.sections import Change

    own = [
        Change(f"--{key.rpartition('__')[2].replace('_', '-')}", key.replace("__", "."), value)
        for key, value in options.items()
        if value is not None
    ]
    return [*(given or ()), *own]


def refuse_without(options: Mapping[str, object], without: str) -> None:
    """What would do nothing is a mistake."""
    from unmask.errors import ConfigError

    given = [option for option, value in options.items() if value is not None]
    if given:
        raise ConfigError(
            f"{', '.join(given)}: without {without} this does nothing; add it, or leave this out"
        )


class Command(TyperCommand):
    """A command that refuses an option given twice, of which only the last would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        seen = set()
        for param in order:
            if not isinstance(param, TyperOption) or param.multiple or param.is_flag:
                continue
            if param.name in seen and not ctx.resilient_parsing:
                raise UsageError(f"{param.opts[0]} is given twice: give it once", ctx)
            seen.add(param.name)
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """An application of such commands."""

    def command(self, name: str | None = None, *, cls: Any = Command, **options: Any) -> Any:
        """Add a command."""
        return super().command(name, cls=cls, **options)


def with_settings(
    section: "Callable[[], type[Section]]", elsewhere: Mapping[str, str] = MappingProxyType({})
) -> type[Command]:
    """A command with `--set`: of an option that it has not, it says which setting may be meant.

    `elsewhere` says of options that other commands have what to do instead.
    """

    class WithSettings(Command):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            try:
                return super().parse_args(ctx, args)
            except UsageError as error:
                option = str(getattr(error, "option_name", ""))
                known = {name for param in self.params for name in param.opts}
                unknown = option.startswith("--") and option not in known
                if unknown and (advice := elsewhere.get(option) or _advice(option, known, section())):
                    error.message += f"; {advice}"
                    error.possibilities = None  # one answer is enough
                raise

    return WithSettings


def _advice(option: str, known: set[str], section: "type[Section]") -> str | None:
    """The setting of that name, else an option much like it, else a setting like it."""
    from unmask.sections import keys_below

    key = option.removeprefix("--").replace("-", "_")
    if below := keys_below(key, section):
        return f"{key} is a section of settings: give one of them, as --set {below[0]}=…"
    meant = _meant(option, key, known, section)
    return meant and f"did you mean {meant}?"


def _meant(option: str, key: str, known: set[str], section: "type[Section]") -> str | None:
    from unmask.sections import close_keys, list_form

    close = close_keys(key, section)
    alike = difflib.get_close_matches(option, sorted(known), n=1, cutoff=0.8)
    if alike and not any(name.rpartition(".")[2] == key for name in close):
        return alike[0]
    if not close:
        return None
    short = f"--{close[0].replace('_', '-')}"
    if short in known:
        return short
    form = list_form(close[0], section)
    return f"--set '{close[0]}={form}'" if form else f"--set {close[0]}=…"


def recipe_section() -> "type[Section]":
    """What `--set` changes in most commands."""
    from unmask.config import Recipe

    return Recipe


RecipeCommand = with_settings(recipe_section)


def print_json(value: Any) -> None:
    """Print a result for scripts."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Any) -> None:
    """Print one of many results for scripts."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def print_framed(table: "Table") -> None:
    """Print a table of rich with every cell whole, and as it stands there, however narrow the terminal."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(markup=False, emoji=False)
    width = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    console.width = max(width, console.width)
    console.print(table)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
