"""The senses of words as text, as a file of JSON and as a page with maps."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unmask.analyse.senses import Guess, Senses
from unmask.analyse.uses import in_context
from unmask.charts import Chart, Spots, scatter
from unmask.files import write_json
from unmask.progress import counted
from unmask.report import Cell, Folded, Heading, Part, Table, write_page

Guesses = Mapping[str, Sequence[Guess]]


def plain(senses: Senses) -> dict[str, Any]:
    """For JSON, and for the server: uses, senses and how well they are apart."""
    found = {
        "word": senses.word,
        "forms": senses.forms,
        "layer": senses.layer,
        "silhouette": senses.silhouette,
        "senses": [asdict(sense) for sense in senses.senses],
        "uses": [asdict(use) for use in senses.uses],
        "notes": list(senses.notes),
    }
    return found if senses.labelled is None else found | {"labelled": asdict(senses.labelled)}


def all_plain(found: Sequence[Senses], guesses: Guesses) -> list[dict[str, Any]]:
    """The words with the senses of new texts, if any were asked about."""
    return [
        plain(senses) | {"predicted": [_predicted(senses, guess) for guess in guesses[senses.word]]}
        if senses.word in guesses
        else plain(senses)
        for senses in found
    ]


def _predicted(senses: Senses, guess: Guess) -> dict[str, Any]:
    label = {} if senses.labelled is None else {"label": senses.labelled.labels[guess.sense]}
    return asdict(guess) | label


def write_senses(folder: Path, found: Sequence[Senses], guesses: Guesses) -> None:
    """`senses.json` and `senses.html`."""
    write_json(folder / "senses.json", all_plain(found, guesses))
    parts: list[Part] = []
    for senses in found:
        if len(found) > 1:
            parts.append(Heading(senses.word))
        parts += [summary(senses), *senses.notes, sense_map(senses), sense_table(senses)]
        if guessed := guesses.get(senses.word):
            rows = [
                [sense_name(senses, each.sense), in_context(each), f"{each.margin:.2f}"] for each in guessed
            ]
            parts += ["New texts:", Table(["sense", "text", "margin"], rows)]
        lines = (f"{_called(senses, use.sense)}  {in_context(use)}" for use in senses.uses)
        parts.append(Folded(f"All {counted(len(senses.uses), 'use')}", "\n".join(lines)))
    write_page(folder / "senses.html", "Senses of " + ", ".join(each.word for each in found), parts)


def summary(senses: Senses) -> str:
    """In a line: how often, in which forms, how many senses; if labelled, how often the nearest is right."""
    forms = ", ".join(f"{form} {count:,}" for form, count in senses.forms.items())
    apart = "" if senses.silhouette is None else f" (silhouette {senses.silhouette:.2f})"
    uses = counted(len(senses.uses), "use")
    line = f"{uses} ({forms}), {counted(len(senses.senses), 'sense')}{apart}."
    if senses.labelled is None:
        return line
    share = senses.labelled.accuracy
    return (
        f"{line} Each left out of its own centre, {share.value:.0%} are nearest to the right one"
        f" (95 % interval {share.low:.0%} to {share.high:.0%});"
        f" always the commonest sense: {senses.labelled.commonest:.0%}."
    )


def sense_name(senses: Senses, number: int) -> str:
    """Its label; of a sense that was found its number and, if it has one, its name."""
    name = ", ".join(senses.senses[number].name[:3])
    called = _called(senses, number)
    return f"{called}: {name}" if name and senses.labelled is None else called


def _called(senses: Senses, number: int) -> str:
    return str(number + 1) if senses.labelled is None else senses.labelled.labels[number]


def sense_map(senses: Senses) -> Chart:
    """Every use as a point, in the colour and shape of its sense."""
    groups: dict[str, Spots] = {
        sense_name(senses, number): [
            (use.x, use.y, in_context(use)) for use in senses.uses if use.sense == number
        ]
        for number in range(len(senses.senses))
    }
    return scatter(f"Uses of {senses.word}", "point at one to read it", groups)


def sense_table(senses: Senses) -> Table:
    """A row for each sense: its size, if labelled how many are near it, substitutes, best examples."""
    head = ["sense", "uses", "typical substitutes", "examples"]
    rows: list[list[Cell]] = [
        [
            _called(senses, number), sense.size, ", ".join(sense.name) or "–",
            "\n".join(f"· {in_context(senses.uses[example])}" for example in sense.examples),
        ]
        for number, sense in enumerate(senses.senses)
    ]  # fmt: skip
    if senses.labelled is not None:
        head.insert(2, "right")
        for row, right in zip(rows, senses.labelled.right, strict=True):
            row.insert(2, right)
    return Table(head, rows)
