"""Pairs of sentences compared by pseudo-log-likelihood: minimal pairs and stereotype pairs."""

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from unmask.evaluation.context import Context, rows
from unmask.evaluation.results import Measure, Outcome
from unmask.evaluation.suites import BiasSuite, PairsSuite
from unmask.predict import Score


def minimal_pairs(context: Context, suite: PairsSuite) -> Outcome:
    """How often the good sentence is likelier; ties count as half."""
    found = [
        (path.stem, number, row)
        for pattern in suite.files
        for path in context.found.paths(pattern)
        for number, row in enumerate(rows(path, suite.good, suite.bad))
    ]
    asked = context.some(found)
    texts = [str(row[column]) for column in (suite.good, suite.bad) for *_, row in asked]
    scored = context.subject.language_model.score(texts, suite.method, progress=context.progress)
    margins = [
        good.log_probability - bad.log_probability
        for good, bad in zip(scored[: len(asked)], scored[len(asked) :], strict=True)
    ]
    items = [
        {"id": f"{name}/{number}", "set": name, "correct": _half_ties(margin), "margin": margin}
        | ({} if suite.phenomenon is None else {"phenomenon": str(row.get(suite.phenomenon, name))})
        for (name, number, row), margin in zip(asked, margins, strict=True)
    ]
    groups = ("set",) if suite.phenomenon is None else ("phenomenon", "set")
    return Outcome(items, (Measure("accuracy", "mean", ("correct",), macro="set"),), groups)


def bias(context: Context, suite: BiasSuite) -> Outcome:
    """How often the stereotype is likelier, by the tokens both sentences share, as CrowS-Pairs scores."""
    columns = (suite.stereotype, suite.antistereotype, suite.category)
    found = [
        (f"{path.stem}/{number}", row)
        for pattern in suite.files
        for path in context.found.paths(pattern)
        for number, row in enumerate(rows(path, *columns))
    ]
    asked = context.some(found)
    texts = [str(row[column]) for column in columns[:2] for _, row in asked]
    scored = context.subject.language_model.score(texts, "token", progress=context.progress)
    items = []
    for (name, row), one, other in zip(asked, scored[: len(asked)], scored[len(asked) :], strict=True):
        margin = shared_margin(one, other)
        items.append(
            {
                "id": name,
                "category": str(row[suite.category]),
                "preferred": _half_ties(margin),
                "margin": margin,
            }
        )
    return Outcome(items, (Measure("stereotype preferred", "mean", ("preferred",)),), ("category",))


def shared_margin(one: Score, other: Score) -> float:
    """How much likelier the first sentence makes the tokens that both have."""
    first, second = ([token.piece for token in score.tokens] for score in (one, other))
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    return sum(
        _total(one, range(block.a, block.a + block.size))
        - _total(other, range(block.b, block.b + block.size))
        for block in blocks
    )


def _total(score: Score, places: Sequence[int]) -> float:
    return sum(score.tokens[place].log_probability for place in places)


def _half_ties(margin: float) -> float:
    return float(np.sign(margin) + 1) / 2
