"""Routes, one module per kind of client; each has `routes(site)`."""

from typing import Any

import orjson
from fastapi import Response


def answer(value: Any) -> Response:
    """A JSON answer; arrays are written as they are."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


def documented(example: Any, **errors: str) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI page says of a route's answers."""
    told = {"400": "empty or unreadable", "413": "a limit was passed", "422": "cannot be followed",
            "429": "too many requests wait"} | errors  # fmt: skip
    shape = {"application/json": {"example": {"error": "what is wrong", "error_type": "validation"}}}
    return {
        200: {"description": "found", "content": {"application/json": {"example": example}}},
        **{int(code): {"description": text, "content": shape} for code, text in told.items()},
    }
