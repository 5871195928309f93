"""What README and docs show is run: every line after `$` and every Python block, in one folder, in order."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
import yaml

import unmask
from unmask.checkpoint import save_model
from unmask.cli import app, main
from unmask.config import TokenizerConfig, load_recipe
from unmask.data.prepare import prepare
from unmask.model.network import Model, initialise
from unmask.model.presets import preset
from unmask.text import find_sources
from unmask.tokenizer import train_tokenizer

ROOT = Path(__file__).resolve().parents[2]
HOWTO = sorted(f"docs/howto/{path.name}" for path in (ROOT / "docs/howto").glob("*.md"))
PAGES = [
    "README.md",
    "docs/quickstart.md",
    *(page for page in HOWTO if page != "docs/howto/many-gpus.md"),
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
    names = [f"{who} B-PER\nviu O\n{where} B-LOC\n" for who in ("Ana", "Rui") for where in ("Faro", "Braga")]
    (place / "nomes.conll").write_text("\n".join(names * 5), "utf-8")
    nli = [f"{a}\t{b}\t{'sim' if a[:5] == b[:5] else 'não'}" for a in SENTENCES[::9] for b in SENTENCES[::31]]
    (place / "nli.tsv").write_text("premise\thypothesis\tlabel\n" + "\n".join(nli), "utf-8")
    asked = [
        {"question": "Quem?", "context": text, "answers": {"text": [text[:6]], "answer_start": [0]}}
        for text in SENTENCES[::9]
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in asked]
    (place / "perguntas.jsonl").write_text("\n".join(lines), "utf-8")
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
    "vocab_size=16000": "vocab_size=130",
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
    return [*command, *(f"--set={change}" for change in FEWER)] if "pretrain" in command else command


def blocks(page: str, *languages: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in fenced if language in languages]


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("shards")
def test_commands_run(
    place: Path, page: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has torch already; torchrun starts others."""
    if page == "docs/howto/evaluate-and-compare.md":
        shutil.copytree(place / "model", place / "run" / "model")
    monkeypatch.chdir(place)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for line in commands(page):
        command = runnable(line)
        if command[0] == "torchrun":
            command[0] = "torch.distributed.run"
            subprocess.run([sys.executable, "-m", *command], check=True)
        else:
            monkeypatch.setattr(sys, "argv", command)
            with pytest.raises(SystemExit) as ended:
                main()
            assert not ended.value.code, f"{line}\n{capfd.readouterr().err}"
        assert capfd.readouterr().out, line


@pytest.mark.parametrize("page", PAGES)
def test_python_runs(place: Path, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(place / "model", place / "run" / "model")
    monkeypatch.chdir(place)
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), {"__name__": page})


def test_many_gpus_shows_what_the_guide_runs() -> None:
    assert set(commands("docs/howto/many-gpus.md")) < set(commands("docs/scaling.md"))


def test_scripts_are_well_formed() -> None:
    for script in blocks("docs/scaling.md", "bash"):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    described = list(yaml.safe_load_all(blocks("docs/scaling.md", "yaml")[0]))
    assert [each["kind"] for each in described] == ["Service", "Job"]


def names(group: Any, path: str = "unmask") -> Iterator[str]:
    """Every command of the command line, those of groups too."""
    for name, command in group.commands.items():
        yield from names(command, f"{path} {name}") if hasattr(command, "commands") else [f"{path} {name}"]


def test_every_command_is_shown_somewhere() -> None:
    shown = "".join((ROOT / page).read_text("utf-8") for page in PAGES)
    reference = (ROOT / "docs/commands.md").read_text("utf-8")
    listed = list(names(typer.main.get_command(app)))
    assert len(listed) > 20
    for command in listed:
        assert command in shown or command == "unmask demo", command  # that one is `make demo`
        assert f"## {command}\n" in reference


# Commands outside console blocks are not run; each says here why.
NOT_RUN = {
    "make demo": "takes minutes; tests/test_demo.py walks the same way",
    "make test": "runs this",
    "pip install": "installs",
    "unmask serve": "a server; tests/serve and examples/12_serve_and_call.py start one",
    "curl": "asks that server",
}


@pytest.mark.parametrize("page", ["README.md", "LEIAME.md", "docs/index.md", "docs/quickstart.md", *HOWTO])
def test_what_is_not_run_says_why(page: str) -> None:
    for block in blocks(page, "", "bash"):
        for line in block.splitlines():
            if re.match(r"(unmask|make|torchrun|python|pip|curl)\b", line):
                assert any(line.startswith(command) for command in NOT_RUN), line


def without_comments(block: str) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def test_leiame_says_what_readme_says() -> None:
    """The same sections, tree, links, commands, code and figures, in order; what README shows is run."""
    both = ("README.md", "LEIAME.md")
    texts = [(ROOT / page).read_text("utf-8") for page in both]
    for pattern in (r"^#+ ", r"^ {0,2}([a-zA-Z/]+[/.]\w*) ", r"\]\((docs/[^)]+)\)"):
        readme, leiame = (re.findall(pattern, text, re.MULTILINE) for text in texts)
        assert readme == leiame
    readme_blocks, leiame_blocks = (
        [without_comments(block) for block in blocks(page, "console")] for page in both
    )
    assert readme_blocks == leiame_blocks
    assert blocks("README.md", "python") == blocks("LEIAME.md", "python")
    readme_blocks, leiame_blocks = ([block.split()[:2] for block in blocks(page, "")] for page in both)
    assert readme_blocks == leiame_blocks
    tables = [[line for line in text.splitlines() if line.startswith("|")] for text in texts]
    assert [re.findall(r"\d+", row) for row in tables[0]] == [re.findall(r"\d+", row) for row in tables[1]]


ALL_PAGES = [
    "README.md",
    "LEIAME.md",
    "CONTRIBUTING.md",
    "examples/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]


def anchors(page: Path) -> set[str]:
    """The addresses of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" not in target:
            there = (ROOT / page).parent / target if target else ROOT / page
            assert there.exists(), target
            assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text("utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        assert f": {path.relative_to(ROOT / 'docs')}\n" in listed, path


def messages() -> Iterator[str]:
    """Every text of the source, with … for what is put into it."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_troubleshooting_has_the_messages_of_the_code() -> None:
    told = re.findall(r"^### `(.+)`$", (ROOT / "docs/troubleshooting.md").read_text("utf-8"), re.MULTILINE)
    assert len(told) > 40
    real = list(messages())
    for message in told:
        pattern = re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)
        assert any(pattern.search(text) for text in real), message


RECIPES = ("bert-base", "roberta-base", "xlmr-base", "spanbert-base")


@pytest.mark.parametrize("name", RECIPES)
def test_every_line_of_a_published_recipe_is_explained(name: str) -> None:
    page = (ROOT / "docs/recipes.md").read_text("utf-8")
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    explained = re.findall(r"^\| `(.+?)` \| (.+?) \| .+ \|$", section, re.MULTILINE)
    lines = (ROOT / f"src/unmask/recipes/{name}.toml").read_text("utf-8").splitlines()
    settings = [re.sub(r" +", " ", line.split("#")[0]).strip() for line in lines if re.match(r"\w", line)]
    assert [line for line, _ in explained] == settings
    for line, source in explained:
        comment = next(known for known in lines if known.startswith(line.split(" =")[0])).partition("# ")[2]
        assert comment in section or not comment, line
        assert len(source) > 2, line


# Ratios of the comparison that no page of results prints, and what they are ratios of.
DERIVED = {
    "2.3": ("118", "52"),
    "18.6": ("37.2", "2.0"),
    "1.59": ("10.28", "6.45"),
    "0.72": ("10.28", "14.23"),
}


def test_the_comparison_has_the_figures_of_the_results() -> None:
    page = (ROOT / "docs/comparison.md").read_text("utf-8")
    rows = re.findall(r"^\|.*\| ([^|]*\d[^|]*) \| ([\w-]+) \|$", page, re.MULTILINE)
    assert len(rows) > 10
    for figures, name in rows:
        results = (ROOT / f"benchmarks/results/{name}.md").read_text("utf-8")
        for figure in re.findall(r"(?<!\w)\d*\.\d+", figures):
            for part in DERIVED.get(figure, (figure.removeprefix("0"),)):
                assert part in results, f"{name}: {figure}"
            if figure in DERIVED:
                top, bottom = map(float, DERIVED[figure])
                assert f"{top / bottom:.{len(figure.partition('.')[2])}f}" == figure


def test_reference_pages_are_current() -> None:
    spec = spec_from_file_location("reference", ROOT / "tools/reference.py")
    assert spec
    assert spec.loader
    reference = module_from_spec(spec)
    spec.loader.exec_module(reference)
    for name, text in (("api.md", reference.api()), ("commands.md", reference.commands())):
        written = (ROOT / "docs" / name).read_text("utf-8")
        assert written == text, f"docs/{name} is out of date: python tools/reference.py writes it anew"


def test_every_public_name_is_in_the_reference() -> None:
    """What the package offers, and all that pages and examples import from it; chapters show its inside."""
    shown = set(unmask.__all__)
    examples = [path.read_text("utf-8") for path in (ROOT / "examples").glob("*.py")]
    pages = ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")), *HOWTO]
    for code in [*examples, *(block for page in pages for block in blocks(page, "python"))]:
        for line in re.findall(r"^from unmask[\w.]* import ([\w, ]+)$", code, re.MULTILINE):
            shown |= set(line.split(", "))
    listed = set(re.findall(r"^### (\w+)$", (ROOT / "docs/api.md").read_text("utf-8"), re.MULTILINE))
    assert shown <= listed, shown - listed
