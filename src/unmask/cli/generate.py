"""`unmask generate`: go on from a prompt, with a causal or a hybrid model."""

from dataclasses import asdict
from typing import Annotated

import typer

from unmask.cli.options import Json, ModelFolder, Quiet, load_language_model, print_json, progress

_EXAMPLES = """
    unmask generate --model model/ "Era uma vez" --max-tokens 100 --top-p 0.9 --seed 7
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("generate", epilog=_EXAMPLES)(generate)


def generate(
    model: ModelFolder,
    prompt: Annotated[str, typer.Argument(help="How the text begins.")] = "",
    max_tokens: Annotated[int, typer.Option(min=1, help="Stop after this many new tokens.")] = 50,
    temperature: Annotated[float, typer.Option(help="0 always takes the likeliest token.")] = 1.0,
    top_k: Annotated[
        int | None, typer.Option(help="Draw among this many of the likeliest.", show_default=False)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Draw among the likeliest that reach this probability.", show_default=False),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Always the same text.", show_default=False)] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Generate text with a causal model, or one that had causal steps (hybrid-small)."""
    lm = load_language_model(model, quiet)
    with progress(quiet).stage("generating"):
        made = lm.generate(prompt, max_tokens, temperature, top_k, top_p, seed)
    if json_:
        print_json(asdict(made))
    else:
        typer.echo(made.text)
