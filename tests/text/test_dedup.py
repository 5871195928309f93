import json
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unmask.cli import app
from unmask.config import TextConfig
from unmask.errors import ConfigError, InputError, OutputError
from unmask.progress import Progress, Stage
from unmask.text import Document, find_sources, read_documents
from unmask.text import dedup as module
from unmask.text.dedup import DedupResult, band_rows, deduplicate

WORDS = [f"{a}{b}{c}" for a in "bcdfg" for b in ("a", "e", "io", "u") for c in ("lar", "zinho", "ção", "to")]


def make(seed: int, words: int = 200) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def change(text: str, places: int) -> str:
    words = text.split()
    for i in range(places):
        words[(i + 1) * len(words) // (places + 1)] = "mudado"
    return " ".join(words)


def run(tmp_path: Path, texts: list[str], **options: Any) -> tuple[DedupResult, list[str]]:
    (tmp_path / "in.txt").write_text("\n\n".join(texts))
    output = tmp_path / "out.jsonl"
    output.unlink(missing_ok=True)
    result = deduplicate(find_sources([f"pt={tmp_path / 'in.txt'}"]), output, TextConfig(), **options)
    return result, [json.loads(line)["text"] for line in output.read_text().splitlines()]


@pytest.fixture
def corpus() -> list[str]:
    texts = [make(seed) for seed in range(30)]
    return [*texts, change(texts[3], 1), texts[5].upper(), change(texts[7], 20), change(texts[3], 2)]


def test_the_first_of_every_cluster_stays_in_order(tmp_path: Path, corpus: list[str]) -> None:
    result, kept = run(tmp_path, corpus)
    assert kept == [*corpus[:30], corpus[32]]
    assert (result.documents, result.kept, result.near_duplicates) == (34, 31, 3)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_threshold_decides(tmp_path: Path, corpus: list[str]) -> None:
    assert run(tmp_path, corpus, threshold=1.0)[0].near_duplicates == 1
    assert run(tmp_path, corpus, threshold=0.2)[0].near_duplicates == 4


def test_partitions_workers_and_small_batches_change_nothing(
    tmp_path: Path, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(tmp_path, corpus)
    monkeypatch.setattr(module, "_STEP", 4)
    monkeypatch.setattr(module, "_BATCH_CHARS", 1000)
    assert run(tmp_path, corpus) == expected
    assert run(tmp_path, corpus, workers=2) == expected


def test_documents_that_share_a_bucket_but_are_not_alike_stay(tmp_path: Path) -> None:
    """With one row per band nearly everything meets; only what is alike is joined."""
    texts = [f"{make(0, 60)} {make(seed, 100)}" for seed in range(1, 20)]
    assert run(tmp_path, [*texts, change(texts[18], 1)], threshold=0.5)[1] == texts


def test_chains_are_one_cluster(tmp_path: Path) -> None:
    words = make(1, 300).split()
    chain = [  # each is like the one before, the last is unlike the first
        " ".join("mudado" if i % 15 == 0 and i < 15 * changed else word for i, word in enumerate(words))
        for changed in (0, 5, 10, 15)
    ]
    assert run(tmp_path, [chain[0], chain[3]], threshold=0.75)[1] == [chain[0], chain[3]]
    assert run(tmp_path, chain, threshold=0.75)[1] == [chain[0]]


def test_examples_show_the_place_where_they_differ(tmp_path: Path, corpus: list[str]) -> None:
    result, _ = run(tmp_path, corpus)
    assert result.examples[0].similarity < 1
    assert result.examples == sorted(result.examples, key=lambda pair: pair.similarity)
    assert ("mudado" in result.examples[0].first) != ("mudado" in result.examples[0].second)


def test_compressed_output_and_languages(tmp_path: Path, corpus: list[str]) -> None:
    run(tmp_path, corpus)
    plain, packed = tmp_path / "out.jsonl", tmp_path / "deep" / "out.jsonl.zst"
    deduplicate(find_sources([f"pt={tmp_path / 'in.txt'}"]), packed, TextConfig())
    config = TextConfig(language_column="language")
    first, second = (
        [Document(doc.text, doc.language) for doc in read_documents(find_sources([str(path)])[0], config)]
        for path in (plain, packed)
    )
    assert first == second
    assert {doc.language for doc in first} == {"pt"}


def test_what_is_dropped_is_counted(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"{make(1)}\n\ncurto\n\n\u00ad")
    result = deduplicate(find_sources([str(tmp_path)]), tmp_path / "o.jsonl", TextConfig(min_chars=10))
    assert result.dropped == {"short": 1, "empty": 1}
    assert (result.documents, result.kept) == (3, 1)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("curto")
    sources = find_sources([str(tmp_path)])
    with pytest.raises(ConfigError, match="Jaccard index from 0.1 to 1"):
        deduplicate(sources, tmp_path / "o.jsonl", TextConfig(), threshold=80)
    with pytest.raises(OutputError, match=r"end its name with .jsonl or .jsonl.zst"):
        deduplicate(sources, tmp_path / "o.txt", TextConfig())
    with pytest.raises(InputError, match=r"no documents of .*in.txt are left .* 1 short"):
        deduplicate(sources, tmp_path / "o.jsonl", TextConfig(min_chars=10))
    with pytest.raises(OutputError, match="cannot write"):
        deduplicate(sources, tmp_path / "in.txt" / "o.jsonl", TextConfig())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt"]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    taken = tmp_path / "in.jsonl"
    taken.write_text('{"text": "A chuva caiu."}\n')
    for given in (taken, tmp_path):
        with pytest.raises(OutputError, match=r"in\.jsonl is there already: name another file, or remove it"):
            deduplicate(find_sources([str(given)]), taken, TextConfig())
    assert taken.read_text() == '{"text": "A chuva caiu."}\n'


def test_bands_let_pairs_at_the_threshold_meet() -> None:
    for threshold, rows in ((0.5, 3), (0.8, 7), (0.9, 11), (1.0, 128)):
        assert band_rows(threshold) == rows
        assert 1 - (1 - threshold**rows) ** (128 // rows) >= 0.98


def test_command(tmp_path: Path, corpus: list[str]) -> None:
    (tmp_path / "in.txt").write_text("\n\n".join(corpus))
    arguments = [
        "dedup",
        str(tmp_path / "in.txt"),
        "-o",
        str(tmp_path / "o.jsonl"),
        "--workers",
        "1",
        "--quiet",
    ]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "34 documents: 31 kept, 3 near-duplicates removed" in shown.stdout
    (tmp_path / "o.jsonl").unlink()
    result = json.loads(CliRunner().invoke(app, [*arguments, "--json", "--threshold", "1"]).stdout)
    assert (result["kept"], result["near_duplicates"]) == (33, 1)


class Meanwhile(Progress):
    """Does something else when a stage begins."""

    def __init__(self, stage: str, does: Callable[[], None]) -> None:
        self._stage, self._does = stage, does

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
        if label == self._stage:
            self._does()
        yield Stage()


def test_two_cannot_write_one_file(tmp_path: Path, corpus: list[str]) -> None:
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(OutputError, match=r"another process is at work in .*out\.jsonl: wait for it"):
            deduplicate(find_sources([str(tmp_path / "in.txt")]), tmp_path / "out.jsonl", TextConfig())
        refused.append("told")

    (tmp_path / ".out.jsonl.dedup").mkdir()
    (tmp_path / ".out.jsonl.dedup" / "documents.jsonl").write_text("left by one that was killed")
    assert run(tmp_path, corpus, progress=Meanwhile("compare", second))[0].kept == 31
    assert refused
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.jsonl"]


@pytest.mark.parametrize("first", ["lock", "bands"])
def test_one_who_comes_while_a_folder_is_cleared_keeps_his_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Whatever the order in which the disk lists them."""
    output, rooms = tmp_path / "out.jsonl", list[Any]()
    unlink, listed = os.unlink, os.scandir

    def look(*given: Any) -> Any:
        with listed(*given) as found:
            return nullcontext(iter(sorted(found, key=lambda entry: entry.name != first)))

    def remove(path: Any, *given: Any, **more: Any) -> None:
        unlink(path, *given, **more)
        if os.fspath(path).endswith("lock") and not rooms:
            rooms.append(module._room(output))
            (rooms[0].__enter__() / "bands").write_text("of the next")

    with module._room(output) as folder:
        (folder / "bands").write_text("of the first")
        monkeypatch.setattr("os.scandir", look)
        monkeypatch.setattr("os.unlink", remove)
    assert (folder / "bands").read_text() == "of the next"
    rooms[0].__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []
