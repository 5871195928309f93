"""Suites: small TOML files that say what is measured, on which data, and where those come from."""

import difflib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from unmask.errors import ConfigError, InputError
from unmask.files import digest, file_digest
from unmask.sections import Positive, Section, Share
from unmask.tasks.settings import FinetuneConfig
from unmask.text.sources import FORMATS, split_suffix

FOLDER = Path(__file__).parent / "suites"
OWN_DATA = Path(__file__).parent / "data"


class _Common(Section):
    about: str
    """What it measures, in one line."""
    source: str
    """Where the data come from."""
    licence: str
    """The terms of the data."""
    own: bool = False
    """The data are part of unmask; not for suites of yours."""


class _Files(_Common):
    files: Annotated[tuple[str, ...], Field(min_length=1)]
    """Paths or globs, from the folder of the data (a suite of yours: from the folder of its file)."""


class MlmSuite(_Files):
    """Pseudo-perplexity per word and bits per byte; loss and accuracy on hidden tokens."""

    kind: Literal["mlm"]
    held_out: bool = False
    """Only documents that `unmask prepare` puts into the test split by default."""
    limit: Positive = 300
    """Passages to score."""
    chars: Positive = 300
    """Passages are whole sentences up to about so many characters, the same for every vocabulary."""
    ratio: Share = 0.15
    """Share of the tokens hidden at once, for the loss and the accuracy."""


class PairsSuite(_Files):
    """Minimal pairs: is the good sentence likelier than the bad one?"""

    kind: Literal["pairs"]
    good: str = "sentence_good"
    """The column of the good sentence."""
    bad: str = "sentence_bad"
    """The column of the bad sentence."""
    phenomenon: str | None = None
    """The column that gathers several sets (files) under one name."""
    method: Literal["word-l2r", "token"] = "word-l2r"
    """Which tokens are hidden with one that is asked for: the later pieces of its word, or none."""


class BiasSuite(_Files):
    """Stereotype pairs: how often is the stereotyping sentence likelier?"""

    kind: Literal["bias"]
    stereotype: str = "stereotype"
    """The column of the stereotyping sentence."""
    antistereotype: str = "antistereotype"
    """The column of the other sentence."""
    category: str = "category"
    """The column of what the stereotype is about."""


class FactsSuite(_Files):
    """Cloze facts: is the answer the likeliest word?"""

    kind: Literal["facts"]
    prompt: str = "prompt"
    """The column of the question with its [MASK]; with `patterns`, of the subject, [X]."""
    answer: str = "answer"
    """The column of the answer."""
    relation: str = "relation"
    """The column of the relation; where there is none, it is the file's name."""
    patterns: str | None = None
    """Files of phrasings (`pattern`, with [X] and [Y]), one per file of facts, as ParaRel has them."""
    phrasings: Positive = 3
    """How many of those are asked."""
    limit: Positive | None = None
    """Facts per relation."""


class WicSuite(_Common):
    """Word in context: do two uses of a word share a sense, by the cosine of their vectors?"""

    kind: Literal["wic"]
    train: str
    """A glob that means two files, in this order: X.data.txt and X.gold.txt."""
    dev: str
    """The same, to score on."""


class Prompt(Section):
    """A cloze question and the word that stands for each label."""

    text: str
    """With {text}, {premise} where there is one, and [MASK]."""
    words: dict[str, str]


class ContrastSuite(_Files):
    """Small edits that flip the label: are both versions judged right?

    Rows have `task`, `text`, `label`, `edited`, `edited_label` and, of pairs, `premise`.
    """

    kind: Literal["contrast"]
    prompts: dict[str, Prompt]
    """For each task `text`, a prompt with {text}, {premise} and [MASK], and `words`, one for each label."""


class ProbeSuite(_Common):
    """Linear probes of every layer, with control tasks."""

    kind: Literal["probe"]
    train: str
    """A file of tagged words to learn from."""
    dev: str
    """The file to score on."""
    words: Positive = 10_000
    """Words to learn from, and at most so many to score on."""


class FinetuneSuite(_Common):
    """Fine-tune and score; a model that already has the right head is only scored."""

    kind: Literal["finetune"]
    train: str
    """The file to learn from."""
    dev: str | None = None
    """The file to score on; without one, a tenth of the other is held back by hash."""
    task: Literal["classify", "pair", "regress", "tag", "qa"]
    """As `unmask finetune` has them."""
    metric: Literal["accuracy", "matthews", "macro_f1", "pearson", "spearman"] | None = None
    """The score of classes or numbers that stands for the suite; tags and answers have their F1."""
    columns: dict[Literal["text", "pair", "label"], str] = Field(default_factory=dict)
    """Where the file's own names are not known; numbers from 1 without a header, `{a}: {b}` joins two."""
    examples: Positive = 10_000
    """At most so many are learned from."""
    scored: Positive = 2000
    """At most so many are scored on."""
    settings: FinetuneConfig = FinetuneConfig()
    """How it is trained: those of `unmask finetune --set`."""


class Collection(Section):
    """Several suites under one name."""

    kind: Literal["collection"]
    about: str
    """What they measure, in one line."""
    suites: tuple[str, ...]
    """Names of ours, or TOML files beside this one."""


Suite = MlmSuite | PairsSuite | BiasSuite | FactsSuite | WicSuite | ContrastSuite | ProbeSuite | FinetuneSuite
_ANY: TypeAdapter[Suite | Collection] = TypeAdapter(
    Annotated[Suite | Collection, Field(discriminator="kind")]
)


@dataclass(frozen=True, slots=True)
class Found:
    """A suite, its name, and the folders its paths start from, in the order in which they are tried."""

    name: str
    suite: Suite
    roots: tuple[Path, ...]

    def paths(self, pattern: str) -> list[Path]:
        """The files that a path or glob of the suite means, sorted."""
        given = Path(pattern)
        rest = "/".join(given.parts[given.is_absolute() :])
        for root in self.roots:
            start = Path(given.anchor) if given.is_absolute() else root
            found = sorted(path for path in start.glob(rest) if path.is_file()) if rest else []
            if found:
                return found
        where = " or ".join(str(root / pattern) for root in self.roots)
        raise InputError(
            f"{self.name}: there is no {where}; the data come from {self.suite.source}: "
            "put them there, or name the folder that holds them with --data"
        )

    def inputs(self) -> list[Path]:
        """Every file that the suite reads."""
        values = self.suite.model_dump()
        patterns = [*values.get("files", ()), *(values.get(key) for key in ("train", "dev", "patterns"))]
        return [path for pattern in patterns if pattern for path in self.paths(pattern)]

    def material(self, seed: int, sample: int | None = None) -> str:
        """A digest of what is measured: the suite, its data, the seed, and how many items at most."""
        asks = self.suite.model_dump_json(exclude={"about", "source", "licence"})
        asks += "" if sample is None else f" sample {sample}"
        # Results from before, of models that may have learned from what was scored, are of another question.
        asks += " unseen" if isinstance(self.suite, FinetuneSuite) else ""
        return digest(asks, str(seed), *map(file_digest, self.inputs()))

    def path(self, pattern: str) -> Path:
        """The one file that a path means."""
        return self.paths(pattern)[0]


def suite_names() -> list[str]:
    """The suites that come with unmask."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def data_folder(given: Path | None = None) -> Path:
    """Where benchmarks are: as given, else $UNMASK_DATA, else ../shared/data."""
    return given or Path(os.environ.get("UNMASK_DATA", Path("..") / "shared" / "data"))


def find_suites(asked: list[str], data: Path) -> list[Found]:
    """The suites meant: names of ours, TOML files, or text files (masked-LM scores on them), each once."""
    found: dict[str, Found] = {}
    for name in asked:
        for one in _find(name, data):
            if one.name in found and one != found[one.name]:
                raise ConfigError(f"two suites are called {one.name}: give one of the files another name")
            found[one.name] = one
    return list(found.values())


def _find(name: str, data: Path) -> list[Found]:
    path = Path(name)
    if path.suffix == ".toml":
        suite = read_suite(path)
        roots: tuple[Path, ...] = (path.parent, data)
    elif name in suite_names():
        path = FOLDER / f"{name}.toml"
        suite = read_suite(path)
        roots = (data,)
    elif path.is_file() and split_suffix(path)[0] in FORMATS:
        about = f"masked-LM scores on {path.name}"
        suite = MlmSuite(kind="mlm", about=about, source=str(path), licence="yours", files=(path.name,))
        roots = (path.parent,)
    else:
        close = difflib.get_close_matches(name, suite_names(), n=1)
        meant = f"; did you mean {close[0]}?" if close else "."
        raise ConfigError(
            f"there is no suite {name}{meant} Name a .toml or text file, or one of {', '.join(suite_names())}"
        )
    if isinstance(suite, Collection):
        return [one for member in suite.suites for one in _find(_beside(member, path), data)]
    return [Found(path.name.split(".")[0], suite, (OWN_DATA,) if suite.own else roots)]


def _beside(member: str, collection: Path) -> str:
    """A member that is a file stands beside its collection."""
    return str(collection.parent / member) if member.endswith(".toml") else member


def read_suite(path: Path) -> Suite | Collection:
    """A suite's file."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the suite {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    try:
        return _ANY.validate_python(values)
    except ValidationError as error:
        raise ConfigError(f"{path}: " + "; ".join(map(_explain, error.errors()))) from None


def _explain(problem: Any) -> str:
    if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
        kinds = problem["ctx"].get("expected_tags", "one of the kinds in docs/evaluation.md")
        return f"kind must be {kinds}"
    key = ".".join(str(part) for part in problem["loc"][1:])
    if problem["type"] == "extra_forbidden":
        return f"there is no {key} in a suite of kind {problem['loc'][0]}"
    if problem["type"] == "missing":
        return f"{key} is missing"
    return f"{key}: {problem['msg'].lower()} (got {problem['input']!r})"
