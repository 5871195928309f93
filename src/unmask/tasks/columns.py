"""Which column of a table holds what: as the user says, else by the names such columns usually have."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from unmask.errors import InputError
from unmask.tasks.examples import Target, TextExample
from unmask.text.columns import TEXT, is_made, listed, no_column, not_text, parts_of, text_in, usual_column

TextTask = Literal["classify", "pair", "regress"]

_PAIR = (
    "pair", "sentence2", "text2", "hypothesis", "question2", "#2 string", "h", "texto2", "frase2", "hipótese",
    "hipotese",
)  # fmt: skip
_CLASS = (
    "label", "labels", "class", "category", "target", "gold_label", "sentiment", "polarity", "quality",
    "entailment", "sense", "classe", "categoria", "rótulo", "rotulo", "sentimento", "polaridade", "sentido",
)  # fmt: skip
_NUMBER = ("score", "similarity", "value", "rating", "stars", "label", "target", "nota", "valor")
_AS_IS = "name it as it stands there"


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns, or their numbers from 1 in a file without a header; None: by their usual names.

    A text may be made of several columns: `{title}: {body}` has the values of both.
    """

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    labels: tuple[str, ...] = ()
    """One column for each of several classes; a text is of those where the number is above 0."""
    learnt: tuple[str, ...] = ()
    """Which of text and pair were not said, but are what the model learnt from."""

    @property
    def said(self) -> list[str]:
        """Every column that was said, those that a text is made of one by one."""
        texts = [name for said in (self.text, self.pair) if said is not None for name in parts_of(said)]
        return [*texts, *([] if self.label is None else [self.label]), *self.labels]

    @property
    def numbered(self) -> bool:
        """Every column that was said is a number."""
        return bool(self.said) and all(name.isdigit() for name in self.said)

    @property
    def templates(self) -> tuple[str | None, str | None]:
        """The text and the pair, where they are made of several columns."""
        text, pair = (said if said and is_made(said) else None for said in (self.text, self.pair))
        return text, pair

    def else_learnt(self, text: str | None, pair: str | None) -> "Columns":
        """What was said; where nothing was, what the model's texts were made of."""
        learnt = {
            role: made
            for role, made in (("text", text), ("pair", pair))
            if made is not None and getattr(self, role) is None
        }
        text, pair = learnt.get("text", self.text), learnt.get("pair", self.pair)
        return replace(self, text=text, pair=pair, learnt=tuple(learnt))


USUAL = Columns()


def is_header(first: Sequence[str], columns: Columns) -> bool:
    """Whether the first row holds the names of the columns."""
    if not columns.numbered or set(columns.said) <= set(first):
        return True
    place = 0 if columns.text is None else int(parts_of(columns.text)[0])
    if 0 < place <= len(first) and first[place - 1].strip().lower() in TEXT:
        raise InputError(
            f"the first row names its columns ({listed(first)}): say them by name, for example "
            f"--text-column {first[place - 1].strip()}; numbers are for files without a header"
        )
    return False


def resolve(there: Sequence[str], task: TextTask, columns: Columns, place: str, labelled: bool) -> Columns:
    """The columns to read among those that are there."""
    text = _find(there, columns, "text", TEXT, place)
    wanted = columns.pair is not None or task == "pair"
    pair = (
        _find(there, columns, "pair", _PAIR, place, needed=wanted) if task != "classify" or wanted else None
    )
    label = None
    labels = columns.labels if labelled else ()
    for name in labels:
        _check(there, name, place)
    if labelled and not labels:
        label = _find(there, columns, "label", _NUMBER if task == "regress" else _CLASS, place)
    if label is not None and label in (text, pair):
        raise InputError(f"{place}: the column {label} cannot be a text and its label: name two columns")
    return Columns(text, pair, label, labels)


def _find(
    there: Sequence[str], columns: Columns, what: str, usual: Sequence[str], place: str, needed: bool = True
) -> str | None:
    said: str | None = getattr(columns, what)
    if said is not None:
        learnt = f"the model learnt from {said}: say with --{what}-column what to read here"
        remedy = learnt if what in columns.learnt else _AS_IS
        for name in [said] if what == "label" else parts_of(said, there):
            _check(there, name, place, remedy)
        return said
    found = usual_column(there, usual)
    if found is None and needed:
        raise InputError(
            f"{place}: which column holds the {what}? It has {listed(there)}; say it with --{what}-column,"
            " by name, or by number (from 1) if the file has no header"
        )
    return found


def _check(there: Sequence[str], name: str, place: str, remedy: str = _AS_IS) -> None:
    if name not in there:
        raise no_column(there, name, place, remedy)


def text_example(
    row: Mapping[str, Any], task: TextTask, columns: Columns, place: str, comma: bool = False
) -> TextExample:
    """The example in a row, whose columns were resolved; numbers may have a decimal comma if `comma`."""
    assert columns.text is not None
    target: Target = None
    if columns.label is not None:
        value = row.get(columns.label)
        target = _number(value, place, comma) if task == "regress" else _classes(value, place)
    elif columns.labels:
        target = tuple(name for name in columns.labels if _number(row.get(name), place, comma) > 0)
    pair = None if columns.pair is None else _text(row, columns.pair, place)
    return TextExample(_text(row, columns.text, place), pair, target, place)


def _text(row: Mapping[str, Any], column: str, place: str) -> str:
    """An example is whole: none of its parts may be missing."""
    for name in parts_of(column, row):
        if row.get(name) is None:
            raise not_text(None, name, place)
    return text_in(row, column, place)


def _number(value: Any, place: str, comma: bool) -> float:
    decimal = comma and isinstance(value, str) and "." not in value
    try:
        number = float(value.replace(",", ".") if decimal else value)
    except (TypeError, ValueError):
        raise InputError(f"{place}: {str(value)[:40]!r} is no number; write it like 4.5") from None
    if not math.isfinite(number):
        raise InputError(f"{place}: {value} is no finite number; remove the row or mend it")
    return number


def _classes(value: Any, place: str) -> str | tuple[str, ...]:
    """One class, or a tuple of them if the value is a list or has `|` between them."""
    if isinstance(value, list):
        return tuple(class_name(each) for each in value)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise InputError(f"{place}: the label is missing; remove the row or mend it")
    if isinstance(value, str) and "|" in value:
        return tuple(part.strip() for part in value.split("|") if part.strip())
    return class_name(value)


def class_name(value: Any) -> str:
    """A class as it is written: numbers alike in every format."""
    if isinstance(value, bool):
        return str(value).lower()  # as .jsonl has it
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
