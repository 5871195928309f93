"""Hugging Face's tasks: their inputs to work, and what was found to the bodies their clients read.

Each function takes the site, a model that does the task, and a body.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask.predict import Answerer, Classifier
from unmask.predict.fill import pieces_in_place
from unmask.predict.inputs import as_list, with_own_mask
from unmask.predict.tag import entities
from unmask.predict.windows import first_pieces, last_pieces
from unmask.serve import work
from unmask.serve.bodies import (
    AnswerBody,
    Body,
    ClassifyBody,
    EmbedBody,
    FillBody,
    Question,
    SimilarityBody,
    TagBody,
    TagParameters,
    TextPair,
)
from unmask.serve.errors import invalid, too_large
from unmask.serve.models import ANSWER, EMBED, FILL, SIMILARITY, TEXT, TOKEN, Served
from unmask.serve.site import Site
from unmask.tokenizer import Tokenizer

Floats = NDArray[np.float32]
_CANDIDATES = 10_000


async def fill_mask(site: Site, served: Served, body: FillBody) -> list[Any]:
    """Candidates of each mask by itself; of one mask the list alone."""
    asked, tokenizer = body.parameters, served.predictor.tokenizer
    texts = [with_own_mask(text, tokenizer) for text in as_list(body.inputs)]
    costs = await site.fitting(served, texts)
    words = None if asked.targets is None else list(dict.fromkeys(asked.targets))
    each = asked.top_k if words is None else len(words)
    masks = [text.count(tokenizer.mask_token) for text in texts]
    if sum(masks) * each > _CANDIDATES:
        raise too_large(f"{sum(masks) * each} candidates are too many: at most {_CANDIDATES} go in a request")
    # Each candidate is read, or written, in the place of its mask.
    size = sum(len(text) * count * each for text, count in zip(texts, masks, strict=True))
    site.check_size(size)
    jobs = await site.read(size, lambda: [_masks(served, text, asked.top_k, words) for text in texts])
    found = await site.compute(served, work.fill, jobs, costs)
    bodies = await site.read(
        size, lambda: [_filled(tokenizer, job, mine) for job, mine in zip(jobs, found, strict=True)]
    )
    return bodies[0] if isinstance(body.inputs, str) else bodies


def _masks(served: Served, text: str, top: int, targets: list[str] | None) -> work.Masks:
    tokenizer = served.predictor.tokenizer
    encoding = tokenizer.encode(text)
    places = np.flatnonzero(encoding.ids == tokenizer.mask_id)
    if not len(places):
        raise invalid(f"nothing to fill: write {tokenizer.mask_token} where a word is missing")
    if targets is None:
        return work.Masks(encoding.ids, places, top, None)
    if not targets:
        raise invalid("parameters.targets: name at least one word")
    allowed = []
    for place in places:
        first, last = map(int, encoding.offsets[place])
        pieces = [pieces_in_place(tokenizer, text, (first, last), word) for word in targets]
        for word, split in zip(targets, pieces, strict=True):
            if len(split) != 1 or split[0] == tokenizer.unk_id:
                raise invalid(f"parameters.targets: {word!r} is not one piece of the vocabulary")
        allowed.append(np.unique([split[0] for split in pieces]))
    return work.Masks(encoding.ids, places, top, tuple(allowed))


def _filled(tokenizer: Tokenizer, job: work.Masks, found: list[list[tuple[int, float]]]) -> list[Any]:
    single = len(job.places) == 1
    every = []
    for place, candidates in zip(job.places, found, strict=True):
        mine = []
        for token, probability in candidates:
            ids = job.ids.copy()
            ids[place] = token
            word = tokenizer.decode([token], special=True)
            sequence = tokenizer.decode(ids, special=not single)
            mine.append({"score": probability, "token": token, "token_str": word, "sequence": sequence})
        every.append(mine)
    return every[0] if single else every


async def text_classification(site: Site, served: Served, body: ClassifyBody) -> list[Any]:
    """The classes of each text, likeliest first."""
    inputs = body.inputs if isinstance(body.inputs, list) else [body.inputs]
    texts = [(each.text, each.text_pair) if isinstance(each, TextPair) else (each,) for each in inputs]
    rows = await class_scores(site, served, texts)
    apply = body.parameters.function_to_apply
    return [labelled(served, row, apply)[: body.parameters.top_k] for row in rows]


async def class_scores(
    site: Site, served: Served, texts: Sequence[tuple[str, ...]], truncate: bool = False
) -> list[Floats]:
    """Scores before softmax of texts, or of pairs."""
    if len({len(text) for text in texts}) > 1:
        raise invalid("inputs: give texts, or pairs, not both")
    first = [text[0] for text in texts]
    second = [text[1] for text in texts] if texts and len(texts[0]) == 2 else None
    costs = await site.class_lengths(served, first, second, truncate)
    lane = work.classify if second is None else work.classify_pairs
    return await site.compute(served, lane, texts, costs)


def labelled(served: Served, row: Floats, apply: str | None = None) -> list[dict[str, Any]]:
    """Class names with probabilities, likeliest first; `apply` says how scores become probabilities."""
    classifier = served.predictor
    assert isinstance(classifier, Classifier)
    if apply is None:
        values = classifier.probabilities(row[None])[0]
    elif apply == "softmax":
        values = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
    else:
        values = sigmoid(row) if apply == "sigmoid" else row
    pairs = zip(classifier.config.labels, values.tolist(), strict=True)
    return [{"label": label, "score": score} for label, score in sorted(pairs, key=lambda pair: -pair[1])]


def sigmoid(row: Floats) -> Floats:
    """Between 0 and 1."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * row)), np.float32)


async def token_classification(site: Site, served: Served, body: TagBody) -> list[Any]:
    """What stands in each text, and where."""
    texts = as_list(body.inputs)
    found = await site.compute(served, work.tag, texts, await site.lengths(served, texts))
    bodies = [
        _tagged(served, text, prepared, scores, body.parameters)
        for text, (prepared, scores) in zip(texts, found, strict=True)
    ]
    return bodies[0] if isinstance(body.inputs, str) else bodies


def _tagged(
    served: Served, text: str, prepared: Any, scores: Floats, asked: TagParameters
) -> list[dict[str, Any]]:
    labels = served.predictor.config.labels
    if asked.aggregation_strategy != "none":
        return [
            {"entity_group": e.label, "score": e.score, "word": e.text, "start": e.start, "end": e.end}
            for e in entities(text, prepared, scores, labels)
            if e.label not in asked.ignore_labels
        ]
    encoding = prepared.encoding
    first, last = (find(encoding, len(scores)) for find in (first_pieces, last_pieces))
    found = []
    for number, (row, one, other) in enumerate(zip(scores, first, last, strict=True)):
        label = labels[int(row.argmax())]
        start, end = int(encoding.offsets[one, 0]), int(encoding.offsets[other, 1])
        if label not in asked.ignore_labels:
            found.append(
                {"entity": label, "score": float(row.max()), "index": number + 1, "word": text[start:end],
                 "start": start, "end": end}
            )  # fmt: skip
    return found


async def question_answering(site: Site, served: Served, body: AnswerBody) -> Any:
    """The answer to each question; to one question the answer alone."""
    asked = [body.inputs] if isinstance(body.inputs, Question) else body.inputs
    pairs = [(each.question, each.context) for each in asked]
    questions = [question for question, _ in pairs]
    assert isinstance(served.predictor, Answerer)
    await site.fitting(served, questions, limit=served.predictor.length, what="question")
    costs = await site.lengths(served, questions, [context for _, context in pairs])
    found = await site.compute(served, work.answer, pairs, costs)
    bodies = [{"answer": a.text, "score": a.score, "start": a.start, "end": a.end} for a in found]
    return bodies[0] if isinstance(body.inputs, Question) else bodies


async def feature_extraction(site: Site, served: Served, body: EmbedBody) -> Floats:
    """One vector per text, normalised if asked, or as the folder says."""
    vectors, _ = await embedded(site, served, as_list(body.inputs), body.truncate)
    normalise = served.predictor.sentence.normalise if body.normalize is None else body.normalize
    return shaped(vectors, normalise, body.dimensions)


async def embedded(site: Site, served: Served, texts: list[str], truncate: bool) -> tuple[Floats, int]:
    """Vectors (N, D) of texts, not normalised, and how many tokens they have."""
    site.check_count(texts)
    own = served.predictor.sentence
    costs = await site.fitting(
        served, [own.prepared(text) for text in texts], truncate=truncate, limit=own.max_length
    )
    return np.stack(await site.compute(served, work.embed, texts, costs)), sum(costs)


def shaped(vectors: Floats, normalise: bool, dimensions: int | None = None) -> Floats:
    """The first dimensions of vectors, of length one if asked."""
    if dimensions is not None:
        if dimensions > vectors.shape[1]:
            raise invalid(f"dimensions: the vectors have {vectors.shape[1]}, not {dimensions}")
        vectors = vectors[:, :dimensions]
    if normalise:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.ascontiguousarray(vectors)


async def sentence_similarity(site: Site, served: Served, body: SimilarityBody) -> Floats:
    """The cosine of a sentence with each of the others."""
    vectors, _ = await embedded(
        site, served, [body.inputs.source_sentence, *body.inputs.sentences], body.truncate
    )
    rows = shaped(vectors, True)
    found: Floats = rows[1:] @ rows[0]
    return found


class Handler(NamedTuple):
    """How a task is done, what it takes, and what a model must be able to do."""

    run: Callable[[Site, Served, Any], Awaitable[Any]]
    body: type[Body]
    needs: str


HANDLERS = {
    FILL: Handler(fill_mask, FillBody, FILL),
    TEXT: Handler(text_classification, ClassifyBody, TEXT),
    TOKEN: Handler(token_classification, TagBody, TOKEN),
    ANSWER: Handler(question_answering, AnswerBody, ANSWER),
    EMBED: Handler(feature_extraction, EmbedBody, EMBED),
    SIMILARITY: Handler(sentence_similarity, SimilarityBody, EMBED),
}
