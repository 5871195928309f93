"""The one place where the backend's failures become errors with a message."""

from collections.abc import Iterator
from contextlib import contextmanager

from unmask.errors import InputError, ModelError, UserError


@contextmanager
def backend_errors(doing: str, error: type[UserError] = ModelError) -> Iterator[None]:
    """Turn whatever the `tokenizers` library raises into one line; `doing` begins it."""
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except (TypeError, UnicodeError) as problem:
        raise InputError(f"{doing}: not valid text ({_first_line(problem)})") from problem
    except BaseException as problem:  # a panic of the Rust side is no `Exception`
        raise error(f"{doing}: {_first_line(problem)}") from problem


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
