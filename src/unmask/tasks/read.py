"""Labelled files -> examples: tables, CoNLL, CoNLL-U, SQuAD JSON, XML pairs; plain or compressed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from unmask.errors import ConfigError, InputError
from unmask.progress import SILENT, Progress, counted
from unmask.tasks.columns import USUAL, Columns, TextTask, is_header, resolve, text_example
from unmask.tasks.conll import normalise_tags, read_conll, read_conllu
from unmask.tasks.examples import Example, TaggedExample, TextExample
from unmask.tasks.squad import placed, read_row, read_squad, told_apart
from unmask.tasks.xml_pairs import read_pairs
from unmask.text.columns import not_text
from unmask.text.sources import COMPRESSIONS, Source
from unmask.text.tables import LIMIT, Rows, decimal_comma, nothing_in, read_table

Task = Literal["classify", "pair", "regress", "tag", "qa"]
TASKS: tuple[Task, ...] = get_args(Task)

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
TAGGED_TABLES = (".jsonl", ".parquet")
"""Those that have lists; a .tsv file of tagged words is CoNLL."""
_FORMATS: dict[str, tuple[str, ...]] = {
    "classify": (*TABLES, ".xml"),
    "pair": (*TABLES, ".xml"),
    "regress": (*TABLES, ".xml"),
    "tag": (".conll", ".txt", ".iob", ".iob2", ".bio", ".tsv", ".conllu", *TAGGED_TABLES),
    "qa": (".json", *TABLES),
}
WORDS = ("words", "tokens")
TAGS = ("tags", "ner_tags", "pos_tags", "labels")


def read_examples(
    task: Task, path: Path | str, columns: Columns = USUAL, progress: Progress = SILENT
) -> list[Example]:
    """The labelled examples of a file, every one checked; tags come back as IOB2."""
    examples = list(stream_examples(task, path, columns, progress=progress))
    if task == "tag":
        tagged = [example for example in examples if isinstance(example, TaggedExample)]
        return list(normalise_tags(tagged))
    return examples


def stream_examples(
    task: Task,
    path: Path | str,
    columns: Columns = USUAL,
    labelled: bool = True,
    progress: Progress = SILENT,
) -> Iterator[Example]:
    """The examples of a file one by one, tags as they stand; labels may be missing if none are asked for."""
    source, form = open_source(task, Path(path))
    found = False
    for example in _examples(task, source, form, columns, labelled, progress):
        found = True
        yield example
    if not found:
        raise nothing_in(source, "example", table=task != "tag" or form in TAGGED_TABLES)


def open_source(task: Task, path: Path) -> tuple[Source, str]:
    """A file and its format, if the task can be read from it."""
    if not path.exists():
        if str(path) == "-":
            raise InputError("standard input is not read here: write it to a file, and name that")
        raise InputError(f"there is no {path}")
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file")
    if not path.is_file():  # it could be read only once
        raise InputError(
            f"{path} is a pipe or a device, no file: write what it gives to a file, and name that"
        )
    form = file_form(path)
    if form not in _FORMATS[task]:
        raise InputError(
            f"{path}: {task} reads {' '.join(_FORMATS[task])}, not {form or 'a file without ending'}"
        )
    return Source(path, path.name), form


def file_form(path: Path) -> str:
    """The format that a file's name says, compressed or not."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSIONS]
    return suffixes[-1] if suffixes else ""


def rows_of(source: Source, form: str, columns: Columns = USUAL) -> Rows:
    """The rows of a table or of XML pairs, with their places."""
    if form == ".xml":
        return read_pairs(source)
    return read_table(source, LIMIT, lambda first: first if is_header(first, columns) else None)


def _examples(
    task: Task, source: Source, form: str, columns: Columns, labelled: bool, progress: Progress
) -> Iterator[Example]:
    if task in ("tag", "qa"):
        refuse_columns(task, columns)
    if task == "tag":
        yield from _tagged(source, form, labelled)
    elif task == "qa":
        yield from _questions(source, form, labelled)
    else:
        yield from (example for _, example in text_rows(task, source, form, columns, labelled, progress))


def refuse_columns(task: Task, columns: Columns) -> None:
    """Refuse names of columns where they have names of their own."""
    if columns.said:
        own = "words and tags" if task == "tag" else "question, context and answers"
        raise ConfigError(f"{task} reads {own}, and no column {columns.said[0]}: name none")


def refuse_columns_of_lines(path: Path, columns: Columns) -> None:
    """Refuse names of columns where every line is a text."""
    if columns.said:
        raise ConfigError(f"{path} is plain text and has no column {columns.said[0]}: name none")


def text_rows(
    task: TextTask, source: Source, form: str, columns: Columns, labelled: bool, progress: Progress
) -> Iterator[tuple[dict[str, Any], TextExample]]:
    """Each row of a table, and the example in it; columns that were not named are told."""
    if form == ".xml" and task == "classify" and columns.text is None and columns.pair is None:
        if not labelled:
            raise InputError(
                f"{source} holds pairs of texts, and this model judges single texts: --text-column t takes"
                " the first"
            )
        raise InputError(
            f"{source} holds pairs of texts, and this takes single ones: unmask finetune pair (regress for"
            " numbers) learns from both texts; --text-column t takes the first alone"
        )
    names: tuple[str, ...] = ()
    told = {columns}
    comma = decimal_comma(source)
    for place, row in rows_of(source, form, columns):
        if tuple(row) != names:  # once for a table; lines of JSON may differ
            where = place if names else str(source)
            chosen = resolve(tuple(row), task, columns, where, labelled)
            names = tuple(row)
            if form != ".xml" and chosen not in told:
                told.add(chosen)
                learnt = ", as the model learnt it" if columns.learnt else ""
                progress.say(f"{where}: {_roles(chosen)}{learnt}")
        yield row, text_example(row, task, chosen, place, comma)


def _roles(columns: Columns) -> str:
    roles = (("text", columns.text), ("second text", columns.pair), ("label", columns.label))
    return ", ".join(f"the {role} in {name}" for role, name in roles if name is not None)


def _tagged(source: Source, form: str, labelled: bool) -> Iterator[Example]:
    if form == ".conllu":
        yield from read_conllu(source)
    elif form in TAGGED_TABLES:
        for place, row in rows_of(source, form):
            yield _tagged_row(row, place, labelled)
    else:
        yield from read_conll(source, labelled)


def list_of(row: Mapping[str, Any], names: Sequence[str]) -> list[Any] | None:
    """The first of these columns that holds a list."""
    return next((row[name] for name in names if isinstance(row.get(name), list)), None)


def _tagged_row(row: Mapping[str, Any], place: str, labelled: bool) -> TaggedExample:
    words, tags = list_of(row, WORDS), list_of(row, TAGS)
    if words is None or (labelled and tags is None):
        raise InputError(f"{place}: write a list of words and a list of tags; the row has {', '.join(row)}")
    if not labelled:
        return TaggedExample(check_words(words, place), place=place)
    assert tags is not None
    check_tags(words, tags, place)
    if None in tags:
        raise InputError(f"{place}: a word has no tag; remove the row or mend it")
    return TaggedExample(check_words(words, place), tuple(map(str, tags)), place)


def check_words(words: Sequence[Any], place: str) -> tuple[str, ...]:
    """The words of a row, every one of them text."""
    for word in words:
        if not isinstance(word, str):
            raise not_text(word, "the list of words", place)
    return tuple(words)


def check_tags(words: Sequence[Any], tags: Sequence[Any], place: str) -> None:
    """Refuse tags of which nobody knows whose they are."""
    if len(words) != len(tags):
        raise InputError(
            f"{place}: {counted(len(words), 'word')} but {counted(len(tags), 'tag')}; give each word one tag,"
            " or the column another name if it holds something else"
        )


def _questions(source: Source, form: str, labelled: bool) -> Iterator[Example]:
    if form == ".json":
        examples = read_squad(source, labelled)
    else:
        examples = (read_row(row, place, labelled) for place, row in rows_of(source, form))
    yield from map(placed, told_apart(examples))
