"""Which column of a table holds the text: the one that is named, else one with a usual name."""

import difflib
from collections.abc import Iterable, Sequence

from unmask.errors import InputError

TEXT = (
    "text", "sentence", "review", "content", "comment", "tweet", "document", "body", "message", "sentence1",
    "text1", "premise", "question1", "#1 string", "t", "texto", "frase", "comentário", "comentario",
    "premissa",
)  # fmt: skip


def usual_column(there: Iterable[str], names: Sequence[str] = TEXT) -> str | None:
    """The first of these names that a column has, in any case."""
    lower = {name.lower().strip(): name for name in reversed(list(there))}
    return next((lower[name] for name in names if name in lower), None)


def text_column(there: Iterable[str], named: str, place: str, remedy: str) -> str:
    """The column named; where there is no `text`, which is only the default, one with a usual name."""
    if named in there:
        return named
    found = usual_column(there) if named == TEXT[0] else None
    if found is None:
        raise no_column(list(there), named, place, remedy)
    return found


def no_column(there: Sequence[str], named: str, place: str, remedy: str) -> InputError:
    """The error for a column that is not there."""
    close = difflib.get_close_matches(named, there, n=1)
    hint = f"did you mean {close[0]}? If not, {remedy}" if close else remedy
    return InputError(f"{place}: there is no column {named}, only {listed(there)}; {hint}")


def not_text(value: object, column: str, place: str) -> InputError:
    """The error for a row whose text is none; numbers of a .csv are text as they stand there."""
    return InputError(f"{place}: {column} holds {'no' if value is None else f'{str(value)[:40]}, not'} text")


def taken(place: str, column: str) -> str:
    """What is said of a column that was not named."""
    return f"{place}: the text is taken from the column {column}"


def listed(names: Sequence[str]) -> str:
    """Names of columns in a message."""
    return ", ".join(name[:30] or '""' for name in names[:20])
