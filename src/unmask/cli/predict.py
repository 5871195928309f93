"""`unmask predict`: what a model says of every row of a file."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from unmask.cli.finetune import PairColumn, TextColumn
from unmask.cli.options import Json, ModelFolder, Quiet, print_json, progress
from unmask.progress import counted

_EXAMPLES = """
    unmask predict --model sentiment reviews.csv -o predicted.csv

    unmask predict --model entities texts.jsonl -o entities.jsonl

    unmask predict --model entities test.conll -o compared.conll

    unmask predict --model answers squad.json -o answers.jsonl

    unmask predict --model run/model pairs.csv -o follows.csv   # of a model pretrained with pairs
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict", epilog=_EXAMPLES)(predict)


def predict(
    file: Annotated[
        Path,
        typer.Argument(
            help="Rows: csv, tsv, jsonl, parquet, txt; tagging also CoNLL, questions also SQuAD JSON.",
            show_default=False,
        ),
    ],
    model: ModelFolder,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="A .jsonl, .csv or .tsv file to write; of tagged words also .conll.",
            show_default=False,
        ),
    ],
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    long: Annotated[
        Literal["head", "tail", "mean"] | None,
        typer.Option(
            help="Of a text too long to classify: beginning, end, or all in windows.",
            show_default="as trained",
        ),
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write every row with the model's prediction and its probability; a file of any size is streamed.

    A language model trained on pairs (next sentence, sentence order) says whether the second text follows.
    """
    from dataclasses import replace

    from unmask.errors import ConfigError
    from unmask.predict import Classifier, MaskedLM, load
    from unmask.predict.tasks import TaskModel
    from unmask.tasks.apply import predict_file
    from unmask.tasks.columns import Columns

    loaded = load(model)
    if long and not isinstance(loaded, Classifier):
        raise ConfigError(f"--long {long} is for classifiers, and {model} is none: leave it out")
    if isinstance(loaded, TaskModel):
        loaded.settings = replace(loaded.settings, long=long or loaded.settings.long or "head")
    said = progress(quiet)
    count = predict_file(loaded, file, out, Columns(text_column, pair_column), said)
    if isinstance(loaded, Classifier | MaskedLM) and loaded.cut_texts:
        whole = isinstance(loaded, Classifier) and not loaded.cut_pairs
        advice = ": --long mean reads such texts whole" if whole else ""
        length = loaded.length if isinstance(loaded, Classifier) else loaded.inputs.limit
        said.say(f"{loaded.cut_texts:,} of {counted(count, 'row')} cut to {length} tokens{advice}")
    print_json({"rows": count, "file": str(out)}) if json_ else typer.echo(f"{counted(count, 'row')}: {out}")
