"""A file of inputs -> a file of predictions, row after row: memory does not grow with the file."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from unmask.errors import ConfigError, InputError, ModelError, OutputError
from unmask.files import atomic_path, check_new
from unmask.model.network import Model
from unmask.predict.answer import Answerer
from unmask.predict.classify import Classifier
from unmask.predict.inputs import TextError
from unmask.predict.masked import MaskedLM
from unmask.predict.onnx import OnnxModel
from unmask.predict.predictor import Predictor
from unmask.predict.tag import Tagger
from unmask.progress import SILENT, Progress, held
from unmask.tasks.columns import USUAL, Columns, TextTask, resolve, text_example
from unmask.tasks.conll import DOCUMENT, PREFIXED, UNTAGGED, is_comment, is_header, split_line
from unmask.tasks.examples import QuestionExample, TaggedExample, TextExample, second_texts
from unmask.tasks.read import (
    TABLES,
    TAGGED_TABLES,
    TAGS,
    WORDS,
    check_tags,
    check_words,
    file_form,
    list_of,
    open_source,
    refuse_columns,
    refuse_columns_of_lines,
    rows_of,
    stream_examples,
    text_rows,
)
from unmask.tasks.squad import read_row
from unmask.text.columns import taken
from unmask.text.sources import Source
from unmask.text.stream import numbered_lines
from unmask.text.tables import LIMIT, nothing_in

Row = dict[str, Any]
_CHARS = 1 << 16  # characters that are predicted at once
_PEEK = 100  # lines by which CoNLL is known from plain text
_OUTPUTS = (".jsonl", ".csv", ".tsv", ".conll")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def predict_file(
    model: Predictor, path: Path, out: Path, columns: Columns = USUAL, progress: Progress = SILENT
) -> int:
    """Write each row of a file with what the model says of it; the number of rows."""
    if out.suffix not in _OUTPUTS:
        raise OutputError(f"{out}: predictions are written as {' '.join(_OUTPUTS)} (for tags of words)")
    check_new(out)
    with held(progress) as told:
        predicted = predictions(model, path, columns, told)
        first = next(predicted, None)  # what cannot be read is told before anything is written
        if first is None:
            raise nothing_in(Source(path, path.name), "row")
    count, names = 0, list(_flat(first))
    at_first = len(names)
    with progress.stage("predicting", None, "rows") as stage, atomic_path(out) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            write = _writer(file, out, names)
            for row in _chain(first, predicted):
                write(row)
                count += 1
                stage.advance(1)
        if len(names) > at_first:
            _widen(temporary, out.suffix, names)
    return count


def predictions(
    model: Predictor, path: Path, columns: Columns = USUAL, progress: Progress = SILENT
) -> Iterator[Row]:
    """Each row of a file with what the model says of it."""
    if isinstance(model, Classifier):
        return _chunked(_text_rows(model, path, columns, progress), lambda rows: _classified(model, rows))
    if isinstance(model, Tagger):
        if columns.pair is not None:
            raise ConfigError(f"tags are of single texts: leave --pair-column {columns.pair} out")
        return _chunked(_word_rows(model, path, columns, progress), lambda rows: _tagged(model, rows))
    if isinstance(model, Answerer):
        refuse_columns("qa", columns)
        return _chunked(_question_rows(path), lambda rows: _answered(model, rows))
    if isinstance(model, MaskedLM) and isinstance(model.model, Model) and model.model.pair_head:
        progress.say("yes or no: whether each second text follows the first; for labels, fine-tune the model")
        return _chunked(_table_texts("pair", path, columns, progress), lambda rows: _followed(model, rows))
    if isinstance(model.model, OnnxModel):
        raise ModelError("an ONNX model gives vectors only: predict with the folder it was converted from")
    if "mlm" not in model.model.heads:
        raise ModelError(
            "this model makes vectors (unmask embed) and predicts no labels: "
            "fine-tune it for a task first (unmask finetune classify, tag …)"
        )
    raise ModelError("a language model predicts no labels: fine-tune it first (unmask finetune)")


def _chunked(rows: Iterator[tuple[Row, Any]], predict: Callable[[list[Any]], Iterable[Row]]) -> Iterator[Row]:
    for chunk in _chunks(rows):
        found = predict([given for _, given in chunk])
        for (row, _), said in zip(chunk, found, strict=True):
            yield _beside(row, said)


def _beside(row: Row, said: Row) -> Row:
    """A row and what the model says of it; columns of its own with the same names become `given_…`."""
    own = said.keys() | _flat(said).keys()
    kept = {name: value for name, value in row.items() if name not in own}
    for name in (name for name in row if name in own):
        given = f"given_{name}"
        while given in kept:
            given = f"given_{given}"
        kept[given] = row[name]
    return kept | said


def _chunks(rows: Iterator[tuple[Row, Any]]) -> Iterator[list[tuple[Row, Any]]]:
    """Enough rows to keep the cores at work, and not so many that nothing is seen to happen."""
    while chunk := list(islice(rows, 1)):
        size = 0
        while size < _CHARS and (more := next(rows, None)) is not None:
            chunk.append(more)
            size += len(str(more[1]))
        yield chunk


def _text_rows(
    model: Classifier, path: Path, columns: Columns, progress: Progress
) -> Iterator[tuple[Row, TextExample]]:
    wants_pairs = model.settings.wants_pairs
    task: TextTask = "pair" if wants_pairs else "classify"
    if wants_pairs is None and model.settings.name == "regress":
        task = "regress"  # of pairs where the file has such
    if file_form(path) != ".txt":  # whose lines are texts as they stand
        columns = columns.else_learnt(model.settings.text_template, model.settings.pair_template)
    yield from _table_texts(task, path, columns, progress)


def _table_texts(
    task: TextTask, path: Path, columns: Columns, progress: Progress
) -> Iterator[tuple[Row, TextExample]]:
    if file_form(path) == ".txt":
        if task == "pair":
            raise InputError(
                f"{path}: this model judges pairs: give a table ({' '.join(TABLES)}) of two texts"
            )
        for text in _plain_lines(path, columns):
            yield {"text": text}, TextExample(text)
        return
    source, form = open_source(task, path)
    yield from text_rows(task, source, form, columns, labelled=False, progress=progress)


def _word_rows(
    model: Tagger, path: Path, columns: Columns, progress: Progress
) -> Iterator[tuple[Row, str | tuple[str, ...]]]:
    """Rows with a text, or with words: of lists, or of CoNLL files."""
    form = file_form(path)
    tabular = form in (".txt", ".tsv") and _has_tags(path, model.config.labels)
    if form == ".txt" and not tabular:
        for text in _plain_lines(path, columns):
            yield {"text": text}, text
    elif form in TABLES and not tabular:
        yield from _table_rows(path, columns, progress)
    else:
        refuse_columns("tag", columns)
        yield from _conll_rows(path)


def _table_rows(
    path: Path, columns: Columns, progress: Progress
) -> Iterator[tuple[Row, str | tuple[str, ...]]]:
    """Rows with a text or with a list of words; if any has tags, all that have words do."""
    source, form = open_source("classify", path)
    told = {columns}
    rows = rows_of(source, form, columns) if form in TAGGED_TABLES else ()
    tagged = next((name for _, row in rows if list_of(row, WORDS) and (name := _tags_column(row))), None)
    for place, row in rows_of(source, form, columns):
        words = list_of(row, WORDS)
        if words is not None and columns.text is None:
            if own := _tags_column(row):
                check_tags(words, row[own], place)
            elif tagged:
                row = row | {tagged: [UNTAGGED] * len(words)}
            yield row, check_words(words, place)
            continue
        chosen = resolve(tuple(row), "classify", columns, place, labelled=False)
        if chosen not in told:
            told.add(chosen)
            progress.say(taken(str(path), str(chosen.text)))
        yield row, text_example(row, "classify", chosen, place).text


def _tags_column(row: Row) -> str | None:
    """The column that holds the tags of a row's words, if there are any."""
    return next((name for name in TAGS if isinstance(row.get(name), list) and row[name]), None)


def _conll_rows(path: Path) -> Iterator[tuple[Row, tuple[str, ...]]]:
    """Words; if any word of the file has a tag, tags for all."""
    tagged = any(tag != UNTAGGED for example in _tagged_examples(path) for tag in example.tags)
    for example in _tagged_examples(path):
        tags = {"tags": list(example.tags)} if tagged else {}
        yield {"words": list(example.words)} | tags, example.words


def _tagged_examples(path: Path) -> Iterator[TaggedExample]:
    for example in stream_examples("tag", path, labelled=False):
        assert isinstance(example, TaggedExample)
        yield example


def _has_tags(path: Path, labels: Sequence[str]) -> bool:
    """Whether a text file is CoNLL: lines of as many columns each, the last of which is a tag."""
    tags = {"O", *labels, *(label[2:] for label in labels if PREFIXED.match(label))}
    lines = [split_line(line) for line in islice(_lines(path), _PEEK) if not is_comment(line)]
    rows = [row for row in lines[is_header(lines[0]) if lines else 0 :] if row[0] != DOCUMENT]
    return bool(lines and not rows) or (
        len(rows) > 1
        and len({len(row) for row in rows}) == 1
        and all(len(row) > 1 and (row[-1].strip() in tags or PREFIXED.match(row[-1])) for row in rows)
    )


def _question_rows(path: Path) -> Iterator[tuple[Row, QuestionExample]]:
    if file_form(path) in (".csv", ".tsv"):
        source, form = open_source("qa", path)
        for place, row in rows_of(source, form):
            yield row, read_row(row, place, labelled=False)
        return
    for example in stream_examples("qa", path, labelled=False):
        assert isinstance(example, QuestionExample)
        yield {"id": example.id, "question": example.question, "context": example.context}, example


def _plain_lines(path: Path, columns: Columns) -> Iterator[str]:
    lines = _lines(path)  # a file that is not there is told first
    refuse_columns_of_lines(path, columns)
    return lines


def _lines(path: Path) -> Iterator[str]:
    source, _ = open_source("tag", path)
    return (line for _, line in numbered_lines(source, LIMIT) if line.strip())


def _classified(model: Classifier, given: list[TextExample]) -> Iterator[Row]:
    found = model.classify([example.text for example in given], second_texts(given))
    for labels in found:
        if model.config.problem == "regression":
            yield {"predicted": labels[0].score}
            continue
        scores = {label.name: label.score for label in sorted(labels, key=lambda each: _at(model, each.name))}
        if model.config.problem == "multi":
            yield {
                "predicted": [label.name for label in labels if label.score > 0.5],
                "probabilities": scores,
            }
        else:
            yield {"predicted": labels[0].name, "probability": labels[0].score, "probabilities": scores}


def _followed(model: MaskedLM, given: list[TextExample]) -> Iterator[Row]:
    found = model.follows([each.text for each in given], second_texts(given) or [], truncate=True)
    for share in found:
        scores = {"yes": share, "no": 1 - share}
        predicted = max(scores, key=lambda name: scores[name])
        yield {"predicted": predicted, "probability": scores[predicted], "probabilities": scores}


def _at(model: Predictor, name: str) -> int:
    return model.config.labels.index(name)


def _tagged(model: Tagger, given: list[str | tuple[str, ...]]) -> Iterator[Row]:
    texts = [each for each in given if isinstance(each, str)]
    words = [each for each in given if not isinstance(each, str)]
    entities, tags = iter(model.tag_texts(texts)), iter(model.tag_words(words))
    for each in given:
        if isinstance(each, str):
            yield {"entities": [vars(entity) for entity in next(entities)]}
        else:
            labels = next(tags)
            yield {"predicted": [x.name for x in labels], "probabilities": [x.score for x in labels]}


def _answered(model: Answerer, given: list[QuestionExample]) -> Iterator[Row]:
    try:
        found = model.answer_all([each.question for each in given], [each.context for each in given])
    except TextError as error:
        raise InputError(f"{given[error.number].place}: {error}") from None
    for answer in found:
        yield {"answer": answer.text, "start": answer.start, "end": answer.end, "probability": answer.score}


def _chain(first: Row, rest: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rest


def _writer(file: IO[str], out: Path, names: list[str]) -> Callable[[Row], object]:
    if out.suffix == ".jsonl":
        return _json_writer(file)
    return _conll_writer(file, out) if out.suffix == ".conll" else _csv_writer(file, out.suffix, names)


def _json_writer(file: IO[str]) -> Callable[[Row], object]:
    return lambda row: file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


def _csv_writer(file: IO[str], form: str, names: list[str]) -> Callable[[Row], object]:
    """Columns that only later rows have are added to the names, and written at the end of those rows."""
    writer = csv.writer(file, delimiter=_DELIMITERS[form])
    writer.writerow(names)

    def write(row: Row) -> None:
        flat = _flat(row)
        names.extend(name for name in flat if name not in names)
        writer.writerow([flat.get(name) for name in names])

    return write


def _widen(path: Path, form: str, names: list[str]) -> None:
    """Give a table a header of all its columns, and every row as many cells."""
    delimiter = _DELIMITERS[form]
    csv.field_size_limit(LIMIT)
    with (
        atomic_path(path) as temporary,
        path.open(encoding="utf-8", newline="") as file,
        temporary.open("w", encoding="utf-8", newline="") as whole,
    ):
        rows, writer = csv.reader(file, delimiter=delimiter), csv.writer(whole, delimiter=delimiter)
        next(rows)
        writer.writerow(names)
        writer.writerows(row + [""] * (len(names) - len(row)) for row in rows)


def _conll_writer(file: IO[str], out: Path) -> Callable[[Row], object]:
    """A word a line, its tag if it has one, then the predicted one, as conlleval and our reader take it.

    Spaces stand between them; in a sentence with a space inside a word tabs do.
    """

    def write(row: Row) -> None:
        words, tags, predicted = list_of(row, WORDS), _tags_column(row), row.get("predicted")
        if words is None or not isinstance(predicted, list):
            raise OutputError(f"{out}: .conll is for tags of words, not of texts: write .jsonl, .csv or .tsv")
        columns = [words, *([row[tags]] if tags else []), predicted]
        lines = [[str(cell) for cell in line] for line in zip(*columns, strict=True)]
        spaced = any(cell.split() != [cell] for line in lines for cell in line)
        for line in lines:
            file.write(("\t" if spaced else " ").join(" ".join(cell.split()) for cell in line) + "\n")
        file.write("\n")

    return write


def _flat(row: Mapping[str, Any]) -> Row:
    """Probabilities of classes as columns of their own, lists as JSON."""
    flat: Row = {}
    for key, value in row.items():
        if key == "probabilities" and isinstance(value, dict):
            flat |= {f"p({name})": share for name, share in value.items()}
        else:
            flat[key] = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
    return flat
