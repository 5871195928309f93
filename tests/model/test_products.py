"""Products through oneDNN against float64, and when they are asked for."""

import pytest
import torch
from torch import Tensor

from unmask.model import products
from unmask.model.products import Linear, linear


@pytest.fixture
def through_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(products, "_mkl_is_slow", lambda: True)


def gradients(x: Tensor, layer: Linear) -> list[Tensor]:
    out = layer(x)
    return [out, *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])]


@pytest.mark.usefixtures("through_onednn")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 37])
def test_values_and_gradients(bias: bool, rows: int) -> None:
    torch.manual_seed(0)
    layer, x = Linear(24, 40, bias=bias), torch.randn(rows, 24, requires_grad=True)
    assert ("_Product" in type(layer(x).grad_fn).__name__) == (rows > 0)
    found = gradients(x, layer)
    expected = gradients(x.detach().double().requires_grad_(), layer.double())
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-4, rtol=1e-5)


@pytest.mark.usefixtures("through_onednn")
def test_gradients_have_gradients() -> None:
    given = [torch.randn(*shape, requires_grad=True) for shape in ((5, 4), (3, 4), (3,))]
    exact = [each.detach().double().requires_grad_() for each in given]
    second = []
    for each in (given, exact):
        first = torch.autograd.grad(linear(*each).pow(3).sum(), each, create_graph=True)
        second.append(torch.autograd.grad(sum(one.square().sum() for one in first), each))
    for one, other in zip(*second, strict=True):
        assert (one - other).norm() < 1e-5 * other.norm()


@pytest.mark.usefixtures("through_onednn")
def test_shifts_may_lie_apart() -> None:
    x, weight, bias = torch.randn(5, 8), torch.randn(3, 8), torch.randn(6)[::2]
    torch.testing.assert_close(linear(x, weight, bias), x @ weight.T + bias, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("through_onednn")
def test_only_what_learns_gets_gradients() -> None:
    layer, x = Linear(4, 3), torch.randn(2, 4)
    layer.weight.requires_grad_(False)
    layer(x).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is not None
    assert layer.bias.grad.tolist() == [2, 2, 2]


@pytest.mark.usefixtures("through_onednn")
def test_a_row_does_not_depend_on_the_others() -> None:
    layer, x = Linear(48, 64), torch.randn(50, 48)
    with torch.no_grad():
        assert layer(x)[7:9].equal(layer(x[7:9]))


@pytest.mark.usefixtures("through_onednn")
def test_other_kinds_go_the_usual_way() -> None:
    x, weight = torch.randn(5, 8, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    assert linear(x, weight, None).equal(x @ weight.T)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x.float(), weight.float(), None).dtype == torch.bfloat16
    assert linear(x.float().view(1, 5, 8), weight.float(), None).shape == (1, 5, 3)
