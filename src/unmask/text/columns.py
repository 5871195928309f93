"""Which column of a table holds the text: the one that is named, else one with a usual name.

A text may be made of several columns: `{title}: {body}` has the values of both.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from unmask.errors import InputError

TEXT = (
    "text", "sentence", "review", "content", "comment", "tweet", "document", "body", "message", "sentence1",
    "text1", "premise", "question1", "#1 string", "t", "texto", "frase", "comentário", "comentario",
    "premissa",
)  # fmt: skip
_NAMED = re.compile(r"\{([^{}]+)\}")


def is_made(said: str) -> bool:
    """Whether a text is said to be made of columns, and not the name of one."""
    return bool(_NAMED.search(said))


def parts_of(said: str, there: Collection[str] = ()) -> list[str]:
    """The columns that a text is made of; a name as it stands there is one."""
    return [said] if said in there else _NAMED.findall(said) or [said]


def text_in(row: Mapping[str, Any], said: str, place: str) -> str:
    """The text of a row, as said; null counts as empty, and of empty columns alone none is made."""
    if said in row or not is_made(said):
        value = row.get(said)
        if value is not None and not isinstance(value, str):
            raise not_text(value, said, place)
        return value or ""
    written = {name: _written(row.get(name), name, place) for name in parts_of(said)}
    filled = any(value.strip() for value in written.values())
    return _NAMED.sub(lambda found: written[found[1]], said) if filled else ""


def _written(value: Any, column: str, place: str) -> str:
    """A value within a text, where a number says something; of numbers, what is missing is NaN."""
    if isinstance(value, list | dict | bytes):
        raise not_text(value, column, place)
    return "" if value is None or value != value else str(value)


def usual_column(there: Iterable[str], names: Sequence[str] = TEXT) -> str | None:
    """The first of these names that a column has, in any case."""
    lower = {name.lower().strip(): name for name in reversed(list(there))}
    return next((lower[name] for name in names if name in lower), None)


def text_column(there: Sequence[str], named: str, place: str, remedy: str) -> str:
    """The column named; where there is no `text`, which is only the default, one with a usual name."""
    missing = [name for name in parts_of(named, there) if name not in there]
    if not missing:
        return named
    if is_made(named):
        raise no_column(there, missing[0], place, remedy)
    found = usual_column(there) if named == TEXT[0] else None
    if found is None:
        raise no_column(there, named, place, remedy)
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
