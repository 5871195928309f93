"""Which optimiser updates which weight, and with how much decay."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from unmask.config import TrainConfig
from unmask.model.encoder import Attention, FeedForward
from unmask.train import parallel
from unmask.train.graphs import Played
from unmask.train.muon import Muon

_MOMENTUM = 0.95
_BLOCK = re.compile(r"encoder\.blocks\.(\d+)\.")


class Optimiser:
    """One optimiser, or Muon and AdamW side by side, whose state has names.

    With `recorded` updates may be played from a CUDA graph: learning rates are then on the device.
    """

    def __init__(self, model: nn.Module, config: TrainConfig, recorded: bool = False) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        groups = split(model, config)
        self._parts: list[Optimizer] = []
        shares = layer_shares(model, config.layer_decay)
        plain = [
            {"params": chosen, "lr": config.lr * share, "base": config.lr * share, "weight_decay": decay}
            for key, decay in (("decay", config.weight_decay), ("plain", 0.0))
            for share in sorted(set(shares.values()))
            if (chosen := [each for each in groups[key] if shares[id(each)] == share])
        ]
        if plain:
            adamw = AdamW(plain, betas=config.betas, eps=config.eps, fused=True, capturable=recorded)
            self._parts.append(adamw)
        if groups["muon"]:
            parts, alike = fused(model), defaultdict[tuple[int, float], list[Tensor]](list)
            for each in groups["muon"]:
                alike[parts.get(id(each), 1), config.muon_lr * shares[id(each)]].append(each)
            decay = config.weight_decay
            muon = [
                {"params": chosen, "parts": count, "lr": rate, "base": rate, "weight_decay": decay}
                for (count, rate), chosen in sorted(alike.items(), key=itemgetter(0))
            ]
            self._parts.append(Muon(muon, momentum=_MOMENTUM))
        if recorded:
            for group in self._groups():
                group["lr"] = torch.tensor(group["base"], device=group["params"][0].device)
        self._played = Played()

    def _groups(self) -> Iterator[dict[str, Any]]:
        return (group for part in self._parts for group in part.param_groups)

    def step(self, lr_share: float, in_place: bool = False) -> None:
        """Update every weight at this share of its highest learning rate.

        `in_place`: the gradients lie where they did the last time, so that the update can be recorded.
        """
        for group in self._groups():
            rate = group["base"] * lr_share
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if in_place:
            self._played(self._update)
        else:
            self._update()

    def _update(self) -> None:
        for part in self._parts:
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
        self._played = Played()  # what is remembered lies elsewhere now
        remembered: dict[str, dict[str, Tensor]] = {}
        for name, value in state.items():
            weight, _, key = name.rpartition("/")
            remembered.setdefault(weight, {})[key] = value
        for part in self._parts:
            part.state.clear()
            for group in part.param_groups:
                for parameter in group["params"]:
                    values = remembered.get(self._names[id(parameter)], {})
                    part.state[parameter] = {key: _placed(value, parameter) for key, value in values.items()}


def _placed(value: Tensor, parameter: Tensor) -> Tensor:
    """A copy as the weight is held."""
    if value.shape == parameter.shape:
        mine = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False)
        parallel.fill(mine, value)
        return mine
    return value.to(parameter.device, copy=True)  # the count of steps, which fused AdamW has there


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


def fused(model: nn.Module) -> dict[int, int]:
    """For each weight, by its id, how many matrices it holds one below the other, if more than one."""
    queries = {id(module.qkv.weight): 3 for module in model.modules() if isinstance(module, Attention)}
    gates = [module for module in model.modules() if isinstance(module, FeedForward) and module.config.gated]
    return queries | {id(module.up.weight): 2 for module in gates}


def layer_shares(model: nn.Module, decay: float) -> dict[int, float]:
    """For each weight, by its id, the share of the highest learning rate that is its own."""
    blocks = {id(parameter): name for name, parameter in model.named_parameters()}
    numbers = {key: int(found[1]) for key, name in blocks.items() if (found := _BLOCK.match(name))}
    top = max(numbers.values(), default=-1)
    lowest = {key: -1 for key, name in blocks.items() if name.startswith("encoder.embeddings.")}
    return {key: decay ** (top + 1 - (numbers | lowest).get(key, top + 1)) for key in blocks}


def clip(parameters: Sequence[Tensor], limit: float) -> Tensor:
    """Scale gradients down to a norm of at most `limit`; their norm before that, not a number if one is."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = parallel.whole(torch.nn.utils.get_total_norm(gradients, foreach=True))
    torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm, foreach=True)
    return norm
