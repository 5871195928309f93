"""Uses of a word: where it stands in texts, its vector in each of them, and how alike those are."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from unmask.analyse.intrinsic import unit
from unmask.errors import InputError
from unmask.predict.inputs import Inputs
from unmask.predict.predictor import Layer, Predictor
from unmask.predict.standardise import Standardiser
from unmask.progress import SILENT, Progress
from unmask.tokenizer import Encoding

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Language = Literal["pt", "en"]
_AROUND = 70
"""Characters that are shown to either side of a word."""
_GLANCE = 200
"""Characters that are shown of a text."""

# Regular plurals: the end of a word, and what stands in its place.
_PLURALS: dict[Language, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "pt": (
        ("ão", ("ões", "ães", "ãos")), ("al", ("ais",)), ("el", ("éis", "eis")), ("ol", ("óis",)),
        ("ul", ("uis",)), ("il", ("is", "eis")), ("m", ("ns",)), ("r", ("res",)), ("z", ("zes",)),
        ("s", ("ses",)), ("", ("s",)),
    ),
    "en": (
        *((f"{letter}y", (f"{letter}ies",)) for letter in "bcdfghjklmnpqrstvwxz"),
        *((end, (f"{end}es",)) for end in ("s", "x", "z", "ch", "sh")),
        ("", ("s",)),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Use:
    """A word in a text: its first character, and the one after its last."""

    text: str
    start: int
    end: int

    @property
    def form(self) -> str:
        """The word as it stands there."""
        return self.text[self.start : self.end]


class Stretch(Protocol):
    """Some characters of a text."""

    @property
    def text(self) -> str:
        """All of it."""

    @property
    def start(self) -> int:
        """The first of them."""

    @property
    def end(self) -> int:
        """The one after the last."""


def in_context(stretch: Stretch) -> str:
    """What stands there, marked, with as many words of its text as fit in a line."""
    text, start, end = stretch.text, stretch.start, stretch.end
    before, marked = text[:start], text[start:end]
    if len(before) > _AROUND:
        cut = before[-_AROUND:]
        before = "…" + (cut.partition(" ")[2] or cut)
    return " ".join(f"{before}[{marked}]{_beginning(text[end:], _AROUND)}".split())


def at_a_glance(text: str) -> str:
    """The text in one line, or as many of its words as are read at a glance: it may be a page."""
    return _beginning(" ".join(text.split()), _GLANCE)


def _beginning(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return (text[:most].rpartition(" ")[0] or text[:most]) + "…"


def forms_of(word: str, plural: Language | None = None) -> tuple[str, ...]:
    """What counts as a use of a word: itself and, if a language is named, its regular plurals."""
    word = " ".join(word.split())
    if not any(map(str.isalnum, word)):
        raise InputError(f"{word!r} is no word: name one with letters")
    if plural is None:
        return (word,)
    end, others = next((end, others) for end, others in _PLURALS[plural] if word.lower().endswith(end))
    return (word, *(word[: len(word) - len(end)] + other for other in others))


def find_uses(texts: Iterable[str], forms: Sequence[str]) -> Iterator[Use]:
    """Every place where one of the forms stands as a whole word, in lower or upper case."""
    longest_first = sorted(map(re.escape, forms), key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})(?!\w)", re.IGNORECASE)
    for text in texts:
        for found in pattern.finditer(text):
            yield Use(text, *found.span())


def first_uses(
    word: str, texts: Sequence[str], plural: Language | None = None, progress: Progress = SILENT
) -> list[Use]:
    """The word's use in each of some texts; the first, where one holds it several times, which is told."""
    forms = forms_of(word, plural)
    if len(texts) < 2:
        raise InputError("uses are compared with each other: give two texts or more that hold the word")
    found = []
    for number, text in enumerate(texts, 1):
        uses = list(find_uses([text], forms))
        if not uses:
            raise InputError(f"text {number} does not hold {' or '.join(forms)}: {text[:60]!r}")
        if len(uses) > 1:
            progress.say(
                f"text {number} holds it {len(uses)} times: the first is taken, {in_context(uses[0])}"
            )
        found.append(uses[0])
    return found


def too_few(word: str, forms: Sequence[str], count: int) -> InputError:
    """What is said of a word that does not occur, or once only."""
    if count:
        return InputError(f"{word!r} occurs once: senses are found among many uses; give more text")
    return InputError(
        f"there is no {' or '.join(forms)} in the text: check the spelling, count its plurals (--plural),"
        " or give more text"
    )


def embed_uses(
    model: Predictor, uses: Sequence[Use], layer: Layer = -1, progress: Progress = SILENT
) -> Floats:
    """The vector of each use (N, D): the mean of the word's pieces."""
    model.check_layer(layer, ("last4",))
    fitted = [fitting(use, model.inputs) for use in uses]
    texts = list(dict.fromkeys(use.text for use in fitted))  # one that holds several uses is computed once
    encodings = dict(zip(texts, model.inputs.encode(texts), strict=True))
    pieces = [pieces_of(use, encodings[use.text]) for use in fitted]
    rows = dict(zip(texts, model.embed(texts, "token", layer, progress=progress), strict=True))
    return np.stack([rows[use.text][mine].mean(0) for use, mine in zip(fitted, pieces, strict=True)])


def directions(
    model: Predictor,
    uses: Sequence[Use],
    layer: Layer = -1,
    standardise: Standardiser | None = None,
) -> NDArray[np.float64]:
    """Their vectors (N, D), standardised by what was fitted on words, of length 1: a product is a cosine."""
    if standardise:
        standardise.check(model.about("word", layer, "mean"))
    vectors = embed_uses(model, uses, layer)
    return unit(standardise.apply(vectors) if standardise else vectors)


def compare_uses(
    model: Predictor, uses: Sequence[Use], layer: Layer = -1, standardise: Standardiser | None = None
) -> NDArray[np.float64]:
    """The cosine of each use with each (N, N)."""
    found = directions(model, uses, layer, standardise)
    cosines: NDArray[np.float64] = found @ found.T
    return cosines


def pieces_of(use: Use, encoding: Encoding) -> Bools:
    """Which tokens of the text are the word's."""
    starts, ends = encoding.offsets.T
    touched: Bools = (encoding.words >= 0) & (starts < use.end) & (ends > use.start)
    if not touched.any():
        raise InputError(f"the tokenizer leaves nothing of {use.form!r} in {use.text[:60]!r}")
    return touched


def fitting(use: Use, inputs: Inputs) -> Use:
    """The use in as much of its text as the model takes: about as many characters on either side."""
    margin = len(use.text)
    while len(inputs.tokenizer.encode(use.text)) > inputs.limit and margin > 1:
        margin = (margin if margin < len(use.text) else max(use.start, len(use.text) - use.end)) // 2
        first, last = max(use.start - margin, 0), min(use.end + margin, len(use.text))
        use = Use(use.text[first:last], use.start - first, use.end - first)
    return use
