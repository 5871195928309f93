"""Cloze facts (LAMA, ParaRel): does the model put the answer first?"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InputError
from unmask.evaluation.context import Context, rows
from unmask.evaluation.results import UNWRITTEN, Measure, Outcome
from unmask.evaluation.suites import FactsSuite
from unmask.predict.cloze import Cloze
from unmask.predict.inputs import MASKS

_AMONG = Measure("P@1 among answers", "mean", ("among",), macro="relation")
_OPEN = tuple(
    Measure(name, "ratio", (column, "open"))
    for name, column in (("P@1", "first"), ("P@10", "ten"), ("MRR", "reciprocal"))
)


@dataclass(frozen=True, slots=True)
class Fact:
    """An answer and the prompts that ask for it."""

    name: str
    relation: str
    prompts: tuple[str, ...]
    answer: str


def facts(context: Context, suite: FactsSuite) -> Outcome:
    """The answer's rank among the answers of its relation, and among all words if it is a single piece."""
    lm = context.subject.language_model
    relations: dict[str, list[Fact]] = {}
    choices: dict[str, set[str]] = {}
    found = read_facts(context, suite)
    for fact in found:  # of a sample too, the answer is chosen among those of the whole relation
        choices.setdefault(fact.relation, set()).add(fact.answer)
    for fact in context.some(found):
        relations.setdefault(fact.relation, []).append(fact)
    items: list[dict[str, Any]] = []
    several = False
    with context.progress.stage(context.found.name, len(relations), "relations") as stage:
        for relation, members in relations.items():
            answers = sorted(choices[relation])
            width = min(len(fact.prompts) for fact in members)
            several |= width > 1
            votes, ranks, sizes = [], [], []
            for phrasing in range(width):
                cloze = Cloze(lm, [fact.prompts[phrasing] for fact in members])
                votes.append([_best(row, answers) for row in cloze.score(answers)])
                ranks.append(cloze.ranks([fact.answer for fact in members]))
                sizes.append([len(cloze.pieces(place, fact.answer)) for place, fact in enumerate(members)])
            for number, fact in enumerate(members):
                chosen = [vote[number] for vote in votes]
                pieces = [size[number] for size in sizes]
                items.append(_item(fact, chosen, [rank[number] for rank in ranks], pieces))
            stage.advance(1)
    agreement = (Measure("agreement of phrasings", "mean", ("agree",), macro="relation"),) if several else ()
    split = sum(bool(item["written"] and not item["open"]) for item in items)
    unwritten = sum(not item["written"] for item in items)
    ranked = _OPEN if split + unwritten < len(items) else ()  # else no answer is a single piece
    return Outcome(
        items, (_AMONG, *ranked, *agreement), ("relation",),
        {"answers of several pieces, ranked among answers only": split, UNWRITTEN: unwritten},
    )  # fmt: skip


def read_facts(context: Context, suite: FactsSuite) -> list[Fact]:
    """The facts of all files, at most `limit` of a relation."""
    found: list[Fact] = []
    for name, path in context.files(suite.files):
        templates = None if suite.patterns is None else _templates(context, suite, path)
        table = rows(path, (suite.prompt, suite.answer), (suite.relation,), (suite.relation,))
        for number, (place, row) in enumerate(table):
            answer, subject = row[suite.answer], row[suite.prompt]
            prompts = [subject] if templates is None else [t.replace("[X]", subject) for t in templates]
            if templates is None and sum(map(subject.count, MASKS)) != 1:
                raise InputError(f"{place}: write one {MASKS[0]} in {suite.prompt}: {subject[:60]!r}")
            relation = row.get(suite.relation) or name
            found.append(Fact(f"{name}/{number}", relation, tuple(prompts), answer))
    if suite.limit is None:
        return found
    seen: dict[str, int] = {}
    kept = []
    for fact in found:
        seen[fact.relation] = seen.get(fact.relation, 0) + 1
        kept += [fact] if seen[fact.relation] <= suite.limit else []
    return kept


def _templates(context: Context, suite: FactsSuite, path: Path) -> list[str]:
    """The first phrasings of a relation, with a mask for the answer."""
    assert suite.patterns is not None
    by_relation = {file.stem: file for file in context.found.paths(suite.patterns)}
    if path.stem not in by_relation:
        raise InputError(f"{path}: there is no file of phrasings for {path.stem}")
    patterns: list[str] = [row["pattern"] for _, row in rows(by_relation[path.stem], ("pattern",))]
    return [pattern.replace("[Y]", MASKS[0]) for pattern in patterns[: suite.phrasings]]


def _best(scores: NDArray[np.float32], answers: Sequence[str]) -> str:
    """The likeliest answer; none where the vocabulary can write none."""
    return answers[int(scores.argmax())] if np.isfinite(scores).any() else ""


def _item(
    fact: Fact, chosen: Sequence[str], ranks: Sequence[int | None], pieces: Sequence[int]
) -> dict[str, Any]:
    """A fact's outcome: the mean over its phrasings, each with the answer's pieces (0: unknown there)."""
    known = [rank for rank in ranks if rank is not None]
    pairs = [one == other for one, other in combinations(chosen, 2)]
    return {
        "id": fact.name,
        "relation": fact.relation,
        "answer": fact.answer,
        "chosen": chosen[0],
        "among": float(np.mean([bool(name) and name == fact.answer for name in chosen])),
        "written": sum(map(bool, pieces)),
        "open": len(known),
        "first": sum(rank == 1 for rank in known),
        "ten": sum(rank <= 10 for rank in known),
        "reciprocal": sum(1 / rank for rank in known),
        "agree": float(np.mean(pairs)) if pairs else 1.0,
    }
