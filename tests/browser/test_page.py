"""The frame around the panels: language, colours, addresses, keyboard, accessibility, failures in words."""

import re
from typing import Any

import pytest
from tests.browser.conftest import Open
from tests.browser.test_panels import expect
from tests.serve.conftest import running

pytestmark = pytest.mark.slow
PANELS = ["fill", "meaning", "meaning?view=pair", "attention", "tasks?model=names", "runs", "compare"]
SETTLED = {
    "fill": "button.candidate", "meaning": ".use", "meaning?view=pair": ".heat",
    "attention": "button.head canvas", "tasks?model=names": ".passage", "runs": ".curves",
    "compare": ".surprise",
}  # fmt: skip
KEY = "a-key-of-many-letters"


def settled(page: Any, panel: str) -> None:
    expect(page.locator(SETTLED[panel]).first).to_be_visible()


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize(("width", "dark", "locale"), [("desktop", False, "en-GB"), ("phone", True, "pt-BR")])
def test_axe_finds_nothing_and_the_window_is_wide_enough(
    studio: str, open_page: Open, panel: str, width: str, dark: bool, locale: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(f"{studio}/#{panel}", width=width, dark=dark, locale=locale)
    settled(page, panel)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    found = axe.Axe().run(page)
    assert [f"{v['id']}: {[n['html'][:90] for n in v['nodes']]}" for v in found.response["violations"]] == []


def test_language_and_colours_are_switched_and_kept(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill")
    expect(page.locator("html")).to_have_attribute("lang", "en")
    page.get_by_role("radio", name="PT").check()
    expect(page.locator("html")).to_have_attribute("lang", "pt-BR")
    expect(page.get_by_role("heading", level=1)).to_have_text("Preencha as lacunas")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("radio", name="Escuro").check()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Preencha as lacunas")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_link_shows_what_its_sender_saw(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill")
    page.locator("textarea").fill("o gato & a chuva = 100% +1")
    page.get_by_role("button", name="gato", exact=True).click()
    page.wait_for_url(re.compile("gato.*hidden=1$"))
    other = open_page(page.url)
    expect(other.locator("textarea")).to_have_value("o gato & a chuva = 100% +1")
    expect(other.locator(".word[aria-pressed=true]")).to_have_text("gato")
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("link", name="Fill").click()
    expect(page.locator("textarea")).to_have_value("o gato & a chuva = 100% +1")


ODD = [
    ("attention?model=none&head=99.7&token=999&way=x&show=zzz&text=the+cat", "button.head canvas"),
    ("fill?hidden=77,x,-1&text=%3Cimg+src=x+onerror=alert(1)%3E+cat+[MASK]", "button.candidate"),
    ("runs?run=../../etc", ".curves"),
    ("compare?a=x&b=y&task=z", ".surprise"),
    ("tasks?task=none&model=names&text=" + "a" * 2000, ".passage, .status.failed, .soft"),
    ("nowhere?a=b", "button.candidate"),
]


@pytest.mark.parametrize(("address", "shown"), ODD)
def test_odd_addresses_do_no_harm(studio: str, open_page: Open, address: str, shown: str) -> None:
    page = open_page(f"{studio}/#{address}", width="phone")
    expect(page.locator(shown).first).to_be_visible()
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_the_keyboard_is_enough(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill?text=the+black+cat&model=lm")
    words = page.locator("button.word")
    words.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(words.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(words.nth(1)).to_be_focused()
    expect(page.locator("button.candidate")).to_have_count(10)
    page.locator("button.candidate").first.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("button.candidate").nth(1)).to_be_focused()
    expect(page.locator("#announcer")).to_contain_text("Decided")
    assert page.locator("button.candidate[tabindex='0']").count() == 1


def test_long_texts_are_refused_in_words_and_the_page_lives_on(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill?model=lm&hidden=0&text=cat")
    expect(page.locator("button.candidate")).to_have_count(10)
    page.locator("textarea").fill("cat " + "the black river " * 300)
    expect(page.locator(".status.failed")).to_contain_text("tokens")
    page.locator("textarea").fill("cat sleeps")
    expect(page.locator(".status.failed")).to_have_count(0)
    expect(page.locator(".columns.stale")).to_have_count(0)
    open_page.wrong[:] = [told for told in open_page.wrong if "413" not in told]  # type: ignore[attr-defined]


def test_a_newer_request_overtakes_an_older_one(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill?model=lm&text=the+black+cat")
    held: list[Any] = []

    def hold_first(route: Any) -> None:
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/pipeline/fill-mask", hold_first)
    page.get_by_role("button", name="cat", exact=True).click()
    expect(page.locator(".panel > .status")).to_have_text("The model is guessing …")
    page.get_by_role("button", name="black", exact=True).click()
    expect(page.locator(".column")).to_have_count(2)
    assert len(held) == 2


def test_an_answer_about_an_older_text_is_not_shown(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill?model=lm&text=the+black+cat")
    held: list[Any] = []
    page.route("**/pipeline/fill-mask", lambda route: held.append(route))
    page.get_by_role("button", name="cat", exact=True).click()
    page.wait_for_timeout(600)
    assert len(held) == 1
    page.locator("textarea").fill("the")  # there is no third word any more
    held[0].continue_()
    page.wait_for_timeout(1000)
    expect(page.locator("button.word")).to_have_count(1)
    expect(page.locator(".column")).to_have_count(0)


def test_a_dead_server_is_told_in_words(folders: list[str], open_page: Open) -> None:
    with running(folders[0], "--quiet") as server:
        page = open_page(f"{server.url}/#fill?text=the+cat")
        expect(page.locator("button.word")).to_have_count(2)
        server.stop()
        page.locator("button.word").first.click()
        expect(page.locator(".status.failed")).to_contain_text("does not answer")
    open_page.wrong[:] = [told for told in open_page.wrong if "ERR_CONNECTION" not in told]  # type: ignore[attr-defined]


def test_a_key_is_asked_for_and_panels_say_what_is_missing(folders: list[str], open_page: Open) -> None:
    with running(folders[0], "--quiet", key=KEY) as server:
        page = open_page(f"{server.url}/")
        for wrong in ("wrong", f"“{KEY}”"):  # the second cannot be a header
            page.get_by_label("Key").fill(wrong)
            page.get_by_role("button").last.click()
            expect(page.get_by_label("Key")).to_have_value("")
        page.get_by_label("Key").fill(KEY)
        page.get_by_role("button").last.click()
        expect(page.locator("button.candidate")).to_have_count(10)
        page.get_by_role("link", name="Runs").click()
        expect(page.locator(".empty")).to_contain_text("--runs")
        page.get_by_role("link", name="Tasks").click()
        expect(page.locator(".empty")).to_contain_text("finetune")
        page.get_by_role("link", name="Compare").click()
        expect(page.locator(".empty")).to_contain_text("Only one model")
    open_page.wrong[:] = [told for told in open_page.wrong if not re.search("401", told)]  # type: ignore[attr-defined]


def test_the_bar_fits_at_every_width(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#runs", locale="pt-BR")
    settled(page, "runs")
    for width in (256, 320, 360, 560, 700, 720, 900, 1080, 1100, 1199, 1240, 1250, 1264, 1270, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
