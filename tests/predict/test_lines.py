"""Texts of a file: one for every line or row, each under its own number."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Heard

from unmask.errors import InputError, OutputError
from unmask.predict import lines
from unmask.predict.lines import chosen_column, one_source, placed_texts

PIECES = ["gato", " ", "\n", "\r\n", "\t", "\u2028", "\x1c", "é", "\n" * 70_000, " " * 70_000, "x" * 70_000]


@given(pieces=st.lists(st.sampled_from(PIECES), min_size=1, max_size=12))
@settings(deadline=None, max_examples=20)
def test_the_nth_text_is_the_nth_line(pieces: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("lines") / "a.txt"
    file.write_bytes("".join(pieces).encode())
    wanted = "".join(pieces).replace("\r\n", "\n").split("\n")
    if not wanted[-1]:
        wanted.pop()
    found = list(placed_texts(one_source(str(file))))
    assert [text for _, text in found] == wanted
    assert [place for place, _ in found] == [f"{file}, line {number + 1}" for number in range(len(wanted))]


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_LONGEST", 10)
    (tmp_path / "a.txt").write_text("um\n" + "gato " * 9 + "\num", "utf-8")
    with pytest.raises(InputError, match="a.txt, line 2: longer than 10 characters; write one text a line"):
        list(placed_texts(one_source(str(tmp_path / "a.txt"))))


def test_half_a_character(tmp_path: Path) -> None:
    rows = [{"text": "a \U0001f408 sleeps"}, {"text": "\ud83d"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with pytest.raises(InputError, match=r"line 2: text holds half a character: an escape such as \\ud83d"):
        list(placed_texts(one_source(str(tmp_path / "a.jsonl"))))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_the_column_is_guessed_and_told(tmp_path: Path, heard: Heard, name: str) -> None:
    file = tmp_path / name
    if name == "a.parquet":
        pq.write_table(pa.table({"id": [1], "texto": ["um gato"]}), file)
    else:
        file.write_text("id,texto\n1,um gato\n" if name == "a.csv" else '{"id": 1, "texto": "um gato"}\n')
    source = one_source(str(file))
    column = chosen_column(source, "text", heard)
    assert [text for _, text in placed_texts(source, column)] == ["um gato"]
    assert heard.said == [f"{file}: the text is taken from the column texto"]
    assert chosen_column(source, "id", heard) == "id"
    assert len(heard.said) == 1
    with pytest.raises(
        InputError, match="no column texte, only id, texto; did you mean texto.*--column NAME"
    ):
        chosen_column(source, "texte", heard)


def test_plain_text_has_no_columns(tmp_path: Path, heard: Heard) -> None:
    (tmp_path / "a.txt").write_text("um gato\n", "utf-8")
    source = one_source(str(tmp_path / "a.txt"))
    assert chosen_column(source, "text", heard) == "text"
    with pytest.raises(InputError, match=r"a.txt is plain text, .*: leave --column \{a\} out"):
        chosen_column(source, "{a}", heard)


def test_no_other_key_is_taken_for_one_row(tmp_path: Path, heard: Heard) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "um gato"}\n{"review": "bom"}\n', "utf-8")
    source = one_source(str(tmp_path / "a.jsonl"))
    column = chosen_column(source, "text", heard)
    with pytest.raises(InputError, match=r"line 2: there is no column text, only review; say.*--column NAME"):
        list(placed_texts(source, column))


def test_vectors_are_not_to_be_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("um", "utf-8")
    with pytest.raises(OutputError, match="would be read as text"):
        one_source(str(tmp_path), tmp_path / "v.parquet")
    for file, out in ((tmp_path, "v.npy"), (tmp_path / "a.txt", "v.parquet")):
        assert one_source(str(file), tmp_path / out).path == tmp_path / "a.txt"
