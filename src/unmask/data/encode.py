"""Clean text -> token ids and flags, several times faster than encoding every text anew.

All pre-tokenisers we know treat what stands between two white spaces independently, so a piece of text
(a separator and the characters up to the next one) has the same ids wherever it occurs. Real text repeats
itself: each distinct piece is encoded once, by `tokenizers` itself, and looked up ever after.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer as Backend

from unmask.data.shards import SENTENCE_START, WORD_START, token_dtype
from unmask.text import sentence_starts
from unmask.tokenizer import Tokenizer

# Clean text has no separators but single spaces and newlines, so these pieces, joined, are the text.
_PIECES = re.compile(r"[ \n]?[^ \n]+")
# Splits at white space, whatever else they do; a pre-tokeniser that is not here is never cut at spaces.
_SPLITS_AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Metaspace", "ByteLevel"}
# Settings beside the pre-tokeniser's type matter too (prefix spaces, newlines), so a few texts are tried.
_PROBES = (
    "a b",
    "a\nb",
    'Ana, (e) o rio.\n"Não!" 3,5 – 7% ção',
    "x\n- y 'z' don't [MASK] </s> \n…",
    "日本 語\nß ﬁ",
)
_MOST_PIECES = 400_000


class Encoder:
    """Encodes clean texts into ids and flags, with no special tokens, whatever the text says."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._backend = Backend.from_str(tokenizer.backend.to_str())
        self._backend.encode_special_tokens = True  # "[MASK]" in a text is seven letters, not the mask
        self._by_piece = splits_at_spaces(self._backend)
        self._dtype = token_dtype(tokenizer.vocab_size)
        self._forget()

    def encode(
        self, texts: Sequence[str]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The ids and flags of all texts end to end, and the number of tokens of each text."""
        pieces: list[str] = []
        counts = np.empty(len(texts), np.int64)
        sentence_pieces: list[npt.NDArray[np.int64]] = []
        for number, text in enumerate(texts):
            starts = np.array(sentence_starts(text), np.int64)
            own = _PIECES.findall(text) if self._by_piece else _cut(text, starts)
            ends = np.cumsum(np.fromiter(map(len, own), np.int64, len(own)))
            # a sentence begins after its separator; the piece that holds both is the one that ends past it
            sentence_pieces.append(np.searchsorted(ends, starts, side="right") + len(pieces))
            counts[number] = len(own)
            pieces += own
        return self._gather(pieces, counts, np.concatenate(sentence_pieces or [np.empty(0, np.int64)]))

    def _gather(
        self, pieces: list[str], counts: npt.NDArray[np.int64], sentence_pieces: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        self._learn(pieces)
        known = np.fromiter(map(self._number.__getitem__, pieces), np.int64, len(pieces))
        lengths = self._lengths[known]  # (pieces,) tokens of each
        starts = np.cumsum(lengths) - lengths
        total = int(lengths.sum())
        where = np.repeat(self._starts[known] - starts, lengths) + np.arange(total)
        ids, flags = self._ids[where], self._flags[where]
        first = starts[sentence_pieces][lengths[sentence_pieces] > 0]
        flags[first] |= SENTENCE_START | WORD_START
        before = np.concatenate((starts, [total]))[np.concatenate(([0], np.cumsum(counts)))]
        flags[before[:-1][np.diff(before) > 0]] |= SENTENCE_START | WORD_START
        return ids, flags, np.diff(before)

    def _learn(self, pieces: list[str]) -> None:
        if len(self._number) > _MOST_PIECES:
            self._forget()
        new = sorted(set(pieces).difference(self._number))
        if not new:
            return
        encodings = self._backend.encode_batch_fast(new, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        flat = np.fromiter((i for each in ids for i in each), np.int64, int(lengths.sum()))
        ends = np.cumsum(lengths)
        flags = self._tokenizer.word_starts(flat).astype(np.uint8) * WORD_START
        flags[(ends - lengths)[lengths > 0]] |= WORD_START  # what follows a separator starts a word
        self._number.update(zip(new, range(len(self._number), len(self._number) + len(new)), strict=True))
        self._starts = np.concatenate((self._starts, ends - lengths + len(self._ids)))
        self._lengths = np.concatenate((self._lengths, lengths))
        self._ids = np.concatenate((self._ids, flat.astype(self._dtype)))
        self._flags = np.concatenate((self._flags, flags))

    def _forget(self) -> None:
        self._number: dict[str, int] = {}
        self._starts = np.empty(0, np.int64)
        self._lengths = np.empty(0, np.int64)
        self._ids = np.empty(0, self._dtype)
        self._flags = np.empty(0, np.uint8)


def splits_at_spaces(backend: Backend) -> bool:
    """Whether the ids of a piece of text cannot depend on what stands before or after it."""
    parts = json.loads(backend.to_str())["pre_tokenizer"]
    if parts is None:
        return False
    for part in parts["pretokenizers"] if parts["type"] == "Sequence" else [parts]:
        if part["type"] in _SPLITS_AT_SPACES and part.get("split", True) and part.get("use_regex", True):
            return all(_same_in_pieces(backend, probe) for probe in _PROBES)
    return False


def _same_in_pieces(backend: Backend, text: str) -> bool:
    whole = backend.encode(text, add_special_tokens=False).ids
    return bool(
        whole == [i for p in _PIECES.findall(text) for i in backend.encode(p, add_special_tokens=False).ids]
    )


def _cut(text: str, starts: npt.NDArray[np.int64]) -> list[str]:
    """Sentences, each with the separator before it."""
    cuts = [0, *(starts[1:] - 1).tolist(), len(text)]
    return [text[start:end] for start, end in zip(cuts, cuts[1:], strict=False)] if text else []
