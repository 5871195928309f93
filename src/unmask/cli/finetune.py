"""`unmask finetune`: a pretrained model and labelled examples to a model for a task."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from unmask.cli.options import (
    Json,
    ModelFolder,
    Overwrite,
    Quiet,
    changes,
    print_json,
    print_table,
    progress,
    with_settings,
)
from unmask.progress import counted

if TYPE_CHECKING:
    from unmask.sections import Change
    from unmask.tasks.embed import EmbedResult
    from unmask.tasks.run import FinetuneResult
    from unmask.tasks.settings import FinetuneConfig

_STOPPED = "stopped before its end: this is what was learnt until then"

_EXAMPLES = """
    unmask finetune classify --model model/ --train reviews.csv -o sentiment

    unmask finetune tag --model model/ --train train.conll --valid dev.conll -o entities --seeds 5

    unmask finetune pair --model model/ --train nli.jsonl -o entailment --epochs 5

    unmask finetune classify --model model/ --train posts.jsonl -o toxic --labels insult,obscene,racism

    unmask finetune qa --model model/ --train squad.json -o answers --layers 4

    unmask finetune classify --model model/ --train reviews.csv -o sentiment --lora 8

    unmask finetune classify --model model/ --train reviews.csv -o sentiment --replay-text books.txt
    --report-forgetting held-out.txt

    unmask finetune embed --model model/ --train paraphrases.tsv --valid sts.tsv -o vectors

    unmask finetune embed --model model/ --train sentences.txt -o vectors --set temperature=0.05
"""
TextColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of the text, or its number from 1; '{title}: {body}' is made of two.",
        show_default=False,
    ),
]
PairColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of the second text.", show_default=False)
]

LabelColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="Column of the label or number.", show_default=False)
]
LabelColumns = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,…",
        help="Classify: a column for each of several labels; above 0 a text has it.",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any other setting, e.g. warmup=0.2.", show_default=False
    ),
]


ReplayText = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Plain text for a fifth of the steps (--set replay=0.2), against forgetting.",
        show_default=False,
    ),
]
ReportForgetting = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Plain text to measure the masked-LM loss on, before and after.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("finetune", cls=with_settings(_settings), epilog=_EXAMPLES)(finetune)


def finetune(
    task: Annotated[
        Literal["classify", "tag", "pair", "qa", "regress", "embed"],
        typer.Argument(
            help="Classes of texts, tags of words, classes of pairs, answers, numbers, or sentence vectors."
        ),
    ],
    model: ModelFolder,
    train: Annotated[
        Path,
        typer.Option(help="Examples: csv, tsv, jsonl, parquet, CoNLL(-U), SQuAD JSON.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The new model's folder.", show_default=False)],
    valid: Annotated[
        Path | None,
        typer.Option(
            help="Examples to choose by; else a tenth of the training examples.", show_default=False
        ),
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    labels: LabelColumns = None,
    layers: Annotated[
        int | None,
        typer.Option(
            min=0, help="Train only the last so many blocks; 0: only the head.", show_default="everything"
        ),
    ] = None,
    lora: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="RANK", help="Train low-rank adapters and the head alone.", show_default=False
        ),
    ] = None,
    replay_text: ReplayText = None,
    report_forgetting: ReportForgetting = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the examples.", show_default="3; embed 1")
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(
            help="Highest learning rate.",
            show_default="by the width: mini-pt 4.5e-4, embed 2.7e-4; --lora 1e-3",
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Examples of a step.", show_default="32; embed 64")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Train so often; the best by validation is kept.", show_default="1"),
    ] = None,
    set_: Settings = None,
    overwrite: Overwrite = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model for a task, on labelled examples.

    Ctrl-C and SIGTERM stop after the step; the best model so far is written, if there is one.
    """
    from dataclasses import asdict

    from unmask.errors import ConfigError
    from unmask.predict.folders import find_folder
    from unmask.sections import Change, load_settings
    from unmask.target import check_target
    from unmask.tasks.columns import Columns
    from unmask.tasks.settings import EmbedConfig, FinetuneConfig

    if labels is not None and (label_column is not None or task != "classify"):
        raise ConfigError("--labels is for classify, in place of --label-column")
    sources = (find_folder(model), train, valid, replay_text, report_forgetting)
    check_target(out, overwrite, sources)  # before torch is loaded, which takes seconds
    several = tuple(name.strip() for name in (labels or "").split(",") if name.strip())
    texts = {
        name: str(path)
        for name, path in (("replay_text", replay_text), ("report_forgetting", report_forgetting))
        if path is not None
    }
    own = changes(set_, epochs=epochs, lr=lr, layers=layers, lora=lora, seeds=seeds, **texts)
    own += [] if batch_size is None else [Change("--batch-size", "batch", batch_size)]
    _check_keys(task, own)
    columns, watch = Columns(text_column, pair_column, label_column, several), progress(quiet)
    result: FinetuneResult | EmbedResult
    if task == "embed":
        vectors = load_settings(EmbedConfig, own)  # before torch is loaded
        from unmask.tasks.embed import finetune_embed

        result = finetune_embed(model, train, valid, out, vectors, columns, watch, overwrite=overwrite)
        print_json(asdict(result)) if json_ else _print_vectors(result)
    else:
        settings = load_settings(FinetuneConfig, own)
        from unmask.tasks.finetune import finetune as run

        result = run(task, model, train, valid, out, settings, columns, watch, overwrite=overwrite)
        print_json(asdict(result)) if json_ else _print(result)
    if result.stopped:
        raise typer.Exit(128 + result.stopped)


def _check_keys(task: str, given: "Sequence[str | Change]") -> None:
    """Say of a setting that other tasks have whose it is."""
    from unmask.errors import ConfigError
    from unmask.tasks.settings import EmbedConfig, FinetuneConfig

    vectors, others = EmbedConfig.model_fields.keys(), FinetuneConfig.model_fields.keys()
    foreign = others - vectors if task == "embed" else vectors - others
    those = "classify, tag, pair, qa and regress have it" if task == "embed" else "embed has it"
    for change in given:
        if isinstance(change, str):
            key, told = change.partition("=")[0].strip(), f"--set {change}"
        else:
            key, told = change.key, change.option
        if key in foreign:
            raise ConfigError(f"{told}: {task} has no such setting, only {those}: leave it out")


def _settings() -> "type[FinetuneConfig]":
    from unmask.tasks.settings import FinetuneConfig

    return FinetuneConfig


def _print_vectors(result: "EmbedResult") -> None:
    if result.stopped:
        typer.echo(_STOPPED)
    typer.echo(
        f"{counted(result.train_examples, 'example')} ({result.learnt_from}), {counted(result.steps, 'step')}"
        f" at lr {result.lr:g} in {counted(round(result.seconds), 'second')}"
    )
    if result.before and result.after:
        typer.echo(
            f"kept: epoch {result.kept_epoch}, the best by cosines against the scores of "
            f"{counted(result.valid_examples, 'pair')}:"
        )
        for name, value in result.before.items():
            typer.echo(f"  {name:<18} {value:.4f} before, {result.after[name]:.4f} after")
    typer.echo(f"model: {result.folder}")


def _print(result: "FinetuneResult") -> None:
    if not result.folder:
        typer.echo("stopped before the first validation: nothing is written")
        return
    if result.stopped:
        typer.echo(_STOPPED)
    typer.echo(
        f"{counted(result.train_examples, 'example')}, {result.passes} at lr {result.lr:g} in "
        f"{counted(round(result.seconds), 'second')}; kept: {result.kept}, the best on {result.judges}:"
    )
    base = result.baseline
    if base and result.scores:
        rows = [
            (f"  {name}", f"{value:.4f}", f"{base.scores[name]:.4f}", result.meanings[name])
            for name, value in result.scores.items()
        ]
        print_table(("", "score", base.answer, ""), rows)
    if result.doubt:
        typer.echo(result.doubt)
    if result.mean is not None:
        typer.echo(f"{len(result.seeds)} seeds: {result.metric} {result.mean:.4f} ± {result.deviation:.4f}")
    if lost := result.forgetting:
        typer.echo(f"masked-LM loss on {lost.of}: {lost.before:.4f} before, {lost.after:.4f} after")
    typer.echo(f"model: {result.folder} (report.html shows more)")
