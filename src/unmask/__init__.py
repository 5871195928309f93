"""unmask: from raw text to a masked language model you can use."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Before torch is loaded: large arrays of a processor lie on large pages, where Linux gives them. What a step
# takes and frees is faulted in anew each time, and by 4 kB that is a tenth of a fine-tuning.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

if TYPE_CHECKING:
    from unmask.data.prepare import prepare
    from unmask.evaluation import evaluate
    from unmask.predict import MaskedLM, load
    from unmask.tasks.embed import finetune_embed
    from unmask.tasks.fewshot import fewshot
    from unmask.tasks.finetune import finetune
    from unmask.tokenizer import Tokenizer, train_tokenizer
    from unmask.train.call import pretrain

__version__ = "0.1.0"
__all__ = [
    "MaskedLM",
    "Tokenizer",
    "evaluate",
    "fewshot",
    "finetune",
    "finetune_embed",
    "load",
    "prepare",
    "pretrain",
    "train_tokenizer",
]

_HOMES = {
    "MaskedLM": "unmask.predict",
    "Tokenizer": "unmask.tokenizer",
    "evaluate": "unmask.evaluation",
    "fewshot": "unmask.tasks.fewshot",
    "finetune": "unmask.tasks.finetune",
    "finetune_embed": "unmask.tasks.embed",
    "load": "unmask.predict",
    "prepare": "unmask.data.prepare",
    "pretrain": "unmask.train.call",
    "train_tokenizer": "unmask.tokenizer",
}


def __getattr__(name: str) -> Any:
    """Public names are looked up when first used, so that `import unmask` loads nothing heavy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'unmask' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
