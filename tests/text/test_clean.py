import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unmask.config import TextConfig
from unmask.text import Cleaner

ZWSP, ZWNJ, ZWJ = "\u200b", "\u200c", "\u200d"


def clean(text: str, **config: object) -> str:
    return Cleaner(TextConfig(**config))(text)[0]


def reason(text: str, **config: object) -> str | None:
    return Cleaner(TextConfig(**config))(text)[1]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("  O  gato\t preto \u00a0 dorme. ", "O gato preto dorme."),
        ("um\r\n\r\n \n dois\rtrês\x0cquatro\u2028cinco", "um\ndois\ntrês\nquatro\ncinco"),
        ("a\x00b\x07c\x7f", "abc"),
        ("\ufeffsepa\u00adrado e\u200f \u202acolado\u202c", "separado e colado"),
        ("cafe\u0301", "café"),
        ("e\u00ad\u0301", "é"),  # composes only once the soft hyphen is gone
        ("a \u00ad b", "a b"),
        ("lone \ud800 surrogate", "lone surrogate"),
        (f"gat{ZWSP}o p{ZWJ}re{ZWNJ}to", "gato preto"),
        (f"می{ZWNJ}خواهم", f"می{ZWNJ}خواهم"),
        (f"क्{ZWJ}ष", f"क्{ZWJ}ष"),
        (f"👩{ZWJ}👩{ZWJ}👧", f"👩{ZWJ}👩{ZWJ}👧"),
        (f"ភាសា{ZWSP}ខ្មែរ", f"ភាសា{ZWSP}ខ្មែរ"),
        (f"ខ្មែរ{ZWSP} ភាសា{ZWSP}{ZWSP}\n{ZWSP}", "ខ្មែរ ភាសា"),
        ("❤️ e ❤", "❤️ e ❤"),
        ("\u212b\u200d", "Å"),  # a joiner after what has become a Latin letter
    ],
)
def test_cleaning(raw: str, expected: str) -> None:
    assert clean(raw) == expected


def test_unicode_forms() -> None:
    assert clean("ﬁm … ①") == "ﬁm … ①"
    assert clean("ﬁm … ①", unicode="NFKC") == "fim ... 1"
    assert clean("cafe\u0301", unicode="none") == "cafe\u0301"


def test_mojibake_is_mended_when_asked() -> None:
    assert clean("A traduÃ§Ã£o nÃ£o estÃ¡ pronta.", fix_mojibake=True) == "A tradução não está pronta."
    assert clean("A traduÃ§Ã£o", fix_mojibake=False) == "A traduÃ§Ã£o"


@pytest.mark.parametrize(
    ("text", "config", "expected"),
    [
        ("texto", {}, None),
        ("", {}, "empty"),
        (" \n\u00ad\t", {}, "empty"),
        ("curto", {"min_chars": 6}, "short"),
        ("curto", {"min_chars": 5}, None),
        ("comprido", {"max_chars": 7}, "long"),
        ("comprido", {"max_chars": 8}, None),
        ("\ufdfa", {"max_chars": 2, "unicode": "NFKC"}, "long"),  # one character becomes eighteen
        ("12 345 ab", {"min_letters": 0.3}, "letters"),
        ("12 345 abc", {"min_letters": 0.3}, None),
        ("हिन्दी", {"min_letters": 1.0}, None),  # vowel signs count as letters
    ],
)
def test_reasons(text: str, config: dict[str, object], expected: str | None) -> None:
    assert reason(text, **config) == expected


awkward = st.sampled_from(
    "aé \n\t\r\x0b\x00\u00ad\u0301\u00a0\u200b\u200c\u200d\u2028\ufeff\u212bक👩\u1100\u1161\ud800"
)


@settings(deadline=None, max_examples=300)
@given(text=st.one_of(st.text(), st.text(awkward)), form=st.sampled_from(["NFC", "NFKC", "none"]))
@example(text="e\u200d\u0301\u200d", form="NFC")
@example(text="\u00a8\u00a8", form="NFKC")
@example(text="क\u00ad\u200d", form="NFC")
def test_clean_text_is_clean(text: str, form: str) -> None:
    once = clean(text, unicode=form)
    assert clean(once, unicode=form) == once
    assert once.strip() == once
    assert not any(pair in once for pair in ("  ", "\n\n", " \n", "\n "))
    assert {char for char in once if char.isspace()} <= {" ", "\n"}
    assert {char for char in once if unicodedata.category(char) in {"Cc", "Cs"}} <= {"\n"}
    if form != "none":
        assert unicodedata.is_normalized(form, once)
    once.encode()
