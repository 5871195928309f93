"""Models whose predictions a new one learns: found, checked against the run, asked.

M targets · V vocabulary
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.checkpoint import load_model, read_values
from unmask.config import Recipe
from unmask.data.batches import Batch
from unmask.errors import ModelError
from unmask.model.network import Model
from unmask.model.published import read_config
from unmask.predict.folders import find_folder
from unmask.tokenizer import Tokenizer


def find_teachers(recipe: Recipe) -> list[Path]:
    """The folders of the models to learn from, if they can read what the run reads."""
    folders = [find_folder(name) for name in recipe.objective.teachers]
    for folder in folders:
        config = read_config(read_values(folder))
        if config.causal:
            raise ModelError(f"{folder} sees only what stands before a token: a teacher fills masks")
        if recipe.longest > config.positions:
            raise ModelError(
                f"the teacher {folder} reads {config.positions} tokens at once, and the run has sequences of "
                f"{recipe.longest}: set batch.length (or the stages)"
            )
        load_teacher(folder)  # now, and not after hours of preparing, it is told that a head is missing
    return folders


def check_vocabulary(folders: Sequence[Path], tokenizer: Tokenizer, whose: object, remedy: str) -> None:
    """A teacher speaks of the entries that the run's text is made of."""
    for folder in folders:
        if Tokenizer.load(folder).fingerprint != tokenizer.fingerprint:
            raise ModelError(f"the teacher {folder} has another vocabulary than {whose}: {remedy}")


def load_teacher(folder: Path) -> Model:
    """A model that predicts hidden tokens."""
    model, report = load_model(folder, heads=["mlm"])
    if any(name.startswith("heads.mlm.") for name in report.new):
        raise ModelError(f"{folder} has no masked-LM head: a teacher fills masks")
    return model


@torch.no_grad()
def asked(teachers: Sequence[Model], batch: Batch) -> list[Tensor]:
    """Each teacher's scores at the targets: (M, V)."""
    found = []
    for teacher in teachers:
        segments = batch.segments if teacher.config.segments > 1 else None
        hidden = teacher.encoder(
            batch.ids,
            batch.positions,
            batch.cu_seqlens,
            batch.max_seqlen,
            segments,
            rows=batch.target_index,
            page=batch.page,
        )
        found.append(teacher.mlm(hidden))
    return found


def mean_distribution(scores: Sequence[Tensor], size: int) -> Tensor:
    """The mean of distributions over the first `size` entries: tables may end with rows for nothing."""
    each = [row[:, :size].float().softmax(-1) for row in scores]
    return torch.stack([F.pad(row, (0, size - row.shape[1])) for row in each]).mean(0)
