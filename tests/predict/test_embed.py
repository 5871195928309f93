"""Vectors: of sentences, words and tokens, of any layer; a batch answers as the single text would."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.errors import InputError, ModelError
from unmask.predict import MaskedLM, load
from unmask.predict.sentence import SentenceSettings, read_sentence_settings
from unmask.predict.standardise import Standardiser


@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_a_batch_answers_as_the_single_text(data: st.DataObject, lm: MaskedLM, texts: list[str]) -> None:
    chosen = data.draw(st.lists(st.sampled_from([*texts, "", "gato", "O"]), min_size=1, max_size=12))
    lm.budget = data.draw(st.integers(1, 100))
    level = data.draw(st.sampled_from(["sentence", "word", "token"]))
    together = lm.embed(chosen, level)
    for text, vectors in zip(chosen, together, strict=True):
        np.testing.assert_allclose(lm.embed(text, level), vectors, atol=1e-5)


def test_layers_are_those_of_hidden(lm: MaskedLM, texts: list[str]) -> None:
    hidden = lm.hidden(texts[0])
    n = len(lm.tokenizer.encode(texts[0]))
    assert hidden.shape == (lm.config.layers + 1, n, lm.config.width)
    for layer in (0, 1, 2, -1, -3):
        np.testing.assert_allclose(lm.embed(texts[0], "token", layer), hidden[layer], atol=1e-5)
    np.testing.assert_allclose(lm.embed(texts[0], "token", "last4"), hidden[-2:].mean(0), atol=1e-5)
    assert abs(hidden[0] - hidden[1]).max() > 1e-3


@pytest.mark.parametrize("level", ["sentence", "word", "token"])
def test_all_layers_are_the_single_ones(lm: MaskedLM, texts: list[str], level: str) -> None:
    every = lm.embed(texts, level, "all", "max", normalise=True)
    for layer in range(lm.config.layers + 1):
        for one, several in zip(lm.embed(texts, level, layer, "max", normalise=True), every, strict=True):
            np.testing.assert_allclose(several[..., layer, :], one, atol=1e-6)


@pytest.mark.parametrize("level", ["sentence", "word", "token"])
def test_standardised_then_normalised(lm: MaskedLM, texts: list[str], level: str) -> None:
    plain = lm.embed(texts, level, 1)
    fitted = Standardiser.fit(np.concatenate([np.atleast_2d(rows) for rows in plain]), "zscore")
    for rows, unit in zip(plain, lm.embed(texts, level, 1, normalise=True, standardise=fitted), strict=True):
        moved = fitted.apply(rows)
        np.testing.assert_allclose(unit, moved / np.linalg.norm(moved, axis=-1, keepdims=True), atol=1e-5)


def test_a_standardiser_of_other_vectors_is_refused(folder: Callable[..., Path], texts: list[str]) -> None:
    model, other = load(folder(), "cpu"), load(folder(name="other", init_std=0.1), "cpu")
    vectors = model.embed(texts, "word")
    kind = model.about("word", -1, "mean")
    assert kind["layer"] == "2"
    fitted = Standardiser.fit(vectors, "mean", about=kind)
    model.embed(texts, "word", 2, standardise=fitted)
    with pytest.raises(ModelError, match="fitted on layer 2, these vectors are of 1"):
        model.embed(texts, "word", 1, standardise=fitted)
    with pytest.raises(ModelError, match="fitted on level word, these vectors are of sentence"):
        model.embed(texts, standardise=fitted)
    with pytest.raises(ModelError, match="fitted on another model"):
        other.embed(texts, "word", standardise=fitted)
    fitted.save(tmp := folder() / "words.safetensors")  # beside the model, which stays the same
    load(tmp.parent, "cpu").embed(texts, "word", standardise=Standardiser.load(tmp))


@pytest.mark.parametrize("pool", ["mean", "max", "first"])
def test_pooling_by_hand(lm: MaskedLM, texts: list[str], pool: str) -> None:
    take = {"mean": lambda rows: rows.mean(0), "max": lambda rows: rows.max(0), "first": lambda rows: rows[0]}
    for text, words, sentence in zip(
        texts, lm.embed(texts, "word", pool=pool), lm.embed(texts, pool=pool), strict=True
    ):
        rows, encoding = lm.embed(text, "token"), lm.tokenizer.encode(text)
        np.testing.assert_allclose(sentence, take[pool](rows), atol=1e-5)
        assert len(words) == encoding.words.max() + 1
        for number, vector in enumerate(words):
            np.testing.assert_allclose(vector, take[pool](rows[encoding.words == number]), atol=1e-5)


def test_cls_is_the_first_token(lm: MaskedLM, texts: list[str]) -> None:
    np.testing.assert_array_equal(lm.embed(texts, pool="cls"), lm.embed(texts, pool="first"))


def test_normalised_vectors(lm: MaskedLM, texts: list[str]) -> None:
    plain, unit = lm.embed(texts), lm.embed(texts, normalise=True)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(plain / np.linalg.norm(plain, axis=1, keepdims=True), unit, atol=1e-6)


def test_attention_rows_sum_to_one(lm: MaskedLM, texts: list[str]) -> None:
    weights = lm.attention(texts[1])
    n = len(lm.tokenizer.encode(texts[1]))
    assert weights.shape == (lm.config.layers, lm.config.heads, n, n)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_no_texts(lm: MaskedLM) -> None:
    assert lm.embed([]).shape == (0, lm.config.width)
    assert lm.embed([], "word") == []


@pytest.mark.parametrize("level", ["sentence", "word"])
@pytest.mark.parametrize(("given", "number"), [([1, 2], 1), (["a", None], 2), (5, 1), (None, 1)])
def test_what_is_no_text(lm: MaskedLM, given: Any, number: int, level: Any) -> None:
    with pytest.raises(InputError, match=f"text {number} is .*, no text: give a string"):
        lm.embed(given, level)
    with pytest.raises(InputError, match=f"text {number} is .*, no text: give a string"):
        lm.score(given)


def test_long_texts(lm: MaskedLM) -> None:
    long = "gato " * 90
    with pytest.raises(InputError, match="92 tokens, but the model takes at most 64"):
        lm.embed(long)
    cut = lm.embed(long, "token", truncate=True)
    np.testing.assert_allclose(cut, lm.embed("gato " * 62, "token"), atol=1e-5)
    np.testing.assert_allclose(lm.embed(long, truncate=True), cut.mean(0), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"level": "sentences"}, "sentence, word, token"),
        ({"layer": 3}, "no layer 3"),
        ({"layer": "last5"}, "no layer last5"),
        ({"layer": True}, "no layer True"),
        ({"layer": np.False_}, "no layer False"),
        ({"layer": 1.0}, "no layer 1.0"),
        ({"pool": "sum"}, "mean, cls, max, first"),
    ],
)
def test_mistakes(lm: MaskedLM, options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        lm.embed("O gato.", **options)


def write_modules(folder: Path, kinds: list[str], pooling: dict[str, object]) -> None:
    paths = {"Pooling": "1_Pooling"}
    modules = [
        {"idx": n, "path": paths.get(kind, ""), "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')


def test_a_sentence_folder_is_honoured(folder: Callable[..., Path], texts: list[str]) -> None:
    path = folder()
    write_modules(path, ["Transformer", "Pooling", "Normalize"], {"pooling_mode_cls_token": True})
    own, plain = load(path, "cpu"), load(folder(name="plain"), "cpu")
    assert own.sentence == SentenceSettings("cls", True, 12)
    cut = [plain.embed(text, "token")[0] for text in ("O gato.",)]
    np.testing.assert_allclose(own.embed(["O gato."])[0], cut[0] / np.linalg.norm(cut[0]), atol=1e-5)
    long = plain.tokenizer.encode(texts[0])
    assert len(long) > 12
    head = texts[0][: long.offsets[10, 1]]
    np.testing.assert_allclose(own.embed(texts[0]), own.embed(head), atol=1e-5)
    with pytest.raises(InputError, match="takes at most 12"):
        own.embed(texts[0], truncate=False)


def test_lower_case_and_prompt_of_a_sentence_folder(folder: Callable[..., Path]) -> None:
    path = folder()
    write_modules(path, ["Transformer", "Pooling"], {"pooling_mode_mean_tokens": True})
    plain = load(path, "cpu")
    (path / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    settings = {"prompts": {"query": "The Cat: ", "other": ""}, "default_prompt_name": "query"}
    (path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    own = load(path, "cpu")
    assert own.sentence == SentenceSettings(prompt="The Cat: ", lower=True)
    text = "O Gato DORME."
    np.testing.assert_allclose(own.embed(text), plain.embed("the cat: o gato dorme."), atol=1e-6)
    np.testing.assert_allclose(own.embed(text, "token"), plain.embed(text, "token"), atol=1e-6)
    (path / "config_sentence_transformers.json").write_text('{"default_prompt_name": "lost"}')
    with pytest.raises(ModelError, match="has no prompt 'lost'"):
        load(path, "cpu")


def test_a_prompt_that_is_not_pooled_is_refused(folder: Callable[..., Path]) -> None:
    path = folder()
    write_modules(
        path, ["Transformer", "Pooling"], {"pooling_mode_mean_tokens": True, "include_prompt": False}
    )
    assert load(path, "cpu").sentence.pool == "mean"
    settings = {"prompts": {"query": "The Cat: "}, "default_prompt_name": "query"}
    (path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="include_prompt"):
        load(path, "cpu")


def test_a_sentence_folder_in_the_hugging_face_cache(folder: Callable[..., Path], tmp_path: Path) -> None:
    """Its files are links to where the cache keeps them."""
    path = folder()
    write_modules(path, ["Transformer", "Pooling"], {"pooling_mode": "cls"})
    stored = tmp_path / "models--casa--modelo"
    snapshot = stored / "snapshots" / "abc123"
    (stored / "blobs").mkdir(parents=True)
    for number, file in enumerate(sorted(path.rglob("*.*"))):
        if file.is_file():
            link = snapshot / file.relative_to(path)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file.rename(stored / "blobs" / str(number)))
    assert load(snapshot, "cpu").sentence == SentenceSettings("cls", False, 12)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("modules.json", "{", "not valid JSON"),
        ("modules.json", "{}", "should hold a list"),
        ("modules.json", "[1]", "one object per layer"),
        ("modules.json", '[{"type": "x.Pooling", "path": "../.."}]', "leads out of its folder"),
        ("1_Pooling/config.json", "[]", "should hold an object"),
        ("sentence_bert_config.json", "[]", "should hold an object"),
    ],
)
def test_broken_sentence_folders(tmp_path: Path, name: str, text: str, says: str) -> None:
    write_modules(tmp_path, ["Transformer", "Pooling"], {"pooling_mode": "cls"})
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelError, match=says):
        read_sentence_settings(tmp_path)


@pytest.mark.parametrize(
    ("kinds", "pooling", "says"),
    [
        (["Transformer", "Dense"], {}, "asks for a Dense layer"),
        (["Transformer", "Pooling"], {"pooling_mode": "lasttoken"}, "lasttoken pooling"),
        (["Transformer", "Pooling"], {"pooling_mode_weightedmean_tokens": True}, "weightedmean"),
    ],
)
def test_layers_we_do_not_have(
    tmp_path: Path, kinds: list[str], pooling: dict[str, object], says: str
) -> None:
    write_modules(tmp_path, kinds, pooling)
    with pytest.raises(ModelError, match=says):
        read_sentence_settings(tmp_path)


def test_new_pooling_names(tmp_path: Path) -> None:
    write_modules(tmp_path, ["Transformer", "Pooling"], {"pooling_mode": "max"})
    assert read_sentence_settings(tmp_path) == SentenceSettings("max", False, 12)


def test_a_batch_without_words_has_no_rows_at_any_layer(lm: MaskedLM) -> None:
    for layer, shape in (("all", (0, 3, 32)), ("last4", (0, 32)), (-1, (0, 32))):
        assert [rows.shape for rows in lm.embed(["", "  "], level="word", layer=layer)] == [shape, shape]
