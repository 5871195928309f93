"""`unmask fill`: the likeliest words for the masks of a text."""

from dataclasses import asdict
from typing import Annotated

import typer

from unmask.cli.options import (
    JsonLines,
    ModelFolder,
    Quiet,
    check_piped,
    load_language_model,
    print_json_line,
    progress,
)
from unmask.errors import ConfigError, InputError

_EXAMPLES = """
    unmask fill --model model/ "O gato [MASK] no telhado."

    unmask fill --model model/ "A capital da [MASK] é [MASK]." --pieces 3 --json

    unmask fill --model model/ "Ela é [MASK]." --candidates alta,baixa,inteligente
"""
_SHOWN = 40  # characters of a text that cannot be filled


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fill", epilog=_EXAMPLES)(fill)


def fill(
    model: ModelFolder,
    text: Annotated[
        str | None,
        typer.Argument(
            help="With `[MASK]` or `<mask>`; without it or with -, one text per line of standard input."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many answers.")] = 5,
    pieces: Annotated[
        int | None,
        typer.Option(
            min=1, help="A mask stands for a word of up to this many pieces, 16 at most.", show_default="1"
        ),
    ] = None,
    candidates: Annotated[
        str | None, typer.Option(metavar="WORD,WORD,…", help="Only these words.", show_default=False)
    ] = None,
    json_: JsonLines = False,
    quiet: Quiet = False,
) -> None:
    """Fill the masks of a text, all of them together."""
    from unmask.text import read_texts

    words = None if candidates is None else [word.strip() for word in candidates.split(",") if word.strip()]
    if words == []:
        raise ConfigError("--candidates names no word: write words with commas between")
    if words and pieces:
        raise ConfigError(
            f"--pieces {pieces} goes without --candidates, which may have any number: leave it out"
        )
    if text is None:
        check_piped("give a text with a mask")
        text = "-"
    shown = progress(quiet)
    texts = list(read_texts(["-"], shown)) if text == "-" else [text]
    lm = load_language_model(model, quiet)
    mixed = False
    for number, one in enumerate(texts, 1):
        try:
            fills = lm.fill(one, top=top, candidates=words, pieces=pieces or 1, progress=shown)
        except InputError as error:
            if text != "-":
                raise
            raise InputError(f"text {number} ({one[:_SHOWN]!r}): {error}") from None
        if json_:
            print_json_line({"text": one, "fills": [asdict(found) for found in fills]})
            continue
        for found in fills:
            filled = " · ".join(word.text for word in found.words)
            typer.echo(f"{found.probability:7.2%}  {filled:<16}  {found.text}")
        chances = [found.probability for found in fills]
        mixed |= chances != sorted(chances, reverse=True)
    if mixed:
        shown.say(
            "sorted by the mean probability per piece, so that words of several pieces are not always last"
        )
