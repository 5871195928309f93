"""The encoder: packed, padded and one by one are the same; who depends on whom."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unmask.config import ModelConfig
from unmask.model.attention import Layout
from unmask.model.encoder import Encoder
from unmask.model.presets import preset

SMALL = {"vocab_size": 40, "width": 16, "layers": 3, "heads": 2, "inner": 24, "positions": 64, "pad_id": 0}
KINDS = {
    "bert": preset("bert-base", **SMALL),
    "roberta": preset("roberta-base", **SMALL, position_offset=1),
    "modernbert": preset("modernbert-base", **SMALL, window=2, global_every=3),
    "unmask": preset("modernbert-base", **SMALL, window=2, global_every=3, family="unmask", qk_norm=True),
}
lengths = st.lists(st.integers(1, 20), min_size=1, max_size=5)


def encoder_of(config: ModelConfig) -> Encoder:
    torch.manual_seed(3)
    encoder = Encoder(config).double().eval()
    for parameter in encoder.parameters():
        parameter.data = torch.randn_like(parameter) * 0.4
    return encoder


def pack(sequences: list[Tensor]) -> tuple[Tensor, Tensor, Tensor, int]:
    lengths = [len(ids) for ids in sequences]
    positions = torch.cat([torch.arange(length) for length in lengths])
    return torch.cat(sequences), positions, torch.tensor([0, *lengths]).cumsum(0).int(), max(lengths)


def random_sequences(lengths: list[int]) -> list[Tensor]:
    torch.manual_seed(sum(lengths))
    return [torch.randint(1, 40, (length,)) for length in lengths]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_asked_for_are_those_of_the_whole(kind: str) -> None:
    encoder = encoder_of(KINDS[kind])
    packed = pack(random_sequences([5, 1, 12]))
    rows = torch.tensor([17, 0, 0, 6])
    found, whole = encoder(*packed, rows=rows), encoder(*packed)[rows]
    torch.testing.assert_close(found, whole)
    upstream = torch.randn_like(found)
    weights = list(encoder.parameters())
    gradients = [torch.autograd.grad(out, weights, upstream, allow_unused=True) for out in (found, whole)]
    for mine, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_reaches_every_block(kind: str) -> None:
    """The vectors between blocks are in half precision, norms included."""
    encoder = encoder_of(KINDS[kind]).float()
    packed = pack(random_sequences([5, 9]))
    with torch.autocast("cpu", torch.bfloat16):
        trace = encoder.trace(*packed)
    assert {x.dtype for x in trace.hidden} == {torch.bfloat16}
    assert torch.nn.functional.cosine_similarity(trace.hidden[-1].float(), encoder(*packed)).min() > 0.99


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_is_padded_is_one_by_one(kind: str, causal: bool) -> None:
    encoder = encoder_of(KINDS[kind])

    @settings(deadline=None, max_examples=10)
    @given(lengths)
    def check(lengths: list[int]) -> None:
        sequences = random_sequences(lengths)
        packed = encoder(*pack(sequences), causal=causal)
        single = torch.cat([encoder(*pack([ids]), causal=causal) for ids in sequences])
        torch.testing.assert_close(packed, single)
        grid = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        mask = grid > 0
        padded = encoder.padded(grid, mask.long(), causal=causal)
        torch.testing.assert_close(packed, padded[mask])

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_permuting_the_batch_permutes_the_output(kind: str) -> None:
    encoder = encoder_of(KINDS[kind])
    lengths = [5, 9, 2, 9]
    sequences = random_sequences(lengths)
    straight = encoder(*pack(sequences)).split(lengths)
    order = [2, 0, 3, 1]
    permuted = encoder(*pack([sequences[i] for i in order])).split([lengths[i] for i in order])
    for place, i in enumerate(order):
        torch.testing.assert_close(permuted[place], straight[i])


def dependence(encoder: Encoder, lengths: list[int], causal: bool) -> Tensor:
    """Whether output i changes with input j: bool (T, T), by gradients through the embeddings."""
    ids, positions, cu_seqlens, longest = pack(random_sequences(lengths))
    inputs: list[Tensor] = []

    def keep(module: object, args: object, output: Tensor) -> Tensor:
        inputs.append(output.detach().requires_grad_())
        return inputs[0]

    with encoder.embeddings.register_forward_hook(keep):
        hidden = encoder(ids, positions, cu_seqlens, longest, causal=causal)
    rows = [torch.autograd.grad(row.pow(2).sum(), inputs[0], retain_graph=True)[0] for row in hidden]
    return torch.stack(rows).ne(0).any(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_output_depends_on_every_input_of_its_sequence_alone(kind: str) -> None:
    expected = torch.block_diag(torch.ones(7, 7), torch.ones(4, 4)).bool()
    assert torch.equal(dependence(encoder_of(KINDS[kind]), [7, 4], causal=False), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_no_output_depends_on_the_future_when_causal(kind: str) -> None:
    expected = torch.block_diag(torch.ones(7, 7).tril(), torch.ones(4, 4).tril()).bool()
    assert torch.equal(dependence(encoder_of(KINDS[kind]), [7, 4], causal=True), expected)


def test_queries_and_keys_of_one_length() -> None:
    """Against the formula: each head's query and key divided by the root of its mean square."""
    config = KINDS["unmask"].model_copy(update={"position": "learned", "window": 0, "global_every": 1})
    attention = encoder_of(config).blocks[0].attention
    x = torch.randn(7, 16, dtype=torch.float64)
    layout = Layout(torch.tensor([0, 7], dtype=torch.int32), 7)
    q, k, v = attention.qkv(x).view(7, 3, 2, 8).unbind(1)
    q, k = (each / (each.square().mean(-1, keepdim=True) + config.norm_eps).sqrt() for each in (q, k))
    weights = (torch.einsum("qhd,khd->hqk", q, k) / 8**0.5).softmax(-1)
    expected = attention.out(torch.einsum("hqk,khd->qhd", weights, v).flatten(1))
    torch.testing.assert_close(attention(x, layout, None, None, None), expected)


def test_the_config_decides_unless_the_batch_does() -> None:
    config = KINDS["modernbert"].model_copy(update={"causal": True})
    inputs = pack(random_sequences([6]))
    encoder = encoder_of(config)
    torch.testing.assert_close(encoder(*inputs), encoder(*inputs, causal=True))
    assert not torch.allclose(encoder(*inputs), encoder(*inputs, causal=False))


def test_segments_matter_and_default_to_the_first() -> None:
    encoder = encoder_of(KINDS["bert"])
    inputs = pack(random_sequences([6]))
    zeros = torch.zeros(6, dtype=torch.long)
    torch.testing.assert_close(encoder(*inputs), encoder(*inputs, zeros))
    assert not torch.allclose(encoder(*inputs), encoder(*inputs, zeros + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_ends_in_the_ordinary_result(kind: str) -> None:
    encoder = encoder_of(KINDS[kind])
    inputs = pack(random_sequences([6, 3]))
    trace = encoder.trace(*inputs, attention=True)
    assert len(trace.hidden) == 4
    torch.testing.assert_close(trace.hidden[-1], encoder(*inputs))
    assert trace.attention is not None
    assert [tuple(weights.shape) for weights in trace.attention[0]] == [(2, 6, 6), (2, 3, 3)]
    assert encoder.trace(*inputs).attention is None


def test_dropout_only_when_training() -> None:
    encoder = encoder_of(KINDS["bert"])
    inputs = pack(random_sequences([6]))
    still = encoder(*inputs)
    torch.testing.assert_close(still, encoder(*inputs))
    assert not torch.allclose(still, encoder.train()(*inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_stays_near(kind: str) -> None:
    encoder = encoder_of(KINDS[kind])
    inputs = pack(random_sequences([20, 3]))
    exact = encoder(*inputs)
    half = encoder.bfloat16()(*inputs)
    assert half.dtype == torch.bfloat16
    assert torch.nn.functional.cosine_similarity(exact, half.double(), dim=-1).min() > 0.99


def test_the_padded_path_exports_with_free_sizes() -> None:
    encoder = encoder_of(KINDS["modernbert"])

    class Exported(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            return self.encoder.padded(ids, mask)

    ids, mask = torch.randint(1, 40, (3, 9)), torch.ones(3, 9, dtype=torch.long)
    free = {0: torch.export.Dim("rows"), 1: torch.export.Dim("length", max=64)}
    program = torch.export.export(Exported(), (ids, mask), dynamic_shapes={"ids": free, "mask": free})
    ids, mask = torch.randint(1, 40, (5, 20)), torch.ones(5, 20, dtype=torch.long)
    mask[0, 7:] = 0
    torch.testing.assert_close(program.module()(ids, mask), encoder.padded(ids, mask))


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_the_path_of_the_fast_kernel_is_one_graph(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured where the kernel itself cannot run: nothing on its path depends on the data in Python."""
    monkeypatch.setattr("unmask.model.attention.choose_engine", lambda *_: "varlen")
    kernels: list[str] = []

    def capture(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., tuple[Tensor]]:
        kernels.extend(str(node.target) for node in graph.graph.nodes if "varlen_attn" in str(node.target))
        return lambda *args: (torch.zeros(9, 16, dtype=torch.float64),)

    encoder = encoder_of(KINDS[kind])
    torch.compile(encoder, fullgraph=True, backend=capture)(*pack(random_sequences([6, 3])))
    assert len(kernels) == 3
