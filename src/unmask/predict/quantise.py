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
        largest = torch.maximum(x.amax(1, keepdim=True), -x.amin(1, keepdim=True)).clamp_min(1e-12)  # (T, 1)
        rounded = x.mul(127 / largest).round_().to(torch.int8)
        shifted = rounded.view(torch.uint8).bitwise_xor_(_ZERO)  # the same as adding 128
        out: Tensor = torch.ops.onednn.qlinear_pointwise(
            shifted, 1.0, _ZERO, self.packed, self.scales, self.zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        step = largest / 127
        return out.mul_(step) if self.bias is None else torch.addcmul(self.bias, out, step, out=out)


def quantise(encoder: Encoder) -> None:
    """Put eight-bit layers in place of the linear layers of an encoder's blocks."""
    if not hasattr(torch.ops.onednn, "qlinear_pointwise"):
        raise ModelError("int8 needs a build of torch with oneDNN, which this one lacks: use float32")
    for block in encoder.blocks:
        for name, module in list(block.named_modules()):
            if isinstance(module, nn.Linear):
                owner, _, attribute = name.rpartition(".")
                setattr(block.get_submodule(owner), attribute, Int8Linear(module))
