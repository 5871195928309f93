"""Which optimiser updates which weight, and with how much decay."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from unmask.config import TrainConfig

_MOMENTUM = 0.95


class Optimiser:
    """One optimiser, or Muon and AdamW side by side, whose state has names."""

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        groups = split(model, config)
        self._parts: list[Optimizer] = []
        plain = [
            {"params": groups[key], "lr": config.lr, "base": config.lr, "weight_decay": decay}
            for key, decay in (("decay", config.weight_decay), ("plain", 0.0))
            if groups[key]
        ]
        if plain:
            cuda = next(model.parameters()).is_cuda
            self._parts.append(AdamW(plain, betas=config.betas, eps=config.eps, fused=cuda, foreach=not cuda))
        if groups["muon"]:
            rate = config.muon_lr
            muon = {"params": groups["muon"], "lr": rate, "base": rate, "weight_decay": config.weight_decay}
            self._parts.append(Muon([muon], momentum=_MOMENTUM, adjust_lr_fn="original"))

    def step(self, lr_share: float) -> None:
        """Update every weight at this share of its highest learning rate."""
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = group["base"] * lr_share
            part.step()

    def clear(self) -> None:
        """Forget the gradients."""
        for part in self._parts:
            part.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """Everything the optimiser remembers, as `weight/quantity`."""
        return {
            f"{self._names[id(parameter)]}/{key}": value
            for part in self._parts
            for parameter, values in part.state.items()
            for key, value in values.items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Remember what `state` gave."""
        remembered: dict[str, dict[str, Tensor]] = {}
        for name, value in state.items():
            weight, _, key = name.rpartition("/")
            remembered.setdefault(weight, {})[key] = value
        for part in self._parts:
            part.state.clear()
            for group in part.param_groups:
                for parameter in group["params"]:
                    values = remembered.get(self._names[id(parameter)], {})
                    part.state[parameter] = {k: _placed(v, k, parameter, group) for k, v in values.items()}


def _placed(value: Tensor, key: str, parameter: Tensor, group: Mapping[str, Any]) -> Tensor:
    """A copy on the weight's device; AdamW counts steps on the CPU unless it is fused."""
    stays = key == "step" and not group.get("fused")
    return value.to("cpu" if stays else parameter.device, copy=True)


def split(model: nn.Module, config: TrainConfig) -> dict[str, list[Tensor]]:
    """Every weight in exactly one group.

    `plain` (no decay): biases and norms, as in BERT and ModernBERT, and the embedding tables if the recipe
    says so. `muon`: the matrices of the blocks. `decay`: all other matrices.
    """
    groups: dict[str, list[Tensor]] = {"muon": [], "decay": [], "plain": []}
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2 or (id(parameter) in tables and not config.decay_embeddings):
            groups["plain"].append(parameter)
        elif config.optimiser == "muon" and parameter.ndim == 2 and ".blocks." in name:
            groups["muon"].append(parameter)
        else:
            groups["decay"].append(parameter)
    every = [id(parameter) for group in groups.values() for parameter in group]
    assert sorted(every) == sorted(id(parameter) for parameter in model.parameters())
    return groups


def clip(model: nn.Module, limit: float) -> Tensor:
    """Scale gradients down to a norm of at most `limit`; their norm before that, not a number if one is."""
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    return torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=True)
