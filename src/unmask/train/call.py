"""`unmask.pretrain`: a pretraining in one call, as the command line makes it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.progress import SILENT, Progress
from unmask.sections import Change
from unmask.train.start import Text, settle

if TYPE_CHECKING:
    from unmask.train.pretrain import RunResult


def pretrain(
    recipe: Path | str,
    out: Path | str,
    text: Text = (),
    data: Path | str | None = None,
    base: Path | str | None = None,
    changes: Mapping[str, Any] | Sequence[str | Change] = (),
    resume: bool = False,
    progress: Progress = SILENT,
) -> "RunResult":
    """Train a language model in the folder `out`, as `unmask pretrain` does; the model is in `out/model`.

    `recipe` is a file or the name of one of ours, with `changes` such as `{"train.steps": 20_000}`; None as a
    value restores the default. `text` is files, folders or globs (`pt=PATH` says the language), `data` shards
    in its place; `base` a model to go on from. With `resume` a run that was stopped or killed goes on.
    """
    settings, start = settle(recipe, Path(out), text, data, base, changes, resume)
    from unmask.train.pretrain import pretrain as run

    return run(settings, Path(out), start, resume, progress)
