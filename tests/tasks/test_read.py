"""Labelled files: every format, the columns that are guessed, and what is wrong is said with its place."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from tests.conftest import Heard

from unmask.errors import InputError
from unmask.tasks.columns import Columns
from unmask.tasks.conll import to_iob2
from unmask.tasks.examples import QuestionExample, Span, TaggedExample, TextExample
from unmask.tasks.read import read_examples, stream_examples

SQUAD = {
    "version": "2.0",
    "data": [
        {
            "title": "Barcos",
            "paragraphs": [
                {
                    "context": "O barco Aurora partiu de Setúbal. O Aurora voltou em maio.",
                    "qas": [
                        {
                            "id": "a",
                            "question": "De onde partiu?",
                            "answers": [{"text": "Setúbal", "answer_start": 25}],
                        },
                        {"id": "b", "question": "Quem o comprou?", "answers": [], "is_impossible": True},
                        {
                            "id": "a",
                            "question": "Que barco?",
                            "answers": [{"text": "Aurora", "answer_start": 30}],
                        },
                    ],
                }
            ],
        }
    ],
}

WRONG_ANSWER = {"id": "7", "question": "?", "answers": [{"text": "rua", "answer_start": 2}]}
WRONG = {"data": [{"paragraphs": [{"context": "A casa.", "qas": [WRONG_ANSWER]}]}]}
NO_TEXT = {"data": [{"paragraphs": [{"context": None, "qas": [WRONG_ANSWER]}]}]}

PAIR = '<c><pair id="1" entailment="None" similarity="2.5"><t>a</t><h>b</h></pair></c>'


def write(path: Path, content: str | bytes | dict[str, Any]) -> Path:
    if isinstance(content, dict):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def texts(path: Path, task: Any = "classify", **columns: Any) -> list[Any]:
    found = read_examples(task, path, Columns(**columns))
    assert all(isinstance(example, TextExample) for example in found)
    return [(e.text, e.pair, e.target) for e in found]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "content", "task", "columns", "expected"),
    [
        (
            "a.csv",
            'Label,Review\n1,"bom, barato"\n0,mau\n',
            "classify",
            {},
            [("bom, barato", None, "1"), ("mau", None, "0")],
        ),
        (
            "a.tsv",
            '\ufefflabel\tsentence\nsim\tdiz "olá\nnão\tfim\n',
            "classify",
            {},
            [('diz "olá', None, "sim"), ("fim", None, "não")],
        ),
        (
            "a.tsv",
            "x\t1\tum texto\nx\t0\toutro\tmais\n",
            "classify",
            {"text": "3", "label": "2"},
            [("um texto", None, "1"), ("outro", None, "0")],
        ),
        ("a.jsonl", '{"premise": "a", "hypothesis": "b", "label": 2}\n', "pair", {}, [("a", "b", "2")]),
        ("a.jsonl", '{"text": "a", "label": true}\n', "classify", {}, [("a", None, "true")]),
        (
            "a.jsonl",
            '{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "labels": []}\n',
            "classify",
            {},
            [("a", None, ("x", "y")), ("b", None, ())],
        ),
        ("a.csv", "text,label\na,x | y\n", "classify", {}, [("a", None, ("x", "y"))]),
        ("a.csv", "sentence1,sentence2,score\na,b,4.25\n", "regress", {}, [("a", "b", 4.25)]),
        (
            "a.jsonl",
            '{"text": "a", "insult": "2.0", "racism": "0.0"}\n{"text": "b", "insult": 0, "racism": false}\n',
            "classify",
            {"labels": ("insult", "racism")},
            [("a", None, ("insult",)), ("b", None, ())],
        ),
        ("a.tsv", "0\t1\tum\n", "classify", {"text": "3", "labels": ("1", "2")}, [("um", None, ("2",))]),
        (
            "a.csv",
            'texto;classe\n"a; b";x\nc, d;y\n',
            "classify",
            {},
            [("a; b", None, "x"), ("c, d", None, "y")],
        ),
        (
            "a.csv",
            "a;x\nb;y\n",
            "classify",
            {"text": "1", "label": "2"},
            [("a", None, "x"), ("b", None, "y")],
        ),
        ("a.csv", "frase,nota\na,3\n", "regress", {}, [("a", None, 3.0)]),
        (
            "a.csv",
            "frase;nota\n0,5;-0,5\nb;1.5\nc;2\n",
            "regress",
            {},
            [("0,5", None, -0.5), ("b", None, 1.5), ("c", None, 2.0)],
        ),
        ("a.csv", "text;a;b\nx;0,5;0\n", "classify", {"labels": ("a", "b")}, [("x", None, ("a",))]),
        ("a.csv", "text;label\nx;0,5\ny;1\n", "classify", {}, [("x", None, "0,5"), ("y", None, "1")]),
        (
            "a.xml",
            PAIR,
            "pair",
            {},
            [("a", "b", "None")],
        ),
        (
            "a.xml",
            PAIR,
            "regress",
            {},
            [("a", "b", 2.5)],
        ),
        ("a.xml", PAIR, "classify", {"text": "t", "label": "entailment"}, [("a", None, "None")]),
        ("a.xml", PAIR, "classify", {"pair": "h"}, [("a", "b", "None")]),
    ],
)
def test_tables(
    tmp_path: Path, name: str, content: str, task: Any, columns: dict[str, Any], expected: list[Any]
) -> None:
    assert texts(write(tmp_path / name, content), task, **columns) == expected


def test_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"], "label": [1.0, 0.0], "id": [1, 1]}), tmp_path / "a.parquet")
    assert texts(tmp_path / "a.parquet") == [("a", None, "1"), ("b", None, "0")]
    words = pa.table({"tokens": [["O", "Rui"]], "ner_tags": [["O", "S-PER"]]})
    pq.write_table(words, tmp_path / "b.parquet")
    assert read_examples("tag", tmp_path / "b.parquet")[0].tags == ("O", "B-PER")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.conll", "O\tO\nRui\tB-PER\nSá\tI-PER\n\nvive\tO\n"),  # IOB2
        ("a.txt", "pt:O\tO\npt:Rui\tB-PER\npt:Sá\tI-PER\n\t\npt:vive\tO\n"),  # WikiANN
        (
            "a.iob",
            "-DOCSTART- -X- O\n\nO DET x O\nRui N x I-PER\nSá N x I-PER\n\nvive V x O",
        ),  # IOB1, four columns
        ("a.bio", "O O\nRui B-PER\nSá E-PER\n\n\n\nvive O\n"),  # IOBES
        ("a.conll", "O\tO\nRui\tPER\nSá\tPER\n\nvive\tO\n"),  # bare
        (
            "a.jsonl",
            '{"words": ["O", "Rui", "Sá"], "tags": ["O", "B-PER", "L-PER"]}\n'
            '{"tokens": ["vive"], "tags": ["O"]}',
        ),
        (
            "a.conll",
            "# id 7 domain=pt\nO _ _ O\nRui _ _ B-PER\nSá _ _ I-PER\n\n# id 8 domain=pt\nvive _ _ O\n",
        ),  # MultiCoNER
        (
            "a.iob2",
            "# sent_id = 1\n# text = B-12\nO\tO\nRui\tB-PER\nSá\tI-PER\n\n# text = vive\nvive\tO\n",
        ),
        (
            "a.conll",
            "#begin document (a); part 000\nO\tO\nRui\tPER\nSá\tPER\n\nvive\tO\n\n#end document\n",
        ),  # OntoNotes
        ("a.tsv", "# newdoc\n# id = 1\n\n# newpar\nO\tO\nRui\tB-PER\nSá\tI-PER\n\nvive\tO\n"),
        (
            "a.tsv",
            "# global.columns = a b\nToken\tNER_tag\nO\tO\nRui\tB-PER\nSá\tI-PER\n\nvive\tO\n",
        ),  # a header
    ],
)
def test_tagged_words(tmp_path: Path, name: str, content: str) -> None:
    found = read_examples("tag", write(tmp_path / name, content))
    assert [(e.words, e.tags) for e in found] == [  # type: ignore[union-attr]
        (("O", "Rui", "Sá"), ("O", "B-PER", "I-PER")),
        (("vive",), ("O",)),
    ]


def test_a_sentence_may_begin_with_a_hash_or_a_word_like_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "# O\n= O\n\n# x=y O\nfim O\n\nWord O\n\nword tag\n\nRui B-PER\n")
    found = read_examples("tag", path)
    words = [("#", "="), ("#", "fim"), ("Word",), ("word",), ("Rui",)]
    assert [example.words for example in found] == words  # type: ignore[union-attr]


def test_a_word_with_a_space_is_no_table(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conll", "Em\tO\nSão Paulo\tB-LOC\nvive\tO \n")
    assert read_examples("tag", path)[0].words == ("Em", "São Paulo", "vive")  # type: ignore[union-attr]


@pytest.mark.parametrize("first", ["http://x.pt O", "http: O", "ftp://x O", "re: O\n\nolá O"])
def test_an_address_is_no_language(tmp_path: Path, first: str) -> None:
    found = read_examples("tag", write(tmp_path / "a.conll", f"{first}\n\n{first}\n\nRui B-PER\n"))
    assert found[0].words == (first.split()[0],)  # type: ignore[union-attr]


def test_joined_files(tmp_path: Path) -> None:
    """A mark of the byte order is no part of a word, and no line by itself."""
    tagged = read_examples("tag", write(tmp_path / "a.conll", "\ufeffRui B-X\n\ufeff\n\ufeffAna B-X\n\ufeff"))
    assert [example.words for example in tagged] == [("Rui",), ("Ana",)]  # type: ignore[union-attr]
    row = "\t".join(["1", "vive", "_", "VERB", *"______"])
    found = read_examples("tag", write(tmp_path / "a.conllu", f"\ufeff# one\n{row}\n\n\ufeff# two\n{row}\n"))
    assert [example.tags for example in found] == [("VERB",)] * 2  # type: ignore[union-attr]


def test_parts_of_speech(tmp_path: Path) -> None:
    rows = [
        "# text = Vive na rua",
        "1\tVive\tv\tVERB",
        "2-3\tna\t_\t_",
        "2\tem\te\tADP",
        "3\ta\to\tDET",
        "3.1\tx\tx\tX",
    ]
    lines = [row + "\t_" * 6 if "\t" in row else row for row in rows]
    path = write(tmp_path / "a.conllu", "\n".join(lines) + "\n\n")
    (found,) = read_examples("tag", path)
    assert isinstance(found, TaggedExample)
    assert list(zip(found.words, found.tags, strict=True)) == [("Vive", "VERB"), ("em", "ADP"), ("a", "DET")]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=12))
def test_iob2_keeps_the_spans(tags: list[str]) -> None:
    normalised = to_iob2(tags)
    assert get_entities(list(normalised)) == get_entities(tags)
    assert all(tag[:1] != "I" or before[2:] == tag[2:] for before, tag in zip(("O", *normalised), normalised))  # noqa: B905
    assert to_iob2(normalised) == normalised


def test_a_text_of_several_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "título,corpo,{a},nota\nBarco,Partiu.,x,2\n")
    columns = Columns("{título}: {corpo} {", "{a}", "nota")  # the second is a name as it stands
    assert [(e.text, e.pair) for e in read_examples("pair", path, columns)] == [("Barco: Partiu. {", "x")]  # type: ignore[union-attr]
    with pytest.raises(InputError, match="no column titulo, only título.*did you mean título"):
        read_examples("pair", path, Columns("{titulo}: {corpo}", "{a}", "nota"))
    with pytest.raises(InputError, match="no column {nota}, only"):
        read_examples("pair", path, Columns("corpo", "{a}", "{nota}"))
    bare = write(tmp_path / "bare.csv", "Barco,Partiu.,2\nPorto,Chegou.,0\n")
    found = read_examples("classify", bare, Columns("{1}: {2}", None, "3"))
    assert [(e.text, e.target) for e in found] == [("Barco: Partiu.", "2"), ("Porto: Chegou.", "0")]  # type: ignore[union-attr]
    year = write(tmp_path / "year.jsonl", '{"title": "Boat", "year": 1999, "label": 1}\n')
    assert read_examples("classify", year, Columns("{title} ({year})"))[0].text == "Boat (1999)"  # type: ignore[union-attr]
    rows = write(tmp_path / "a.jsonl", {"title": "Boat", "body": None, "label": 1})
    with pytest.raises(InputError, match="line 1: body holds no text"):
        read_examples("classify", rows, Columns("{title} {body}"))


def test_questions(tmp_path: Path) -> None:
    found = read_examples("qa", write(tmp_path / "a.json", SQUAD))
    assert [e.answers for e in found] == [(Span("Setúbal", 25),), (), (Span("Aurora", 36),)]  # type: ignore[union-attr]
    assert [e.id for e in found] == ["a", "b", "a#2"]  # type: ignore[union-attr]
    row = {"question": "Que?", "context": "A casa.", "answers": {"text": ["casa"], "answer_start": [2]}}
    (one,) = read_examples("qa", write(tmp_path / "a.jsonl", row))
    assert one == QuestionExample("Que?", "A casa.", (Span("casa", 2),), "", one.place)
    cell = json.dumps(row["answers"]).replace('"', '""')
    table = f'question,context,answers\nQue?,A casa.,casa\nQue?,A casa.,"{cell}"\nQuem?,A casa.,\n'
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(table.encode()))
    found = read_examples("qa", tmp_path / "a.csv.gz")
    assert [e.answers for e in found] == [(Span("casa", 2),), (Span("casa", 2),), ()]  # type: ignore[union-attr]
    named = write(tmp_path / "b.tsv", "question\tcontext\tanswer\nQue?\tA casa.\tcasa\n")
    assert read_examples("qa", named)[0].answers == (Span("casa", 2),)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("task", "name", "content", "message"),
    [
        ("classify", "a.csv", "", "a.csv is empty"),
        ("classify", "a.csv", "text,label\n", r"a.csv has a header \(text, label\) but no rows"),
        (
            "classify",
            "a.tsv.gz",
            gzip.compress(b"text\tlabel\n\n", mtime=0),
            r"a.tsv.gz has a header \(text, label\)",
        ),
        ("classify", "a.jsonl", "\n", "a.jsonl is empty"),
        ("tag", "a.tsv", "\n\n", "a.tsv is empty"),
        ("tag", "a.conll", "\n\n", "a.conll is empty"),
        (
            "classify",
            "a.csv",
            "corpo,label\na,1\n",
            "which column holds the text.*corpo, label.*--text-column",
        ),
        ("classify", "a.csv", "text,etiqueta\na,1\n", "which column holds the label.*--label-column"),
        ("pair", "a.csv", "text,label\na,1\n", "which column holds the pair"),
        ("classify", "a.csv", "text,label\na,1\nb,\n", "line 3: the label is missing"),
        ("classify", "a.csv", "text,sense\na,1\nb, \n", "line 3: the label is missing"),
        ("classify", "a.jsonl", '{"text": null, "label": 1}', "line 1: text holds no text"),
        ("classify", "a.jsonl", '{"text": 5, "label": 1}', "line 1: text holds 5, not text"),
        ("classify", "a.jsonl", '{"text": ["a"], "label": 1}', r"line 1: text holds \['a'\], not text"),
        ("pair", "a.jsonl", '{"text": "a", "pair": true, "label": 1}', "line 1: pair holds True, not text"),
        ("regress", "a.csv", "text,score\na,1\nb,nan\n", "line 3: nan is no finite number"),
        ("classify", "a.csv", "text,text,label\na,b,x\n", "a.csv: its first row names two columns 'text'"),
        ("regress", "a.csv", 'text,score\na,"0,5"\n', "line 2: '0,5' is no number; write it like 4.5"),
        ("regress", "a.tsv", "text\tscore\na\t0,5\n", "line 2: '0,5' is no number"),
        ("regress", "a.csv", "text;score\na;1.234,5\n", "line 2: '1.234,5' is no number"),
        ("regress", "a.csv", "text;score\na;1,234,5\n", "line 2: '1,234,5' is no number"),
        ("regress", "a.csv", "text,score\na,muito\n", "line 2: 'muito' is no number"),
        (
            "pair",
            "a.jsonl",
            '{"text": "a", "pair": "b", "label": 1}\n{"text": "a", "label": 1}',
            "line 2: which column holds the pair",
        ),
        ("tag", "a.conll", "O O\nRui\n", "line 2: 'Rui' has no tag"),
        (
            "tag",
            "a.tsv",
            "text\tlabel\num dia bom\t1\nmau\t0\no dia mau\t0\n",
            "a.tsv, line 2: .*a table of texts",
        ),
        ("tag", "a.tsv", "1\to dia bom\n0\to dia mau\n", "a.tsv, line 1: .*a table of texts.*, not CoNLL"),
        ("tag", "a.jsonl", '{"words": ["a", "b"], "tags": ["O"]}', "line 1: 2 words but 1 tag;"),
        ("tag", "a.jsonl", '{"words": ["a", null], "tags": ["O", "O"]}', "the list of words holds no text"),
        ("tag", "a.jsonl", '{"words": ["a", 7], "tags": ["O", "O"]}', "the list of words holds 7, not text"),
        ("tag", "a.jsonl", '{"words": ["a", "b"], "tags": ["O", null]}', "line 1: a word has no tag"),
        ("tag", "a.conllu", "1\ta\tb\n", "line 1: 3 columns where CoNLL-U has 10"),
        ("qa", "a.json", "{}", "not SQuAD JSON.*no 'data'"),
        ("qa", "a.json", "[", "not SQuAD JSON"),
        ("qa", "a.json", NO_TEXT, "question 7: the context and its answers should be texts"),
        ("qa", "a.json", WRONG, "question 7: the answer 'rua' is not in the context"),
        ("classify", "a.csv", "text,label\ncafé,1\n".encode("latin-1"), "a.csv is not UTF-8"),
        ("pair", "a.xml", "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>", "declares entities"),
        ("pair", "a.xml", "<x>", "not well-formed"),
        ("classify", "a.xml", PAIR, "a.xml holds pairs of texts.*unmask finetune pair"),
        ("qa", "a.xml", "a", "qa reads .json"),
        ("qa", "a.csv", "question,context,answer\nQuem?,A casa.,rua\n", "line 2: the answer 'rua' is not in"),
        ("qa", "a.csv", "question,context,answers\nQuem?,A casa.,[3\n", "line 2: write answers as"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, task: Any, name: str, content: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_examples(task, write(tmp_path / name, content))


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "texto,label\na,1\n")
    with pytest.raises(InputError, match="no column text, only texto, label; did you mean texto"):
        texts(path, text="text")
    with pytest.raises(InputError, match="no column insulto, only texto, label; name it"):
        texts(path, text="texto", labels=("insulto",))
    named = write(tmp_path / "named.csv", "text,label\nbom,1\nmau,0\n")
    with pytest.raises(InputError, match="say them by name, for example --text-column text"):
        texts(named, text="1", label="2")  # the names would become an example
    with pytest.raises(InputError, match="column text cannot be a text and its label: name two"):
        texts(named, text="text", label="text")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(
        InputError, match="pipe.csv is a pipe or a device, no file: write what it gives to a file"
    ):
        read_examples("classify", tmp_path / "pipe.csv")
    with pytest.raises(InputError, match="there is no .*nowhere.csv"):
        texts(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="^standard input is not read here: write it to a file"):
        texts(Path("-"))


def test_rows_without_labels_are_read_as_a_stream(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text\na\nb\n")
    assert [e.text for e in stream_examples("classify", path, labelled=False)] == ["a", "b"]  # type: ignore[union-attr]
    words = write(tmp_path / "a.conll", "um\ndois\n\ntrês O\n")
    found = stream_examples("tag", words, labelled=False)
    assert [(e.words, e.tags) for e in found] == [(("um", "dois"), ("_", "_")), (("três",), ("O",))]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("task", "name", "columns", "count"),
    [
        ("classify", "en/sst2/dev.tsv", {}, 872),
        ("classify", "en/cola/dev.tsv", {"text": "4", "label": "2"}, 527),
        ("pair", "en/mrpc/train.tsv", {}, 4076),
        ("regress", "en/stsb/dev.tsv", {"text": "6", "pair": "7", "label": "5"}, 1500),
        ("pair", "en/rte/train.jsonl", {}, 2490),
        ("tag", "en/wnut17/dev.conll", {}, 1009),
        ("tag", "pt/ud_pt_bosque/dev.conllu", {}, 1172),
        ("qa", "pt/faquad/train.json", {}, 837),
        ("regress", "pt/assin2/dev.xml", {}, 500),
        ("classify", "pt/told_br/train.jsonl", {"labels": ("insult", "obscene", "racism")}, 16_727),
    ],
)
def test_real_files(data_root: Path, task: Any, name: str, columns: dict[str, Any], count: int) -> None:
    assert len(read_examples(task, data_root / "eval" / name, Columns(**columns))) == count


def test_columns_that_change_are_told(tmp_path: Path, heard: Heard) -> None:
    rows = [{"text": "a", "label": "x"}, {"frase": "b", "label": "y"}, {"text": "c", "label": "x"}] * 2
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = read_examples("classify", tmp_path / "a.jsonl", progress=heard)
    assert [example.text for example in found if isinstance(example, TextExample)] == ["a", "b", "c"] * 2
    assert heard.said == [
        f"{tmp_path / 'a.jsonl'}: the text in text, the label in label",
        f"{tmp_path / 'a.jsonl'}, line 2: the text in frase, the label in label",
    ]
