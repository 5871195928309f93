"""What a client is told when a request cannot be answered."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_TYPE = re.compile(r"str|[A-Z]\w*|.*\[.*")
"""How pydantic names the members of a union within a place; no key of ours is written so."""


class ApiError(Exception):
    """An answer other than 200: its status, a word for programs and a line for people."""

    def __init__(
        self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message
        self.headers = dict(headers or {})

    def body(self, path: str) -> dict[str, Any]:
        """As OpenAI shapes it on its routes; elsewhere as text-embeddings-inference and Hugging Face do."""
        if path.startswith("/v1/"):
            error = {"message": self.message, "type": self.kind, "param": None, "code": self.status}
            return {"error": error}
        return {"error": self.message, "error_type": self.kind}


FAULT = ApiError(500, "internal", "a fault of the server; its log says where")
ENDING = ApiError(503, "unhealthy", "the server is shutting down", {"retry-after": "5"})


def too_large(message: str) -> ApiError:
    """A limit was passed; the message names it."""
    return ApiError(413, "limit", message)


def invalid(message: str) -> ApiError:
    """The request can be read, but not followed."""
    return ApiError(422, "validation", message)


def first_problem(errors: Sequence[Mapping[str, Any]], body: object = None) -> str:
    """The first of pydantic's findings in one line, without the user's text."""
    first = errors[0]
    if first["type"] == "json_invalid" and isinstance(body, str):
        return _no_json(first["ctx"]["error"], body, first["loc"][-1])
    # Of a union there is one for each member: that which fitted best went deepest.
    problem = max((each for each in errors if _key(each) == _key(first)), key=lambda each: len(_place(each)))
    place = ".".join(_place(problem))
    if not place or problem["type"] in ("model_type", "model_attributes_type"):
        return f"{place or 'the body'} must be a JSON object"
    return f"{place}: {problem['msg']}"


def unreadable(reason: BaseException | None, body: bytes) -> str:
    """Why a body that may be JSON could not be read, and what to send."""
    if isinstance(reason, UnicodeDecodeError):
        return f"the body is no text in UTF-8 (byte {reason.start + 1}): send JSON in UTF-8"
    if isinstance(reason, RecursionError):
        return "the body is nested too deeply: send texts, or lists of them"
    text, most = body.decode("utf-8", "replace"), sys.get_int_max_str_digits()
    if isinstance(reason, ValueError) and (number := re.search(rf"[0-9]{{{most + 1},}}", text)):
        place = _line_and_column(text, number.start())
        return f"a number has {len(number[0])} digits ({place}): send a shorter one, or text in quotes"
    return "the body cannot be read: send a JSON object"


def _place(problem: Mapping[str, Any]) -> list[str]:
    """The keys that lead to a value, without the types it might have had."""
    parts = [str(part) for part in problem["loc"] if part != "body"]
    return [part for part in parts if not _TYPE.fullmatch(part)][:4]


def _key(problem: Mapping[str, Any]) -> list[str]:
    return _place(problem)[:1]


def _no_json(reason: str, body: str, at: int) -> str:
    return f"the body is no JSON: {reason.removesuffix(' at')} ({_line_and_column(body, at)})"


def _line_and_column(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"
