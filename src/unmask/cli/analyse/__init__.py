"""`unmask analyse`: a look inside a model; one module per kind of look."""

import typer

from unmask.cli.analyse import attention, geometry, probe, senses, uses
from unmask.cli.options import Commands


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = Commands(
        help="Look inside a model: geometry, uses and senses of words, attention, probes.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
    )
    for module in (geometry, uses, senses, attention, probe):
        module.register(group)
    app.add_typer(group, name="analyse")
