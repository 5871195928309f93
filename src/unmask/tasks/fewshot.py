"""Few labelled examples: how far each way of using a pretrained model gets with them. `unmask fewshot`.

out/
  results.json   every trial     curve.svg   scores by the number of examples     report.html   both
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from unmask.charts import Chart, lines
from unmask.errors import OutputError
from unmask.files import write_atomic, write_json
from unmask.progress import SILENT, Progress, counted, held
from unmask.report import Heading, Part, Table, write_page
from unmask.target import check_place
from unmask.tasks.columns import USUAL, Columns
from unmask.tasks.comparison import Comparison, Trial
from unmask.tasks.examples import count_repeated
from unmask.tasks.finetune import Examples, gather, load_examples
from unmask.tasks.settings import FewshotConfig, FinetuneConfig
from unmask.train.machine import repeatable
from unmask.train.signals import polite_signals

DEFAULTS = FewshotConfig()
_NAMES = {
    "cloze": "the words of a prompt, by the masked-LM head: without any example, then trained with LoRA",
    "probe": "logistic regression on frozen sentence vectors",
    "knn": "the nearest frozen sentence vectors vote",
    "lora": "a new head, and adapters in every block (LoRA)",
}


@dataclass(frozen=True, slots=True)
class Point:
    """The seeds of one way and size together."""

    method: str
    size: int
    mean: float
    deviation: float | None
    """With one seed there is none."""


@dataclass(frozen=True, slots=True)
class FewshotResult:
    """What a comparison came to."""

    folder: str
    model: str
    labels: tuple[str, ...]
    metric: str
    points: tuple[Point, ...]
    commonest: float
    """The score of always naming the commonest class."""
    skipped: dict[str, str]
    """Ways that could not be tried, and why."""
    valid_examples: int
    trials: tuple[Trial, ...]
    stopped: int | None = None
    """The signal that stopped it; the trials until then are kept."""
    valid_in_train: int = 0
    """Validation examples that are in a draw too."""


def fewshot(
    model: Path | str,
    train: Examples,
    valid: Examples,
    out: Path | str = "fewshot",
    settings: FewshotConfig = DEFAULTS,
    columns: Columns = USUAL,
    progress: Progress = SILENT,
) -> FewshotResult:
    """Compare ways to classify with few examples; write results.json, curve.svg and report.html."""
    _check_free(Path(out))
    tuning = FinetuneConfig(
        lr=settings.lr, batch=settings.batch, lora=settings.lora, length=settings.length, seed=settings.seed
    )
    with held(progress) as told:
        training = load_examples("classify", train, columns, told)
        validation = load_examples("classify", valid, columns)
        made = gather("classify", model, training, validation, tuning)
        comparison = Comparison(made, settings, told)
        drawn = {number for numbers in comparison.draws.values() for number in numbers}
        repeated = count_repeated(validation, [training[number] for number in drawn], told)
    trials: list[Trial] = []
    with repeatable(made.machine), polite_signals() as wish:
        for trial in comparison.run():
            trials.append(trial)
            if wish.asked_by:
                break
    result = FewshotResult(
        folder=str(out),
        model=made.folder.resolve().name,
        labels=comparison.kind.labels,
        metric=made.metric,
        points=tuple(_points(trials, made.metric)),
        commonest=made.kind.baseline(validation).scores[made.metric],
        skipped=comparison.skipped,
        valid_examples=len(validation),
        valid_in_train=repeated,
        trials=tuple(trials),
        stopped=None if wish.asked_by is None else int(wish.asked_by),
    )
    _write(Path(out), result)
    return result


def stopped(result: FewshotResult) -> str:
    """What is said of a comparison that did not come to its end."""
    return f"Stopped after {counted(len(result.trials), 'trial')}: the rest was not measured."


def known(result: FewshotResult) -> str:
    """What is said of a comparison whose draws hold validation examples."""
    return (
        f"{result.valid_in_train:,} of {counted(result.valid_examples, 'validation example')} among those"
        " drawn to learn from: the scores say less of new texts"
    )


def _check_free(out: Path) -> None:
    """Nothing that is there is written over."""
    check_place(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} is there already: name another folder, or remove it")


def table(result: FewshotResult) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and a row for each way: mean ± deviation over the seeds."""
    sizes = sorted({point.size for point in result.points})
    found = {(point.method, point.size): point for point in result.points}
    rows = []
    for method in dict.fromkeys(point.method for point in result.points):
        cells = [_shown(found.get((method, size))) for size in sizes]
        rows.append([method, *cells])
    return [result.metric, *map(str, sizes)], rows


def _shown(point: Point | None) -> str:
    if point is None:
        return ""
    return f"{point.mean:.3f}" + ("" if point.deviation is None else f" ± {point.deviation:.3f}")


def _curve(result: FewshotResult) -> Chart:
    series: dict[str, list[tuple[float, float]]] = {}
    for point in result.points:
        series.setdefault(point.method, []).append((float(point.size), point.mean))
    ends = [point.size for point in result.points]
    constant = [(float(min(ends)), result.commonest), (float(max(ends)), result.commonest)]
    return lines("Few examples", result.metric, series | {"commonest class": constant}, "examples per class")


def _write(out: Path, result: FewshotResult) -> None:
    curve = _curve(result)
    columns, rows = table(result)
    seeds = len({trial.seed for trial in result.trials})
    parts: list[Part] = [
        *([stopped(result)] if result.stopped else []),
        f"{counted(len(result.labels), 'class')}, {counted(result.valid_examples, 'validation example')}, "
        f"{counted(seeds, 'draw')} of the training examples. "
        f"The commonest class alone scores {result.commonest:.3f}.",
        *([f"{known(result)}."] if result.valid_in_train else []),
        Table(["examples per class", *columns[1:]], rows),
        curve,
        Heading("The ways"),
        Table(["way", "what it does"], [[row[0], _NAMES[row[0]]] for row in rows]),
        *(f"Left out: {reason}." for reason in result.skipped.values()),
    ]
    write_json(out / "results.json", asdict(result))
    write_atomic(out / "curve.svg", curve.svg)
    write_page(out / "report.html", f"{result.model} with few examples: {result.metric}", parts)


def _points(trials: Sequence[Trial], metric: str) -> Iterator[Point]:
    groups: dict[tuple[str, int], list[float]] = {}
    for trial in trials:
        groups.setdefault((trial.method, trial.size), []).append(trial.scores[metric])
    for (method, size), scores in groups.items():
        deviation = statistics.stdev(scores) if len(scores) > 1 else None
        yield Point(method, size, statistics.mean(scores), deviation)
