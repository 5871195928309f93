"""What every loaded model can do: vectors of texts, words and tokens, hidden states, attention.

T tokens of all sequences · S sequences · n tokens of one text · D width · L blocks · H heads
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from unmask.config import ModelConfig
from unmask.errors import InputError, ModelError
from unmask.files import digest
from unmask.model.network import Model, reduce_rows
from unmask.model.weights import LoadReport
from unmask.predict.batching import CPU_TOKENS, GPU_TOKENS, Pack, pack, plan
from unmask.predict.cores import Job, Result, side_by_side
from unmask.predict.folders import model_fingerprint
from unmask.predict.inputs import Inputs, as_list
from unmask.predict.onnx import OnnxModel
from unmask.predict.sentence import Pool, SentenceSettings
from unmask.predict.standardise import Standardiser
from unmask.progress import SILENT, Progress
from unmask.tokenizer import Encoding, Tokenizer

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Layer = int | Literal["last4", "all"]
Level = Literal["sentence", "word", "token"]
_LAST = 4


class NotFiniteError(ModelError):
    """What a model says is NaN or infinite."""

    reason = (
        "its weights or scores are not finite (NaN), so it predicts nothing:"
        " it is damaged, or its training diverged; train it again with a lower lr"
    )

    def __init__(self, folder: Path | None) -> None:
        super().__init__(f"{folder or 'the model'}: {self.reason}")


class Predictor:
    """A model with its tokenizer, on a device."""

    def __init__(
        self,
        model: Model | OnnxModel,
        tokenizer: Tokenizer,
        report: LoadReport | None = None,
        sentence: SentenceSettings | None = None,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.report = report or LoadReport()
        """What was missing, unused or new when the weights were read."""
        self.sentence = sentence or SentenceSettings()
        self.inputs = Inputs(tokenizer, model.config.positions)
        self.device: torch.device = model.encoder.device if isinstance(model, OnnxModel) else _device(model)
        self.budget = CPU_TOKENS if self.device.type == "cpu" else GPU_TOKENS
        self.folder: Path | None = None
        """Where it was read from."""

    @property
    def config(self) -> ModelConfig:
        """The network's settings."""
        return self.model.config

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same settings, weights and tokenizer; "" of a model made in memory."""
        return digest(model_fingerprint(self.folder), self.tokenizer.fingerprint) if self.folder else ""

    def embed(
        self,
        texts: str | Sequence[str],
        level: Level = "sentence",
        layer: Layer = -1,
        pool: Pool | None = None,
        normalise: bool | None = None,
        truncate: bool | None = None,
        standardise: Standardiser | None = None,
        progress: Progress = SILENT,
    ) -> Any:
        """Vectors of sentences (N, D), or a list of arrays: one row per word or token of each text.

        `layer` 0 is the embeddings, 1 to L the blocks, "last4" the mean of the last four, "all" every one:
        (…, L + 1, D). What is None is as the folder says (sentence-transformers), else: mean over tokens, not
        normalised, longer texts refused. Vectors are standardised before they are normalised. Token rows
        include the special tokens, as `tokenizer.encode` gives them; word rows do not.
        """
        own = self.settings_for(level, pool, normalise)
        self.check_layer(layer)
        if standardise:
            standardise.check(self.about(level, layer, own.pool))
        cut = own.max_length is not None if truncate is None else truncate
        many = as_list(texts)

        def finish(rows: Tensor) -> Floats:
            if layer == "all":
                rows = rows.view(len(rows), *self._shape(layer))
            if standardise:
                rows = torch.from_numpy(standardise.apply(_array(rows)))
            return _array(F.normalize(rows.float(), dim=-1) if own.normalise else rows)

        if level == "sentence":
            found = self._sentences(many, layer, own, cut, finish, progress)
            return found[0] if isinstance(texts, str) else found
        encodings = self.inputs.encode(many, cut)
        listed = self._rows(encodings, level, layer, own.pool, finish, progress)
        return listed[0] if isinstance(texts, str) else listed

    def settings_for(
        self, level: Level, pool: Pool | None = None, normalise: bool | None = None
    ) -> SentenceSettings:
        """How vectors of a level are made, where not said as the folder says."""
        if level not in ("sentence", "word", "token"):
            raise InputError(f"there is no level {level!r}; those we have: sentence, word, token")
        own = self.sentence if level == "sentence" else SentenceSettings()
        own = replace(own, pool=pool or own.pool, normalise=own.normalise if normalise is None else normalise)
        if own.pool not in ("mean", "cls", "max", "first"):
            raise InputError(f"there is no pooling {own.pool!r}; those we have: mean, cls, max, first")
        return own

    def about(self, level: Level, layer: Layer, pool: Pool) -> dict[str, str]:
        """What a standardiser says of the vectors it was fitted on."""
        self.check_layer(layer)
        named = str(layer if isinstance(layer, str) or layer >= 0 else self.config.layers + 1 + layer)
        pooled = pool if level != "token" else ""
        return {"model": self.fingerprint, "level": level, "layer": named, "pool": pooled}

    def hidden(self, text: str) -> Floats:
        """Hidden states (L + 1, n, D) of a text: embeddings, then every block."""
        trace = self._trace(self._pack(self.inputs.ids([text])))
        return np.stack([_array(hidden) for hidden in trace.hidden])

    def attention(self, text: str) -> Floats:
        """Attention weights (L, H, n, n) of a text: row i says what token i looks at."""
        trace = self._trace(self._pack(self.inputs.ids([text])), attention=True)
        return np.stack([_array(block[0]) for block in trace.attention])

    def word_layers(
        self,
        sentences: Sequence[Sequence[str]],
        take: Callable[[int, Floats], None],
        progress: Progress = SILENT,
    ) -> None:
        """Give `take` each sentence's number and the vectors (L + 1, words, D) of its words at every layer.

        In any order, from any thread. Words beyond what the model takes are cut off; one without pieces is 0.
        """
        encodings = self.inputs.encode_words(sentences)

        def pool(number: int, states: Floats) -> None:
            words = encodings[number].words
            belongs = (words == np.arange(words.max() + 1)[:, None]).astype(np.float32)  # (words, n)
            take(number, belongs / np.maximum(belongs.sum(1, keepdims=True), 1) @ states)

        self.token_layers(encodings, pool, progress)

    def token_layers(
        self,
        encodings: Sequence[Encoding],
        take: Callable[[int, Floats], None],
        progress: Progress = SILENT,
    ) -> None:
        """Give `take` each text's number and the vectors (L + 1, n, D) of its tokens at every layer.

        In any order, from any thread.
        """

        def work(numbers: list[int], packed: Pack) -> None:
            states = np.stack([_array(hidden) for hidden in self._trace(packed).hidden])
            parts = np.split(states, np.cumsum(packed.lengths)[:-1], axis=1)
            for number, part in zip(numbers, parts, strict=True):
                take(number, part)

        self._each_batch([encoding.ids for encoding in encodings], work, progress)

    def _sentences(
        self,
        texts: list[str],
        layer: Layer,
        own: SentenceSettings,
        truncate: bool,
        finish: Callable[[Tensor], Floats],
        progress: Progress,
    ) -> Floats:
        sequences = self.inputs.ids([own.prepared(text) for text in texts], truncate, own.max_length)
        out = np.empty((len(texts), *self._shape(layer)), np.float32)

        def work(numbers: list[int], packed: Pack) -> None:
            lengths = torch.tensor(packed.lengths, device=self.device)
            out[numbers] = finish(pool_rows(self._layer(packed, layer), lengths, own.pool))

        self._each_batch(sequences, work, progress)
        return out

    def _rows(
        self,
        encodings: Sequence[Encoding],
        level: Level,
        layer: Layer,
        pool: Pool,
        finish: Callable[[Tensor], Floats],
        progress: Progress,
    ) -> list[Floats]:
        out: list[Floats] = [np.empty((0, *self._shape(layer)), np.float32)] * len(encodings)

        def work(numbers: list[int], packed: Pack) -> None:
            rows = self._layer(packed, layer)
            counts = list(packed.lengths)
            if level == "word":
                words = [encodings[number].words for number in numbers]
                inside = np.concatenate(words) >= 0
                sizes = [np.unique(w[w >= 0], return_counts=True)[1] for w in words]
                counts = list(map(len, sizes))
                lengths = torch.from_numpy(np.concatenate(sizes)).to(self.device)
                rows = pool_rows(rows[torch.from_numpy(inside).to(self.device)], lengths, pool)
            split = np.split(finish(rows), np.cumsum(counts)[:-1])
            for number, vectors in zip(numbers, split, strict=True):
                out[number] = vectors.copy()

        self._each_batch([encoding.ids for encoding in encodings], work, progress)
        return out

    def _shape(self, layer: Layer) -> tuple[int, ...]:
        width = self.config.width
        return (self.config.layers + 1, width) if layer == "all" else (width,)

    def _each_batch(
        self,
        sequences: Sequence[Ints],
        work: Callable[[list[int], Pack], None],
        progress: Progress = SILENT,
        segments: Sequence[Ints] | None = None,
    ) -> None:
        """Do `work` on every batch, in any order, on every core: its sequences' numbers, and the batch."""
        lengths = [len(ids) for ids in sequences]

        def whole(numbers: list[int]) -> int:
            seconds = None if segments is None else [segments[number] for number in numbers]
            work(numbers, self._pack([sequences[number] for number in numbers], seconds))
            return sum(lengths[number] for number in numbers)

        with progress.stage("texts", sum(lengths), "tokens") as stage:
            for tokens in self._share(whole, self._plan(lengths)):
                stage.advance(tokens)

    def _share(self, work: Callable[[Job], Result], jobs: Sequence[Job]) -> Iterator[Result]:
        """`work(job)` of every job, in order; a GPU and onnxruntime share out their work themselves."""
        own = self.device.type != "cpu" or isinstance(self.model, OnnxModel)
        return map(work, jobs) if own else side_by_side(work, jobs)

    def _plan(self, lengths: Sequence[int]) -> list[list[int]]:
        return plan(lengths, self.budget)

    def _pack(self, sequences: Sequence[Ints], segments: Sequence[Ints] | None = None) -> Pack:
        return pack(sequences, self.device, segments if self.config.segments > 1 else None)

    @torch.inference_mode()
    def _encode(self, packed: Pack, rows: Tensor | None = None, causal: bool | None = None) -> Tensor:
        """The last layer's hidden states (T, D), or only some rows of them."""
        if isinstance(self.model, Model):
            return self._finite(self.model.encoder(*packed.inputs, causal=causal, rows=rows))
        hidden = self._finite(self.model.encoder(*packed.inputs))
        return hidden if rows is None else hidden[rows]

    @torch.inference_mode()
    def _trace(self, packed: Pack, attention: bool = False) -> Any:
        if isinstance(self.model, OnnxModel):
            raise ModelError("an ONNX model gives its last layer only; load the folder it was converted from")
        trace = self.model.encoder.trace(*packed.inputs, attention=attention)
        self._finite(trace.hidden[-1])
        return trace

    def _finite(self, values: Tensor) -> Tensor:
        """The same, if all of them are numbers."""
        if not values.isfinite().all():
            raise NotFiniteError(self.folder)
        return values

    def check_layer(self, layer: Layer, named: Sequence[str] = ("last4", "all")) -> None:
        """Refuse a layer that is not there, or not by one of these names."""
        depth = self.config.layers
        number = isinstance(layer, int | np.integer) and not isinstance(layer, bool)  # True would be layer 1
        if not (layer in range(-depth - 1, depth + 1) if number else layer in named):
            others = "".join(f", or {name}" for name in named)
            raise InputError(
                f"there is no layer {layer}: 0 is the embeddings, 1 to {depth} the blocks{others}"
            )

    def _layer(self, packed: Pack, layer: Layer) -> Tensor:
        """A layer's states (T, D); of all layers (T, (L + 1) · D)."""
        depth = self.config.layers
        if layer in (-1, depth):
            return self._encode(packed)
        hidden: list[Tensor] = self._trace(packed).hidden
        if layer == "all":
            return torch.stack(hidden, 1).flatten(1)
        if layer == "last4":
            return torch.stack(hidden[-min(_LAST, depth) :]).mean(0)
        return hidden[layer]


def pool_rows(rows: Tensor, lengths: Tensor, pool: Pool) -> Tensor:
    """One row for each group of `lengths` neighbours: their mean or maximum, or the first (`cls`) of them."""
    if pool in ("first", "cls"):
        return rows[lengths.cumsum(0) - lengths]
    if not len(lengths):
        return rows
    return reduce_rows(rows.float(), lengths, pool)


def _array(rows: Tensor) -> Floats:
    return rows.float().cpu().numpy()


def _device(model: Model) -> torch.device:
    return next(model.parameters()).device
