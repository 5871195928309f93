"""Pairs of sentences compared by pseudo-log-likelihood: minimal pairs and stereotype pairs."""

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

from unmask.errors import InputError
from unmask.evaluation.context import Context, rows
from unmask.evaluation.results import Measure, Outcome
from unmask.evaluation.suites import BiasSuite, PairsSuite
from unmask.predict import MaskedLM, Score
from unmask.predict.inputs import TooLongError


def minimal_pairs(context: Context, suite: PairsSuite) -> Outcome:
    """How often the good sentence is likelier; ties count as half."""
    groups = () if suite.phenomenon is None else (suite.phenomenon,)
    found = [
        (place, name, number, row)
        for name, path in context.files(suite.files)
        for number, (place, row) in enumerate(rows(path, (suite.good, suite.bad), groups, groups))
    ]
    asked = context.some(found, lambda one: repr(one[1:]))
    lm = context.subject.language_model
    texts = [row[column] for column in (suite.good, suite.bad) for *_, row in asked]
    _scored_tokens(lm, texts, [place for place, *_ in asked])
    scored = lm.score(texts, suite.method, progress=context.progress)
    margins = [
        good.log_probability - bad.log_probability
        for good, bad in zip(scored[: len(asked)], scored[len(asked) :], strict=True)
    ]
    items = [
        {"id": f"{name}/{number}", "set": name, "correct": _half_ties(margin), "margin": margin}
        | ({} if suite.phenomenon is None else {"phenomenon": row.get(suite.phenomenon) or name})
        for (_, name, number, row), margin in zip(asked, margins, strict=True)
    ]
    shown = ("set",) if suite.phenomenon is None else ("phenomenon", "set")
    return Outcome(items, (Measure("accuracy", "mean", ("correct",), macro="set"),), shown)


def bias(context: Context, suite: BiasSuite) -> Outcome:
    """How often the stereotype is likelier, by the tokens both sentences share, as CrowS-Pairs scores."""
    columns = (suite.stereotype, suite.antistereotype)
    found = [
        (place, f"{name}/{number}", row)
        for name, path in context.files(suite.files)
        for number, (place, row) in enumerate(rows(path, columns, (suite.category,)))
    ]
    asked = context.some(found, lambda one: repr(one[1:]))
    lm = context.subject.language_model
    texts = [row[column] for column in columns for *_, row in asked]
    tokens = _scored_tokens(lm, texts, [place for place, *_ in asked])
    for (place, *_), first, second in zip(asked, tokens[: len(asked)], tokens[len(asked) :], strict=True):
        if not first & second:  # a margin of 0 would count as no preference
            raise InputError(
                f"{place}: {columns[0]} and {columns[1]} share no token, and only shared ones are compared:"
                " mend the row or remove it"
            )
    scored = lm.score(texts, "token", progress=context.progress)
    items = []
    for (_, name, row), one, other in zip(asked, scored[: len(asked)], scored[len(asked) :], strict=True):
        margin = shared_margin(one, other)
        items.append(
            {
                "id": name,
                "category": row[suite.category],
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


def _scored_tokens(lm: MaskedLM, texts: Sequence[str], places: Sequence[str]) -> list[set[int]]:
    """The tokens of each text that a score is made of; `places` are those of the pairs."""
    try:
        encodings, where = lm.scored_places(texts)
    except TooLongError as error:
        raise error.at(places[error.number % len(places)]) from None
    found = [set(one.ids[spots].tolist()) for one, spots in zip(encodings, where, strict=True)]
    empty = next((number for number, tokens in enumerate(found) if not tokens), None)
    if empty is not None:
        said = f"{texts[empty][:40]!r} comes to no token that can be scored: mend the row or remove it"
        raise InputError(f"{places[empty % len(places)]}: {said}")
    return found


def _total(score: Score, places: Sequence[int]) -> float:
    return sum(score.tokens[place].log_probability for place in places)


def _half_ties(margin: float) -> float:
    return float(np.sign(margin) + 1) / 2
