"""What a suite measured: items, the measures over them, and both on disk.

`NAME.json` holds a suite's scores, `NAME.items.jsonl` the outcome of every item, by which two models are
compared later; `results.json` all suites of the folder.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unmask.errors import InputError, OutputError
from unmask.evaluation.statistics import METRICS, Difference, Estimate, Floats, Ints, compare, estimate, ratio
from unmask.files import write_atomic, write_json
from unmask.predict.folders import model_name
from unmask.target import CONFIG, check_place

RESULTS = "results.json"
ITEMS = ".items.jsonl"
UNKNOWN_SHARE = "share of unknown tokens"
"""The detail by which scores on text are qualified."""
UNWRITTEN = "answers that the vocabulary cannot write"
"""The detail by which scores on facts are."""
SAMPLE = "sample"
"""The detail that says of how many items at most a sample was scored; none: all."""
HEAD = "head"
"""The detail that says which head was scored."""
_ALIKE = "run it again for both, on the same data, with the same seed and sample"
Item = Mapping[str, Any]
Differences = dict[str, dict[str, Difference]]
"""Suite -> measure -> how two models differ."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A score: a metric over some columns of the items."""

    name: str
    metric: str
    columns: tuple[str, ...]
    macro: str | None = None
    """The mean over the values of this column of the mean within each; only for the metric `mean`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a kind of suite hands back; the first measure is the one that stands for the suite."""

    items: Sequence[Item]
    """Each with an `id`."""
    measures: tuple[Measure, ...]
    groups: tuple[str, ...] = ()
    """Columns by which the scores are shown apart."""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """A suite's scores, without its items."""

    suite: str
    kind: str
    about: str
    source: str
    licence: str
    fingerprint: str
    """Of the model, the suite and its data: the same means that it need not be computed again."""
    data: str
    """Of the suite, its data and the seed: models are compared only where it is the same."""
    seconds: float
    measures: tuple[Measure, ...]
    scores: dict[str, Estimate]
    groups: dict[str, dict[str, dict[str, Estimate]]]
    """Column -> value -> measure -> score."""
    details: dict[str, Any]

    @property
    def main(self) -> Estimate:
        """The score that stands for the suite."""
        return self.scores[self.measures[0].name]


def summarise(outcome: Outcome, seed: int = 0) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """The scores of all items, and of each group."""
    scores = {measure.name: _score(measure, outcome.items, seed) for measure in outcome.measures}
    groups: dict[str, Any] = {}
    for column in outcome.groups:
        members: dict[str, list[Item]] = {}
        for item in outcome.items:
            members.setdefault(str(item[column]), []).append(item)
        groups[column] = {
            value: {measure.name: _score(measure, items, seed) for measure in outcome.measures}
            for value, items in sorted(members.items())
        }
    return scores, groups


def save(folder: Path, result: Result, items: Sequence[Item]) -> Result:
    """Write a suite's items, then its scores: where those are, the items are whole."""
    lines = "".join(json.dumps(_plain(item), ensure_ascii=False) + "\n" for item in items)
    write_atomic(folder / f"{result.suite}{ITEMS}", lines)
    write_json(folder / f"{result.suite}.json", _plain(asdict(result)))
    written = read(folder, result.suite)
    assert written is not None
    return written


def read(folder: Path, suite: str) -> Result | None:
    """A suite's scores, if they are there."""
    path = folder / f"{suite}.json"
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text("utf-8"))
        values["measures"] = tuple(
            Measure(**measure | {"columns": tuple(measure["columns"])}) for measure in values["measures"]
        )
        values["scores"] = _estimates(values["scores"])
        values["groups"] = {
            column: {value: _estimates(scores) for value, scores in members.items()}
            for column, members in values["groups"].items()
        }
        return Result(**values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} is damaged: remove it, and the suite is run again") from error


def read_items(folder: Path, suite: str) -> list[dict[str, Any]]:
    """The outcomes of a suite's items."""
    path = folder / f"{suite}{ITEMS}"
    try:
        return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    except FileNotFoundError:
        raise InputError(f"{path} is missing: run the suite again") from None
    except ValueError as error:
        raise InputError(f"{path} is damaged: remove {suite}.json too, and the suite is run again") from error


def check_folder(out: Path) -> None:
    """Refuse a folder of something else: its page would be written over, and it is not to hold our files."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file: name a folder for the results")
    check_place(out)
    held = {path.name for path in out.glob("[!.]*")}
    if CONFIG in held:
        raise OutputError(f"{out} holds a model: name another folder for the results")
    others = held - {RESULTS}
    if others and not any(name.endswith(ITEMS) for name in others):
        raise OutputError(f"{out} holds {min(others)} and no results: name another folder for them")


def suites_in(folder: Path) -> list[str]:
    """The suites that a folder of results holds."""
    if not folder.is_dir():
        raise InputError(f"there is no folder of results at {folder}")
    found = sorted(path.name.removesuffix(ITEMS) for path in folder.glob(f"*{ITEMS}"))
    if not found:
        raise InputError(f"{folder} holds no results: fill it with unmask evaluate … -o {folder}")
    return [name for name in found if (folder / f"{name}.json").is_file()]


def differences(first: Path, second: Path, suites: Sequence[str] = (), seed: int = 0) -> Differences:
    """How two folders of results differ, on the suites that both hold."""
    both = [name for name in suites_in(first) if name in suites_in(second)]
    names = [name for name in suites if name in both] if suites else both
    if not names:
        raise InputError(f"{first} and {second} have no suite in common: run the same ones for both")
    return {name: _compare_suite(first, second, name, seed) for name in names}


def check_comparable(materials: Mapping[str, str], other: Path) -> None:
    """Refuse what cannot be compared with another folder's results: other data, or another seed."""
    there = suites_in(other)
    if not any(name in there for name in materials):
        raise InputError(f"{other} holds no results of {', '.join(materials)}: run the same suites for both")
    for name, material in materials.items():
        if name in there and (result := read(other, name)) and result.data != material:
            raise InputError(
                f"{name} was measured on other items, or with another seed, for {other}: {_ALIKE}"
            )


def names_apart(first: Path, second: Path) -> tuple[str, str]:
    """What to call two folders of results: by their models, else by what tells the folders apart."""
    for one, other in (
        (_model(first), _model(second)),
        (first.resolve().name, second.resolve().name),
        (str(first), str(second)),
    ):
        if one and other and one != other:
            return one, other
    return "first", "second"


def _model(folder: Path) -> str:
    """The name of the model that was scored; "" where a folder does not say it."""
    try:
        return model_name(Path(json.loads((folder / RESULTS).read_text("utf-8"))["model"]))
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _compare_suite(first: Path, second: Path, suite: str, seed: int) -> dict[str, Difference]:
    one, other = read(first, suite), read(second, suite)
    assert one is not None
    assert other is not None
    ones = {str(item["id"]): item for item in read_items(first, suite)}
    others = {str(item["id"]): item for item in read_items(second, suite)}
    if one.data != other.data or ones.keys() != others.keys():
        raise InputError(
            f"{suite}: {first} and {second} were not measured on the same items, or not with "
            f"the same seed ({len(ones)} and {len(others)} items): {_ALIKE}"
        )
    found = {}
    for measure in one.measures:
        if measure not in other.measures:  # a causal model hides no tokens
            continue
        metric, columns, strata = _arrays(measure, [*ones.values(), *(others[name] for name in ones)])
        half = len(ones)
        found[measure.name] = compare(
            metric, [c[:half] for c in columns], [c[half:] for c in columns],
            None if strata is None else strata[:half], seed,
        )  # fmt: skip
    return found


def _score(measure: Measure, items: Sequence[Item], seed: int) -> Estimate:
    return estimate(*_arrays(measure, items), seed)


def _arrays(measure: Measure, items: Sequence[Item]) -> tuple[Any, list[Floats], Ints | None]:
    """The metric, its columns as numbers, and the strata that resampling keeps to."""
    columns = _numbers([[item[column] for item in items] for column in measure.columns])
    if measure.macro is None:
        return METRICS[measure.metric], columns, None
    strata = np.unique([str(item[measure.macro]) for item in items], return_inverse=True)[1]
    weights = 1 / np.bincount(strata)[strata]
    return ratio, [columns[0] * weights, weights], strata.astype(np.int64)


def _numbers(columns: Sequence[Sequence[Any]]) -> list[Floats]:
    """Numbers as they are; names of classes as their place in the sorted list of all."""
    if not any(isinstance(value, str) for column in columns for value in column):
        return [np.array(column, np.float64) for column in columns]
    places = {name: place for place, name in enumerate(sorted({str(v) for c in columns for v in c}))}
    return [np.array([places[str(value)] for value in column], np.float64) for column in columns]


def _estimates(values: Mapping[str, Any]) -> dict[str, Estimate]:
    found = {}
    for name, numbers in values.items():
        value, low, high = (math.nan if numbers[k] is None else numbers[k] for k in ("value", "low", "high"))
        found[name] = Estimate(value, low, high, numbers["items"])
    return found


def _plain(value: Any) -> Any:
    """Numbers of few digits; JSON knows no infinity and no NaN, which become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value
