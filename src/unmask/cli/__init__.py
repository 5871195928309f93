"""The command line: one module per command, each parses its options and calls one function.

Nothing heavy is imported here or at the top of those modules, so that `--help` answers at once.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer

from unmask import __version__
from unmask.cli.options import Commands, UsageError

app = Commands(
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
    from unmask.files import NO_SPACE

    # Before torch comes: threads that wait give their core away soon, where other work wants it.
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    interrupted: list[int] = []
    try:
        with _interrupts(interrupted):
            status = app(standalone_mode=False)
        if interrupted:
            _fail("stopped by Ctrl-C", status or 130)
        sys.exit(status)
    except UsageError as error:
        _usage(error)
    except typer.Abort as error:  # what typer makes of an end of file
        _fail(str(error.__cause__ or "stopped"), 1)
    except UserError as error:
        _fail(str(error), 2)
    except Exception as error:
        if interrupted:  # in the middle of loading something, which did not like it
            _fail("stopped by Ctrl-C", 130)
        if isinstance(error, OSError) and error.errno in NO_SPACE:  # a file would have been named
            _fail("no space left while writing the output: free some and run the same command again", 2)
        if os.environ.get("UNMASK_DEBUG"):
            raise
        _fail(f"{type(error).__name__}: {error} (a fault in unmask: UNMASK_DEBUG=1 shows where)", 1)


@contextmanager
def _interrupts(noted: list[int]) -> Iterator[None]:
    """Ctrl-C as ever, but noted: typer ends then without a word."""

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # it is ignored, or another's
        yield
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _usage(error: Any) -> None:
    """A wrong option or argument."""
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    if not message:  # nothing was asked for, and all of the help is printed
        sys.exit(error.exit_code)
    for problem in getattr(error.__cause__, "errors", list)():  # newer typers leave the value to pydantic
        if repr(problem["input"]) not in message:
            message += f" (got {problem['input']!r})"
    path = error.ctx.command_path if error.ctx else app.info.name
    _fail(f"{message} ({path} --help says more)", error.exit_code)


def _fail(message: str, status: int) -> None:
    print(f"unmask: {message}", file=sys.stderr)
    sys.exit(status)
