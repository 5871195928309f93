"""What models with a task's head have in common: texts in windows, windows in packed batches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.model.network import Model
from unmask.model.weights import LoadReport
from unmask.predict.batching import Pack
from unmask.predict.onnx import OnnxModel
from unmask.predict.predictor import NotFiniteError, Predictor
from unmask.predict.sentence import SentenceSettings
from unmask.predict.settings import TaskSettings
from unmask.predict.windows import Window, cut
from unmask.progress import SILENT, Progress
from unmask.tokenizer import Encoding, Tokenizer

Floats = NDArray[np.float32]


class Prepared(NamedTuple):
    """A text, or pair, and the windows in which the model reads it."""

    encoding: Encoding
    windows: list[Window]


class TaskModel(Predictor):
    """A predictor whose network has a task's head."""

    def __init__(
        self,
        model: Model | OnnxModel,
        tokenizer: Tokenizer,
        report: LoadReport | None = None,
        sentence: SentenceSettings | None = None,
        settings: TaskSettings | None = None,
    ) -> None:
        super().__init__(model, tokenizer, report, sentence)
        self.settings = settings or TaskSettings()
        """How long texts are read."""

    @property
    def network(self) -> Model:
        """The network with its heads."""
        assert isinstance(self.model, Model)
        return self.model

    @property
    def length(self) -> int:
        """Tokens of the longest window."""
        return min(self.settings.length or self.inputs.limit, self.inputs.limit)

    def _cut(self, encoding: Encoding) -> Prepared:
        return Prepared(encoding, cut(encoding, self.length, self.settings.stride))

    def _scores(
        self,
        texts: Sequence[Sequence[Window]],
        compute: Callable[[Pack, list[tuple[int, int]]], Sequence[Tensor]],
        progress: Progress = SILENT,
    ) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Number of the text, of its window, and what `compute` says of it, batch after batch."""
        flat = [(text, number) for text, each in enumerate(texts) for number in range(len(each))]
        windows = [texts[text][number] for text, number in flat]
        lengths = list(map(len, windows))

        @torch.inference_mode()
        def work(numbers: list[int]) -> list[NDArray[Any]]:
            chosen = [windows[number] for number in numbers]
            packed = self._pack([w.ids for w in chosen], [w.segments for w in chosen])
            return [rows.float().cpu().numpy() for rows in compute(packed, [flat[n] for n in numbers])]

        batches = self._plan(lengths)
        with progress.stage("texts", sum(lengths), "tokens") as stage:
            for numbers, found in zip(batches, self._share(work, batches), strict=True):
                for number, rows in zip(numbers, found, strict=True):
                    if not np.isfinite(rows).all():
                        raise NotFiniteError(self.folder)
                    yield *flat[number], rows
                stage.advance(sum(lengths[number] for number in numbers))
