"""Standardised vectors of a server against those of `unmask embed`, and standardisers that do not fit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.serve.conftest import running
from typer.testing import CliRunner

from unmask.cli import app
from unmask.errors import UserError
from unmask.predict.predictor import Predictor
from unmask.predict.standardise import Standardiser
from unmask.serve.models import Served
from unmask.serve.names import named_standardisers

TEXTS = ["O gato preto dorme no telhado.", "Rain fell all night long.", "Ninguém sabia por quê.", "The sea"]


def embed(*arguments: object) -> None:
    done = CliRunner().invoke(app, ["embed", *map(str, arguments)])
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "lines.txt"
    file.write_text("\n".join(TEXTS) + "\n", "utf-8")
    return file


@pytest.fixture(scope="module")
def fitted(lines: Path, folders: dict[str, Path]) -> dict[str, Path]:
    """One standardiser for sentences, one for words at the first layer."""
    made = {level: lines.parent / f"{level}.safetensors" for level in ("sentence", "word")}
    model = ("--model", folders["lm"], "--fit-standardise", "zscore")
    embed(lines, *model, "-o", made["sentence"])
    embed(lines, *model, "--level", "word", "--layer", "1", "-o", made["word"])
    return made


@pytest.fixture(scope="module")
def site(folders: dict[str, Path], fitted: dict[str, Path]) -> Iterator[httpx.Client]:
    """A server of two models, the first of them standardised."""
    names = [f"{name}={folders[name]}" for name in ("lm", "topics")]
    options = [part for file in fitted.values() for part in ("--standardise", f"lm={file}")]
    with running(*names, *options, "--quiet") as server:
        assert "lm: sentence vectors of layer 2 are standardised (zscore)" in server.said
        with httpx.Client(base_url=server.url, timeout=30) as client:
            yield client


def post(client: httpx.Client, path: str, **body: object) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_sentence_vectors_are_those_of_embed(
    site: httpx.Client, folders: dict[str, Path], fitted: dict[str, Path], lines: Path
) -> None:
    made = lines.parent / "vectors.npy"
    embed(lines, "--model", folders["lm"], "--standardise", fitted["sentence"], "-o", made)
    vectors = np.load(made)
    np.testing.assert_allclose(post(site, "/embed", inputs=TEXTS, normalize=False), vectors, atol=1e-4)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    openai = post(site, "/v1/embeddings", input=TEXTS, model="lm")["data"]
    np.testing.assert_allclose([each["embedding"] for each in openai], units, atol=1e-4)
    asked = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    np.testing.assert_allclose(post(site, "/similarity", inputs=asked), units[1:] @ units[0], atol=1e-4)


def test_words_are_standardised_at_the_layer_that_was_fitted(
    site: httpx.Client, predictors: dict[str, Predictor], fitted: dict[str, Path]
) -> None:
    pair = [TEXTS[0], TEXTS[1]]
    word = Standardiser.load(fitted["word"])
    for layer, standardiser in ((1, word), (None, None)):
        rows = predictors["lm"].embed(
            pair, "word", -1 if layer is None else layer, normalise=True, standardise=standardiser
        )
        found = post(site, "/words", inputs=pair, model="lm", layer=layer)
        np.testing.assert_allclose(found["similarity"], rows[0] @ rows[1].T, atol=1e-4)
        assert found["standardised"] is (layer == 1)


def test_other_models_are_left_alone_and_info_tells_which_are_not(
    site: httpx.Client, predictors: dict[str, Predictor]
) -> None:
    found = post(site, "/embed", inputs=TEXTS, model="topics", normalize=False)
    np.testing.assert_allclose(found, predictors["topics"].embed(TEXTS), atol=1e-5)
    lm, topics = site.get("/info").json()["models"]
    assert lm["standardised"] == [
        {"level": "sentence", "layer": 2, "method": "zscore"},
        {"level": "word", "layer": 1, "method": "zscore"},
    ]
    assert topics["standardised"] == []


def test_what_does_not_fit_the_model_is_one_line(
    predictors: dict[str, Predictor], fitted: dict[str, Path]
) -> None:
    random = np.random.default_rng(0)
    lm = predictors["lm"]

    def made(width: int = 32, **about: str) -> Standardiser:
        return Standardiser.fit(random.normal(size=(9, width)), about=about)

    own = Standardiser.load(fitted["sentence"])
    for model, given, words in [
        (lm, [made(16)], "width 16"),
        (predictors["topics"], [own], "another model"),
        (lm, [made(level="sentence", layer="1")], "last layer (2)"),
        (lm, [made(level="word", layer="last4")], "last4"),
        (lm, [made(level="word", layer="3")], "layer 3"),
        (lm, [made(level="paragraph")], "paragraph"),
        (lm, [made(pool="cls")], "pool cls"),
        (lm, [own, made()], "two standardisers"),
    ]:
        with pytest.raises(UserError, match="^mine: ") as told:
            Served("mine", model, given)
        assert words in str(told.value)
        assert "\n" not in str(told.value)
    assert Served("mine", lm, [made()]).standardised[0]["layer"] == 2


def test_files_belong_to_models_by_name(
    fitted: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(fitted["word"])
    assert [each.about["level"] for each in named_standardisers([file], ["lm"])["lm"]] == ["word"]
    found = named_standardisers([f"b={file}", f"b={fitted['sentence']}"], ["a", "b"])
    assert [len(found[name]) for name in ("a", "b")] == [0, 2]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x=y").write_bytes(fitted["word"].read_bytes())
    assert len(named_standardisers(["x=y"], ["lm"])["lm"]) == 1
    for given, names, words in [
        (file, ["a", "b"], "name=FILE"),
        (f"c={file}", ["a", "b"], "no model is called c"),
        ("missing", ["a"], "cannot read the standardiser missing"),
        (f"a={__file__}", ["a"], "is no standardiser"),
    ]:
        with pytest.raises(UserError) as told:
            named_standardisers([given], names)
        assert words in str(told.value)
