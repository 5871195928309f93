"""Raw text -> clean text: one form of every character, nothing invisible, single separators."""

import re
import unicodedata
from collections import Counter

from unmask.config import TextConfig

# What nobody sees: controls that are not white space, soft hyphen, direction marks, byte-order mark,
# lone surrogates, tags, non-characters. Zero-width space and joiners are kept after scripts that use them
# (Arabic, Indic, Thai …, emoji) and dropped elsewhere, as is a zero-width space before a wider one.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\ufffc\ufffe\uffff\U000e0000-\U000e007f]"
    "|(?<![\u0590-\u1cff\u2100-\u2bff\u2e80-\ud7ff\ufb1d-\ufdcf\ufe00-\ufe0f\ufe70-\ufefc\U00010000-\U000dffff])"
    "[\u200b-\u200d]"
    r"|\u200b(?=\s|\Z)"
)


class Cleaner:
    """`cleaner(text)` gives the clean text and, if the document is to be dropped, the reason."""

    def __init__(self, config: TextConfig) -> None:
        self.config = config

    def __call__(self, text: str) -> tuple[str, str | None]:
        """Clean one document; the reasons are `empty`, `short`, `long` and `letters`."""
        if len(text) > self.config.max_chars:  # may have been cut while reading
            return "", "long"
        if self.config.fix_mojibake:
            import ftfy

            text = ftfy.fix_encoding(text)
        text = self._normalise(text)
        if not _is_clean(text):
            text = _single_separators(text)
            if not _is_clean(text):
                text = _single_separators(self._visible(text))
        return text, self._reason(text)

    def _normalise(self, text: str) -> str:
        form = self.config.unicode
        if form == "none" or text.isascii() or unicodedata.is_normalized(form, text):
            return text
        return unicodedata.normalize(form, text)

    def _visible(self, text: str) -> str:
        # Characters that come to stand together may combine, and change what a joiner stands after.
        while _INVISIBLE.search(text):
            text = self._normalise(_INVISIBLE.sub("", text))
        return text

    def _reason(self, text: str) -> str | None:
        if not text:
            return "empty"
        if len(text) < self.config.min_chars:
            return "short"
        if len(text) > self.config.max_chars:
            return "long"
        if self.config.min_letters and _share_of_letters(text) < self.config.min_letters:
            return "letters"
        return None


def _is_clean(text: str) -> bool:
    """A quick look: false alarms (private use, joiners) only cost time."""
    flat = text.replace("\n", " ")
    return flat.isprintable() and "  " not in flat and flat[:1] != " " and flat[-1:] != " "


def _single_separators(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(filter(None, lines))


def _share_of_letters(text: str) -> float:
    counts = Counter(text)
    letters = sum(n for char, n in counts.items() if unicodedata.category(char)[0] in "LM")
    return letters / sum(n for char, n in counts.items() if not char.isspace())
