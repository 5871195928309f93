"""The records of a run as TensorBoard events: numbers as curves, filled sentences as text."""

import importlib.util
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unmask.errors import UserError

_PLACE = {"step", "split", "fills"}  # where a record stands, not what it measured


def check_tensorboard() -> None:
    """Say at once that a package is missing, not after the shards are made."""
    if importlib.util.find_spec("tensorboard") is None:
        raise UserError("--tensorboard needs the package tensorboard: pip install 'unmask[tensorboard]'")


class Board:
    """An event folder; records of steps after `step` that are in it already no longer count."""

    def __init__(self, folder: Path, step: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder), purge_step=step + 1 if step else None)

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Write a record."""
        step, split = record["step"], record["split"]
        if split == "cloze":
            self._writer.add_text("cloze", _sentences(record["fills"]), step)
        for name, value in _numbers({key: value for key, value in record.items() if key not in _PLACE}):
            self._writer.add_scalar(f"{split}/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


def _numbers(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and math.isfinite(value):
            yield prefix + key, float(value)


def _sentences(fills: list[dict[str, Any]]) -> str:
    """A list in Markdown."""
    return "\n".join(
        f"- {fill['text']} → **{fill['word']}** {fill['probability']:.1%}" + (" ✓" if fill["right"] else "")
        for fill in fills
    )
