"""How a sentence-transformers folder turns token vectors into its published sentence vectors."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unmask.errors import ModelError

Pool = Literal["mean", "cls", "max", "first"]
_OLD_NAMES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}


@dataclass(frozen=True)
class SentenceSettings:
    """What `embed` does unless told otherwise."""

    pool: Pool = "mean"
    normalise: bool = False
    max_length: int | None = None
    """Longer texts are cut off, as published; None: they are an error."""


def read_sentence_settings(folder: Path) -> SentenceSettings:
    """The folder's own settings, or the defaults if it is no sentence-transformers folder."""
    modules = _read(folder / "modules.json")
    if modules is None:
        return SentenceSettings()
    pool: Pool = "mean"
    normalise = False
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            pool = _pooling(folder, str(module.get("path", "")))
        elif kind == "Normalize":
            normalise = True
        elif kind != "Transformer":
            raise ModelError(f"{folder / 'modules.json'} asks for a {kind} layer, which unmask does not have")
    length = (_read(folder / "sentence_bert_config.json") or {}).get("max_seq_length")
    return SentenceSettings(pool, normalise, length if isinstance(length, int) else None)


def _pooling(folder: Path, name: str) -> Pool:
    file = folder / name / "config.json"
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"{folder / 'modules.json'} names a folder outside of its own: {name}")
    values = _read(file) or {}
    asked = [mode for key, mode in _OLD_NAMES.items() if values.get(key)]
    asked += [
        key for key in values if key.startswith("pooling_mode_") and key not in _OLD_NAMES and values[key]
    ]
    mode = values.get("pooling_mode", asked[0] if len(asked) == 1 else asked or "mean")
    if mode not in ("mean", "cls", "max"):
        raise ModelError(f"{file} asks for {mode} pooling; unmask has mean, cls and max")
    return mode  # type: ignore[no-any-return]


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise ModelError(f"{file} is not valid JSON: {error}") from None
