"""`unmask analyse uses`: how alike a word is to itself in two texts or more."""

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.options import Json, ModelFolder, Quiet, load_model, print_json, print_table, progress
from unmask.cli.similar import Plural

_EXAMPLES = """
    unmask analyse uses banco "Sentou-se no banco do jardim." "O banco aprovou o crédito." --model model/

    unmask analyse uses bank "He sat on the bank." "The bank is shut." --layer 4 --json --model model/
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("uses", epilog=_EXAMPLES)(uses)


def uses(
    word: Annotated[str, typer.Argument(help="As written, in lower or upper case.", show_default=False)],
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT TEXT…", help="Each holds the word.", show_default=False)
    ],
    model: ModelFolder,
    layer: Annotated[str, typer.Option(help="0 the embeddings, -1 the last block, or last4.")] = "-1",
    plural: Plural = None,
    standardise: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A standardiser fitted on words.", show_default=False),
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """The cosine between the vectors of a word in two texts or more, each with each."""
    from dataclasses import asdict

    from unmask.analyse.uses import compare_uses, first_uses, in_context
    from unmask.cli.embed import read_layer
    from unmask.predict.standardise import Standardiser
    from unmask.progress import held

    chosen = read_layer(layer)
    fitted = Standardiser.load(standardise) if standardise else None
    with held(progress(quiet)) as told:
        found = first_uses(word, texts, plural, told)
        cosines = compare_uses(load_model(model, quiet), found, chosen, fitted).tolist()
    if json_:
        print_json({"word": word, "layer": chosen, "uses": list(map(asdict, found)), "cosines": cosines})
        return
    numbers = [str(number) for number in range(1, len(found) + 1)]
    rows = [
        (number, *(f"{cosine:.4f}" for cosine in row), in_context(use))
        for number, row, use in zip(numbers, cosines, found, strict=True)
    ]
    print_table(("", *numbers, word), rows)
