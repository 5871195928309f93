"""`unmask fewshot`: how far each way of using a model gets with few labelled examples."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli.finetune import LabelColumn, PairColumn, Settings, TextColumn
from unmask.cli.options import Json, ModelFolder, Quiet, changes, print_json, progress, with_settings

if TYPE_CHECKING:
    from unmask.tasks.fewshot import FewshotResult
    from unmask.tasks.settings import FewshotConfig

_EXAMPLES = """
    unmask fewshot --model model/ --train reviews.csv --valid dev.csv -o few --prompt "It was [MASK]."
    --words good=great,bad=terrible

    unmask fewshot --model model/ --train nli.jsonl --valid dev.jsonl -o few --text-column premise
    --pair-column hypothesis --prompt "{text} ? [MASK], {pair}" --words yes=Yes,no=No

    unmask fewshot --model model/ --train reviews.csv --valid dev.csv -o few --methods probe,knn --sizes 4,8
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fewshot", cls=with_settings(_settings), epilog=_EXAMPLES)(fewshot)


def fewshot(
    model: ModelFolder,
    train: Annotated[Path, typer.Option(help="Examples: csv, tsv, jsonl, parquet.", show_default=False)],
    valid: Annotated[Path, typer.Option(help="Examples to score on.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where results go.", show_default=False)],
    prompt: Annotated[
        str | None,
        typer.Option(
            help="A text with one [MASK]; {text} and {pair} stand for the example, which else comes before.",
            show_default=False,
        ),
    ] = None,
    words: Annotated[
        str | None,
        typer.Option(metavar="LABEL=WORD,…", help="The word of each class, one piece.", show_default=False),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…", help="Some of cloze, probe, knn, lora.", show_default="all that are possible"
        ),
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="N,…", help="Examples per class.", show_default="8,16,32,64")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How often examples are drawn.", show_default="3")
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    set_: Settings = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare ways to classify with few examples: prompts, probes, neighbours, LoRA; a table and a curve.

    Ctrl-C and SIGTERM stop after the trial; the results so far are written.
    """
    from dataclasses import asdict

    from unmask.sections import load_settings
    from unmask.tasks.columns import Columns
    from unmask.tasks.settings import FewshotConfig

    own = changes(
        set_,
        prompt=prompt,
        words=_listed(words),
        methods=_listed(methods),
        sizes=_numbers(sizes),
        seeds=seeds,
    )
    columns, settings = Columns(text_column, pair_column, label_column), load_settings(FewshotConfig, own)
    from unmask.tasks.fewshot import fewshot as run  # torch is loaded when the settings are known to be right

    result = run(model, train, valid, out, settings, columns, progress(quiet))
    print_json(asdict(result)) if json_ else _print(result)
    if result.stopped:
        raise typer.Exit(128 + result.stopped)


def _settings() -> "type[FewshotConfig]":
    from unmask.tasks.settings import FewshotConfig

    return FewshotConfig


def _print(result: "FewshotResult") -> None:
    from unmask.tasks.fewshot import known, stopped, table

    if result.stopped:
        typer.echo(stopped(result))
    if result.valid_in_train:
        typer.echo(known(result))
    names, rows = table(result)
    for row in (names, *rows):
        typer.echo(f"{row[0]:<10}" + "".join(f"{cell:>16}" for cell in row[1:]))
    typer.echo(
        f"by examples per class; the commonest class alone: {result.commonest:.3f};"
        f" {result.folder}/report.html has the curve"
    )


def _listed(given: str | None) -> list[str] | None:
    return None if given is None else [part.strip() for part in given.split(",") if part.strip()]


def _numbers(given: str | None) -> list[int] | None:
    from unmask.errors import ConfigError

    try:
        return None if given is None else [int(part) for part in _listed(given) or ()]
    except ValueError:
        raise ConfigError(f"--sizes {given}: write whole numbers with commas between, as 8,16,32") from None
