"""Whether texts follow each other: asked as it was learned, refused where it was not."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.predict.conftest import make_config, make_model

from unmask.config import load_recipe
from unmask.errors import InputError, ModelError
from unmask.predict import MaskedLM, load
from unmask.predict.predictor import NotFiniteError
from unmask.text import find_sources
from unmask.tokenizer import Tokenizer
from unmask.train.pretrain import pretrain
from unmask.train.start import Start

WHO = ["a Ana", "o Rui", "a Marta", "o gato", "a vizinha", "o padeiro"]
WHAT = ["saiu de casa", "abriu a janela", "viu o rio", "foi ao mercado", "cantou"]
SETTINGS = [
    "tokenizer.vocab_size=90", "text.min_chars=1", "text.documents=line", "prepare.valid=0.05",
    "batch.pairs=sop", "batch.length=48", "batch.short=0", "objective.mlm=0.1",
    "model.width=32", "model.layers=1", "model.heads=2", "model.inner=64", "model.positions=48",
    "model.dropout=0", "model.attention_dropout=0", "model.init_std=0.1", "train.workers=0",
    "train.steps=60", "train.batch_tokens=1536", "train.micro_tokens=1536", "train.lr=3e-3",
]  # fmt: skip


def test_what_was_learned_is_what_is_asked(tmp_path: Path) -> None:
    """Texts in order have the label 0 in training too."""
    torch.manual_seed(0)
    pairs = [
        (f"Primeiro {a} {b}.", f"Depois {c} {d}.") for a in WHO for b in WHAT for c in WHO for d in WHAT[:2]
    ]
    first, second = zip(*pairs, strict=True)
    (tmp_path / "a.txt").write_text("\n".join(f"{a} {b}" for a, b in pairs), "utf-8")
    sources = find_sources([str(tmp_path / "a.txt")])
    pretrain(load_recipe(None, SETTINGS), tmp_path / "run", Start(sources))
    model = load(tmp_path / "run" / "model", "cpu")
    assert isinstance(model, MaskedLM)
    assert min(model.follows(first, second)) > 0.8
    assert max(model.follows(second, first)) < 0.2
    assert "model.follows(" in (tmp_path / "run" / "model" / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def pairs(wordpiece: Tokenizer) -> MaskedLM:
    """A model with a head for pairs."""
    return MaskedLM(make_model(make_config(wordpiece), ("mlm", "nsp")), wordpiece)


def test_one_pair_and_many(pairs: MaskedLM, texts: list[str]) -> None:
    found = pairs.follows(texts[:3], texts[3:])
    assert [pairs.follows(*pair) for pair in zip(texts[:3], texts[3:], strict=True)] == pytest.approx(
        found, abs=1e-5
    )
    assert all(0 < share < 1 for share in found)
    assert pairs.follows([], []) == []
    assert pairs.follows("<mask>", "a") == pytest.approx(pairs.follows("[MASK]", "a"))
    assert pairs.follows(texts[0], texts[1]) != pytest.approx(pairs.follows(texts[1], texts[0]))


def test_pairs_that_are_too_long(pairs: MaskedLM, texts: list[str]) -> None:
    long = " ".join(texts)
    with pytest.raises(
        InputError,
        match=r"pair 2 has \d+ tokens, .* at most 64: shorten it, or have it cut off \(truncate=True\)$",
    ):
        pairs.follows([texts[0], long], [texts[1], texts[2]])
    before = pairs.cut_texts
    assert len(pairs.follows([texts[0], long], [texts[1], texts[2]], truncate=True)) == 2
    assert pairs.cut_texts == before + 1
    (ids, segments), *_ = pairs.inputs.pairs([long], [texts[2]], truncate=True)[0]
    whole = pairs.tokenizer.encode(texts[2]).ids[1:]
    assert len(ids) == 64
    assert (ids[segments == 1] == whole).all()  # the longer text lost its end


def test_what_cannot_be_asked(pairs: MaskedLM, lm: MaskedLM, wordpiece: Tokenizer) -> None:
    with pytest.raises(ModelError, match=r"never learned whether texts follow each other.*\(heads: mlm\)"):
        lm.follows("a", "b")
    for first, second in (("a", ["b"]), (["a"], "b")):
        with pytest.raises(InputError, match="give two texts, or two lists"):
            pairs.follows(first, second)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="2 texts but 1 to pair them with"):
        pairs.follows(["a", "b"], ["c"])
    broken = make_model(make_config(wordpiece), ("nsp",))
    with torch.no_grad():
        broken.heads["nsp"].bias.fill_(np.nan)
    with pytest.raises(NotFiniteError):
        MaskedLM(broken, wordpiece).follows("a", "b")
