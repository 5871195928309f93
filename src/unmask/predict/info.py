"""What a model folder holds, in facts."""

import re
from pathlib import Path
from typing import Any

from unmask.checkpoint import WEIGHTS, load_model, read_values
from unmask.config import ModelConfig
from unmask.model.published import read_config
from unmask.predict.folders import find_folder
from unmask.predict.onnx import ONNX_FILE


def describe(name: str | Path) -> dict[str, Any]:
    """Family, sizes, parameters by part, vocabulary, positions, licence, heads."""
    folder = find_folder(name)
    if (folder / ONNX_FILE).exists() and not (folder / WEIGHTS).exists():
        size = (folder / ONNX_FILE).stat().st_size
        form = f"ONNX, {size / 1e6:,.1f} MB: vectors only; the folder it was made from does the rest"
        return {"folder": str(folder), "form": form} | _settings(folder, read_config(read_values(folder)))
    model, report = load_model(folder)
    config = model.config
    blocks = sum(p.numel() for p in model.encoder.blocks.parameters())
    embeddings = sum(p.numel() for p in model.encoder.embeddings.parameters())
    heads = sum(p.numel() for p in model.heads.parameters())
    total = sum(p.numel() for p in model.parameters())
    facts: dict[str, Any] = {"folder": str(folder)} | _settings(folder, config)
    facts["parameters"] = {"total": total, "embeddings": embeddings, "blocks": blocks, "heads": heads}
    facts["heads"] = list(model.heads)
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


def licence(folder: Path) -> str | None:
    """The licence that the front matter of a folder's card names."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    front = re.match(r"\ufeff?---\s*\n(.*?)\n---\s*(\n|$)", card.read_text("utf-8", "replace"), re.DOTALL)
    found = re.search(r"^license:[ \t]*(\S.*)$", front[1], re.MULTILINE) if front else None
    return found[1].strip().strip("'\"") if found else None
