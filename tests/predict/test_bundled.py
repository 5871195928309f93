"""Models that come with the package: found by name, listed, stored in half precision."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import unmask
from unmask import target
from unmask.cli import app
from unmask.errors import ModelError, OutputError
from unmask.predict import MaskedLM
from unmask.predict.convert import convert
from unmask.predict.folders import bundled_names, find_folder
from unmask.serve.names import named_folders

Folder = Callable[..., Path]
TEXT = "O gato [MASK] no telhado."


@pytest.fixture
def names(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two stand-ins for bundled models, in a working directory that holds neither; where they lie."""
    place = tmp_path / "models"
    for name in ("mini-en", "mini-pt"):
        convert(folder(name=f"full-{name}"), place / name, "bfloat16")
    (place / "notes").mkdir()
    monkeypatch.setattr(target, "BUNDLED", place)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return place


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_by_name_everywhere(names: Path) -> None:
    assert bundled_names() == ["mini-en", "mini-pt"]
    lm = unmask.load("mini-pt", "cpu")
    assert isinstance(lm, MaskedLM)
    assert lm.folder == names / "mini-pt"
    (filled,) = run("fill", "--model", "mini-pt", TEXT, "--top", 1).splitlines()
    assert lm.fill(TEXT, top=1)[0].text in filled
    assert json.loads(run("info", "mini-pt", "--json"))["folder"] == str(names / "mini-pt")
    assert named_folders(["mini-en", "pt=mini-pt"]) == {"mini-en": "mini-en", "pt": "mini-pt"}


def test_pretraining_goes_on_from_a_name(names: Path) -> None:
    Path("a.txt").write_text(
        "\n\n".join(f"A chuva número {n} caiu, e o rio subiu até à porta da casa velha." for n in range(300)),
        "utf-8",
    )
    small = ("train.steps=2", "train.batch_tokens=256", "batch.length=32", "train.compile=false")
    changes = [part for change in small for part in ("--set", change)]
    run("pretrain", "tiny-docs", "--from", "mini-pt", "--text", "a.txt", "-o", "run", "-q", *changes)
    assert "mini-pt" in Path("run/model/README.md").read_text("utf-8")
    assert unmask.load("run/model", "cpu").config == unmask.load("mini-pt", "cpu").config


def test_a_tokenizer_by_the_name_of_its_model(names: Path) -> None:
    Path("a.txt").write_text("A chuva caiu.\n\nO rio subiu até à porta da casa velha.", "utf-8")
    reports = [
        json.loads(run("tokenizer", "--report", name, "a.txt", "--json", "-q"))
        for name in ("mini-pt", names / "mini-pt")
    ]
    assert reports[0] == reports[1]
    run("prepare", "a.txt", "--tokenizer", "mini-pt", "-o", "shards", "-q")
    found = Path("shards/tokenizer/tokenizer.json").read_bytes()
    assert found == (names / "mini-pt/tokenizer.json").read_bytes()
    refused = CliRunner().invoke(app, ["prepare", "a.txt", "--tokenizer", "mini-xx", "-o", "other"])
    assert "no tokenizer at mini-xx" in str(refused.exception)


def test_a_path_comes_before_a_name(names: Path) -> None:
    (names / "mini-pt").rename("mini-pt")
    assert find_folder("mini-pt") == Path("mini-pt")
    assert find_folder("mini-en") == names / "mini-en"


@pytest.mark.parametrize("name", ["mini-pt", "./mini-pt/"])
def test_a_name_is_not_taken(names: Path, name: str) -> None:
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="would hide the model of that name .* my-mini-pt"):
            target.check_target(Path(name), overwrite)
    target.check_target(Path("made/mini-pt"))
    target.check_target(Path("mini"))
    refused = CliRunner().invoke(app, ["convert", "mini-pt", name, "--to", "onnx"])
    assert "would hide" in str(refused.exception)
    assert not Path("mini-pt").exists()


def test_they_stay_as_they_are(names: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(names)
    for place in (
        names / "mini-pt",
        names / "new",
        names / "mini-pt" / "inside",
        tmp_path / "link" / "mini-pt",
    ):
        with pytest.raises(OutputError, match="where unmask keeps the models it comes with"):
            target.check_target(place, overwrite=True)


def test_a_wrong_name_is_told_the_right_ones(names: Path) -> None:
    with pytest.raises(ModelError, match="bundled models: mini-en, mini-pt; did you mean mini-pt?"):
        find_folder("mini-p")
    with pytest.raises(ModelError, match=r"bundled models: mini-en, mini-pt$"):
        find_folder("bert-base-cased")
    with pytest.raises(ModelError, match="no model folder at notes"):
        find_folder("notes")


def test_they_are_listed(names: Path) -> None:
    assert run("info") == "bundled models: mini-en, mini-pt\n"
    assert json.loads(run("info", "--json")) == {"bundled": ["mini-en", "mini-pt"]}


def test_half_the_size_is_computed_in_float32(names: Path, tmp_path: Path) -> None:
    whole, half = tmp_path / "full-mini-pt", names / "mini-pt"
    assert {tensor.dtype for tensor in load_file(half / "model.safetensors").values()} == {torch.bfloat16}
    sizes = [(path / "model.safetensors").stat().st_size for path in (half, whole)]
    assert sizes[0] < 0.6 * sizes[1]
    lm = unmask.load("mini-pt", "cpu")
    assert {parameter.dtype for parameter in lm.model.parameters()} == {torch.float32}  # type: ignore[attr-defined]
    vectors, exact = (model.embed(["O gato dorme."]) for model in (lm, unmask.load(whole, "cpu")))
    assert 0 < np.abs(vectors - exact).max() < 0.1


def test_what_the_package_holds_can_be_opened() -> None:
    assert bundled_names() == ["mini-en", "mini-pt"]
    for name in bundled_names():
        folder = find_folder(name)
        lm = unmask.load(name, "cpu")
        assert isinstance(lm, MaskedLM)
        assert not lm.report
        assert (folder / "model.safetensors").stat().st_size <= 16 * 2**20
        assert sum(parameter.numel() for parameter in lm.model.parameters()) <= 8_000_000  # type: ignore[attr-defined]
        assert len((folder / "README.md").read_text("utf-8")) > 1000
        assert len(lm.fill(TEXT, top=3)) == 3


def test_they_know_their_language() -> None:
    for name, text, words in (
        ("mini-en", "She opened the [MASK] and went in.", {"door", "window"}),
        ("mini-pt", "Ela abriu a [MASK] e entrou em casa.", {"porta", "janela"}),
    ):
        lm = unmask.load(name, "cpu")
        assert isinstance(lm, MaskedLM)
        assert {fill.text for fill in lm.fill(text, top=2)} == {
            text.replace("[MASK]", word) for word in words
        }


def test_tasks_and_scores_by_name(names: Path) -> None:
    rows = [
        f"O gato {verb} no telhado {n}.,{label}"
        for n in range(8)
        for verb, label in (("dorme", "bom"), ("caiu", "mau"))
    ]
    Path("a.csv").write_text("text,label\n" + "\n".join(rows), "utf-8")
    run(
        "finetune",
        "classify",
        "--model",
        "mini-pt",
        "--train",
        "a.csv",
        "-o",
        "made",
        "-q",
        "--set",
        "epochs=1",
    )
    assert "mini-pt" in Path("made/README.md").read_text("utf-8")
    Path("pairs.jsonl").write_text(
        '{"sentence_good": "O gato dorme.", "sentence_bad": "O gato dormem."}\n', "utf-8"
    )
    said = 'kind = "pairs"\nabout = "agreement"\nsource = "here"\nlicence = "MIT"\nfiles = ["pairs.jsonl"]\n'
    Path("pairs.toml").write_text(said, "utf-8")
    card = (names / "mini-pt" / "README.md").read_bytes()
    for model in ("mini-pt", names / "mini-pt"):
        run("evaluate", "pairs.toml", "--model", model, "-o", "scores", "-q")
        assert (names / "mini-pt" / "README.md").read_bytes() == card
