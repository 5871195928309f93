"""The tokenizer that every later stage uses, whatever kind of vocabulary stands behind it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend

from unmask.errors import InputError, ModelError
from unmask.files import digest, write_atomic, write_json
from unmask.progress import SILENT, Progress, counted
from unmask.tokenizer.families import BERT, Kind, Special, transformers_class
from unmask.tokenizer.guard import backend_errors
from unmask.tokenizer.load import read_backend
from unmask.tokenizer.offsets import fit_offsets
from unmask.tokenizer.words import BLANK, OPENS, Mark, piece_flags, word_starts

Ints: TypeAlias = NDArray[np.int64]
OldPieces: TypeAlias = Mapping[int, tuple[int, ...]]
_KINDS: dict[str, Kind] = {"WordPiece": "wordpiece", "Unigram": "unigram", "BPE": "bpe"}
_EXTENSION = "extension.json"


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """One text, or a pair, as tokens (n of them)."""

    ids: Ints  # (n)
    words: Ints  # (n) number of the word in its text; -1 for the template's special tokens
    offsets: Ints  # (n, 2) first and last-plus-one character, in the text or in the pre-split word
    segments: Ints  # (n) 0 for the first text, 1 for the second

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """Text to ids and back, with word numbers and character offsets. Immutable and thread-safe."""

    def __init__(
        self,
        backend: Backend,
        special: Special = BERT,
        max_length: int | None = None,
        old_pieces: OldPieces | None = None,
    ) -> None:
        self.backend = backend
        self.special = special
        self.max_length = max_length
        self.old_pieces: OldPieces = dict(old_pieces or {})
        """For each entry that `extend` added, the pieces it was split into before."""
        name = type(backend.model).__name__
        if name not in _KINDS:
            raise ModelError(f"a {name} tokenizer cannot be used: it should be WordPiece, Unigram or BPE")
        self.kind: Kind = _KINDS[name]
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        self.cls_id, self.sep_id, self.mask_id, self.pad_id, self.unk_id = map(
            self.id, (special.cls, special.sep, special.mask, special.pad, special.unk)
        )
        added = backend.get_added_tokens_decoder().items()
        self.special_ids: tuple[int, ...] = tuple(sorted(i for i, token in added if token.special))

    @classmethod
    def load(cls, path: str | Path, progress: Progress = SILENT) -> "Tokenizer":
        """Open a folder or file: tokenizer.json, vocab.txt, vocab.json + merges.txt, SentencePiece .model."""
        path = Path(path)
        backend, special, max_length = read_backend(path, progress)
        return cls(backend, special, max_length, _read_extension(path))

    def save(self, folder: str | Path) -> None:
        """Write the folder that `load` and `transformers.AutoTokenizer` open."""
        folder = Path(folder)
        write_atomic(folder / "tokenizer.json", self.backend.to_str(pretty=True))
        write_json(folder / "tokenizer_config.json", self._transformers_config())
        if self.old_pieces:
            entries = {str(new): list(old) for new, old in self.old_pieces.items()}
            write_json(folder / _EXTENSION, {"old_pieces": entries})
        else:
            (folder / _EXTENSION).unlink(missing_ok=True)

    def encode(self, text: str, pair: str | None = None, *, special: bool = True) -> Encoding:
        """One text, or a pair, with the special tokens of the template unless told otherwise."""
        return self.encode_batch([text], None if pair is None else [pair], special=special)[0]

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, special: bool = True
    ) -> list[Encoding]:
        """Many texts, or pairs, at once; the same as one by one."""
        if pairs is not None and len(pairs) != len(texts):
            raise InputError(f"{counted(len(texts), 'text')} but {len(pairs)} to pair them with")
        inputs = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        with backend_errors("the text cannot be tokenised", texts=inputs):
            results = self.backend.encode_batch(inputs, add_special_tokens=special)
        sources = zip(texts, pairs, strict=True) if pairs is not None else zip(texts, strict=True)
        return [self._encoding(result, source) for result, source in zip(results, sources, strict=True)]

    def ids_batch(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[tuple[Ints, Ints]]:
        """Ids and segments alone, which is several times faster."""
        if pairs is not None and len(pairs) != len(texts):
            raise InputError(f"{counted(len(texts), 'text')} but {len(pairs)} to pair them with")
        inputs = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        with backend_errors("the text cannot be tokenised", texts=inputs):
            results = self.backend.encode_batch_fast(inputs)
        every = [np.array(result.ids, np.int64) for result in results]
        if pairs is None:
            return [(ids, np.zeros_like(ids)) for ids in every]
        return [(ids, _segments(_which_text(result))) for ids, result in zip(every, results, strict=True)]

    def encode_words(
        self, words: Sequence[str], pair: Sequence[str] | None = None, *, special: bool = True
    ) -> Encoding:
        """A text, or a pair, split into words already; ids are those of the words joined by spaces."""
        first, second = self._spaced(words), self._spaced(pair or ())
        other = None if pair is None else second
        with backend_errors("the words cannot be tokenised", texts=[(*first, *second)]):
            result = self.backend.encode(first, other, is_pretokenized=True, add_special_tokens=special)
        which = _which_text(result)
        numbers = np.array([-1 if n is None else n for n in result.word_ids], np.int64)
        numbers[which < 0] = -1
        offsets = np.array(result.offsets, np.int64).reshape(-1, 2)
        for text, spaced in enumerate((first, second)):
            mine = which == text
            bases = np.cumsum([0, *(len(word) + 1 for word in spaced)])[numbers[mine]][:, None]
            added = (self._needs_space & (numbers[mine] > 0)).astype(np.int64)[:, None]
            offsets[mine] = np.maximum(
                fit_offsets(offsets[mine] + bases, " ".join(spaced)) - bases - added, 0
            )
        return Encoding(np.array(result.ids, np.int64), numbers, offsets, _segments(which))

    def word_starts(self, ids: NDArray[np.integer]) -> NDArray[np.bool_]:
        """True where a word starts: after white space, and at and after every punctuation mark or symbol."""
        return word_starts(ids, self._flags)

    @cached_property
    def openings(self) -> NDArray[np.bool_]:
        """Which entries begin a word, as they are marked, or are punctuation; neither blank nor special."""
        opens: NDArray[np.bool_] = (self._flags & (OPENS | BLANK)) == OPENS
        if self.kind == "wordpiece":
            opens &= [not self.piece(i).startswith("##") for i in range(self.vocab_size)]
        opens[list(self.special_ids)] = False
        return opens

    @cached_property
    def blanks(self) -> NDArray[np.bool_]:
        """Which entries are white space alone; some vocabularies write many words with one before them."""
        blank: NDArray[np.bool_] = (self._flags & BLANK) != 0
        return blank

    def decode(self, ids: Sequence[int] | NDArray[np.integer], *, special: bool = False) -> str:
        """The text of some ids, without special tokens unless they are asked for."""
        with backend_errors("the ids cannot be decoded", InputError):
            text: str = self.backend.decode([int(i) for i in ids], skip_special_tokens=not special)
        return text

    def piece(self, id: int) -> str:  # noqa: A002
        """The vocabulary entry with this id."""
        piece: str | None = self.backend.id_to_token(int(id)) if id >= 0 else None
        if piece is None:
            raise InputError(f"no entry has id {id}: the vocabulary holds {self.vocab_size:,}")
        return piece

    def id(self, piece: str) -> int:
        """The id of a vocabulary entry."""
        found: int | None = self.backend.token_to_id(piece)
        if found is None:
            raise InputError(f"{piece!r} is not in the vocabulary")
        return found

    @property
    def mask_token(self) -> str:
        """`[MASK]` or `<mask>`."""
        return self.special.mask

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same tokenizer, before and after saving."""
        return digest(json.dumps(self._state, sort_keys=True, ensure_ascii=False))

    @property
    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.backend.to_str())
        return state

    @cached_property
    def _mark(self) -> Mark:
        if self.kind == "wordpiece":
            return "##"
        state = self._state
        around = json.dumps([state["normalizer"], state["pre_tokenizer"], state["decoder"]])
        return "bytes" if '"ByteLevel"' in around else "▁"

    @cached_property
    def _flags(self) -> NDArray[np.uint8]:
        pieces = [self.piece(i) for i in range(self.vocab_size)]
        return piece_flags(pieces, self._mark, self.special_ids, self.unk_id)

    @cached_property
    def _needs_space(self) -> bool:
        """Byte-level BPE marks a word by the space before it, which pre-split words have lost."""
        added = '"add_prefix_space": true' in json.dumps(self._state["pre_tokenizer"])
        return self._mark == "bytes" and not added

    def _spaced(self, words: Sequence[str]) -> list[str]:
        if isinstance(words, str):
            raise InputError("encode_words takes a list of words; encode takes a text")
        return [f" {w}" if n and w and self._needs_space else w for n, w in enumerate(words)]

    def _encoding(self, result: Any, texts: tuple[str, ...]) -> Encoding:
        ids = np.array(result.ids, np.int64)
        which = _which_text(result)
        words = np.full(len(ids), -1, np.int64)
        offsets = np.array(result.offsets, np.int64).reshape(-1, 2)
        for number, text in enumerate(texts):
            mine = which == number
            words[mine] = np.cumsum(self.word_starts(ids[mine])) - 1
            offsets[mine] = fit_offsets(offsets[mine], text)
        return Encoding(ids, words, offsets, _segments(which))

    def _transformers_config(self) -> dict[str, Any]:
        state = self._state
        added = {token["id"]: token for token in state["added_tokens"]}
        names = {
            role: {"__type": "AddedToken", **_added_token(added[self.id(token)])}
            for role, token in self.special.items().items()
        }
        config: dict[str, Any] = {
            "tokenizer_class": transformers_class(state),
            **{f"{role}_token": token for role, token in names.items()},
            "added_tokens_decoder": {str(i): _added_token(token) for i, token in added.items()},
            "clean_up_tokenization_spaces": False,
        }
        if config["tokenizer_class"] == "BertTokenizer":
            normaliser = state["normalizer"]
            config["do_lower_case"] = normaliser["lowercase"]
            config["strip_accents"] = normaliser["strip_accents"]
            config["tokenize_chinese_chars"] = normaliser["handle_chinese_chars"]
        else:
            config |= {"bos_token": names["cls"], "eos_token": names["sep"]}
            config["model_input_names"] = ["input_ids", "attention_mask"]
        if config["tokenizer_class"] == "RobertaTokenizer":
            config["add_prefix_space"] = state["pre_tokenizer"]["add_prefix_space"]
        if self.max_length:
            config["model_max_length"] = self.max_length
        return config


def _added_token(token: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in token.items() if key != "id"}


def _which_text(result: Any) -> Ints:
    """0 or 1 for the text a token belongs to, -1 for the template's special tokens."""
    return np.array([-1 if number is None else number for number in result.sequence_ids], np.int64)


def _segments(which: Ints) -> Ints:
    """A special token belongs to the text before it."""
    segments: Ints = np.maximum.accumulate(np.maximum(which, 0))
    return segments


def _read_extension(path: Path) -> OldPieces | None:
    file = (path if path.is_dir() else path.parent) / _EXTENSION
    if not file.is_file():
        return None
    try:
        entries = json.loads(file.read_text("utf-8"))["old_pieces"]
        return {int(new): tuple(int(i) for i in old) for new, old in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} is damaged: copy it again from where the tokenizer was made") from error
