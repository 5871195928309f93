"""Clean text -> token ids and flags, several times faster than encoding every text anew.

All pre-tokenisers we know treat what stands between two white spaces independently, so a piece of text
(a separator and the word after it) has the same ids wherever it occurs. Real text repeats itself: each
distinct piece is encoded once, by `tokenizers` itself, and looked up ever after. Cutting at spaces and
finding the distinct words is done by Arrow, so that Python sees each distinct word once per call.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer as Backend

from unmask.data.shards import SENTENCE_START, WORD_START, token_dtype
from unmask.text import sentence_starts
from unmask.tokenizer import Tokenizer

Ints = npt.NDArray[np.int64]
Encoded = tuple[npt.NDArray[Any], npt.NDArray[np.uint8], Ints]

# Split at white space, whatever else they do; with any other a piece is a whole sentence.
_SPLIT_AT_SPACES = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Metaspace", "ByteLevel"}
# Settings beside the pre-tokeniser's type matter too (prefix spaces, newlines), so a few texts are tried.
_PROBES = (
    "a b",
    "a\nb",
    'Ana, (e) o rio.\n"Não!" 3,5 – 7% ção',
    "x\n- y 'z' don't [MASK] </s> w\n… q",
    "日本 語\nß ﬁ",
)
_MOST_CHARS = 5_000_000  # remembered: some 500,000 words, or fewer lines of a script without spaces
_LAST = np.iinfo(np.int64).max


class Encoder:
    """Encodes clean texts into ids and flags, with no special tokens, whatever the text says."""

    # the tables: piece -> number; number -> where its tokens are in _ids and _flags, and how many
    _number: dict[str, int]
    _starts: Ints
    _lengths: Ints
    _ids: npt.NDArray[Any]
    _flags: npt.NDArray[np.uint8]

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._backend = without_special(tokenizer)
        self._by_word = splits_at_spaces(self._backend)
        self._dtype = token_dtype(tokenizer.vocab_size)
        self._forget()

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The ids and flags of all texts end to end, and the number of tokens of each text."""
        text_starts = _starts(map(len, texts), len(texts), between=1)
        sentences = [np.array(sentence_starts(text), np.int64) for text in texts]
        begins = np.concatenate(
            [s + at for s, at in zip(sentences, text_starts, strict=True)] or [text_starts]
        )
        if self._by_word:
            known, piece_starts = self._words(texts)
        else:
            known, piece_starts = self._numbers(_cut(texts, sentences)), begins
        lengths = self._lengths[known]  # (pieces,) tokens of each
        first = np.cumsum(lengths) - lengths  # (pieces,) where the tokens of each begin
        total = int(lengths.sum())
        where = np.repeat(self._starts[known] - first, lengths) + np.arange(total)
        ids, flags = self._ids[where], self._flags[where]
        before = np.append(first, total)[np.searchsorted(piece_starts, np.append(text_starts, _LAST))]
        counts = np.diff(before)
        at = np.searchsorted(piece_starts, begins)
        # a sentence that starts with nothing the tokenizer keeps has no token to mark; a text always has
        marked = np.concatenate((first[at[lengths[at] > 0]], before[:-1][counts > 0]))
        flags[marked] |= SENTENCE_START | WORD_START
        return ids, flags, counts

    def _words(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """For every word its number in the tables, and where it starts in all texts put end to end."""
        import pyarrow as pa
        from pyarrow import compute

        lines = [line for text in texts for line in text.split("\n")]
        split = compute.split_pattern(pa.array(lines, pa.large_string()), pattern=" ")
        words, line_starts = split.flatten(), split.offsets.to_numpy()[:-1]
        coded = words.dictionary_encode()
        pieces = [" " + word for word in coded.dictionary.to_pylist()]
        leads = ["\n" + line.partition(" ")[0] for line in lines]
        for number in _starts((text.count("\n") for text in texts), len(texts), between=1):
            leads[number] = leads[number][1:]  # nothing stands before the first word of a text
        numbers = self._numbers(pieces + leads)
        known = numbers[: len(pieces)][coded.indices.to_numpy()]
        known[line_starts] = numbers[len(pieces) :]
        sizes = compute.utf8_length(words).to_numpy() + 1  # each with the separator behind it
        return known, np.cumsum(sizes) - sizes

    def _numbers(self, pieces: list[str]) -> Ints:
        if self._chars > _MOST_CHARS:
            self._forget()
        new = sorted(set(pieces).difference(self._number))
        if new:
            self._learn(new)
        return np.fromiter(map(self._number.__getitem__, pieces), np.int64, len(pieces))

    def _learn(self, new: list[str]) -> None:
        encodings = self._backend.encode_batch_fast(new, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        flat = np.fromiter((i for each in ids for i in each), np.int64, int(lengths.sum()))
        starts = np.cumsum(lengths) - lengths
        flags = self._tokenizer.word_starts(flat).astype(np.uint8) * WORD_START
        flags[starts[lengths > 0]] |= WORD_START  # what follows a separator starts a word
        self._chars += sum(map(len, new))
        self._number.update(zip(new, range(len(self._number), len(self._number) + len(new)), strict=True))
        self._starts = np.concatenate((self._starts, starts + len(self._ids)))
        self._lengths = np.concatenate((self._lengths, lengths))
        self._ids = np.concatenate((self._ids, flat.astype(self._dtype)))
        self._flags = np.concatenate((self._flags, flags))

    def _forget(self) -> None:
        self._number = {}
        self._chars = 0
        self._starts = np.empty(0, np.int64)
        self._lengths = np.empty(0, np.int64)
        self._ids = np.empty(0, self._dtype)
        self._flags = np.empty(0, np.uint8)


def without_special(tokenizer: Tokenizer) -> Backend:
    """The same tokenizer, but for which `[MASK]` or `</s>` in a text is the letters it is made of."""
    parts = json.loads(tokenizer.backend.to_str())
    parts["added_tokens"] = [token for token in parts["added_tokens"] if not token["special"]]
    parts["post_processor"] = None
    if parts["model"]["type"] == "Unigram":  # its search knows every entry by its letters
        for number in tokenizer.special_ids:
            parts["model"]["vocab"][number][0] = f"\ufdd0{number}"  # no character: found in no text
    return Backend.from_str(json.dumps(parts))


def splits_at_spaces(backend: Backend) -> bool:
    """Whether the ids of a piece of text cannot depend on what stands before or after it."""
    parts = json.loads(backend.to_str())["pre_tokenizer"]
    if parts is None:
        return False
    for part in parts["pretokenizers"] if parts["type"] == "Sequence" else [parts]:
        if part["type"] in _SPLIT_AT_SPACES and part.get("split", True) and part.get("use_regex", True):
            return all(_same_in_pieces(backend, probe) for probe in _PROBES)
    return False


def _same_in_pieces(backend: Backend, text: str) -> bool:
    pieces = text.replace("\n", " \n").split(" ")
    pieces[1:] = [piece if piece.startswith("\n") else " " + piece for piece in pieces[1:]]
    ids = [i for piece in pieces for i in backend.encode(piece, add_special_tokens=False).ids]
    return bool(ids == backend.encode(text, add_special_tokens=False).ids)


def _starts(sizes: Iterable[int], count: int, between: int) -> Ints:
    """Where each of several things begins when they stand end to end."""
    array = np.fromiter(sizes, np.int64, count) + between
    return np.cumsum(array) - array


def _cut(texts: Sequence[str], sentences: Sequence[Ints]) -> list[str]:
    """The sentences of all texts, each with the separator before it."""
    pieces: list[str] = []
    for text, starts in zip(texts, sentences, strict=True):
        cuts = [0, *(starts[1:] - 1).tolist(), len(text)]
        pieces += [text[a:b] for a, b in pairwise(cuts)] if text else []
    return pieces
