"""The demo, small: from documentation to filled masks, and what it says at the end."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from unmask.cli import app
from unmask.config import load_recipe
from unmask.demo import CLOZES, DemoResult, run_demo
from unmask.errors import ConfigError, OutputError
from unmask.runs import read_metrics

PACKAGES = ("joblib", "scipy.optimize")  # both come with what unmask needs
CHANGES = ["tokenizer.vocab_size=700", "train.steps=30", "train.eval_every=15", "train.workers=0"]


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to stand in, as the demo is run by its relative name."""
    folder = tmp_path_factory.mktemp("demo")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def result(place: Path) -> DemoResult:
    """A run of some seconds."""
    return run_demo(Path("demo-out"), load_recipe("tiny-docs", CHANGES), PACKAGES)


def test_it_learns_and_fills(result: DemoResult) -> None:
    valid = result.training.valid
    assert valid
    assert valid.accuracy["mlm"] > 1.1 * valid.guess > 0.01
    assert result.documents > 300
    assert result.training.steps == 30
    assert result.seconds >= result.training.seconds
    assert [filled.text for filled in result.filled] == list(CLOZES)
    assert all(len(set(filled.words)) == 3 for filled in result.filled)
    for example in result.examples:
        assert len(example.hidden) > 1
        assert "[MASK]" in example.text or all(h.kind != "masked" for h in example.hidden)


def test_its_own_sentences_are_watched(result: DemoResult) -> None:
    cloze = [record for record in read_metrics(Path(result.training.run)) if record["split"] == "cloze"]
    assert [record["step"] for record in cloze] == [15, 30]
    assert {fill["text"]: fill["answer"] for fill in cloze[-1]["fills"]} == CLOZES
    page = Path(result.report).read_text("utf-8")
    for shown in ("If None, the default [MASK] is used.", "What the model was asked", "Loss, hidden tokens"):
        assert shown in page


@pytest.mark.usefixtures("result")
def test_what_it_says_at_the_end() -> None:
    changes = [part for change in CHANGES for part in ("--set", change)]
    shown = CliRunner().invoke(app, ["demo", *changes, "-q"])
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("30 steps" in line and "seconds in all" in line for line in lines)
    assert any("guessed right" in line and "the commonest token alone" in line for line in lines)
    sentence = lines.index("  If None, the default [MASK] is used.")
    assert lines[sentence + 1].count(", ") == 2
    for expected in (
        "Report: demo-out/report.html",
        '  unmask fill --model demo-out/run/model "The default [MASK] is one."',
        "  unmask corpus demo-out/run/shards",
        "  unmask pretrain tiny-docs --text FOLDER -o my-run",
    ):
        assert expected in lines
    as_json = CliRunner().invoke(app, ["demo", *changes, "-q", "--json"])
    assert json.loads(as_json.stdout)["training"]["model"] == "demo-out/run/model"


@pytest.mark.parametrize(
    "changes", [["objective.causal=1.0"], ["objective.mlm=0", "objective.sbo=true", "batch.mask.kind=span"]]
)
def test_a_model_that_cannot_fill_is_refused_at_once(changes: list[str], tmp_path: Path) -> None:
    recipe = load_recipe("tiny-docs", changes)
    with pytest.raises(ConfigError, match="filled masks"):
        run_demo(tmp_path / "demo", recipe)
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("names", [["report.html"], ["text.jsonl", "thesis.tex"]])
def test_a_folder_with_other_files_is_left_alone(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match="holds other files"):
        run_demo(tmp_path, load_recipe("tiny-docs"))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(names, "mine")
    with pytest.raises(OutputError, match=re.escape(str(tmp_path / names[0]))):
        run_demo(tmp_path / names[0], load_recipe("tiny-docs"))
