"""Files -> clean sentences, and a uniform sample of them."""

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from unmask.config import TextConfig
from unmask.errors import InputError
from unmask.progress import SILENT, Progress
from unmask.text import Cleaner, Source, TextColumns, read_sources, sentence_starts

Item = TypeVar("Item")


def sentences(sources: Sequence[Source], progress: Progress = SILENT) -> Iterator[str]:
    """Every sentence of every document, as a stream; files without any text are an error."""
    config = TextConfig()
    clean, empty, found = Cleaner(config), list[Source](), False
    columns = TextColumns(config, progress, "name the one with the text so")
    total = sum(source.expected_chars for source in sources)
    with progress.stage("text", total or None, "characters") as stage:
        for document in read_sources(sources, config, empty, columns):
            stage.advance(len(document.text))
            text, reason = clean(document.text)
            if reason is None:
                found = True
                starts = sentence_starts(text)
                for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
                    yield text[start:end].strip()
    if not found:
        raise InputError(f"there is no text in {', '.join(map(str, sources[:3]))}")


class Reservoir(Generic[Item]):
    """At most `count` of the items added, each as likely as any other."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self._count, self._choice = count, random.Random(seed)
        self._kept: list[tuple[int, Item]] = []
        self.seen = 0

    def add(self, item: Item) -> None:
        """Take one more into account."""
        if self.seen < self._count:
            self._kept.append((self.seen, item))
        elif (place := self._choice.randrange(self.seen + 1)) < self._count:
            self._kept[place] = (self.seen, item)
        self.seen += 1

    @property
    def items(self) -> list[Item]:
        """In the order in which they came."""
        return [item for _, item in sorted(self._kept, key=lambda pair: pair[0])]


def sample(items: Iterable[Item], count: int, seed: int = 0) -> list[Item]:
    """At most `count` of a stream's items, each as likely as any other, in the order in which they stood."""
    kept = Reservoir[Item](count, seed)
    for item in items:
        kept.add(item)
    return kept.items
