"""Every panel: type, click, read, in both languages and at both widths."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Open, record

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize(("locale", "width"), [("en-GB", "desktop"), ("pt-BR", "phone")])


def expect(found: Any) -> Any:
    from playwright.sync_api import expect as wait_for

    return wait_for(found)


@BOTH
def test_fill_hides_words_and_lists_candidates(studio: str, open_page: Open, locale: str, width: str) -> None:
    page = open_page(f"{studio}/#fill", locale=locale, width=width)
    title = {"en-GB": "Fill in the blanks", "pt-BR": "Preencha as lacunas"}[locale]
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.locator("textarea").fill("the black cat sleeps on the roof")
    expect(page.locator(".word[aria-pressed=true]")).to_have_count(0)
    page.get_by_role("button", name="cat", exact=True).click()
    expect(page.locator(".column")).to_have_count(1)
    expect(page.locator("button.candidate")).to_have_count(10)
    page.get_by_role("button", name="roof", exact=True).click()
    expect(page.locator(".column")).to_have_count(2)
    shares = page.locator(".column").first.locator(".figure").all_inner_texts()
    numbers = [float(share.replace(",", ".").rstrip("%").strip()) for share in shares]
    assert numbers == sorted(numbers, reverse=True)
    assert 0 < sum(numbers) <= 100.5
    page.locator(".word[aria-pressed=true]").first.click()
    expect(page.locator(".column")).to_have_count(1)


def test_fill_shows_which_words_decided_and_puts_a_word_in(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill?text=the+black+cat+sleeps+on+the+roof&hidden=2&model=lm")
    candidate = page.locator("button.candidate").first
    expect(page.locator(".why-said")).to_contain_text("Point at a candidate")
    candidate.hover()
    expect(page.locator(".why-said")).to_contain_text("Decided")
    painted = page.locator(".word").evaluate_all(
        "all => all.map(one => Number(one.style.getPropertyValue('--for')) + "
        "Number(one.style.getPropertyValue('--against')))"
    )
    assert max(painted) == pytest.approx(1)
    page.locator(".why-said button").click()
    expect(page.locator(".word[aria-pressed=true]")).to_have_count(0)
    assert page.locator("textarea").input_value() != "the black cat sleeps on the roof"


def test_fill_leaves_no_band_where_nothing_is_hidden(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill?text=the+black+cat&model=lm")
    expect(page.locator(".columns .soft")).to_be_visible()
    expect(page.locator(".why")).to_be_hidden()
    page.get_by_role("button", name="cat", exact=True).click()
    expect(page.locator(".why")).to_be_visible()


def test_fill_takes_written_masks_and_both_mask_tokens(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#fill?text=the+[MASK]+cat+<mask>&model=other")
    expect(page.locator(".column")).to_have_count(2)
    expect(page.locator(".word:disabled")).to_have_count(2)


@BOTH
def test_examples_are_in_the_language_of_the_model(
    studio: str, open_page: Open, locale: str, width: str
) -> None:
    page = open_page(f"{studio}/#fill?model=other", locale=locale, width=width)
    expect(page.locator("textarea")).to_have_value(re.compile("^A padeira "))
    expect(page.locator(".word[aria-pressed=true]")).not_to_have_count(0)
    own = {"en-GB": "^The baker ", "pt-BR": "^A padeira "}[locale]
    page = open_page(f"{studio}/#fill?model=lm", locale=locale, width=width)  # its card names none
    expect(page.locator("textarea")).to_have_value(re.compile(own))


@BOTH
def test_meaning_draws_a_map_of_senses(studio: str, open_page: Open, locale: str, width: str) -> None:
    page = open_page(f"{studio}/#meaning", locale=locale, width=width)
    word = {"en-GB": "bank", "pt-BR": "banco"}[locale]
    expect(page.locator(".use")).to_have_count(10)
    expect(page.locator(".uses mark")).to_have_text([word] * 10, ignore_case=True)
    page.locator(".uses button").first.focus()
    expect(page.locator(".use.pointed")).to_have_count(1)
    expect(page.locator(".near-lines path")).to_have_count(3)
    page.locator("textarea").fill("nothing here\nnada aqui")
    expect(page.locator(".status.failed")).to_contain_text(word)
    assert page.locator(".map").evaluate("map => map.closest('[inert]') !== null")
    open_page.wrong[:] = [told for told in open_page.wrong if "422" not in told]  # type: ignore[attr-defined]


@BOTH
def test_one_is_said_in_the_singular(studio: str, open_page: Open, locale: str, width: str) -> None:
    page = open_page(f"{studio}/#meaning", locale=locale, width=width)
    expect(page.locator(".use").first).to_be_visible()  # the strings are there
    say = "async values => (await import('/studio/i18n.js')).t('senses.said', values)"
    told = [page.evaluate(say, {"uses": uses, "senses": 3 - uses}) for uses in (1, 2)]
    assert (
        told
        == {
            "en-GB": ["1 use in 2 senses.", "2 uses in 1 sense."],
            "pt-BR": ["1 uso em 2 sentidos.", "2 usos em 1 sentido."],
        }[locale]
    )


@BOTH
def test_meaning_compares_two_sentences(studio: str, open_page: Open, locale: str, width: str) -> None:
    page = open_page(f"{studio}/#meaning?view=pair&a=the+black+cat&b=the+old+cat", locale=locale, width=width)
    expect(page.locator(".matrix tbody tr")).to_have_count(3)
    expect(page.locator(".heat")).to_have_count(9)
    page.locator(".sentence").first.get_by_role("button", name="cat").focus()
    expect(page.locator(".said")).to_contain_text("cat")
    page.locator("textarea").nth(1).fill("the black cat")
    expect(page.locator(".big")).to_have_text(re.compile(r"^1[.,]00$"))


@BOTH
def test_attention_shows_all_heads_and_one(studio: str, open_page: Open, locale: str, width: str) -> None:
    page = open_page(f"{studio}/#attention?text=the+black+cat&model=lm", locale=locale, width=width)
    expect(page.locator("button.head canvas")).to_have_count(8)
    page.locator("button.head").nth(5).click()
    expect(page.get_by_role("heading", level=2).nth(1)).to_have_text(re.compile(r"\S+ 2, \S+ 2"))
    page.locator("button.token").nth(1).click()
    expect(page.locator("button.token[aria-pressed=true]")).to_have_count(1)
    shares = page.locator("button.token").evaluate_all("all => all.map(one => one.title)")
    numbers = [float(share.replace(",", ".").rstrip("%\xa0 ")) for share in shares]
    assert sum(numbers) == pytest.approx(100, abs=3)
    expect(page.locator(".arcs path").first).to_be_attached()
    page.locator("select").last.select_option("entropy")
    expect(page.locator("button.head .value")).to_have_count(8)
    assert "head=1.1" in page.url
    assert "token=1" in page.url


@BOTH
def test_tasks_label_mark_and_answer(studio: str, open_page: Open, locale: str, width: str) -> None:
    page = open_page(f"{studio}/#tasks?model=topics", locale=locale, width=width)
    expect(page.locator(".candidate-word")).to_have_count(3)
    page.locator("select").select_option("names")
    expect(page.locator(".passage .entity").first).to_be_visible()
    text = page.locator("textarea").input_value()
    shown = page.locator(".passage").evaluate(
        "node => { const copy = node.cloneNode(true); "
        "copy.querySelectorAll('.kind').forEach(kind => kind.remove()); "
        "return copy.textContent }"
    )
    assert shown == text
    page.locator("select").select_option("answers")
    page.locator("textarea").fill("𝒜 sea 🌊 storm closed the old port.")
    expect(page.locator(".passage")).to_have_text("𝒜 sea 🌊 storm closed the old port.")
    expect(page.locator("mark.answer")).to_have_text(page.locator(".big").inner_text())


@BOTH
def test_runs_grow_while_they_train(
    studio: str, run_folder: Path, open_page: Open, locale: str, width: str
) -> None:
    page = open_page(f"{studio}/#runs", locale=locale, width=width)
    expect(page.locator(".curves")).to_have_count(3)
    metrics = run_folder / "metrics.jsonl"
    last = metrics.read_text().count("\n")
    expect(page.locator(".run-facts")).to_contain_text(f" {last},")
    with metrics.open("a") as file:
        file.write(record(last + 1))
    expect(page.locator(".run-facts")).to_contain_text(f" {last + 1},")
    unit = {"en-GB": "seconds", "pt-BR": "segundos"}[locale]
    expect(page.locator(".run-facts")).to_contain_text(f", {last + 1} {unit}")
    page.locator(".curves").first.hover()
    expect(page.locator(".curve-legend").first).to_contain_text({"en-GB": "step", "pt-BR": "passo"}[locale])


@BOTH
def test_scores_of_a_run_have_names_and_their_best_epoch(
    studio: str, open_page: Open, locale: str, width: str
) -> None:
    page = open_page(f"{studio}/#runs?run=tuned", locale=locale, width=width)
    names = {"en-GB": ["Accuracy", "Matthews correlation"], "pt-BR": ["Acurácia", "Correlação de Matthews"]}
    expect(page.locator(".charts h2")).to_have_text(names[locale])
    said = {
        "en-GB": ["validation -0.2", "best: 0.293, step 10"],
        "pt-BR": ["validação -0,2", "melhor: 0,293, passo 10"],
    }
    expect(page.locator(".curve-legend").nth(1).locator("> span")).to_have_text(said[locale])
    assert "60%" in page.locator(".curve-legend").first.inner_text()
    assert page.locator(".curves").nth(1).evaluate("node => !node.textContent.includes('%')")
    ring, dots = page.locator(".curves .best").nth(1), page.locator(".curves").nth(1).locator("circle")
    assert ring.get_attribute("cx") == dots.nth(1).get_attribute("cx")
    assert ring.get_attribute("cy") == dots.nth(1).get_attribute("cy")
    page.locator("select").select_option("seeds")
    expect(page.locator(".curves").first.locator(".best")).to_have_count(2)
    seed = {"en-GB": "validation, seed 1", "pt-BR": "validação, semente 1"}[locale]
    expect(page.locator(".curve-legend").first).to_contain_text(seed)


@BOTH
def test_compare_asks_two_models(studio: str, open_page: Open, locale: str, width: str) -> None:
    page = open_page(
        f"{studio}/#compare?a=lm&b=other&text=the+black+cat&hidden=1", locale=locale, width=width
    )
    sides = page.locator(".versus > section")
    expect(sides.get_by_role("heading", level=2)).to_have_text(["lm", "other"])
    for side in (0, 1):
        expect(sides.nth(side).locator("div.candidate")).to_have_count(6)
        expect(sides.nth(side).locator(".surprise").first).to_be_visible()
    page.locator("select").nth(1).select_option("topics")
    expect(sides.locator("div.candidate")).to_have_count(0)
    expect(sides.first.get_by_role("link")).to_have_count(2)
    page.locator("select").first.select_option("graph")  # which has vectors alone
    expect(sides.first.get_by_role("link")).to_have_count(1)
    label = {"en-GB": "Label a text", "pt-BR": "Rotular um texto"}[locale]
    sides.nth(1).get_by_role("link", name=label).click()
    expect(page.locator(".candidate-word")).to_have_count(3)
    assert "model=topics" in page.url


def test_panels_offer_what_a_model_can_do(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#attention?model=graph")
    expect(page.locator("button.head canvas").first).to_be_visible()  # of another model
    assert "graph" not in page.locator("select").first.inner_text()
    page = open_page(f"{studio}/#meaning?view=pair&model=graph")
    expect(page.locator(".heat").first).to_be_visible()
    expect(page.get_by_label("Vectors from")).to_have_count(0)
    page = open_page(f"{studio}/#meaning?view=pair&model=lm&layer=77")
    expect(page.locator(".heat").first).to_be_visible()  # at a layer that there is
    page = open_page(f"{studio}/#tasks?model=pairs")
    expect(page.get_by_label("Second text")).to_be_visible()
    expect(page.locator(".candidate")).to_have_count(0)
    page.get_by_label("Second text").fill("The soup was cold.")
    expect(page.locator(".candidate")).to_have_count(2)
    for name, fields in (("topics", 1), ("singles", 0)):
        page = open_page(f"{studio}/#tasks?model={name}")
        expect(page.locator(".candidate").first).to_be_visible()
        expect(page.locator("details input")).to_have_count(fields)


def test_two_long_texts_are_compared(studio: str, open_page: Open) -> None:
    text = "+".join(["o"] * 500)
    page = open_page(f"{studio}/#meaning?view=pair&model=lm&a={text}&b={text}")
    expect(page.locator("button.word")).to_have_count(1000)
    expect(page.locator(".heat")).to_have_count(0)  # so many are drawn only when asked for


def test_a_text_without_words_has_no_nearest_one(studio: str, open_page: Open) -> None:
    page = open_page(f"{studio}/#meaning?view=pair&model=lm&a=o+gato&b=%E2%80%8B")  # a space of no width
    expect(page.locator("button.word")).to_have_count(2)
    page.locator("button.word").first.click()
    expect(page.locator("button.word").first).to_have_attribute("aria-pressed", "true")
