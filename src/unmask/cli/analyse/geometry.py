"""`unmask analyse geometry`: the space of a model's vectors, layer by layer, raw and standardised."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from unmask.cli.options import (
    Json,
    ModelFolder,
    Quiet,
    Texts,
    load_model,
    page_folder,
    print_json,
    print_table,
    progress,
    refuse_without,
)
from unmask.progress import counted

if TYPE_CHECKING:
    from unmask.analyse.geometry import Geometry, ScoredPair

_EXAMPLES = """
    unmask analyse geometry books.txt --model model/ -o space/

    unmask analyse geometry books.txt --model model/ -o space/ --similarity sts.tsv

    unmask analyse geometry books.txt --model model/ --save-standardiser z.safetensors --layer 5
    --method zscore --level sentence
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("geometry", epilog=_EXAMPLES)(geometry)


def geometry(
    texts: Texts,
    model: ModelFolder,
    out: Annotated[Path | None, page_folder("geometry", "Page and JSON.")] = None,
    sentences: Annotated[int, typer.Option(min=20, help="How many are looked at, drawn at random.")] = 2000,
    similarity: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Pairs of texts with a score: what standardising does to their similarity.",
            show_default=False,
        ),
    ] = None,
    text_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of the first text, or its number from 1.")
    ] = None,
    pair_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of the second text.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(metavar="NAME", help="Column of the score.")] = None,
    save_standardiser: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Fit one on this text, for `embed`, `similar` and `serve`.",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(help="Of the standardiser: 0 the embeddings, -1 the last.", show_default="-1"),
    ] = None,
    method: Annotated[
        Literal["zscore", "mean", "abtt", "whiten"] | None,
        typer.Option(help="Of the standardiser.", show_default="zscore"),
    ] = None,
    level: Annotated[
        Literal["word", "sentence"] | None,
        typer.Option(help="Of what vectors the standardiser is.", show_default="word"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Every random choice follows from it.")] = 0,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Anisotropy, similarity of uses, loud dimensions, intrinsic dimension; raw and standardised."""
    from unmask.analyse.corpus import sample
    from unmask.analyse.corpus import sentences as read
    from unmask.text import find_sources

    if save_standardiser is None:
        refuse_without({"--layer": layer, "--method": method, "--level": level}, "--save-standardiser")
    if similarity is None:
        columns = {"--text-column": text_column, "--pair-column": pair_column, "--label-column": label_column}
        refuse_without(columns, "--similarity")
    told = progress(quiet)
    some = sample(read(find_sources(texts), progress=told), sentences, seed)
    pairs = _pairs(similarity, text_column, pair_column, label_column) if similarity else []
    loaded = load_model(model, quiet)
    from unmask.analyse.geometry import Sampling, Vectors, measure
    from unmask.analyse.geometry_page import plain, write_geometry

    vectors = Vectors(loaded, some, Sampling(seed=seed), told)
    if save_standardiser:  # before the measuring, which takes longer
        asked = -1 if layer is None else layer
        vectors.standardiser(asked, method or "zscore", level or "word").save(save_standardiser)
    found = measure(vectors, pairs, told)
    if out:
        write_geometry(out, found, Path(model).absolute().name)
    if json_:
        print_json(plain(found))
        return
    _show(found)
    if out:
        typer.echo(f"{out / 'geometry.html'} shows the curves")


def _pairs(
    file: Path, text_column: str | None, pair_column: str | None, label_column: str | None
) -> "list[ScoredPair]":
    from unmask.analyse.geometry import ScoredPair
    from unmask.errors import InputError
    from unmask.tasks.columns import Columns
    from unmask.tasks.examples import TextExample
    from unmask.tasks.read import read_examples

    found = []
    for example in read_examples("regress", file, Columns(text_column, pair_column, label_column)):
        assert isinstance(example, TextExample)
        if example.pair is None or not isinstance(example.target, float):
            raise InputError(f"{file}: which column holds the second text? Say it with --pair-column")
        found.append(ScoredPair(example.text, example.pair, example.target))
    return found


def _show(found: "Geometry") -> None:
    from unmask.analyse.geometry_page import LAYERS, NAMES, layer_rows, method_rows

    print_table(LAYERS, layer_rows(found))
    head = ["layer", *(NAMES.get(method, method) for method in found.methods)]
    typer.echo("\nanisotropy, standardised")
    print_table(head, method_rows(found, lambda each: each.anisotropy))
    if found.pairs:
        typer.echo(f"\nsimilarity of {counted(found.pairs, 'pair')} of texts (Spearman)")
        print_table(head, method_rows(found, lambda each: each.similarity))
    for note in found.notes:
        typer.echo(note)
