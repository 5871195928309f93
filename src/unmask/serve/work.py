"""What the threads compute: a model and payloads of many requests -> one result each."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask.analyse.attention import AttentionMaps, read_attention
from unmask.analyse.attribution import Attribution, attribute
from unmask.analyse.senses import Senses, find_senses
from unmask.analyse.uses import Use
from unmask.predict import Answer, Answerer, Classifier, MaskedLM, Score, Tagger
from unmask.predict.predictor import Layer, Level
from unmask.predict.tasks import Prepared
from unmask.predict.windows import cut
from unmask.serve.models import Served

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class Masks(NamedTuple):
    """A text with masks: their places, how many candidates each, and the only ones allowed."""

    ids: Ints
    places: Ints
    top: int
    allowed: tuple[Ints, ...] | None


def embed(served: Served, texts: list[str]) -> Sequence[Floats]:
    """One vector per text, as the folder pools them, not normalised."""
    vectors: Sequence[Floats] = served.predictor.embed(
        texts, normalise=False, truncate=True, standardise=served.standardiser("sentence")
    )
    return vectors


def embed_parts(served: Served, texts: list[str], level: Level, layer: int) -> Sequence[Floats]:
    """One array per text: a row per token or word."""
    rows: Sequence[Floats] = served.predictor.embed(
        texts, level=level, layer=layer, truncate=True, standardise=served.standardiser(level, layer)
    )
    return rows


def fill(served: Served, jobs: list[Masks]) -> list[list[list[tuple[int, float]]]]:
    """For each mask of each text the likeliest tokens and their probabilities."""
    lm = served.predictor
    assert isinstance(lm, MaskedLM)
    size = lm.tokenizer.vocab_size
    logs = lm.log_probabilities([job.ids for job in jobs], [job.places for job in jobs])
    return [
        [
            _likeliest(row[:size], job.top, None if job.allowed is None else job.allowed[number])
            for number, row in enumerate(rows)
        ]
        for job, rows in zip(jobs, logs, strict=True)
    ]


def _likeliest(row: Floats, top: int, allowed: Ints | None) -> list[tuple[int, float]]:
    tokens = np.arange(len(row)) if allowed is None else allowed
    top = min(top, len(tokens))
    best = tokens[np.argpartition(-row[tokens], top - 1)[:top]]
    best = best[np.argsort(-row[best], kind="stable")]
    return [(int(token), float(np.exp(row[token]))) for token in best]


def score(served: Served, texts: list[str]) -> list[Score]:
    """How likely each text is."""
    lm = served.predictor
    assert isinstance(lm, MaskedLM)
    return lm.score(texts)


def classify(served: Served, texts: list[tuple[str]]) -> list[Floats]:
    """Scores before softmax."""
    classifier = served.predictor
    assert isinstance(classifier, Classifier)
    return list(classifier.scores(classifier.prepare([text for (text,) in texts])))


def classify_pairs(served: Served, texts: list[tuple[str, str]]) -> list[Floats]:
    """Scores before softmax of pairs."""
    classifier = served.predictor
    assert isinstance(classifier, Classifier)
    return list(classifier.scores(classifier.prepare([a for a, _ in texts], [b for _, b in texts])))


def tag(served: Served, texts: list[str]) -> list[tuple[Prepared, Floats]]:
    """Each text's tokens, and probabilities of the classes of its words."""
    tagger = served.predictor
    assert isinstance(tagger, Tagger)
    prepared = [
        Prepared(encoding, cut(encoding, tagger.length, tagger.settings.stride))
        for encoding in tagger.tokenizer.encode_batch(texts)
    ]
    counts = [int(each.encoding.words.max(initial=-1)) + 1 for each in prepared]
    return list(zip(prepared, tagger.scores(prepared, counts), strict=True))


def answer(served: Served, questions: list[tuple[str, str]]) -> list[Answer]:
    """The answer to each question in its context."""
    answerer = served.predictor
    assert isinstance(answerer, Answerer)
    return answerer.answer_all([each[0] for each in questions], [each[1] for each in questions])


def attention(served: Served, texts: list[str]) -> list[AttentionMaps]:
    """What every head looks at in each text."""
    return [read_attention(served.predictor, text) for text in texts]


def attribution(served: Served, asked: list[tuple[str, int, str | None]]) -> list[Attribution]:
    """What decided the word at a mask of each text."""
    lm = served.predictor
    assert isinstance(lm, MaskedLM)
    return [attribute(lm, text, mask, target) for text, mask, target in asked]


class Uses(NamedTuple):
    """A word in texts, how many senses to find, and at which layer."""

    word: str
    uses: list[Use]
    senses: int | None
    layer: Layer


def senses(served: Served, asked: list[Uses]) -> list[Senses]:
    """The senses of each word."""
    return [find_senses(served.predictor, each.uses, each.word, each.senses, each.layer) for each in asked]
