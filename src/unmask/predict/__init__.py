"""Trained folder to answers: load, fill, score, embed, generate; classify, tag, answer; convert."""

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
