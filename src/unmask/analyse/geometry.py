"""The space of a model's word vectors, layer by layer, as it is and standardised (Ethayarajh 2019).

L blocks · R words held · N random words · G words of which U uses each are held · D width
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask.analyse.intrinsic import (
    NORMAL,
    Dimension,
    Interval,
    expected_cosine,
    intra_similarity,
    loudest,
    participation,
    self_similarity,
    static_share,
    two_nn,
    unit,
)
from unmask.errors import ConfigError, InputError
from unmask.predict.predictor import Predictor
from unmask.predict.standardise import METHODS, Method, Standardiser
from unmask.progress import SILENT, Progress, counted
from unmask.tokenizer import Encoding

Floats = NDArray[np.float32]
RAW = "raw"
LEAST_SENTENCES = 20
_LEAST_WORDS = 3
_TOP = 5
"""Dimensions that are named."""


class ScoredPair(NamedTuple):
    """Two texts and how alike people find them."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much is looked at."""

    fitted: int = 5000
    """Words that standardisers are fitted on; none of them is among the random words measured."""
    kinds: int = 200
    """Words of which several uses are compared."""
    uses: int = 10
    """Uses of each, in as many sentences."""
    whole: int = 100
    """Sentences whose words are compared with each other."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Measures:
    """One layer's space, raw or standardised; None where the sample says nothing of it."""

    layer: int
    method: str
    anisotropy: Interval
    """Expected cosine of two random words from different sentences."""
    self_similarity: float | None
    """Mean cosine of two uses of a word."""
    intra_similarity: float
    """Mean cosine of a word and its sentence, which is the mean of its words."""
    static_share: float | None
    """Largest share of a word's uses that a static vector can explain."""
    static_share_random: float | None
    """The same for as many uses of random words."""
    dimensions: tuple[Dimension, ...]
    """Those that add most to the expected cosine."""
    two_nn: float | None
    participation: float
    similarity: Interval | None
    """Spearman correlation of cosines with people's scores."""

    @property
    def adjusted_self(self) -> float | None:
        """Self-similarity beyond that of random words."""
        return None if self.self_similarity is None else self.self_similarity - self.anisotropy.value

    @property
    def adjusted_intra(self) -> float:
        """Similarity within a sentence beyond that of random words."""
        return self.intra_similarity - self.anisotropy.value

    @property
    def adjusted_static(self) -> float | None:
        """The static share beyond that of random words."""
        if self.static_share is None or self.static_share_random is None:
            return None
        return self.static_share - self.static_share_random


@dataclass(frozen=True, slots=True)
class Geometry:
    """Every layer's space, raw and by each method."""

    measures: tuple[Measures, ...]
    sentences: int
    words: int
    """Whose vectors were held."""
    kinds: int
    """Words of which several uses were compared."""
    pairs: int
    """Pairs of texts that the similarity is measured on."""
    notes: tuple[str, ...] = ()

    def of(self, method: str) -> list[Measures]:
        """The layers by one method."""
        return [each for each in self.measures if each.method == method]

    @property
    def methods(self) -> tuple[str, ...]:
        """Raw first, then those that could be fitted."""
        return tuple(dict.fromkeys(each.method for each in self.measures))


class Vectors:
    """The words of a sample of sentences, at every layer."""

    def __init__(
        self,
        model: Predictor,
        sentences: Sequence[str],
        sampling: Sampling | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.model, self.sampling, self._progress = model, sampling or Sampling(), progress
        encodings = model.inputs.encode(sentences, truncate=True)
        spoken = [list(_words(s, e)) for s, e in zip(sentences, encodings, strict=True)]
        kept = [number for number, words in enumerate(spoken) if len(words) >= _LEAST_WORDS]
        if len(kept) < LEAST_SENTENCES:
            raise InputError(
                f"{counted(len(kept), 'sentence')} of {_LEAST_WORDS} words or more: too few to measure a"
                f" space; give text with at least {LEAST_SENTENCES}"
            )
        self.sentences = [sentences[number] for number in kept]
        self._rows: dict[tuple[int, int], int] = {}
        self._choose([spoken[number] for number in kept])
        self.words = self._collect([encodings[number] for number in kept])

    @cached_property
    def whole_sentences(self) -> Floats:
        """A vector for each sentence (N, L + 1, D), pooled as `embed` does."""
        return self.embed(self.sentences)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Vectors (N, L + 1, D) of texts at every layer."""
        found: Floats = self.model.embed(
            texts, layer="all", normalise=False, truncate=True, progress=self._progress
        )
        return found

    def standardiser(self, layer: int, method: Method, level: str = "word") -> Standardiser:
        """Fitted on this sample's words, or on its sentences, to be saved and used in `embed`."""
        self.model.check_layer(layer, ())
        if level == "word":
            about = self.model.about("word", layer, "mean")
            return Standardiser.fit(self.words[layer, self.fitted], method, about=about)
        if level != "sentence":
            raise ConfigError(f"a standardiser is of level word or sentence, not {level!r}")
        about = self.model.about("sentence", layer, self.model.sentence.pool)
        return Standardiser.fit(self.whole_sentences[:, layer], method, about=about)

    def _choose(self, words: Sequence[Sequence[tuple[int, str]]]) -> None:
        """Which words are held, and what each is for: numbers of rows."""
        ask, rng = self.sampling, np.random.default_rng(self.sampling.seed)
        self.random = np.array(
            [self._row(n, spoken[int(rng.integers(len(spoken)))][0]) for n, spoken in enumerate(words)]
        )
        others = [(n, w) for n, spoken in enumerate(words) for w, _ in spoken if (n, w) not in self._rows]
        picked = rng.permutation(len(others))[: ask.fitted]
        self.fitted = np.array([self._row(*others[place]) for place in picked])
        places: dict[str, dict[int, int]] = defaultdict(dict)  # word -> sentence -> place
        for number, spoken in enumerate(words):
            for place, word in spoken:
                places[word.lower()].setdefault(number, place)
        often = sorted(word for word, where in places.items() if len(where) >= ask.uses)
        self.kinds = [often[place] for place in rng.permutation(len(often))[: ask.kinds]]
        self.groups = np.array(
            [
                [self._row(*use) for use in rng.permutation(list(places[kind].items()))[: ask.uses]]
                for kind in self.kinds
            ]
        )
        some = rng.permutation(len(words))[: ask.whole]
        self.whole = [np.array([self._row(n, w) for w, _ in words[n]]) for n in some]

    def _row(self, sentence: int, word: int) -> int:
        return self._rows.setdefault((int(sentence), int(word)), len(self._rows))

    def _collect(self, encodings: Sequence[Encoding]) -> Floats:
        config = self.model.config
        out = np.zeros((config.layers + 1, len(self._rows), config.width), np.float32)
        wanted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for (sentence, word), row in self._rows.items():
            wanted[sentence].append((word, row))

        def take(number: int, states: Floats) -> None:
            for word, row in wanted[number]:
                out[:, row] = states[:, encodings[number].words == word].mean(1)

        self.model.token_layers(encodings, take, self._progress)
        return out


def measure(vectors: Vectors, pairs: Sequence[ScoredPair] = (), progress: Progress = SILENT) -> Geometry:
    """Every measure of every layer, raw and by every method; of similarity too, where pairs are given."""
    task = _Task(vectors, pairs) if pairs else None
    notes = (
        []
        if vectors.kinds
        else [f"no word occurs in {vectors.sampling.uses} sentences: uses of a word are not compared"]
    )
    found: list[Measures] = []
    refused: dict[str, str] = {}
    layers = range(len(vectors.words))
    with progress.stage("spaces", len(layers) * (1 + len(METHODS)), "spaces") as stage:
        for layer in layers:
            found.append(_measures(vectors, layer, None, task))
            stage.advance(1)
            for method in METHODS:
                try:
                    found.append(_measures(vectors, layer, method, task))
                except InputError as error:
                    refused[method] = str(error)
                stage.advance(1)
    notes += [f"{method} is left out: {reason}" for method, reason in refused.items()]
    held = len(vectors.words[0])
    return Geometry(tuple(found), len(vectors.sentences), held, len(vectors.kinds), len(pairs), tuple(notes))


class _Task:
    """A similarity task: vectors of all its texts."""

    def __init__(self, vectors: Vectors, pairs: Sequence[ScoredPair]) -> None:
        self.scores = np.array([pair.score for pair in pairs])
        if len(pairs) < LEAST_SENTENCES or np.ptp(self.scores) == 0:
            raise InputError(
                f"similarity needs at least {LEAST_SENTENCES} pairs whose scores differ, not {len(pairs)}"
            )
        self.vectors = vectors
        self.first = vectors.embed([pair.first for pair in pairs])
        self.second = vectors.embed([pair.second for pair in pairs])

    def correlation(self, layer: int, method: Method | None) -> Interval:
        """Spearman's, of the cosines at a layer with the scores."""
        first, second = self.first[:, layer], self.second[:, layer]
        if method is not None:
            fitted = self.vectors.standardiser(layer, method, "sentence")
            first, second = fitted.apply(first), fitted.apply(second)
        return spearman((unit(first) * unit(second)).sum(1), self.scores)


def spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> Interval:
    """The correlation of ranks, with its interval by Fisher's transform (Bonett and Wright 2000)."""
    from scipy.stats import rankdata

    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return Interval(0.0, -1.0, 1.0)
    value = float(np.clip(np.corrcoef(rankdata(first), rankdata(second))[0, 1], -1, 1))
    if abs(value) == 1:
        return Interval(value, value, value)
    spread = NORMAL * np.sqrt((1 + value**2 / 2) / max(len(first) - 3, 1))
    low, high = np.tanh(np.arctanh(value) + np.array([-spread, spread]))
    return Interval(value, float(low), float(high))


def _measures(vectors: Vectors, layer: int, method: Method | None, task: _Task | None) -> Measures:
    rows = vectors.words[layer]
    similarity = task.correlation(layer, method) if task else None
    if method is not None:
        rows = vectors.standardiser(layer, method).apply(rows)
    words = rows[vectors.random]
    uses = vectors.sampling.uses
    same = rows[vectors.groups] if vectors.kinds else None
    others = words[: len(words) // uses * uses].reshape(-1, uses, rows.shape[1])
    return Measures(
        layer=layer,
        method=method or RAW,
        anisotropy=expected_cosine(words),
        self_similarity=None if same is None else self_similarity(same),
        intra_similarity=intra_similarity([rows[whole] for whole in vectors.whole]),
        static_share=None if same is None else static_share(same),
        static_share_random=static_share(others) if len(others) else None,
        dimensions=loudest(words, _TOP),
        two_nn=two_nn(words),
        participation=participation(words),
        similarity=similarity,
    )


def _words(text: str, encoding: Encoding) -> Iterator[tuple[int, str]]:
    """Number and letters of each word that has any; marks of punctuation are left out."""
    for number in np.unique(encoding.words[encoding.words >= 0]):
        starts, ends = encoding.offsets[encoding.words == number].T
        word = text[starts.min() : ends.max()].strip()
        if any(map(str.isalnum, word)):
            yield int(number), word
