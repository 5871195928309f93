"""`unmask analyse probe`: where in the layers a property of words can be read."""

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.options import (
    Json,
    ModelFolder,
    Quiet,
    load_model,
    page_folder,
    print_json,
    print_table,
    progress,
)

_EXAMPLES = """
    unmask analyse probe --model model/ --data train.conllu --test dev.conllu -o probes/

    unmask analyse probe --model model/ --data train.conllu --label Tense --json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("probe", epilog=_EXAMPLES)(probe)


def probe(
    model: ModelFolder,
    data: Annotated[Path, typer.Option(metavar="FILE", help="CoNLL-U to learn from.", show_default=False)],
    label: Annotated[
        str, typer.Option(help="upos, xpos, deprel, or a feature such as Tense, Number, Gender.")
    ] = "upos",
    test: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CoNLL-U to score on.", show_default="every fifth sentence"),
    ] = None,
    words: Annotated[
        int, typer.Option(min=10, help="Labelled words of each file, to the end of a sentence.")
    ] = 10_000,
    out: Annotated[Path | None, page_folder("probe", "Page and JSON.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the control task.")] = 0,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """A linear probe of every layer for a property of words, beside a control task of random labels."""
    from unmask.text.conllu import read_labels

    sentences = read_labels(data, label, words)  # before the model is loaded
    judged = None if test is None else read_labels(test, label, words)
    loaded = load_model(model, quiet)
    from dataclasses import asdict

    from unmask.analyse.probing import COLUMNS, hold_back, probe_label, summary, write_probe

    learn, judged = hold_back(sentences) if judged is None else (sentences, judged)
    found = probe_label(loaded, learn, judged, label, seed, progress(quiet))
    if out:
        write_probe(out, found)
    if json_:
        print_json(asdict(found))
        return
    shares = [(one.accuracy, one.control, one.selectivity) for one in found.layers]
    print_table(COLUMNS, [(str(n), *(f"{share:.2%}" for share in row)) for n, row in enumerate(shares)])
    typer.echo(summary(found))
    if out:
        typer.echo(f"{out / 'probe.html'} shows them by layer")
