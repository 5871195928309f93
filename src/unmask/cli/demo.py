"""`unmask demo`: the whole way, on text that every machine has."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli.options import Changes, Json, Quiet, RecipeCommand, changes, print_json, progress
from unmask.progress import counted, duration

if TYPE_CHECKING:
    from unmask.demo import DemoResult


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", cls=RecipeCommand, epilog="unmask demo -o demo-out")(demo)


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

    result = run_demo(out, load_recipe("tiny-docs", changes(set_)), progress=progress(quiet))
    if json_:
        print_json(asdict(result))
    else:
        _print(result, out)
    if result.training.stopped:
        raise typer.Exit(128 + result.training.stopped)


def _print(result: "DemoResult", out: Path) -> None:
    training = result.training
    typer.echo(
        f"{counted(result.documents, 'document')}, {counted(result.tokens, 'token')}, "
        f"{result.tokens_per_word:.2f} a word"
    )
    typer.echo(
        f"{counted(training.steps, 'step')}, {counted(training.tokens, 'token')} in "
        f"{duration(training.seconds)}; {duration(result.seconds)} in all"
    )
    if training.valid:
        typer.echo(
            f"hidden tokens guessed right: {training.valid.accuracy['mlm']:.1%} "
            f"(the commonest token alone: {training.valid.guess:.1%})"
        )
    if not training.model:
        typer.echo("stopped and saved: run the same command to go on")
        return
    typer.echo("\nWhat the model fills in, likeliest first:")
    for each in result.filled:
        typer.echo(f"  {each.text}\n      {', '.join(each.words)}")
    typer.echo(f"\nReport: {result.report}\nModel:  {training.model}\n\nNext:")
    activate = os.path.relpath(Path(sys.executable).parent / "activate")
    if not shutil.which("unmask") and not activate.startswith(".."):
        typer.echo(f"  source {activate}")
    typer.echo(f'  unmask fill --model {training.model} "The default [MASK] is one."')
    typer.echo(f"  unmask info {training.model}")
    typer.echo(f"  unmask corpus {out / 'run' / 'shards'}")
    typer.echo("The same on your own folder of text:")
    typer.echo("  unmask pretrain tiny-docs --text FOLDER -o my-run")
