"""Classes of texts, or of pairs of texts, and numbers.

S sequences · C classes
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.batching import Pack
from unmask.predict.results import Label
from unmask.predict.tasks import Floats, TaskModel
from unmask.predict.windows import Window, cut, trim
from unmask.progress import SILENT, Progress
from unmask.tokenizer import Encoding


class Classifier(TaskModel):
    """Classes of texts, or of pairs of texts."""

    cut_texts = 0
    """How many texts, or pairs, were too long to be read whole so far."""
    cut_pairs = False
    """Whether pairs were among them: windows do not read a long first text whole either."""

    def __call__(
        self, texts: str | Sequence[str], pairs: str | Sequence[str] | None = None
    ) -> list[Label] | list[list[Label]]:
        """The classes of one text (or pair), or of each of many."""
        if isinstance(texts, str):
            if pairs is not None and not isinstance(pairs, str):
                raise InputError("one text is paired with one text: give two lists, or two texts")
            return self.classify([texts], None if pairs is None else [pairs])[0]
        if isinstance(pairs, str):
            raise InputError("a list of texts is paired with a list")
        return self.classify(texts, pairs)

    def classify(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[list[Label]]:
        """For each text the classes with their probabilities, likeliest first; in regression one number."""
        if isinstance(texts, str):
            raise InputError("classify takes a list of texts")
        probabilities = self.probabilities(self.scores(self.prepare(texts, pairs)))
        return [
            sorted(map(Label, self.config.labels, row), key=lambda label: -label.score)
            for row in probabilities.tolist()
        ]

    def prepare(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[list[Window]]:
        """Each text, or pair, as the windows that `scores` takes; mostly one."""
        self._check_pairs(texts, pairs)
        found = self.tokenizer.ids_batch(texts, pairs)
        windows = [[Window(ids, segments, np.arange(len(ids)))] for ids, segments in found]
        for number, (ids, _) in enumerate(found):
            if len(ids) > self.length:  # only now is it worth knowing where words and texts are
                pair = None if pairs is None else pairs[number]
                windows[number] = self._shortened(self.tokenizer.encode(texts[number], pair))
        return windows

    def scores(self, prepared: Sequence[Sequence[Window]], progress: Progress = SILENT) -> Floats:
        """Scores (N, C) before softmax; the mean over a text's windows."""
        out = np.zeros((len(prepared), len(self.config.labels)), np.float32)
        for text, _, row in self._scores(prepared, self._classes, progress):
            out[text] += row / len(prepared[text])
        return out

    def probabilities(self, scores: Floats) -> Floats:
        """Probabilities from scores; in regression the scores themselves."""
        if self.config.problem == "regression":
            return scores
        rows = torch.from_numpy(scores)
        found = rows.softmax(-1) if self.config.problem == "single" else rows.sigmoid()
        return found.numpy()

    def _classes(self, packed: Pack, which: list[tuple[int, int]]) -> list[Tensor]:
        return list(class_scores(self.network, packed))

    def _check_pairs(self, texts: Sequence[str], pairs: Sequence[str] | None) -> None:
        """An error for single texts where pairs were learned from, or the other way round."""
        wanted = self.settings.wants_pairs
        if not len(texts) or wanted in (None, pairs is not None):
            return
        if wanted:
            raise InputError("this model judges pairs of texts: give each text its second one")
        raise InputError("this model judges single texts: leave the second ones out")

    def _shortened(self, encoding: Encoding) -> list[Window]:
        long = self.settings.long
        if long is None:
            raise InputError(
                f"a text has {len(encoding)} tokens, but the model takes at most {self.length}: shorten it"
            )
        if long == "mean":
            windows = cut(encoding, self.length, self.settings.stride)
        else:
            windows = [trim(encoding, self.length, end=long == "tail")]
        read = np.unique(np.concatenate([window.places for window in windows]))
        if len(read) < len(encoding):
            self.cut_texts += 1
            self.cut_pairs |= bool(encoding.segments.any())
        return windows


def class_scores(model: Model, packed: Pack) -> Tensor:
    """Scores (S, C) of packed sequences; the last block computes no more than the head reads."""
    inputs = (packed.ids, packed.positions, packed.cu_seqlens, packed.max_seqlen, packed.segments)
    config = model.config
    pooling = "first" if config.classifier == "pooler" else config.pooling
    if pooling == "mean":
        return model.classify(model.encoder(*inputs), packed.cu_seqlens)
    rows = packed.cu_seqlens[:-1] if pooling == "first" else packed.cu_seqlens[1:] - 1
    one_each = torch.arange(len(rows) + 1, device=rows.device)
    return model.classify(model.encoder(*inputs, rows=rows.long()), one_each)
