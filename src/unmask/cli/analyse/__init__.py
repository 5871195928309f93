"""`unmask analyse`: a look inside a model; one module per kind of look."""

import typer

from unmask.cli.analyse import attention, geometry, probe, senses
from unmask.cli.options import Commands


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = Commands(
        help="Look inside a model: geometry, senses, attention, probes.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
    )
    for module in (geometry, senses, attention, probe):
        module.register(group)
    app.add_typer(group, name="analyse")
