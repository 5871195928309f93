"""`report.html` of a fine-tuning: curves, classes, confusion, calibration, the most confident mistakes."""

from collections.abc import Sequence
from pathlib import Path

from unmask.charts import bars, lines
from unmask.progress import counted
from unmask.report import Cell, Heading, Marked, Part, Table, write_page
from unmask.tasks.kinds import Confusion, Evaluation
from unmask.tasks.metrics import Calibration
from unmask.tasks.run import FinetuneResult, Material, Run

_TEXT = 300  # characters shown of a mistake


def write_report(
    path: Path, made: Material, result: FinetuneResult, runs: Sequence[Run], evaluation: Evaluation
) -> None:
    """Write the page."""
    rows: list[list[Cell]]
    parts: list[Part] = [
        f"{result.train_examples:,} training and {counted(result.valid_examples, 'validation example')}, "
        f"{result.passes} at lr {result.lr:g}, {result.seconds:,.0f} s. {result.metric} decided which "
        f"weights were kept: those of {result.kept}.",
        *([f"Validated on {result.judges}."] if result.valid_in_train else []),
        _scores(result),
        *([f"{doubt[0].upper()}{doubt[1:]}."] if (doubt := result.doubt) else []),
    ]
    if result.mean is not None:
        parts.append(
            f"{len(result.seeds)} seeds: {result.metric} {result.mean:.4f} ± {result.deviation:.4f}."
        )
        parts.append(Table(["seed", result.metric], [[str(seed), s] for seed, s in result.seeds.items()]))
    if lost := result.forgetting:
        parts.append(
            f"Masked-LM loss on {lost.of}: {lost.before:.4f} before, {lost.after:.4f} after "
            f"({counted(lost.predicted, 'hidden token')})."
        )
    parts += [Heading("Curves"), *_curves(runs, result.metric)]
    if evaluation.classes:
        rows = [[c.label, c.precision, c.recall, c.f1, c.support] for c in evaluation.classes]
        parts += [Heading("Classes"), Table(["class", "precision", "recall", "F1", "examples"], rows)]
        parts.append(bars("F1 by class", "F1", {"F1": {c.label: c.f1 for c in evaluation.classes}}))
    if evaluation.confusion:
        parts += [Heading("Confusion"), _matrix(evaluation.confusion)]
    if evaluation.calibration:
        parts += [Heading("Calibration"), *_calibration(evaluation.calibration)]
    if evaluation.mistakes:
        sure = result.task != "regress"
        rows = [
            [m.text[:_TEXT], m.truth, m.predicted, *([m.confidence] if sure else [])]
            for m in evaluation.mistakes
        ]
        columns = ["text", "truth", "predicted", *(["confidence"] if sure else [])]
        parts += [
            Heading("Most confident mistakes" if sure else "Farthest predictions"),
            Table(columns, rows),
        ]
    data = f" on {result.data}" if result.data else ""
    write_page(path, f"Fine-tuning: {result.task}{data}, from {made.folder.resolve().name}", parts)


def _scores(result: FinetuneResult) -> Table:
    """Each score, what it is of, and what one answer for all would have."""
    assert result.baseline is not None
    base = result.baseline.scores
    rows: list[list[Cell]] = [
        [name, value, base[name], result.meanings[name]] for name, value in result.scores.items()
    ]
    return Table(["score", "validation", result.baseline.answer, "of what"], rows)


def _curves(runs: Sequence[Run], metric: str) -> list[Part]:
    losses, scores = {}, {}
    for run in runs:
        name = f"seed {run.seed}"
        of = [record for record in run.records if record["split"] == "train"]
        losses[name] = [(float(record["step"]), record["loss"]) for record in of]
        found = [record for record in run.records if record["split"] == "valid"]
        scores[name] = [(float(record["step"]), record["scores"][metric]) for record in found]
    return [lines("Training loss", "loss", losses), lines(f"Validation {metric}", metric, scores)]


def _matrix(confusion: Confusion) -> Table:
    """Rows are the truth, columns what was said; what is right is marked."""
    rows: list[list[Cell]] = [
        [label, *(Marked(f"{count:,}", right=i == j) for j, count in enumerate(counts))]
        for i, (label, counts) in enumerate(zip(confusion.labels, confusion.counts, strict=True))
    ]
    return Table(["truth ↓ said →", *confusion.labels], rows)


def _calibration(found: Calibration) -> list[Part]:
    rows: list[list[Cell]] = [[f"{mean:.2f}", share, count] for mean, share, count in found.bins]
    points = [(mean, share) for mean, share, _ in found.bins]
    return [
        f"Expected calibration error {found.error:.4f}: how far confidence is from the share that is right.",
        lines(
            "Right by confidence", "share right", {"model": points, "ideal": [(0, 0), (1, 1)]}, "confidence"
        ),
        Table(["mean confidence", "share right", "predictions"], rows),
    ]
