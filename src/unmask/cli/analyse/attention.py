"""`unmask analyse attention`: what every head looks at in a text, and which words decided a fill."""

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.options import (
    Json,
    ModelFolder,
    Quiet,
    load_model,
    page_folder,
    print_json,
    print_table,
    progress,
)

_EXAMPLES = """
    unmask analyse attention "O gato dorme no telhado." --model model/ -o looks/

    unmask analyse attention "O gato [MASK] no telhado." --model model/ --target dorme --json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("attention", epilog=_EXAMPLES)(attention)


def attention(
    text: Annotated[
        str,
        typer.Argument(
            help="With a `[MASK]`, the words that decided its fill are shown.", show_default=False
        ),
    ],
    model: ModelFolder,
    out: Annotated[Path | None, page_folder("attention", "Page, JSON and weights.")] = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="LAYER.HEAD",
            help="The head that the page shows in detail, from 1.1.",
            show_default="the one that points most at words further away",
        ),
    ] = None,
    mask: Annotated[int | None, typer.Option(min=1, help="Which mask.", show_default="the first")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="WORD", help="Which fill.", show_default="the likeliest")
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attention of every head: entropy, distance, shares; rollout; what decided the fill of a mask."""
    from unmask.errors import ConfigError, ModelError

    if head is not None and out is None:
        raise ConfigError("--head says which head the page shows: it goes with --out")
    loaded = load_model(model, quiet)
    from unmask.analyse.attention import read_attention
    from unmask.analyse.attention_page import (
        COLUMNS,
        find_head,
        head_rows,
        plain,
        summary,
        write_attention,
    )
    from unmask.analyse.attribution import attribute, fills, has_mask
    from unmask.predict import MaskedLM

    maps = read_attention(loaded, text)
    chosen = None if head is None else find_head(maps, head)
    found = None
    if mask is not None or target is not None or fills(loaded, text):
        if not isinstance(loaded, MaskedLM):
            raise ModelError(f"{model} holds no language model: leave out --mask and --target")
        with progress(quiet).stage("attributing"):
            found = attribute(loaded, text, (mask or 1) - 1, target)
    elif has_mask(loaded, text):
        progress(quiet).say(
            f"{model} fills no masks (it is no masked language model): attention alone is shown"
        )
    if out:
        write_attention(out, maps, found, chosen)
    if json_:
        print_json(plain(maps, found))
        return
    print_table(COLUMNS, [(name, *(f"{value:.3f}" for value in values)) for name, *values in head_rows(maps)])
    if found is not None:
        for word in found.words:
            typer.echo(f"{word.score:+9.4f}  {word.text}")
        typer.echo(summary(found))
    if out:
        typer.echo(f"{out / 'attention.html'} shows every head")
