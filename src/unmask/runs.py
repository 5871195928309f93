"""`metrics.jsonl`: what a run measured, one JSON object per line, only ever appended to.

docs/pretraining.md says what every key means. A run that goes on from a checkpoint drops the lines of steps
after it first.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from unmask.errors import InputError
from unmask.files import disk_errors, write_atomic

METRICS = "metrics.jsonl"
RECIPE = "recipe.toml"
"""The settings of a run, as run."""

Record = Mapping[str, Any]


class Metrics:
    """The metrics file of a run that is training; `also` is told of every record too."""

    def __init__(self, run: Path, step: int = 0, also: Callable[[Record], None] | None = None) -> None:
        self._path, self._also = run / METRICS, also
        kept = [record for record in read_metrics(run) if record["step"] <= step]
        write_atomic(self._path, "".join(map(_line, kept)))

    def write(self, record: Record) -> None:
        """Append a record."""
        with disk_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_line(record))
        if self._also:
            self._also(record)


def read_metrics(run: Path) -> Iterator[dict[str, Any]]:
    """The records of a run; a last line that a killed run left unfinished is passed over."""
    path = run / METRICS
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield _record(line, path, number)


def _record(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
        if isinstance(record["step"], int) and isinstance(record["split"], str):
            return dict(record)
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(f"{path}, line {number} is damaged: delete the line")


def _line(record: Record) -> str:
    return json.dumps(_plain(record), ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """JSON knows no infinity and no NaN: they become null."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
