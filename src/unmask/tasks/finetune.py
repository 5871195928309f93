"""From a pretrained folder and labelled examples to a fine-tuned folder: `unmask finetune`.

out/
  config.json model.safetensors tokenizer.json …   a model folder that transformers opens
  README.md      the card, with the scores          metrics.jsonl   what was measured
  report.html    curves, classes, mistakes, calibration
"""

import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from unmask.checkpoint import read_values, save_model
from unmask.config import ModelConfig
from unmask.errors import ConfigError, InputError
from unmask.model.network import Model
from unmask.model.published import read_config
from unmask.predict.classify import Classifier
from unmask.predict.folders import find_folder
from unmask.predict.settings import TaskSettings
from unmask.predict.tasks import TaskModel
from unmask.progress import SILENT, Progress, counted, held
from unmask.runs import Metrics
from unmask.sections import Needs, unread
from unmask.target import check_room, check_target
from unmask.tasks.batches import Item, TaskFeed
from unmask.tasks.card import task_card
from unmask.tasks.columns import USUAL, Columns
from unmask.tasks.divergence import DivergedError
from unmask.tasks.examples import (
    Example,
    TaggedExample,
    TextExample,
    count_repeated,
    data_mark,
    read_of,
    second_texts,
)
from unmask.tasks.kinds import Evaluation, TaskKind, hold_out
from unmask.tasks.lora import merge
from unmask.tasks.questions import Questions
from unmask.tasks.read import TASKS, Task, read_examples
from unmask.tasks.replay import (
    MEASURED,
    REPLAYED,
    Feed,
    Measure,
    MixedFeed,
    PlainBatches,
    PlainText,
    source_of,
)
from unmask.tasks.report import write_report
from unmask.tasks.rows import read_rows
from unmask.tasks.run import FinetuneResult, Material, Run
from unmask.tasks.settings import FinetuneConfig
from unmask.tasks.tags import Tags
from unmask.tasks.texts import Classes, Numbers
from unmask.tokenizer import Tokenizer
from unmask.train.loop import parameter_count
from unmask.train.machine import Machine, repeatable
from unmask.train.signals import Wish, polite_signals

Examples = Path | str | Sequence[Example]

_QA_LENGTH, _LENGTH = 384, 512
DEFAULTS = FinetuneConfig()


def finetune(  # noqa: PLR0913  the last is given by name alone
    task: Task,
    model: Path | str,
    train: Examples,
    valid: Examples | None = None,
    out: Path | str = "model",
    settings: FinetuneConfig = DEFAULTS,
    columns: Columns = USUAL,
    progress: Progress = SILENT,
    *,
    overwrite: bool = False,
) -> FinetuneResult:
    """Train a new head, and as much of the model as the settings say; write a model folder.

    A model that `out` holds already is replaced at the end, if `overwrite` says so.
    """
    windows = task in ("tag", "qa")
    needs: Needs[FinetuneConfig] = {
        "long": (
            "by classify, pair and regress, as others read long texts in windows",
            lambda _: not windows,
        ),
        "valid": ("where no file of validation examples is given", lambda _: valid is None),
    }
    if found := unread(settings, sorted(settings.model_fields_set), needs):
        raise ConfigError(" ".join(found))
    texts = (settings.replay_text, settings.report_forgetting)
    check_target(Path(out), overwrite, (find_folder(model), train, valid, *texts))
    with held(progress) as told:
        training = load_examples(task, train, columns, told)
        if not training:
            raise InputError("there is no example to learn from")
        mark = data_mark(training)
        if valid is None:
            examples = training
            training, validation = split_examples(examples, settings.valid)
            told.say(
                f"no validation file: {len(validation):,} of {counted(len(examples), 'example')} held out,"
                " by a hash of their text"
            )
        else:
            validation = load_examples(task, valid, columns)
        repeated = count_repeated(validation, training, told)
        made = gather(task, model, training, validation, settings)
        made = replace(made, task=replace(made.task, data=mark))
        if file_name(train) is not None and isinstance(made.kind, Classes | Numbers):
            text, pair = columns.templates
            made = replace(made, task=replace(made.task, text_template=text, pair_template=pair))
        if not validation:
            raise InputError("there is no example to validate on")
        if unseen := [name for name in columns.labels if name not in made.kind.changes["labels"]]:
            told.say(f"no training example has the label {', '.join(unseen)}: the model will not know it")
    with repeatable(made.machine), polite_signals() as wish:
        known = _plain(made, settings.report_forgetting, MEASURED)
        measure = None if known is None else Measure(made.folder, known, settings.seed, made.machine)
        replayed = _replayed(settings)  # now, while the files are there
        runs = _train(made, Path(out), wish, progress)
        best = max(runs, key=lambda run: run.score)
        result = _result(made, task, runs, best, str(out), wish.asked_by)
        result = replace(result, data=file_name(train), valid_in_train=repeated)
        if best.best is None:
            return result
        network = best.best_model()
        merge(network)
        predictor = made.kind.predictor(network, made.tokenizer, made.task)
        with progress.stage("scoring"), made.machine.autocast():
            prepared = made.kind.prepare(predictor, validation)
            evaluation = made.kind.evaluate(predictor, prepared, validation, details=True)
        made.kind.finish(network)
        if measure is not None:
            with progress.stage("measuring what was forgotten"):
                result = replace(result, forgetting=replace(measure(network), replayed=replayed))
        if "mlm" in network.heads and not settings.replay_text:
            del network.heads["mlm"]  # it was kept to measure by, and did not learn
        _save(network, Path(out), made, result, runs, evaluation, overwrite)
    return result


def gather(
    task: Task, model: Path | str, train: Sequence[Any], valid: Sequence[Any], settings: FinetuneConfig
) -> Material:
    """Everything a training needs, checked."""
    kind = make_kind(task, train)
    kind.check(valid)
    metric = settings.metric or kind.metric
    if metric not in kind.metrics:
        raise ConfigError(f"{task} has no metric {metric}; it has {', '.join(kind.metrics)}")
    if settings.class_weights and kind.weights is None:
        raise ConfigError(f"class_weights: {task} has no classes to weigh")
    folder = find_folder(model)
    config = read_config(read_values(folder))
    settings = settings.suited(config)
    tokenizer = Tokenizer.load(folder)
    machine = Machine.choose(settings.train_config())
    if settings.layers != "all" and settings.layers > config.layers:
        raise ConfigError(f"layers={settings.layers}: the model has {config.layers} blocks")
    usual = min(_QA_LENGTH if task == "qa" else _LENGTH, config.positions)
    if settings.length and settings.length > config.positions:
        raise ConfigError(f"length={settings.length}: the model takes at most {config.positions} tokens")
    reading = TaskSettings(
        settings.length or usual,
        settings.stride,
        settings.long,
        task,
        unanswerable=isinstance(kind, Questions) and kind.unanswerable,
        pairs=second_texts(train) is not None if isinstance(kind, Classes | Numbers) else None,
    )
    return Material(kind, folder, tokenizer, settings, reading, train, valid, machine, metric)


def make_kind(task: Task, examples: Sequence[Any]) -> TaskKind:
    """The kind of a task, with the labels of its training examples."""
    if task == "tag":
        return Tags(examples)
    if task == "qa":
        return Questions(examples)
    return Numbers(examples) if task == "regress" else Classes(examples)


def _train(made: Material, out: Path, wish: Wish, progress: Progress) -> list[Run]:
    settings = made.settings
    model = made.model(settings.seed)
    check_room(out, 4 * parameter_count(model))
    first = made.kind.predictor(model, made.tokenizer, made.task)
    with progress.stage("encoding"):
        prepared = made.kind.prepare(first, made.train)
        cut = _cut_told(first, len(made.train))
        valid = made.kind.prepare(first, made.valid)
        items = made.kind.items(prepared, made.train)
    if cut:
        progress.say(cut)
    if isinstance(made.kind, Questions) and made.kind.lost:
        progress.say(
            f"{counted(made.kind.lost, 'answer')} in no window whole: raise length or stride to learn"
        )
    ids = read_rows([*prepared, *valid])
    del prepared
    runs: list[Run] = []
    feeds = _feeds(made, items, first.config)
    per_run = settings.epochs * feeds[settings.seed].steps_per_epoch
    with progress.stage("fine-tuning", settings.seeds * per_run, "steps") as stage:
        for seed, feed in feeds.items():
            runs.append(Run(made, seed, ids))
            diverged = None
            try:
                runs[-1].train(valid, feed, wish, stage, progress)
            except DivergedError as error:
                diverged = error
            if not wish.asked_by:
                stage.advance(per_run - runs[-1].steps)
            best = max(runs, key=lambda run: run.score)
            if diverged:
                if best.best is None:
                    raise diverged
                progress.say(f"seed {seed}: {diverged}; kept: epoch {best.best_epoch} of seed {best.seed}")
            for run in runs:
                run.weights = run.weights if run is best else {}
            if wish.asked_by:
                break
    return runs


def _cut_told(predictor: TaskModel, count: int) -> str | None:
    """How many of the training texts, or pairs, were too long to be read whole, and what reads them so."""
    if not isinstance(predictor, Classifier) or not predictor.cut_texts:
        return None
    advice = "" if predictor.cut_pairs else ": --set long=mean reads such texts whole"
    return (
        f"{predictor.cut_texts:,} of {counted(count, 'training example')} cut to {predictor.length} tokens"
        f"{advice}"
    )


def _feeds(made: Material, items: Sequence[Item], config: ModelConfig) -> dict[int, Feed]:
    """The steps of every seed, with plain text between them where some is given."""
    settings = made.settings
    feeds: dict[int, Feed] = {}
    text = _plain(made, settings.replay_text, REPLAYED)
    tokens = settings.batch * sum(item.tokens for item in items) // len(items)
    for seed in range(settings.seed, settings.seed + settings.seeds):
        feed = TaskFeed(items, settings.batch, settings.micro_tokens, seed, config.segments > 1)
        if text is None:
            feeds[seed] = feed
        else:
            plain = PlainBatches(text, config.positions, seed)
            feeds[seed] = MixedFeed(feed, plain, settings.replay, min(tokens, settings.micro_tokens))
    return feeds


def _plain(made: Material, path: str | None, tokens: int) -> PlainText | None:
    return None if path is None else PlainText(path, made.tokenizer, tokens)


def _replayed(settings: FinetuneConfig) -> bool:
    """Whether forgetting is measured on the very text that is replayed."""
    texts = [text for text in (settings.replay_text, settings.report_forgetting) if text]
    return len({os.path.realpath(source_of(text).path or "-") for text in texts}) < len(texts)


def load_examples(task: Task, source: Examples, columns: Columns, progress: Progress = SILENT) -> list[Any]:
    """The examples of a file, or those given; which columns of the file they are is told."""
    if task not in TASKS:
        raise ConfigError(f"there is no task {task}; those we have: {', '.join(TASKS)}")
    if not isinstance(source, Path | str):
        return list(source)
    with progress.stage("reading"):
        return list(read_examples(task, source, columns, progress))


def file_name(source: Any) -> str | None:
    """The name of the file that examples are in, if they are in one."""
    return Path(source).name if isinstance(source, Path | str) else None


def split_examples(examples: Sequence[Any], share: float) -> tuple[list[Any], list[Any]]:
    """Training examples and those held out: a share of each class, by a hash of the text.

    A pair and the same pair the other way round are on one side, by the hash of the first.
    """
    firsts: dict[str, str] = {}

    def text(example: Example) -> str:
        if isinstance(example, TextExample):
            return firsts.setdefault(read_of(example), f"{example.text}\n{example.pair or ''}")
        return " ".join(example.words) if isinstance(example, TaggedExample) else example.context

    def labels(example: Example) -> Sequence[str]:
        if isinstance(example, TaggedExample):
            return example.tags
        target = example.target if isinstance(example, TextExample) else None
        return target if isinstance(target, tuple) else (target,) if isinstance(target, str) else ()

    return hold_out(examples, share, text, labels)


def _result(
    made: Material, task: str, runs: Sequence[Run], best: Run, out: str, signal: int | None
) -> FinetuneResult:
    scores = {run.seed: run.score for run in runs if run.best is not None}
    several = len(scores) > 1
    return FinetuneResult(
        folder=out if best.best else None,
        task=task,
        metric=made.metric,
        scores=best.best.scores if best.best else {},
        seeds=scores,
        mean=statistics.mean(scores.values()) if several else None,
        deviation=statistics.stdev(scores.values()) if several else None,
        train_examples=len(made.train),
        valid_examples=len(made.valid),
        lr=made.settings.train_config().lr,
        epochs=best.epochs,
        kept_epoch=best.best_epoch,
        kept_seed=best.seed,
        steps=best.steps,
        seconds=sum(run.seconds for run in runs),
        stopped=None if signal is None else int(signal),
        meanings={name: made.kind.meanings[name] for name in best.best.scores} if best.best else {},
        baseline=made.kind.baseline(made.valid),
    )


def _save(
    network: Model,
    out: Path,
    made: Material,
    result: FinetuneResult,
    runs: Sequence[Run],
    evaluation: Evaluation,
    overwrite: bool,
) -> None:
    def also(folder: Path) -> None:
        metrics = Metrics(folder)
        for run in runs:
            for record in run.records:
                metrics.write(record)
        write_report(folder / "report.html", made, result, runs, evaluation)

    card, facts = task_card(made, result), {"task": asdict(made.task)}
    save_model(network, out, made.tokenizer, card, facts, also, overwrite=overwrite)
