"""`unmask analyse senses`: the uses of words in a text, grouped into senses, or by labels."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from unmask.cli.finetune import TextColumn
from unmask.cli.options import (
    Json,
    ModelFolder,
    Quiet,
    check_no_file,
    load_model,
    page_folder,
    print_json,
    progress,
    refuse_without,
)

if TYPE_CHECKING:
    from unmask.analyse.senses import Guess, Senses
    from unmask.analyse.uses import Language, Use
    from unmask.progress import Progress
    from unmask.tasks.columns import Columns

_EXAMPLES = """
    unmask analyse senses banco --plural pt --text livros/ --model model/ -o senses/

    unmask analyse senses bank spring --text books.txt --model model/ --senses 2 --map tsne -o senses/

    unmask analyse senses banco --text livros/ --model model/ --predict "Sentou-se no banco."

    unmask analyse senses banco --labelled uses.csv --model model/ --predict new.txt
"""
_LIMIT = 500


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("senses", epilog=_EXAMPLES)(senses)


def senses(
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="As written.", show_default=False)],
    model: ModelFolder,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="FILE", help="Where to look for them.", show_default=False),
    ] = None,
    labelled: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="In place of --text, a table: texts with one word, and its sense in each.",
            show_default=False,
        ),
    ] = None,
    text_column: TextColumn = None,
    label_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Column of the sense.", show_default=False)
    ] = None,
    out: Annotated[Path | None, page_folder("senses", "Page with maps, and JSON.")] = None,
    plural: Annotated[
        Literal["pt", "en"] | None,
        typer.Option(
            help="Regular plurals count as uses too; else the word as written alone, in any case.",
            show_default=False,
        ),
    ] = None,
    layer: Annotated[str, typer.Option(help="0 the embeddings, -1 the last block, or last4.")] = "-1",
    count: Annotated[
        int | None,
        typer.Option("--senses", min=1, help="How many.", show_default="as many as stand apart"),
    ] = None,
    map_: Annotated[
        Literal["pca", "tsne", "umap"], typer.Option("--map", help="tsne and umap are slow.")
    ] = "pca",
    predict: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|TEXT", help="New texts: which sense has the word there?", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=2, help="Uses of a word, drawn at random if more.", show_default=str(_LIMIT)),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Every random choice follows from it.")] = 0,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Group the uses of a word into senses, name them by what fits in its place, tell those of new texts."""
    from unmask.cli.embed import read_layer
    from unmask.progress import held
    from unmask.tasks.columns import Columns

    for word in words:
        check_no_file(word, "not a word: repeat --text for every file")
    _check(words, labelled, {"--text": text, "--senses": count, "--limit": limit})
    chosen = read_layer(layer)
    new = None if predict is None else _texts(predict)
    if labelled is None:
        refuse_without({"--text-column": text_column, "--label-column": label_column}, "--labelled")
    with held(progress(quiet)) as told:
        if labelled is None:
            uses, labels = _uses(words, text or (), plural, limit or _LIMIT, seed, told), list[str]()
        else:
            columns = Columns(text_column, None, label_column)
            uses, labels = _labelled(words[0], labelled, plural, columns, told)
        loaded = load_model(model, quiet)
        loaded.check_layer(chosen, ("last4",))
    from unmask.analyse.senses import disambiguate, find_senses, learn_senses
    from unmask.analyse.senses_page import all_plain, write_senses
    from unmask.analyse.uses import find_uses, forms_of

    found: list[Senses] = []
    guesses: dict[str, Sequence[Guess]] = {}
    for word, of_word in uses.items():
        if labelled is None:
            found.append(find_senses(loaded, of_word, word, count, chosen, map_, seed, told))
        else:
            found.append(learn_senses(loaded, of_word, labels, word, chosen, map_, seed, told))
        if new is not None:
            there = list(find_uses(new, forms_of(word, plural)))
            guesses[word] = disambiguate(loaded, found[-1], there, told)
    if out:
        write_senses(out, found, guesses)
    if json_:
        print_json(all_plain(found, guesses))
        return
    for each in found:
        _show(each, guesses.get(each.word))
    if out:
        typer.echo(f"{out / 'senses.html'} shows the maps")


def _check(words: Sequence[str], labelled: Path | None, others: Mapping[str, object]) -> None:
    """Uses come from texts, or with their senses from a table."""
    from unmask.errors import ConfigError

    if labelled is None:
        if others["--text"] is None:
            raise ConfigError(
                "where are the uses? --text FILE looks for them, --labelled FILE is a table with their senses"
            )
        return
    if given := [option for option, value in others.items() if value is not None]:
        raise ConfigError(
            f"{', '.join(given)}: with --labelled, whose rows are the uses and say their senses, this does"
            " nothing; leave it out (new texts: --predict)"
        )
    if len(words) > 1:
        raise ConfigError(
            f"--labelled is of one word, not of {', '.join(words)}: name one, with a table of it"
        )


def _labelled(
    word: str, file: Path, plural: "Language | None", columns: "Columns", told: "Progress"
) -> "tuple[dict[str, list[Use]], list[str]]":
    """The word's uses in a table, and the sense of each: the first use in a text, a text once."""
    from unmask.analyse.senses import check_labels
    from unmask.analyse.uses import find_uses, forms_of
    from unmask.errors import InputError
    from unmask.progress import counted
    from unmask.tasks.examples import TextExample
    from unmask.tasks.read import read_examples

    forms = forms_of(word, plural)
    known: dict[Use, tuple[str, str]] = {}
    repeated, several = 0, list[str]()
    for example in read_examples("classify", file, columns, told):
        assert isinstance(example, TextExample)
        place, sense = example.place, example.target
        if not isinstance(sense, str):
            raise InputError(f"{place}: a use has one sense, not several between |: mend the row")
        there = list(find_uses([example.text], forms))
        if not there:
            raise InputError(
                f"{place}: there is no {' or '.join(forms)} in {example.text[:60]!r}: mend the row, or count"
                " plurals (--plural)"
            )
        if there[0] in known:
            other, before = known[there[0]]
            if other != sense:
                raise InputError(f"{place}: the sense is {sense}, but {other} of the same text at {before}")
            repeated += 1
            continue
        known[there[0]] = sense, place
        if len(there) > 1:
            several.append(place)
    if repeated:
        told.say(f"{file}: {counted(repeated, 'row')} with a text of another row left out")
    if several:
        told.say(
            f"{several[0]}: the word stands there more than once, and its first use is taken"
            + (f"; so in {counted(len(several) - 1, 'other row')}" if several[1:] else "")
        )
    uses, labels = list(known), [sense for sense, _ in known.values()]
    check_labels(uses, labels)
    return {forms[0]: uses}, labels


def _uses(
    words: Sequence[str],
    text: Sequence[str],
    plural: "Language | None",
    limit: int,
    seed: int,
    told: "Progress",
) -> "dict[str, list[Use]]":
    """In one pass over the text, at most `limit` uses of each word; one that never occurs is an error."""
    from unmask.analyse.corpus import Reservoir, sentences
    from unmask.analyse.uses import Use, find_uses, forms_of, too_few
    from unmask.text import find_sources

    forms = {found[0]: found for found in (forms_of(word, plural) for word in words)}
    kept = {word: Reservoir[Use](limit, seed) for word in forms}
    for sentence in sentences(find_sources(text), progress=told):
        for word, matched in forms.items():
            for use in find_uses([sentence], matched):
                kept[word].add(use)
    for word, uses in kept.items():
        if uses.seen < 2:
            raise too_few(word, forms[word], uses.seen)
    return {word: uses.items for word, uses in kept.items()}


def _texts(given: str) -> list[str]:
    from unmask.config import TextConfig
    from unmask.errors import InputError
    from unmask.text import find_sources, read_documents
    from unmask.text.sources import FORMATS, split_suffix

    if not os.path.exists(given):  # noqa: PTH110  Path.exists() fails where a text is too long for a name
        if not given.strip():
            raise InputError("--predict names a file or is a text; it is empty")
        if " " not in given and split_suffix(Path(given))[0] in FORMATS:
            raise InputError(f"there is no {given}: --predict names a file or is a text")
        return [given]
    lines = TextConfig(documents="line")
    return [
        document.text.strip()
        for source in find_sources([given])
        for document in read_documents(source, lines)
    ]


def _show(found: "Senses", guesses: "Sequence[Guess] | None") -> None:
    from unmask.analyse.senses_page import sense_name, summary
    from unmask.analyse.uses import in_context

    typer.echo(f"{found.word}: {summary(found)}")
    for number, sense in enumerate(found.senses):
        right = "" if found.labelled is None else f", {found.labelled.right[number]:,} right"
        typer.echo(f"  {sense_name(found, number)} ({sense.size:,}{right})")
        for example in sense.examples:
            typer.echo(f"      {in_context(found.uses[example])}")
    for note in found.notes:
        typer.echo(f"  {note}")
    if guesses is not None and not guesses:
        typer.echo("  the new texts do not hold the word")
    for guess in guesses or ():
        typer.echo(f"  → {sense_name(found, guess.sense)}  (margin {guess.margin:.2f})  {in_context(guess)}")
