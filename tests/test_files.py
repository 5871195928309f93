"""Atomic writes: the old file or the whole new one, and no rubbish left behind."""

import json
import os
from pathlib import Path

import pytest

from unmask.errors import OutputError
from unmask.files import atomic_path, digest, file_digest, write_atomic, write_json


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "old")
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_folders_are_made_and_json_is_readable(tmp_path: Path) -> None:
    write_json(tmp_path / "x" / "y.json", {"a": "ção"})
    assert (tmp_path / "x" / "y.json").read_text("utf-8") == '{\n  "a": "ção"\n}\n'


def test_names_that_are_no_characters_can_be_written(tmp_path: Path) -> None:
    """Else the model of a long training would be lost to the name of a file."""
    name = os.fsdecode("olá".encode("latin-1"))
    write_json(tmp_path / "a.json", name)
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == name
    write_atomic(tmp_path / "b", name)
    assert (tmp_path / "b").read_text("utf-8") == r"ol\udce1"


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    path = tmp_path / "a"
    with pytest.raises(OutputError, match=r"no space left while writing .*a"), atomic_path(path):
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    for place in ("f/g", "f/g/h"):
        with pytest.raises(OutputError, match=f"cannot write .*{place}: a file is where a folder is wanted"):
            write_atomic(tmp_path / place, "y")


def test_a_name_too_long_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write .*: File name too long"):
        write_atomic(tmp_path / ("x" * 300), "y")


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_path(path) as first, atomic_path(path) as second:
        first.write_text("one")
        second.write_text("two")
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["a"]


def test_digests_separate_parts(tmp_path: Path) -> None:
    assert digest("ab", "c") != digest("a", "bc")
    write_atomic(tmp_path / "a", b"123")
    write_atomic(tmp_path / "b", b"123")
    write_atomic(tmp_path / "c", b"124")
    assert file_digest(tmp_path / "a") == file_digest(tmp_path / "b") != file_digest(tmp_path / "c")
