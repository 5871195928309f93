"""Models with a task's head: classes of texts, labels of words, answers in a context."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.model.network import Model
from unmask.predict.batching import Pack
from unmask.predict.predictor import Predictor
from unmask.predict.results import Answer, Entity, Label
from unmask.tokenizer import Encoding

_ANSWER_TOKENS = 30


class _TaskModel(Predictor):
    """A predictor whose network has heads."""

    @property
    def network(self) -> Model:
        """The network with its heads."""
        assert isinstance(self.model, Model)
        return self.model

    def _packed(self, encodings: Sequence[Encoding]) -> Pack:
        return self._pack([e.ids for e in encodings], [e.segments for e in encodings])


class Classifier(_TaskModel):
    """Classes of texts, or of pairs of texts."""

    @torch.inference_mode()
    def classify(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[list[Label]]:
        """For each text the classes with their probabilities, likeliest first; in regression one number."""
        if isinstance(texts, str):
            raise InputError("classify takes a list of texts")
        encodings = self.tokenizer.encode_batch(texts, pairs)
        _check(encodings, self.inputs.limit)
        out: list[list[Label]] = [[] for _ in texts]
        for numbers in self._plan([len(e) for e in encodings]):
            packed = self._packed([encodings[number] for number in numbers])
            scores = self.network.classify(self._encode(packed), packed.cu_seqlens).float()
            if self.config.problem == "single":
                scores = scores.softmax(-1)
            elif self.config.problem == "multi":
                scores = scores.sigmoid()
            for number, row in zip(numbers, scores.tolist(), strict=True):
                labels = [Label(name, score) for name, score in zip(self.config.labels, row, strict=True)]
                out[number] = sorted(labels, key=lambda label: -label.score)
        return out


class Tagger(_TaskModel):
    """Labels of words, joined into entities."""

    @torch.inference_mode()
    def tag(self, text: str) -> list[Entity]:
        """Stretches of words with the same label (`B-` and `I-` told apart); `O` is left out."""
        encoding = self.inputs.encode([text])[0]
        scores = self.network.tag(self._encode(self._packed([encoding]))).float().softmax(-1).cpu().numpy()
        words = encoding.words
        first = np.flatnonzero((words >= 0) & (np.r_[-1, words[:-1]] != words))
        entities: list[Entity] = []
        inside = False
        for place in first:
            last = np.flatnonzero(words == words[place])[-1]
            name = self.config.labels[int(scores[place].argmax())]
            start, end = int(encoding.offsets[place, 0]), int(encoding.offsets[last, 1])
            label, score = name.removeprefix("B-").removeprefix("I-"), float(scores[place].max())
            if inside and not name.startswith("B-") and entities[-1].label == label:
                before = entities.pop()
                start, score = before.start, min(before.score, score)
            inside = name != "O"
            if inside:
                entities.append(Entity(label, text[start:end], start, end, score))
        return entities


class Answerer(_TaskModel):
    """Answers to questions, found in a context."""

    @torch.inference_mode()
    def answer(self, question: str, context: str) -> Answer:
        """The likeliest stretch of the context."""
        encoding = self.tokenizer.encode(question, context)
        _check([encoding], self.inputs.limit)
        scores = self.network.answer(self._encode(self._packed([encoding]))).float()
        inside = np.flatnonzero((encoding.segments == 1) & (encoding.words >= 0))
        if not len(inside):
            raise InputError("the context is empty")
        begin, end = (scores[inside, side].log_softmax(-1).cpu().numpy() for side in (0, 1))
        joint = _spans(begin, end)
        i, j = np.unravel_index(int(joint.argmax()), joint.shape)
        start, stop = int(encoding.offsets[inside[i], 0]), int(encoding.offsets[inside[j], 1])
        return Answer(context[start:stop], start, stop, float(np.exp(joint[i, j])))


def _spans(begin: NDArray[np.float32], end: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-probability of every stretch (first, last token); −∞ where it is backwards or too long."""
    length = np.arange(len(end)) - np.arange(len(begin))[:, None]
    joint = np.where((length >= 0) & (length < _ANSWER_TOKENS), begin[:, None] + end, -np.inf)
    return joint.astype(np.float32)


def _check(encodings: Sequence[Encoding], limit: int) -> None:
    longest = max((len(e) for e in encodings), default=0)
    if longest > limit:
        raise InputError(f"a text has {longest} tokens, but the model takes at most {limit}: shorten it")
