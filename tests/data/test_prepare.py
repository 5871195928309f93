"""Raw text to shards: the same bytes whatever the workers, machines or interruptions."""

import io
import json
import os
import pickle
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Heard

from unmask.config import Recipe, TokenizerConfig, load_recipe
from unmask.data import join, shards
from unmask.data import prepare as prepare_module
from unmask.data.prepare import Job, file_batches, prepare
from unmask.data.shards import MANIFEST, Corpus, read_manifest
from unmask.errors import ConfigError, CorpusError, InputError, OutputError
from unmask.processes import folder_lock
from unmask.progress import Progress, Stage
from unmask.text import SPLITS, find_sources, read_documents, split_of, text_hash
from unmask.text.dedup import deduplicate
from unmask.tokenizer import Tokenizer
from unmask.tokenizer.build import build_tokenizer

SETTINGS = ["prepare.valid=0.15", "prepare.test=0.15", "prepare.shard_tokens=600"]


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe(None, SETTINGS)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "CHUNK_CHARS", 900)
    monkeypatch.setattr(prepare_module, "BATCH_BYTES", 9_000)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_every_document_once_in_its_split(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, texts: list[str], recipe: Recipe
) -> None:
    manifest = prepare(find_sources([str(text_folder)]), tokenizer, tmp_path / "out", recipe, workers=1)
    assert manifest["documents_read"] == len(texts)
    assert manifest["dropped"] == {}
    assert len(manifest["splits"]["train"]["shards"]) > 3
    for number, split in enumerate(SPLITS):
        corpus = Corpus.open(tmp_path / "out", split)
        expected = [t for t in texts if split_of(text_hash(t), 0.15, 0.15) == number]
        assert corpus.document_count == len(expected) > 0
        found = [corpus.document(i)[0].tolist() for i in range(corpus.document_count)]
        assert found == [list(tokenizer.encode(text, special=False).ids) for text in expected]
        assert corpus.lengths.tolist() == [len(ids) for ids in found]
        assert corpus.token_count == sum(map(len, found)) == manifest["splits"][split]["tokens"]
        assert corpus.vocab_size == tokenizer.vocab_size
        assert (corpus.special.cls, corpus.special.mask) == (tokenizer.cls_id, tokenizer.mask_id)
    assert Tokenizer.load(tmp_path / "out" / "tokenizer").fingerprint == tokenizer.fingerprint
    assert load_recipe(tmp_path / "out" / "recipe.toml") == recipe
    shards.verify(tmp_path / "out")


def test_bytes_do_not_depend_on_workers_or_machines(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    sources = find_sources([str(text_folder)])
    prepare(sources, tokenizer, tmp_path / "one", recipe, workers=1)
    prepare(sources, tokenizer, tmp_path / "two", recipe, workers=2)
    for jobs in (2, 5):  # fewer and more machines than there are batches of files
        for number in reversed(range(1, jobs + 1)):
            prepare(sources, tokenizer, tmp_path / f"jobs{jobs}", recipe, 1, Job(number, jobs))
        made = tree(tmp_path / f"jobs{jobs}" / ".work" / "parts")
        prepare(sources, tokenizer, tmp_path / f"jobs{jobs}", recipe, workers=1)
        assert len(made) > 6
    one = tree(tmp_path / "one")
    assert one == tree(tmp_path / "two") == tree(tmp_path / "jobs2") == tree(tmp_path / "jobs5")


def test_jobs_share_the_work(text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe) -> None:
    sources = find_sources([str(text_folder)])
    made = []
    for number in (1, 2, 3):
        prepare(sources, tokenizer, tmp_path / str(number), recipe, 1, Job(number, 3))
        made.append({p.name for p in (tmp_path / str(number) / ".work" / "parts").glob("*.safetensors")})
        assert made[-1]
    prepare(sources, tokenizer, tmp_path / "all", recipe, 1, Job(1, 1))
    assert len(made[0] | made[1] | made[2]) == sum(map(len, made))


class Stop(Exception):
    pass


@pytest.mark.parametrize("after", [0, 1, 3, 6, 9])
def test_interrupted_goes_on_and_ends_the_same(
    text_folder: Path,
    tmp_path: Path,
    tokenizer: Tokenizer,
    recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    after: int,
) -> None:
    sources = find_sources([str(text_folder)])
    prepare(sources, tokenizer, tmp_path / "whole", recipe, workers=1)
    writes = 0
    real = os.replace

    def failing(source: str, target: str) -> None:
        nonlocal writes
        writes += 1
        if writes > after:
            raise Stop
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda self, target: failing(self, target))
        with pytest.raises(Stop):
            prepare(sources, tokenizer, tmp_path / "broken", recipe, workers=1)
    with pytest.raises(CorpusError, match="unfinished|not a corpus"):
        Corpus.open(tmp_path / "broken")
    assert not list((tmp_path / "broken").rglob("*.tmp"))
    prepare(sources, tokenizer, tmp_path / "broken", recipe, workers=1)
    assert tree(tmp_path / "broken") == tree(tmp_path / "whole")


def test_duplicates_are_dropped_wherever_they_are(
    tmp_path: Path, tokenizer: Tokenizer, texts: list[str], recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = [*texts, texts[3], texts[3] + " ", *texts[5:9]]
    (tmp_path / "a.txt").write_text("\n\n".join(repeated), "utf-8")
    sources = find_sources([str(tmp_path / "a.txt")])
    manifest = prepare(sources, tokenizer, tmp_path / "one", recipe, workers=1)
    assert manifest["dropped"] == {"duplicate": 6}
    monkeypatch.setattr(join, "_MOST_HASHES", 7)  # many passes over the hashes give the same
    prepare(sources, tokenizer, tmp_path / "many", recipe, workers=1)
    assert tree(tmp_path / "one") == tree(tmp_path / "many")
    kept = load_recipe(None, [*SETTINGS, "prepare.deduplicate=false"])
    manifest = prepare(sources, tokenizer, tmp_path / "kept", kept, workers=1)
    assert manifest["dropped"] == {}
    assert sum(s["documents"] for s in manifest["splits"].values()) == len(repeated)


def test_dropped_documents_are_counted_by_reason(
    tmp_path: Path, tokenizer: Tokenizer, texts: list[str]
) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join([*texts, "curto", "1234 5678 9012 3456 !!!"]), "utf-8")
    recipe = load_recipe(None, ["text.min_chars=10", "text.min_letters=0.5"])
    manifest = prepare(find_sources([str(tmp_path / "a.txt")]), tokenizer, tmp_path / "o", recipe, workers=1)
    assert manifest["dropped"] == {"letters": 1, "short": 1}


def test_languages_are_kept(tmp_path: Path, tokenizer: Tokenizer, texts: list[str], recipe: Recipe) -> None:
    (tmp_path / "pt.txt").write_text("\n\n".join(texts[:40]), "utf-8")
    (tmp_path / "en.jsonl").write_text(
        "\n".join(json.dumps({"text": t, "l": "en"}) for t in texts[40:]), "utf-8"
    )
    recipe = load_recipe(None, [*SETTINGS, "text.language_column=l"])
    sources = find_sources([f"pt={tmp_path}/pt.txt", str(tmp_path / "en.jsonl")])
    manifest = prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1)
    assert manifest["languages"] == ["en", "pt"]
    corpus = Corpus.open(tmp_path / "o")
    by_name = [corpus.language_names[number] for number in corpus.languages]
    assert by_name == sorted(by_name, reverse=True)
    facts = manifest["splits"]["train"]["languages"]
    assert {name: by_name.count(name) for name in ("en", "pt")} == {
        n: f["documents"] for n, f in facts.items()
    }
    assert sum(f["tokens"] for f in facts.values()) == corpus.token_count


def test_run_again_does_nothing(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    sources = find_sources([str(text_folder)])
    first = prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "o").rglob("*")}
    assert prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1) == first
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "o").rglob("*")} == before


def test_other_text_of_the_same_size_is_not_taken_for_the_old(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    sources = find_sources([str(text_folder)])
    prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1)
    changed = text_folder / "a.txt"
    changed.write_text(changed.read_text("utf-8").replace("gato", "rato"), "utf-8")
    with pytest.raises(OutputError, match=r"a\.txt is newer than the corpus"):
        prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1)
    (tmp_path / "o" / "manifest.json").touch()
    prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1)


def test_a_file_dated_in_the_future_is_prepared_once(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    future = time.time() + 1e6
    os.utime(text_folder / "a.txt", (future, future))
    sources, out = find_sources([str(text_folder)]), tmp_path / "my corpus"
    first = prepare(sources, tokenizer, out, recipe, workers=1)
    assert prepare(sources, tokenizer, out, recipe, workers=1) == first
    os.utime(text_folder / "a.txt", (future + 9, future + 9))  # touching the manifest would not help
    with pytest.raises(OutputError) as told:
        prepare(sources, tokenizer, out, recipe, workers=1)
    advice = str(told.value).partition("the text is the same, ")[2]
    subprocess.run(shlex.split(advice), check=True)
    assert prepare(sources, tokenizer, out, recipe, workers=1) == first


def test_standard_input_is_read_once_by_one_machine(
    tmp_path: Path, tokenizer: Tokenizer, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = find_sources(["-"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n\n".join(texts).encode())))
    with pytest.raises(ConfigError, match="standard input cannot be shared among machines"):
        prepare(piped, tokenizer, tmp_path / "o", workers=1, job=Job(1, 2))
    prepare(piped, tokenizer, tmp_path / "o", workers=1)
    with pytest.raises(OutputError, match="holds a finished corpus"):
        prepare(piped, tokenizer, tmp_path / "o", workers=1)


def test_a_column_that_is_no_language_is_refused_soon(tmp_path: Path, tokenizer: Tokenizer) -> None:
    rows = (f'{{"text": "gato {n}", "id": "{n}"}}\n' for n in range(shards.MOST_LANGUAGES + 1))
    (tmp_path / "a.jsonl").write_text("".join(rows))
    by_id = load_recipe(None, ["text.language_column=id"])
    with pytest.raises(InputError, match=r"more than 10,000 languages.*text\.language_column"):
        prepare(find_sources([str(tmp_path / "a.jsonl")]), tokenizer, tmp_path / "o", by_id, workers=1)


def test_other_input_or_settings_are_refused(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    sources = find_sources([str(text_folder)])
    prepare(sources, tokenizer, tmp_path / "o", recipe, 1, Job(1, 2))
    other = load_recipe(None, ["text.min_chars=3"])
    with pytest.raises(
        CorpusError, match=r"unfinished corpus made with other settings \(text, prepare differ\)"
    ):
        prepare(sources, tokenizer, tmp_path / "o", other, workers=1)
    prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1)
    with pytest.raises(OutputError, match="made of other input or settings"):
        prepare(sources[:1], tokenizer, tmp_path / "o", recipe, workers=1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(OutputError, match="holds other files"):
        prepare(sources, tokenizer, tmp_path / "mine", recipe, workers=1)


def test_after_an_unreadable_input_is_mended_the_rest_is_not_made_again(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe, texts: list[str]
) -> None:
    bad = text_folder / "d.txt"
    bad.write_bytes("\n\n".join(texts).encode() * 3 + b"\n\nol\xe1\n")
    with pytest.raises(InputError, match=r"d\.txt.*byte"):
        prepare(find_sources([str(text_folder)]), tokenizer, tmp_path / "o", recipe, workers=2)
    parts = tmp_path / "o" / ".work" / "parts"
    finished = [p.stem for p in parts.glob("*.json")]
    done = {p: p.stat().st_mtime_ns for name in finished for p in parts.glob(f"{name}-*.safetensors")}
    assert len(done) > 3
    bad.write_bytes("\n\n".join(texts).encode() * 3 + "\n\nolá\n".encode())
    sources = find_sources([str(text_folder)])
    prepare(sources, tokenizer, tmp_path / "o", recipe, 1, Job(1, 2))
    assert {p: p.stat().st_mtime_ns for p in done} == done
    prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1)
    prepare(sources, tokenizer, tmp_path / "new", recipe, workers=1)
    assert tree(tmp_path / "o") == tree(tmp_path / "new")


def test_equal_files_in_two_folders_are_two_batches(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("o mesmo nome " * 1000)
        os.utime(tmp_path / folder / "a.txt", (1, 1))
    sources = find_sources([str(tmp_path / "x"), str(tmp_path / "y")])
    first, second = file_batches(sources)
    assert first.name != second.name
    os.utime(tmp_path / "x" / "a.txt", (2, 2))
    assert file_batches(sources)[0].name != first.name


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "header"])
def test_a_damaged_shard_is_named(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe, damage: str
) -> None:
    out = tmp_path / "o"
    prepare(find_sources([str(text_folder)]), tokenizer, out, recipe, workers=1)
    shard = out / "train" / "00001.safetensors"
    data = bytearray(shard.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
    elif damage == "header":
        data[:8] = (1 << 60).to_bytes(8, "little")
    shard.write_bytes(data[:-5] if damage == "cut" else data)
    if damage == "gone":
        shard.unlink()
    with pytest.raises(CorpusError, match=r"train/00001\.safetensors"):
        shards.verify(out)
    if damage != "flip":
        with pytest.raises(CorpusError, match=r"00001\.safetensors"):
            Corpus.open(out)


def test_another_vocabulary_is_noticed(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    """Of the same size, it would be saved with a model that never saw it."""
    out = tmp_path / "o"
    prepare(find_sources([str(text_folder)]), tokenizer, out, recipe, workers=1)
    assert shards.read_tokenizer(out).fingerprint == tokenizer.fingerprint
    vocabulary = out / "tokenizer" / "tokenizer.json"
    state = json.loads(vocabulary.read_text())
    entries = state["model"]["vocab"]
    one, other = list(entries)[-2:]
    entries[one], entries[other] = entries[other], entries[one]
    vocabulary.write_text(json.dumps(state))
    for look in (shards.verify, shards.read_tokenizer):
        with pytest.raises(
            CorpusError, match=r"tokenizer/tokenizer\.json changed .* bring it back, or delete"
        ):
            look(out)
    manifest = read_manifest(out)
    del manifest["vocabulary"]  # as those of before
    (out / MANIFEST).write_text(json.dumps(manifest))
    shards.verify(out)
    shards.read_tokenizer(out)


def test_bad_corpus_folders(tmp_path: Path, text_folder: Path, tokenizer: Tokenizer, recipe: Recipe) -> None:
    with pytest.raises(CorpusError, match="not a corpus"):
        Corpus.open(tmp_path)
    prepare(find_sources([str(text_folder)]), tokenizer, tmp_path / "o", recipe, workers=1)
    with pytest.raises(CorpusError, match="no split 'dev'"):
        Corpus.open(tmp_path / "o", "dev")
    manifest = tmp_path / "o" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(CorpusError, match="format 9"):
        Corpus.open(tmp_path / "o")
    for damaged in ("{", "[]", '{"format": 1}'):
        manifest.write_text(damaged)
        with pytest.raises(CorpusError, match=f"damaged: delete {tmp_path / 'o'} and run"):
            Corpus.open(tmp_path / "o")


def test_a_corpus_travels_to_other_processes_without_its_tokens(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    prepare(find_sources([str(text_folder)]), tokenizer, tmp_path / "o", recipe, workers=1)
    corpus = Corpus.open(tmp_path / "o", "valid")
    packed = pickle.dumps(corpus)
    assert len(packed) < 1000
    assert pickle.loads(packed).document(0)[0].tolist() == corpus.document(0)[0].tolist()


def test_small_files_travel_together_large_ones_alone(tmp_path: Path) -> None:
    for number, size in enumerate([10, 20, 10_000, 30, 8_960, 40]):
        (tmp_path / f"{number}.txt").write_text("x" * size)
    batches = file_batches(find_sources([str(tmp_path)]))
    assert [[s.name for s in batch.sources] for batch in batches] == [
        ["0.txt", "1.txt"], ["2.txt"], ["3.txt", "4.txt"], ["5.txt"],
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["0/2", "3/2", "x/2", "2", "1/0", "-1/2", "²/3"])
def test_bad_shares(text: str) -> None:
    with pytest.raises(ConfigError, match="i/n"):
        Job.parse(text)


def test_nothing_left_after_cleaning(tmp_path: Path, tokenizer: Tokenizer, heard: Heard) -> None:
    (tmp_path / "a.txt").write_text(" \n\n \n")
    (tmp_path / "b.txt").touch()
    for given in ("a.txt", "*.txt"):
        with pytest.raises(InputError, match=r"no documents of .*a.txt.* are left .* there is no text in"):
            prepare(
                find_sources([str(tmp_path / given)]), tokenizer, tmp_path / "o", workers=1, progress=heard
            )
        assert not (tmp_path / "o").exists()
    assert heard.said == []  # the error says it all


def test_an_input_that_cannot_be_read_leaves_nothing(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    for workers in (1, 2):
        with pytest.raises(InputError, match="there is no column text"):
            prepare(find_sources([str(tmp_path / "a.csv")]), tokenizer, tmp_path / "new", workers=workers)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_column_that_was_not_named_is_told_once(
    tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unmask.data.prepare.BATCH_BYTES", 1)  # a batch for every file
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"texto\nO gato {name} dorme.\n", "utf-8")
    sources = find_sources([str(tmp_path / "*.csv")])
    manifest = prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1, progress=heard)
    assert manifest["documents_read"] == 2
    assert heard.said == [f"{tmp_path / 'a.csv'}: the text is taken from the column texto"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_empty_file_is_passed_over_and_named(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe, jobs: int
) -> None:
    expected = tree(text_folder)
    prepare(find_sources([str(text_folder)]), tokenizer, tmp_path / "plain", recipe, workers=1)
    (text_folder / "ab.txt").touch()
    (text_folder / "bb.csv").write_text("text,lang\n")
    sources, heard = find_sources([str(text_folder)]), Heard()
    assert len(sources) == len(expected) + 2
    for number in range(1, jobs + 1):
        prepare(sources, tokenizer, tmp_path / "o", recipe, 1, Job(number, jobs), heard)
    prepare(sources, tokenizer, tmp_path / "o", recipe, 1, progress=heard)
    (line,) = heard.said
    assert line.startswith("passed over 2 without any text: ")
    assert "ab.txt" in line
    assert "bb.csv" in line
    plain, found = tree(tmp_path / "plain"), tree(tmp_path / "o")
    assert plain.pop("manifest.json") != found.pop("manifest.json")  # it lists the files
    assert plain == found


@pytest.mark.skipif(sys.platform == "darwin", reason="its names are characters")
def test_names_of_bytes_that_are_no_characters(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    (text_folder / "a.txt").rename(text_folder / os.fsdecode("olá.txt".encode("latin-1")))
    (text_folder / os.fsdecode("só.txt".encode("latin-1"))).touch()
    sources, heard = find_sources([str(text_folder)]), Heard()
    manifest = prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1, progress=heard)
    names = [source["name"] for source in read_manifest(tmp_path / "o")["sources"]]
    assert names == ["b.jsonl", "c.txt", r"ol\xe1.txt", r"s\xf3.txt"]
    assert heard.said == [rf"passed over 1 without any text: {text_folder}/s\xf3.txt"]
    assert prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1) == manifest


def test_the_other_stages_pass_over_an_empty_file_too(
    text_folder: Path, tmp_path: Path, recipe: Recipe
) -> None:
    (text_folder / "ab.txt").touch()
    sources, heard = find_sources([str(text_folder)]), Heard()
    small = recipe.model_copy(update={"tokenizer": TokenizerConfig(vocab_size=185)})
    build_tokenizer(sources, tmp_path / "vocab", small, progress=heard)
    deduplicate(sources, tmp_path / "unique.jsonl", recipe.text, progress=heard)
    assert len(heard.said) == 2
    assert all("ab.txt" in line for line in heard.said)


class Meddler(Progress):
    """Does something to the input while the work is under way."""

    def __init__(self, act: Callable[[], object], at: int = 1) -> None:
        self.act, self.left = act, at

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
        stage = Stage()
        stage.advance = self.advance  # type: ignore[method-assign]
        yield stage

    def advance(self, amount: float) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda path: path.write_text(path.read_text("utf-8") + "\n\nUm gato novo.", "utf-8"),
            "changed while",
        ),
        (lambda path: os.utime(path, (9, 9)), "changed while"),
        (lambda path: path.unlink(), "not there any more"),
    ],
    ids=["longer", "newer", "gone"],
)
@pytest.mark.parametrize("at", [1, 6], ids=["while it is read", "later"])
def test_a_file_that_changes_meanwhile_is_refused(
    text_folder: Path,
    tmp_path: Path,
    tokenizer: Tokenizer,
    recipe: Recipe,
    change: Callable[[Path], object],
    says: str,
    at: int,
) -> None:
    sources, first = find_sources([str(text_folder)]), text_folder / "a.txt"
    old = first.read_bytes()
    with pytest.raises(InputError, match=rf"a\.txt.* {says}"):
        prepare(sources, tokenizer, tmp_path / "o", recipe, 1, progress=Meddler(lambda: change(first), at))
    assert not (tmp_path / "o" / "manifest.json").exists()
    first.write_bytes(old + b"\n\nOutro texto.")
    prepare(sources, tokenizer, tmp_path / "o", recipe, workers=1)
    prepare(sources, tokenizer, tmp_path / "new", recipe, workers=1)
    assert tree(tmp_path / "o") == tree(tmp_path / "new")


def test_others_can_read_what_was_made(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    out = tmp_path / "o"
    prepare(find_sources([str(text_folder)]), tokenizer, out, recipe, 1)
    modes = {path.stat().st_mode for path in out.rglob("*") if path.is_file()}
    assert modes == {(out / MANIFEST).stat().st_mode}


def test_a_file_in_place_of_a_corpus_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "news.txt").write_text("Uma linha.")
    with pytest.raises(CorpusError, match=r"news.txt is a file, not a corpus: make one with"):
        read_manifest(tmp_path / "news.txt")


def test_two_cannot_work_in_one_folder(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer, recipe: Recipe
) -> None:
    sources, out = find_sources([str(text_folder)]), tmp_path / "o"
    (out / ".work").mkdir(parents=True)
    with folder_lock(out / ".work" / "lock", out):
        for job in (None, Job(1, 2)):
            with pytest.raises(OutputError, match=f"another process is at work in {out}: wait"):
                prepare(sources, tokenizer, out, recipe, 1, job)
    with folder_lock(out / ".work" / "lock", out, shared=True):  # another machine at its share
        prepare(sources, tokenizer, out, recipe, 1, Job(1, 2))
        with pytest.raises(OutputError, match="another process is at work"):
            prepare(sources, tokenizer, out, recipe, 1)
    prepare(sources, tokenizer, out, recipe, 1)
    assert not (out / ".work").exists()


def test_wide_vocabularies_take_wide_ids() -> None:
    assert shards.token_dtype(65_536) is np.uint16
    assert shards.token_dtype(65_537) is np.uint32


def test_reader_gives_the_same_documents(text_folder: Path, texts: list[str]) -> None:
    found = [d.text for s in find_sources([str(text_folder)]) for d in read_documents(s, Recipe().text)]
    assert found == texts
