"""Train, validation or test: decided by a hash of the text alone, so that adding documents moves none."""

from hashlib import blake2b

SPLITS = ("train", "valid", "test")


def text_hash(text: str) -> int:
    """An unsigned 64-bit hash of a clean text, the same on every machine and in every version."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def split_of(hash: int, valid: float, test: float) -> int:  # noqa: A002
    """The index into SPLITS: test from the top of the hash range, validation from the bottom.

    A larger share only takes documents from train, unless the two shares meet, where test goes before.
    """
    if hash >= 2**64 - int(test * 2**64):
        return 2
    return 1 if hash < int(valid * 2**64) else 0
