"""SentencePiece `.model` files: a protocol-buffer message, of which a few fields are read here."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tokenizers import AddedToken, models, normalizers
from tokenizers import Tokenizer as Backend

from unmask.errors import ModelError
from unmask.tokenizer.families import BERT, ROBERTA, vocabulary_order

_UNIGRAM, _BPE = 1, 2
NORMAL, _UNKNOWN, _CONTROL, _USER = 1, 2, 3, 4
Field: TypeAlias = tuple[int, int | bytes]


@dataclass(frozen=True, slots=True)
class Piece:
    """One entry of the vocabulary."""

    text: str
    score: float
    type: int


@dataclass(frozen=True, slots=True)
class Message:
    """What unmask needs of a `.model` file."""

    pieces: list[Piece]
    model_type: int
    byte_fallback: bool
    charsmap: bytes


def read_sentencepiece(path: Path) -> tuple[Backend, bool]:
    """The model and its normalisation, ids as XLM-RoBERTa has them; and whether it is a Unigram model.

    A file that holds a mask token of its own keeps its own ids.
    """
    message = _parse(path)
    if message.model_type not in {_UNIGRAM, _BPE}:
        raise ModelError(f"{path} is a word or character model; only Unigram and BPE models can be used")
    pieces = _as_xlmr(message.pieces)
    unigram = message.model_type == _UNIGRAM
    if unigram:
        unknown = next((i for i, piece in enumerate(pieces) if piece.type == _UNKNOWN), None)
        scored = [(piece.text, piece.score) for piece in pieces]
        backend = Backend(models.Unigram(scored, unknown, message.byte_fallback))
    else:
        backend = Backend(_bpe(pieces, message.byte_fallback))
    if message.charsmap:
        backend.normalizer = normalizers.Precompiled(message.charsmap)
    backend.add_tokens([AddedToken(p.text, normalized=False) for p in pieces if p.type == _USER])
    return backend, unigram


def _as_xlmr(pieces: list[Piece]) -> list[Piece]:
    if {BERT.mask, ROBERTA.mask} & {piece.text for piece in pieces}:
        return pieces
    opening, closing = (
        [Piece(token, 0.0, _UNKNOWN if token == ROBERTA.unk else _CONTROL) for token in tokens]
        for tokens in vocabulary_order(ROBERTA)
    )
    return [*opening, *(p for p in pieces if p.type not in {_UNKNOWN, _CONTROL}), *closing]


def _bpe(pieces: list[Piece], byte_fallback: bool) -> models.BPE:
    """A BPE model joins the best-scored piece first, however it can be put together."""
    ids = {piece.text: i for i, piece in enumerate(pieces)}
    joined = sorted((p for p in pieces if p.type == NORMAL and len(p.text) > 1), key=lambda p: -p.score)
    merges = [
        (text[:cut], text[cut:])
        for text in (piece.text for piece in joined)
        for cut in range(1, len(text))
        if text[:cut] in ids and text[cut:] in ids
    ]
    unknown = next((piece.text for piece in pieces if piece.type == _UNKNOWN), None)
    return models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=byte_fallback)


def _parse(path: Path) -> Message:
    try:
        return parse_message(path.read_bytes())
    except (IndexError, ValueError, TypeError, AttributeError, struct.error) as error:
        raise ModelError(f"{path} is damaged or not a SentencePiece model") from error


def parse_message(data: bytes) -> Message:
    """Read the bytes of a `.model` file; whatever is wrong with them raises."""
    fields = list(_fields(data))
    pieces = [_piece(value) for number, value in fields if number == 1]
    trainer = dict(_fields(b"".join(_bytes(value) for number, value in fields if number == 2)))
    normaliser = dict(_fields(b"".join(_bytes(value) for number, value in fields if number == 3)))
    if not pieces or not trainer:
        raise ValueError("no pieces")
    if trainer.get(24) or normaliser.get(3) == 0:
        raise ModelError("a SentencePiece model that does not mark the start of words cannot be used")
    return Message(
        pieces=pieces,
        model_type=int(trainer.get(3, _UNIGRAM)),
        byte_fallback=bool(trainer.get(35, 0)),
        charsmap=_bytes(normaliser.get(2, b"")),
    )


def _piece(value: int | bytes) -> Piece:
    fields = dict(_fields(_bytes(value)))
    (score,) = struct.unpack("<f", _bytes(fields.get(2, b"\0\0\0\0")))
    return Piece(_bytes(fields[1]).decode(), short(score), int(fields.get(3, 1)))


def short(score: float) -> float:
    """A score in nine digits: they say which float32 it is, and JSON gives back what it was written as."""
    return float(f"{score:.9g}")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes should be")
    return value


def _fields(data: bytes) -> Iterator[Field]:
    """Field number and raw value, as the wire format has them."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in {1, 5}:
            size = 8 if wire == 1 else 4
        else:
            raise ValueError("unknown wire type")
        if at + size > len(data):
            raise ValueError("cut short")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("number too long")
