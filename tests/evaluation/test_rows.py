"""Rows of a user's own suites: what holds no text is refused with its place, and not scored as "None"."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unmask.errors import InputError
from unmask.evaluation import evaluate
from unmask.evaluation.results import read_items

Write = Callable[..., Path]
PAIRS = {"sentence_good": "Os barcos voltaram.", "sentence_bad": "Os barcos voltou."}
BIAS = {
    "category": "idade", "stereotype": "O velho pescador dormia.", "antistereotype": "O novo pescador dormia."
}  # fmt: skip
FACTS = {"relation": "lugar", "prompt": "O barco voltou ao [MASK].", "answer": "porto"}
CONTRAST = {
    "task": "tom", "text": "O sol voltou.", "label": "bom", "edited": "O sol secou.", "edited_label": "mau"
}  # fmt: skip
SUITES = {
    "pairs": ('kind = "pairs"\nphenomenon = "kind"', PAIRS),
    "bias": ('kind = "bias"', BIAS),
    "facts": ('kind = "facts"', FACTS),
    "contrast": (
        'kind="contrast"\nprompts.tom = { text = "{text} [MASK].", words = { bom = "sol", mau = "chuva" } }',
        CONTRAST,
    ),
}


def suite_of(write: Write, kind: str, *changes: dict[str, Any]) -> Path:
    toml, whole = SUITES[kind]
    return write(f'{toml}\nfiles = ["x.jsonl"]', x__jsonl=[whole, *(whole | change for change in changes)])


@pytest.mark.parametrize("kind", SUITES)
def test_whole_rows_are_scored(kind: str, folder: Path, write: Write, tmp_path: Path) -> None:
    (result,) = evaluate(str(suite_of(write, kind, {})), folder, tmp_path / "out", card=False)
    assert result.main.items == 2


@pytest.mark.parametrize(
    ("kind", "column", "value", "said"),
    [
        ("pairs", "sentence_bad", None, "sentence_bad holds no text"),
        ("pairs", "sentence_bad", 5, "sentence_bad holds 5, not text"),
        ("pairs", "sentence_good", "", "sentence_good holds no text"),
        ("pairs", "sentence_good", " \t", "sentence_good holds no text"),
        ("pairs", "sentence_good", ["O barco."], r"sentence_good holds \['O barco.'\], not text"),
        ("pairs", "sentence_bad", "[MASK]", r"'\[MASK\]' comes to no token that can be scored: mend"),
        ("pairs", "sentence_good", "barco " * 200, "the text has .* tokens, but the model takes at most 128"),
        ("bias", "stereotype", None, "stereotype holds no text"),
        ("bias", "antistereotype", "", "antistereotype holds no text"),
        ("bias", "category", None, "category holds no text"),
        ("bias", "antistereotype", "rain", "stereotype and antistereotype share no token"),
        ("facts", "answer", None, "answer holds no text"),
        ("facts", "answer", 1945, "answer holds 1945, not text"),
        ("facts", "prompt", None, "prompt holds no text"),
        ("contrast", "edited", None, "edited holds no text"),
        ("contrast", "edited_label", None, "edited_label holds no text"),
        ("contrast", "label", float("nan"), "label holds nan, not text"),
        ("contrast", "task", "", "task holds no text"),
        ("contrast", "premise", 5, "premise holds 5, not text"),
    ],
)
def test_a_row_that_is_not_whole(
    kind: str, column: str, value: Any, said: str, folder: Path, write: Write, tmp_path: Path
) -> None:
    suite = suite_of(write, kind, {column: value})
    with pytest.raises(InputError, match=rf"x.jsonl, line 2: {said}"):
        evaluate(str(suite), folder, tmp_path / "out", card=False)


def test_groups_may_be_numbers_and_where_there_is_none_it_is_the_file(
    folder: Path, write: Write, tmp_path: Path
) -> None:
    suite = suite_of(write, "pairs", {"kind": 3}, {"kind": None})
    evaluate(str(suite), folder, tmp_path / "pairs", card=False)
    assert [item["phenomenon"] for item in read_items(tmp_path / "pairs", "mine")] == ["x", "3", "x"]
    evaluate(str(suite_of(write, "bias", {"category": 3})), folder, tmp_path / "bias", card=False)
    assert [item["category"] for item in read_items(tmp_path / "bias", "mine")] == ["idade", "3"]
    evaluate(str(suite_of(write, "facts", {"relation": ""})), folder, tmp_path / "facts", card=False)
    assert [item["relation"] for item in read_items(tmp_path / "facts", "mine")] == ["lugar", "x"]


def test_cells_of_csv_are_text_and_parquet_is_as_json(folder: Path, write: Write, tmp_path: Path) -> None:
    suite = write(
        'kind = "facts"\nfiles = ["x.csv"]', x__csv="prompt,answer\nO barco voltou em [MASK].,1945\n"
    )
    evaluate(str(suite), folder, tmp_path / "csv", card=False)
    assert [item["answer"] for item in read_items(tmp_path / "csv", "mine")] == ["1945"]
    (tmp_path / "x.csv").write_text("prompt,answer\nO barco voltou em [MASK].,\n", "utf-8")
    with pytest.raises(InputError, match=r"x.csv, line 2: answer holds no text"):
        evaluate(str(suite), folder, tmp_path / "out", card=False)
    pq.write_table(pa.table({"prompt": ["O [MASK]."], "answer": [1945]}), tmp_path / "x.parquet")  # type: ignore[no-untyped-call]
    suite = write('kind = "facts"\nfiles = ["x.parquet"]')
    with pytest.raises(InputError, match=r"x.parquet, row 1: answer holds 1945, not text"):
        evaluate(str(suite), folder, tmp_path / "out", card=False)


def test_facts_in_phrasings_have_a_subject(folder: Path, write: Write, tmp_path: Path) -> None:
    (tmp_path / "patterns").mkdir()
    (tmp_path / "patterns" / "P1.jsonl").write_text('{"pattern": "[X] voltou ao [Y]."}\n', "utf-8")
    toml = 'kind = "facts"\nfiles = ["P1.jsonl"]\npatterns = "patterns/*.jsonl"\nprompt = "sub"'
    for row, said in (
        ({"answer": "porto"}, "there is no column sub"),
        ({"sub": None, "answer": "porto"}, "sub holds no text"),
    ):
        with pytest.raises(InputError, match=rf"P1.jsonl, line 1: {said}"):
            evaluate(str(write(toml, P1__jsonl=[row])), folder, tmp_path / "out", card=False)
