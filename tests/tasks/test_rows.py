"""Rows of the token table that no text reads: they are not trained, and training without them is the same."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.tasks.conftest import reviews
from torch import Tensor

from unmask.checkpoint import load_model
from unmask.config import TrainConfig
from unmask.model.network import Model
from unmask.predict.windows import Window
from unmask.tasks import run
from unmask.tasks.embed import finetune_embed
from unmask.tasks.examples import TextExample
from unmask.tasks.finetune import finetune
from unmask.tasks.lora import adapt
from unmask.tasks.rows import Rows, narrow, read_rows, widen
from unmask.tasks.settings import EmbedConfig, FinetuneConfig
from unmask.tokenizer import Tokenizer
from unmask.train.optim import Optimiser


def hidden(model: Model, ids: Tensor) -> Tensor:
    starts = torch.tensor([0, 4, len(ids)], dtype=torch.int32)
    return model.encoder(ids, torch.arange(len(ids)), starts, len(ids))  # type: ignore[no-any-return]


def table(folder: Path) -> Tensor:
    return load_model(folder, heads=[])[0].encoder.embeddings.tokens.weight.detach()


def test_the_rows_that_texts_have() -> None:
    import numpy as np

    def window(*ids: int) -> Window:
        return Window(np.array(ids), np.zeros(len(ids), int), np.arange(len(ids)))

    one, two = [window(7, 3), window(3)], SimpleNamespace(windows=[window(2, 9)])
    assert read_rows([one, two]).tolist() == [2, 3, 7, 9]


def test_a_few_rows_learn_as_in_the_whole_table(base: Path) -> None:
    ids = torch.tensor([2, 9, 9, 3, 2, 14, 7, 3])
    whole, _ = load_model(base, torch.float64, heads=[])
    few, _ = load_model(base, torch.float64, heads=[])
    before = whole.encoder.embeddings.tokens.weight.detach().clone()
    narrow(few, torch.tensor([2, 3, 7, 9, 11, 14]))
    assert torch.equal(hidden(few, ids), hidden(whole, ids))
    for model in (whole, few):
        optimiser = Optimiser(model, TrainConfig(lr=0.01, weight_decay=0.0))
        for _ in range(3):
            optimiser.clear()
            hidden(model, ids).square().mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step(1.0)
    with pytest.raises(IndexError):
        hidden(few, torch.tensor([2, 5, 5, 3, 3]))
    widen(few)
    for (name, one), (same, other) in zip(few.named_parameters(), whole.named_parameters(), strict=True):
        assert name == same
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    after = few.encoder.embeddings.tokens.weight
    moved = (after != before).any(1).nonzero().flatten()
    assert moved.tolist() == [2, 3, 7, 9, 14]  # of 11 there was no gradient


def test_what_is_frozen_stays_whole(base: Path) -> None:
    model, _ = load_model(base, heads=["tag"], changes={"labels": ("O", "B-X")})
    adapt(model, 2, 4.0)
    narrow(model, torch.tensor([1, 2]))
    assert not any(isinstance(module, Rows) for module in model.modules())


def test_a_training_is_the_same_with_the_whole_table(
    tmp_path: Path, base: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = FinetuneConfig(lr=5e-3, epochs=2, batch=16, weight_decay=0.0, precision="fp32", valid=0.2)
    few = finetune("classify", base, reviews(), out=tmp_path / "few", settings=settings)
    monkeypatch.setattr(run, "narrow", lambda *_: None)
    whole = finetune("classify", base, reviews(), out=tmp_path / "whole", settings=settings)
    assert few.scores == whole.scores
    torch.testing.assert_close(table(tmp_path / "few"), table(tmp_path / "whole"), atol=1e-5, rtol=0)


@pytest.mark.parametrize("valid", [False, True])
def test_vectors_move_only_what_they_read(
    tmp_path: Path, base: Path, tokenizer: Tokenizer, valid: bool
) -> None:
    texts = [example.text for example in reviews()]
    pairs = [TextExample(a, b) for a, b in pairwise(texts)]
    scored = [TextExample("um livro bom", b, float(i)) for i, b in enumerate(texts[:4])] if valid else None
    settings = EmbedConfig(lr=1e-3, batch=8, weight_decay=0.0, precision="fp32")
    finetune_embed(base, pairs, scored, tmp_path / "out", settings)
    moved = (table(tmp_path / "out") != table(base)).any(1)
    read = {number for text in texts for number in tokenizer.encode(text).ids}
    assert set(moved.nonzero().flatten().tolist()) == read
