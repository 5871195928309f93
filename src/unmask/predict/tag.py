"""Labels of words, joined into entities.

W words of a text · C classes
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.batching import Pack
from unmask.predict.results import Entity, Label
from unmask.predict.tasks import Floats, Prepared, TaskModel
from unmask.predict.windows import first_pieces, last_pieces, owners
from unmask.progress import SILENT, Progress

Ints = NDArray[np.int64]


class Tagger(TaskModel):
    """Labels of words; long texts are read in windows, each word where it has most context."""

    def __call__(
        self, texts: str | Sequence[str] | Sequence[Sequence[str]]
    ) -> list[Entity] | list[list[Entity]] | list[list[Label]]:
        """The entities of a text, or of each of many; of lists of words the label of each word."""
        if isinstance(texts, str):
            return self.tag(texts)
        plain = [text for text in texts if isinstance(text, str)]
        if len(plain) == len(texts):
            return self.tag_texts(plain)
        if plain:
            raise InputError("give texts, or lists of words, not both")
        return self.tag_words([list(words) for words in texts])

    def tag(self, text: str) -> list[Entity]:
        """Stretches of words with the same label (`B-` and `I-` told apart); `O` is left out."""
        return self.tag_texts([text])[0]

    def tag_texts(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The entities of each text."""
        prepared = [self._cut(encoding) for encoding in self.tokenizer.encode_batch(texts)]
        scored = self.scores(prepared, [int(p.encoding.words.max(initial=-1)) + 1 for p in prepared])
        return [
            entities(text, each, scores, self.config.labels)
            for text, each, scores in zip(texts, prepared, scored, strict=True)
        ]

    def tag_words(self, sentences: Sequence[Sequence[str]]) -> list[list[Label]]:
        """The label of each word of texts that are split into words already."""
        scored = self.scores(self.prepare(sentences), list(map(len, sentences)))
        labels = self.config.labels
        return [
            [Label(labels[best], float(row[best])) for row, best in zip(rows, rows.argmax(1), strict=True)]
            for rows in scored
        ]

    def prepare(self, sentences: Sequence[Sequence[str]]) -> list[Prepared]:
        """Words as the windows that `scores` takes."""
        return [self._cut(self.tokenizer.encode_words(words)) for words in sentences]

    def scores(
        self, prepared: Sequence[Prepared], words: Sequence[int], progress: Progress = SILENT
    ) -> list[Floats]:
        """Probabilities (W, C) of every word of each text; a word without any piece is `O`, or anything."""
        labels = self.config.labels
        unseen = np.full(len(labels), 1 / len(labels), np.float32)
        if "O" in labels:
            unseen = np.array([label == "O" for label in labels], np.float32)
        out = [np.tile(unseen, (count, 1)) for count in words]
        places = [word_rows(each, count) for each, count in zip(prepared, words, strict=True)]

        def compute(packed: Pack, which: list[tuple[int, int]]) -> Sequence[Tensor]:
            mine = [places[text][number][1] for text, number in which]
            starts = packed.cu_seqlens[:-1].tolist()
            rows = np.concatenate([start + each for start, each in zip(starts, mine, strict=True)])
            found = tag_scores(self.network, packed, torch.from_numpy(rows).to(self.device))
            return torch.split(found.float().softmax(-1), list(map(len, mine)))

        for text, number, rows in self._scores([each.windows for each in prepared], compute, progress):
            out[text][places[text][number][0]] = rows
        return out


def word_rows(prepared: Prepared, count: int) -> list[tuple[Ints, Ints]]:
    """For each window the words it labels and the rows of their first pieces; each word is in one window."""
    first = first_pieces(prepared.encoding, count)
    words = np.flatnonzero(first >= 0)
    owner = owners(prepared.encoding, prepared.windows)[first[words]]
    return [
        (words[owner == number], np.searchsorted(window.places, first[words[owner == number]]))
        for number, window in enumerate(prepared.windows)
    ]


def tag_scores(model: Model, packed: Pack, rows: Tensor) -> Tensor:
    """Scores (rows, C) of some tokens."""
    hidden = model.encoder(
        packed.ids, packed.positions, packed.cu_seqlens, packed.max_seqlen, packed.segments, rows=rows
    )
    return model.tag(hidden)


def entities(text: str, prepared: Prepared, scores: Floats, labels: Sequence[str]) -> list[Entity]:
    """Neighbouring words of one entity as one stretch; its score is that of its weakest word."""
    found: list[Entity] = []
    offsets, count = prepared.encoding.offsets, len(scores)
    bounds = zip(first_pieces(prepared.encoding, count), last_pieces(prepared.encoding, count), strict=True)
    inside = False
    for (first, last), row in zip(bounds, scores, strict=True):
        name, score = labels[int(row.argmax())], float(row.max())
        label = name.removeprefix("B-").removeprefix("I-")
        start, end = int(offsets[first, 0]), int(offsets[last, 1])
        goes_on = name.startswith("I-") or (name == label and "O" in labels)
        if inside and goes_on and found[-1].label == label:
            before = found.pop()
            start, score = before.start, min(before.score, score)
        inside = name != "O"
        if inside:
            found.append(Entity(label, text[start:end], start, end, score))
    return found
