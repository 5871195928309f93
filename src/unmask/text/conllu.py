"""CoNLL-U: the words of each sentence with their ten columns, and a label of each by its name."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unmask.errors import InputError
from unmask.progress import counted
from unmask.text.sources import Source
from unmask.text.stream import numbered_lines

Row = list[str]

FORM, UPOS, FEATURES = 1, 3, 5
_COLUMNS = {"upos": UPOS, "xpos": 4, "deprel": 7}
_LIMIT = 1 << 24


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """Words and the label of each; None where a word has none."""

    words: tuple[str, ...]
    labels: tuple[str | None, ...]


def read_labels(path: Path, label: str, limit: int) -> list[LabelledSentence]:
    """Whole sentences until so many words have the label: a column (upos, xpos, deprel) or a feature."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    source = Source(path, path.name)
    found: list[LabelledSentence] = []
    features: set[str] = set()
    count = read = 0
    for _, rows in read_conllu(source):
        labels = tuple(label_of(row, label) for row in rows)
        features.update(name for row in rows for name in _features(row))
        read += 1
        if any(value is not None for value in labels):
            found.append(LabelledSentence(tuple(row[FORM] for row in rows), labels))
            count += sum(value is not None for value in labels)
        if count >= limit:
            break
    if not read:
        raise InputError(f"{path} is empty: there is no sentence in it")
    if not found:
        there = ", ".join([*_COLUMNS, *sorted(features)])
        raise InputError(f"{path}: no word has the label {label!r}; those there are: {there}")
    return found


def label_of(row: Row, label: str) -> str | None:
    """The value of a column or of a feature; None if the word has none."""
    if label.lower() in _COLUMNS:
        value = row[_COLUMNS[label.lower()]]
        return None if value == "_" else value
    return _features(row).get(label)


def _features(row: Row) -> dict[str, str]:
    parts = (part.partition("=") for part in row[FEATURES].split("|") if "=" in part)
    return {name: value for name, _, value in parts}


def read_conllu(source: Source) -> Iterator[tuple[int, list[Row]]]:
    """Each sentence: the number of its first line, and its words without multiword ranges and empty nodes."""
    for block in blocks(source):
        rows = []
        for number, line in block:
            if line.startswith("#"):
                continue
            fields = line.split("\t")
            if len(fields) != 10:
                raise InputError(
                    f"{source}, line {number}: {counted(len(fields), 'column')} where CoNLL-U has 10"
                )
            if fields[0].isdigit():
                rows.append(fields)
        if rows:
            yield block[0][0], rows


def blocks(source: Source) -> Iterator[list[tuple[int, str]]]:
    """Stretches of lines that are not blank, with the numbers of the lines."""
    block: list[tuple[int, str]] = []
    for number, line in numbered_lines(source, _LIMIT):
        line = line.lstrip("\ufeff")  # joined files have such marks in the middle
        if line.strip():
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block
