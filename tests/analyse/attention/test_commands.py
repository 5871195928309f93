"""`unmask analyse attention` and `probe` as they are typed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unmask.checkpoint import save_model
from unmask.cli import main
from unmask.model.network import Model
from unmask.predict import MaskedLM

Run = Callable[..., tuple[int, str, str]]
TEXT = "O gato [MASK] no telhado."


@pytest.fixture(scope="module")
def folder(make_lm: Callable[..., MaskedLM], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to work in: a model, the same without its head, and tagged sentences."""
    folder = tmp_path_factory.mktemp("analyse")
    lm = make_lm()
    save_model(lm.model, folder / "model", lm.tokenizer, "")  # type: ignore[arg-type]
    save_model(Model(lm.config, ()), folder / "headless", lm.tokenizer, "")
    row = "{}\t{}\t_\t{}\t_\t{}\t0\troot\t_\t_\n"
    lines = [
        row.format(1, "O", "DET", "Number=Sing")
        + row.format(2, noun, "NOUN", f"Number={number}")
        + row.format(3, "dorme", "VERB", "_")
        for noun, number in [("gato", "Sing"), ("telhado", "Sing"), ("rios", "Plur")] * 5
    ]
    (folder / "tags.conllu").write_text("\n".join(lines), "utf-8")
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process: status, standard output, standard error."""

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["unmask", "analyse", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        output = capsys.readouterr()
        return int(caught.value.code or 0), output.out, output.err

    return command


def test_attention(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, where work is shown while it lasts
    status, shown, remark = run("attention", TEXT, "--model", "model", "-o", "looks", "--head", "2.3")
    assert status == 0
    assert "attributing" in remark
    assert [line.split()[0] for line in shown.splitlines()[1:13]] == [
        f"{layer}.{head}" for layer in (1, 2, 3) for head in (1, 2, 3, 4)
    ]
    assert "completeness error" in shown
    assert {path.name for path in (folder / "looks").iterdir()} == {
        "attention.html", "attention.json", "attention.npy"
    }  # fmt: skip
    _, told, _ = run("attention", TEXT, "--model", "model", "--target", "dorme", "--json")
    values = json.loads(told)
    assert values["attribution"]["target"] == "dorme"
    assert len(values["rollout"]) == len(values["tokens"])


def test_attention_without_a_head(run: Run) -> None:
    status, told, remark = run("attention", TEXT, "--model", "headless", "--json")
    assert status == 0
    assert json.loads(told)["attribution"] is None
    assert remark == "headless fills no masks (it is no masked language model): attention alone is shown\n"
    assert run("attention", TEXT, "--model", "headless", "-q")[2] == ""
    assert run("attention", "O gato dorme.", "--model", "headless")[2] == ""


def test_probe(run: Run, folder: Path) -> None:
    status, shown, _ = run("probe", "--model", "model", "--data", "tags.conllu", "-o", "probes", "-q")
    assert status == 0
    assert "upos is read best at layer" in shown
    assert (folder / "probes" / "probe.html").exists()
    files = ["--data", "tags.conllu", "--test", "tags.conllu"]
    _, told, _ = run("probe", "-m", "model", *files, "--label", "Number", "--json", "-q")
    values = json.loads(told)
    assert (values["train_words"], values["test_words"]) == (30, 30)
    assert values["layers"][0]["accuracy"] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["attention", "O gato.", "-m", "model", "--mask", "1"], "there is no mask"),
        (["attention", TEXT, "-m", "model", "--mask", "2"], "there is no mask 2: the text has 1"),
        (["attention", TEXT, "-m", "headless", "--target", "gato"], "no mlm head"),
        (["attention", TEXT, "-m", "model", "-o", "no", "--head", "9.9"], "there is no head 9.9"),
        (["attention", TEXT, "-m", "model", "--head", "1.1"], "it goes with --out"),
        (["attention", "gato " * 80, "-m", "model"], "takes at most 64"),
        (["probe", "-m", "model", "--data", "tags.conllu", "--label", "Tense"], "no word has the label"),
        (["probe", "-m", "nowhere", "--data", "tags.conllu"], "nowhere"),
    ],
)
def test_mistakes_are_one_line(run: Run, arguments: list[str], says: str) -> None:
    status, _, told = run(*arguments)
    assert status == 2
    assert says in told
    assert len(told.splitlines()) == 1
