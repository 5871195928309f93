"""What attention does: figures of known heads, rollout, and the same weights as `transformers`."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.analyse.attention import describe, most_pointed, read_attention, rollout
from unmask.analyse.attention_page import find_head, write_attention
from unmask.analyse.attribution import attribute
from unmask.checkpoint import save_model
from unmask.config import TokenizerConfig
from unmask.errors import ConfigError, InputError
from unmask.predict import MaskedLM
from unmask.tokenizer import Tokenizer, train_tokenizer

Make = Callable[..., MaskedLM]
TEXT = "O gato preto dorme no telhado da casa velha."
LAST = np.array([4])


def head(*, to: int | None = None, shift: int | None = None) -> np.ndarray:
    """Five tokens that all look at one of them, or each at the one `shift` further (at the edge: itself)."""
    weights = np.zeros((5, 5), np.float32)
    for place in range(5):
        target = to if shift is None else place + shift
        weights[place, target if target in range(5) else place] = 1
    return weights


def test_known_heads_are_described_as_they_are() -> None:
    first = describe(head(to=0), LAST)
    assert (first.first, first.separator, first.entropy) == (1, 0, 0)
    assert first.distance == pytest.approx((0 + 1 + 2 + 3 + 4) / 5)
    assert describe(head(to=4), LAST).separator == 1
    assert describe(head(shift=-1), LAST).previous == 1
    assert describe(head(shift=1), LAST).next == 1
    itself = describe(head(shift=0), LAST)
    assert (itself.itself, itself.distance, itself.previous, itself.next) == (1, 0, 0, 0)
    even = describe(np.full((5, 5), 0.2, np.float32), LAST)
    assert even.entropy == pytest.approx(np.log(5))
    assert even.previous == pytest.approx(0.2)
    assert even.distance == pytest.approx(abs(np.arange(5)[:, None] - np.arange(5)).mean())


def test_one_token_has_no_neighbours() -> None:
    alone = describe(np.ones((1, 1), np.float32), np.array([], int))
    assert (alone.itself, alone.previous, alone.next, alone.separator, alone.entropy) == (1, 0, 0, 0, 0)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 3), st.integers(1, 7))
def test_rollout_is_the_product_of_the_blocks(seed: int, layers: int, heads: int, size: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(size), (layers, heads, size)).astype(np.float32)
    expected = torch.eye(size, dtype=torch.float64)
    for block in torch.from_numpy(weights).double():
        expected = (0.5 * block.mean(0) + 0.5 * torch.eye(size, dtype=torch.float64)) @ expected
    found = rollout(weights)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-12)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)


def test_rollout_goes_from_the_first_block_to_the_last() -> None:
    """Token 1 reads token 0 below; token 2 reads token 1 above: so token 2 is made of token 0 too."""
    weights = np.stack([np.eye(3), np.eye(3)])[:, None].astype(np.float32)
    weights[0, 0, 1] = [1, 0, 0]
    weights[1, 0, 2] = [0, 1, 0]
    assert rollout(weights)[2].tolist() == [0.25, 0.25, 0.5]
    assert rollout(weights[::-1])[2].tolist() == [0, 0.5, 0.5]


def test_the_head_in_detail_points_at_words_further_away(make_lm: Make) -> None:
    maps = read_attention(make_lm(), TEXT)
    size = len(maps.tokens)
    weights = np.full_like(maps.weights, 1 / size)
    weights[0, 0] = np.eye(size)  # itself
    weights[0, 1] = np.eye(size)[np.maximum(np.arange(size) - 1, 0)]  # the token before
    weights[1, 1] = np.eye(size)[[0] * size]  # [CLS]
    weights[1, 2] = np.eye(size)[[size - 2] * size]  # the full stop
    weights[2, 3] = np.eye(size)[[3] * size]  # a word
    assert maps.tokens[size - 2].text == "."
    assert most_pointed(replace(maps, weights=weights)) == (2, 3)


def test_tokens_of_bytes_are_shown_as_they_stand_in_the_text(make_lm: Make) -> None:
    sentence = "A maçã não é ( do  coração )."
    tokenizer = train_tokenizer([sentence] * 9, TokenizerConfig(kind="bpe", vocab_size=280))
    lm = MaskedLM(make_lm(vocab_size=tokenizer.vocab_size).model, tokenizer)
    maps = read_attention(lm, sentence)
    assert maps.names[0] == "<s>"
    assert "".join(maps.names[1:-1]).replace("·", "") == sentence.replace(" ", "")
    assert "·" in maps.names
    bracket = next(n for n, token in enumerate(maps.tokens) if token.text == "Ġ(")
    weights = np.full_like(maps.weights, 1 / len(maps.tokens))
    weights[1, 2] = np.eye(len(maps.tokens))[bracket]  # no word, though it opens with a letter of bytes
    weights[2, 3, 1:, 1] = 0.9
    assert most_pointed(replace(maps, weights=weights)) == (2, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"family": "modernbert", "norm": "before", "position": "rotary", "segments": 0, "window": 2,
         "global_every": 2},
        {"family": "modernbert-decoder", "norm": "before", "position": "rotary", "segments": 0,
         "causal": True},
    ],
)  # fmt: skip
def test_rows_sum_to_one_and_tokens_are_those_of_the_text(make_lm: Make, changes: dict[str, object]) -> None:
    found = read_attention(make_lm(**changes), TEXT)
    size = len(found.tokens)
    assert found.weights.shape == (3, 4, size, size)
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(found.rollout.sum(-1), 1, atol=1e-5)
    assert [token.special for token in found.tokens] == [True, *[False] * (size - 2), True]
    assert TEXT[found.tokens[1].start : found.tokens[1].end] == "O"
    assert len(found.heads) == 3
    assert len(found.heads[0]) == 4
    if "causal" in changes:
        assert not np.triu(found.weights, 1).any()


def test_weights_are_those_of_transformers(make_lm: Make, tokenizer: Tokenizer, tmp_path: Path) -> None:
    from transformers import AutoModel

    lm = make_lm()
    save_model(lm.model, tmp_path / "model", tokenizer, "")  # type: ignore[arg-type]
    theirs = AutoModel.from_pretrained(tmp_path / "model", attn_implementation="eager").eval()
    with torch.no_grad():
        seen = theirs(torch.from_numpy(tokenizer.encode(TEXT).ids)[None], output_attentions=True).attentions
    np.testing.assert_allclose(read_attention(lm, TEXT).weights, torch.cat(seen).numpy(), atol=1e-5)


@pytest.mark.slow
def test_weights_of_a_published_model_are_those_of_transformers(minilm: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    from unmask.predict import load

    text = "Nobody knew why the lighthouse had gone dark, not even the keeper."
    ours = read_attention(load(minilm, "cpu"), text)
    given = AutoTokenizer.from_pretrained(minilm)(text, return_tensors="pt")
    with torch.no_grad():
        theirs = AutoModel.from_pretrained(minilm, attn_implementation="eager")(
            **given, output_attentions=True
        )
    np.testing.assert_allclose(ours.weights, torch.cat(theirs.attentions).numpy(), atol=1e-5)
    assert ours.heads[0][2].previous > 0.99  # by both: this head looks at the token before
    assert torch.diagonal(theirs.attentions[0][0, 2], -1).mean() > 0.99


def test_the_page_and_its_files(make_lm: Make, tmp_path: Path) -> None:
    lm = make_lm()
    text = "O gato [MASK] no telhado <da> casa."
    maps, decided = read_attention(lm, text), attribute(lm, text)
    write_attention(tmp_path, maps, decided, (1, 2))
    page = (tmp_path / "attention.html").read_text("utf-8")
    assert page.count("data:image/png") == 3 * 4 + 2 + 1  # every head, one in detail, rollout, the words
    assert "Layer 2, head 3" in page
    assert page.count("<polyline") == 5 + 1  # shares by layer, entropy by layer
    mean = np.mean([one.first for one in maps.heads[1]])
    assert f"<title>first, 2: {100 * mean:.3g}%</title>" in page
    assert "&lt;da&gt;" in page
    assert "<da>" not in page
    assert "<script" not in page
    values = json.loads((tmp_path / "attention.json").read_text("utf-8"))
    assert values["tokens"][0]["text"] == "[CLS]"
    assert values["heads"][2][3]["entropy"] == pytest.approx(maps.heads[2][3].entropy)
    assert values["attribution"]["target"] == decided.target
    np.testing.assert_array_equal(np.load(tmp_path / "attention.npy"), maps.weights)


def test_a_page_of_a_long_text_stays_small(make_lm: Make, tmp_path: Path) -> None:
    maps = read_attention(make_lm(positions=128), "gato " * 98)
    write_attention(tmp_path, maps, None)
    assert (tmp_path / "attention.html").stat().st_size < 150_000
    assert "first 64 of 100 tokens" in (tmp_path / "attention.html").read_text("utf-8")


def test_mistakes_are_told(make_lm: Make) -> None:
    lm = make_lm()
    with pytest.raises(InputError, match="70 tokens, but the model takes at most 64: shorten it$"):
        read_attention(lm, "gato " * 68)
    with pytest.raises(InputError, match="empty"):
        read_attention(lm, " \n")
    with pytest.raises(InputError, match="attention weights take 2 GB"):
        read_attention(make_lm(layers=48, positions=4096), "gato " * 2000)
    maps = read_attention(lm, TEXT)
    assert find_head(maps, "3.4") == (2, 3)
    for wrong, says in (
        ("4.1", "3 layers of 4 heads"),
        ("0.1", "no head"),
        ("x", "LAYER.HEAD"),
        ("1.", "LAY"),
    ):
        with pytest.raises(ConfigError, match=says):
            find_head(maps, wrong)
