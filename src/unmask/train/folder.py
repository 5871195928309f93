"""The folder of a run: whose it is, what it may hold, and with which settings a run goes on."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from unmask.config import Recipe, load_recipe
from unmask.errors import ConfigError, OutputError
from unmask.processes import folder_lock
from unmask.runs import METRICS, RECIPE
from unmask.target import CONFIG, check_target
from unmask.train import parallel
from unmask.train.plan import PLAN
from unmask.train.state import checkpoints

_MARKS = ("checkpoints", METRICS, PLAN, "vocab", "shards")
"""One of these is there as soon as a run has begun."""
_LOCK = ".lock"
_FREE = {f"train.{name}" for name in ("save_every", "keep", "workers", "parallel", "micro_tokens")}
"""Settings that may change when a run goes on."""


def check_folder(run: Path, resume: bool) -> None:
    """An error if this is no place for a run, or holds one that is not to go on."""
    if run.exists() and not run.is_dir():
        raise OutputError(f"{run} is a file: name a folder for the run")
    begun = bool(checkpoints(run / "checkpoints"))
    if begun and not resume:
        raise OutputError(f"{run} holds a run already: add --resume to go on with it, or name another folder")
    if parallel.rank() > 0:
        return
    if (run / CONFIG).is_file():
        raise OutputError(f"{run} holds a model: name a folder of its own for the run")
    others = run.is_dir() and any(path.name[0] != "." and path.name != RECIPE for path in run.iterdir())
    if others and not any((run / name).exists() for name in _MARKS):
        raise OutputError(f"{run} holds other files and no run: name a folder of its own for the run")


@contextmanager
def alone(run: Path) -> Iterator[None]:
    """Have the folder alone; if nothing comes of it, it is as before."""
    made = [path for path in (run, *run.parents) if not path.exists()]
    with folder_lock(run / _LOCK, run):
        try:
            yield
        finally:  # before others can have the lock
            with suppress(OSError):  # it holds something
                if [path.name for path in run.iterdir()] == [_LOCK]:
                    (run / _LOCK).unlink()
                for path in made:
                    path.rmdir()


def begin(run: Path) -> None:
    """What a run needs of its folder, before it is trained for."""
    for name in ("best", "model"):
        check_target(run / name, overwrite=True)
    if not checkpoints(run / "checkpoints"):
        (run / PLAN).unlink(missing_ok=True)  # of a run that was killed before its first checkpoint


def check_begun(run: Path, recipe: Recipe) -> None:
    """Compare with the settings of the run that goes on, before its text is prepared with others."""
    if checkpoints(run / "checkpoints") and (run / RECIPE).is_file():
        old = load_recipe(run / RECIPE)
        check_same_recipe(old.model_dump(mode="json"), recipe.model_copy(update={"model": old.model}))


def check_same_recipe(old: dict[str, Any], new: Recipe) -> None:
    """A run goes on with the settings it began with; one that did not exist then had its default."""
    before = _flat(Recipe().model_dump(mode="json")) | _flat(old)
    now = _flat(new.model_dump(mode="json"))
    changed = [key for key in now if key not in _FREE and now[key] != before[key]]
    if changed:
        told = (f"without {key}" if before[key] is None else f"with {key}={before[key]}" for key in changed)
        raise ConfigError(f"this run began {', '.join(told)}: go on with the same settings")


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
