"""`unmask similar`: the texts, or uses of a word, nearest to a query."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from unmask.cli.embed import Column, PoolOption, Truncate, read_layer
from unmask.cli.options import (
    Json,
    ModelFolder,
    Quiet,
    check_no_file,
    kept_when_interrupted,
    load_model,
    print_json,
    progress,
)
from unmask.progress import counted

_EXAMPLES = """
    unmask similar --model model/ --index index/ --add sentences.txt

    unmask similar --model model/ --index index/ "The river rose all night."

    unmask similar --model model/ --index index/ --word banco "Sentou-se no banco do jardim." --plural pt
"""


Added = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Add the lines or rows of a file; the index is made if it is not there.",
        show_default=False,
    ),
]
Word = Annotated[
    str | None,
    typer.Option(help="Find uses of this word like that in the query instead.", show_default=False),
]
Plural = Annotated[
    Literal["pt", "en"] | None,
    typer.Option(help="Count the word's regular plurals in this language too.", show_default=False),
]
Layer = Annotated[
    str | None,
    typer.Option(metavar="N|last4", help="The layer of a new index, or of --word.", show_default="the last"),
]
StandardiserFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A standardiser for a new index, or one fitted on words for --word.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("similar", epilog=_EXAMPLES)(similar)


def similar(
    model: ModelFolder,
    index: Annotated[
        Path, typer.Option("--index", metavar="DIR", help="The index folder.", show_default=False)
    ],
    query: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUERY", help="A text to find the like of, in quotation marks.", show_default=False
        ),
    ] = None,
    add: Added = None,
    word: Word = None,
    plural: Plural = None,
    top: Annotated[int, typer.Option(min=1, help="How many to show.")] = 10,
    approximate: Annotated[
        bool,
        typer.Option("--approximate", help="Search a graph (usearch), made once: faster in millions."),
    ] = False,
    layer: Layer = None,
    pool: PoolOption = None,
    truncate: Truncate = None,
    standardise: StandardiserFile = None,
    column: Column = "text",
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build an index of texts and find those nearest in meaning, by the cosine of their vectors.

    Safe to interrupt: the same command goes on where it stopped.
    """
    from dataclasses import asdict, replace

    from unmask.predict.lines import one_source
    from unmask.predict.standardise import Standardiser

    made: dict[str, object] = {"pool": pool}
    if word is None:  # otherwise they are for its uses
        made |= {"layer": layer, "standardise": standardise}
    if add is not None or word is not None:  # otherwise it is for the query
        made["truncate"] = truncate
    said = [name for name, value in made.items() if value is not None]
    text = _one_text(query or [], add)
    _check(text, add, word, plural, approximate, said)
    if add is not None:
        one_source(add)
    which = read_layer("-1" if layer is None else layer)
    fitted = Standardiser.load(standardise) if standardise else None

    loaded, shown = load_model(model, quiet), progress(quiet)
    from unmask.analyse.neighbours import Index, add_file
    from unmask.analyse.uses import at_a_glance, in_context
    from unmask.predict.parts import EmbedSettings

    added = 0
    if add is not None:
        settings = EmbedSettings(pool=pool, truncate=truncate)
        if word is None:
            settings = replace(settings, layer=which, standardise=fitted)
        with kept_when_interrupted():
            added = add_file(index, loaded, add, settings if said else None, column, shown)
    opened = Index(index, loaded)
    found = []
    if text is not None and word is not None:
        found = opened.nearest_uses(word, text, top, which, plural, fitted, shown)
    elif text is not None:
        (found,) = opened.nearest([text], top, approximate, truncate, shown)
    if json_:
        print_json(
            {"index": str(index), "texts": len(opened), "added": added, "found": list(map(asdict, found))}
        )
        return
    if add is not None:
        typer.echo(f"{counted(added, 'text')} added, {len(opened):,} in all: {index}")
    for one in found:
        line = at_a_glance(one.text) if word is None else in_context(one)
        again = f"; {one.times:,} times" if one.times > 1 else ""
        typer.echo(f"{one.score:.4f}  {line}  ({one.file}, {one.number}{again})")


def _one_text(query: list[str], add: str | None) -> str | None:
    """The query, if there is one; a shell makes several of `--add *.txt`, and of words without quotes."""
    from unmask.errors import ConfigError

    for text in query:
        way = "and --add takes one: add each file with a command of its own"
        check_no_file(
            text, way if add else f"and a query is a text: --add {text} puts its lines into the index"
        )
    if len(query) > 1:
        raise ConfigError(f"a query is one text: write quotation marks around {' '.join(query)[:60]!r}")
    return query[0] if query else None


def _check(
    query: str | None,
    add: str | None,
    word: str | None,
    plural: str | None,
    approximate: bool,
    said: list[str],
) -> None:
    """Options that do not go together."""
    from unmask.errors import ConfigError

    if query is None and add is None:
        raise ConfigError("nothing to do: give a query, or --add FILE")
    if query is not None and not query.strip():
        raise ConfigError("the query is empty: give a text to find the like of")
    if query is None and word is not None:
        raise ConfigError("--word asks for uses like that in a query: give a text that holds the word")
    if approximate and query is None:
        raise ConfigError("--approximate is a way to search: give a query")
    if plural and word is None:
        raise ConfigError("--plural goes with --word")
    if approximate and word is not None:
        raise ConfigError("--approximate searches texts: leave it out with --word")
    if said and add is None:
        raise ConfigError(f"--{said[0]} is for a new index: give it with --add FILE")
