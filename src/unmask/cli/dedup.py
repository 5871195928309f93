"""`unmask dedup`: near-duplicate documents out."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.options import Changes, Json, Quiet, RecipeCommand, RecipeFile, Texts, print_json, progress
from unmask.progress import counted

_EXAMPLES = """
    unmask dedup corpus/ -o unique.jsonl.zst

    unmask dedup pt=livros/ en=books/*.txt.gz -o unique.jsonl --threshold 0.7 --json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dedup", cls=RecipeCommand, epilog=_EXAMPLES)(dedup)


def dedup(
    texts: Texts,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Where to write, .jsonl or .jsonl.zst.", show_default=False)
    ],
    threshold: Annotated[
        float, typer.Option(help="Documents this alike (Jaccard index of 5-word runs) count as one.")
    ] = 0.8,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one per core.", show_default=False)
    ] = None,
    recipe: RecipeFile = None,
    change: Changes = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Remove near-duplicate documents; the first of each cluster stays."""
    from unmask.config import load_recipe
    from unmask.processes import cores
    from unmask.text import find_sources
    from unmask.text.dedup import deduplicate

    config = load_recipe(recipe, change or ()).text
    result = deduplicate(
        find_sources(texts, out), out, config, threshold, workers or cores(), progress(quiet)
    )
    if json:
        print_json(asdict(result))
        return
    dropped = "".join(f", {count:,} dropped as {reason}" for reason, count in sorted(result.dropped.items()))
    typer.echo(
        f"{counted(result.documents, 'document')}: {result.kept:,} kept, "
        f"{counted(result.near_duplicates, 'near-duplicate')} removed{dropped} -> {out}"
    )
    for pair in result.examples:
        typer.echo(f"\nalike {pair.similarity:.2f}\n  {_line(pair.first)}\n  {_line(pair.second)}")


def _line(text: str) -> str:
    return text.replace("\n", " ")
