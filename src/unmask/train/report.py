"""`report.html` of a run, made from `metrics.jsonl`, `recipe.toml` and `plan.json` alone."""

import json
import math
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unmask.charts import Chart, Points, bars, lines
from unmask.errors import InputError
from unmask.progress import duration
from unmask.report import Cell, Folded, Heading, Marked, Part, Table, write_page
from unmask.runs import METRICS, RECIPE, read_metrics
from unmask.target import CONFIG

REPORT = "report.html"

Records = Sequence[dict[str, Any]]

_POINTS = 100  # of a training curve: each the mean of so large a part of the run
_COLUMNS = 6  # steps at which the filled sentences are shown
_LANGUAGES = 6  # more of them are a table
_PARTS = {
    "mlm": "hidden tokens",
    "next": "next tokens",
    "sbo": "span boundary",
    "taught": "what teachers expect",
    "nsp": "next sentence",
    "sop": "sentence order",
}
_KINDS = {"masked": "replaced by the mask", "random": "replaced by another token", "kept": "left as it is"}
_NATS = "nats per prediction"
_RIGHT = "share predicted right"


def write_report(run: Path) -> Path:
    """Write the report of a run into its folder."""
    path = run / REPORT
    write_page(path, f"Pretraining: {run.resolve().name}", run_parts(run))
    return path


def run_parts(run: Path) -> list[Part]:
    """What there is to see of a run, finished or not."""
    if not (run / METRICS).is_file():
        raise InputError(f"{run} is not a run: it holds no {METRICS}; name the folder given to pretrain -o")
    if (run / CONFIG).is_file():  # fine-tuning measures other things, and wrote its own page
        raise InputError(f"{run} is a model and not a run: name the folder given to pretrain -o")
    records = list(read_metrics(run))
    of = {split: [r for r in records if r["split"] == split] for split in ("train", "valid", "cloze")}
    if not of["train"]:
        return ["Nothing is measured yet."]
    recipe = (run / RECIPE).read_text("utf-8") if (run / RECIPE).is_file() else ""
    return [
        _summary(run, of["train"], of["valid"], recipe),
        *_skipped(of["train"]),
        Heading("Learning"),
        *_learning(of["train"], of["valid"]),
        *_languages(of["valid"]),
        *_frequency(of["valid"]),
        *_clozes(of["cloze"], causal=bool(of["valid"]) and _main(of["valid"][-1]) == "next"),
        Heading("Pace"),
        *_pace(of["train"]),
        *([Folded("The recipe as run", recipe)] if recipe else []),
    ]


def _summary(run: Path, train: Records, valid: Records, recipe: str) -> Table:
    last = train[-1]
    plan = json.loads((run / "plan.json").read_text("utf-8")) if (run / "plan.json").is_file() else {}
    of = f" of {plan['steps']:,}" if plan else ""
    rows = [("steps", f"{last['step']:,}{of}"), ("tokens", f"{last['tokens']:,}, epoch {last['epoch'] + 1}")]
    rows.append(("time in steps", duration(last["seconds"])))
    if plan:
        rows.append(("parameters", f"{plan['parameters']:,}"))
    if teachers := tomllib.loads(recipe).get("objective", {}).get("teachers"):
        rows.append(("taught by", ", ".join(teachers)))
    if valid:
        rows += _scores(valid)
    return Table(("", ""), rows)


def _scores(valid: Records) -> list[tuple[str, str]]:
    last = valid[-1]
    found = []
    if last["loss"] is not None:
        best = min((record for record in valid if record["loss"] is not None), key=lambda r: r["loss"])
        perplexity = f"perplexity {math.exp(min(last['loss'], 700)):,.1f}"
        found.append(("validation loss", f"{last['loss']:.4f} ({perplexity})"))
        found.append(("lowest", f"{best['loss']:.4f} after step {best['step']:,}"))
    main = _main(last)
    if main in last["accuracy"]:
        share = f"{last['accuracy'][main]:.1%} of the {_PARTS[main]}"
        found.append(
            ("predicted right", f"{share}; the commonest token alone would be in {last['guess']:.1%}")
        )
    return found


def _skipped(train: Records) -> Iterable[Part]:
    steps = [record["step"] for record in train if record["skipped"]]
    if steps:
        named = ", ".join(f"{step:,}" for step in steps[:20]) + (" …" if len(steps) > 20 else "")
        yield f"Skipped, as the loss was not finite: {len(steps):,} of the steps ({named})."


def _learning(train: Records, valid: Records) -> Iterable[Chart]:
    for part, shown in _PARTS.items():
        losses = {
            "training": smoothed(_points(train, "parts", part)),
            "validation": _points(valid, "parts", part),
        }
        if not any(losses.values()):
            continue
        yield lines(f"Loss, {shown}", _NATS, losses)
        right = {
            "training": smoothed(_points(train, "accuracy", part)),
            "validation": _points(valid, "accuracy", part),
            "commonest token": _points(valid, "guess") if valid and part == _main(valid[-1]) else [],
        }
        yield lines(f"Accuracy, {shown}", _RIGHT, right, percent=True)
    kinds = {shown: _points(valid, "accuracy", kind) for kind, shown in _KINDS.items()}
    if any(kinds.values()):
        yield lines("Accuracy by kind of hiding", f"{_RIGHT}, validation", kinds, percent=True)


def _languages(valid: Records) -> Iterable[Part]:
    if not valid or len(valid[-1]["languages"]) < 2:
        return
    names = list(valid[-1]["languages"])
    if len(names) > _LANGUAGES:
        rows = [
            (name or "none", score["loss"], f"{score['accuracy']:.1%}")
            for name, score in valid[-1]["languages"].items()
        ]
        yield Heading("Languages, last validation")
        yield Table(("language", "loss", "right"), rows)
        return
    for title, unit, key in (
        ("Loss by language", _NATS, "loss"),
        ("Accuracy by language", _RIGHT, "accuracy"),
    ):
        series = {name or "none": _points(valid, "languages", name, key) for name in names}
        yield lines(title, f"{unit}, validation", series, percent=key == "accuracy")


def _frequency(valid: Records) -> Iterable[Chart]:
    shown = [record for record in _spread(valid, 3) if record["frequency"]]
    if shown:
        yield bars(
            "Accuracy by frequency",
            "share predicted right, by rank in the training text",
            {
                f"step {record['step']:,}": {
                    "–".join(f"{int(rank):,}" for rank in band.split("-")): score["accuracy"]
                    for band, score in record["frequency"].items()
                }
                for record in shown
            },
            percent=True,
        )


def _clozes(records: Records, causal: bool) -> Iterable[Part]:
    columns = _spread([record for record in records if record["fills"]], _COLUMNS)
    if not columns:
        return
    yield Heading("The same sentences as training went on")
    yield "The likeliest token for the hole, and its probability; right ones are marked." + (
        " The model is causal: it sees only what stands before the hole." if causal else ""
    )
    filled = [{fill["text"]: fill for fill in record["fills"]} for record in columns]
    rows = [
        [text, fill["answer"] or "", *(_filled(column.get(text)) for column in filled)]
        for text, fill in filled[-1].items()
    ]
    yield Table(("sentence", "answer", *(f"step {record['step']:,}" for record in columns)), rows)


def _filled(fill: dict[str, Any] | None) -> Cell:
    if fill is None:
        return ""
    known = fill["answer_probability"]
    note = "" if known is None else f"{fill['answer']}: {known:.1%}"
    return Marked(fill["word"], fill["right"], note, f"{fill['probability']:.0%}")


def _pace(train: Records) -> Iterable[Chart]:
    for title, unit, key, percent in (
        ("Learning rate", "of AdamW", "lr", False),
        ("Norm of the gradient", "before clipping", "grad_norm", False),
        ("Speed", "tokens per second", "tokens_per_s", False),
        ("Share of the matmul peak", "operations the result needs, of what the machine can do", "mfu", True),
        ("Fill rate", "share of the sequences' room that holds tokens", "fill", True),
    ):
        points = smoothed(_points(train, key))
        if points:
            yield lines(title, unit, {title: points}, percent=percent, from_zero=True)


def _main(valid: dict[str, Any]) -> str:
    """The objective that the validation loss is of."""
    return next((part for part in ("mlm", "next") if part in valid["parts"]), "sbo")


def _points(records: Records, *path: str) -> list[tuple[float, float]]:
    """Step and value, wherever there is one."""
    found = []
    for record in records:
        value: Any = record
        for key in path:
            value = value.get(key) if value else None
        if value is not None:
            found.append((float(record["step"]), float(value)))
    return found


def smoothed(points: Points) -> list[tuple[float, float]]:
    """Means over a hundred equal parts, each at its last step."""
    if not points:
        return []
    parts = np.array_split(np.array(points), min(_POINTS, len(points)))
    return [(float(part[-1, 0]), float(part[:, 1].mean())) for part in parts]


def _spread(records: Records, count: int) -> Records:
    """So many records at most, evenly spread, the first and the last among them."""
    chosen = np.unique(np.linspace(0, len(records) - 1, min(count, len(records))).round().astype(int))
    return [records[number] for number in chosen]
