"""`unmask serve`: models behind HTTP."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli.options import print_json_line, progress

if TYPE_CHECKING:
    from unmask.serve.models import Served

_EXAMPLES = """
    unmask serve model/

    unmask serve --model pt=models/pt --model names=models/ner --runs runs/

    unmask serve model/ --standardise zscore.safetensors

    UNMASK_API_KEY=… unmask serve model/ --host 0.0.0.0 --port 80
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve", epilog=_EXAMPLES)(serve)


def serve(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER...",
            help="Model folders, torch or ONNX, or names of bundled models.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="NAME=DIR", help="A folder under a name.", show_default=False),
    ] = None,
    standardise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE", help="A fitted standardiser for a model's vectors.", show_default=False
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; others than this machine need a key.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    key_file: Annotated[
        Path | None,
        typer.Option(help="A file with the key that clients send; else UNMASK_API_KEY.", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16, int8.")] = "auto",
    runs: Annotated[
        Path | None, typer.Option(help="A folder of training runs to show.", show_default=False)
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A site whose pages may ask (CORS).", show_default=False),
    ] = None,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Log also what was asked.")] = False,
    max_body: Annotated[int, typer.Option(min=1000, help="Bytes of a request.")] = 2_000_000,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts of a request.")] = 2048,
    max_tokens: Annotated[int, typer.Option(min=512, help="Tokens that a request computes.")] = 262_144,
    max_queue: Annotated[int, typer.Option(min=512, help="Tokens that may wait.")] = 1_048_576,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="Seconds that a request may take.")
    ] = 120.0,
    json_: Annotated[
        bool, typer.Option("--json", help="Print address and models as JSON when ready.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No line for each request.")] = False,
) -> None:
    """Serve models over HTTP, as clients of OpenAI and Hugging Face know it, and as a page."""
    from unmask.errors import ConfigError
    from unmask.serve.names import named_folders, named_standardisers

    named = named_folders([*(folders or ()), *(model or ())])
    fitted = named_standardisers(standardise or (), named)
    try:
        from unmask.serve.guard import Log
        from unmask.serve.server import Settings, read_key
        from unmask.serve.server import serve as run
        from unmask.serve.site import Limits
    except ImportError as error:
        raise ConfigError(f"serving needs {error.name}: pip install 'unmask[serve]'") from None
    limits = Limits(max_body, max_texts, max_tokens, max_queue, timeout)
    key = read_key(key_file)
    log: Log = "texts" if log_texts else "off" if quiet else "requests"
    settings = Settings(host, port, key, device, dtype, runs, allow_origin or (), log, limits, fitted)
    run(named, settings, _print_json if json_ else _print, progress(json_))


def _print_reports(models: "Sequence[Served]") -> None:
    for served in models:
        if served.predictor.report:
            typer.echo(f"{served.name}: {served.predictor.report}", err=True)


def _print(url: str, models: "Sequence[Served]") -> None:
    _print_reports(models)
    for served in models:
        typer.echo(f"{served.name}: {served.task} ({', '.join(served.tasks)}; {served.dtype})", err=True)
        for each in served.standardised:
            typer.echo(
                f"{served.name}: {each['level']} vectors of layer {each['layer']} are standardised"
                f" ({each['method']})",
                err=True,
            )
    typer.echo(f"ready: {url}", err=True)


def _print_json(url: str, models: "Sequence[Served]") -> None:
    _print_reports(models)
    print_json_line({"url": url, "models": [served.facts() for served in models]})
