"""`unmask score`: how likely the model finds each line of a file."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.options import ModelFolder, Quiet, load_language_model

_EXAMPLES = """
    unmask score sentences.txt --model model/ > scores.tsv

    cat sentences.txt | unmask score - --model model/ --tokens --json
"""
_LINES = 256


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("score", epilog=_EXAMPLES)(score)


def score(
    file: Annotated[
        Path, typer.Argument(help="One text per line; - for standard input.", show_default=False)
    ],
    model: ModelFolder,
    method: Annotated[
        str, typer.Option(metavar="word-l2r|token", help="Mask a word's later pieces too, or not.")
    ] = "word-l2r",
    tokens: Annotated[bool, typer.Option("--tokens", help="The score of every token as well.")] = False,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut off what is too long.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    quiet: Quiet = False,
) -> None:
    """Pseudo-log-likelihood of each line (of a causal model, log-likelihood): score, perplexity, text."""
    lm = load_language_model(model, quiet)
    for chunk in _chunks(_lines(file)):
        for scored in lm.score(chunk, method, truncate):
            if json_:
                values = asdict(scored) | {"perplexity": scored.perplexity}
                values["tokens"] = values["tokens"] if tokens else len(scored.tokens)
                typer.echo(json.dumps(values, ensure_ascii=False))
                continue
            text = scored.text.replace("\t", " ")
            typer.echo(f"{scored.log_probability:.4f}\t{scored.perplexity:.2f}\t{text}")
            for token in scored.tokens if tokens else ():
                typer.echo(f"\t{token.log_probability:.4f}\t{token.piece}")


def _lines(file: Path) -> Iterator[str]:
    from unmask.errors import InputError

    try:
        with nullcontext(sys.stdin) if str(file) == "-" else file.open(encoding="utf-8") as lines:
            yield from (line.strip() for line in lines if line.strip())
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text: {error}") from None


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    while chunk := list(islice(lines, _LINES)):
        yield chunk
