"""How a fine-tuned folder reads long texts; kept under `unmask.task` in its config.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from unmask.errors import ModelError

Long = Literal["head", "tail", "mean"]
STRIDE = 64


@dataclass(frozen=True)
class TaskSettings:
    """What a task model does with its input."""

    length: int | None = None
    """Tokens of the longest window; by default as many as the model takes."""
    stride: int = STRIDE
    """Tokens that neighbouring windows share."""
    long: Long | None = None
    """Of a text too long to classify: its beginning, its end, or all of it in windows. None: an error."""
    name: str = ""
    """The task: classify, pair, regress, tag or qa."""
    unanswerable: bool = False
    """Some questions of the training data had no answer, so that "" may be one."""
    data: str = ""
    """The mark of the examples it was fine-tuned on; "": not known."""
    pairs: bool | None = None
    """Whether the texts it was fine-tuned on were pairs; None: not known."""
    text_template: str | None = None
    """The columns its texts were made of, like `{title}: {body}`; None: they were texts as they stand."""
    pair_template: str | None = None
    """The same of the second texts."""

    @property
    def wants_pairs(self) -> bool | None:
        """Whether it judges pairs of texts, or single ones; None where its folder does not say."""
        return True if self.name == "pair" else self.pairs


def read_task_settings(values: Mapping[str, Any]) -> TaskSettings:
    """The settings in the contents of a `config.json`."""
    own = values.get("unmask")
    task = own.get("task") if isinstance(own, Mapping) else None
    if not isinstance(task, Mapping):
        return TaskSettings()
    length, stride, long = task.get("length"), task.get("stride", STRIDE), task.get("long")
    right = (
        (length is None or (isinstance(length, int) and length > 3))
        and (isinstance(stride, int) and stride >= 0)
        and (long is None or long in get_args(Long))
    )
    if not right:
        raise ModelError(
            f"config.json: unmask.task holds a value that is not what it should be: {dict(task)}"
        )
    name, data = str(task.get("name", "")), str(task.get("data", ""))
    pairs = task.get("pairs")
    pairs = pairs if isinstance(pairs, bool) else None
    text, pair = (
        made if isinstance(made := task.get(key), str) else None for key in ("text_template", "pair_template")
    )
    return TaskSettings(length, stride, long, name, task.get("unanswerable") is True, data, pairs, text, pair)
