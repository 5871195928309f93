"""SQuAD JSON, 1.1 and 2.0, and rows like it -> questions."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from unmask.errors import InputError
from unmask.tasks.examples import QuestionExample, Span
from unmask.text.sources import Source
from unmask.text.stream import decoded


def read_squad(source: Source, labelled: bool = True) -> Iterator[QuestionExample]:
    """The questions of a file, each with its context; one marked impossible has no answers."""
    try:
        content = json.loads("".join(decoded(source)))
        articles = content["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    yield _question(question, paragraph["context"], source, labelled)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
        raise InputError(
            f"{source} is not SQuAD JSON (data, paragraphs, context, qas, question, answers): {what}"
        ) from None


def _question(values: dict[str, Any], context: Any, source: Source, labelled: bool) -> QuestionExample:
    place = f"{source}, question {values['id']}"
    answers: tuple[Span, ...] = ()
    if labelled and not values.get("is_impossible"):
        answers = tuple(Span(a["text"], int(a["answer_start"])) for a in values.get("answers", ()))
    if not isinstance(context, str) or not all(isinstance(answer.text, str) for answer in answers):
        raise InputError(f"{place}: the context and its answers should be texts")
    return QuestionExample(str(values["question"]), context, answers, str(values["id"]), place)


def read_row(row: dict[str, Any], place: str, labelled: bool = True) -> QuestionExample:
    """A question in a row: `question`, `context`, and `answers` as lists of text and answer_start.

    A text in their place (or in `answer`) is those as JSON, or an answer as it stands in the context.
    """
    for key in ("question", "context"):
        if not isinstance(row.get(key), str):
            raise InputError(f"{place}: there is no text {key}; the row has {', '.join(row)}")
    answers = (row.get("answers", row.get("answer")) if labelled else None) or {}
    try:
        if isinstance(answers, str):
            written = answers.lstrip().startswith(("{", "["))
            answers = json.loads(answers) if written else [{"text": answers, "answer_start": 0}]
        pairs = (
            zip(answers["text"], answers["answer_start"], strict=True)
            if isinstance(answers, dict) and answers
            else [(each["text"], each["answer_start"]) for each in answers]
        )
        spans = tuple(Span(str(text), int(start)) for text, start in pairs)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f'{place}: write answers as {{"text": ["…"], "answer_start": [0]}}, empty if there is none'
        ) from None
    return QuestionExample(row["question"], row["context"], spans, str(row.get("id", "")), place)


def told_apart(examples: Iterable[QuestionExample]) -> Iterator[QuestionExample]:
    """Published files give some questions the same id: the second becomes `id#2`."""
    seen: dict[str, int] = {}
    for example in examples:
        count = seen[example.id] = seen.get(example.id, 0) + 1
        yield replace(example, id=f"{example.id}#{count}") if example.id and count > 1 else example


def placed(example: QuestionExample) -> QuestionExample:
    """Every answer where it stands in the context: at its own place, else at the nearest."""
    answers = tuple(_placed(answer, example) for answer in example.answers)
    return example if answers == example.answers else replace(example, answers=answers)


def _placed(answer: Span, example: QuestionExample) -> Span:
    if answer.text.strip() and example.context.startswith(answer.text, max(answer.start, 0)):
        return answer
    places, at = [], -1
    while answer.text.strip() and (at := example.context.find(answer.text, at + 1)) >= 0:
        places.append(at)
    if not places:
        raise InputError(f"{example.place}: the answer {answer.text[:40]!r} is not in the context")
    return Span(answer.text, min(places, key=lambda place: abs(place - answer.start)))
