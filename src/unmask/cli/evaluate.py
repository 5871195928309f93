"""`unmask evaluate`: scores of a model on suites; `unmask compare`: two models on the same suites."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli.options import Command, Json, ModelFolder, Quiet, print_json, print_table, progress

if TYPE_CHECKING:
    from unmask.evaluation.results import Differences

_EXAMPLES = """
    unmask evaluate blimp wic --model model/ -o scores/ --data ../shared/data

    unmask evaluate glue portuguese --model model/ -o quick/ --sample 100

    unmask evaluate mine.toml novel.txt --model model/ -o scores/ --compare other-scores/
"""
_COMPARE_EXAMPLES = """
    unmask compare scores-a/ scores-b/ --json
"""
_JSON = f"{__name__}.json"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("evaluate", cls=_Evaluate, epilog=_EXAMPLES)(evaluate)
    app.command("compare", epilog=_COMPARE_EXAMPLES)(compare)


class _Evaluate(Command):
    """`--list` stops before other options are read, so it is told of `--json` here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_JSON] = "--json" in args
        return super().parse_args(ctx, args)


def _list(ctx: typer.Context, asked: bool) -> None:
    if not asked:
        return
    from unmask.evaluation.suites import FOLDER, read_suite, suite_names

    rows = [(name, read_suite(FOLDER / f"{name}.toml")) for name in suite_names()]
    if ctx.meta[_JSON]:
        print_json({name: {"kind": suite.kind, "about": suite.about} for name, suite in rows})
        raise typer.Exit
    print_table(
        ("suite", "kind", "what it measures"), [(name, suite.kind, suite.about) for name, suite in rows]
    )
    raise typer.Exit


def evaluate(
    suites: Annotated[
        list[str],
        typer.Argument(
            metavar="SUITE...",
            help="Names of ours (--list), TOML files of yours, or text files.",
            show_default=False,
        ),
    ],
    model: ModelFolder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where results go.", show_default=False)
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The benchmarks; by default $UNMASK_DATA, else ../shared/data.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--compare", metavar="DIR", help="Results of another model.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Every random choice follows from it.")] = 0,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="A quick look: at most N items of each suite, by a hash of their text.",
            show_default=False,
        ),
    ] = None,
    card: Annotated[
        bool, typer.Option(help="Write the scores (not a sample's) into the model's README.md.")
    ] = True,
    _: Annotated[
        bool, typer.Option("--list", callback=_list, is_eager=True, help="Show our suites and stop.")
    ] = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Score a model; suites that are finished are kept, so the same command goes on where it stopped."""
    from unmask.evaluation.results import check_comparable, check_folder
    from unmask.evaluation.suites import data_folder, find_suites
    from unmask.predict.folders import find_folder

    check_folder(out)
    asked = find_suites(suites, data_folder(data))  # before torch is loaded, which takes seconds
    for suite in asked:
        suite.inputs()
    if against:
        check_comparable({suite.name: suite.material(seed, sample) for suite in asked}, against)
    find_folder(model)
    from unmask.evaluation import differences
    from unmask.evaluation import evaluate as run
    from unmask.evaluation.show import SCORES, group_tables, notes, score_rows

    told = progress(quiet)
    found = run(suites, model, out, data, card, seed, sample, told)
    compared = None
    if against:
        with told.stage("comparing"):
            compared = differences(out, against, [result.suite for result in found], seed)
    if json_:
        scores = {
            result.suite: {name: asdict(score) for name, score in result.scores.items()} for result in found
        }
        groups = {result.suite: asdict(result)["groups"] for result in found if result.groups}
        apart = {} if compared is None else {"differences": _plain(compared)}
        print_json({"scores": scores, "groups": groups, "notes": notes(found)} | apart)
        return
    print_table(SCORES, score_rows(found))
    for note in notes(found):
        typer.echo(note)
    if compared is not None and against is not None:
        _show_differences(compared, out, against)
    for title, columns, rows in group_tables(found):
        typer.echo(f"\n{title}")
        print_table(columns, rows)
    typer.echo(f"{out / 'report.html'} shows them by group")


def compare(
    first: Annotated[Path, typer.Argument(help="Results of one model.", show_default=False)],
    second: Annotated[Path, typer.Argument(help="Results of another.", show_default=False)],
    seed: Annotated[int, typer.Option(min=0, help="Of the resampling.")] = 0,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare two models on the suites that both were scored on, item by item (first less second)."""
    from unmask.evaluation import differences

    with progress(quiet).stage("comparing"):
        found = differences(first, second, seed=seed)
    if json_:
        print_json(_plain(found))
    else:
        _show_differences(found, first, second)


def _plain(found: "Differences") -> dict[str, Any]:
    return {suite: {name: asdict(one) for name, one in measures.items()} for suite, measures in found.items()}


def _show_differences(found: "Differences", first: Path, second: Path) -> None:
    from unmask.evaluation.results import names_apart
    from unmask.evaluation.show import difference_table

    columns, *rows = difference_table(found, names_apart(first, second))
    print_table(columns, rows)
