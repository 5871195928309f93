"""Groups of settings: what all of them have in common, whatever they are about.

A section is frozen, read from keys and values and never guessed at: what is wrong is one line that names the
option which gave it, and a key that does not exist is answered with the one that was meant.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, NamedTuple, TypeGuard, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from unmask.errors import ConfigError

SET = "--set"
_SHOWN = 12  # keys of a section
UNREAD = "unread"  # what pydantic calls a problem of ours: a key that was said, and is not read
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1, le=1 << 24)]


_NO_NUMBER = PydanticCustomError("switch", "write a number, not true or false")


class Strict(BaseModel):
    """Values in which true and false are no numbers; pydantic takes them for 1 and 0."""

    @model_validator(mode="before")
    @classmethod
    def _no_switch(cls, values: Any) -> Any:
        wrong = [
            InitErrorDetails(type=_NO_NUMBER, loc=(name,), input=value)
            for name, value in (values.items() if isinstance(values, dict) else ())
            if name in cls.model_fields
            and _is_number(cls.model_fields[name].annotation)
            and _has_switch(value)
        ]
        if wrong:
            raise ValidationError.from_exception_data(cls.__name__, wrong)
        return values


def _is_number(annotation: Any) -> bool:
    """Whether numbers are taken there, and neither text nor true and false."""
    kinds = list(_kinds(annotation))
    return any(kind in kinds for kind in (int, float)) and not any(kind in kinds for kind in (bool, str, Any))


def _kinds(annotation: Any) -> Iterator[Any]:
    inner = get_args(annotation)
    yield from (kind for each in inner for kind in _kinds(each)) if inner else (annotation,)


def _has_switch(value: Any) -> bool:
    left = [value]  # a request may nest lists deeper than a function may call itself
    while left:
        each = left.pop()
        if isinstance(each, bool):
            return True
        if isinstance(each, list | tuple):
            left.extend(each)
    return False


class Section(Strict):
    """A frozen group of settings; the docstring below each field is its documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


AnySection = TypeVar("AnySection", bound=Section)
Needs = Mapping[str, tuple[str, Callable[[AnySection], object]]]
"""For keys that are not always read: when they are, in words, and whether it is so."""


class Change(NamedTuple):
    """A value for a dotted key (None restores the default), and the option that gave it."""

    option: str
    key: str
    value: Any

    def __str__(self) -> str:
        """The option as it was given."""
        value = "" if self.value is None else self.value
        return f"{SET} {self.key}={value}" if self.option == SET else f"{self.option} {value}"


def load_settings(section: type[AnySection], changes: Sequence[str | Change] = ()) -> AnySection:
    """A section that is no part of a recipe: its defaults with `key=value` changes in order."""
    values: dict[str, Any] = {}
    options = changed(values, changes)
    return checked(values, SET if SET in options.values() else "", section, options)


def unread(settings: AnySection, said: Iterable[str], needs: Needs[AnySection]) -> tuple[str, str] | None:
    """The first of the keys that were said and are not read, and what is wrong with it."""
    for key in said:
        need, there = needs.get(key, ("", bool))
        if need and not there(settings):
            return key, f"would change nothing, since it is read only {need}: leave it out"
    return None


def changed(
    values: dict[str, Any], changes: Sequence[str | Change], rivals: Collection[str] = ()
) -> dict[str, str]:
    """Change the values, in order and in place; which option gave which key.

    Of rivals one takes another's place.
    """
    given: dict[str, Change] = {}
    for each in changes:
        change = read_change(each) if isinstance(each, str) else each
        _check_agree(given.get(change.key), change)
        given[change.key] = change
        *sections, last = change.key.split(".")
        inner = values
        for name in sections:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{change.option} {change.key}: {name} is a value, not a section")
        if change.key in rivals and change.value is not None:
            for other in set(rivals) - given.keys():
                inner.pop(other.rpartition(".")[2], None)
        if change.value is None and not isinstance(inner.get(last), dict):  # a section is not emptied
            inner.pop(last, None)
        else:
            inner[last] = change.value
    said = [change for key, change in given.items() if key in rivals and change.value is not None]
    if len(said) > 1:
        raise ConfigError(f"{said[0]} and {said[1]} exclude each other: leave one of them out")
    return {key: change.option for key, change in given.items()}


def _check_agree(earlier: Change | None, change: Change) -> None:
    """`--set` may change its mind, but an option of its own for the same key must say the same."""
    if earlier and earlier.option != change.option and earlier.value != change.value:
        raise ConfigError(f"{earlier} and {change} are one setting with two values: leave one of them out")


def read_change(text: str) -> Change:
    """What `--set text` says."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{SET} {text}: write it as section.key=value, for example text.min_chars=20")
    return Change(SET, key.strip(), _read_value(value))


def _read_value(text: str) -> Any:
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text.strip() or None  # a word without quotes, or nothing


def checked(
    values: Mapping[str, Any],
    origin: str,
    section: type[AnySection],
    options: Mapping[str, str] | None = None,
) -> AnySection:
    """A section with these values; what is wrong is one line that names the option of each, or the origin.

    An option says by its name which value it is.
    """
    try:
        return section.model_validate(values)
    except ValidationError as error:
        told: dict[str, list[str]] = {}
        for problem, key in ((each, key) for each in error.errors() for key in _keys(each, section)):
            given = (option for name, option in (options or {}).items() if f"{key}.".startswith(f"{name}."))
            where = next(given, origin)
            own = where.startswith("--") and where != SET
            told.setdefault(where, []).append(_explain(problem, key, section, "" if own else f"{key}: "))
        raise ConfigError(
            "; ".join(f"{where}: {'; '.join(each)}".removeprefix(": ") for where, each in told.items())
        ) from None


def _keys(problem: Any, section: type[Section]) -> list[str]:
    """The dotted key a problem is about; of a section that does not exist, the key of each value in it."""
    known, parts = set(known_keys(section)), problem["loc"]
    key = ".".join(map(str, parts))
    if problem["type"] == "extra_forbidden":
        return list(leaves(key, problem["input"]))
    if parts and isinstance(parts[-1], str) and (owner := ".".join(map(str, parts[:-1]))) in known:
        return [owner]  # behind it stands which of several types was tried
    return [key]


def leaves(key: str, value: Any) -> Iterator[str]:
    """The dotted keys of all values in this one, which may be a section's."""
    if not isinstance(value, dict) or not value:
        yield key
        return
    for name, inner in value.items():
        yield from leaves(f"{key}.{name}", inner)


def _explain(problem: Any, key: str, section: type[Section], named: str) -> str:
    listed = _list_at(problem["loc"], section)
    if problem["type"] == "extra_forbidden":
        if not named:
            return "there is no such setting here"
        if listed:
            return f"there is no {key}; write the list like {listed}"
        keys = list(known_keys(section))
        close = close_keys(key, section) or difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
        return f"there is no {key}" + (f"; did you mean {' or '.join(close)}?" if close else "")
    if problem["type"] == UNREAD:
        return f"{key} {problem['msg']}" if named else str(problem["msg"])
    if problem["type"] == "value_error":  # one of our own checks, which says it all
        return f"{named}{problem['ctx']['error']}".removeprefix(": ")
    if listed and problem["type"] in ("tuple_type", "model_type"):
        return f"{named}write the list like {listed} (got {problem['input']!r})"
    if problem["type"] == "tuple_type" and isinstance(problem["input"], str | int | float):
        return f"{named}write a list, like {_as_list(problem['input'])} (got {problem['input']!r})"
    if problem["type"] == "model_type" and (below := keys_below(key, section)):
        more = ", …" if len(below) > _SHOWN else ""
        return f"{key} is a section, not a value: set one of its keys, {', '.join(below[:_SHOWN])}{more}"
    return f"{named}{problem['msg'].lower()} (got {problem['input']!r})"


def _as_list(value: str | float) -> str:
    """The list that may be meant by a value, or by several with commas between them."""
    parts = [_read_value(part) for part in str(value).split(",") if part.strip()]
    return json.dumps(parts, default=str, ensure_ascii=False)


def _list_at(place: Sequence[str | int], section: type[Section]) -> str | None:
    """How the list of sections is written that a problem is about or in; None: there is none."""
    key = ".".join(takewhile(lambda part: isinstance(part, str), place))  # type: ignore[arg-type]
    return list_form(key, section)


def list_form(key: str, section: type[Section]) -> str | None:
    """How the value of a key is written that is a list of sections; None: it is none."""
    annotation = dict(_fields(section)).get(key)
    inner = get_args(annotation)[0] if get_origin(annotation) is tuple else None
    return f"[{{{', '.join(f'{name}=…' for name in inner.model_fields)}}}, …]" if _is_section(inner) else None


def close_keys(key: str, section: type[Section]) -> list[str]:
    """The keys that may be meant by one that does not exist: of the same name elsewhere, or like it."""
    keys = list(known_keys(section))
    last = key.rpartition(".")[2]
    names = last, "".join(part[:1] for part in last.split("_"))  # learning_rate is lr
    namesakes = [known for known in keys if known.rpartition(".")[2] in names]
    return (
        difflib.get_close_matches(key, namesakes, n=1, cutoff=0.9)  # only the section is misspelt
        or namesakes
        or difflib.get_close_matches(key, keys, n=1, cutoff=0.6)
    )


def keys_below(key: str, section: type[Section]) -> list[str]:
    """The keys of the section that is named so; none if there is no such section."""
    return [known for known in known_keys(section) if known.startswith(f"{key}.")]


def known_keys(section: type[BaseModel]) -> Iterator[str]:
    """Every dotted key that may be given a value; a section is none."""
    return (key for key, _ in _fields(section))


def _fields(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every such key and its annotation."""
    for name, field in section.model_fields.items():
        if _is_section(field.annotation):
            yield from _fields(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field.annotation


def _is_section(annotation: Any) -> TypeGuard[type[Section]]:
    return isinstance(annotation, type) and issubclass(annotation, Section)
