"""What is not finite is told and never kept: of a training that diverged, or of a model that begins so."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from unmask.errors import ModelError, UserError
from unmask.model.network import Model
from unmask.predict.predictor import NotFiniteError
from unmask.train.loop import Trainer

_SKIPS = 5  # steps in a row that may fail


class DivergedError(UserError):
    """A training came to what is not finite; what was kept before is as good as it was."""


def check_begin(model: Model, folder: Path) -> Model:
    """The model to begin with, whose weights are numbers: no rate would mend others."""
    if not _finite(model):
        raise ModelError(f"{folder}: its weights are not finite (NaN): begin with another model")
    return model


def check_steps(trainer: Trainer, option: str = "--lr") -> None:
    """An error after too many steps in a row whose loss was not finite."""
    if trainer.counters.skipped >= _SKIPS:
        raise _diverged(trainer, f"the loss was not finite {_SKIPS} times in a row", option)


@contextmanager
def judged(trainer: Trainer, option: str = "--lr") -> Iterator[None]:
    """Score a model in training: an error if its weights or its scores are not finite."""
    if not _finite(trainer.model):
        raise _diverged(trainer, "the weights are not finite", option)
    try:
        yield
    except NotFiniteError:
        raise _diverged(trainer, "the model's scores are not finite", option) from None


def _finite(model: Model) -> bool:
    return bool(torch.stack([weight.isfinite().all() for weight in model.parameters()]).all())


def _diverged(trainer: Trainer, what: str, option: str) -> DivergedError:
    rate = trainer.schedule.recipe.train.lr
    return DivergedError(
        f"training has diverged: {what} at step {trainer.counters.step}; lower lr ({option}, now {rate:g})"
    )
