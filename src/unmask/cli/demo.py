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
    if result.training.stopped:
        raise typer.Exit(128 + result.training.stopped)


def _print(result: "DemoResult", out: Path) -> None:
    training = result.training
    typer.echo(
        f"{result.documents:,} documents, {result.tokens:,} tokens, "
        f"{result.tokens_per_word:.3f} tokens per word, bins {result.fill_rate:.2%} full"
    )
    typer.echo(f"{training.steps:,} steps, {training.tokens:,} tokens in {training.seconds:,.0f} s")
    if training.valid:
        typer.echo(
            f"hidden tokens guessed right: {training.valid.accuracy['mlm']:.1%} "
            f"(the most frequent token alone: {result.baseline:.1%})"
        )
    if not training.model:
        typer.echo("stopped and saved: run the same command to go on")
        return
    typer.echo("\nWhat the model fills in:")
    for cloze in result.clozes:
        typer.echo(f"  {cloze.text}\n      {', '.join(cloze.words)}")
    typer.echo(f"\nReport: {result.report}")
    typer.echo("Next:")
    typer.echo(f'  unmask fill --model {training.model} "The default [MASK] is one."')
    typer.echo("  unmask pretrain tiny-docs --text FOLDER -o my-run    # the same on your own text")
    typer.echo(f"  unmask corpus {out / 'run' / 'shards'}")
