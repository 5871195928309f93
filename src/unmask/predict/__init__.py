"""Trained folder to answers: load, fill, score, embed, generate; classify, tag, answer; convert."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.predict.answer import Answerer
    from unmask.predict.classify import Classifier
    from unmask.predict.loading import load
    from unmask.predict.masked import MaskedLM
    from unmask.predict.results import Answer, Entity, Fill, Generated, Label, Score, TokenScore, Word
    from unmask.predict.tag import Tagger

__all__ = [
    "Answer", "Answerer", "Classifier", "Entity", "Fill", "Generated", "Label", "MaskedLM", "Score", "Tagger",
    "TokenScore", "Word", "load",
]  # fmt: skip

_HOMES = {
    "Answerer": "answer", "Classifier": "classify", "MaskedLM": "masked", "Tagger": "tag", "load": "loading"
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Public names are looked up when first used, so that what needs no torch does not load it."""
    if name not in __all__:
        raise AttributeError(f"module 'unmask.predict' has no attribute {name!r}")
    return getattr(import_module(f"unmask.predict.{_HOMES.get(name, 'results')}"), name)
