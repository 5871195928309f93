"""The command line: one module per command, each parses its options and calls one function.

Nothing heavy is imported here or at the top of those modules, so that `--help` answers at once.
"""

import os
import sys
from typing import Annotated

import typer

from unmask import __version__

app = typer.Typer(
    name="unmask",
    help="From raw text to a masked language model you can use.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"unmask {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    pass


# The order here is the order in `unmask --help`: the order in which the data walks.
from unmask.cli import (  # noqa: E402
    analyse,
    convert,
    dedup,
    demo,
    embed,
    evaluate,
    fewshot,
    fill,
    finetune,
    generate,
    info,
    predict,
    prepare,
    pretrain,
    report,
    score,
    serve,
    similar,
    tokenizer,
)

for module in (
    demo,
    dedup,
    tokenizer,
    prepare,
    pretrain,
    report,
    fill,
    score,
    embed,
    similar,
    generate,
    finetune,
    fewshot,
    predict,
    evaluate,
    analyse,
    info,
    convert,
    serve,
):
    module.register(app)


def main() -> None:
    """Run the command line; what the user can mend is one line and status 2, never a traceback."""
    from unmask.errors import UserError

    try:
        app()
    except UserError as error:
        _fail(str(error), 2)
    except Exception as error:
        if os.environ.get("UNMASK_DEBUG"):
            raise
        _fail(f"{type(error).__name__}: {error} (a fault in unmask: UNMASK_DEBUG=1 shows where)", 1)


def _fail(message: str, status: int) -> None:
    print(f"unmask: {message}", file=sys.stderr)
    sys.exit(status)
