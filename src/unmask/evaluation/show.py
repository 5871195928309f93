"""Scores for people: rows of a table, a page, and the section of a model's card."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unmask.charts import Chart, bars, lines
from unmask.evaluation.results import HEAD, SAMPLE, UNKNOWN_SHARE, UNWRITTEN, Differences, Result
from unmask.evaluation.statistics import Difference, Estimate
from unmask.files import write_atomic
from unmask.progress import counted
from unmask.report import Heading, Part, Table, write_page

SCORES = ("suite", "measure", "score", "95 % interval", "items")
_BEGIN = "<!-- scores by unmask evaluate: begin -->"
_END = "<!-- scores by unmask evaluate: end -->"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|.*\|$")
_BARS = 20
"""A chart of more groups than this would not be read."""
_LINES = 12
"""On a terminal more groups than these would push the scores out of sight."""
_MANY_UNKNOWN = 0.001


def score_rows(found: Sequence[Result]) -> list[tuple[str, ...]]:
    """One row per suite and measure."""
    return [
        (result.suite, name, number(score.value), interval(score), f"{score.items:,}")
        for result in found
        for name, score in result.scores.items()
    ]


def group_tables(found: Sequence[Result]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Of suites with some groups, but not too many for a terminal, a title, then the main score of each."""
    for result in found:
        for column, members in result.groups.items():
            if 1 < len(members) <= _LINES:
                yield f"{result.suite} by {column}", *_table(result, column, [result.measures[0].name])


def notes(found: Sequence[Result]) -> list[str]:
    """What has to be known to read the scores, each line with the suite before it."""
    return [f"{result.suite}: {note}" for result in found for note in _notes(result)]


def _notes(result: Result) -> Iterator[str]:
    details: Mapping[str, Any] = result.details
    if any(score.items == 1 for score in result.scores.values()):
        yield "a score of one item alone has no interval"
    if many := details.get(SAMPLE):
        yield f"a sample of at most {counted(many, 'item')} (--sample)"
    if (share := details.get(UNKNOWN_SHARE, 0)) > _MANY_UNKNOWN:  # easy to guess, and many bytes each
        yield f"{share:.1%} of the tokens are unknown to the vocabulary, which flatters these scores"
    if missing := details.get(UNWRITTEN):
        of = counted(result.main.items, "answer")
        yield f"the vocabulary cannot write {missing:,} of {of}, which count as wrong"
    if HEAD in details and "learned from" not in details:
        yield f"scored with {details[HEAD]}"
    for task, reason in details.get("tasks left out", {}).items():
        yield f"{task} is left out: {reason}"


def difference_table(found: Differences, names: tuple[str, str]) -> list[tuple[str, ...]]:
    """The names of the columns, then one row per suite and measure of two models."""
    rows = [
        (
            suite, name, number(one.first), number(one.second), number(one.value, sign=True), interval(one),
            f"{one.p:.4f}" if one.p >= 0.0001 else "< 0.0001",
        )
        for suite, measures in found.items()
        for name, one in measures.items()
    ]  # fmt: skip
    return [("suite", "measure", *names, "difference", "95 % interval", "p"), *rows]


def number(value: float, sign: bool = False) -> str:
    """Enough digits, never an exponent; a difference shows its sign."""
    shown = f"{value:+.4f}" if abs(value) < 100 else f"{value:+,.1f}"
    return shown if sign else shown.removeprefix("+")


def interval(score: Estimate | Difference) -> str:
    """From low to high."""
    return f"{number(score.low)} to {number(score.high)}"


def write_report(path: Path, model: str, found: Sequence[Result]) -> None:
    """A page with every suite's scores, by group, by layer."""
    parts: list[Part] = [f"Model: {model}. Intervals by bootstrap over the items."]
    parts.append(Table(SCORES, score_rows(found)))
    parts += notes(found)
    for result in found:
        parts += [
            Heading(result.suite),
            f"{counted(result.main.items, 'item')}. The whole suite: {result.about}. "
            f"Data: {result.source}; {result.licence}. {result.seconds:,.0f} s.",
        ]
        parts += [f"{name}: {value}" for name, value in result.details.items() if name != "layers"]
        parts += _layers(result)
        for column in result.groups:
            parts += _group(result, column)
    write_page(path, "Evaluation", parts)


def _group(result: Result, column: str) -> Iterator[Part]:
    members = result.groups[column]
    names = [measure.name for measure in result.measures]
    if len(members) <= _BARS:
        main = names[0]
        yield bars(f"{main} by {column}", main, {main: {v: s[main].value for v, s in members.items()}})
    yield Table(*_table(result, column, names))


def _table(result: Result, column: str, names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, then these scores of every group."""
    header = [column, *(head for name in names for head in (name, "95 % interval")), "items"]
    rows = [
        [
            value,
            *(cell for name in names for cell in (number(scores[name].value), interval(scores[name]))),
            f"{scores[names[0]].items:,}",
        ]
        for value, scores in result.groups[column].items()
    ]
    return header, rows


def _layers(result: Result) -> list[Chart]:
    layers = result.details.get("layers")
    if not layers:
        return []
    names = [name for name in layers[0] if name not in ("layer", "threshold")]
    series = {name: [(row["layer"], row[name]) for row in layers] for name in names}
    return [lines(f"{result.suite} by layer", "share", series, "layer", percent=True)]


def update_card(folder: Path, found: Sequence[Result]) -> None:
    """Put scores and notes into the marked section of a folder's README.md; other suites' lines are kept."""
    path = folder / "README.md"
    text = path.read_text("utf-8") if path.is_file() else ""
    before, begins, rest = text.partition(_BEGIN)
    inside, ends, after = rest.partition(_END)
    if begins and not ends:  # somebody removed the mark: everything that follows is theirs
        before, inside, after = text.replace(_BEGIN, ""), "", ""
    new = {row[:2]: f"| {' | '.join(row)} |" for row in score_rows(found)}
    suites = {result.suite for result in found}
    old = {
        match.groups(): line
        for line in inside.splitlines()
        if (match := _ROW.match(line)) and match[1] not in suites and match[1] != SCORES[0]
        and not match[1].startswith("-")
    }  # fmt: skip
    rows = [line for _, line in sorted((old | new).items(), key=lambda row: row[0][0])]
    head = [f"| {' | '.join(SCORES)} |", f"|{' --- |' * len(SCORES)}"]
    own = tuple(f"- {suite}: " for suite in suites)
    kept = [line for line in inside.splitlines() if line.startswith("- ") and not line.startswith(own)]
    told = sorted([*kept, *(f"- {note}" for note in notes(found))])
    section = "\n".join([_BEGIN, "## Scores", "", *head, *rows, "", *told, *([""] if told else []), _END])
    if not begins:
        before = before.rstrip("\n") + "\n\n" if before else ""
        after = "\n"
    write_atomic(path, before + section + after)
