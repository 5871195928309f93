"""Muon with all matrices of one shape at once; torch's takes them one by one, in dozens of kernels each."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class Muon(torch.optim.Muon):
    """torch's Muon, its state and settings, in few large products.

    A weight that is several matrices one below the other (`parts` of its group) is taken as those.
    """

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            gradients = [weight.grad for weight in weights]
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)
            means = [self.state[weight]["momentum_buffer"] for weight in weights]
            torch._foreach_lerp_(means, gradients, 1 - group["momentum"])
            ahead = torch._foreach_lerp(gradients, means, group["momentum"])  # Nesterov's
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
            parts = group.get("parts", 1)
            for weight, update in zip(weights, ahead, strict=True):
                for matrix, change in zip(weight.chunk(parts), update.chunk(parts), strict=True):
                    alike[matrix.shape].append((matrix, change))
            for (rows, columns), pairs in alike.items():
                updates = orthogonal(torch.stack([update for _, update in pairs]), group).to(ahead[0].dtype)
                updates *= group["lr"] * max(1.0, rows / columns) ** 0.5
                torch._foreach_sub_([matrix for matrix, _ in pairs], list(updates.unbind()))


def orthogonal(matrices: Tensor, group: Mapping[str, Any]) -> Tensor:
    """About the nearest orthogonal matrices (n, r, c), by Newton and Schulz's iteration.

    In bfloat16, as torch's; on a processor in float32, which many multiply faster.
    """
    a, b, c = group["ns_coefficients"]
    tall = matrices.shape[1] > matrices.shape[2]
    dtype = torch.float32 if matrices.device.type == "cpu" else torch.bfloat16
    x = (matrices.mT if tall else matrices).to(dtype)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
