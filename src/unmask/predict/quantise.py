"""Eight-bit matrix products on the CPU, through oneDNN.

Weights have one scale per output channel, inputs one scale per token, measured as they come: no calibration,
and a text's result does not depend on what else is in its batch.
"""

import torch
from torch import Tensor, nn

from unmask.errors import ModelError
from unmask.model.encoder import Encoder

_ZERO = 128
"""Signed inputs are shifted by this: oneDNN is fast with unsigned inputs only."""

_ROWS = 128
"""Rows rounded at a time: they stay in the cache from the first pass to the last."""


class Int8Linear(nn.Module):
    """A linear layer with eight-bit weights and inputs; everything else stays in float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scales = weight.abs().amax(1).clamp_min(1e-12) / 127
        rounded = (weight / scales[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.scales = scales
        self.zeros = torch.zeros(len(scales), dtype=torch.int64)
        bias: Tensor | None = linear.bias  # torch's stubs do not know that it may be missing
        self.bias = None if bias is None else bias.detach().float()

    def forward(self, x: Tensor) -> Tensor:
        rounded, step = round_rows(x)
        out: Tensor = torch.ops.onednn.qlinear_pointwise(
            rounded, 1.0, _ZERO, self.packed, self.scales, self.zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return out.mul_(step) if self.bias is None else torch.addcmul(self.bias, out, step, out=out)


def round_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each row in steps of 1/127 of its largest value, shifted to be unsigned; and the steps (T, 1)."""
    rounded = torch.empty(x.shape, dtype=torch.int8)
    largest = torch.empty(len(x), 1)
    parts = (torch.split(whole, _ROWS) for whole in (x, rounded, largest))
    for rows, near, high in zip(*parts, strict=True):
        torch.maximum(rows.amax(1, keepdim=True), rows.amin(1, keepdim=True).neg_(), out=high)
        near.copy_(rows.mul(127 / high.clamp_min_(1e-12)).round_())
    return rounded.view(torch.uint8).bitwise_xor_(_ZERO), largest.div_(127)  # xor is the same as adding 128


def quantise(encoder: Encoder) -> None:
    """Put eight-bit layers in place of the linear layers of an encoder's blocks."""
    if not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        raise ModelError("int8 needs a build of torch with oneDNN, which this one lacks: use float32")
    for block in encoder.blocks:
        for name, module in list(block.named_modules()):
            if isinstance(module, nn.Linear):
                owner, _, attribute = name.rpartition(".")
                setattr(block.get_submodule(owner), attribute, Int8Linear(module))
