"""What a model folder holds, in facts."""

import re
from pathlib import Path
from typing import Any

from unmask.checkpoint import ONNX_FILE, WEIGHTS, load_model, own_facts, read_values, stored_types
from unmask.config import ModelConfig
from unmask.model.network import Model
from unmask.model.published import read_config
from unmask.predict.folders import find_folder

_TASKS = {"classify": "classify texts", "tag": "tag words", "answer": "answer questions"}
_VECTORS = "make vectors"


def describe(name: str | Path) -> dict[str, Any]:
    """Family, sizes, parameters by part, vocabulary, positions, licence, weights, heads, what it can do."""
    folder = find_folder(name)
    if (folder / ONNX_FILE).exists() and not (folder / WEIGHTS).exists():
        form = "ONNX: vectors only; the folder it was made from does the rest"
        settings = _settings(folder, read_config(read_values(folder)))
        return {"folder": str(folder), "form": form} | settings | {"bytes": _bytes(folder), "can": [_VECTORS]}
    model, report = load_model(folder)
    config = model.config
    blocks = sum(p.numel() for p in model.encoder.blocks.parameters())
    embeddings = sum(p.numel() for p in model.encoder.embeddings.parameters())
    heads = sum(p.numel() for p in model.heads.parameters())
    total = sum(p.numel() for p in model.parameters())
    facts: dict[str, Any] = {"folder": str(folder)} | _settings(folder, config)
    facts["parameters"] = {"total": total, "embeddings": embeddings, "blocks": blocks, "heads": heads}
    facts["weights"] = ", ".join(stored_types(folder))
    facts["bytes"] = _bytes(folder)
    facts["heads"] = list(model.heads)
    facts["can"] = _abilities(model, own_facts(read_values(folder)).get("hybrid") is True)
    if config.labels:
        facts["labels"] = list(config.labels)
    if report:
        facts["did not fit"] = {
            "missing": len(report.missing), "unused": len(report.unused), "new": len(report.new)
        }  # fmt: skip
    return facts


def _settings(folder: Path, config: ModelConfig) -> dict[str, Any]:
    sizes = {"layers": config.layers, "width": config.width, "heads": config.heads, "inner": config.inner}
    return {
        "family": config.family,
        "sizes": sizes,
        "vocabulary": config.vocab_size,
        "positions": config.positions,
        "licence": licence(folder) or "not stated",
    }


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _abilities(model: Model, hybrid: bool) -> list[str]:
    """What the model that `load` gives can do."""
    if model.task:
        return ["rate texts" if model.config.problem == "regression" else _TASKS[model.task], _VECTORS]
    pairs = ["say whether texts follow each other"] if model.pair_head else []
    if "mlm" not in model.heads:
        return [*pairs, _VECTORS]
    fills = [] if model.config.causal else ["fill masks"]
    generates = ["generate"] if model.config.causal or hybrid else []
    return [*fills, *generates, "score texts", *pairs, _VECTORS]


def licence(folder: Path) -> str | None:
    """The licence that the front matter of a folder's card names."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    front = re.match(r"\ufeff?---\s*\n(.*?)\n---\s*(\n|$)", card.read_text("utf-8", "replace"), re.DOTALL)
    found = re.search(r"^license:[ \t]*(\S.*)$", front[1], re.MULTILINE) if front else None
    return found[1].strip().strip("'\"") if found else None
