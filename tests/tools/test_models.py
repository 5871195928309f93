"""The script that makes the bundled models: its steps, at toy size, each where the other has never been."""

import json
import lzma
import sys
import tarfile
from pathlib import Path

import pytest
from tests.conftest import load_tool

import unmask
from unmask.config import TextConfig
from unmask.errors import OutputError
from unmask.evaluation import evaluate
from unmask.text import find_sources, read_documents

ROOT = Path(__file__).resolve().parents[2]
models = load_tool("models")

TABLE = """
[models.toy]
language = "pt"
recipe = "modern-mini"
parameters = 100_000
mib = 1
settings = [
  "model.width=32", "model.layers=3", "model.heads=2", "model.inner=32", "train.stages=[]", "batch.length=64",
  "train.batch_tokens=512", "train.micro_tokens=512", "train.workers=0",
]

[languages.pt]
name = "Portuguese"
example = "O gato [MASK] no telhado."
vocabulary = ["--vocab-size", "150"]
published = { name = "letters", path = "letters/vocab.txt" }
alpha = 0.5
balance = "the cats do not drown the ships"
limits = "- Cats and ships."

[[languages.pt.sources]]
tag = "pt-cats"
file = "cats.txt.xz"
about = "what cats do"
terms = "public domain"

[[languages.pt.sources]]
tag = "pt-ships"
file = "ships.txt.xz"
about = "where ships go"
terms = "official record"
"""
CATS = [
    f"O gato {verb} {where}.\nDepois dorme {when}."
    for verb in ("dorme", "corre", "salta", "mia", "brinca")
    for where in ("no telhado", "na rua", "no jardim", "na cozinha")
    for when in ("muito", "pouco", "de dia", "de noite")
]
SHIPS = [
    f"A nau {name} parte para {port} {when}."
    for name in ("Boa Esperança", "Santa Maria")
    for port in ("Lisboa", "Goa", "Luanda", "Santos")
    for when in ("hoje", "ontem", "em maio")
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, works in (("cats", CATS), ("ships", SHIPS)):
        with lzma.open(tmp_path / f"{name}.txt.xz", "wt", encoding="utf-8") as file:
            file.write("\n\n".join(works))
    letters = sorted({letter for work in CATS + SHIPS for letter in work if not letter.isspace()})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    (tmp_path / "table.toml").write_text(TABLE, "utf-8")
    monkeypatch.setenv("UNMASK_DATA", str(tmp_path))
    return tmp_path / "table.toml"


def run(monkeypatch: pytest.MonkeyPatch, table: Path, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["models.py", "--table", str(table), *map(str, words)])
    models.main()


def works(path: Path) -> set[str]:
    return {document.text for document in read_documents(find_sources([str(path)])[0], TextConfig())}


def test_the_steps_make_a_model_and_its_card(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there, pack = tmp_path / "here", tmp_path / "there", tmp_path / "toy.tar.xz"
    run(monkeypatch, table, "prepare", "toy", "--scratch", here, "--pack", pack)
    told = capsys.readouterr().out
    place = here / "parts/pt"
    learned, held = works(place / "text/pt-cats/0.txt"), works(place / "held/pt-cats.txt")
    assert held
    assert learned | held == set(CATS)
    assert not learned & held
    facts = json.loads((place / "facts.json").read_text("utf-8"))
    assert f"pt-ships: {facts['sources']['pt-ships']['words']:,} words" in told
    ours, letters = facts["fertility"].values()
    assert 1 <= ours["pt-cats"] < letters["pt-cats"]

    stamp = (place / "shards/manifest.json").stat().st_mtime_ns
    run(monkeypatch, table, "prepare", "toy", "--scratch", here)
    assert (place / "shards/manifest.json").stat().st_mtime_ns == stamp

    with tarfile.open(pack) as file:
        file.extractall(there, filter="data")
    monkeypatch.delenv("UNMASK_DATA")
    model = there / "toy"
    model.mkdir()
    (model / "config.json").touch()  # of an earlier training, which is replaced
    run(monkeypatch, table, "train", "toy", "--scratch", there, "--steps", 3)
    assert unmask.load(model).config.width == 32
    evaluate(str(place / "held/pt-cats.txt"), model, tmp_path / "scores", card=False)
    scores = sorted((tmp_path / "scores").glob("*.json"))
    run(monkeypatch, table, "card", "toy", "--scratch", there, "--scores", *scores)
    card = (model / "README.md").read_text("utf-8")
    assert "3 steps" in card
    assert "| `pt-cats` | what cats do | public domain |" in card
    assert "unmask pretrain modern-mini --data parts/pt/shards -o parts/pt/run-toy" in card
    assert "--set train.steps=3\n" in card
    assert "- pt-cats: set apart of what cats do (public domain)" in card
    assert "| pt-cats | bits per byte |" in card
    assert str(tmp_path) not in card


@pytest.mark.parametrize(("language", "tasks"), [("en", 8), ("pt", 6)])
def test_cards_have_what_the_benchmark_of_encoders_found(language: str, tasks: int) -> None:
    name = f"mini-{language}"
    section = models.finetuned(name, language)
    assert section.count("\n| ") == 2 + tasks + 1, "a head, the tasks, their mean"
    assert section in (ROOT / f"src/unmask/models/{name}/README.md").read_text("utf-8")
    assert models.finetuned("toy", language) == models.finetuned(name, "xx") == ""


@pytest.mark.parametrize(("parameters", "mib"), [(101, 1.0), (100, 2.1)])
def test_too_large_a_model_is_refused(parameters: int, mib: float) -> None:
    allowed = {"parameters": 100, "mib": 2}
    models.check_size(allowed, 100, 2.0)
    with pytest.raises(OutputError, match="too large"):
        models.check_size(allowed, parameters, mib)


def test_a_share_is_taken_in_files_of_one_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "FILE_MB", 0.001)
    models.write_passages(CATS, tmp_path, 1.0)
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    assert set.union(*map(works, files)) == set(CATS)
    models.write_passages(CATS, tmp_path / "less", 0.25)
    assert sum(len(works(file)) for file in (tmp_path / "less").iterdir()) == len(CATS) // 4


def test_long_works_are_cut_between_sentences() -> None:
    sentence = "O gato dorme no telhado da casa azul."
    cut = list(models.passages(" ".join([sentence] * 300)))
    assert len(cut) == 3
    assert all(len(each) <= models.PASSAGE and each.endswith("azul.") for each in cut)
    assert " ".join(cut) == " ".join([sentence] * 300)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "toy"], "run the step prepare first"),
        (["card", "toy", "--scores", "results.json"], "run the step train first"),
        (["card", "toy", "--scores", "none.json"], "a file that is not there"),
        (["train", "big"], "there is no model big: choose one of toy"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str],
    message: str,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, table, *words, "--scratch", table.parent)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
