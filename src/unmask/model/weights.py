"""Weights between a family's names and ours: a network from published tensors, and back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from unmask.config import ModelConfig
from unmask.errors import ModelError
from unmask.model.families import FAMILIES, Family, choose_architecture, promised_heads
from unmask.model.heads import HEADS, build_head
from unmask.model.network import Model, initialise, with_pooler

Tensors = Mapping[str, Tensor]

_IDLE = ("position_ids", "token_type_ids", "inv_freq")
"""Buffers that some versions store and none needs."""
_COPIES = {
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "lm_head.decoder.bias": "lm_head.bias",
}
"""The output bias has two names, which are one tensor in a tied model; the first is the one that counts."""


@dataclass(frozen=True)
class LoadReport:
    """What did not fit when a model was loaded; empty when everything did."""

    missing: tuple[str, ...] = ()
    """Weights that the folder's config promises and its files do not hold."""
    unused: tuple[str, ...] = ()
    """Weights in the files that the model has no place for."""
    new: tuple[str, ...] = ()
    """Our weights that were drawn at random: train them before use."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.unused or self.new)

    def __str__(self) -> str:
        rows = [("missing", self.missing), ("unused", self.unused), ("new", self.new)]
        return "\n".join(f"{title:<8} {len(names):>4}  {_abridged(names)}" for title, names in rows if names)


def _abridged(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (f", … {len(names) - 4} more" if len(names) > 4 else "")


def assemble(
    config: ModelConfig,
    values: Mapping[str, Any],
    tensors: Tensors,
    own: Tensors,
    dtype: torch.dtype = torch.float32,
    heads: Iterable[str] | None = None,
) -> tuple[Model, LoadReport]:
    """A model from a folder's tensors: `tensors` in the family's names, `own` in ours."""
    family = FAMILIES[config.family]
    found = _normalised(tensors, family, not config.tied)
    promised = promised_heads(config, values)
    asked = heads is not None
    if heads is None:
        heads = _detect_heads(config, family, found, own, promised)
    with torch.device("meta"), _Undrawn():
        model = Model(config, heads)
    state: dict[str, Tensor] = {}
    used: set[str] = set()
    missing: list[str] = []
    new: list[str] = []
    for name, parameter in model.named_parameters():
        theirs = family.theirs(name)
        parts = [own[name]] if name in own else [found[part] for part in theirs or () if part in found]
        if asked and name.startswith("heads.") and not _fits(parts, parameter):
            parts = []  # a head for other classes than the folder's
        if parts and len(parts) == len(theirs or (name,)):
            state[name] = _joined(parts, name, parameter, dtype)
            used.update(theirs or ())
            continue
        new.append(name)
        if name.startswith("encoder.") or (name.split(".")[1] in promised and not asked):
            missing += theirs or (name,)
    _check_encoder(new, missing)  # before memory is taken for what is not there
    state |= {name: torch.empty(model.get_parameter(name).shape, dtype=dtype) for name in new}
    _assign(model, state)
    initialise(model, only=new)
    unused = [name for name in found if name not in used and not _is_idle(name, config, family)]
    unused += [name for name in own if name not in state]
    return model.eval(), LoadReport(tuple(missing), tuple(unused), tuple(new))


def disassemble(model: Model) -> tuple[str, dict[str, Tensor], dict[str, Tensor]]:
    """The architecture's name, tensors in the family's names, and those it has no place for in ours."""
    family = FAMILIES[model.config.family]
    architecture, held = choose_architecture(model.config, model.heads)
    bare = architecture.endswith("Model")
    tensors: dict[str, Tensor] = {}
    own: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        theirs = family.theirs(name)
        head = name.split(".")[1] if name.startswith("heads.") else None
        value = parameter.detach()
        if theirs is None or (head is not None and head not in held):
            own[name] = value
            continue
        prefix = family.prefix if head in (None, "pooler") and not bare else ""
        for part, piece in zip(theirs, value.chunk(len(theirs)), strict=True):
            tensors[prefix + part] = piece
    if not model.config.tied:
        tensors |= {copied: tensors[name] for copied, name in _COPIES.items() if name in tensors}
    return architecture, tensors, own


class _Undrawn(TorchFunctionMode):
    """No random numbers for weights without memory: torch would load its compiler to draw them."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__module__", None) == "torch.nn.init":
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)


def _normalised(tensors: Tensors, family: Family, untied: bool) -> dict[str, Tensor]:
    """The family's tensors under today's names and without prefix."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        name = name.removeprefix("module.").removeprefix(family.prefix)
        for old, today in ((".gamma", ".weight"), (".beta", ".bias")):
            if name.endswith(old):
                name = name.removesuffix(old) + today
        found[name] = tensor
    for copied, name in _COPIES.items():
        if copied in found and (untied or name not in found):
            found[name] = found[copied]
    return found


def _detect_heads(
    config: ModelConfig, family: Family, found: Tensors, own: Tensors, promised: frozenset[str]
) -> list[str]:
    """The heads the config promises, those of our own file, and others whose weights are there and fit."""
    heads = set(promised) | {name.split(".")[1] for name in own if name.startswith("heads.")}
    taken: set[str] = set()
    for head in sorted(HEADS, key=lambda head: head not in heads):
        if head in ("classify", "tag") and not config.labels:
            continue
        with torch.device("meta"), _Undrawn():
            made = nn.ModuleDict({part: build_head(part, config) for part in with_pooler(config, [head])})
        shapes = {
            part: parameter.shape
            for name, parameter in made.named_parameters()
            for part in family.theirs(f"heads.{name}") or (name,)
        }
        parts = {part for part in shapes if not part.startswith("pooler.")}
        whole = all(part in found and found[part].shape == shape for part, shape in shapes.items())
        if head in heads or (whole and not parts & taken):
            heads.add(head)
            taken |= parts
    return with_pooler(config, heads)


def _fits(parts: list[Tensor], parameter: Tensor) -> bool:
    """Whether the parts, one below the other, have the parameter's shape."""
    rows, *rest = parameter.shape
    return all(list(part.shape) == [rows // len(parts), *rest] for part in parts)


def _joined(parts: list[Tensor], name: str, parameter: Tensor, dtype: torch.dtype) -> Tensor:
    if not _fits(parts, parameter):
        found = tuple(parts[0].shape)
        if name == "encoder.embeddings.tokens.weight" and found[1:] == tuple(parameter.shape[1:]):
            raise ModelError(
                f"the token table has {found[0]} rows, but config.json says vocab_size {parameter.shape[0]}"
            )
        wanted = (parameter.shape[0] // len(parts), *parameter.shape[1:])
        raise ModelError(f"{name} is {found} in the weights, but config.json asks for {wanted}")
    return torch.cat(parts).to(dtype) if len(parts) > 1 else parts[0].to(dtype, copy=True)


def _check_encoder(new: list[str], missing: list[str]) -> None:
    lost = [name for name in new if name.startswith("encoder.")]
    if lost:
        raise ModelError(
            f"the weights lack {len(lost)} parts of the encoder (the first: {missing[0]}): "
            "the file is incomplete or of another layout than config.json says"
        )


def _assign(model: Model, state: Mapping[str, Tensor]) -> None:
    model.load_state_dict({name: nn.Parameter(tensor) for name, tensor in state.items()}, assign=True)


def _is_idle(name: str, config: ModelConfig, family: Family) -> bool:
    """Copies and buffers that carry nothing of their own."""
    tied = family.heads["mlm"]["weight"] if config.tied else ""
    return name.endswith(_IDLE) or name in _COPIES or name == tied
