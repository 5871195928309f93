"""OpenAI's embeddings."""

import base64
from typing import Any

import numpy as np
from fastapi import APIRouter, Response

from unmask.errors import InputError
from unmask.predict.inputs import as_list
from unmask.serve.bodies import OpenAIBody
from unmask.serve.errors import ApiError, invalid
from unmask.serve.models import EMBED
from unmask.serve.routes import answer, documented
from unmask.serve.site import Site
from unmask.serve.tasks import embedded, shaped

_EXAMPLE = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.6, 0.8]}],
    "model": "mini",
    "usage": {"prompt_tokens": 5, "total_tokens": 5},
}
_IDS = (
    "input: token numbers of another vocabulary would mean other words here; send text "
    "(langchain: OpenAIEmbeddings(check_embedding_ctx_length=False))"
)


def routes(site: Site) -> APIRouter:
    """`/v1/embeddings` and `/v1/models`."""
    router = APIRouter(tags=["OpenAI"])

    @router.post("/v1/embeddings", responses=documented(_EXAMPLE))
    @router.post("/embeddings", include_in_schema=False)
    async def embeddings(body: OpenAIBody) -> Response:
        """Vectors of length one."""
        served = site.for_task(body.model, EMBED)
        try:
            texts = as_list(body.input)
        except InputError:
            raise invalid(_IDS) from None
        if "" in texts:
            raise ApiError(400, "empty", f"input: text {texts.index('') + 1} is empty: leave it out")
        vectors, tokens = await embedded(site, served, texts, truncate=False)
        rows = shaped(vectors, True, body.dimensions)
        found: Any = map(_base64, rows) if body.encoding_format == "base64" else rows
        data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(found)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return answer({"object": "list", "data": data, "model": served.name, "usage": usage})

    @router.get("/v1/models", responses=documented({"object": "list", "data": []}))
    async def models() -> Response:
        """The models that are loaded."""
        return answer({"object": "list", "data": [_model(name) for name in site.models]})

    @router.get("/v1/models/{name}", responses=documented({"id": "mini", "object": "model"}))
    async def model(name: str) -> Response:
        """One of them."""
        return answer(_model(site.named(name).name))

    return router


def _base64(row: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(row, "<f4").tobytes()).decode()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "unmask"}
