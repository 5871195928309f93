"""`unmask score`: how likely the model finds each line of files."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import Annotated

import typer

from unmask.cli.embed import Column
from unmask.cli.options import (
    JsonLines,
    ModelFolder,
    Quiet,
    check_piped,
    load_language_model,
    print_json_line,
    progress,
)

_EXAMPLES = """
    unmask score sentences.txt --model model/ > scores.tsv

    unmask score books/*.txt --model model/

    cat sentences.txt | unmask score --model model/ --tokens --json
"""
_LINES = 256
_SHOWN = 40  # characters of a text that is too long


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("score", epilog=_EXAMPLES)(score)


def score(
    model: ModelFolder,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="One text per line, or per row of .jsonl, .csv … (empty ones are left out); folders and"
            " globs too; without any or with -, standard input.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="word-l2r|token", help="Mask a word's later pieces too, or not.", show_default="word-l2r"
        ),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="The score of every token as well.")] = False,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut off what is too long.")] = False,
    column: Column = "text",
    json_: JsonLines = False,
    quiet: Quiet = False,
) -> None:
    """Pseudo-log-likelihood of each line (of a causal model, log-likelihood): score, perplexity, text."""
    from unmask.errors import ConfigError
    from unmask.predict.score import METHODS, check_method
    from unmask.text import placed_texts

    chosen = METHODS[0] if method is None else method
    check_method(chosen)
    if not files:
        check_piped("name a file")
    tell = progress(quiet)
    chunks = _chunks(placed_texts(files or ["-"], tell, column))
    first = next(chunks)  # a file that cannot be read is told before the model is loaded
    lm = load_language_model(model, quiet)
    if method and lm.config.causal:
        raise ConfigError(f"--method {method}: a causal model masks nothing, it has one method: leave it out")
    from unmask.predict.inputs import TooLongError

    for chunk in chain([first], chunks):
        try:
            scores = lm.score([text for _, text in chunk], chosen, truncate, tell)
        except TooLongError as error:
            place, text = chunk[error.number]
            raise error.at(f"{place} ({text[:_SHOWN] + '…'!r})") from None
        for scored in scores:
            if json_:
                values = asdict(scored) | {"perplexity": scored.perplexity}
                values["tokens"] = values["tokens"] if tokens else len(scored.tokens)
                print_json_line(values)
                continue
            text = " ".join(scored.text.splitlines()).replace("\t", " ")
            typer.echo(f"{scored.log_probability:.4f}\t{scored.perplexity:.2f}\t{text}")
            for token in scored.tokens if tokens else ():
                typer.echo(f"\t{token.log_probability:.4f}\t{token.piece}")


def _chunks(texts: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while chunk := list(islice(texts, _LINES)):
        yield chunk
