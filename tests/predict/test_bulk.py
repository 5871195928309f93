"""Files of vectors: in every form the vectors of `embed`, whatever interrupted the work."""

import csv
import gzip
import json
import lzma
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tests.conftest import Heard

from unmask.errors import ConfigError, InputError, ModelError, OutputError
from unmask.predict import MaskedLM, bulk, load, parts
from unmask.predict.bulk import EmbedSummary, embed_file
from unmask.predict.inputs import TooLongError
from unmask.predict.parts import EmbedSettings
from unmask.predict.standardise import Standardiser
from unmask.processes import folder_lock

Floats = NDArray[np.float32]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three texts a part, so that a few of them are many parts."""
    monkeypatch.setattr(parts, "CHUNK_TEXTS", 3)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def file(tmp_path: Path, texts: list[str]) -> Path:
    """Twenty lines, one of them empty."""
    lines = [f"{text} Linha {number}." for number in range(4) for text in texts[:5]]
    lines[7] = ""
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def lines_of(file: Path) -> list[str]:
    return file.read_text("utf-8").split("\n")[:-1]


def vectors_in(path: Path) -> Floats:
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".safetensors":
        return load_file(path)["vectors"]
    table = pq.read_table(path)
    names = [name for name in table.column_names if name.startswith("vector")]
    layers = [np.stack(table[name].to_numpy()) for name in names]
    return layers[0] if names == ["vector"] else np.stack(layers, 1)


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".safetensors"])
@pytest.mark.parametrize("layer", [1, "last4", "all"])
def test_the_nth_vector_is_that_of_the_nth_line(
    lm: MaskedLM, file: Path, tmp_path: Path, suffix: str, layer: Any
) -> None:
    out = tmp_path / f"vectors{suffix}"
    done = embed_file(lm, file, out, EmbedSettings(layer=layer, normalise=True))
    assert (done.texts, done.rows, done.width, done.kept) == (20, 20, 32, 0)
    wanted = lm.embed(lines_of(file), layer=layer, normalise=True)
    np.testing.assert_allclose(vectors_in(out), wanted, atol=1e-5)
    assert not list(tmp_path.glob("*.work"))
    if suffix == ".parquet":
        table = pq.read_table(out)
        assert table["text"].to_pylist() == lines_of(file)
        assert table["number"].to_pylist() == list(range(20))


@pytest.mark.parametrize("level", ["word", "token"])
def test_ragged_levels(any_lm: MaskedLM, file: Path, tmp_path: Path, level: Any) -> None:
    pool: Any = "max" if level == "word" else None
    settings, lines = EmbedSettings(level, pool=pool), lines_of(file)
    done = embed_file(any_lm, file, tmp_path / "rows.parquet", settings)
    embed_file(any_lm, file, tmp_path / "rows.safetensors", settings)
    wanted = any_lm.embed(lines, level, pool=pool)
    assert done.rows == sum(map(len, wanted)) > 100
    table, tensors = pq.read_table(tmp_path / "rows.parquet"), load_file(tmp_path / "rows.safetensors")
    for number, rows in enumerate(wanted):
        start, end = tensors["offsets"][number : number + 2]
        np.testing.assert_allclose(tensors["vectors"][start:end], rows, atol=1e-5)
        assert table["number"].to_pylist()[start:end] == [number] * len(rows)
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), tensors["vectors"])
    spans = np.column_stack([table["start"], table["end"]])
    np.testing.assert_array_equal(spans, tensors["spans"])
    names = table[level].to_pylist()
    if level == "word":
        places = zip(table["number"].to_pylist(), spans.tolist(), strict=True)
        assert names == [lines[number][start:end] for number, (start, end) in places]
        assert names[:3] == ["O", "gato", "preto"]
    else:
        tokens = [any_lm.tokenizer.piece(int(i)) for line in lines for i in any_lm.tokenizer.encode(line).ids]
        assert names == tokens
        assert not spans[0].any()


def test_every_kind_of_file(lm: MaskedLM, file: Path, tmp_path: Path) -> None:
    lines = lines_of(file)
    rows = [{"frase": line, "n": number} for number, line in enumerate(lines)]
    packed = {"a.txt.gz": gzip.compress(file.read_bytes()), "a.txt.xz": lzma.compress(file.read_bytes())}
    for name, content in packed.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as target:
            writer = csv.DictWriter(target, ["n", "frase"], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    nothing_is_null = [{**row, "frase": row["frase"] or None} for row in rows]
    pq.write_table(pa.Table.from_pylist(nothing_is_null), tmp_path / "a.parquet")
    embed_file(lm, file, tmp_path / "whole.npy")
    for name in [*packed, "a.jsonl", "a.csv", "a.tsv", "a.parquet"]:
        embed_file(
            lm, tmp_path / name, tmp_path / f"{name}.npy", column="text" if name in packed else "frase"
        )
        assert (tmp_path / f"{name}.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes(), name


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".safetensors"])
def test_interrupted_it_goes_on_to_the_same_bytes(
    lm: MaskedLM, file: Path, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out, made = tmp_path / f"whole{suffix}", tmp_path / f"out{suffix}", parts.make_part
    embed_file(lm, file, whole)
    calls = 0

    def interrupted(*given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        made(*given)

    monkeypatch.setattr(parts, "make_part", interrupted)
    torch.set_num_threads(1)  # one chunk after the other
    with pytest.raises(KeyboardInterrupt):
        embed_file(lm, file, out)
    assert not out.exists()
    assert len(list((tmp_path / f"out{suffix}.work" / "parts").iterdir())) in (3, 4)  # one was under way
    done = embed_file(lm, file, out)
    assert 9 <= done.kept <= 12
    assert out.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.work"))


def test_the_number_of_cores_leaves_no_trace(lm: MaskedLM, file: Path, tmp_path: Path) -> None:
    for threads in (1, 3):
        torch.set_num_threads(threads)
        embed_file(lm, file, tmp_path / f"{threads}.npy")
        assert torch.get_num_threads() == threads
    assert (tmp_path / "1.npy").read_bytes() == (tmp_path / "3.npy").read_bytes()


def test_what_another_command_left_is_refused(
    lm: MaskedLM, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OutputError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("unmask.predict.bulk.write_vectors", full)
        with pytest.raises(OutputError, match="no space left"):
            embed_file(lm, file, tmp_path / "a.npy")
    with pytest.raises(OutputError, match=r"a.npy.work holds the unfinished work .* \(layer differ\)"):
        embed_file(lm, file, tmp_path / "a.npy", EmbedSettings(layer=1))
    with pytest.raises(OutputError, match="is at work in .*a.npy: wait"):
        with folder_lock(tmp_path / "a.npy.work" / "lock", tmp_path):
            embed_file(lm, file, tmp_path / "a.npy")
    file.write_text("Outro texto.\nE mais um.\n", "utf-8")
    done = embed_file(lm, file, tmp_path / "a.npy")
    assert (done.texts, done.kept) == (2, 0)


@pytest.mark.parametrize("finished", [True, False])
def test_another_process_that_ends_meanwhile(
    lm: MaskedLM, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool
) -> None:
    out = tmp_path / "v.npy"

    @contextmanager
    def waited(path: Path, *_: object) -> Iterator[None]:
        shutil.rmtree(path.parent)  # as the other one does at its end
        if finished:
            out.write_bytes(b"whole")
        yield

    monkeypatch.setattr(bulk, "folder_lock", waited)
    if finished:
        with pytest.raises(OutputError, match="v.npy is there already"):
            embed_file(lm, file, out)
        assert out.read_bytes() == b"whole"
    else:
        assert embed_file(lm, file, out).texts == len(np.load(out))


def test_after_too_few_texts_for_one_method_another_goes_on(lm: MaskedLM, file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give more text, or take another method"):
        embed_file(lm, file, tmp_path / "z.safetensors", fit="whiten")
    assert embed_file(lm, file, tmp_path / "z.safetensors", fit="mean").kept == 20
    assert Standardiser.load(tmp_path / "z.safetensors").method == "mean"


def test_work_without_a_plan_begins_anew(lm: MaskedLM, file: Path, tmp_path: Path) -> None:
    work = tmp_path / "a.npy.work"
    for plan in (None, "{"):
        (work / "parts").mkdir(parents=True)
        (work / "parts" / "000000.safetensors").write_bytes(b"of whom?")
        (tmp_path / ".a.npy.0123abcd.tmp").write_bytes(b"half")  # left by a killed process
        if plan:
            (work / "plan.json").write_text(plan)
        assert embed_file(lm, file, tmp_path / "a.npy").kept == 0
        (tmp_path / "a.npy").unlink()
        assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_damaged_part_is_named(lm: MaskedLM, file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="whitening"):
        embed_file(lm, file, tmp_path / "z.safetensors", fit="whiten")
    part = tmp_path / "z.safetensors.work" / "parts" / "000002.safetensors"
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(InputError, match="000002.safetensors is damaged: remove it and run the same"):
        embed_file(lm, file, tmp_path / "z.safetensors", fit="mean")
    part.unlink()
    assert embed_file(lm, file, tmp_path / "z.safetensors", fit="mean").kept == 17


def test_facts_tell_apart_what_a_folder_says(folder: Callable[..., Path]) -> None:
    path = folder()
    (path / "modules.json").write_text("[]")
    known = []
    for length, prompt, lower in ((9, "a", False), (8, "a", False), (8, "b", False), (8, "b", True)):
        values = {"max_seq_length": length, "do_lower_case": lower}
        (path / "sentence_bert_config.json").write_text(json.dumps(values))
        prompts = {"prompts": {"p": prompt}, "default_prompt_name": "p"}
        (path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
        known.append(EmbedSettings().facts(load(path, "cpu")))
    assert not [(a, b) for a, b in pairwise(known) if a == b]
    changed = (path / "tokenizer.json").read_text("utf-8").replace('"lowercase": false', '"lowercase": true')
    assert changed != (path / "tokenizer.json").read_text("utf-8")
    (path / "other.json").write_text(changed, "utf-8")
    other = load(path, "cpu", tokenizer=path / "other.json")
    assert EmbedSettings().facts(other) != known[-1]


def test_after_a_long_text_the_command_goes_on_with_truncate(
    lm: MaskedLM, file: Path, tmp_path: Path
) -> None:
    with file.open("a", encoding="utf-8") as more:
        more.write("gato " * 90)
    with pytest.raises(InputError, match="line 21: the text has 92 tokens"):
        embed_file(lm, file, tmp_path / "a.npy")
    with pytest.raises(TooLongError) as caught:
        lm.embed(["gato", "gato " * 90])
    again = pickle.loads(pickle.dumps(caught.value))  # as tasks on other machines do
    assert (str(again), again.number) == (str(caught.value), 1)
    cut = EmbedSettings(truncate=True)
    assert embed_file(lm, file, tmp_path / "a.npy", cut).kept == 18
    embed_file(lm, file, tmp_path / "whole.npy", cut)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_a_standardiser_is_fitted_and_applied(
    folder: Callable[..., Path], file: Path, tmp_path: Path
) -> None:
    model, fitted, lines = load(folder(), "cpu"), tmp_path / "z.safetensors", lines_of(file)
    done = embed_file(model, file, fitted, EmbedSettings("word", 1), fit="zscore")
    words = np.concatenate(model.embed(lines, "word", 1))
    assert done.rows == len(words)
    opened = Standardiser.load(fitted)
    assert dict(opened.about) == model.about("word", 1, "mean")
    assert opened.about["model"]
    settings = EmbedSettings("word", 1, standardise=opened)
    embed_file(model, file, tmp_path / "words.safetensors", settings)
    found = vectors_in(tmp_path / "words.safetensors")
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(0), 1, atol=1e-4)
    np.testing.assert_allclose(found, (words - words.mean(0)) / words.std(0), atol=1e-3)
    with pytest.raises(ModelError, match="fitted on level word, these vectors are of sentence"):
        embed_file(model, file, tmp_path / "b.npy", EmbedSettings(layer=1, standardise=opened))


@pytest.mark.parametrize(
    ("settings", "fit", "name", "says"),
    [
        (EmbedSettings(), None, "a.txt", "vectors are written as .npy .parquet .safetensors"),
        (EmbedSettings("word"), None, "a.npy", "unlike numbers of words, .* write .parquet or .safetensors"),
        (EmbedSettings(), "mean", "a.npy", "a standardiser is written as .safetensors"),
        (EmbedSettings(), "means", "a.safetensors", "zscore, mean, abtt, whiten"),
        (EmbedSettings(normalise=True), "mean", "a.safetensors", "fitted on plain vectors"),
        (EmbedSettings(layer="all"), "mean", "a.safetensors", "one layer: say which with --layer"),
        (EmbedSettings(layer=9), None, "a.npy", "no layer 9"),
        (EmbedSettings("token", pool="max"), None, "a.parquet", "tokens are not pooled: leave out --pool"),
        (EmbedSettings(), "whiten", "a.safetensors", "takes more than 32 vectors, not 20"),
    ],
)
def test_what_cannot_be_done(
    lm: MaskedLM, file: Path, tmp_path: Path, settings: EmbedSettings, fit: Any, name: str, says: str
) -> None:
    with pytest.raises((OutputError, ConfigError, InputError), match=says):
        embed_file(lm, file, tmp_path / name, settings, fit=fit)
    assert not (tmp_path / name).exists()


def test_a_column_is_not_told_of_what_is_refused(lm: MaskedLM, tmp_path: Path, heard: Heard) -> None:
    (tmp_path / "a.csv").write_text("frase\num gato\n", "utf-8")
    with pytest.raises(InputError, match="no layer 9"):
        embed_file(lm, tmp_path / "a.csv", tmp_path / "a.npy", EmbedSettings(layer=9), progress=heard)
    assert heard.said == []


def test_what_cannot_be_read(lm: MaskedLM, file: Path, tmp_path: Path) -> None:
    def refused(name: str, content: str, says: str) -> EmbedSummary | None:
        (tmp_path / name).write_text(content, "utf-8")
        with pytest.raises(InputError, match=says):
            return embed_file(lm, tmp_path / name, tmp_path / f"{name}.npy")
        return None

    refused("e.txt", "", "e.txt is empty: there is no text in it")
    refused("h.csv", "a,text\n", "h.csv has a header .a, text. but no rows")
    refused("c.csv", "a,b\n1,2\n", "there is no column text, only a, b; say which with --column")
    refused("c.jsonl", '{"text": "a"}\n{"b": 1}\n', "line 2: there is no column text, only b")
    refused("n.jsonl", '{"text": 3}\n', "line 1: text holds 3, not text")
    refused("l.txt", "um\ndois\n" + "gato " * 90, "l.txt, line 3: the text has 92 tokens, .* at most 64")
    done = embed_file(lm, tmp_path / "l.txt", tmp_path / "cut.npy", EmbedSettings(truncate=True))
    assert done.texts == 3
    with pytest.raises(OutputError, match="is there already"):
        embed_file(lm, file, tmp_path / "cut.npy")
    with pytest.raises(InputError, match="standard input cannot be read again"):
        embed_file(lm, "-", tmp_path / "a.npy")
    with pytest.raises(InputError, match="means 2 files"):
        (tmp_path / "two").mkdir()
        for name in "ab":
            (tmp_path / "two" / f"{name}.txt").write_text("um\n")
        embed_file(lm, tmp_path / "two", tmp_path / "a.npy")
