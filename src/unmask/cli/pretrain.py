"""`unmask pretrain`: a recipe and text to a model folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli.options import (
    Changes,
    Json,
    Quiet,
    changes,
    print_json,
    progress,
    recipe_section,
    with_settings,
)
from unmask.progress import counted, duration

if TYPE_CHECKING:
    from unmask.train.plan import RunPlan
    from unmask.train.pretrain import RunResult

_EXAMPLES = """
    unmask pretrain modern-small --text books/ -o run          # vocabulary and shards are made on the way

    unmask pretrain bert-base --data shards/ -o run --set train.micro_tokens=32768

    unmask pretrain bert-base --data shards/ -o run --resume   # after a stop, a crash or a kill

    torchrun --nproc-per-node=8 -m unmask pretrain bert-base --data shards/ -o run --resume   # eight GPUs

    unmask pretrain tiny-docs --text livros/ --teacher mini-pt -o small   # a smaller model of a larger one

    unmask pretrain roberta-base --from model/ --text reports/ -o new --set train.epochs=3 --set train.lr=1e-4
"""
_ELSEWHERE = {
    "--tokenizer": "prepare the text with it, unmask prepare TEXT --tokenizer DIR -o SHARDS, then --data"
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pretrain", cls=with_settings(recipe_section, _ELSEWHERE), epilog=_EXAMPLES)(pretrain)


def pretrain(
    recipe: Annotated[
        Path,
        typer.Argument(help="A recipe: a TOML file or the name of one of ours.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The run's folder.", show_default=False)],
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            help="Raw text: files, folders or globs; `pt=PATH` says the language. May be repeated.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Shards that `unmask prepare` made, in place of text.", show_default=False
        ),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option("--from", help="A model to go on from: a folder or a name.", show_default=False),
    ] = None,
    teachers: Annotated[
        list[str] | None,
        typer.Option(
            "--teacher",
            help="A model whose predictions are learned too: a folder or a name. May be repeated.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Measure a few steps, print the plan and stop; what is made of --text stays."
        ),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events into the run's folder too.")
    ] = False,
    set_: Changes = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a language model from scratch, or go on with one.

    Ctrl-C and SIGTERM save and stop; the same command with --resume goes on, to the same result.
    """
    from dataclasses import asdict

    from unmask.sections import Change
    from unmask.train.start import settle

    taught = [Change("--teacher", "objective.teachers", teachers)] if teachers else []
    settings, start = settle(recipe, out, text or (), data, base, [*changes(set_), *taught], resume)

    from unmask.train import parallel
    from unmask.train import pretrain as run

    show = progress(quiet)
    with parallel.processes():
        first = parallel.rank() == 0
        if dry_run:
            plan = run.dry_run(settings, out, start, show)
            if first:
                print_json(asdict(plan)) if json_ else _print_plan(plan)
            return
        result = run.pretrain(settings, out, start, resume, show, tensorboard)
    if first:
        print_json(asdict(result)) if json_ else _print_result(result)
    if result.stopped:
        raise typer.Exit(128 + result.stopped)


def _print_plan(plan: "RunPlan") -> None:
    typer.echo(f"parameters       {plan.parameters:,}")
    typer.echo(f"tokens a step    {plan.tokens_per_step:,}")
    typer.echo(f"steps            {plan.steps:,} ({counted(plan.tokens, 'token')}, {plan.epochs:.2f} epochs)")
    if plan.tokens_per_s and plan.seconds:
        steps = [f"steps of {plan.estimated_from:,} tokens"] if plan.estimated_from else []
        steps += [f"{plan.estimated_blocks} blocks"] if plan.estimated_blocks else []
        told = f"estimated from {' and '.join(steps)}" if steps else "measured"
        typer.echo(f"speed            {plan.tokens_per_s:,.0f} tokens/s ({told})")
        typer.echo(f"time             about {duration(plan.seconds)}")
    if plan.memory_bytes:
        typer.echo(f"memory           about {plan.memory_bytes / 2**30:.2f} GiB")


def _print_result(result: "RunResult") -> None:
    typer.echo(
        f"{counted(result.steps, 'step')}, {counted(result.tokens, 'token')} in {duration(result.seconds)}"
    )
    if result.without_gain:
        validations = counted(result.without_gain, "validation")
        typer.echo(
            f"stopped: {validations} without a lower loss; model/ is that of step {result.model_step:,}"
        )
    elif result.model_step is not None and result.model_step < result.steps:
        typer.echo(f"model/ is that of step {result.model_step:,}, which had the lowest validation loss")
    if result.valid:
        shown = ", ".join(f"{name} {share:.1%}" for name, share in result.valid.accuracy.items())
        typer.echo(f"validation loss {result.valid.loss:.4f}, right: {shown}")
        if len(result.valid.languages) > 1:
            for name, score in result.valid.languages.items():
                typer.echo(f"  {name or 'none'}: loss {score['loss']:.4f}, {score['accuracy']:.1%} right")
    typer.echo(f"report: {result.report}")
    if result.model:
        typer.echo(f"model: {result.model}")
    else:
        typer.echo(f"stopped and saved; go on with the same command and --resume (run: {result.run})")
