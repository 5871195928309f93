"""What the user names for a pretraining; a slip of the pen is told before torch is loaded."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.config import Recipe, check_changes, load_recipe
from unmask.errors import ConfigError
from unmask.predict.folders import find_folder
from unmask.runs import RECIPE
from unmask.sections import Change
from unmask.target import check_place
from unmask.text import Source, find_sources

Text = Path | str | Source | Sequence[Path | str | Source]


@dataclass(frozen=True, slots=True)
class Start:
    """What the user named: prepared shards or raw text, and a model to go on from, if any."""

    sources: Sequence[Source] = ()
    data: Path | None = None
    base: Path | None = None


def settle(
    recipe: Path | str,
    run: Path,
    text: Text = (),
    data: Path | str | None = None,
    base: Path | str | None = None,
    changes: Mapping[str, Any] | Sequence[str | Change] = (),
    resume: bool = False,
) -> tuple[Recipe, Start]:
    """The settings of a run and what it starts from; a slip of the pen is an error."""
    if isinstance(changes, Mapping):
        changes = [_change(key, value) for key, value in changes.items()]
    elif isinstance(changes, str):
        changes = [changes]
    settings = load_recipe(recipe, changes)
    if not (resume and (run / RECIPE).is_file()):  # an earlier version may have begun it with such a change
        _check_read(changes, data is not None, base is not None, bool(settings.objective.teachers))
        check_changes(settings, changes)
    for teacher in settings.objective.teachers:
        find_folder(teacher)
    check_place(run)
    sources = _sources([text] if isinstance(text, str | Path | Source) else text, run)
    if sources and settings.train.patience and not settings.prepare.valid:
        raise ConfigError(
            "train.patience waits for validations, and prepare.valid = 0 leaves no text for them"
        )
    return settings, Start(sources, Path(data) if data else None, find_folder(base) if base else None)


def _change(key: str, value: Any) -> Change:
    if isinstance(value, Mapping):
        raise ConfigError(f"changes: write the keys of {key} with a dot, as {{'train.steps': 20_000}}")
    return Change("--set", key, str(value) if isinstance(value, Path) else value)


def _sources(given: Sequence[Path | str | Source], run: Path) -> list[Source]:
    """Sources as they are; the others in one go, so that a file that is meant twice is seen."""
    sources = [each for each in given if isinstance(each, Source)]
    named = [str(each) for each in given if not isinstance(each, Source)]
    return [*sources, *(find_sources(named, run) if named else [])]


def _check_read(changes: Sequence[str | Change], data: bool, base: bool, taught: bool) -> None:
    """Refuse changes of what is there already; what the recipe itself says of it may stand."""
    there: dict[str, str] = {}
    if taught:
        there["tokenizer"] = "the vocabulary is the teacher's"
    if base:
        there |= {"tokenizer": "the vocabulary is that of --from", "model": "the model is that of --from"}
    if data:
        there |= dict.fromkeys(("text", "tokenizer", "prepare"), "the shards of --data are made already")
    for change in changes:
        said = f"--set {change}" if isinstance(change, str) else str(change)
        section = re.split(r"[.=]", change if isinstance(change, str) else change.key)[0].strip()
        if section in there:
            raise ConfigError(f"{said} would change nothing, since {there[section]}: leave it out")
