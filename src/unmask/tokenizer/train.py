"""Train a vocabulary from a stream of text: in bounded memory, and the same text gives the same bytes."""

import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from unmask.config import TokenizerConfig
from unmask.errors import ConfigError, InputError
from unmask.progress import SILENT, Progress, Stage
from unmask.tokenizer.families import METASPACE, Special, normaliser, special_for, surround, vocabulary_order
from unmask.tokenizer.guard import backend_errors
from unmask.tokenizer.sample import Sample, count_characters, split_by_frequency
from unmask.tokenizer.sentencepiece import NORMAL, parse_message
from unmask.tokenizer.tokenizer import Tokenizer

# SentencePiece needs some twenty bytes of memory for each byte of text; more text changes little.
_UNIGRAM_MB = 50
_SENTENCE = 1000
_NO_LETTER = "\u2585"  # its own sign for what is unknown: with it, it takes no text
_THREADS = 4  # a fixed number, since sums are taken thread by thread

# Five special tokens and a character; byte pairs have 256 of these to begin with, whatever the text.
_SMALLEST = {"wordpiece": 6, "unigram": 6, "bpe": 5 + 256}


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig, progress: Progress = SILENT) -> Tokenizer:
    """Train a vocabulary of exactly the size asked for; the whole stream is read, a sample of it is held."""
    if config.vocab_size < _SMALLEST[config.kind]:
        raise ConfigError(f"a {config.kind} vocabulary has at least {_SMALLEST[config.kind]} entries")
    limit = min(config.sample_mb, _UNIGRAM_MB) if config.kind == "unigram" else config.sample_mb
    sample = Sample(limit, texts)
    sample.require_text()
    if sample.share > 1:
        progress.say(f"training on one document in {sample.share}, so that {limit} MB suffice")
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

    def sentences(self, rare: Iterable[str]) -> Iterator[str]:
        """Normalised text in lines short enough for SentencePiece, cut at spaces."""
        normalise = _normaliser(self.config).normalize_str
        for text in self._watched(self.sample.without(rare)):
            line, start = normalise(text), 0
            while len(line) - start > _SENTENCE:
                space = line.rfind(" ", start + 1, start + _SENTENCE)
                end = space if space > 0 else start + _SENTENCE
                yield line[start:end]
                start = end
            yield line[start:]

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
    """Trained by SentencePiece, which seldom joins a word and its comma in one entry, unlike `tokenizers`."""
    import sentencepiece

    config, special = job.config, job.special
    opening, closing = vocabulary_order(special)
    alphabet, rare = _alphabet(job)
    alphabet, rare = [c for c in alphabet if c != _NO_LETTER], [*rare, _NO_LETTER]
    _check_room(len(opening) + len(closing) + len({METASPACE, *alphabet}), config)
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=job.sentences(rare),
            model_writer=written,
            model_type="unigram",
            # SentencePiece counts <unk> <s> </s> in; two more are ours
            vocab_size=config.vocab_size - 2,
            normalization_rule_name="identity",
            required_chars="".join(alphabet),
            character_coverage=1.0,
            max_sentence_length=2**20,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        most = re.search(r"value <= (\d+)", str(error))
        if most:
            _check_size(int(most[1]) + 2, config)
        raise InputError(f"the vocabulary cannot be trained: {error}") from error
    learnt = [p for p in parse_message(written.getvalue()).pieces if p.type == NORMAL]
    scored = sorted(((p.text, p.score) for p in learnt), key=lambda item: (-item[1], item[0]))
    vocabulary = [*((t, 0.0) for t in opening), *scored, *((t, 0.0) for t in closing)]
    _check_size(len(vocabulary), config)
    return models.Unigram(vocabulary, opening.index(special.unk), False)


_TRAIN = {"wordpiece": _wordpiece, "unigram": _unigram, "bpe": _bpe}


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
            f"ask for {reached} or fewer (tokenizer.vocab_size), or bring more text"
        )
    _check_room(reached, config)


def _check_room(needed: int, config: TokenizerConfig) -> None:
    if needed > config.vocab_size:
        raise ConfigError(
            f"{config.vocab_size:,} entries are too few: characters and special tokens alone are "
            f"{needed:,}; ask for more, or lower tokenizer.coverage"
        )
