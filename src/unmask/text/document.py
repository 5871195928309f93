"""What passes from the text stage to the next."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """One text, with where it came from."""

    text: str
    language: str = ""
    source: str = ""
