"""`unmask embed`: vectors of every line of a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from unmask.cli.options import (
    Json,
    ModelFolder,
    Quiet,
    kept_when_interrupted,
    load_model,
    print_json,
    progress,
)
from unmask.progress import counted

_EXAMPLES = """
    unmask embed sentences.txt --model model/ -o vectors.npy

    unmask embed reviews.csv --column review --model model/ -o vectors.parquet --layer last4

    unmask embed sentences.txt --model model/ --level word -o words.parquet

    unmask embed corpus.txt.gz --model model/ --fit-standardise zscore -o zscore.safetensors

    unmask embed sentences.txt --model model/ --standardise zscore.safetensors -o vectors.npy
"""

Layer = Annotated[
    str,
    typer.Option(
        metavar="N|last4|all",
        help="0 the embeddings, 1 … the blocks, -1 the last; the mean of the last four; every one.",
    ),
]
PoolOption = Annotated[
    Literal["mean", "cls", "max", "first"] | None,
    typer.Option(
        help="How tokens become one vector (cls, first: the first).", show_default="as the folder says"
    ),
]
Normalise = Annotated[
    bool | None,
    typer.Option("--normalise/--no-normalise", help="Length 1.", show_default="as the folder says"),
]
Truncate = Annotated[
    bool | None,
    typer.Option(
        "--truncate/--no-truncate",
        help="Cut off what is too long, or refuse it.",
        show_default="as the folder says, else refuse",
    ),
]
StandardiserFile = Annotated[
    Path | None,
    typer.Option("--standardise", metavar="FILE", help="Apply a fitted standardiser.", show_default=False),
]
Column = Annotated[
    str,
    typer.Option(
        help="The column or key that holds the text; without a `text`, one with a usual name."
        " '{title}: {body}' is made of two."
    ),
]
Engine = Annotated[
    Literal["local", "ray"],
    typer.Option(help="The cores of this machine, or tasks of a Ray cluster; the result is the same."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The Ray cluster, as HOST:PORT or auto; by default one is started here, and ended.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("embed", epilog=_EXAMPLES)(embed)


def embed(
    file: Annotated[
        str,
        typer.Argument(
            help="One text per line of .txt or row of .jsonl, .csv, .tsv, .parquet; also .gz, .xz, .zst.",
            show_default=False,
        ),
    ],
    model: ModelFolder,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help=".npy: an array, sentences only. .parquet: number of the text (from 0), text or word, its"
            " place, vector. .safetensors: vectors; of words and tokens also spans and offsets.",
            show_default=False,
        ),
    ],
    level: Annotated[
        Literal["sentence", "word", "token"], typer.Option(help="One vector for each of these.")
    ] = "sentence",
    layer: Layer = "-1",
    pool: PoolOption = None,
    normalise: Normalise = None,
    truncate: Truncate = None,
    standardise: StandardiserFile = None,
    fit_standardise: Annotated[
        Literal["zscore", "mean", "abtt", "whiten"] | None,
        typer.Option(
            help="Write, instead of the vectors, a standardiser fitted on them, to the .safetensors of -o.",
            show_default=False,
        ),
    ] = None,
    column: Column = "text",
    engine: Engine = "local",
    ray_address: RayAddress = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the vector of every text, word or token of a file of any size.

    Safe to interrupt: the same command goes on where it stopped.
    """
    from dataclasses import asdict

    from unmask.errors import ConfigError
    from unmask.predict.folders import find_folder
    from unmask.predict.lines import one_source
    from unmask.predict.standardise import Standardiser

    if ray_address and engine != "ray":
        raise ConfigError("--ray-address goes with --engine ray")
    find_folder(model)
    one_source(file, out)
    fitted = Standardiser.load(standardise) if standardise else None
    which = read_layer(layer, ("last4", "all"))

    from unmask.predict.bulk import checked, embed_file, embed_on_ray
    from unmask.predict.parts import EmbedSettings

    settings = EmbedSettings(level, which, pool, normalise, truncate, fitted)
    checked(out, settings, fit_standardise)
    shown = progress(quiet)
    with kept_when_interrupted():
        if engine == "ray":
            done = embed_on_ray(model, file, out, settings, column, fit_standardise, ray_address, shown)
        else:
            done = embed_file(load_model(model, quiet), file, out, settings, column, fit_standardise, shown)
    if json_:
        print_json(asdict(done))
        return
    before = f" ({done.kept:,} before an interruption)" if done.kept else ""
    what = "" if level == "sentence" else f", {counted(done.rows, level)}"
    typer.echo(f"{counted(done.texts, 'text')}{before}{what}, width {done.width}: {done.file}")


def read_layer(text: str, named: Sequence[str] = ("last4",)) -> Any:
    """A number, or one of these names."""
    from unmask.errors import ConfigError

    if text in named:
        return text
    try:
        return int(text)
    except ValueError:
        *others, last = "a number", *named
        raise ConfigError(f"--layer {text}: write {', '.join(others)} or {last}") from None
