"""Documents to vocabulary: train, load, encode with word numbers and offsets, extend, report."""

from unmask.tokenizer.extend import extend
from unmask.tokenizer.tokenizer import Encoding, Tokenizer
from unmask.tokenizer.train import train_tokenizer

__all__ = ["Encoding", "Tokenizer", "extend", "train_tokenizer"]
