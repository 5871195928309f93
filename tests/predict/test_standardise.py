"""The standardiser: each method against its formula in float64, its file, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from unmask.errors import ConfigError, InputError, ModelError, OutputError
from unmask.predict.standardise import METHODS, Standardiser

Floats = NDArray[np.float32]
ABOUT = {"model": "abc", "level": "word", "layer": "3", "pool": "mean"}


def draw(rows: int, width: int, seed: int, scale: float = 1.0) -> Floats:
    """Correlated vectors, far from the origin and of unlike spread."""
    random = np.random.default_rng(seed)
    mixed = random.normal(size=(rows, width)) @ random.normal(size=(width, width))
    return (scale * (mixed + 5 * random.normal(size=width))).astype(np.float32)


cases = st.tuples(
    st.integers(20, 300), st.integers(1, 12), st.integers(0, 1000), st.sampled_from([1e-3, 1.0, 1e3])
)


@given(case=cases, cut=st.integers(1, 19))
@settings(deadline=None, max_examples=40)
def test_zscores_and_means(case: tuple[int, int, int, float], cut: int) -> None:
    vectors = draw(*case)
    exact = vectors.astype(np.float64)
    wanted = (exact - exact.mean(0)) / exact.std(0)
    blocks = [vectors[:cut], vectors[cut:]]
    np.testing.assert_allclose(Standardiser.fit(blocks, "zscore").apply(vectors), wanted, atol=1e-5)
    found = Standardiser.fit(vectors, "mean").apply(vectors)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact - exact.mean(0), atol=1e-5 * case[3] * 50)


@given(case=cases, remove=st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_all_but_the_top(case: tuple[int, int, int, float], remove: int) -> None:
    vectors = draw(*case)
    if remove >= case[1]:
        with pytest.raises(ConfigError, match="abtt cannot remove"):
            Standardiser.fit(vectors, "abtt", remove)
        return
    exact = vectors.astype(np.float64)
    moved = exact - exact.mean(0)
    top = np.linalg.svd(moved, full_matrices=False)[2][:remove]
    wanted = moved - moved @ top.T @ top
    found = Standardiser.fit([vectors[:7], vectors[7:]], "abtt", remove).apply(vectors)
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(moved).max())


@given(case=cases)
@settings(deadline=None, max_examples=40)
def test_whitened_vectors_have_the_identity_as_covariance(case: tuple[int, int, int, float]) -> None:
    vectors = draw(*case)
    fitted = Standardiser.fit(vectors, "whiten")
    exact = vectors.astype(np.float64) - vectors.astype(np.float64).mean(0)
    values, axes = np.linalg.eigh(exact.T @ exact / len(exact))
    if values[0] < 1e-6 * values[-1]:
        return  # so flat that the formula itself loses its digits
    np.testing.assert_allclose(np.cov(fitted.apply(vectors).T, ddof=0), np.eye(case[1]), atol=1e-3)
    np.testing.assert_allclose(fitted.apply(vectors), exact @ (axes / np.sqrt(values)) @ axes.T, atol=1e-2)


def test_the_usual_number_of_directions_is_a_hundredth() -> None:
    for width, remove in ((12, 1), (230, 2)):
        transform = Standardiser.fit(draw(300, width, 0), "abtt").transform
        assert np.linalg.matrix_rank(transform) == width - remove


@pytest.mark.parametrize("method", METHODS)
def test_a_dimension_that_never_varies_becomes_nought(method: str) -> None:
    vectors = draw(60, 6, 1)
    vectors[:, 2] = 0.1
    found = Standardiser.fit(vectors, method).apply(vectors)  # type: ignore[arg-type]
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 2], 0, atol=1e-5)
    assert np.abs(found[:, [0, 1, 3, 4, 5]]).min(0).max() > 0


def test_whitening_does_not_blow_up_what_is_rounding_alone() -> None:
    random = np.random.default_rng(7)
    plane = random.normal(size=(500, 5)) @ np.linalg.qr(random.normal(size=(6, 6)))[0][:5]
    vectors = (plane + 300).astype(np.float32)  # whose sixth direction differs by rounding only
    fitted = Standardiser.fit(vectors, "whiten")
    assert np.linalg.matrix_rank(fitted.transform) == 5
    np.testing.assert_allclose((fitted.apply(vectors) ** 2).mean(0).sum(), 5, rtol=1e-3)


def test_fewer_vectors_than_dimensions() -> None:
    few = draw(5, 8, 2)
    with pytest.raises(InputError, match="whitening 8 dimensions takes more than 8 vectors, not 5"):
        Standardiser.fit(few, "whiten")
    with pytest.raises(ConfigError, match="remove 5 of 8 directions, fitted on 5 vectors: choose 1 to 4"):
        Standardiser.fit(few, "abtt", 5)
    assert np.isfinite(Standardiser.fit(few, "zscore").apply(few)).all()


@pytest.mark.parametrize("method", METHODS)
def test_saved_and_opened_it_gives_the_same_bits(method: str, tmp_path: Path) -> None:
    vectors = draw(60, 6, 3)
    made = Standardiser.fit(vectors, method, about=ABOUT)  # type: ignore[arg-type]
    made.save(tmp_path / "z.safetensors")
    again = Standardiser.load(tmp_path / "z.safetensors")
    assert (again.method, dict(again.about)) == (method, ABOUT)
    np.testing.assert_array_equal(again.apply(vectors[:, None]), made.apply(vectors)[:, None])
    again.save(tmp_path / "y.safetensors")
    assert (tmp_path / "z.safetensors").read_bytes() == (tmp_path / "y.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": "xyz"}, "fitted on another model: fit one for these"),
        ({"layer": "4"}, "fitted on layer 3, these vectors are of 4"),
        ({"level": "sentence"}, "level word, these vectors are of sentence"),
        ({"pool": "max"}, "pool mean, these vectors are of max"),
    ],
)
def test_vectors_of_something_else_are_refused(changes: dict[str, str], says: str) -> None:
    made = Standardiser.fit(draw(20, 3, 4), "mean", about=ABOUT)
    made.check(ABOUT)
    made.check(ABOUT | {"model": ""})  # a model made in memory has no name
    with pytest.raises(ModelError, match=says):
        made.check(ABOUT | changes)


def test_mistakes(tmp_path: Path) -> None:
    vectors = draw(20, 3, 5)
    with pytest.raises(ConfigError, match="zscore, mean, abtt, whiten"):
        Standardiser.fit(vectors, "zscores")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="remove goes with abtt"):
        Standardiser.fit(vectors, "mean", 1)
    with pytest.raises(InputError, match="at least two vectors, not 1"):
        Standardiser.fit(vectors[:1], "mean")
    with pytest.raises(InputError, match="at least two vectors, not 0"):
        Standardiser.fit([], "mean")
    with pytest.raises(InputError, match="not finite"):
        Standardiser.fit(np.array([[1, 2], [np.nan, 3]]), "mean")
    with pytest.raises(InputError, match="widths 3 and 2"):
        Standardiser.fit([vectors, vectors[:, :2]], "mean")
    with pytest.raises(InputError, match=r"shape \(20,\)"):
        Standardiser.fit(vectors[:, 0], "mean")
    with pytest.raises(InputError, match="for vectors of width 3, these are of width 2"):
        Standardiser.fit(vectors, "mean").apply(vectors[:, :2])
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="cannot write"):
        Standardiser.fit(vectors, "mean").save(tmp_path / "folder")


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "z.safetensors"
    with pytest.raises(InputError, match="cannot read the standardiser .*: No such file"):
        Standardiser.load(path)
    made = Standardiser.fit(draw(20, 3, 6), "zscore", about=ABOUT)
    made.save(path)
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:-8], whole.replace(b"zscore", b"zscare"), whole[:20]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="no standardiser, or damaged"):
            Standardiser.load(path)
    Standardiser("mean", np.array([np.nan]), np.ones(1)).save(path)
    with pytest.raises(InputError, match="no standardiser, or damaged"):
        Standardiser.load(path)
