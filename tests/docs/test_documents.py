"""What README and docs show is run: every line after `$` and every Python block, in one folder, in order."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from unmask.checkpoint import save_model
from unmask.config import TokenizerConfig, load_recipe
from unmask.data.prepare import prepare
from unmask.model.network import Model, initialise
from unmask.model.presets import preset
from unmask.text import find_sources
from unmask.tokenizer import train_tokenizer

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    "README.md",
    "docs/text-to-shards.md",
    "docs/pretraining.md",
    "docs/scaling.md",
    "docs/models.md",
    "docs/embeddings.md",
    "docs/finetuning.md",
    "docs/evaluation.md",
    "docs/geometry.md",
    "docs/senses.md",
    "docs/attention.md",
    "docs/probing.md",
]
SENTENCES = [
    f"{who} {did} {what} {where}."
    for who in ("O gato", "A vizinha", "O gatinho", "Um velho banco")
    for did in ("dorme sobre", "encontrou", "viu de longe", "esqueceu")
    for what in ("a carta", "o telhado", "três livros")
    for where in ("no jardim", "perto do rio", "antes da chuva")
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a page starts from: some text, a vocabulary, untrained models."""
    place = tmp_path_factory.mktemp("docs")
    (place / "livros").mkdir()
    (place / "livros" / "a.txt").write_text("\n\n".join(SENTENCES), "utf-8")
    tokenizer = train_tokenizer(SENTENCES, TokenizerConfig(vocab_size=90))
    torch.manual_seed(0)
    config = preset("tiny", vocab_size=tokenizer.vocab_size)
    model = Model(config, ["mlm"])
    initialise(model)
    save_model(model, place / "model", tokenizer)
    ids = {"pad_id": tokenizer.pad_id, "bos_id": tokenizer.cls_id, "eos_id": tokenizer.sep_id}
    sizes = {"vocab_size": tokenizer.vocab_size, "width": 64, "layers": 3, "heads": 2, "inner": 64}
    twin = Model(preset("modernbert-decoder", **sizes, **ids), ["mlm"])
    save_model(twin, place / "causal-model", tokenizer)
    train_tokenizer(SENTENCES, TokenizerConfig(vocab_size=110)).save(place / "vocab")
    documents = find_sources([str(place / "livros")])
    prepare(documents, tokenizer, place / "shards-ready", load_recipe(None, ["prepare.valid=0.1"]), workers=1)
    laws = [f"Artigo {n}. O proprietário conserva o telhado e o jardim." for n in range(40)]
    (place / "leis.txt").write_text("\n\n".join(laws), "utf-8")
    rows = [f"{sentence},{'mau' if 'esqueceu' in sentence else 'bom'}" for sentence in SENTENCES[::3]]
    pairs = [f"{a}\t{b}\t{int(a[:5] == b[:5])}" for a in SENTENCES[::9] for b in SENTENCES[::31]]
    (place / "pares.tsv").write_text("texto\ttexto2\tscore\n" + "\n".join(pairs), "utf-8")
    tagged = [
        f"1\t{noun}\t_\t{tag}\t_\t_\t0\troot\t_\t_\n2\t.\t_\tPUNCT\t_\t_\t1\tpunct\t_\t_\n"
        for noun, tag in (("gato", "NOUN"), ("viu", "VERB")) * 10
    ]
    (place / "frases.conllu").write_text("\n".join(tagged), "utf-8")
    (place / "opinioes.csv").write_text("texto,classe\n" + "\n".join(rows), "utf-8")
    return place


@pytest.fixture
def place(prepared: Path, tmp_path: Path) -> Path:
    """The folder in which the commands of a page are run."""
    return Path(shutil.copytree(prepared, tmp_path / "page"))


@pytest.fixture
def shards(place: Path, page: str) -> None:
    """Shards, for the page that begins with them; the others make a vocabulary of their own."""
    if page in ("docs/pretraining.md", "docs/scaling.md"):
        (place / "shards-ready").rename(place / "shards")
    else:
        shutil.rmtree(place / "vocab")


# What a page shows is for real text; here the text is small and time is short.
SMALLER = {
    "--vocab-size 16000": "--vocab-size 130",
    "--vocab-size 32000": "--vocab-size 58",
    "--add 2000": "--add 3",
    "--nproc-per-node=8": "--nproc-per-node=2",
    "--words bom=bom,mau=mau": "--words bom=a,mau=o --sizes 4 --seeds 1 --set steps=3",
}
FEWER = ["train.steps=3", "train.eval_every=3", "batch.length=32", "train.batch_tokens=128", "train.warmup=1"]


def runnable(line: str) -> list[str]:
    """The command of a `$ unmask …` or `$ torchrun …` line, cut down to this folder's size."""
    for shown, small in SMALLER.items():
        line = line.replace(shown, small)
    command = shlex.split(line.removeprefix("$ "), comments=True)
    assert command[0] in ("unmask", "torchrun"), line
    command[0] = command[0].replace("torchrun", "torch.distributed.run")
    return [*command, *(f"--set={change}" for change in FEWER)] if "pretrain" in command else command


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("shards")
def test_commands_run(place: Path, page: str) -> None:
    lines = [
        line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")
    ]
    for line in lines:
        run = subprocess.run(
            [sys.executable, "-m", *runnable(line)], cwd=place, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, f"{line}\n{run.stderr}"
        assert run.stdout, line


@pytest.mark.parametrize("page", PAGES)
def test_python_runs(place: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(place / "model", place / "run" / "model")
    monkeypatch.chdir(place)
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), {"__name__": page})


def test_scripts_are_well_formed() -> None:
    for script in blocks("docs/scaling.md", "bash"):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    described = list(yaml.safe_load_all(blocks("docs/scaling.md", "yaml")[0]))
    assert [each["kind"] for each in described] == ["Service", "Job"]


def test_every_command_is_shown_somewhere() -> None:
    shown = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    listed = subprocess.run(
        [sys.executable, "-m", "unmask", "--help"], capture_output=True, text=True, check=True
    )
    commands = re.findall(r"^│ ([a-z]+)  ", listed.stdout, re.MULTILINE)
    assert len(commands) > 8
    for command in commands:
        assert f"unmask {command}" in shown or f"make {command}" in shown, command


ALL_PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
]


@pytest.mark.parametrize("page", ALL_PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target
