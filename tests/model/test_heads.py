"""Heads, the model that holds them, and new weights."""

import pytest
import torch
from torch import nn

from unmask.errors import ModelError
from unmask.model.network import Model, pool
from unmask.model.presets import preset

SMALL = {"vocab_size": 30, "width": 8, "layers": 2, "heads": 2, "inner": 12, "positions": 16, "pad_id": 0}
BERT = preset("bert-base", **SMALL, labels=("sim", "não", "talvez"))
MODERN = preset("modernbert-base", **SMALL, window=2, global_every=2, labels=("sim", "não"))
STARTS = torch.tensor([0, 4, 7], dtype=torch.int32)


def hidden_states(rows: int = 7) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(rows, 8)


def test_chapter_1_language_model_head() -> None:
    """u = hEᵀ and y = softmax(u), by the tied head once its transform is taken away."""
    table = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8], [0.9, 0.1, 0.2, 0.3], [0.4, 0.5, 0.6, 0.7]]
    table.append([0.8, 0.9, 0.1, 0.2])
    model = Model(preset("tiny", vocab_size=5, width=4, heads=1))
    model.heads["mlm"].transform = nn.Identity()
    model.encoder.embeddings.tokens.weight.data = torch.tensor(table)
    scores = model.mlm(torch.tensor([[0.2, 0.4, 0.1, 0.3]]))
    torch.testing.assert_close(scores, torch.tensor([[0.25, 0.65, 0.33, 0.55, 0.59]]))
    expected = torch.tensor([[0.1580, 0.2357, 0.1711, 0.2133, 0.2220]])
    torch.testing.assert_close(scores.softmax(-1), expected, atol=5e-5, rtol=0)


def test_the_tied_head_scores_with_the_token_table() -> None:
    model = Model(BERT).eval()
    hidden = hidden_states()
    head = model.heads["mlm"]
    expected = head.transform(hidden) @ model.encoder.embeddings.tokens.weight.T + head.bias
    torch.testing.assert_close(model.mlm(hidden), expected)
    names = [name for name, _ in Model(BERT).named_parameters()]
    assert "heads.mlm.weight" not in names
    untied = Model(BERT.model_copy(update={"tied": False}))
    assert untied.heads["mlm"].weight.shape == (30, 8)
    assert untied.mlm(hidden).shape == (7, 30)


def test_shapes_of_all_heads() -> None:
    heads = ("mlm", "span", "nsp", "sop", "classify", "tag", "answer")
    for config, classes in ((BERT, 3), (MODERN, 2)):
        model = Model(config, heads).eval()
        hidden = hidden_states()
        before, after, place = torch.tensor([[0, 3, 0], [0, 3, 1], [3, 6, 500]]).unbind(1)
        assert model.span(hidden[before], hidden[after], place).shape == (3, 30)
        assert model.pair(hidden[:2]).shape == model.pair(hidden[:2], "sop").shape == (2, 2)
        assert model.classify(hidden, STARTS).shape == (2, classes)
        assert model.tag(hidden).shape == (7, classes)
        assert model.answer(hidden).shape == (7, 2)


def test_the_span_head_reads_the_boundaries_and_the_place() -> None:
    model = Model(BERT, ["span"]).eval()
    before, after = (hidden_states()[place : place + 1].requires_grad_() for place in (1, 5))
    scores = model.span(before, after, torch.tensor([2]))
    for gradient in torch.autograd.grad(scores.square().sum(), (before, after)):
        assert gradient.abs().sum() > 0
    assert not torch.allclose(scores, model.span(before, after, torch.tensor([3])))


def test_pooling() -> None:
    hidden = hidden_states()
    torch.testing.assert_close(pool(hidden, STARTS, "first"), hidden[[0, 4]])
    torch.testing.assert_close(pool(hidden, STARTS, "last"), hidden[[3, 6]])
    mean = torch.stack([hidden[:4].mean(0), hidden[4:].mean(0)])
    torch.testing.assert_close(pool(hidden, STARTS, "mean"), mean)


def test_what_is_not_there_is_said() -> None:
    model = Model(BERT, ["mlm"])
    with pytest.raises(ModelError, match=r"no tag head \(heads: mlm\)"):
        model.tag(hidden_states())
    with pytest.raises(ModelError, match="there is no head tagger; those we have: mlm"):
        Model(BERT, ["tagger"])
    with pytest.raises(ModelError, match=r"a classify head needs labels: set model\.labels"):
        Model(BERT.model_copy(update={"labels": ()}), ["classify"])


def test_the_pooler_comes_with_those_who_read_it() -> None:
    assert list(Model(BERT, ["classify"]).heads) == ["pooler", "classify"]
    assert list(Model(BERT, ["tag"]).heads) == ["tag"]
    assert list(Model(MODERN, ["classify"]).heads) == ["classify"]
    assert list(Model(MODERN, ["sop", "mlm"]).heads) == ["mlm", "pooler", "sop"]


def test_new_weights_follow_the_family() -> None:
    wide = {"width": 128, "heads": 2, "inner": 256, "vocab_size": 500}
    generator = torch.Generator().manual_seed(1)
    bert = Model(BERT.model_copy(update=wide), ["mlm"], generator)
    weights = dict(bert.named_parameters())
    for name, weight in weights.items():
        if weight.ndim == 2:
            assert 0.017 < weight.std() < 0.023, name
        else:
            assert weight.unique().tolist() == [1.0 if name.endswith("norm.weight") else 0.0], name
    modern = Model(MODERN.model_copy(update=wide), ["mlm", "classify"], generator)
    weights = dict(modern.named_parameters())
    up, down = "encoder.blocks.1.feedforward.up.weight", "encoder.blocks.1.feedforward.down.weight"
    shrunk = 0.88  # a normal cut at two deviations is narrower
    assert weights[up].std().item() == pytest.approx(0.02 * shrunk, rel=0.05)
    assert weights[down].std().item() == pytest.approx(0.02 * shrunk / 2, rel=0.05)
    assert weights[up].abs().max() <= 0.04
    assert weights["heads.classify.linear.weight"].std().item() == pytest.approx(128**-0.5 * shrunk, rel=0.2)


def test_the_same_generator_gives_the_same_weights() -> None:
    one, two, other = (Model(BERT, generator=torch.Generator().manual_seed(seed)) for seed in (7, 7, 8))
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.encoder.embeddings.tokens.weight, other.encoder.embeddings.tokens.weight)
