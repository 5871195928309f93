"""`unmask embed`: text and JSON out, one line and status 2 for every mistake."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unmask.cli import main
from unmask.predict import load
from unmask.predict.standardise import Standardiser

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["unmask", "embed", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        output = capsys.readouterr()
        return int(caught.value.code or 0), output.out or output.err

    return command


@pytest.fixture
def file(tmp_path: Path, texts: list[str]) -> Path:
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
    return tmp_path / "texts.txt"


def test_vectors(run: Run, folder: Callable[..., Path], file: Path, tmp_path: Path, texts: list[str]) -> None:
    model = folder()
    out = tmp_path / "v.npy"
    status, said = run(file, "--model", model, "-o", out, "-q", "--layer", "last4", "--pool", "max")
    assert (status, said) == (0, f"6 texts, width 32: {out}\n")
    wanted = load(model, "cpu").embed(texts, layer="last4", pool="max")
    np.testing.assert_allclose(np.load(out), wanted, atol=1e-5)
    status, said = run(
        file, "-m", model, "-o", tmp_path / "w.parquet", "--level", "word", "--json", "-q", "--normalise"
    )
    facts = json.loads(said)
    assert (facts["texts"], facts["rows"] > 40, facts["kept"]) == (6, True, 0)
    assert facts["file"] == str(tmp_path / "w.parquet")


def test_fitted_then_applied(run: Run, folder: Callable[..., Path], file: Path, tmp_path: Path) -> None:
    model, fitted, out = folder(), tmp_path / "z.safetensors", tmp_path / "v.npy"
    assert run(file, "-m", model, "--fit-standardise", "zscore", "-o", fitted, "-q")[0] == 0
    assert Standardiser.load(fitted).about["level"] == "sentence"
    assert run(file, "-m", model, "--standardise", fitted, "-o", out, "-q")[0] == 0
    np.testing.assert_allclose(np.load(out).std(0), 1, atol=1e-3)
    status, said = run(file, "-m", model, "--standardise", fitted, "-o", tmp_path / "u.npy", "--layer", 1)
    assert (status, said.startswith("unmask: the standardiser was fitted on layer 2")) == (2, True)


def test_mistakes_are_one_line(run: Run, folder: Callable[..., Path], file: Path, tmp_path: Path) -> None:
    model, out = folder(), tmp_path / "v.npy"
    (tmp_path / "empty.txt").touch()
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    for arguments, says in (
        ((tmp_path / "empty.txt", "-o", out), "empty.txt is empty"),
        ((tmp_path / "rows.csv", "-o", out), "there is no column text, only a, b; say which with --column"),
        ((tmp_path / "rows.csv", "-o", out, "--column", "c"), "there is no column c"),
        ((tmp_path / "none.txt", "-o", out), "there is no"),
        ((file, "-o", tmp_path / "v.csv"), "vectors are written as .npy .parquet .safetensors"),
        ((file, "-o", out, "--level", "word"), "unlike numbers of words"),
        ((file, "-o", out, "--layer", 7), "there is no layer 7"),
        ((file, "-o", out, "--layer", "top"), "--layer top: write a number, last4 or all"),
        ((file, "-o", out, "--standardise", file), "is no standardiser, or damaged"),
        ((file, "-o", out, "--ray-address", "auto"), "--ray-address goes with --engine ray"),
        ((file, "-o", file), "vectors are written as"),
    ):
        status, said = run(*arguments, "-m", model, "-q")
        assert status == 2
        assert says in said
        assert len(said.splitlines()) == 1
    status, said = run(file, "-o", out, "-m", tmp_path / "nowhere")
    assert (status, "no model folder at" in said) == (2, True)
