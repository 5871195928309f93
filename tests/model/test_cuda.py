"""The engines of half precision against the plain formula, on a machine with CUDA."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unmask.model.attention import Layout, attention, choose_engine
from unmask.model.network import Model
from unmask.model.presets import preset

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA_VISIBLE_DEVICES=0")

LENGTHS = [1, 7, 64, 130, 257, 33, 500]
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


PAGES = [[1, 30, 9], [40], [17, 23], [3, 3, 3, 31]]
ENGINES = {"varlen": LENGTHS, "pages": [length for page in PAGES for length in page]}


def layout_of(causal: bool, engine: str = "varlen", window: int | None = None) -> Layout:
    lengths = ENGINES[engine]
    starts = torch.tensor([0, *lengths], device="cuda").cumsum(0).int()
    layout = Layout(starts, max(lengths), causal)
    if engine == "varlen":
        return layout
    places = torch.cat([torch.arange(length, device="cuda") for length in lengths])
    return replace(layout, page=sum(PAGES[0])).on_pages(places, window or 0, torch.bfloat16)


def largest_difference(found: Tensor, expected: Tensor) -> float:
    """Relative to the size of what is expected."""
    return ((found.double() - expected).abs().max() / expected.abs().max()).item()


@pytest.mark.parametrize("window", [None, 1, 64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("engine", "dtype"),
    [("varlen", torch.float16), ("varlen", torch.bfloat16), ("pages", torch.bfloat16)],
)
def test_an_engine_agrees_with_the_formula(
    engine: str, dtype: torch.dtype, causal: bool, window: int | None
) -> None:
    torch.manual_seed(0)
    packed = torch.randn(sum(ENGINES[engine]), 3, 4, 64, device="cuda", dtype=dtype)
    upstream = torch.randn(sum(ENGINES[engine]), 4, 64, device="cuda", dtype=dtype)
    layout = layout_of(causal, engine, window)
    assert choose_engine(packed[:, 0], layout) == engine

    fast_in = packed.clone().requires_grad_()
    fast = attention(*fast_in.unbind(1), layout, window)
    fast.backward(upstream)
    exact_in = packed.double().requires_grad_()
    exact = attention(*exact_in.unbind(1), layout, window, engine="eager")
    exact.backward(upstream.double())

    assert largest_difference(fast, exact) < TOLERANCE[dtype]
    assert fast_in.grad is not None
    assert exact_in.grad is not None
    assert largest_difference(fast_in.grad, exact_in.grad) < TOLERANCE[dtype]


def test_the_engine_follows_what_is_asked() -> None:
    half = torch.randn(sum(LENGTHS), 4, 64, device="cuda", dtype=torch.bfloat16)
    assert choose_engine(half, layout_of(False)) == "varlen"
    assert choose_engine(half.float(), layout_of(False)) == "grids"


@pytest.mark.parametrize("window", [None, 64])
def test_dropout_of_the_kernel(window: int | None) -> None:
    """Rows keep their sum in the mean; forward and backward drop the same weights."""
    torch.manual_seed(0)
    q, k, v, upstream = torch.randn(4, sum(LENGTHS), 4, 64, device="cuda", dtype=torch.bfloat16)
    layout = layout_of(False)
    ones = attention(q, k, torch.ones_like(v), layout, window, 0.2, "varlen").float()
    assert abs(ones.mean().item() - 1) < 0.02
    assert ones.std() > 0.02
    v.requires_grad_()
    out = attention(q, k, v, layout, window, 0.2, "varlen")
    (gradient,) = torch.autograd.grad(out, v, upstream)
    there, back = (out.double() * upstream).sum(), (gradient.double() * v).sum()  # linear in v
    torch.testing.assert_close(there, back, rtol=0.02, atol=2.0)


@pytest.mark.parametrize("name", ["bert-base", "modernbert-base"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_model_in_half_precision_stays_near_float64(name: str, causal: bool) -> None:
    config = preset(name, vocab_size=200, pad_id=0, width=256, heads=4, layers=6, inner=512)
    model = Model(config, generator=torch.Generator().manual_seed(0)).cuda().eval()
    ids = torch.randint(200, (sum(LENGTHS),), device="cuda")
    positions = torch.cat([torch.arange(length, device="cuda") for length in LENGTHS])
    layout = layout_of(causal)
    inputs = (ids, positions, layout.cu_seqlens, layout.max_seqlen, None, causal)
    with torch.inference_mode():
        exact = model.double().encoder(*inputs)
        half = model.bfloat16().encoder(*inputs)
    assert torch.nn.functional.cosine_similarity(exact, half.double(), dim=-1).min() > 0.995


@pytest.mark.filterwarnings("ignore")  # of torch's compiler
@pytest.mark.parametrize("name", ["bert-base", "modernbert-base"])
def test_the_fast_path_compiles_whole(name: str) -> None:
    """No data-dependent Python on the varlen path: one graph, equal results, and gradients."""
    config = preset(
        name,
        vocab_size=200,
        pad_id=0,
        width=256,
        heads=4,
        layers=3,
        inner=512,
        attention_dropout=0.0,
        dropout=0.0,
    )
    model = Model(config, generator=torch.Generator().manual_seed(0)).cuda().bfloat16()
    ids = torch.randint(200, (sum(LENGTHS),), device="cuda")
    positions = torch.cat([torch.arange(length, device="cuda") for length in LENGTHS])
    layout = layout_of(False)
    compiled = torch.compile(model.encoder, fullgraph=True)
    found = compiled(ids, positions, layout.cu_seqlens, layout.max_seqlen)
    expected = model.encoder(ids, positions, layout.cu_seqlens, layout.max_seqlen)
    assert torch.nn.functional.cosine_similarity(found.float(), expected.float(), dim=-1).min() > 0.995
    found.float().square().mean().backward()
    assert model.encoder.embeddings.tokens.weight.grad is not None
