"""Studio's files, without a browser: both languages complete, nothing inline, nothing from elsewhere."""

import json
import re
from pathlib import Path

import pytest

import unmask

STUDIO = Path(unmask.__file__).parent / "serve" / "studio"
STRINGS: dict[str, dict[str, str]] = json.loads((STUDIO / "strings.json").read_text("utf-8"))
SCRIPTS = {str(path.relative_to(STUDIO)): path.read_text("utf-8") for path in STUDIO.rglob("*.js")}


@pytest.mark.parametrize("key", STRINGS)
def test_both_languages_say_the_same_things(key: str) -> None:
    words = STRINGS[key]
    assert set(words) == {"en", "pt"}
    assert all(text.strip() for text in words.values())
    names = [sorted(re.findall(r"\{(\w+)[}|]", text)) for text in words.values()]
    assert names[0] == names[1]
    assert all(len(each.split("|")) in (1, 3) for text in words.values() for each in text.split("{"))


def used_keys() -> tuple[set[str], list[re.Pattern[str]]]:
    """Keys that scripts name in full, and patterns of those that they put together."""
    source = "\n".join(SCRIPTS.values())
    whole = set(re.findall(r'"([a-z]+\.[\w.-]+)"', source)) & set(STRINGS)
    made = re.findall(r"\b(?:t|example)\(`([^`]+)`", source)
    return whole, [re.compile(re.sub(r"\\\$\\\{.*?\\\}", ".+", re.escape(one))) for one in made]


def test_every_string_is_used() -> None:
    whole, made = used_keys()
    assert [key for key in STRINGS if key not in whole and not any(p.fullmatch(key) for p in made)] == []


def test_every_used_string_is_there() -> None:
    named = {key for text in SCRIPTS.values() for key in re.findall(r'\b(?:t|example)\("([^"]+)"', text)}
    assert len(named) > 50
    assert named <= set(STRINGS)
    _, made = used_keys()
    assert all(any(pattern.fullmatch(key) for key in STRINGS) for pattern in made)


def test_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = (STUDIO / "index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)
    for path in STUDIO.rglob("*"):
        if path.is_file():
            addresses = re.findall(r"https?://[^\s\"'`)]+", path.read_text("utf-8"))
            assert set(addresses) <= {"http://www.w3.org/2000/svg"}, path.name


def test_no_text_becomes_html() -> None:
    for name, text in SCRIPTS.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name


def test_imports_name_files_that_exist() -> None:
    for name, text in SCRIPTS.items():
        for target in re.findall(r'from "([^"]+)"', text):
            assert (STUDIO / name).parent.joinpath(target).resolve().is_file(), f"{name}: {target}"
