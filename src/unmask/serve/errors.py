"""What a client is told when a request cannot be answered."""

from collections.abc import Mapping, Sequence
from typing import Any


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


def too_large(message: str) -> ApiError:
    """A limit was passed; the message names it."""
    return ApiError(413, "limit", message)


def invalid(message: str) -> ApiError:
    """The request can be read, but not followed."""
    return ApiError(422, "validation", message)


def first_problem(errors: Sequence[Mapping[str, Any]], body: object = None) -> str:
    """The first of pydantic's findings in one line, without the user's text."""
    problem = errors[0]
    if problem["type"] == "json_invalid" and isinstance(body, str):
        return _no_json(problem["ctx"]["error"], body, problem["loc"][-1])
    place = [str(part) for part in problem["loc"] if part != "body"][:4]
    return f"{'.'.join(place) or 'the body'}: {problem['msg']}"


def _no_json(reason: str, body: str, at: int) -> str:
    line, column = body.count("\n", 0, at) + 1, at - body.rfind("\n", 0, at)
    return f"the body is no JSON: {reason.removesuffix(' at')} (line {line}, column {column})"
