"""Train a vocabulary from a stream of text: in bounded memory, and the same text gives the same bytes."""

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from unmask.config import TokenizerConfig
from unmask.errors import ConfigError, InputError
from unmask.progress import SILENT, Progress
from unmask.tokenizer.families import Special, normaliser, special_for, surround, vocabulary_order
from unmask.tokenizer.guard import backend_errors
from unmask.tokenizer.tokenizer import Tokenizer

_MEGABYTE = 1_000_000


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig, progress: Progress = SILENT) -> Tokenizer:
    """Train a vocabulary of exactly the size asked for; the whole stream is read, a sample of it is held."""
    sample = list(sample_texts(texts, config.sample_mb * _MEGABYTE))
    if not sample:
        raise InputError("there is no text to train a vocabulary on")
    special = special_for(config.kind, config.special)
    with progress.stage(f"training a {config.kind} vocabulary of {config.vocab_size:,}"):
        model = _train_model(sample, config, special)
    backend = Backend(model)
    backend.normalizer = normaliser(config.kind, config.lowercase, config.strip_accents)
    return Tokenizer(surround(backend, config.kind, special), special)


def sample_texts(texts: Iterable[str], limit: int) -> Iterator[str]:
    """A uniform sample of at most `limit` bytes: whenever it grows too big, every second text is let go.

    Which texts stay follows from their content, so the sample does not depend on chance or on order.
    """
    held: list[tuple[int, bytes]] = []
    size, share = 0, 1
    for text in texts:
        data = text.encode("utf-8", "replace")
        draw = zlib.crc32(data)
        if draw % share:
            continue
        held.append((draw, data))
        size += len(data)
        while size > limit and len(held) > 1:
            share *= 2
            held = [item for item in held if item[0] % share == 0]
            size = sum(len(data) for _, data in held)
    for _, data in held:
        yield data.decode("utf-8")


def _train_model(sample: list[str], config: TokenizerConfig, special: Special) -> Any:
    if config.kind == "wordpiece":
        return _train_wordpiece(_without_rare(sample, config.coverage), config, special)
    raise NotImplementedError


def _train_wordpiece(sample: Iterable[str], config: TokenizerConfig, special: Special) -> models.WordPiece:
    sample = list(sample)
    backend = Backend(models.WordPiece(unk_token=special.unk))
    backend.normalizer = normaliser("wordpiece", config.lowercase, config.strip_accents)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    opening, closing = vocabulary_order(special)
    # The trainer numbers these in the order it meets them, which varies; named beforehand they are fixed.
    characters = sorted(set("".join(backend.normalizer.normalize_str(c) for c in _characters(sample))))
    inner = [f"##{c}" for c in characters if not _stands_alone(c)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocab_size - len(closing),
        min_frequency=config.min_frequency,
        special_tokens=[*opening, *inner],
        initial_alphabet=characters,
        show_progress=False,
    )
    with backend_errors("the vocabulary cannot be trained", InputError):
        backend.train_from_iterator(sample, trainer)
    pieces = sorted(backend.get_vocab(), key=backend.get_vocab().__getitem__) + closing
    _check_size(len(pieces), config)
    return models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token=special.unk)


def _check_size(reached: int, config: TokenizerConfig) -> None:
    if reached < config.vocab_size:
        raise InputError(
            f"the text is too small for {config.vocab_size:,} entries: it gives {reached:,}; "
            f"ask for --vocab-size {reached} or fewer, or bring more text"
        )
    if reached > config.vocab_size:
        raise ConfigError(
            f"{config.vocab_size:,} entries are too few: characters and special tokens alone are {reached:,}"
        )


def _without_rare(sample: list[str], coverage: float) -> list[str]:
    """The texts with their rarest characters blanked out, so that these take up no entries."""
    counts = _count_characters(sample)
    order = np.argsort(-counts, kind="stable")
    kept = int(np.searchsorted(np.cumsum(counts[order]), coverage * counts.sum())) + 1
    rare = [chr(code) for code in order[kept:] if counts[code]]
    if not rare:
        return sample
    pattern = re.compile("[" + "".join(map(re.escape, rare)) + "]")
    return [pattern.sub(" ", text) for text in sample]


def _characters(sample: list[str]) -> list[str]:
    return [chr(code) for code in np.flatnonzero(_count_characters(sample))]


def _count_characters(sample: Iterable[str]) -> NDArray[np.int64]:
    counts = np.zeros(0x110000, np.int64)
    for text in sample:
        codes, seen = np.unique(np.frombuffer(text.encode("utf-32-le"), np.uint32), return_counts=True)
        counts[codes] += seen
    return counts


def _stands_alone(character: str) -> bool:
    """Whether BERT splits at this character, so that it never continues a word."""
    return len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(f"a{character}")) > 1
