"""`load`: folders, the Hugging Face cache, devices, task models, and folders that cannot be used."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import unmask
from unmask.checkpoint import load_model, save_model
from unmask.errors import ConfigError, InputError, ModelError
from unmask.files import digest, file_digest
from unmask.predict import Answerer, Classifier, MaskedLM, Tagger, load
from unmask.predict.folders import card_language, find_folder, model_fingerprint
from unmask.predict.inputs import TooLongError
from unmask.tokenizer import Tokenizer

Folder = Callable[..., Path]


def test_public_names() -> None:
    assert {"MaskedLM", "Tokenizer", "load", "prepare", "train_tokenizer"} <= set(unmask.__all__)
    for name in unmask.__all__:
        assert callable(getattr(unmask, name))
    assert set(unmask.__all__) < set(dir(unmask))
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        unmask.lod  # noqa: B018


def test_a_folder_gives_a_masked_lm(folder: Folder) -> None:
    lm = unmask.load(folder(), device="cpu")
    assert isinstance(lm, MaskedLM)
    assert not lm.report
    assert lm.device == torch.device("cpu")
    assert lm.fill("O [MASK] dorme.", top=1)


def test_a_number_is_neither_a_model_nor_a_text(folder: Folder) -> None:
    with pytest.raises(ModelError, match="^5 is no model: give its folder or its name$"):
        load(5)  # type: ignore[arg-type]
    lm = load(folder(), device="cpu")
    with pytest.raises(InputError, match="^5 is no text: give a string$"):
        lm.fill(5)  # type: ignore[attr-defined]


def test_the_model_of_a_run_that_is_not_finished(tmp_path: Path) -> None:
    for name in ("checkpoints", "best"):
        (tmp_path / "run" / name).mkdir(parents=True)
    with pytest.raises(ModelError, match=r"run is not finished: .* --resume .*; .*best is its best so far"):
        unmask.load(tmp_path / "run" / "model")
    with pytest.raises(ModelError, match=r"run is not finished"):
        unmask.load(tmp_path / "run")
    with pytest.raises(ModelError, match="no model folder at"):
        unmask.load(tmp_path / "run" / "modle")


def test_the_hugging_face_cache(folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = tmp_path / "hub" / "models--casa--modelo"
    (stored / "refs").mkdir(parents=True)
    (stored / "refs" / "main").write_text("abc123")
    (stored / "snapshots").mkdir()
    folder().rename(stored / "snapshots" / "abc123")
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert isinstance(load("casa/modelo", "cpu"), MaskedLM)
    for name in ("casa/outro", "../casa/modelo", "casa/modelo/x"):
        with pytest.raises(ModelError, match="never downloads"):
            load(name)
    (stored / "refs" / "main").write_text("../..")
    with pytest.raises(ModelError, match="never downloads"):
        load("casa/modelo")


def test_the_fingerprint_is_of_the_heads_in_our_own_file_too(folder: Folder) -> None:
    plain = folder()
    files = ("config.json", "tokenizer.json", "model.safetensors")
    before = digest(*(file_digest(plain / name) for name in files))
    assert model_fingerprint(plain) == before, "runs that noted it must find it again"
    (plain / "README.md").write_text("Another card.", "utf-8")
    assert model_fingerprint(plain) == before
    paired = folder(("mlm", "sop"), "paired")
    noted, weights = model_fingerprint(paired), file_digest(paired / "model.safetensors")
    model, _ = load_model(paired)
    with torch.no_grad():
        model.get_parameter("heads.sop.weight").add_(1)
    save_model(model, paired, Tokenizer.load(paired))
    assert file_digest(paired / "model.safetensors") == weights
    assert model_fingerprint(paired) != noted


def test_dtypes_and_devices(folder: Folder) -> None:
    path = folder()
    half = load(path, "cpu", "bfloat16")
    vectors = half.embed(["O gato."])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, load(path, "cpu").embed(["O gato."]), atol=0.1)
    for device, dtype in (("cpuu", "auto"), ("cpu", "float8"), ("cuda:99", "auto"), ("meta", "int8")):
        with pytest.raises(ConfigError) as caught:
            load(path, device, dtype)
        assert "\n" not in str(caught.value)


def test_what_did_not_fit_is_reported(folder: Folder) -> None:
    path = folder(("pooler",))
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(values | {"architectures": ["BertForMaskedLM"]}))
    report = load(path, "cpu").report
    assert report.missing
    assert report.new
    assert "missing" in str(report)


def test_classifier(folder: Folder) -> None:
    model = load(folder(("classify",), labels=("alegre", "triste", "neutro")), "cpu")
    assert isinstance(model, Classifier)
    alone = model.classify(["O gato dorme."])[0]
    together = model.classify(["A chuva caiu durante a noite inteira.", "O gato dorme."])
    assert {label.name for label in alone} == {"alegre", "triste", "neutro"}
    assert sum(label.score for label in alone) == pytest.approx(1, abs=1e-5)
    assert [label.name for label in alone] == [label.name for label in together[1]]
    assert alone[0].score == pytest.approx(together[1][0].score, abs=1e-5)
    assert model.classify(["O gato"], ["dorme"]) != model.classify(["O gato dorme"])
    with pytest.raises(InputError, match="list of texts"):
        model.classify("O gato")
    with pytest.raises(InputError, match="takes at most 64"):
        model.classify(["gato " * 90])


def test_multi_label_and_regression(folder: Folder) -> None:
    multi = load(folder(("classify",), "multi", labels=("a", "b"), problem="multi"), "cpu")
    number = load(folder(("classify",), "number", labels=("nota",), problem="regression"), "cpu")
    assert isinstance(multi, Classifier)
    assert isinstance(number, Classifier)
    assert all(0 < label.score < 1 for label in multi.classify(["O gato."])[0])
    assert number.classify(["O gato."])[0][0].name == "nota"


def test_tagger(folder: Folder) -> None:
    model = load(folder(("tag",), labels=("O", "B-ANIMAL", "I-ANIMAL")), "cpu")
    assert isinstance(model, Tagger)
    found = [model.tag(text) for text in ("O gato preto dorme no telhado.", "A casa velha.", "")]
    assert any(found)
    for text, entities in zip(("O gato preto dorme no telhado.", "A casa velha.", ""), found, strict=True):
        for entity in entities:
            assert entity.label == "ANIMAL"
            assert text[entity.start : entity.end] == entity.text
            assert 1 / 3 < entity.score <= 1


def test_answerer(folder: Folder) -> None:
    model = load(folder(("answer",)), "cpu")
    assert isinstance(model, Answerer)
    context = "O gato preto dorme no telhado da casa velha."
    answer = model.answer("Onde dorme o gato?", context)
    assert context[answer.start : answer.end] == answer.text != ""
    assert 0 < answer.score <= 1
    with pytest.raises(InputError, match="context is empty"):
        model.answer("Onde?", "")
    assert model.answer("gato " * 40, "O gato preto " * 40).text  # half of it is read
    with pytest.raises(
        TooLongError, match=r"^the question 'gato gato .*'… has 72 tokens, .* at most 64: shorten"
    ):
        model(["Onde?", "gato " * 70], [context, context])


def test_a_vocabulary_of_another_model(folder: Folder, tmp_path: Path, any_tokenizer: Tokenizer) -> None:
    any_tokenizer.save(tmp_path / "other")
    path = folder(vocab_size=any_tokenizer.vocab_size - 1)
    with pytest.raises(ModelError, match="do not belong together"):
        load(path, "cpu", tokenizer=tmp_path / "other")


def test_a_pattern_that_explodes_is_one_line(folder: Folder) -> None:
    path = folder()
    values = json.loads((path / "tokenizer.json").read_text("utf-8"))
    values["pre_tokenizer"] = {
        "type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False
    }  # fmt: skip
    (path / "tokenizer.json").write_text(json.dumps(values), "utf-8")
    lm = load(path, "cpu")
    assert isinstance(lm, MaskedLM)
    hostile = "a" * 40 + "b"
    for ask in (lambda: lm.embed([hostile]), lambda: lm.score(hostile), lambda: lm.fill(f"[MASK] {hostile}")):
        with pytest.raises(unmask.errors.UserError) as caught:  # type: ignore[attr-defined]
            ask()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("card", "language"),
    [
        ("---\nlanguage: pt\nlicense: apache-2.0\n---\n# x\n", "pt"),
        ("---\npipeline_tag: fill-mask\nlanguage:\n- pt\n---\n# x\n", "pt"),
        ("---\nlanguage: pt-BR\n---\n# x\n", "pt-BR"),
        ("---\nlanguage:\n- pt-BR\nlicense: mit\n---\n# x\n", "pt-BR"),
        ("---\nlanguage:\n- pt\n- en\n---\n# x\n", None),
        ("---\nlicense: mit\n---\nlanguage: pt\n", None),
        ("# language: pt\n", None),
        ("---\nlanguage:\n---\n", None),
        ("", None),
    ],
)
def test_the_language_of_a_card(tmp_path: Path, card: str, language: str | None) -> None:
    (tmp_path / "README.md").write_text(card, "utf-8")
    assert card_language(tmp_path) == language
    assert card_language(tmp_path / "nowhere") is None


def test_bundled_models_have_a_language() -> None:
    assert [card_language(find_folder(name)) for name in ("mini-en", "mini-pt")] == ["en", "pt"]
