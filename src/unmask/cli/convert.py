"""`unmask convert`: a model folder in another form."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.options import Json, Overwrite, Quiet, print_json, progress

_EXAMPLES = """
    unmask convert model/ model-onnx/ --to onnx --int8

    unmask convert old-bert/ model/ --allow-pickle
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("convert", epilog=_EXAMPLES)(convert)


def convert(
    source: Annotated[str, typer.Argument(help="The model to read: a folder or a name.", show_default=False)],
    target: Annotated[Path, typer.Argument(help="The folder to write.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            metavar="hf|bfloat16|onnx", help="Safetensors, the same in half the size, or an ONNX graph."
        ),
    ] = "hf",
    int8: Annotated[bool, typer.Option("--int8", help="ONNX with eight-bit matrix products.")] = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read old .bin weights; only if you trust their origin.")
    ] = False,
    overwrite: Overwrite = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model folder as safetensors or ONNX, and say how far the copy is from the original."""
    from unmask.predict.folders import check_conversion

    check_conversion(source, target, to, int8, overwrite)  # before torch is loaded, which takes seconds
    from unmask.predict.convert import convert as run

    said = progress(quiet)
    made, report = run(source, target, to, int8, allow_pickle, said, overwrite=overwrite)
    if report:
        said.say(str(report))
    if json_:
        print_json(asdict(made))
        return
    scores = "" if made.scores is None else f", of the head's scores {made.scores:.2g}"
    typer.echo(
        f"{made.folder}: largest difference {made.difference:.2g}{scores}, mean cosine {made.cosine:.6f}"
        f" (sequences of {', '.join(map(str, made.lengths))} random tokens)"
    )
    if not made.tokenizer:
        typer.echo("the folder has no tokenizer: add one before you use it with text")
