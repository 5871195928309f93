"""The evaluation data of the project: shapes, counts, small differences; templates make the pairs again."""

import json
import subprocess
import sys
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "unmask" / "evaluation" / "data"
PAIRS = sorted((DATA / "minimal-pairs-pt").glob("*.jsonl"))
LANGUAGES = pytest.mark.parametrize("language", ["pt", "en"])
FLIPS = [{"positive", "negative"}, {"entailment", "contradiction"}]


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file; every value is text without loose spaces."""
    lines = (DATA / name).read_text("utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    assert lines == [json.dumps(row, ensure_ascii=False) for row in read]
    for row in read:
        assert all(
            isinstance(value, str) and value == " ".join(value.split()) != "" for value in row.values()
        )
    return read


def shared(first: str, second: str) -> float:
    """The share of words that two sentences have in common, in order."""
    return SequenceMatcher(None, first.split(), second.split(), autojunk=False).ratio()


def length_difference(first: str, second: str) -> int:
    return abs(len(first.split()) - len(second.split()))


def assert_different(texts: list[str]) -> None:
    assert [text for text, count in Counter(texts).items() if count > 1] == []


@LANGUAGES
def test_bias_pairs_differ_by_the_group_alone(language: str) -> None:
    read = rows(f"bias-{language}.jsonl")
    assert len(read) >= 200
    assert {tuple(row) for row in read} == {("id", "category", "stereotype", "antistereotype")}
    categories = Counter(row["category"] for row in read)
    assert len(categories) >= 6
    assert min(categories.values()) >= 20
    assert_different([row["id"] for row in read])
    assert_different([row[side] for row in read for side in ("stereotype", "antistereotype")])
    for row in read:
        pair = row["stereotype"], row["antistereotype"]
        assert shared(*pair) >= 0.5, row
        assert length_difference(*pair) <= 2, row


def test_portuguese_paradigms_are_enough() -> None:
    assert len(PAIRS) >= 14


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_minimal_pairs(path: Path) -> None:
    read = rows(f"minimal-pairs-pt/{path.name}")
    assert len(read) >= 120
    assert {tuple(row) for row in read} == {("sentence_good", "sentence_bad", "paradigm", "phenomenon")}
    assert {row["paradigm"] for row in read} == {path.stem}
    assert len({row["phenomenon"] for row in read}) == 1
    assert_different([row["sentence_good"] for row in read])
    assert not {row["sentence_good"] for row in read} & {row["sentence_bad"] for row in read}
    splits_words = {"proclisis_after_negation", "proclisis_in_subordinate", "pronoun_joined_to_com"}
    for row in read:
        pair = row["sentence_good"], row["sentence_bad"]
        assert shared(*pair) >= 0.5, row
        assert length_difference(*pair) == (path.stem in splits_words), row


def test_templates_make_the_minimal_pairs_again(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "minimal_pairs_pt.py", tmp_path], check=True)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in PAIRS}


@LANGUAGES
def test_contrast_edits_are_small_and_flip_the_label(language: str) -> None:
    read = rows(f"contrast-{language}.jsonl")
    assert len(read) >= 100
    assert_different([row["id"] for row in read])
    assert_different([row[side] for row in read for side in ("text", "edited")])
    for row in read:
        premise = ("premise",) if row["task"] == "entailment" else ()
        assert tuple(row) == ("id", "task", *premise, "text", "label", "edited", "edited_label")
        assert {row["label"], row["edited_label"]} == FLIPS[row["task"] == "entailment"]
        assert shared(row["text"], row["edited"]) >= 0.5, row
    tasks = Counter(row["task"] for row in read)
    assert tasks["sentiment"] > tasks["entailment"] >= 20
    for task in tasks:
        first = Counter(row["label"] for row in read if row["task"] == task)
        assert max(first.values()) <= 0.6 * tasks[task]


@LANGUAGES
def test_facts_have_one_mask_and_one_word(language: str) -> None:
    read = rows(f"facts-{language}.jsonl")
    assert len(read) >= 150
    assert {tuple(row) for row in read} == {("relation", "prompt", "answer")}
    assert_different([row["prompt"] for row in read])
    assert min(Counter(row["relation"] for row in read).values()) >= 5
    for row in read:
        assert row["prompt"].count("[MASK]") == 1
        assert row["answer"].isalpha()


@LANGUAGES
def test_cloze_sentences(language: str) -> None:
    lines = (DATA / f"cloze-{language}.txt").read_text("utf-8").splitlines()
    assert len(lines) == 10
    assert_different(lines)
    for line in lines:
        sentence, answer = line.split("\t")
        assert sentence.count("[MASK]") == 1
        assert answer.isalpha()


def test_readme_tells_the_true_counts() -> None:
    text = (DATA / "README.md").read_text("utf-8")
    for name in ("bias", "facts"):
        told = f"| {', '.join(str(len(rows(f'{name}-{language}.jsonl'))) for language in ('pt', 'en'))} |"
        assert told in text
    assert f"{len(PAIRS)} paradigms" in text
    assert [path.stem for path in PAIRS if f"`{path.stem}`" not in text] == []
