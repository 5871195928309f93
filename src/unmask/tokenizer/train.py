"""Train a vocabulary from a stream of text: in bounded memory, and the same text gives the same bytes."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from unmask.config import TokenizerConfig
from unmask.errors import ConfigError, InputError
from unmask.progress import SILENT, Progress, Stage
from unmask.tokenizer.families import METASPACE, Special, normaliser, special_for, surround, vocabulary_order
from unmask.tokenizer.guard import backend_errors
from unmask.tokenizer.sample import Sample, count_characters, split_by_frequency
from unmask.tokenizer.tokenizer import Tokenizer

# Unigram learns from runs of letters and runs of signs apart: no entry mixes `casa` with its comma,
# and there are far fewer different words to go through.
_RUNS = rf"{METASPACE}?[\p{{L}}\p{{M}}\p{{N}}]+|{METASPACE}?[^\p{{L}}\p{{M}}\p{{N}}{METASPACE}]+|{METASPACE}"

# Five special tokens and a character; byte pairs have 256 of these to begin with, whatever the text.
_SMALLEST = {"wordpiece": 6, "unigram": 6, "bpe": 5 + 256}


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig, progress: Progress = SILENT) -> Tokenizer:
    """Train a vocabulary of exactly the size asked for; the whole stream is read, a sample of it is held."""
    if config.vocab_size < _SMALLEST[config.kind]:
        raise ConfigError(f"a {config.kind} vocabulary has at least {_SMALLEST[config.kind]} entries")
    sample = Sample(config.sample_mb, texts)
    sample.require_text()
    if sample.share > 1:
        progress.say(f"training on one document in {sample.share} (tokenizer.sample_mb={config.sample_mb})")
    special = special_for(config.kind, config.special)
    with progress.stage("counting words", sample.megabytes, "MB") as stage:
        backend = Backend(_TRAIN[config.kind](_Job(sample, config, special, stage)))
    backend.normalizer = _normaliser(config)
    return Tokenizer(surround(backend, config.kind, special), special)


@dataclass(frozen=True, slots=True)
class _Job:
    sample: Sample
    config: TokenizerConfig
    special: Special
    stage: Stage

    def train(self, scratch: Backend, trainer: trainers.Trainer, rare: Iterable[str] = ()) -> dict[str, Any]:
        """Train on a backend of its own, since the trainer leaves its special tokens behind in it."""
        scratch.normalizer = _normaliser(self.config)
        with backend_errors("the vocabulary cannot be trained", InputError):
            scratch.train_from_iterator(self._watched(self.sample.without(rare)), trainer)
            model: dict[str, Any] = json.loads(scratch.to_str())["model"]
        return model

    def _watched(self, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            self.stage.advance(len(text.encode()) / 1e6)
            yield text
        self.stage.note(f"now choosing {self.config.vocab_size:,} entries")


def _wordpiece(job: _Job) -> models.WordPiece:
    config, special = job.config, job.special
    scratch = Backend(models.WordPiece(unk_token=special.unk))
    scratch.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    opening, closing = vocabulary_order(special)
    alphabet, rare = _alphabet(job)
    # The trainer numbers continuations in the order it meets them, which varies; named here it is fixed.
    continuations = [f"##{c}" for c in alphabet if not _stands_alone(c)]
    _check_room(len(opening) + len(closing) + len(alphabet) + len(continuations), config)
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocab_size - len(closing),
        min_frequency=config.min_frequency,
        special_tokens=[*opening, *continuations],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    pieces = _pieces(job.train(scratch, trainer, rare)["vocab"]) + closing
    _check_size(len(pieces), config)
    return models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token=special.unk)


def _bpe(job: _Job) -> models.BPE:
    config, special = job.config, job.special
    scratch = Backend(models.BPE())
    scratch.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    opening, closing = vocabulary_order(special)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size - len(closing),
        min_frequency=config.min_frequency,
        special_tokens=opening,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model = job.train(scratch, trainer)
    pieces = _pieces(model["vocab"]) + closing
    _check_size(len(pieces), config)
    return models.BPE({piece: i for i, piece in enumerate(pieces)}, [tuple(pair) for pair in model["merges"]])


def _unigram(job: _Job) -> models.Unigram:
    config, special = job.config, job.special
    scratch = Backend(models.Unigram())
    scratch.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(METASPACE, prepend_scheme="always"),
            pre_tokenizers.Split(Regex(_RUNS), "removed", invert=True),
        ]
    )
    opening, closing = vocabulary_order(special)
    alphabet, rare = _alphabet(job)
    _check_room(len(opening) + len(closing) + len({METASPACE, *alphabet}), config)
    trainer = trainers.UnigramTrainer(
        vocab_size=config.vocab_size - len(closing),
        special_tokens=opening,
        initial_alphabet=alphabet,
        unk_token=special.unk,
        show_progress=False,
    )
    scores = dict(map(tuple, job.train(scratch, trainer, rare)["vocab"]))
    room = config.vocab_size - len(opening) - len(closing)
    pieces = _settle({piece: score for piece, score in scores.items() if piece not in opening}, room)
    vocabulary = [*((t, 0.0) for t in opening), *pieces, *((t, 0.0) for t in closing)]
    _check_size(len(vocabulary), config)
    return models.Unigram(vocabulary, opening.index(special.unk), False)


_TRAIN = {"wordpiece": _wordpiece, "unigram": _unigram, "bpe": _bpe}


def _settle(scores: dict[str, float], room: int) -> list[tuple[str, float]]:
    """Take out what varies from run to run: the last digits, and the order of characters kept at the floor.

    The trainer puts those characters 0.0001 apart, in the order of a hash table.
    """
    floor, step = min(scores.values()), 0.0001
    rungs = {round(floor + step * n, 6) for n in range(sum(len(piece) == 1 for piece in scores))}
    settled = {
        piece: round(floor, 6) if len(piece) == 1 and round(score, 6) in rungs else round(score, 6)
        for piece, score in scores.items()
    }
    # The trainer may give a few entries too many; characters are needed, so the worst longer ones go.
    ranked = sorted(settled, key=lambda piece: (len(piece) > 1, -settled[piece], piece))[:room]
    return sorted(((piece, settled[piece]) for piece in ranked), key=lambda item: (-item[1], item[0]))


def _alphabet(job: _Job) -> tuple[list[str], list[str]]:
    """The characters to have entries for, all of ASCII but for toy texts; and the rare ones of the text."""
    common, rare = split_by_frequency(count_characters(job.sample), job.config.coverage)
    ascii_signs = [chr(code) for code in range(0x21, 0x7F)] if job.sample.megabytes >= 1 else []
    normal = _normaliser(job.config).normalize_str
    characters = set("".join(normal(c) for c in (*common, *ascii_signs)))
    return sorted(c for c in characters if not c.isspace()), [c for c in rare if c not in ascii_signs]


def _normaliser(config: TokenizerConfig) -> Any:
    return normaliser(config.kind, config.lowercase, config.strip_accents)


def _pieces(vocabulary: dict[str, int]) -> list[str]:
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _stands_alone(character: str) -> bool:
    """Whether BERT splits at this character, so that it never continues a word."""
    return len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(f"a{character}")) > 1


def _check_size(reached: int, config: TokenizerConfig) -> None:
    if reached < config.vocab_size:
        raise InputError(
            f"the text is too small for {config.vocab_size:,} entries: it gives {reached:,}; "
            f"ask for --vocab-size {reached} or fewer, or bring more text"
        )
    _check_room(reached, config)


def _check_room(needed: int, config: TokenizerConfig) -> None:
    if needed > config.vocab_size:
        raise ConfigError(
            f"{config.vocab_size:,} entries are too few: characters and special tokens alone are "
            f"{needed:,}; ask for more, or lower tokenizer.coverage"
        )
