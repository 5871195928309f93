"""The folder of a model: nothing is lost, whoever else writes, whatever kills us, wherever it lies."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from unmask.errors import OutputError
from unmask.target import check_page, check_place, check_room, check_target, whole_folder


def write(folder: Path, content: str, *names: str) -> Path:
    """A folder of small files; by default those of a model."""
    for name in names or ("model.safetensors", "config.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def put(folder: Path, content: str = "new", overwrite: bool = False) -> None:
    with whole_folder(folder, overwrite) as unfinished:
        write(unfinished, content)


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


NEW = {"config.json": "new", "model.safetensors": "new"}
OLD = {"config.json": "old", "model.safetensors": "old"}


@pytest.mark.parametrize(
    "own",
    [
        "squad.json",
        "corpus.bin",
        "mine.model",
        "mine.safetensors",
        "vocab.txt/mine",
        "1_raw/precious.txt",
        "1_raw/config.json",
        "2_small/config.json",
        "1_Pooling/deeper/config.json",
    ],
)
def test_what_is_no_part_of_a_model_is_never_replaced(tmp_path: Path, own: str) -> None:
    folder = write(tmp_path / "a", "old")
    write(
        folder,
        json.dumps([{"path": "1_Pooling"}, {"path": "1_raw"}] * (own != "1_raw/config.json")),
        "modules.json",
    )
    write(folder, "years of work", own)
    before = contents(folder)
    with pytest.raises(OutputError, match=f"holds {own.split('/')[0]}, which is no part of a model"):
        check_target(folder, overwrite=True)
    with pytest.raises(OutputError, match="which is no part of a model"):
        put(folder, overwrite=True)
    assert contents(folder) == before


@pytest.mark.parametrize("modules", ["{", "[1]", '[{"idx": 1}]', '{"path": 3}', "[" * 100_000])
def test_modules_that_cannot_be_read_name_nothing(tmp_path: Path, modules: str) -> None:
    folder = write(tmp_path / "a", "old")
    write(folder, modules, "modules.json")
    write(folder, "{}", "1_Pooling/config.json")
    with pytest.raises(OutputError, match="holds 1_Pooling, which is no part"):
        check_target(folder, overwrite=True)


def test_a_published_model_may_be_replaced(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "a", "old", "config.json", "generation_config.json", "model-00001-of-00002.safetensors",
        "model.safetensors.index.json", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json",
        "training_args.bin", "model.onnx", "model_quantized.onnx", "model.onnx.data", "model.onnx_data",
        "tokenizer.json", "tokenizer_config.json", "sentencepiece.bpe.model", "spiece.model", "vocab.txt",
        "special_tokens_map.json", "added_tokens.json", "sentence_bert_config.json", "README.md",
        "config_sentence_transformers.json", "report.html", "metrics.jsonl", "1_Pooling/config.json",
        "3_Dense/config.json", "3_Dense/model.safetensors",
    )  # fmt: skip
    (folder / "2_Normalize").mkdir()
    listed = [{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Normalize"}, {"path": "3_Dense"}]
    write(folder, json.dumps(listed), "modules.json")
    with pytest.raises(OutputError, match="a holds a model already: add --overwrite"):
        check_target(folder)
    check_target(folder, overwrite=True)
    put(folder, overwrite=True)
    assert contents(folder) == NEW
    assert names(tmp_path) == ["a"]


def test_what_is_read_is_not_replaced(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "old")
    write(folder, "old", "vocab.txt")
    (tmp_path / "link").symlink_to(folder)
    for out in (folder, tmp_path / "link"):
        for source in (folder, tmp_path / "link", folder / "vocab.txt", str(tmp_path / "link" / "vocab.txt")):
            with pytest.raises(OutputError, match=r"holds what is to be read \(.*\): name another folder"):
                check_target(out, True, [None, ["examples"], source])
    check_target(folder, True, [tmp_path / "other", folder / "not-there", tmp_path])


def test_nothing_is_begun_inside_a_model(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "old")
    (tmp_path / "link").symlink_to(folder)
    for inside in ("a/onnx", "a/deep/er", "link/onnx"):
        with pytest.raises(OutputError, match="is inside the model .*/a, .*: name a folder outside it"):
            check_target(tmp_path / inside)
    with pytest.raises(OutputError, match="is inside the model"):
        check_place(folder / "run")
    (folder / "run").mkdir()
    check_place(folder / "run")  # what was begun goes on
    write(tmp_path / "project", "{}", "config.json")  # settings of something else
    check_target(tmp_path / "project" / "model")


def test_a_folder_that_cannot_be_made_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    before = names(tmp_path)
    for place in ("/proc/x/y", "loop", "loop/a", "file/a", "n" * 250, "n" * 300 + "/a", "b/" + "n" * 250):
        with pytest.raises(OutputError) as caught:
            check_target(tmp_path / place)
        assert "\n" not in str(caught.value)
        assert names(tmp_path) == before
    with pytest.raises(OutputError, match="holds other files and no model"):
        check_target(Path("/"), overwrite=True)


def test_a_place_that_may_not_be_written_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "begun").mkdir()
    closed = [tmp_path, tmp_path / "begun"]
    monkeypatch.setattr(os, "access", lambda path, mode: path not in closed)  # root may write anywhere
    for place in ("new", "deep/er", "begun", "begun/deeper"):
        for check in (check_place, partial(check_page, name="page")):
            with pytest.raises(OutputError, match=f"not allowed to write .*/{place}: check the folder's"):
                check(tmp_path / place)
    closed.remove(tmp_path / "begun")
    check_place(tmp_path / "begun" / "deeper")


def test_asking_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in ("empty", "new", "a/b/c"):
        check_target(tmp_path / place)
    assert names(tmp_path) == ["empty"]
    assert names(tmp_path / "empty") == []


def close(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be made in a folder; the tests may run as root, whom nothing is refused."""
    make = os.mkdir

    def refuse(path: Any, *rest: Any) -> None:
        if Path(path).parent == folder:
            raise PermissionError(13, "Permission denied", str(path))
        make(path, *rest)

    monkeypatch.setattr(os, "mkdir", refuse)


def test_an_empty_folder_is_filled_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a mount, or under a folder of others."""
    folder = tmp_path / "a"
    folder.mkdir()
    same = folder.stat().st_ino
    close(tmp_path, monkeypatch)
    check_target(folder)
    with pytest.raises(RuntimeError, match="power cut"), whole_folder(folder) as unfinished:
        write(unfinished, "new")
        raise RuntimeError("power cut")
    assert names(folder) == []
    put(folder)
    assert contents(folder) == NEW
    assert folder.stat().st_ino == same
    with pytest.raises(OutputError, match="not allowed to write"):  # beside it there is no room
        check_target(folder, overwrite=True)


def test_the_folder_we_are_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    check_target(Path())
    put(Path())
    assert contents(Path.cwd()) == NEW
    with pytest.raises(OutputError, match="is the folder you are in, which cannot be replaced"):
        check_target(Path(), overwrite=True)
    monkeypatch.chdir(tmp_path)
    check_target(tmp_path / "a", overwrite=True)
    monkeypatch.setattr(Path, "is_mount", lambda _: True)
    with pytest.raises(OutputError, match="is a mount, which cannot be replaced"):
        check_target(tmp_path / "a", overwrite=True)


@pytest.mark.parametrize("empty", [True, False])
def test_of_two_writers_none_is_lost(tmp_path: Path, empty: bool) -> None:
    folder = tmp_path / "a"
    if empty:
        folder.mkdir()
    with pytest.raises(OutputError, match=r"holds .*; the new model is in .*/a-\w+$") as caught:
        with whole_folder(folder) as slow:
            write(slow, "new")
            put(folder, "old")
    kept = Path(str(caught.value).rpartition(" ")[2])
    assert contents(kept) == NEW
    assert {name: text for name, text in contents(folder).items() if "/" not in name} == OLD
    assert len(names(tmp_path)) == 1 + (not empty)


def test_a_place_that_cannot_be_had_costs_neither_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename = write(tmp_path / "a", "old"), Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if target == folder and not self.name.endswith("old"):
            raise OSError(16, "Device or resource busy")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(
        OutputError, match=r"a: Device or resource busy; the new model is in .*/a-\w+$"
    ) as caught:
        put(folder, overwrite=True)
    assert contents(folder) == OLD
    assert contents(Path(str(caught.value).rpartition(" ")[2])) == NEW
    assert len(names(tmp_path)) == 2


def test_of_two_who_may_overwrite_the_last_wins(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "older")
    with whole_folder(folder, overwrite=True) as slow:
        write(slow, "new", "model.safetensors")
        put(folder, "old", overwrite=True)
        assert contents(folder) == OLD
        write(slow, "new", "config.json")
    assert contents(folder) == NEW
    assert names(tmp_path) == ["a"]


def test_what_others_left_is_cleared_and_what_is_yours_is_not(tmp_path: Path) -> None:
    yours = [".a.old", ".a.unfinished", ".b.unmask-12345678", "a.unmask-old"]
    for name in (*yours, ".a.unmask-12345678", ".a.unmask-old"):
        write(tmp_path / name, "x")
    write(tmp_path / "a", "old")
    put(tmp_path / "a", overwrite=True)
    assert names(tmp_path) == sorted([*yours, "a"])


def test_the_old_model_is_back_before_it_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / ".a.unmask-old", "old")  # killed between the two renames
    with pytest.raises(OutputError, match="a holds a model already"):
        check_target(tmp_path / "a")
    assert contents(tmp_path / "a") == OLD
    assert names(tmp_path) == ["a"]


def test_a_disk_without_room_is_told_before_the_work(tmp_path: Path) -> None:
    check_room(tmp_path / "new" / "model", 1000)
    with pytest.raises(OutputError, match=r"model will take about 1,000,000,000,000 MB, .* another disk"):
        check_room(tmp_path / "new" / "model", 10**18)
    assert names(tmp_path) == []


def test_a_file_that_stays_of_the_old_model_is_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "a", "old")
    with monkeypatch.context() as patch:
        patch.setattr("unmask.target.shutil.rmtree", lambda *_, **__: None)  # its files are in use
        put(folder, "newer", overwrite=True)
        put(folder, "newest", overwrite=True)
    assert contents(folder) == dict.fromkeys(NEW, "newest")
    put(folder, overwrite=True)
    assert names(tmp_path) == ["a"]
    assert contents(folder) == NEW


def test_the_old_model_is_back_in_a_folder_made_since(tmp_path: Path) -> None:
    write(tmp_path / ".a.unmask-old", "old")
    (tmp_path / "a").mkdir()  # by a script, before the same command
    check_target(tmp_path / "a", overwrite=True)
    assert contents(tmp_path / "a") == OLD
    assert names(tmp_path) == ["a"]
    (tmp_path / "a").rename(tmp_path / ".a.unmask-old")
    write(tmp_path / "a", "mine", "notes.txt")
    with pytest.raises(OutputError, match="holds other files and no model"):
        check_target(tmp_path / "a", overwrite=True)
    assert contents(tmp_path / ".a.unmask-old") == OLD


def test_an_interrupt_between_the_renames_leaves_the_old_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename = write(tmp_path / "a", "old"), Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        done = rename(self, target)
        if self == folder:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put(folder, overwrite=True)
    assert contents(folder) == OLD
    assert names(tmp_path) == ["a"]


def test_files_that_cannot_all_be_moved_up_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename = tmp_path / "a", Path.rename
    folder.mkdir()

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "config.json":
            raise OSError(5, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        with pytest.raises(OutputError, match=r"Input/output error; the new model is in .*unmask-new$"):
            put(folder)
    check_target(folder, overwrite=True)  # the next one puts it right
    assert contents(folder) == NEW


def test_a_room_that_another_one_made_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As two commands do to each other that write under a folder which is not there yet."""
    make, removed = os.mkdir, []

    def disturbed(path: Any, *rest: Any) -> None:
        if not removed and ".a.unmask-" in str(path):
            (tmp_path / "out").rmdir()
            removed.append(path)
        make(path, *rest)

    monkeypatch.setattr(os, "mkdir", disturbed)
    put(tmp_path / "out" / "a")
    assert removed
    assert contents(tmp_path / "out" / "a") == NEW


def test_a_page_is_written_over_nobody_elses_file(tmp_path: Path) -> None:
    check_page(tmp_path / "new", "senses")
    write(tmp_path / "ours", "1", "senses.html", "senses.json", "notes.txt")
    check_page(tmp_path / "ours", "senses")
    write(tmp_path / "theirs", "1", "senses.json")
    with pytest.raises(OutputError, match="theirs/senses.json is there already: name another folder"):
        check_page(tmp_path / "theirs", "senses")
    check_page(tmp_path / "theirs", "probe")
    with pytest.raises(OutputError, match="holds a model: name another folder"):
        check_page(write(tmp_path / "a", "old"), "senses")


KILLED = """
import os, signal, sys
from pathlib import Path
from unmask.target import whole_folder
left, rename = int(sys.argv[2]), Path.rename
def killed(self, target):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.rename = killed
with whole_folder(Path(sys.argv[1]), overwrite=True) as unfinished:
    for name in ("config.json", "model.safetensors"):
        (unfinished / name).write_text("new")
"""


@pytest.mark.parametrize("begun", [None, "empty", "old"])
def test_killed_at_any_moment(tmp_path: Path, begun: str | None) -> None:
    for renames in range(4):
        folder = tmp_path / f"{renames}" / "a"
        folder.parent.mkdir()
        if begun == "empty":
            folder.mkdir()
        elif begun:
            write(folder, begun)
        run = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(renames)], check=False)
        if (folder / "config.json").exists():  # it is taken for a model, so it is a whole one
            assert contents(folder)["config.json"] == contents(folder).get("model.safetensors")
        check_target(folder, overwrite=True)
        found = contents(folder) if folder.exists() else {}
        assert names(folder.parent) == ["a"] * folder.exists()
        if run.returncode == 0:
            assert found == NEW
            break
        assert run.returncode == -signal.SIGKILL
        assert found in (OLD if begun == "old" else {}, NEW)
        put(folder, "newer", overwrite=True)
        assert set(contents(folder).values()) == {"newer"}
    else:
        raise AssertionError("it was killed every time")
