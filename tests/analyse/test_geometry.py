"""The geometry of a model: the right vectors are compared, standardised, saved, shown."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from unmask.analyse.corpus import sample, sentences
from unmask.analyse.geometry import RAW, Geometry, Sampling, ScoredPair, Vectors, measure, spearman
from unmask.analyse.geometry_page import charts, layer_rows, write_geometry
from unmask.analyse.intrinsic import expected_cosine, self_similarity
from unmask.cli import app
from unmask.errors import InputError, UserError
from unmask.predict import MaskedLM, load
from unmask.predict.standardise import METHODS, Standardiser
from unmask.text import find_sources

SMALL = Sampling(fitted=300, kinds=12, uses=6, whole=15)


@pytest.fixture(scope="module")
def vectors(model: MaskedLM, sentences: list[str]) -> Vectors:
    return Vectors(model, sentences, SMALL)


@pytest.fixture(scope="module")
def found(vectors: Vectors) -> Geometry:
    return measure(vectors)


def test_vectors_are_those_of_the_words(model: MaskedLM, vectors: Vectors) -> None:
    """Random words come from different sentences; uses of a word are uses of that word."""
    places = {row: place for place, row in vectors._rows.items()}
    assert len({places[row][0] for row in vectors.random}) == len(vectors.sentences) == len(vectors.random)
    assert not set(vectors.fitted) & set(vectors.random)
    assert vectors.groups.shape == (12, 6)
    for kind, rows in zip(vectors.kinds, vectors.groups, strict=True):
        assert len({places[row][0] for row in rows}) == 6
        for row in rows[:2]:
            sentence, word = places[row]
            text = vectors.sentences[sentence]
            encoding = model.tokenizer.encode(text)
            touched = encoding.words == word
            starts, ends = encoding.offsets[touched].T
            assert text[starts.min() : ends.max()].lower() == kind
            expected = model.hidden(text)[:, touched].mean(1)
            assert vectors.words[:, row] == pytest.approx(expected, abs=1e-5)


def test_measures_are_those_of_the_chosen_rows(vectors: Vectors, found: Geometry) -> None:
    assert found.methods == (RAW, *METHODS)
    assert [each.layer for each in found.of(RAW)] == [0, 1, 2, 3]
    last = found.of(RAW)[-1]
    assert last.anisotropy == expected_cosine(vectors.words[3, vectors.random])
    assert last.self_similarity == self_similarity(vectors.words[3, vectors.groups])
    assert last.adjusted_self == pytest.approx((last.self_similarity or 0) - last.anisotropy.value)
    assert last.similarity is None
    by_mean = found.of("mean")[-1]
    fitted = vectors.words[3, vectors.fitted].astype(np.float64).mean(0)
    expected = expected_cosine(vectors.words[3, vectors.random] - fitted)
    assert by_mean.anisotropy.value == pytest.approx(expected.value, abs=1e-6)
    # Moving all vectors alike leaves their distances and their covariance as they were.
    assert by_mean.two_nn == pytest.approx(last.two_nn, rel=1e-3)
    assert by_mean.participation == pytest.approx(last.participation, rel=1e-3)


def test_standardising_removes_the_anisotropy(found: Geometry) -> None:
    """Every vector of an untrained model has much in common; nothing of it is left."""
    for method in METHODS:
        for raw, after in zip(found.of(RAW)[1:], found.of(method)[1:], strict=True):
            assert raw.anisotropy.value > 0.2
            assert abs(after.anisotropy.value) < 0.1


def test_similarity_is_that_of_embed(model: MaskedLM, vectors: Vectors) -> None:
    pairs = [
        ScoredPair(a, b, float(len(set(a.split()) & set(b.split()))))
        for a, b in zip(vectors.sentences[::5], vectors.sentences[::-5], strict=True)
    ]
    found = measure(vectors, pairs)
    fitted = vectors.standardiser(2, "zscore", "sentence")
    one, two = (
        model.embed([pair[side] for pair in pairs], layer=2, normalise=True, standardise=fitted)
        for side in (0, 1)
    )
    expected = spearman((one * two).sum(1), np.array([pair.score for pair in pairs]))
    assert found.pairs == len(pairs)
    after = found.of("zscore")[2].similarity
    assert after is not None
    assert after.value == pytest.approx(expected.value, abs=1e-6)


def test_spearman_and_its_interval() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    first = rng.normal(size=500)
    second = first + rng.normal(size=500)
    found = spearman(first, second)
    assert found.value == pytest.approx(spearmanr(first, second).statistic)
    assert found.low < found.value < found.high
    assert found.high - found.low == pytest.approx(0.10, abs=0.02)
    assert spearman(first, first).value == 1
    assert spearman(first, np.ones(500)).low == -1


def test_too_little_for_a_method_is_a_note(model: MaskedLM, sentences: list[str]) -> None:
    found = measure(Vectors(model, sentences[:40], Sampling(fitted=20, uses=50)))
    assert "whiten" not in found.methods
    assert any("whiten is left out: whitening 24 dimensions" in note for note in found.notes)
    assert any("no word occurs in 50 sentences" in note for note in found.notes)
    assert found.of(RAW)[0].self_similarity is None


def test_page_and_json(found: Geometry, tmp_path: Path) -> None:
    write_geometry(tmp_path, found, "a model")
    values = json.loads((tmp_path / "geometry.json").read_text("utf-8"))
    assert values["measures"][0]["anisotropy"]["value"] == found.measures[0].anisotropy.value
    assert values["measures"][0]["adjusted"]["self_similarity"] == found.measures[0].adjusted_self
    page = (tmp_path / "geometry.html").read_text("utf-8")
    assert "<h1>Geometry of a model</h1>" in page
    assert page.count("<svg") == len(charts(found)) == 4
    assert "<script" not in page
    assert f"{found.of('whiten')[1].anisotropy.value:.3f} ±" in page
    unknown = replace(found, measures=tuple(replace(each, two_nn=None) for each in found.measures))
    assert layer_rows(unknown)[0][9] == "–"
    assert "TwoNN" not in charts(unknown)[2].svg


def test_bad_input(model: MaskedLM, vectors: Vectors, sentences: list[str]) -> None:
    with pytest.raises(InputError, match="there is no layer 9: 0 is the embeddings, 1 to 3 the blocks$"):
        vectors.standardiser(9, "zscore")
    with pytest.raises(UserError, match="word or sentence, not 'token'"):
        vectors.standardiser(1, "zscore", "token")
    with pytest.raises(InputError, match="5 sentences of 3 words or more: too few"):
        Vectors(model, sentences[:5])
    with pytest.raises(InputError, match="at least 20 pairs"):
        measure(vectors, [ScoredPair("a", "b", 1.0)])


def test_command(folder: Path, text_file: Path, tmp_path: Path) -> None:
    rows = [f"{n}\tO gato viu a carta {n}.\tA vizinha viu o rio {n * n}." for n in range(25)]
    (tmp_path / "pairs.tsv").write_text("score\ttext\tpair\n" + "\n".join(rows), "utf-8")
    command = [
        "analyse", "geometry", str(text_file), "-m", str(folder), "-o", str(tmp_path / "out"), "-q",
        "--similarity", str(tmp_path / "pairs.tsv"), "--save-standardiser", str(tmp_path / "z.safetensors"),
        "--layer", "2", "--method", "abtt", "--sentences", "100",
    ]  # fmt: skip
    shown = CliRunner().invoke(app, command, catch_exceptions=False).stdout
    assert "similarity of 25 pairs of texts (Spearman)" in shown
    assert (tmp_path / "out" / "geometry.html").exists()
    saved = Standardiser.load(tmp_path / "z.safetensors")
    assert (saved.method, saved.about["layer"], saved.about["level"]) == ("abtt", "2", "word")
    model = load(folder, "cpu")
    plain, moved = (model.embed("O gato viu.", "word", 2, standardise=each) for each in (None, saved))
    assert moved == pytest.approx(saved.apply(plain), abs=1e-6)
    with pytest.raises(UserError, match="layer 2"):
        model.embed("O gato viu.", "word", 1, standardise=saved)
    printed = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False).stdout
    assert json.loads(printed) == json.loads((tmp_path / "out" / "geometry.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--save-standardiser", "z.safetensors", "--layer", "7"], "there is no layer 7"),
        (["--similarity", "nowhere.tsv"], "there is no nowhere.tsv"),
        (["--layer", "0", "--level", "word"], "--layer, --level: without --save-standardiser"),
        (["--method", "mean"], "--method: without --save-standardiser this does nothing"),
        (["--label-column", "score"], "--label-column: without --similarity this does nothing"),
    ],
)
def test_command_refuses(folder: Path, text_file: Path, options: list[str], message: str) -> None:
    command = ["analyse", "geometry", str(text_file), "-m", str(folder), "-q", *options]
    failed = CliRunner().invoke(app, command)
    assert isinstance(failed.exception, UserError)
    assert message in str(failed.exception)


def test_an_empty_corpus(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n \n", "utf-8")
    with pytest.raises(InputError, match="there is no text in .*empty.txt"):
        list(sentences(find_sources([str(tmp_path / "empty.txt")])))


def test_a_sample_is_uniform_and_in_order() -> None:
    drawn = [sample(range(20), 5, seed) for seed in range(2000)]
    assert all(each == sorted(set(each)) and len(each) == 5 for each in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=20)
    assert abs(counts - 500).max() < 100
    assert sample(range(3), 5) == [0, 1, 2]
