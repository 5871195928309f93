"""What a model folder holds, in facts."""

import re
from pathlib import Path
from typing import Any

from unmask.checkpoint import load_model
from unmask.predict.loading import find_folder


def describe(name: str | Path) -> dict[str, Any]:
    """Family, sizes, parameters by part, vocabulary, positions, licence, heads."""
    folder = find_folder(name)
    model, report = load_model(folder)
    config = model.config
    blocks = sum(p.numel() for p in model.encoder.blocks.parameters())
    embeddings = sum(p.numel() for p in model.encoder.embeddings.parameters())
    heads = sum(p.numel() for p in model.heads.parameters())
    total = sum(p.numel() for p in model.parameters())
    facts: dict[str, Any] = {
        "folder": str(folder),
        "family": config.family,
        "sizes": {
            "layers": config.layers,
            "width": config.width,
            "heads": config.heads,
            "inner": config.inner,
        },
        "parameters": {"total": total, "embeddings": embeddings, "blocks": blocks, "heads": heads},
        "vocabulary": config.vocab_size,
        "positions": config.positions,
        "heads": list(model.heads),
        "licence": licence(folder) or "not stated",
    }
    if config.labels:
        facts["labels"] = list(config.labels)
    if report:
        facts["did not fit"] = {
            "missing": len(report.missing), "unused": len(report.unused), "new": len(report.new)
        }  # fmt: skip
    return facts


def licence(folder: Path) -> str | None:
    """The licence that the front matter of a folder's card names."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    front = re.match(r"\ufeff?---\s*\n(.*?)\n---\s*(\n|$)", card.read_text("utf-8", "replace"), re.DOTALL)
    found = re.search(r"^license:[ \t]*(\S.*)$", front[1], re.MULTILINE) if front else None
    return found[1].strip().strip("'\"") if found else None
