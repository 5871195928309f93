"""What a model sees in a text: likelihood, words compared."""

from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from unmask.predict import Score
from unmask.predict.inputs import as_list
from unmask.serve import work
from unmask.serve.bodies import ScoreBody, WordsBody
from unmask.serve.errors import invalid
from unmask.serve.models import EMBED, Served, can_score
from unmask.serve.routes import answer, documented
from unmask.serve.site import Site
from unmask.serve.tasks import embedded, shaped

_SCORED = {"log_probability": -9.1, "pseudo_perplexity": 6.2, "tokens": [
    {"token": "river", "start": 4, "end": 9, "log_probability": -2.3}]}  # fmt: skip
_COMPARED = {"words": [[{"text": "river", "start": 4, "end": 9}], [{"text": "rio", "start": 2, "end": 5}]],
             "similarity": [[0.7]], "sentence": 0.8}  # fmt: skip


def routes(site: Site) -> APIRouter:
    """`/score`, `/words`."""
    router = APIRouter(tags=["analysis"])

    @router.post("/score", responses=documented([_SCORED]))
    async def score(body: ScoreBody) -> Response:
        """The (pseudo-)log-likelihood of each text and of its tokens."""
        served = site.model(body.model, can_score, "scoring")
        texts = as_list(body.inputs)
        lengths = await site.fitting(served, texts)
        # A masked model reads a text once for each of its tokens.
        costs = lengths if served.predictor.config.causal else [length**2 for length in lengths]
        return answer([_scored(each) for each in await site.compute(served, work.score, texts, costs)])

    @router.post("/words", responses=documented(_COMPARED))
    async def words(body: WordsBody) -> Response:
        """The cosine of every word of a text with every word of another, and of the two texts."""
        served = site.for_task(body.model, EMBED)
        layer = layer_of(served, body.layer)
        costs = await site.fitting(served, body.inputs)
        rows = await site.compute(served, work.embed_parts, body.inputs, costs, "word", layer)
        whole, _ = await embedded(site, served, body.inputs, truncate=True)
        first, second = shaped(whole, True)
        ours, theirs = (shaped(each, True) for each in rows)
        places = await site.read(sum(map(len, body.inputs)), _places, served, body.inputs)
        return answer({"words": places, "similarity": ours @ theirs.T, "sentence": float(first @ second)})

    return router


def layer_of(served: Served, layer: int | None) -> int:
    """The layer asked for, by default the last."""
    depth = served.predictor.config.layers
    if layer is None or layer in (-1, depth):
        return -1
    if served.onnx or not 0 <= layer <= depth:
        raise invalid(f"layer: {served.name} has {'its last layer only' if served.onnx else f'0 to {depth}'}")
    return layer


def _scored(score: Score) -> dict[str, Any]:
    tokens = [
        {"token": t.piece, "start": t.start, "end": t.end, "log_probability": t.log_probability}
        for t in score.tokens
    ]
    return {
        "log_probability": score.log_probability,
        "pseudo_perplexity": score.perplexity,
        "tokens": tokens,
    }


def _places(served: Served, texts: list[str]) -> list[list[dict[str, Any]]]:
    """The words that have vectors, with where they stand."""
    found = []
    for text, encoding in zip(texts, served.predictor.inputs.encode(texts), strict=True):
        mine = []
        for word in np.unique(encoding.words[encoding.words >= 0]):
            offsets = encoding.offsets[encoding.words == word]
            start, end = int(offsets[:, 0].min()), int(offsets[:, 1].max())
            mine.append({"text": text[start:end], "start": start, "end": end})
        found.append(mine)
    return found
