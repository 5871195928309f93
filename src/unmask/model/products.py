"""Products with weights: `Linear`, and which library computes it.

Torch asks MKL for products in float32, and MKL leaves half of what AMD's processors with AVX-512 can do idle;
oneDNN, which torch carries too, does not. Both compute in full float32.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Linear):
    """xWᵀ + b."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """xWᵀ + b, by the library that is faster here."""
    if torch.compiler.is_compiling():  # first: to ask how many rows there are would fix their number
        return F.linear(x, weight, bias)
    plain = x.dtype == weight.dtype == torch.float32 and x.device.type == "cpu" and x.ndim == 2 and len(x)
    if not plain or not _mkl_is_slow() or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    return _product(x, weight, bias)


@cache
def _mkl_is_slow() -> bool:
    """Whether this is such a processor."""
    try:
        maker = "AuthenticAMD" in Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return False
    able = torch.backends.cpu.get_cpu_capability() == "AVX512" and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return maker and bool(able) and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def half_is_fast() -> bool:
    """Whether this processor multiplies bfloat16 by instructions of its own; without them it is slow."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if platform.machine() in ("aarch64", "arm64"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return any(
        getattr(torch.cpu, f"_is_{name}_supported", lambda: False)() for name in ("avx512_bf16", "amx_tile")
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out: Tensor
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (x, weight, bias)):
        out = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    else:
        bias = None if bias is None else bias.contiguous()  # it is read as if it were
        out = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out


class _Product(torch.autograd.Function):
    """oneDNN's operation with the gradients it has none of; those of gradients, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        inward, own, shift = ctx.needs_input_grad
        return (
            _product(gradient, weight.t()) if inward else None,
            _product(gradient.t(), x.t()) if own else None,
            gradient.sum(0) if shift else None,
        )
