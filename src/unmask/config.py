"""The recipe: everything that decides a result, as frozen sections read from and written to TOML.

A recipe file is a short difference from the defaults below. `--set section.key=value` changes one value.
A key that does not exist is an error that names the one that was meant.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unmask.errors import ConfigError
from unmask.files import write_atomic

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A frozen group of settings; the docstring below each field is its documentation."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class TextConfig(Section):
    """How raw files become clean documents."""

    documents: Literal["block", "line", "file"] = "block"
    """What a document is in a .txt file: a block between blank lines, a line, or the whole file."""
    column: str = "text"
    """The column (csv, tsv, parquet) or key (jsonl) that holds the text."""
    language_column: str | None = None
    """The column or key that holds the language, if the rows carry one."""
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"
    """Unicode normalisation."""
    fix_mojibake: bool = False
    """Repair text that was decoded with the wrong encoding (ftfy); slow, so it is asked for."""
    min_chars: Count = 1
    """Shorter documents are dropped, counted as `short`."""
    max_chars: Positive = 10_000_000
    """Longer documents are dropped, counted as `long`."""
    min_letters: Share = 0.0
    """Documents with fewer letters among their non-space characters are dropped, counted as `letters`."""


class TokenizerConfig(Section):
    """How a vocabulary is trained."""

    kind: Literal["wordpiece", "unigram", "bpe"] = "wordpiece"
    """WordPiece (BERT), Unigram LM (XLM-RoBERTa) or byte-level BPE (RoBERTa)."""
    vocab_size: Positive = 32_000
    """Entries in all, special tokens included."""
    lowercase: bool = False
    """Fold case before anything else."""
    strip_accents: bool = False
    """Remove accents before anything else."""
    min_frequency: Positive = 2
    """A pair (WordPiece, BPE) seen fewer times is not joined."""
    special: Literal["bert", "roberta"] | None = None
    """`[CLS] [SEP] …` or `<s> </s> …`; by default what the kind's own family uses."""


class PrepareConfig(Section):
    """How clean documents become token shards."""

    valid: Share = 0.005
    """Share of the documents held out for validation, by hash of their text."""
    test: Share = 0.005
    """Share held out for the final test, likewise."""
    deduplicate: bool = True
    """Drop documents whose cleaned text was seen before, counted as `duplicate`."""
    shard_tokens: Positive = 1 << 24
    """A shard is closed when it holds this many tokens."""


class Recipe(Section):
    """A whole run, from raw text to a trained model."""

    seed: Count = 0
    """Every random choice follows from this number."""
    text: TextConfig = TextConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    prepare: PrepareConfig = PrepareConfig()


def load_recipe(path: Path | None = None, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe (the defaults, without a path) and apply `section.key=value` changes in order."""
    values = _read_toml(path) if path else {}
    for change in changes:
        _apply(values, change)
    return _validate(values, str(path) if path else "--set")


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe as run; reading it back gives the same one."""
    import tomli_w

    write_atomic(path, tomli_w.dumps(recipe.model_dump(mode="json", exclude_none=True)))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no recipe at {path}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; name the recipe file in it") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _apply(values: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {change}: write it as section.key=value, for example text.min_chars=20")
    *sections, last = key.strip().split(".")
    for name in sections:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            raise ConfigError(f"--set {change}: {name} is a value, not a section")
    try:
        values[last] = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        values[last] = text.strip()


def _validate(values: Mapping[str, Any], origin: str) -> Recipe:
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{origin}: " + "; ".join(map(_explain, error.errors()))) from None


def _explain(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, list(known_keys()), n=1, cutoff=0.5)
        return f"there is no {key}" + (f"; did you mean {close[0]}?" if close else "")
    return f"{key}: {problem['msg'].lower()} (got {problem['input']!r})"


def known_keys(section: type[BaseModel] = Recipe, prefix: str = "") -> Iterator[str]:
    """Every dotted key a recipe may hold."""
    for name, field in section.model_fields.items():
        inner = [t for t in (field.annotation, *get_args(field.annotation)) if _is_section(t)]
        yield prefix + name
        if inner:
            yield from known_keys(inner[0], f"{prefix}{name}.")


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)
