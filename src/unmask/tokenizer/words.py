"""Where words start, from token ids alone.

One definition for every kind of vocabulary: a word starts after white space, and every punctuation mark,
symbol and Chinese character stands alone, as BERT splits. `dorme.` is two words under Unigram and BPE too.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Mark = Literal["##", "▁", "bytes"]
OPENS, CLOSES, BLANK, SPECIAL = 1, 2, 4, 8

_TABLE = 0x20001  # up to the first Chinese character of the supplementary planes

# The blocks that BERT splits into single characters.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def piece_flags(pieces: Sequence[str], mark: Mark, special: Iterable[int], unknown: int) -> NDArray[np.uint8]:
    """For each entry: does it open a word, close the one before the next entry, is it only white space."""
    decode = _byte_decoder() if mark == "bytes" else {}
    flags = np.fromiter((_flags(piece, mark, decode) for piece in pieces), np.uint8, len(pieces))
    flags[list(special)] = OPENS | CLOSES | SPECIAL
    # An unknown piece may be a part of a word, except in WordPiece, where it is the whole of one.
    flags[unknown] = OPENS if mark == "##" else 0
    return flags


def word_starts(ids: NDArray[np.integer], flags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """True where a word starts; white space on its own belongs to the word after it."""
    here = flags[ids]
    starts: NDArray[np.bool_] = (here & OPENS).astype(np.bool_)
    before, here = here[:-1], here[1:]
    starts[1:] |= (before & CLOSES).astype(np.bool_)
    starts[1:] &= ((before & BLANK) == 0) | ((here & SPECIAL) != 0)
    starts[:1] = True
    return starts


def _flags(piece: str, mark: Mark, decode: dict[str, int]) -> int:
    if mark == "##":
        opens, text = not piece.startswith("##"), piece.removeprefix("##")
    elif mark == "bytes":
        text = bytes(decode[c] for c in piece if c in decode).decode("utf-8", "replace")
        opens = text[:1].isspace()
    else:
        text = _fallback_byte(piece).replace("▁", " ")
        opens = text[:1].isspace()
    core = text.strip()
    if not core:
        return OPENS | BLANK if opens or text else 0
    closes = stands_alone(core[-1]) or text[-1].isspace()
    return (OPENS if opens or stands_alone(core[0]) else 0) | (CLOSES if closes else 0)


def count_words(text: str) -> int:
    """The number of words by the same definition, from the text itself."""
    kinds = _kinds()[np.minimum(np.frombuffer(text.encode("utf-32-le"), np.uint32), _TABLE - 1)]
    before = np.concatenate((np.zeros(1, np.uint8), kinds[:-1]))
    return int(np.count_nonzero((kinds == 2) | ((kinds == 1) & (before != 1))))


@cache
def _kinds() -> NDArray[np.uint8]:
    """For each character: 0 white space, 1 part of a word, 2 a word by itself (as all beyond the table)."""
    characters = map(chr, range(_TABLE))
    kinds = (0 if c.isspace() else 2 if stands_alone(c) else 1 for c in characters)
    return np.fromiter(kinds, np.uint8, _TABLE)


def stands_alone(character: str) -> bool:
    """Whether this character is a word by itself: punctuation, symbols, Chinese characters."""
    if unicodedata.category(character)[0] in "PS":
        return character != "\ufffd"  # part of a character: counts as a letter
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in _IDEOGRAPHS)


def _fallback_byte(piece: str) -> str:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)]).decode("utf-8", "replace")
    return piece


def _byte_decoder() -> dict[str, int]:
    """The byte behind each of the 256 characters that byte-level BPE writes bytes with."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    return {chr(b): b for b in shown} | {chr(256 + n): b for n, b in enumerate(hidden)}
