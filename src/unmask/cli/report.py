"""`unmask report`: the page of a run, made again from its folder."""

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.options import Json, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", epilog="unmask report run    # while it trains, too")(report)


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)],
    json_: Json = False,
) -> None:
    """Write report.html of a run: curves, filled sentences, pace; at any time."""
    from unmask.train.report import write_report

    path = write_report(run)
    print_json({"report": str(path)}) if json_ else typer.echo(f"report: {path}")
