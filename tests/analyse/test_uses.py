"""Uses of a word: which forms count, where they stand, and their vectors."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Heard
from typer.testing import CliRunner

from unmask.analyse.uses import (
    Use,
    at_a_glance,
    compare_uses,
    embed_uses,
    find_uses,
    first_uses,
    fitting,
    forms_of,
    pieces_of,
)
from unmask.cli import app
from unmask.errors import InputError, ModelError, UserError
from unmask.predict import MaskedLM, load
from unmask.predict.standardise import Standardiser


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
    with pytest.raises(
        InputError, match=r"there is no layer 8: 0 is the embeddings, 1 to \d the blocks, or last4$"
    ):
        embed_uses(model, [use], 8)
    with pytest.raises(InputError, match="there is no layer all: .* or last4$"):
        embed_uses(model, [use], "all")


BENCHES = ["Um velho viu o banco no jardim.", "O Banco viu a carta.", "Um banco, o banco."]


def test_the_first_use_in_each_text(heard: Heard) -> None:
    uses = first_uses("banco", BENCHES, progress=heard)
    assert [(use.text, use.start, use.form) for use in uses] == [
        (BENCHES[0], 15, "banco"), (BENCHES[1], 2, "Banco"), (BENCHES[2], 3, "banco")
    ]  # fmt: skip
    assert heard.said == ["text 3 holds it 2 times: the first is taken, Um [banco], o banco."]
    assert first_uses("banco", ["Dois bancos.", "Um banco."], "pt")[0].form == "bancos"
    with pytest.raises(InputError, match="text 2 does not hold banco: 'Dois bancos.'"):
        first_uses("banco", ["Um banco.", "Dois bancos."])
    with pytest.raises(InputError, match="give two texts or more"):
        first_uses("banco", BENCHES[:1])


@pytest.mark.parametrize("layer", [-1, 1])
def test_uses_are_compared_by_the_cosine_of_their_vectors(model: MaskedLM, layer: int) -> None:
    uses = first_uses("banco", BENCHES)
    vectors = embed_uses(model, uses, layer).astype(np.float64)
    by_hand = [[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in vectors] for a in vectors]
    assert compare_uses(model, uses, layer) == pytest.approx(np.array(by_hand), abs=1e-5)


def test_standardised_uses_are_compared(folder: Path) -> None:
    model, uses = load(folder, "cpu"), first_uses("banco", BENCHES)
    words = np.concatenate(model.embed(BENCHES, "word", 2))
    fitted = Standardiser.fit(words, "mean", about=model.about("word", 2, "mean"))
    moved = embed_uses(model, uses, 2) - words.mean(0)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    assert compare_uses(model, uses, 2, fitted) == pytest.approx(moved @ moved.T, abs=1e-4)
    with pytest.raises(ModelError, match="fitted on layer 2, these vectors are of 1"):
        compare_uses(model, uses, 1, fitted)


def test_the_command(folder: Path) -> None:
    def run(*arguments: object) -> str:
        command = ["analyse", "uses", *map(str, arguments), "--model", str(folder), "-q"]
        return CliRunner().invoke(app, command, catch_exceptions=False).stdout

    cosines = compare_uses(load(folder, "cpu"), first_uses("banco", BENCHES), 2)
    head, *rows = run("banco", *BENCHES, "--layer", 2).splitlines()
    assert head.split() == ["1", "2", "3", "banco"]
    assert [[float(each) for each in row.split()[1:4]] for row in rows] == pytest.approx(cosines, abs=1e-4)
    assert rows[1].endswith("  O [Banco] viu a carta.")
    found = json.loads(run("banco", *BENCHES, "--layer", 2, "--json"))
    assert found["cosines"] == pytest.approx(cosines, abs=1e-6)
    assert found["uses"][0] == {"text": BENCHES[0], "start": 15, "end": 20}
    for arguments, says in (
        (("banco", BENCHES[0]), "two texts or more"),
        (("gato", *BENCHES), "text 1 does not hold gato"),
        ((" ", *BENCHES), "is no word"),
        (("banco", *BENCHES, "--layer", "all"), "--layer all: write a number or last4"),
        (("banco", *BENCHES, "--layer", "9"), "no layer 9"),
        (("banco", *BENCHES, "--standardise", folder / "config.json"), "is no standardiser"),
    ):
        with pytest.raises(UserError, match=says):
            run(*arguments)
    refused = ["analyse", "uses", "banco", *BENCHES, "--layer", "9", "-m", str(folder)]
    assert CliRunner().invoke(app, refused).output == ""  # no word of the two uses in the last text


def test_a_page_is_cut_to_what_is_read_at_a_glance() -> None:
    assert at_a_glance(" O gato\n dorme. ") == "O gato dorme."
    assert at_a_glance("palavra\n" * 10_000) == ("palavra " * 25).strip() + "…"
    assert at_a_glance("x" * 500) == "x" * 200 + "…"
