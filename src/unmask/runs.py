"""`metrics.jsonl`: what a run measured, one JSON object per line, only ever appended to.

Every line has `step` (steps done), `epoch`, `tokens` (seen so far), `seconds` (spent training so far),
`split`, `loss`, `parts` (the mean loss of each objective: mlm, next, sbo, nsp, sop) and `accuracy` (of each,
and of hidden tokens by kind: masked, random, kept).
`split: "train"` adds `lr`, `grad_norm`, `tokens_per_s`, `fill` (share of the sequences' room that holds
tokens) and `skipped` (the loss was not finite; then it is null).
`split: "valid"` adds `languages` (loss and accuracy of the main objective in each) and `best` (whether this
loss is the lowest so far).
A run that goes on from a checkpoint drops the lines of steps after it first.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unmask.files import disk_errors, write_atomic

METRICS = "metrics.jsonl"


class Metrics:
    """The metrics file of a run that is training."""

    def __init__(self, run: Path, step: int = 0) -> None:
        self._path = run / METRICS
        kept = [record for record in read_metrics(run) if record["step"] <= step]
        write_atomic(self._path, "".join(map(_line, kept)))

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record."""
        with disk_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_line(record))


def read_metrics(run: Path) -> Iterator[dict[str, Any]]:
    """The records of a run; a last line that a killed run left unfinished is passed over."""
    path = run / METRICS
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(_plain(record), ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """JSON knows no infinity and no NaN: they become null."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
