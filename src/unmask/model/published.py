"""A published `config.json` read as our settings, and written from them."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from unmask.config import ModelConfig
from unmask.errors import ModelError
from unmask.model.families import FAMILIES, OWN, Family, named_architecture

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_PROBLEMS = {
    "single_label_classification": "single",
    "multi_label_classification": "multi",
    "regression": "regression",
}
_FULL, _LOCAL = "full_attention", "sliding_attention"


def read_config(values: Mapping[str, Any]) -> ModelConfig:
    """Our settings from the contents of a published `config.json`."""
    name = str(values.get("model_type"))
    if name not in FAMILIES:
        had = ", ".join(FAMILIES)
        raise ModelError(f"unmask has no family {name!r} (model_type in config.json); it has {had}")
    _refuse(values)
    try:
        return ModelConfig(**_settings(values, name), **_read_labels(values))
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "value_error":  # one of our own checks, which says it all
            raise ModelError(f"config.json: {first['ctx']['error']}") from None
        where = ".".join(map(str, first["loc"]))
        raise ModelError(f"config.json: {where}: {first['msg']} (got {first['input']!r:.80})") from None
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
        raise ModelError(f"config.json holds a value that is not what it should be: {error}") from None


def _settings(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    family = FAMILIES[name]
    if name == OWN:
        return {"family": name} | {key: values[key] for key in family.keys if key in values}
    fields = dict(family.base) | {"family": name}
    fields |= {ours: values[key] for ours, key in family.keys.items() if values.get(key) is not None}
    if isinstance(fields.get("eos_id"), list):
        fields["eos_id"] = fields["eos_id"][0]
    for key in ("activation", "head_activation"):
        fields[key] = _activation(fields.get(key, "gelu"))
    if name in ("modernbert", "modernbert-decoder"):
        return fields | _read_modern(values, fields, causal=name == "modernbert-decoder")
    return fields | _read_classic(values, fields, name)


def write_config(config: ModelConfig, architecture: str) -> dict[str, Any]:
    """The contents of `config.json` in the family's own keys; an error if the layout cannot say it."""
    family = FAMILIES[config.family]
    values = _written(config, family) | {"architectures": [architecture]}
    if config.labels:
        values |= _written_labels(config)
    expressed = read_config(values)
    if expressed != config:
        wrong = [key for key, value in config if value != getattr(expressed, key)]
        raise ModelError(f"the {config.family} layout cannot express model.{', model.'.join(wrong)} as set")
    return values


def _written(config: ModelConfig, family: Family) -> dict[str, Any]:
    values: dict[str, Any] = {"model_type": config.family, "dtype": "float32"}
    values |= {key: getattr(config, ours) for ours, key in family.keys.items()}
    if config.family == OWN:
        return values
    spoken = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    for ours in ("activation", "head_activation"):
        if ours in family.keys:
            values[family.keys[ours]] = spoken[getattr(config, ours)]
    values["max_position_embeddings"] = config.positions + config.position_offset
    if config.family in ("modernbert", "modernbert-decoder"):
        values |= _written_modern(config)
    return values


def _written_labels(config: ModelConfig) -> dict[str, Any]:
    return {
        "id2label": {str(index): label for index, label in enumerate(config.labels)},
        "label2id": {label: index for index, label in enumerate(config.labels)},
        "problem_type": next(key for key, ours in _PROBLEMS.items() if ours == config.problem),
    }


def _activation(name: Any) -> str:
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise ModelError(f"config.json: unmask has no activation {name!r}; it has {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def _refuse(values: Mapping[str, Any]) -> None:
    """Configs that name code to run, or ask for what unmask does not compute."""
    for key in ("auto_map", "custom_pipelines"):
        if values.get(key):
            raise ModelError(
                f"config.json names code to run ({key}); unmask runs none from a model folder: "
                "remove the key if the weights are of the plain layout"
            )
    for key, value in values.items():
        if "_implementation" in key and value is not None and "/" in str(value):
            raise ModelError(f"config.json names code to fetch ({key}: {value!r:.80}); remove the key")
    wanted = {
        "position_embedding_type": (None, "absolute"),
        "is_decoder": (None, False),
        "add_cross_attention": (None, False),
        "pruned_heads": (None, {}),
        "rope_scaling": (None, {}),
        "quantization_config": (None, {}),
    }
    for key, allowed in wanted.items():
        if values.get(key) not in allowed:
            raise ModelError(f"config.json: unmask does not support {key} = {values[key]!r:.80}")


def _read_classic(values: Mapping[str, Any], fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What BERT's relatives imply or derive."""
    offset = 0 if name in ("bert", "distilbert") else fields["pad_id"] + 1
    read: dict[str, Any] = {"position_offset": offset}
    read["positions"] = values.get("max_position_embeddings", 512) - offset
    if name in ("bert", "distilbert"):
        read["head_activation"] = fields["activation"]
    if name != "distilbert" and values.get("classifier_dropout") is None:
        read["head_dropout"] = fields.get("dropout", 0.1)
    return read


def _read_modern(values: Mapping[str, Any], fields: Mapping[str, Any], causal: bool) -> dict[str, Any]:
    """ModernBERT's windows and rotary bases, in the keys of old and new configs."""
    layers = fields["layers"]
    every = min(values.get("global_attn_every_n_layers", 3), layers)
    if kinds := values.get("layer_types"):
        patterns = (n for n in range(1, len(kinds) + 1) if kinds == _layer_types(len(kinds), n))
        every = next(patterns, 0)
        if not every or len(kinds) != layers:
            raise ModelError(
                "config.json: layer_types must be full_attention in every n-th layer from the first"
            )
    half = values.get("local_attention", 128) // 2
    ropes = values.get("rope_parameters") or {}
    for rope in ropes.values():
        if (rope or {}).get("rope_type", "default") != "default":
            raise ModelError(f"config.json: unmask does not support rope_type {rope['rope_type']!r}")
    read = {
        "positions": values.get("max_position_embeddings", 8192),
        "global_every": every,
        # The decoder's window counts the token itself.
        "window": 0 if every == 1 else half - 1 if causal else half,
        "rope_base": _theta(ropes, _FULL, values.get("global_rope_theta"), 160_000.0),
        "local_rope_base": _theta(ropes, _LOCAL, values.get("local_rope_theta"), 10_000.0),
    }
    if not causal:
        read["pooling"] = {"cls": "first", "mean": "mean"}[values.get("classifier_pooling", "cls")]
    return read


def _theta(ropes: Mapping[str, Any], kind: str, old: float | None, default: float) -> float:
    """The rotary base of one kind of layer."""
    theta = (ropes.get(kind) or {}).get("rope_theta")
    return float(theta or old or default)


def _written_modern(config: ModelConfig) -> dict[str, Any]:
    causal = config.family == "modernbert-decoder"
    values: dict[str, Any] = {
        "layer_types": _layer_types(config.layers, config.global_every),
        "global_attn_every_n_layers": config.global_every,
        "local_attention": 2 * (config.window + causal) if config.window else 128,
        "rope_parameters": {
            _FULL: {"rope_type": "default", "rope_theta": config.rope_base},
            _LOCAL: {"rope_type": "default", "rope_theta": config.local_rope_base},
        },
        "global_rope_theta": config.rope_base,
        "local_rope_theta": config.local_rope_base,
        "embedding_dropout": config.dropout,
        "cls_token_id": config.bos_id,
        "sep_token_id": config.eos_id,
    }
    if not causal:
        values["classifier_pooling"] = {"first": "cls"}.get(config.pooling, config.pooling)
    return values


def _layer_types(layers: int, every: int) -> list[str]:
    return [_LOCAL if index % every else _FULL for index in range(layers)]


def _read_labels(values: Mapping[str, Any]) -> dict[str, Any]:
    """Class names; the layout leaves them out where they are LABEL_0 and LABEL_1."""
    named, architecture = values.get("id2label"), named_architecture(values)
    if architecture.endswith("QuestionAnswering"):  # its labels are start and end
        return {}
    if named is not None:
        labels = [str(named[key]) for key in sorted(named, key=int)]
    elif "num_labels" in values or architecture.endswith(("SequenceClassification", "TokenClassification")):
        labels = [f"LABEL_{index}" for index in range(min(values.get("num_labels", 2), 1 << 20))]
    else:
        return {}
    # One class alone is a number, as transformers has it.
    silent = "regression" if len(labels) == 1 else "single"
    return {"labels": tuple(labels), "problem": _PROBLEMS.get(values.get("problem_type") or "", silent)}
