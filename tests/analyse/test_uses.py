"""Uses of a word: which forms count, where they stand, and their vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.analyse.uses import Use, embed_uses, find_uses, fitting, forms_of, pieces_of
from unmask.errors import InputError
from unmask.predict import MaskedLM


@pytest.mark.parametrize(
    ("word", "language", "expected"),
    [
        ("banco", "pt", "bancos"), ("jornal", "pt", "jornais"), ("homem", "pt", "homens"),
        ("mulher", "pt", "mulheres"), ("luz", "pt", "luzes"), ("país", "pt", "países"),
        ("lençol", "pt", "lençóis"), ("papel", "pt", "papéis"), ("canil", "pt", "canis"),
        ("bank", "en", "banks"), ("match", "en", "matches"), ("city", "en", "cities"), ("day", "en", "days"),
        ("box", "en", "boxes"),
    ],
)  # fmt: skip
def test_regular_plurals(word: str, language: str, expected: str) -> None:
    assert expected in forms_of(word, language)  # type: ignore[arg-type]
    assert forms_of(word) == (word,)


def test_every_plural_of_ao() -> None:
    assert forms_of("limão", "pt") == ("limão", "limões", "limães", "limãos")


def test_whole_words_in_any_case() -> None:
    texts = ["Banco: o banco, os BANCOS; bancos-de-areia, o banqueiro, desbanco", "nada"]
    found = list(find_uses(texts, forms_of("banco", "pt")))
    assert [use.form for use in found] == ["Banco", "banco", "BANCOS", "bancos"]
    assert [use.form for use in find_uses(texts, ("banco",))] == ["Banco", "banco"]


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=40), st.sampled_from(["a", "rã", "b.c", "x+"]))
def test_any_text_can_be_searched(text: str, word: str) -> None:
    for use in find_uses([text], forms_of(word)):
        assert use.form.lower() == word.lower()


def test_a_word_has_letters() -> None:
    with pytest.raises(InputError, match="is no word"):
        forms_of(" .. ")


def test_a_vector_is_the_mean_of_the_words_pieces(model: MaskedLM) -> None:
    text = "O gato encontrou a carta no jardim."
    (use,) = find_uses([text], ("encontrou",))
    encoding = model.tokenizer.encode(text)
    mine = pieces_of(use, encoding)
    assert text[encoding.offsets[mine].min() : encoding.offsets[mine].max()] == "encontrou"
    hidden = model.hidden(text)
    assert embed_uses(model, [use], 2)[0] == pytest.approx(hidden[2, mine].mean(0), abs=1e-5)
    last = hidden[-3:].mean(0)[mine].mean(0)
    assert embed_uses(model, [use], "last4")[0] == pytest.approx(last, abs=1e-5)


def test_a_text_with_several_uses_is_computed_once(model: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    uses = [*find_uses(["O banco viu o banco.", "Um banco."], ("banco",))]
    apart = np.concatenate([embed_uses(model, [use]) for use in uses])
    embed, asked = model.embed, []
    monkeypatch.setattr(model, "embed", lambda texts, *a, **k: asked.append(texts) or embed(texts, *a, **k))
    assert embed_uses(model, uses) == pytest.approx(apart, abs=1e-5)
    assert asked == [["O banco viu o banco.", "Um banco."]]


def test_a_long_text_is_cut_around_the_word(model: MaskedLM) -> None:
    text = "o gato viu a carta " * 30 + "no banco " + "perto do rio " * 30
    (use,) = find_uses([text], ("banco",))
    cut = fitting(use, model.inputs)
    assert cut.form == "banco"
    assert "carta" in cut.text
    assert "rio" in cut.text
    assert 10 < len(model.tokenizer.encode(cut.text)) <= model.inputs.limit
    assert embed_uses(model, [use]).shape == (1, 24)
    short = Use("o banco", 2, 7)
    assert fitting(short, model.inputs) is short


def test_bad_layers(model: MaskedLM) -> None:
    use = Use("o banco", 2, 7)
    with pytest.raises(InputError, match="there is no layer 8"):
        embed_uses(model, [use], 8)
    with pytest.raises(InputError, match="at one layer"):
        embed_uses(model, [use], "all")
