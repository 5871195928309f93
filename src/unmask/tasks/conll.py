"""Tagged words: CoNLL (two or more columns), WikiANN (`pt:word`) and CoNLL-U; tags made IOB2."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, dropwhile, islice

from unmask.errors import InputError
from unmask.tasks.examples import TaggedExample
from unmask.text import conllu
from unmask.text.sources import Source

DOCUMENT = "-DOCSTART-"
"""The word that stands where a document begins."""
_LANGUAGE = re.compile(r"(?:[a-z]{2,3}(?:-[a-z-]{2,9})?|simple):(?!//)")
_SENTENCES = 20  # of which every word must name the language, so that `re:` or `ftp:` is none
_COMMENT = re.compile(r"# \S+ = |# new(doc|par)\b|#(begin|end) document\b")
"""As `# text = Hepatitis B`, `# newpar` or `#begin document (news);`."""
_OTHER_COMMENT = re.compile(r"#\s.*=")
"""As `# id 7 domain=en`; but `# _ Number=Sing O` is a word."""
_WORDS = ("word", "words", "token", "tokens", "form", "palavra", "palavras")
_TAGS = (
    "tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags", "pos", "pos_tag", "pos_tags", "etiqueta",
    "etiquetas",
)  # fmt: skip
UNTAGGED = "_"
"""What CoNLL-U writes where there is nothing."""
PREFIXED = re.compile(r"[BIESLU]-.")
"""A tag of an entity, with its place in it."""


def read_conll(source: Source, labelled: bool = True) -> Iterator[TaggedExample]:
    """Sentences between blank lines: the word is the first column, its tag the last, as it stands.

    Where no labels are asked for, a word without one has the tag `_`.
    """
    sentences = _sentences(source)
    first = list(islice(sentences, _SENTENCES))
    if labelled:
        _check_words(source, [each for rows in first for each in rows])
    prefix = _common_prefix([row[0] for rows in first for _, row in rows])
    for rows in chain(first, sentences):
        tags = [row[-1].strip() if len(row) > 1 else "" for _, row in rows]
        bare = next((row for row, tag in zip(rows, tags, strict=True) if not tag), None)
        if labelled and bare:
            raise InputError(
                f"{source}, line {bare[0]}: {bare[1][0][:40]!r} has no tag: write a word and its tag on each"
                " line, and a blank line between sentences"
            )
        yield TaggedExample(
            tuple(row[0].removeprefix(prefix) for _, row in rows),
            tuple(tag or UNTAGGED for tag in tags),
            f"{source}, line {rows[0][0]}",
        )


def _check_words(source: Source, rows: Sequence[tuple[int, list[str]]]) -> None:
    """Refuse a table of texts: few words have a space in them, and no tag has."""
    spaced = [
        number for number, row in rows if _is_text(row[-1]) or (_is_text(row[0]) and not _is_entity(row[-1]))
    ]
    if spaced and 2 * len(spaced) >= len(rows):
        raise InputError(
            f"{source}, line {spaced[0]}: spaces between the tabs: this looks like a table of texts, for "
            "classify or pair, not CoNLL: write a word and its tag on each line, and a blank line between "
            "sentences"
        )


def _is_text(cell: str) -> bool:
    return " " in cell.strip()


def _is_entity(tag: str) -> bool:
    return tag.strip() == "O" or PREFIXED.match(tag) is not None


def _sentences(source: Source) -> Iterator[list[tuple[int, list[str]]]]:
    """The columns of each line, with its number, sentence by sentence; comments and a header are no words."""
    for place, block in enumerate(conllu.blocks(source)):
        lines = dropwhile(lambda numbered: is_comment(numbered[1]), block)
        rows = [(number, split_line(line)) for number, line in lines]
        if rows and place == 0 and is_header(rows[0][1]):
            rows = rows[1:]
        if words := [(number, row) for number, row in rows if row[0] != DOCUMENT]:
            yield words


def is_comment(line: str) -> bool:
    """Whether a line above a sentence is about it; a sentence may begin with the word `#`."""
    if _COMMENT.match(line):
        return True
    return _OTHER_COMMENT.match(line) is not None and not _is_entity(split_line(line)[-1])


def is_header(row: Sequence[str]) -> bool:
    """Whether a row names the columns of words and tags."""
    return row[0].strip().lower() in _WORDS and row[-1].strip().lower() in _TAGS


def split_line(line: str) -> list[str]:
    """The columns of a line, between tabs if there are any, else between spaces."""
    return line.split("\t") if "\t" in line else line.split()


def read_conllu(source: Source) -> Iterator[TaggedExample]:
    """Words and their universal part of speech."""
    for line, rows in conllu.read_conllu(source):
        words, tags = (tuple(row[column] for row in rows) for column in (conllu.FORM, conllu.UPOS))
        yield TaggedExample(words, tags, f"{source}, line {line}")


def _common_prefix(words: Sequence[str]) -> str:
    """The language that WikiANN writes before every word."""
    found = {match[0] if (match := _LANGUAGE.match(word)) else "" for word in words}
    return found.pop() if len(found) == 1 else ""


def normalise_tags(examples: Sequence[TaggedExample]) -> list[TaggedExample]:
    """IOB1, IOB2, IOBES, BILOU and bare entity tags as IOB2; tags with no `O` among them stay as they are."""
    tags = {tag for example in examples for tag in example.tags}
    if "O" not in tags and not any(map(PREFIXED.match, tags)):
        return list(examples)
    return [TaggedExample(example.words, to_iob2(example.tags), example.place) for example in examples]


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Every entity opens with `B-`; what goes on with the entity before it is `I-`."""
    out: list[str] = []
    open_type = ""  # of the entity that may go on
    for tag in tags:
        mark, kind = (tag[0], tag[2:]) if PREFIXED.match(tag) else ("" if tag != "O" else "O", tag)
        if mark == "O":
            out.append("O")
            open_type = ""
            continue
        begins = mark in ("B", "S", "U") or kind != open_type
        out.append(f"{'B' if begins else 'I'}-{kind}")
        open_type = "" if mark in ("E", "L", "S", "U") else kind
    return tuple(out)
