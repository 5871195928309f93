"""The index: exact search is the plain product, it survives interruptions and refuses what is not its own."""

import json
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unmask.analyse import neighbours
from unmask.analyse.neighbours import Index, add_file
from unmask.checkpoint import save_model
from unmask.cli import main
from unmask.config import ModelConfig
from unmask.errors import ConfigError, InputError, ModelError, OutputError
from unmask.model.network import Model
from unmask.predict import load, parts
from unmask.predict.parts import EmbedSettings
from unmask.predict.predictor import Predictor
from unmask.predict.standardise import Standardiser
from unmask.progress import Progress, Stage
from unmask.tokenizer import Tokenizer

BENCHES = [
    "Sentou-se no banco do jardim.",
    "O banco fechou as portas ao meio-dia.",
    "Os Bancos de pedra estavam molhados, e o banco da praça também.",
    "Bancou a viagem sozinho.",
]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "CHUNK_TEXTS", 50)


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Predictor:
    return load(folder, "cpu")


@pytest.fixture
def files(tmp_path: Path, sentences: list[str]) -> list[Path]:
    """Two files of unlike sizes."""
    for name, lines in (("a", sentences[:130]), ("b", sentences[130:])):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return [tmp_path / "a.txt", tmp_path / "b.txt"]


@pytest.fixture
def index(files: list[Path], loaded: Predictor, tmp_path: Path) -> Index:
    assert [add_file(tmp_path / "index", loaded, file) for file in files] == [130, 50]
    return Index(tmp_path / "index", loaded)


def test_exact_search_is_the_plain_product(index: Index, loaded: Predictor, sentences: list[str]) -> None:
    queries = ["O gato dorme.", "Nobody found the old letter.", sentences[140]]
    cosines = loaded.embed(queries, normalise=True) @ loaded.embed(sentences, normalise=True).T
    found = index.nearest(queries, 7)
    assert len(index) == 180
    assert len(index.places) == 3 + 1
    for row, best in zip(cosines, found, strict=True):
        np.testing.assert_allclose([one.score for one in best], np.sort(row)[::-1][:7], atol=1e-5)
        for one in best:
            number = one.number - 1 + (130 if one.file == "b.txt" else 0)
            assert sentences[number] == one.text == one.text[one.start : one.end]
            assert one.score == pytest.approx(row[number], abs=1e-5)
    assert (found[2][0].text, found[2][0].file, found[2][0].number) == (sentences[140], "b.txt", 11)
    assert len(index.nearest(queries[:1], 1000)[0]) == 180


def test_as_many_as_are_asked_for(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmask.analyse.neighbours._ROWS", 4)
    assert len(index.nearest(["O gato dorme."], 9)[0]) == 9


def test_recall_of_approximate_search(loaded: Predictor, tmp_path: Path, words: list[str]) -> None:
    pytest.importorskip("usearch")
    draw = random.Random(3)
    texts = [" ".join(draw.choices(words, k=5)) for _ in range(1500)]
    (tmp_path / "many.txt").write_text("\n".join(texts), "utf-8")
    add_file(tmp_path / "index", loaded, tmp_path / "many.txt")
    index, queries = Index(tmp_path / "index", loaded), texts[::30]
    exact, near = index.nearest(queries), index.nearest(queries, approximate=True)
    hits = [
        len({one.number for one in a} & {one.number for one in b}) for a, b in zip(exact, near, strict=True)
    ]
    assert np.mean(hits) / 10 > 0.95
    assert exact[5][0].score == pytest.approx(near[5][0].score, abs=1e-6)
    (graph,) = (tmp_path / "index").glob("*.usearch")
    (tmp_path / "more.txt").write_text("um gato\n", "utf-8")
    add_file(tmp_path / "index", loaded, tmp_path / "more.txt")
    again = Index(tmp_path / "index", loaded)
    assert again.nearest(["um gato"], 1, approximate=True)[0][0].file == "more.txt"
    assert not graph.exists()


def test_approximate_search_among_equal_texts(loaded: Predictor, tmp_path: Path, words: list[str]) -> None:
    pytest.importorskip("usearch")
    draw = random.Random(4)
    texts = ["um gato"] * 1500 + [" ".join(draw.choices(words, k=5)) for _ in range(60)]
    (tmp_path / "many.txt").write_text("\n".join(texts), "utf-8")
    add_file(tmp_path / "index", loaded, tmp_path / "many.txt")
    index, queries = Index(tmp_path / "index", loaded), texts[1490::20]
    exact, near = index.nearest(queries, 1560), index.nearest(queries, 70, approximate=True)
    for one, other in zip(exact, near, strict=True):
        once = {found.text: found.score for found in one}
        assert once == pytest.approx({found.text: found.score for found in other}, abs=1e-5)
        assert len(one) == len(other) == 61
        assert [found.score for found in other] == sorted((found.score for found in other), reverse=True)
    few = index.nearest(["um gato"], 3)[0]
    assert [found.times for found in few] == [1500, 1, 1]
    assert [found.text for found in few] == [found.text for found in index.nearest(["um gato"], 1560)[0][:3]]
    (graph,) = (tmp_path / "index").glob("*.usearch")
    graph.write_bytes(graph.read_bytes()[:-100])
    with pytest.raises(InputError, match="usearch is damaged: remove it and run the same command again"):
        index.nearest(queries, approximate=True)


def test_without_usearch(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ConfigError, match=r"usearch is not installed: pip install 'unmask\[analyse\]'"):
        index.nearest(["gato"], approximate=True)


def test_progress_of_uses_lasts_until_their_vectors_are_there(
    loaded: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("\n".join(BENCHES), "utf-8")
    add_file(tmp_path / "index", loaded, tmp_path / "a.txt", EmbedSettings(truncate=True))
    happened: list[str] = []

    class Told(Progress):
        @contextmanager
        def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
            yield Stage()
            happened.append(f"{label} done")

    embed = neighbours.directions
    monkeypatch.setattr(neighbours, "directions", lambda *a: happened.append("vectors") or embed(*a))
    Index(tmp_path / "index", loaded).nearest_uses("banco", BENCHES[0], progress=Told())
    assert happened == ["vectors", "vectors", "texts done"]  # the query's, the texts'


def test_uses_of_a_word(loaded: Predictor, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join([*BENCHES, BENCHES[1]]), "utf-8")
    add_file(tmp_path / "index", loaded, tmp_path / "a.txt", EmbedSettings(truncate=True))
    index = Index(tmp_path / "index", loaded)
    found = index.nearest_uses("banco", BENCHES[0], layer=2)
    shown = {(one.number, one.text[one.start : one.end], one.times) for one in found}
    assert shown == {(2, "banco", 2), (3, "banco", 1)}
    words = [BENCHES[0][s:e] for s, e in spans(loaded, BENCHES[0])]
    wanted = loaded.embed(BENCHES[0], "word", 2)[words.index("banco")]
    for one in found:
        other = [one.text[s:e] for s, e in spans(loaded, one.text)].index("banco")
        vector = loaded.embed(one.text, "word", 2)[other]
        cosine = vector @ wanted / np.linalg.norm(vector) / np.linalg.norm(wanted)
        assert one.score == pytest.approx(cosine, abs=1e-5)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    several = index.nearest_uses("banco", BENCHES[0], plural="pt")
    assert sorted(one.text[one.start : one.end] for one in several) == ["Bancos", "banco", "banco"]
    assert index.nearest_uses("banco", BENCHES[0], top=1, plural="pt") == several[:1]
    with pytest.raises(InputError, match="the query does not hold banco"):
        index.nearest_uses("banco", "O gato dorme.")
    with pytest.raises(InputError, match="no text of .* holds pedras, but for the query"):
        index.nearest_uses("pedras", "As pedras.")
    with pytest.raises(InputError, match="there is no layer all: "):
        index.nearest_uses("banco", BENCHES[0], layer="all")
    with pytest.raises(InputError, match="no layer 9"):
        index.nearest_uses("banco", BENCHES[0], layer=9)


def spans(model: Predictor, text: str) -> list[tuple[int, int]]:
    """First and last-plus-one character of every word."""
    encoding = model.tokenizer.encode(text)
    return [
        (int(mine[:, 0].min()), int(mine[:, 1].max()))
        for number in range(encoding.words.max() + 1)
        if len(mine := encoding.offsets[encoding.words == number])
    ]


def test_an_interrupted_addition_goes_on(
    index: Index, loaded: Predictor, tmp_path: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.txt").write_text("\n".join(sentences), "utf-8")
    made, calls = parts.make_part, 0

    def interrupted(*given: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        made(*given)

    monkeypatch.setattr(parts, "make_part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        add_file(index.folder, loaded, tmp_path / "c.txt")
    assert len(Index(index.folder, loaded)) == 180
    left = {path: path.stat().st_mtime_ns for path in (index.folder / "002").glob("*.safetensors")}
    assert left
    for place in (index.folder, index.folder / "002"):
        (place / ".half.0123abcd.tmp").write_bytes(b"by a killed process")
    assert add_file(index.folder, loaded, tmp_path / "c.txt") == 180
    assert all(path.stat().st_mtime_ns == before for path, before in left.items())
    again = Index(index.folder, loaded)
    assert not list(index.folder.rglob("*.tmp"))
    assert len(again) == 360
    first, second = again.nearest([sentences[0]], 2)[0]
    assert (first.file, first.text, first.times) == ("a.txt", sentences[0], 2)
    assert second.text != sentences[0]


def test_another_file_does_not_go_on_with_what_was_left(
    index: Index, loaded: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.txt").write_text("\n".join(["um gato"] * 60 + ["gato " * 90]), "utf-8")
    with pytest.raises(InputError, match="c.txt, line 61: the text has"):
        add_file(index.folder, loaded, tmp_path / "c.txt")
    (tmp_path / "d.txt").write_text("\n".join(["Nobody sleeps."] * 60), "utf-8")
    add_file(index.folder, loaded, tmp_path / "d.txt")
    (found,) = Index(index.folder, loaded).nearest(["Nobody sleeps."], 1)[0]
    assert (found.text, found.file, found.times) == ("Nobody sleeps.", "d.txt", 60)


def test_a_standardised_index(files: list[Path], loaded: Predictor, tmp_path: Path) -> None:
    lines = files[0].read_text("utf-8").splitlines()
    plain = loaded.embed(lines, layer=1)
    fitted = Standardiser.fit(plain, "zscore", about=loaded.about("sentence", 1, "mean"))
    add_file(tmp_path / "index", loaded, files[0], EmbedSettings(layer=1, standardise=fitted))
    unit = fitted.apply(plain)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    found = Index(tmp_path / "index", loaded).nearest(lines[:3], 4)
    for row, best in zip(unit[:3] @ unit.T, found, strict=True):
        np.testing.assert_allclose([one.score for one in best], np.sort(row)[::-1][:4], atol=1e-4)


def test_uses_in_a_standardised_index(loaded: Predictor, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(BENCHES), "utf-8")
    texts = Standardiser.fit(loaded.embed(BENCHES), "mean", about=loaded.about("sentence", -1, "mean"))
    add_file(tmp_path / "index", loaded, tmp_path / "a.txt", EmbedSettings(standardise=texts))
    index = Index(tmp_path / "index", loaded)
    with pytest.raises(ConfigError, match="fit on words .*, and give that with --standardise"):
        index.nearest_uses("banco", BENCHES[0])
    with pytest.raises(ModelError, match="fitted on level sentence, these vectors are of word"):
        index.nearest_uses("banco", BENCHES[0], standardise=texts)
    words = np.concatenate(loaded.embed(BENCHES, "word", 2))
    fitted = Standardiser.fit(words, "zscore", about=loaded.about("word", 2, "mean"))
    found = index.nearest_uses("banco", BENCHES[0], layer=2, standardise=fitted)
    vectors = []
    for text in (BENCHES[0], *(one.text for one in found)):
        place = [text[start:end] for start, end in spans(loaded, text)].index("banco")
        moved = (loaded.embed(text, "word", 2)[place] - words.mean(0)) / words.std(0)
        vectors.append(moved / np.linalg.norm(moved))
    wanted = np.array(vectors[1:]) @ vectors[0]
    np.testing.assert_allclose([one.score for one in found], wanted, atol=1e-4)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_an_index_whose_making_was_interrupted(files: list[Path], loaded: Predictor, tmp_path: Path) -> None:
    fitted = Standardiser.fit(loaded.embed(["um gato", "um velho"]), "mean")
    (tmp_path / "index" / ".work").mkdir(parents=True)
    fitted.save(tmp_path / "index" / "standardiser.safetensors")
    add_file(tmp_path / "index", loaded, files[0])
    assert Index(tmp_path / "index", loaded).settings.standardise is None


def test_another_standardiser_in_its_place(files: list[Path], loaded: Predictor, tmp_path: Path) -> None:
    fitted = Standardiser.fit(loaded.embed(["um gato", "um velho"]), "mean")
    add_file(tmp_path / "index", loaded, files[0], EmbedSettings(standardise=fitted))
    Standardiser.fit(loaded.embed(["um gato", "a carta"]), "mean").save(
        tmp_path / "index" / "standardiser.safetensors"
    )
    with pytest.raises(ModelError, match=r"made otherwise \(standardise differ by now\)"):
        Index(tmp_path / "index", loaded)
    (tmp_path / "index" / "standardiser.safetensors").unlink()
    with pytest.raises(InputError, match="cannot read the standardiser"):
        Index(tmp_path / "index", loaded)


def test_what_is_too_long_is_cut_off_when_asked(index: Index, loaded: Predictor, tmp_path: Path) -> None:
    long = "gato " * 90
    (tmp_path / "c.txt").write_text(f"um velho\n{long}", "utf-8")
    with pytest.raises(InputError, match="c.txt, line 2: the text has"):
        add_file(index.folder, loaded, tmp_path / "c.txt")
    assert add_file(index.folder, loaded, tmp_path / "c.txt", EmbedSettings(truncate=True)) == 2
    again = Index(index.folder, loaded)
    with pytest.raises(InputError, match="the text has"):
        again.nearest([long])
    ((found,),) = again.nearest([long], 1, truncate=True)
    assert (found.text, found.number) == (long, 2)
    assert found.score == pytest.approx(1, abs=1e-5)


def test_refusals(
    index: Index, files: list[Path], loaded: Predictor, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    config = ModelConfig(vocab_size=tokenizer.vocab_size, width=24, layers=3, heads=3, inner=48, positions=40)
    save_model(Model(config, ("mlm",), torch.Generator().manual_seed(9)), tmp_path / "other", tokenizer)
    other = load(tmp_path / "other", "cpu")
    with pytest.raises(ModelError, match=r"index was built by another model \(model\): use that one"):
        Index(index.folder, other)
    with pytest.raises(InputError, match="a.txt is in .*index already"):
        add_file(index.folder, loaded, files[0])
    (tmp_path / "c.txt").write_text("um\n")
    with pytest.raises(ModelError, match="another model"):
        add_file(index.folder, other, tmp_path / "c.txt")
    with pytest.raises(ConfigError, match="how its vectors are made was decided with it"):
        add_file(index.folder, loaded, tmp_path / "c.txt", EmbedSettings(layer=1))
    with pytest.raises(ConfigError, match="one vector for each text"):
        add_file(tmp_path / "new", loaded, files[0], EmbedSettings("word"))
    with pytest.raises(InputError, match="there is no index at .*new: make one with --add FILE"):
        Index(tmp_path / "new", loaded)
    with pytest.raises(InputError, match="there is no index at"):
        Index(files[0], loaded)
    with pytest.raises(OutputError, match="holds other things and no index"):
        add_file(tmp_path, loaded, files[0])
    with pytest.raises(InputError, match="at least 1"):
        index.nearest(["gato"], 0)
    (index.folder / "000" / "000001.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match="000001.safetensors is damaged: build the index again"):
        Index(index.folder, loaded).nearest(["gato"])
    whole = json.loads((index.folder / "index.json").read_text("utf-8"))
    broken = [whole | {"settings": {"colour": 1}}, whole | {"files": [{}]}, whole | {"vectors": {}}]
    for content in ({}, [], {"settings": {}}, *broken):
        (index.folder / "index.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match="index.json is damaged"):
            Index(index.folder, loaded)


def test_after_a_long_text_the_index_is_made_with_truncate(loaded: Predictor, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("um gato\n" + "gato " * 90, "utf-8")
    with pytest.raises(InputError, match="line 2: the text has"):
        add_file(tmp_path / "index", loaded, tmp_path / "a.txt")
    with pytest.raises(InputError, match="there is no index"):
        Index(tmp_path / "index", loaded).nearest(["gato"])
    assert add_file(tmp_path / "index", loaded, tmp_path / "a.txt", EmbedSettings(truncate=True)) == 2
    assert neighbours.Index(tmp_path / "index", loaded).settings.truncate


def test_what_cannot_be_added_leaves_nothing_behind(index: Index, loaded: Predictor, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "numbers.csv").write_text("a,b\n1,2\n")
    fitted = Standardiser.fit(loaded.embed(["um gato", "um velho"]), "mean")
    (tmp_path / "there").mkdir()
    before = {path.relative_to(index.folder) for path in index.folder.rglob("*")} - {
        Path(".work/adding.json")
    }
    for name in ("empty.txt", "numbers.csv"):
        for folder in ("new", "there"):
            with pytest.raises(InputError, match=name):
                add_file(tmp_path / folder, loaded, tmp_path / name, EmbedSettings(standardise=fitted))
        assert not (tmp_path / "new").exists()
        assert not list((tmp_path / "there").iterdir())
        with pytest.raises(InputError, match=name):
            add_file(index.folder, loaded, tmp_path / name)
        assert {path.relative_to(index.folder) for path in index.folder.rglob("*")} - {
            Path(".work/adding.json")
        } == before


@pytest.mark.parametrize("name", [".work/parts/000.bin", "standardiser.safetensors", ".work"])
def test_what_another_made_is_no_place_for_an_index(loaded: Predictor, tmp_path: Path, name: str) -> None:
    """The first is what an unfinished `unmask prepare` leaves."""
    (tmp_path / "empty.txt").touch()
    foreign = tmp_path / "there" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"hours of work")
    with pytest.raises(OutputError, match="holds other things and no index: name a new folder"):
        add_file(tmp_path / "there", loaded, tmp_path / "empty.txt")
    assert foreign.read_bytes() == b"hours of work"
    assert len(list((tmp_path / "there").iterdir())) == 1


def test_what_was_there_before_stays(index: Index, loaded: Predictor, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    fitted = Standardiser.fit(loaded.embed(["um gato", "um velho"]), "mean")
    begun = tmp_path / "begun"
    (begun / ".work").mkdir(parents=True)
    fitted.save(begun / "standardiser.safetensors")
    shutil.rmtree(index.folder / ".work")  # of an index that was copied without it
    for folder, settings in ((begun, EmbedSettings(standardise=fitted)), (index.folder, None)):
        before = {*folder.rglob("*")}
        with pytest.raises(InputError, match="empty"):
            add_file(folder, loaded, tmp_path / "empty.txt", settings)
        assert {*folder.rglob("*")} - {begun / ".work" / "lock"} == before


def test_parts_of_a_new_index_stay(loaded: Predictor, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(["um gato"] * 60 + ["gato " * 90]), "utf-8")
    with pytest.raises(InputError, match="line 61: the text has"):
        add_file(tmp_path / "index", loaded, tmp_path / "a.txt")
    with pytest.raises(InputError, match="holds no text yet"):
        Index(tmp_path / "index", loaded).nearest(["gato"])
    (left,) = (tmp_path / "index" / "000").iterdir()
    before = left.stat().st_mtime_ns
    assert add_file(tmp_path / "index", loaded, tmp_path / "a.txt", EmbedSettings(truncate=True)) == 61
    assert left.stat().st_mtime_ns == before


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    def command(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["unmask", "similar", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        output = capsys.readouterr()
        return int(caught.value.code or 0), output.out or output.err

    return command


def test_an_interruption_keeps_what_is_done(
    run: Any, folder: Path, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(neighbours, "make_parts", stopped)
    _, told = run("--model", folder, "--index", tmp_path / "index", "--add", files[0], "-q")
    assert told == "what is done is kept: the same command goes on\n"


def test_the_command(run: Any, folder: Path, files: list[Path], tmp_path: Path, sentences: list[str]) -> None:
    given = ("--model", folder, "--index", tmp_path / "index")
    assert run(*given, "--add", files[0], "-q") == (0, f"130 texts added, 130 in all: {tmp_path / 'index'}\n")
    status, out = run(*given, sentences[3], "--top", 3)
    assert (status, len(out.splitlines())) == (0, 3)
    assert out.splitlines()[0] == f"1.0000  {sentences[3]}  (a.txt, 4)"
    status, out = run(*given, "--add", files[1], "--json", sentences[2], "--word", "gato", "-q")
    result = json.loads(out)
    assert (result["texts"], result["added"], len(result["found"])) == (180, 50, 10)
    assert all(one["text"][one["start"] : one["end"]] == "gato" for one in result["found"])
    status, out = run(*given, sentences[2], "--word", "gato", "-q", "--top", 1)
    assert "[gato]" in out
    long = f"{'telhado ' * 16}gato{' telhado' * 16}"
    (tmp_path / "long.txt").write_text(long, "utf-8")
    alone = (*given[:3], tmp_path / "long")
    status, out = run(*alone, "--add", tmp_path / "long.txt", sentences[2], "--word", "gato", "-q")
    shown = out.splitlines()[1].partition("  ")[2]
    assert shown == f"…{'telhado ' * 8}[gato]{' telhado' * 8}…  (long.txt, 1)"
    status, out = run(*alone, sentences[2], "-q")  # a text may be a page
    assert out.partition("  ")[2] == f"{long[:196]}…  (long.txt, 1)\n"
    status, out = run(*alone, sentences[2], "-q", "--json")
    assert json.loads(out)["found"][0]["text"] == long
    (tmp_path / "twice.txt").write_text("um gato\num gato\n", "utf-8")
    status, out = run(*given, "--add", tmp_path / "twice.txt", "um gato", "--top", 1, "-q")
    assert out.splitlines()[1] == "1.0000  um gato  (twice.txt, 1; 2 times)"
    for arguments, says in (
        ((), "nothing to do: give a query, or --add FILE"),
        ((" ",), "the query is empty: give a text to find the like of"),
        (
            ("--add", *files),
            f"{files[1]} is a file, and --add takes one: add each file with a command of its",
        ),
        (("--add", *files, files[0]), f"{files[1]} is a file, and --add takes one"),
        (
            (files[1],),
            f"{files[1]} is a file, and a query is a text: --add {files[1]} puts its lines into the",
        ),
        (("um", "gato"), "a query is one text: write quotation marks around 'um gato'"),
        (("--add", files[0], "--word", "gato"), "--word asks for uses like that in a query"),
        (("gato", "--plural", "pt"), "--plural goes with --word"),
        (("gato", "--word", ""), "is no word"),
        (("--add", files[0], "--approximate"), "--approximate is a way to search: give a query"),
        (("gato", "--pool", "cls"), "--pool is for a new index"),
        (("gato", "--standardise", files[0]), "--standardise is for a new index"),
        (("um gato", "--word", "gato", "--standardise", files[0]), "is no standardiser, or damaged"),
        (("um gato", "--word", "gato", "--truncate"), "--truncate is for a new index"),
        (("um gato", "--word", "gato", "--approximate"), "--approximate searches texts"),
        (("gato", "--layer", "2"), "--layer is for a new index: give it with --add FILE"),
        (("--add", tmp_path / "no.txt"), "there is no"),
        (("--add", files[0], "--layer", "x"), "--layer x: write a number or last4"),
        (("--add", files[0], "--layer", "9"), "the blocks, or last4\n"),
    ):
        status, out = run(*given, *arguments)
        assert status == 2
        assert says in out
        assert len(out.splitlines()) == 1
