"""The other processes of a run, if there are any: the one place that knows about them.

`ddp`: every process holds all weights, and gradients are added up. `fsdp`: every process holds its rows of
each weight (and of its gradient and what the optimiser remembers of it); torch brings a block's weights
together when it computes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from unmask.errors import ConfigError, UserError
from unmask.model.network import Model

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_SILENCE = timedelta(minutes=30)  # a process that does not answer for so long is taken for dead
_PATIENCE = timedelta(days=7)  # but preparing a corpus may take longer
_BUCKET = 25 << 20  # bytes of gradients that travel together


@contextmanager
def processes() -> Iterator[None]:
    """Join the processes that torchrun started, if it did, and part at the end."""
    if dist.is_initialized() or not all(name in os.environ for name in _TORCHRUN):
        yield
        return
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        local, devices = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= devices:
            raise ConfigError(f"this machine has fewer GPUs than processes: --nproc-per-node={devices}")
        torch.cuda.set_device(local)
    try:
        dist.init_process_group(backend, timeout=_SILENCE)
        yield
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error).lower():
            raise UserError(
                "lost touch with the other processes of the run: torchrun --max-restarts=N starts all again, "
                f"with --resume they go on ({str(error).splitlines()[0]})"
            ) from error
        raise
    dist.destroy_process_group()  # not after an error: the others may no longer answer


def rank() -> int:
    """This process's number."""
    return dist.get_rank() if dist.is_initialized() else 0


def ranks() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def ranks_here() -> int:
    """How many of them are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", 1)) if dist.is_initialized() else 1


def alone() -> bool:
    """Whether no torchrun started this: one process of its own has split weights too."""
    return not dist.is_initialized()


@contextmanager
def first_alone() -> Iterator[None]:
    """Rank 0 goes through the block; the others wait for it, however long it takes, and then follow."""
    group = dist.new_group(backend="gloo", timeout=_PATIENCE) if ranks() > 1 else None
    if group and rank() > 0:
        dist.barrier(group)
    yield
    if group and rank() == 0:
        dist.barrier(group)


def total(values: list[float]) -> list[float]:
    """The sums of each value over all processes, the same in every one."""
    if ranks() == 1:
        return values
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor)
    return tensor.tolist()


def first(value: int) -> int:
    """The value of rank 0, in every process; less than 2⁵³."""
    return int(total([value if rank() == 0 else 0])[0])


def mean(value: float) -> float:
    """The mean over all processes, the same in every one."""
    return total([value])[0] / ranks()


class GradientSum:
    """Adds up the gradients of all processes, bucket by bucket, while the backward pass still computes.

    The loss is divided by the predictions of all processes already, so there is nothing to divide here.
    Buckets never change, so that sums have the same order, and the same bits, after going on.
    """

    def __init__(self, model: nn.Module) -> None:
        self._buckets: list[list[nn.Parameter]] = []
        self._bucket: dict[nn.Parameter, int] = {}
        self._missing: list[int] = []
        self._sent: list[tuple[dist.Work, Tensor, list[Tensor]]] = []
        if ranks() == 1 or any(map(is_split, model.parameters())):
            return  # alone, or torch does it
        room = 0
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in reversed(trained):  # about the order in which gradients arrive
            if room <= 0:
                self._buckets.append([])
                room = _BUCKET
            room -= parameter.nbytes
            self._buckets[-1].append(parameter)
            self._bucket[parameter] = len(self._buckets) - 1
            parameter.register_post_accumulate_grad_hook(self._arrived)  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """The next backward pass is the step's last: what arrives in it is whole."""
        self._missing = [len(bucket) for bucket in self._buckets]

    def _arrived(self, parameter: Tensor) -> None:
        if not self._missing:
            return
        self._missing[self._bucket[parameter]] -= 1  # type: ignore[index]
        while len(self._sent) < len(self._buckets) and self._missing[len(self._sent)] == 0:
            self._send()

    def _send(self) -> None:
        """Send the next bucket; always in the same order, so that all processes mean the same one."""
        bucket = self._buckets[len(self._sent)]
        gradients = [parameter.grad for parameter in bucket if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients]) if gradients else torch.zeros(1)
        work = dist.all_reduce(flat, async_op=True)
        assert work is not None
        self._sent.append((work, flat, gradients))

    def finish(self) -> None:
        """Wait for the sums."""
        while len(self._sent) < len(self._buckets):
            self._send()  # weights that no prediction used leave their bucket waiting
        for work, flat, gradients in self._sent:
            work.wait()
            if gradients:
                sums = torch.split(flat, [gradient.numel() for gradient in gradients])
                torch._foreach_copy_(gradients, [s.view_as(g) for s, g in zip(sums, gradients, strict=True)])
        self._sent, self._missing = [], []


def split(model: Model, mode: str, device: torch.device) -> None:
    """With `fsdp`, leave every process only its rows of each weight."""
    if mode != "fsdp" or not dist.is_initialized():
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (ranks(),))
    for module in (*model.encoder.blocks, model):
        # Outside a pass every weight is split, the model's own too: validation leaves nothing gathered.
        shards = fully_shard(module, mesh=mesh, reshard_after_forward=True)
        shards.set_gradient_divide_factor(1.0)  # a sum, as above
        shards.set_force_sum_reduction_for_comms(True)


@contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """Every process holds all weights within the block, to read them."""
    parts: list[Any] = []
    if any(map(is_split, model.parameters())):
        from torch.distributed.fsdp import FSDPModule

        parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()


def is_split(tensor: Tensor) -> bool:
    """Whether this process holds only some rows of a tensor."""
    if not dist.is_initialized():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def held(tensor: Tensor) -> Tensor:
    """The rows of a tensor that this process holds; changing them changes the tensor."""
    return tensor.detach().to_local() if is_split(tensor) else tensor.detach()  # type: ignore[attr-defined]


def first_row(tensor: Tensor) -> int:
    """The number of the first row that this process holds."""
    return min(rank() * -(-len(tensor) // ranks()), len(tensor)) if is_split(tensor) else 0


def whole(tensor: Tensor) -> Tensor:
    """A tensor that all processes together hold, in every one."""
    return tensor.full_tensor() if is_split(tensor) else tensor  # type: ignore[attr-defined]


def fill(tensor: Tensor, values: Tensor) -> None:
    """Copy the rows that this process holds from a whole tensor's `values`."""
    mine = held(tensor)
    mine.copy_(values.narrow(0, first_row(tensor), len(mine)) if is_split(tensor) else values)
