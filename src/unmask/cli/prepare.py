"""`unmask prepare` and `unmask corpus`: clean text to token shards, and a look at them."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from unmask.cli.options import (
    Changes,
    Json,
    Quiet,
    RecipeCommand,
    RecipeFile,
    Texts,
    changes,
    kept_when_interrupted,
    print_framed,
    print_json,
    progress,
)
from unmask.progress import counted

_EXAMPLES = """
    unmask prepare corpus/ --tokenizer vocab/ -o shards/

    unmask prepare pt=livros/ en=books/*.txt.gz --tokenizer vocab/ -o shards/ --workers 8

    zcat dump.jsonl.gz | unmask prepare - --tokenizer vocab/ -o shards/

    unmask prepare corpus/ --tokenizer vocab/ -o shards/ --shard 3/16   # on the third of 16 machines

    unmask prepare corpus/ --tokenizer vocab/ -o shards/ --engine ray --ray-address head:6379
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("prepare", cls=RecipeCommand, epilog=_EXAMPLES)(prepare)
    app.command("corpus", epilog="unmask corpus shards/ --verify")(corpus)


def prepare(
    texts: Texts,
    tokenizer: Annotated[
        Path,
        typer.Option("--tokenizer", "-t", help="Its folder, or a model's, or its name.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The corpus folder to make.", show_default=False)],
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one per core.", show_default=False)
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Do the I-th of N shares of the work, on one of N machines.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Processes of this machine, or tasks of a Ray cluster; the result is the same."),
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="The Ray cluster, as HOST:PORT or auto; by default one is started here, and ended.",
            show_default=False,
        ),
    ] = None,
    documents: Annotated[
        str | None,
        typer.Option(
            metavar="block|line|file", help="What a document is in a .txt file.", show_default="block"
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="The column or key that holds the text; '{title}: {body}' is made of two.",
            show_default="text, else one with a usual name",
        ),
    ] = None,
    recipe: RecipeFile = None,
    set_: Changes = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Clean, deduplicate, split and tokenise text into shards.

    Safe to interrupt: the same command goes on where it stopped.
    """
    from unmask.config import load_recipe
    from unmask.data.prepare import Job, prepare_on_ray
    from unmask.data.prepare import prepare as run
    from unmask.data.shards import without_validation
    from unmask.errors import ConfigError
    from unmask.predict.folders import find_tokenizer
    from unmask.target import check_place
    from unmask.text import find_sources
    from unmask.tokenizer import Tokenizer

    settings = load_recipe(recipe, changes(set_, text__documents=documents, text__column=column))
    job = Job.parse(shard) if shard else None
    if engine == "ray" and shard:
        raise ConfigError("--engine ray makes the shares itself: leave --shard out")
    if ray_address and (engine != "ray" or workers):
        raise ConfigError("--ray-address goes with --engine ray, and takes all of the cluster: no --workers")
    check_place(out)
    given = find_sources(texts, out), Tokenizer.load(find_tokenizer(tokenizer)), out, settings, workers
    read_again = all(source.path for source in given[0])
    with kept_when_interrupted() if read_again else nullcontext():
        if engine == "ray":
            manifest = prepare_on_ray(*given, ray_address, progress(quiet))
        else:
            manifest = run(*given, job, progress(quiet))
    if json_:
        print_json(manifest)
    elif job and job.of > 1:
        typer.echo(
            f"share {job.number} of {job.of} is done; when all are, run the same command without --shard"
        )
    else:
        _print_corpus(out, manifest)
        if settings.prepare.valid and (remark := without_validation(manifest)):
            typer.echo(remark)


def corpus(
    folder: Annotated[Path, typer.Argument(help="A folder made by `unmask prepare`.", show_default=False)],
    verify: Annotated[bool, typer.Option("--verify", help="Compare every shard with its checksum.")] = False,
    alpha: Annotated[
        float, typer.Option(min=0, max=1, help="Also show how often each language is drawn, q ∝ pᵅ.")
    ] = 0.3,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a corpus folder holds, and check it."""
    from unmask.data import shards
    from unmask.text import sampling_weights

    manifest = shards.read_manifest(folder)
    if verify:
        shards.verify(folder, progress(quiet))
    if json_:
        print_json({**manifest, "fingerprint": shards.corpus_fingerprint(manifest), "verified": verify})
        return
    _print_corpus(folder, manifest)
    train = manifest["splits"]["train"]["languages"]
    if len(train) > 1 and manifest["splits"]["train"]["tokens"]:
        weights = sampling_weights({name: facts["tokens"] for name, facts in train.items()}, alpha)
        drawn = ", ".join(f"{name or 'none'} {share:.1%}" for name, share in weights.items())
        typer.echo(f"drawn at α = {alpha:g}: {drawn}")
    if verify:
        typer.echo("every shard agrees with its checksum")


def _print_corpus(folder: Path, manifest: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    head = ("split", "language", "documents", "sentences", "words", "tokens", "per word", "shards")
    table = Table(*head, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in table.columns[2:]:
        column.justify = "right"
    for split, facts in manifest["splits"].items():
        for number, (language, row) in enumerate(facts["languages"].items()):
            counts = [f"{row[key]:,}" for key in ("documents", "sentences", "words", "tokens")]
            fertility = f"{row['tokens'] / row['words']:.3f}" if row["words"] else "–"
            shards = "" if number else str(len(facts["shards"]))
            table.add_row("" if number else split, language, *counts, fertility, shards)
    print_framed(table)
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in manifest["dropped"].items()) or "none"
    typer.echo(f"{folder}: {counted(manifest['documents_read'], 'document')} read; dropped: {dropped}")
