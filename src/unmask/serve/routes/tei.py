"""The routes of text-embeddings-inference."""

from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from unmask.errors import InputError
from unmask.predict.inputs import as_list
from unmask.serve import work
from unmask.serve.bodies import (
    DecodeBody,
    EmbedBody,
    PredictBody,
    RerankBody,
    SimilarityBody,
    TextsBody,
    TokenizeBody,
)
from unmask.serve.errors import invalid, too_large
from unmask.serve.models import EMBED, TEXT, Served
from unmask.serve.routes import answer, documented
from unmask.serve.site import Site
from unmask.serve.tasks import class_scores, embedded, labelled, sentence_similarity, shaped, sigmoid

_NUMBERS = 1 << 23
"""Numbers of all token vectors in an answer: some 90 MB."""


def routes(site: Site) -> APIRouter:
    """`/embed` and its neighbours."""
    router = APIRouter(tags=["text-embeddings-inference"])

    @router.post("/embed", responses=documented([[0.6, 0.8]]))
    async def embed(body: EmbedBody) -> Response:
        """One vector per text, of length one unless told otherwise."""
        served = site.for_task(body.model, EMBED)
        vectors, _ = await embedded(site, served, as_list(body.inputs), body.truncate)
        return answer(shaped(vectors, body.normalize is not False, body.dimensions))

    @router.post("/embed_all", responses=documented([[[0.6, 0.8], [0.1, 0.2]]]))
    async def embed_all(body: TextsBody) -> Response:
        """One vector per token of each text, special tokens included."""
        served = site.for_task(body.model, EMBED)
        texts = as_list(body.inputs)
        costs = await site.fitting(served, texts, truncate=body.truncate)
        if sum(costs) * served.predictor.config.width > _NUMBERS:
            raise too_large(f"{sum(costs)} tokens have too many numbers to send: send fewer texts")
        return answer(await site.compute(served, work.embed_parts, texts, costs, "token", -1))

    @router.post("/predict", responses=documented([{"label": "good", "score": 0.9}]))
    async def predict(body: PredictBody) -> Response:
        """Classes of a text or a pair, likeliest first; of a list of lists, a list for each."""
        served = site.for_task(body.model, TEXT)
        many = isinstance(body.inputs, list) and any(isinstance(each, list) for each in body.inputs)
        rows = await class_scores(site, served, _sequences(body.inputs), body.truncate)
        found = [labelled(served, row, "none" if body.raw_scores else None) for row in rows]
        return answer(found if many else found[0])

    @router.post("/rerank", responses=documented([{"index": 1, "score": 0.9}]))
    async def rerank(body: RerankBody) -> Response:
        """Texts in the order in which they fit the query; needs a model that gives pairs one number."""
        served = site.model(body.model, _reranks, "reranking (a classifier with a single label)")
        pairs = [(body.query, text) for text in body.texts]
        rows = np.array(await class_scores(site, served, pairs, body.truncate))[:, 0]
        scores = rows if body.raw_scores else sigmoid(rows)
        ranks: list[dict[str, Any]] = [
            {"index": int(place), "score": float(scores[place])}
            for place in np.argsort(-scores, kind="stable")
        ]
        if body.return_text:
            ranks = [{**rank, "text": body.texts[rank["index"]]} for rank in ranks]
        return answer(ranks)

    @router.post("/similarity", responses=documented([0.83, 0.12]))
    async def similarity(body: SimilarityBody) -> Response:
        """The cosine of a sentence with each of the others."""
        return answer(await sentence_similarity(site, site.for_task(body.model, EMBED), body))

    router.include_router(_vocabulary(site))
    return router


def _vocabulary(site: Site) -> APIRouter:
    router = APIRouter()
    example = [[{"id": 5, "text": "river", "special": False, "start": 4, "stop": 9}]]

    @router.post("/tokenize", responses=documented(example))
    async def tokenize(body: TokenizeBody) -> Response:
        """The tokens of each text, and where they stand in it."""
        served = site.for_task(body.model, EMBED)
        texts = as_list(body.inputs)
        site.check_tokens(sum(await site.lengths(served, texts)))
        return answer(await site.read(sum(map(len, texts)), _tokens, served, texts, body.add_special_tokens))

    @router.post("/decode", responses=documented(["river"]))
    async def decode(body: DecodeBody) -> Response:
        """The text of each list of tokens."""
        served = site.for_task(body.model, EMBED)
        lists: Any = body.ids if body.ids and isinstance(body.ids[0], list) else [body.ids]
        site.check_count(lists)
        special = not body.skip_special_tokens

        def text(ids: list[int]) -> str:
            if any(each >= served.predictor.tokenizer.vocab_size for each in ids):
                raise InputError(f"ids: the vocabulary has {served.predictor.tokenizer.vocab_size} entries")
            return served.predictor.tokenizer.decode(ids, special=special)

        return answer(await site.read(sum(map(len, lists)), lambda: [text(ids) for ids in lists]))

    return router


def _sequences(inputs: str | list[str] | list[list[str]]) -> list[tuple[str, ...]]:
    """A text, `[text]` or `[a, b]`; or a list of such lists."""
    if isinstance(inputs, str):
        return [(inputs,)]
    given = inputs if inputs and isinstance(inputs[0], list) else [inputs]
    found = [tuple(map(str, each)) for each in given]
    if not all(1 <= len(each) <= 2 for each in found):
        raise invalid("inputs: give a text, a pair [a, b], or a list of [text] or [a, b]")
    return found


def _reranks(served: Served) -> bool:
    return TEXT in served.tasks and len(served.predictor.config.labels) == 1


def _tokens(served: Served, texts: list[str], special: bool) -> list[list[dict[str, Any]]]:
    tokenizer = served.predictor.tokenizer
    return [
        [
            {"id": token, "text": tokenizer.piece(token), "special": token in tokenizer.special_ids,
             "start": start, "stop": stop}
            for token, (start, stop) in zip(encoding.ids.tolist(), encoding.offsets.tolist(), strict=True)
        ]
        for encoding in tokenizer.encode_batch(texts, special=special)
    ]  # fmt: skip
