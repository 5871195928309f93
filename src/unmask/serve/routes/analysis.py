"""What a model sees in a text: likelihood, words compared, attention, what decided a word."""

import base64
import math
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from unmask.analyse.attention import AttentionMaps
from unmask.analyse.senses import Senses
from unmask.analyse.uses import find_uses, forms_of
from unmask.predict import Score
from unmask.predict.inputs import as_list, with_own_mask
from unmask.serve import work
from unmask.serve.bodies import AttentionBody, AttributionBody, ScoreBody, SensesBody, WordsBody
from unmask.serve.errors import invalid, too_large
from unmask.serve.models import EMBED, FILL, Served, can_score
from unmask.serve.routes import answer, documented
from unmask.serve.site import Site
from unmask.serve.tasks import embedded, shaped

_SCORED = {"log_probability": -9.1, "pseudo_perplexity": 6.2, "tokens": [
    {"token": "river", "start": 4, "end": 9, "log_probability": -2.3}]}  # fmt: skip
_COMPARED = {"words": [[{"text": "river", "start": 4, "end": 9}], [{"text": "rio", "start": 2, "end": 5}]],
             "similarity": [[0.7]], "sentence": 0.8, "standardised": False}  # fmt: skip

_ATTENTION = {"tokens": [{"text": "river", "start": 4, "end": 9, "special": False}], "layers": 1, "heads": 1,
              "weights": "ADw=", "summary": [[{"entropy": 0.0}]], "rollout": [[1.0]]}  # fmt: skip
_ATTRIBUTED = {"target": "river", "probability": 0.4, "completeness_error": 0.001,
               "tokens": [{"text": "rose", "start": 11, "end": 15, "score": 1.2}]}  # fmt: skip
_WEIGHTS = 1 << 24
"""Attention weights in one answer: 45 MB."""
_ROLLOUT = 4
"""Rollout is written in digits: it takes as much as some heads."""
_WEIGHTS_PER_TOKEN = 256
"""Weights are held until they are sent, so that they count as so many tokens in the queue."""
_COSINES = 1 << 22
"""Cosines of words in one answer: 45 MB."""
_SENSES = {"uses": [{"text": "The river rose.", "start": 4, "end": 9, "x": 0.1, "y": 0.4, "sense": 0,
                    "nearest": [1]}],
           "senses": [{"name": ["stream"], "size": 1, "examples": [0]}], "silhouette": None}  # fmt: skip
_USES = 1000
_READINGS = 2
"""Each use is read for its vector and for what could stand in its place."""
_STEPS = 512
"""Passes through a text that an attribution takes, roughly."""


def routes(site: Site) -> APIRouter:
    """`/score`, `/words`, `/attention`, `/attribution`, `/senses`."""
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
        if costs[0] * costs[1] > _COSINES:
            raise too_large(
                f"texts of {costs[0]} and {costs[1]} tokens have too many pairs of words to send: at most "
                f"{_COSINES} go in an answer, so shorten one"
            )
        rows = await site.compute(served, work.embed_parts, body.inputs, costs, "word", layer)
        whole, _ = await embedded(site, served, body.inputs, truncate=True)
        first, second = shaped(whole, True)
        ours, theirs = (shaped(each, True) for each in rows)
        places = await site.read(sum(map(len, body.inputs)), _places, served, body.inputs)
        return answer(
            {
                "words": places,
                "similarity": ours @ theirs.T,
                "sentence": float(first @ second),
                "standardised": served.standardiser("word", layer) is not None,
            }
        )

    @router.post("/attention", responses=documented(_ATTENTION))
    async def attention(body: AttentionBody) -> Response:
        """Weights of every head (float16 in base64: layers, heads, tokens, tokens), their habits, rollout."""
        served = site.model(body.model, lambda model: not model.onnx, "attention")
        maps, size = await _read_attention(site, served, body.inputs)
        return await site.read(size, lambda: answer(_maps(maps)))

    @router.post("/attribution", responses=documented(_ATTRIBUTED))
    async def attribution(body: AttributionBody) -> Response:
        """How much each word raised or lowered the log-probability of a word at a mask."""
        served = site.for_task(body.model, FILL)
        text = with_own_mask(body.inputs, served.predictor.tokenizer)
        (length,) = await site.fitting(served, [text])
        asked = (text, body.mask, body.target)
        (found,) = await site.compute(served, work.attribution, [asked], [_STEPS * length])
        names = ("target", "probability", "completeness_error")
        parts = {"tokens": [asdict(t) for t in found.tokens], "words": [asdict(w) for w in found.words]}
        return answer({name: getattr(found, name) for name in names} | parts)

    @router.post("/senses", responses=documented(_SENSES))
    async def find_senses(body: SensesBody) -> Response:
        """The uses of a word in some texts, on a map and grouped into senses."""
        served = site.for_task(body.model, EMBED)
        layer = layer_of(served, body.layer)
        senses = await _find_senses(site, served, body, layer)
        return answer(
            {
                "uses": [asdict(use) for use in senses.uses],
                "senses": [asdict(sense) for sense in senses.senses],
                "silhouette": senses.silhouette,
            }
        )

    return router


def layer_of(served: Served, layer: int | None) -> int:
    """The layer asked for, by default the last."""
    depth = served.predictor.config.layers
    if layer is None or layer in (-1, depth):
        return -1
    if served.onnx or not 0 <= layer <= depth:
        raise invalid(f"layer: {served.name} has {'its last layer only' if served.onnx else f'0 to {depth}'}")
    return layer


async def _read_attention(site: Site, served: Served, text: str) -> tuple[AttentionMaps, int]:
    """What every head looks at, and the size of the answer that says it, in weights."""
    text = with_own_mask(text, served.predictor.tokenizer)
    (length,) = await site.fitting(served, [text])
    config = served.predictor.config
    heads = config.layers * config.heads + _ROLLOUT
    if length > (longest := math.isqrt(_WEIGHTS // heads)):
        raise too_large(
            f"a text of {length} tokens has too many attention weights to send: {served.name} shows those of "
            f"at most {longest}, so shorten it"
        )
    size = heads * length**2
    cost = max(length, size // _WEIGHTS_PER_TOKEN)
    (maps,) = await site.compute(served, work.attention, [text], [cost])
    return maps, size


async def _find_senses(site: Site, served: Served, body: SensesBody, layer: int) -> Senses:
    (word,) = forms = forms_of(body.word)
    lengths = await site.lengths(served, body.inputs)
    uses = list(islice(find_uses(body.inputs, forms), _USES + 1))
    if not uses:
        raise invalid(f"there is no {word} in the texts: check the spelling, or send other texts")
    if len(uses) > _USES:
        raise too_large(f"there are too many uses of {word}: at most {_USES} are compared")
    site.check_size(sum(len(use.text) for use in uses))
    tokens = dict(zip(body.inputs, lengths, strict=True))
    cost = sum(_READINGS * min(tokens[use.text], served.longest) for use in uses)
    asked = work.Uses(word, uses, body.senses, layer)
    (senses,) = await site.compute(served, work.senses, [asked], [cost])
    found: Senses = senses
    return found


def _maps(maps: AttentionMaps) -> dict[str, Any]:
    layers, heads = maps.weights.shape[:2]
    packed = base64.b64encode(maps.weights.astype("<f2").tobytes()).decode()
    shared = ("entropy", "distance", "previous", "next", "first", "separator")
    return {
        "tokens": [
            {"text": t.text, "start": t.start, "end": t.end, "special": t.special} for t in maps.tokens
        ],
        "layers": layers,
        "heads": heads,
        "weights": packed,
        "summary": [
            [{name: getattr(head, name) for name in shared} | {"self": head.itself} for head in block]
            for block in maps.heads
        ],
        "rollout": maps.rollout.astype(np.float32),
    }


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
