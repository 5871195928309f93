"""The other processes of a run, if there are any: the one place that knows about them."""

import torch
import torch.distributed as dist
from torch import nn


def rank() -> int:
    """This process's number."""
    return dist.get_rank() if dist.is_initialized() else 0


def ranks() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def total(values: list[float], device: torch.device) -> list[float]:
    """The sums of each value over all processes, the same in every one."""
    if ranks() == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor)
    return tensor.tolist()


def sum_gradients(model: nn.Module) -> None:
    """Add up the gradients of all processes; the loss is divided by the predictions of all already."""
    if ranks() > 1:
        for parameter in model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
