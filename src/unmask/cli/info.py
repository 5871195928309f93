"""`unmask info`: what a model folder holds."""

from typing import Annotated

import typer

from unmask.cli.options import Json, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("info", epilog="unmask info model/")(info)


def info(
    folder: Annotated[
        str | None,
        typer.Argument(
            help="A model folder, a bundled model, or a name in the local Hugging Face cache; "
            "without it, the bundled models are listed.",
            show_default=False,
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Family, sizes, parameters by part, vocabulary, licence, weights, heads of a model; what it can do."""
    from unmask.predict.folders import bundled_names, find_folder

    if folder is None:
        names = bundled_names()
        print_json({"bundled": names}) if json_ else typer.echo(
            f"bundled models: {', '.join(names) or 'none'}"
        )
        return
    find_folder(folder)  # before torch is loaded, which takes seconds
    from unmask.predict.info import describe

    facts = describe(folder)
    if json_:
        print_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {_shown(number)}" for key, number in value.items())
        elif isinstance(value, list):
            value = ", ".join(value) or "none"
        typer.echo(f"{name:<12} {_shown(value)}")


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
