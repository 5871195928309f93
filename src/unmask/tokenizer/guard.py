"""The one place where the backend's failures become errors with a message."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from unmask.errors import InputError, ModelError, UserError
from unmask.text.stream import HALF, HALF_SAID


@contextmanager
def backend_errors(
    doing: str, error: type[UserError] = ModelError, texts: Sequence[object] = ()
) -> Iterator[None]:
    """Turn whatever the `tokenizers` library raises into one line; `doing` begins it.

    Of the `texts` it was given, each perhaps a tuple of them, the first that is none is named.
    """
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except (TypeError, UnicodeError) as problem:
        line = _no_text(texts) or f"{doing}: not valid text ({_first_line(problem)})"
        raise InputError(line) from problem
    except BaseException as problem:  # a panic of the Rust side is no `Exception`
        raise error(f"{doing}: {_first_line(problem)}") from problem


def _no_text(texts: Sequence[object]) -> str:
    for number, text in enumerate(texts, 1):
        which = f"text {number}" if len(texts) > 1 else "the text"
        for part in text if isinstance(text, tuple) else (text,):
            if not isinstance(part, str):
                return f"{which} holds {str(part)[:40]}, not text"
            if HALF.search(part):
                return f"{which} {HALF_SAID}"
    return ""


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
