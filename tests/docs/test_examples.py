"""The examples run, in order, in one folder; what they print is what they promise."""

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PRINTED = {
    "01_vocabulary_and_shards": ["pieces: ['[CLS]'", "train: ", "to predict"],
    "02_pretrain": ["160 steps", "→ banco"],
    "03_continue_on_a_domain": ["after: inquilino is ['inquilino']", "03/run/model: "],
    "04_classify": ["accuracy ", "A praça era triste. → detestou"],
    "05_tag": ["LOC 'Recife', characters 15 to 21", "'B-PER', 'O', 'O', 'B-LOC'"],
    "06_pair": ["Rita canta. segue", "Rita dorme. não segue"],
    "07_answer_questions": ["'Porto', characters 16 to 21"],
    "08_few_examples": ["probe  with 4 examples", "cloze  with 0 examples"],
    "09_embeddings_and_search": ["(8, 64)", "O banco de madeira ficava no jardim."],
    "10_senses": ["sense 1: ", "adjusted Rand index"],
    "11_evaluate_and_compare": ["02/run/model: 1.00 right", "artigos, accuracy: "],
    "12_serve_and_call": [
        "models: ['mundo']",
        "O banco guardou o dinheiro de Ana.",
        "3 vectors of 64 numbers",
    ],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


def test_every_example_is_here_and_short() -> None:
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert [script.stem for script in scripts] == sorted(PRINTED)
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    for script in scripts:
        assert len(script.read_text("utf-8").splitlines()) < 60, script.name
        assert f"]({script.name})" in listed


def test_examples_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One test, for most of them start from the model of the second."""
    monkeypatch.chdir(place)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name, promised in PRINTED.items():
            script = str(EXAMPLES / f"{name}.py")
            monkeypatch.setattr("sys.argv", [script])
            runpy.run_path(script, run_name="__main__")
            printed = capsys.readouterr().out
            for line in promised:
                assert line in printed, f"{name} printed:\n{printed}"
    finally:
        torch.set_num_threads(threads)
