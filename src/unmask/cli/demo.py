"""`unmask demo`: the whole way, on text that every machine has."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli.options import Changes, Json, Quiet, changes, print_json, progress

if TYPE_CHECKING:
    from unmask.demo import DemoResult


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog="unmask demo -o demo-out")(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make.")] = Path("demo-out"),
    set_: Changes = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn from the documentation of the installed packages: no download, a few minutes."""
    from dataclasses import asdict

    from unmask.config import load_recipe
    from unmask.demo import run_demo

    result = run_demo(out, load_recipe("tiny-docs", changes(set_)), progress(quiet))
    if json_:
        print_json(asdict(result))
    else:
        _print(result, out)


def _print(result: "DemoResult", out: Path) -> None:
    typer.echo(
        f"{result.documents:,} documents, {result.tokens:,} tokens, "
        f"{result.tokens_per_word:.3f} tokens per word, bins {result.fill_rate:.2%} full"
    )
    typer.echo("\nWhat a masked model is asked:")
    for example in result.examples:
        typer.echo(f"  {example.text}")
        shown = ", ".join(f"{h.shown} is {h.original}" for h in example.hidden)
        typer.echo(f"      {shown}")
    typer.echo(f"\nReport: {result.report}")
    typer.echo("Next, on your own text:")
    typer.echo("  unmask tokenizer FOLDER --vocab-size 16000 -o vocab")
    typer.echo("  unmask prepare FOLDER --tokenizer vocab -o shards")
    typer.echo(f"  unmask corpus {out / 'shards'}")
