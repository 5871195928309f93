"""`unmask score`: how likely the model finds each line of a file."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import Annotated

import typer

from unmask.cli.options import JsonLines, ModelFolder, Quiet, load_language_model, print_json_line, progress

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
        str,
        typer.Argument(
            help="One text per line, or per row of .jsonl, .csv …; - for standard input.", show_default=False
        ),
    ],
    model: ModelFolder,
    method: Annotated[
        str, typer.Option(metavar="word-l2r|token", help="Mask a word's later pieces too, or not.")
    ] = "word-l2r",
    tokens: Annotated[bool, typer.Option("--tokens", help="The score of every token as well.")] = False,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut off what is too long.")] = False,
    json_: JsonLines = False,
    quiet: Quiet = False,
) -> None:
    """Pseudo-log-likelihood of each line (of a causal model, log-likelihood): score, perplexity, text."""
    from unmask.config import TextConfig
    from unmask.predict.score import check_method
    from unmask.text import find_sources, read_documents

    check_method(method)
    (source,) = find_sources([file])
    texts = (document.text for document in read_documents(source, TextConfig(documents="line")))
    chunks = _chunks(text for line in texts if (text := line.strip()))
    first = next(chunks, [])  # a file that cannot be read is told before the model is loaded
    lm = load_language_model(model, quiet)
    for chunk in chain([first], chunks):
        for scored in lm.score(chunk, method, truncate, progress(quiet)):
            if json_:
                values = asdict(scored) | {"perplexity": scored.perplexity}
                values["tokens"] = values["tokens"] if tokens else len(scored.tokens)
                print_json_line(values)
                continue
            text = " ".join(scored.text.splitlines()).replace("\t", " ")
            typer.echo(f"{scored.log_probability:.4f}\t{scored.perplexity:.2f}\t{text}")
            for token in scored.tokens if tokens else ():
                typer.echo(f"\t{token.log_probability:.4f}\t{token.piece}")


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    lines = iter(lines)
    while chunk := list(islice(lines, _LINES)):
        yield chunk
