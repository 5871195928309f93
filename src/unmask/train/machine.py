"""What the hardware offers: device, precision, compilation; and repeatable arithmetic."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

from unmask.config import ModelConfig, Recipe, TrainConfig
from unmask.model.network import Model
from unmask.model.products import half_is_fast
from unmask.train import parallel


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and in which precision to compute."""

    device: torch.device
    bf16: bool

    @classmethod
    def choose(cls, config: TrainConfig) -> "Machine":
        """The GPU if there is one; bf16 if the recipe says so, or by itself where the hardware has it."""
        if torch.cuda.is_available():
            device, able = torch.device("cuda", torch.cuda.current_device()), torch.cuda.is_bf16_supported()
        else:
            device, able = torch.device("cpu"), half_is_fast()
        return cls(device, able if config.precision == "auto" else config.precision == "bf16")

    def autocast(self) -> torch.autocast:
        """Matrix products in bf16, or everything as it is."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    def compiles(self, config: TrainConfig) -> bool:
        """Whether a run compiles its blocks and its loss."""
        return self.device.type == "cuda" if config.compile == "auto" else config.compile

    def graphs(self, model: ModelConfig, recipe: Recipe) -> bool:
        """Whether a run's steps are recorded and played again.

        Not if anything in them is random (a checkpoint of activations keeps states), if they are several
        micro-batches, predict more than tokens, or wait for other processes.
        """
        train = recipe.train
        random = model.dropout or model.attention_dropout or train.checkpoint_activations
        plain = recipe.batch.pairs == "none" and recipe.batch.mask.kind != "span" and not recipe.objective.sbo
        whole = train.batch_tokens <= train.micro_tokens
        here = self.device.type == "cuda" and self.compiles(train) and parallel.alone()
        return here and plain and whole and not random

    def fit(self, model: Model, config: TrainConfig) -> None:
        """Move a model here and make its blocks as fast, or as small, as the recipe asks."""
        model.to(self.device)
        self._prepare(model, config)
        parallel.split(model, config.parallel, self.device)

    def fit_teacher(self, model: Model, config: TrainConfig) -> Model:
        """Move a model here that is asked and never trained."""
        model.to(self.device, torch.bfloat16 if self.bf16 else torch.float32).eval().requires_grad_(False)
        self._prepare(model, config)
        return model

    def _prepare(self, model: Model, config: TrainConfig) -> None:
        compiled = self.compiles(config)
        if compiled:
            # First, local, global and last blocks, training or not: each is a graph of the same function.
            torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 64)
        # The forward passes and not the modules: what FSDP hangs on a module stays outside the graph.
        for module in (model.encoder.embeddings, *model.encoder.blocks):
            forward = torch.compile(module.forward, dynamic=True) if compiled else module.forward
            if config.checkpoint_activations and module is not model.encoder.embeddings:
                forward = partial(checkpoint, forward, use_reentrant=False)
            module.forward = forward

    def peak_memory(self) -> int:
        """The most bytes held so far: on the GPU, or by the process."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_reserved(self.device)  # what graphs keep for themselves included
        import resource
        import sys

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


@contextmanager
def repeatable(machine: Machine) -> Iterator[None]:
    """On a CPU, sums in one order whatever the threads do; the global generator is left alone."""
    import torch.utils.deterministic as memory

    before = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory  # type: ignore[attr-defined]
    with torch.random.fork_rng([machine.device] if machine.device.type == "cuda" else []):
        try:
            torch.use_deterministic_algorithms(machine.device.type == "cpu")
            memory.fill_uninitialized_memory = False  # type: ignore[attr-defined]
            yield
        finally:
            torch.use_deterministic_algorithms(before[0])
            memory.fill_uninitialized_memory = before[1]  # type: ignore[attr-defined]
