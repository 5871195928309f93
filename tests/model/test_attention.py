"""The attention function: the chapters' worked examples, and all engines against the plain formula."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unmask.model.attention import Engine, Layout, attention, choose_engine, eager_attention

lengths = st.lists(st.integers(1, 40) | st.integers(60, 90), min_size=1, max_size=5)
windows = st.none() | st.integers(1, 12)


def layout_of(lengths: list[int], causal: bool = False) -> Layout:
    return Layout(torch.tensor([0, *lengths]).cumsum(0).int(), max(lengths), causal)


def random_qkv(lengths: list[int], heads: int = 2, width: int = 4) -> list[Tensor]:
    return [
        torch.randn(sum(lengths), heads, width, dtype=torch.float64, requires_grad=True) for _ in range(3)
    ]


def worked(
    q: list[list[float]], k: list[list[float]], v: list[list[float]], causal: bool
) -> tuple[Tensor, Tensor]:
    """Weights and result of one head on the numbers of a worked example."""
    rows = [torch.tensor(x, dtype=torch.float64)[:, None] for x in (q, k, v)]
    out, weights = eager_attention(*rows, layout_of([len(q)], causal))
    return weights[0][0], out[:, 0]


def assert_rows(found: Tensor, expected: list[list[float]]) -> None:
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=5e-5, rtol=0)


def test_chapter_1_four_words_with_equal_queries_keys_and_values() -> None:
    x = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]]
    weights, _ = worked(x, x, x, causal=False)
    assert_rows(weights[[0, 3]], [[0.2343, 0.2445, 0.2551, 0.2661], [0.1769, 0.2186, 0.2703, 0.3342]])


def test_chapter_2_three_tokens() -> None:
    identity = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    keys = [identity[1], identity[2], identity[0]]
    weights, out = worked(identity, keys, identity, causal=False)
    expected = [[0.2645, 0.2645, 0.4711], [0.4711, 0.2645, 0.2645], [0.2645, 0.4711, 0.2645]]
    assert_rows(weights, expected)
    assert_rows(out, expected)


def test_chapter_2_two_tokens() -> None:
    weights, out = worked([[1, 0], [0, 1]], [[0, 1], [1, 0]], [[1, 1], [1, -1]], causal=False)
    assert_rows(weights, [[0.3302, 0.6698], [0.6698, 0.3302]])
    assert_rows(out, [[1, -0.3395], [1, 0.3395]])


def test_chapter_5_three_by_three_causal() -> None:
    q, k = [[1, 1], [4, 1], [7, 1]], [[1, 0], [1, 1], [1, 2]]  # QKᵀ = 1 … 9
    weights, _ = worked(q, k, k, causal=True)
    assert_rows(weights, [[1, 0, 0], [0.3302, 0.6698, 0], [0.1400, 0.2840, 0.5760]])
    assert weights.triu(1).eq(0).all()


def test_chapter_5_five_by_five_causal() -> None:
    q = [[2.0, 0, 0, 0], [1.5, 3, 0, 0], [0.5, 2, 4, 0], [-0.5, 1, 2.5, 3.5], [-1, 0, 1.5, 2]]
    k = [[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1.5]]
    weights, _ = worked(q, k, k, causal=True)
    expected = [
        [1, 0, 0, 0, 0],
        [0.3208, 0.6792, 0, 0, 0],
        [0.1127, 0.2386, 0.6487, 0, 0],
        [0.0667, 0.1412, 0.2990, 0.4930, 0],
        [0.0555, 0.0915, 0.1938, 0.2488, 0.4103],
    ]
    assert_rows(weights, expected)


@settings(deadline=None, max_examples=40)
@given(lengths, windows, st.booleans())
def test_grids_and_runs_agree_with_the_formula(lengths: list[int], window: int | None, causal: bool) -> None:
    torch.manual_seed(0)
    layout, qkv = layout_of(lengths, causal), random_qkv(lengths)
    upstream = torch.randn(sum(lengths), 2, 4, dtype=torch.float64)
    results = []
    engines: tuple[Engine, ...] = ("grids", "runs", "eager")
    for engine in engines:
        out = attention(*qkv, layout, window, engine=engine)
        results.append((out, *torch.autograd.grad(out, qkv, upstream)))
    for grids, runs, plain in zip(*results, strict=True):
        torch.testing.assert_close(grids, plain, atol=1e-12, rtol=1e-9)
        torch.testing.assert_close(runs, plain, atol=1e-12, rtol=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.lists(lengths, min_size=1, max_size=3), st.integers(0, 3), windows, st.booleans())
def test_pages_agree_with_the_formula(
    pages: list[list[int]], spare: int, window: int | None, causal: bool
) -> None:
    torch.manual_seed(0)
    size = max(map(sum, pages)) + spare
    sizes = [n for page in pages for n in (*page, size - sum(page)) if n]
    layout, qkv = layout_of(sizes, causal), random_qkv(sizes)
    positions = torch.cat([torch.arange(n) for n in sizes])
    paged = replace(layout, page=size).on_pages(positions, window or 0, torch.float64)
    upstream = torch.randn(sum(sizes), 2, 4, dtype=torch.float64)
    assert choose_engine(qkv[0], paged) == "pages"
    results = []
    for each in (paged, layout):
        out = attention(*qkv, each, window)
        results.append((out, *torch.autograd.grad(out, qkv, upstream)))
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, atol=1e-12, rtol=1e-9)


@settings(deadline=None, max_examples=20)
@given(lengths, windows, st.booleans())
def test_weights_are_a_distribution_over_what_may_be_seen(
    lengths: list[int], window: int | None, causal: bool
) -> None:
    torch.manual_seed(1)
    _, weights = eager_attention(*random_qkv(lengths), layout_of(lengths, causal), window)
    for rows, length in zip(weights, lengths, strict=True):
        assert rows.shape == (2, length, length)
        torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))
        for i in range(length):
            for j in range(length):
                seen = (j <= i or not causal) and (window is None or abs(i - j) <= window)
                assert (rows[:, i, j] > 0).all() if seen else (rows[:, i, j] == 0).all()


class Watch(torch.utils._python_dispatch.TorchDispatchMode):
    """Keeps the size of every tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        tensors = out if isinstance(out, tuple | list) else (out,)
        self.sizes += [tensor.numel() for tensor in tensors if isinstance(tensor, Tensor)]
        return out


@pytest.mark.parametrize("engine", ["grids", "runs"])
def test_a_window_costs_no_square(engine: Engine) -> None:
    """The largest tensor of a local layer grows with the length, not with its square."""
    length, window = 4096, 16
    q, k, v = torch.randn(3, length, 1, 4)
    with Watch() as made:
        attention(q, k, v, layout_of([length]), window, engine=engine)
    assert max(made.sizes) < 8 * length * window < length * length


@pytest.mark.filterwarnings("ignore")  # of torch's compiler
def test_a_compiler_leaves_out_what_follows_the_lengths() -> None:
    """Else it would begin anew with each batch, and complain of what it cannot take."""
    graphs: list[torch.fx.GraphModule] = []

    def capture(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    first = 0
    compiled = torch.compile(
        lambda q, layout: attention(q * 2, q, q, layout, 4) + 1, backend=capture, dynamic=True
    )
    for lengths in ([5, 7, 7], [3, 50, 20, 20], [200, 3], [9]):
        q = torch.randn(sum(lengths), 2, 4, requires_grad=True)
        expected = attention(q * 2, q, q, layout_of(lengths), 4) + 1
        torch.testing.assert_close(compiled(q, layout_of(lengths)), expected)
        first = first or len(graphs)
    assert len(graphs) == first


@pytest.mark.parametrize("engine", ["grids", "eager"])
def test_the_gradient_of_a_sequence_is_no_larger_than_the_sequence(engine: Engine) -> None:
    """How many tensors as large as the whole batch are made does not depend on how many sequences it has."""
    large = []
    for lengths in (list(range(1, 31)), [*range(1, 31)] * 2):
        qkv = random_qkv(lengths, width=64)
        with Watch() as made:
            attention(*qkv, layout_of(lengths), engine=engine).sum().backward()
        large.append(sum(size >= qkv[0].numel() for size in made.sizes))
    assert large[0] == large[1] < 60


def test_an_empty_sequence_is_no_trouble() -> None:
    q, k, v = torch.randn(3, 5, 2, 4)
    engines: tuple[Engine, ...] = ("grids", "runs", "eager")
    for engine in engines:
        both = attention(q, k, v, layout_of([2, 0, 3]), engine=engine)
        torch.testing.assert_close(both, attention(q, k, v, layout_of([2, 3]), engine=engine))
        assert attention(q[:0], k[:0], v[:0], layout_of([0]), engine=engine).shape == (0, 2, 4)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=6),
    windows,
    st.booleans(),
    st.sampled_from(["grids", "runs"]),
)
def test_a_sequence_does_not_depend_on_the_others(
    sizes: list[int], window: int | None, causal: bool, engine: Engine
) -> None:
    """To the bit: eight-bit products would round what differs in the last place to another number."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, sum(sizes), 2, 8)
    whole = attention(q, k, v, layout_of(sizes, causal), window, engine=engine)
    for n, *parts in zip(sizes, *(x.split(sizes) for x in (q, k, v, whole)), strict=True):
        assert attention(*parts[:3], layout_of([n], causal), window, engine=engine).equal(parts[3])


def test_the_engine_does_not_depend_on_the_others() -> None:
    q, k, v = torch.randn(3, 320, 2, 8)
    short = attention(q[:20], k[:20], v[:20], layout_of([20]), 8)
    assert attention(q, k, v, layout_of([20, 300]), 8)[:20].equal(short)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 140), min_size=1, max_size=4), windows, st.booleans())
def test_half_precision_stays_near_the_formula(sizes: list[int], window: int | None, causal: bool) -> None:
    torch.manual_seed(0)
    exact = [x.requires_grad_() for x in torch.randn(3, sum(sizes), 2, 8).unbind(0)]
    half = [x.detach().bfloat16().requires_grad_() for x in exact]
    results = []
    for qkv, engine in ((exact, "eager"), (half, "grids")):
        out = attention(*qkv, layout_of(sizes, causal), window, engine=engine)  # type: ignore[arg-type]
        results.append((out, *torch.autograd.grad(out.square().sum(), qkv)))
    for plain, near in zip(*results, strict=True):
        assert (near.float() - plain).norm() < 0.02 * plain.norm() + 1e-6


def test_equal_neighbours_are_computed_together() -> None:
    assert layout_of([3, 3, 3, 5, 3]).runs == [(3, 3), (1, 5), (1, 3)]


def test_the_engine_on_a_cpu() -> None:
    q = torch.randn(3, 1, 4)
    assert choose_engine(q, layout_of([3])) == "runs"
    assert choose_engine(q.requires_grad_(), layout_of([3])) == "grids"
    with torch.no_grad():
        assert choose_engine(q, layout_of([3])) == "runs"
        assert choose_engine(q.bfloat16(), layout_of([3])) == "grids"
    grid = Layout(torch.tensor([0, 3]).int(), 3, mask=torch.ones(1, 3, dtype=torch.bool))
    assert choose_engine(q, grid) == "eager"


def test_dropout_removes_weights() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 50, 1, 4)
    v = torch.ones(50, 1, 4)
    layout = layout_of([50])
    for engine in ("grids", "runs", "eager"):
        out = attention(q, k, v, layout, dropout=0.5, engine=engine)  # type: ignore[arg-type]
        assert out.std() > 0.05
        torch.testing.assert_close(out.mean(), torch.tensor(1.0), atol=0.15, rtol=0)
