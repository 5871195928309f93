"""Every family's configuration keys and weight names; `published` turns the keys that are more than names.

A family is a table: what its layout calls our settings and our modules, and which class holds which heads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unmask.config import ModelConfig

Names = Mapping[str, str]
OWN = "unmask"
"""The layout that is our own: our names, every setting; other tools do not open it."""


@dataclass(frozen=True)
class Family:
    """One published layout."""

    stem: str
    """What its class names begin with: `Bert` in `BertForMaskedLM`."""
    prefix: str
    """What the encoder's names begin with in a model that has a head."""
    base: Mapping[str, Any]
    """Our settings that the layout implies, or assumes where its config is silent."""
    keys: Names
    """Our setting -> its config key, where the value is the same."""
    encoder: Names
    """Our module -> its module, outside the blocks."""
    blocks: str
    """Where its blocks are."""
    block: Names
    """Our module -> its module, within a block."""
    qkv: tuple[str, ...]
    """Its query, key and value modules, or its one fused module."""
    heads: Mapping[str, Names]
    """Our head -> our module -> its module."""
    architectures: tuple[tuple[str, frozenset[str]], ...]
    """Class name -> heads it holds, in the order of preference."""

    def theirs(self, name: str) -> tuple[str, ...] | None:
        """Its name of a parameter of ours, without prefix; three if ours is fused; None if it has none."""
        part, _, rest = name.partition(".")
        if part == "heads":
            head, _, rest = rest.partition(".")
            return _renamed(rest, self.heads.get(head, {}))
        if not rest.startswith("blocks."):
            return _renamed(rest, self.encoder)
        _, index, inside = rest.split(".", 2)
        here = self.blocks.format(index)
        if inside.startswith("attention.qkv."):
            kind = inside.rpartition(".")[2]
            return tuple(f"{here}{module}.{kind}" for module in self.qkv)
        found = _renamed(inside, self.block)
        return None if found is None else (here + found[0],)


def _renamed(name: str, names: Names) -> tuple[str, ...] | None:
    if name in names:
        return (names[name],)
    module, _, kind = name.rpartition(".")
    return (f"{names[module]}.{kind}",) if module in names else None


_SHARED_KEYS = {
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "init_std": "initializer_range",
    "pad_id": "pad_token_id",
    "bos_id": "bos_token_id",
    "eos_id": "eos_token_id",
    "tied": "tie_word_embeddings",
}
_BERT_KEYS = _SHARED_KEYS | {
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "head_dropout": "classifier_dropout",
    "segments": "type_vocab_size",
    "norm_eps": "layer_norm_eps",
}
_DISTIL_KEYS = _SHARED_KEYS | {
    "width": "dim",
    "layers": "n_layers",
    "heads": "n_heads",
    "inner": "hidden_dim",
    "activation": "activation",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "head_dropout": "seq_classif_dropout",
}
_MODERN_KEYS = _SHARED_KEYS | {
    "activation": "hidden_activation",
    "attention_dropout": "attention_dropout",
    "dropout": "mlp_dropout",
    "head_dropout": "classifier_dropout",
    "norm_eps": "norm_eps",
    "norm_bias": "norm_bias",
    "attention_bias": "attention_bias",
    "inner_bias": "mlp_bias",
    "head_bias": "classifier_bias",
    "output_bias": "decoder_bias",
    "head_activation": "classifier_activation",
}

_BERT_ENCODER = {
    "embeddings.tokens": "embeddings.word_embeddings",
    "embeddings.positions": "embeddings.position_embeddings",
    "embeddings.segments": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
}
_BERT_BLOCK = {
    "attention.out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}
_BERT_QKV = ("attention.self.query", "attention.self.key", "attention.self.value")
_POOLER = {"dense": "pooler.dense"}
_TOKEN_HEADS = {"tag": {"linear": "classifier"}, "answer": {"linear": "qa_outputs"}}
_BERT_HEADS = {
    "mlm": {
        "transform.dense": "cls.predictions.transform.dense",
        "transform.norm": "cls.predictions.transform.LayerNorm",
        "weight": "cls.predictions.decoder.weight",
        "bias": "cls.predictions.bias",
    },
    "pooler": _POOLER,
    "nsp": {"weight": "cls.seq_relationship.weight", "bias": "cls.seq_relationship.bias"},
    "classify": {"linear": "classifier"},
} | _TOKEN_HEADS
_ROBERTA_HEADS = {
    "mlm": {
        "transform.dense": "lm_head.dense",
        "transform.norm": "lm_head.layer_norm",
        "weight": "lm_head.decoder.weight",
        "bias": "lm_head.bias",
    },
    "pooler": _POOLER,
    "classify": {"dense": "classifier.dense", "linear": "classifier.out_proj"},
} | _TOKEN_HEADS
_DISTIL_HEADS = {
    "mlm": {
        "transform.dense": "vocab_transform",
        "transform.norm": "vocab_layer_norm",
        "weight": "vocab_projector.weight",
        "bias": "vocab_projector.bias",
    },
    "classify": {"dense": "pre_classifier", "linear": "classifier"},
} | _TOKEN_HEADS
_MODERN_ENCODER = {
    "embeddings.tokens": "embeddings.tok_embeddings",
    "embeddings.norm": "embeddings.norm",
    "norm": "final_norm",
}
_MODERN_BLOCK = {
    "attention.out": "attn.Wo",
    "attention_norm": "attn_norm",
    "feedforward.up": "mlp.Wi",
    "feedforward.down": "mlp.Wo",
    "feedforward_norm": "mlp_norm",
}
_MODERN_CLASSIFIER = {"transform.dense": "head.dense", "transform.norm": "head.norm", "linear": "classifier"}


def _architectures(stem: str, **heads: Iterable[str]) -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple((stem + name, frozenset(held)) for name, held in heads.items())


def _tasks(stem: str, pooled: bool, **more: Iterable[str]) -> tuple[tuple[str, frozenset[str]], ...]:
    return _architectures(
        stem,
        ForSequenceClassification={"classify", "pooler"} if pooled else {"classify"},
        ForTokenClassification={"tag"},
        ForQuestionAnswering={"answer"},
        **more,
    )


def _roberta(stem: str, **base: Any) -> Family:
    return Family(
        stem=stem,
        prefix="roberta.",
        base={"vocab_size": 50_265, "pad_id": 1, "bos_id": 0, "eos_id": 2, "classifier": "tanh"} | base,
        keys=_BERT_KEYS,
        encoder=_BERT_ENCODER,
        blocks="encoder.layer.{}.",
        block=_BERT_BLOCK,
        qkv=_BERT_QKV,
        heads=_ROBERTA_HEADS,
        architectures=_tasks(stem, False, ForMaskedLM={"mlm"}, Model={"pooler"}),
    )


def _own() -> Family:
    def same(*names: str) -> Names:
        return {name: name for name in names}

    tasks = ("classify", "tag", "answer")
    modules = {
        "mlm": ("transform.dense", "transform.norm", "weight", "bias"),
        **dict.fromkeys(("nsp", "sop"), ("weight", "bias")),
        **dict.fromkeys(tasks, ("transform.dense", "transform.norm", "dense", "linear")),
    }
    told_apart = {"family", "labels", "problem"}
    return Family(
        stem="Unmask",
        prefix="",
        base={},
        keys=same(*(key for key in ModelConfig.model_fields if key not in told_apart)),
        encoder=same(*(f"embeddings.{part}" for part in ("tokens", "positions", "segments", "norm")), "norm"),
        blocks="blocks.{}.",
        block=same(
            "attention.out", "attention_norm", "feedforward.up", "feedforward.down", "feedforward_norm"
        ),
        qkv=("attention.qkv",),
        heads={head: {name: f"heads.{head}.{name}" for name in names} for head, names in modules.items()}
        | {"pooler": _POOLER},
        architectures=_architectures("Unmask", Model={*modules, "pooler"}),
    )


_MODERN_BASE = {
    "vocab_size": 50_368,
    "layers": 22,
    "inner": 1152,
    "gated": True,
    "norm": "before",
    "norm_eps": 1e-5,
    "norm_bias": False,
    "attention_bias": False,
    "inner_bias": False,
    "position": "rotary",
    "segments": 0,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "head_dropout": 0.0,
    "head_bias": False,
    "classifier": "norm",
    "scaled_init": True,
    "pad_id": 50_283,
    "bos_id": 50_281,
    "eos_id": 50_282,
}

FAMILIES: Mapping[str, Family] = {
    "bert": Family(
        stem="Bert",
        prefix="bert.",
        base={},
        keys=_BERT_KEYS,
        encoder=_BERT_ENCODER,
        blocks="encoder.layer.{}.",
        block=_BERT_BLOCK,
        qkv=_BERT_QKV,
        heads=_BERT_HEADS,
        architectures=_tasks(
            "Bert",
            True,
            ForPreTraining={"mlm", "nsp", "pooler"},
            ForMaskedLM={"mlm"},
            ForNextSentencePrediction={"nsp", "pooler"},
            Model={"pooler"},
        ),
    ),
    "roberta": _roberta("Roberta"),
    "xlm-roberta": _roberta("XLMRoberta", vocab_size=30_522),
    "camembert": _roberta("Camembert", vocab_size=30_522),
    "distilbert": Family(
        stem="DistilBert",
        prefix="distilbert.",
        base={"layers": 6, "segments": 0, "classifier": "relu", "head_dropout": 0.2},
        keys=_DISTIL_KEYS,
        encoder=_BERT_ENCODER,
        blocks="transformer.layer.{}.",
        block={
            "attention.out": "attention.out_lin",
            "attention_norm": "sa_layer_norm",
            "feedforward.up": "ffn.lin1",
            "feedforward.down": "ffn.lin2",
            "feedforward_norm": "output_layer_norm",
        },
        qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        heads=_DISTIL_HEADS,
        architectures=_tasks("DistilBert", False, ForMaskedLM={"mlm"}, Model=()),
    ),
    "modernbert": Family(
        stem="ModernBert",
        prefix="model.",
        base=_MODERN_BASE,
        keys=_MODERN_KEYS,
        encoder=_MODERN_ENCODER,
        blocks="layers.{}.",
        block=_MODERN_BLOCK,
        qkv=("attn.Wqkv",),
        heads={
            "mlm": {
                "transform.dense": "head.dense",
                "transform.norm": "head.norm",
                "weight": "decoder.weight",
                "bias": "decoder.bias",
            },
            "classify": _MODERN_CLASSIFIER,
            "tag": _MODERN_CLASSIFIER,
            "answer": _MODERN_CLASSIFIER,
        },
        architectures=_tasks("ModernBert", False, ForMaskedLM={"mlm"}, Model=()),
    ),
    "modernbert-decoder": Family(
        stem="ModernBertDecoder",
        prefix="model.",
        base=_MODERN_BASE | {"causal": True, "pooling": "last"},
        keys=_MODERN_KEYS,
        encoder=_MODERN_ENCODER,
        blocks="layers.{}.",
        block=_MODERN_BLOCK,
        qkv=("attn.q_proj", "attn.k_proj", "attn.v_proj"),
        heads={
            "mlm": {
                "transform.dense": "lm_head.dense",
                "transform.norm": "lm_head.norm",
                "weight": "decoder.weight",
                "bias": "decoder.bias",
            },
            "classify": _MODERN_CLASSIFIER,
        },
        architectures=_architectures(
            "ModernBertDecoder", ForSequenceClassification={"classify"}, ForCausalLM={"mlm"}, Model=()
        ),
    ),
    OWN: _own(),
}


def choose_architecture(config: ModelConfig, heads: Iterable[str]) -> tuple[str, frozenset[str]]:
    """The family's class that holds most of these heads, and which of them it holds."""
    present = frozenset(heads)
    *classes, (bare, held) = FAMILIES[config.family].architectures
    for name, wanted in classes:
        if wanted <= present:
            return name, wanted
    return bare, held & present


def promised_heads(config: ModelConfig, values: Mapping[str, Any]) -> frozenset[str]:
    """The heads that the architecture named in `config.json` has; a bare encoder promises none."""
    *classes, _ = FAMILIES[config.family].architectures
    return dict(classes).get(named_architecture(values), frozenset())


def named_architecture(values: Mapping[str, Any]) -> str:
    """The class that a `config.json` says its weights are of."""
    named = values.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""
