"""What the tests of the documentation share: the blocks of a page, and the folder its commands start from."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from unmask.checkpoint import save_model
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

SCORED = [
    "O velho abriu a carta e sorriu.",
    "O velho abriram a carta e sorriu.",
    "A moça chegou à janela.",
    "A moça chegou ao janela.",
]


def blocks(page: str, *languages: str) -> list[str]:
    text = (ROOT / page).read_text("utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in fenced if language in languages]


def examples(page: str) -> list[tuple[str, list[str]]]:
    """Every line after `$`, and the lines of output that the page shows under it."""
    found: list[tuple[str, list[str]]] = []
    for block in blocks(page, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line, []))
            else:
                found[-1][1].append(line)
    return found


def commands(page: str) -> list[str]:
    return [line for line, _ in examples(page)]


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
    (place / "senado.txt").write_text("\n\n".join(laws), "utf-8")
    (place / "casmurro.txt").write_text("\n".join(SENTENCES), "utf-8")
    (place / "frases.txt").write_text("\n".join(SCORED), "utf-8")
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
    (place / "usos.csv").write_text(blocks("docs/senses.md", "csv")[0], "utf-8")
    lines = [json.dumps(row, ensure_ascii=False) for row in asked]
    (place / "perguntas.jsonl").write_text("\n".join(lines), "utf-8")
    return place


@pytest.fixture
def place(prepared: Path, tmp_path: Path) -> Path:
    """The folder in which the commands of a page are run."""
    return Path(shutil.copytree(prepared, tmp_path / "page"))
