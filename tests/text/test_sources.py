import os
from pathlib import Path

import pytest

from unmask.errors import InputError, OutputError
from unmask.text import find_sources


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.jsonl.gz", "pt/c.csv", "pt/a/z.TXT.XZ", "notes.md", ".hidden.txt", ".git/x.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def names(*arguments: object) -> list[str]:
    return [source.name for source in find_sources([str(argument) for argument in arguments])]


def test_folder_is_recursive_sorted_and_skips_what_it_cannot_read(folder: Path) -> None:
    assert names(folder) == ["a.jsonl.gz", "b.txt", "pt/a/z.TXT.XZ", "pt/c.csv"]


def test_links_to_files_are_read_and_links_to_folders_are_not(folder: Path) -> None:
    (folder / "pt" / "d.txt").symlink_to(folder / ".hidden.txt")
    (folder / "pt" / "elsewhere").symlink_to(folder / ".git")
    (folder / "pt" / "circle").symlink_to(folder)
    assert names(folder / "pt") == ["a/z.TXT.XZ", "c.csv", "d.txt"]
    assert names(folder / "pt" / "**" / "*.txt") == ["d.txt"]
    assert names(folder / "pt" / "elsewhere") == ["x.txt"]  # named itself, it is read
    assert names(folder / "pt" / "else*") == ["elsewhere/x.txt"]


def test_arguments_keep_their_order_and_a_file_counts_once(folder: Path) -> None:
    assert names(folder / "pt", folder / "b.txt", folder) == ["a/z.TXT.XZ", "c.csv", "b.txt", "a.jsonl.gz"]


def test_globs_skip_hidden_and_unknown_files(folder: Path) -> None:
    assert names(folder / "*") == ["a.jsonl.gz", "b.txt", "pt/a/z.TXT.XZ", "pt/c.csv"]
    assert names(folder / "*" / "*.csv") == ["pt/c.csv"]
    assert names(folder / "**" / "*.txt") == ["b.txt"]


def test_a_name_with_glob_signs_that_exists_is_a_file(folder: Path) -> None:
    (folder / "a[1].txt").touch()
    assert names(folder / "a[1].txt") == ["a[1].txt"]


def test_language_prefix(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = find_sources(["pt-BR=pt", "b.txt", "en=-"])
    assert [(source.name, source.language) for source in found] == [
        ("a/z.TXT.XZ", "pt-BR"),
        ("c.csv", "pt-BR"),
        ("b.txt", ""),
        ("-", "en"),
    ]
    assert found[-1].path is None
    Path("pt=x.txt").touch()
    assert find_sources(["pt=x.txt"])[0].language == ""


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("b.text", "did you mean b.txt"),
        ("nowhere/a.txt", "nor a folder nowhere"),
        ("news=b.txt", "there is no news=b.txt; before = stands a language code of two or three letters"),
        ("books=/b/c.txt", "there is no books=/b/c.txt; before = stands a language code"),
        ("books=*.txt", "nothing to read in books=.*: before = stands a language code"),
        ("year=2024/jna.txt", "did you mean year=2024/jan.txt"),
        ("year=2024/*.csv", "nothing to read in year=2024/.*: unmask reads"),
        ("a/=.txt", "nor a folder a"),
        ("notes.md", "unknown kind of file; unmask reads .txt"),
        ("*.parquet", "nothing to read in"),
        ("empty", "nothing to read in empty"),
        ("uma frase em vez de um ficheiro " * 20, "cannot look at uma frase.*: File name too long"),
    ],
)
def test_what_cannot_be_found_is_said(
    folder: Path, argument: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("empty").mkdir()
    Path("year=2024").mkdir()
    Path("year=2024", "jan.txt").touch()
    with pytest.raises(InputError, match=message):
        find_sources([argument])


def test_nothing_given() -> None:
    with pytest.raises(InputError, match="no text given"):
        find_sources([])


def test_one_file_in_two_languages(folder: Path) -> None:
    with pytest.raises(InputError, match="given twice, as pt and as en"):
        find_sources([f"pt={folder / 'b.txt'}", f"en={folder / 'b.txt'}"])


def test_a_folder_that_cannot_be_listed_is_not_passed_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    (folder / "closed").mkdir()
    monkeypatch.setattr(os, "scandir", refuse)  # the tests may run as root, whom nothing is refused
    with pytest.raises(InputError, match="cannot look at .*closed: Permission denied"):
        find_sources([str(folder)])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(folder: Path) -> None:
    (folder / "b.txt").chmod(0)
    with pytest.raises(InputError, match="not allowed to read"):
        find_sources([str(folder)])


@pytest.mark.parametrize(
    ("given", "out"),
    [
        (".", "run"),
        ("pt", "pt"),
        ("pt", "pt/deep/run"),
        ("pt=pt", "pt/run"),
        ("link", "pt/run"),
        ("pt", "link/unique.jsonl"),
        ("p*", "pt/run"),
        ("pt/*", "pt/run"),
        ("*/*.jsonl", "pt/unique.jsonl"),
        ("*/*.csv", "pt"),
        ("**/*.csv", "pt/run"),
    ],
)
def test_an_output_is_not_to_be_read_as_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: str, out: str
) -> None:
    (folder / "link").symlink_to("pt")
    monkeypatch.chdir(folder)
    with pytest.raises(OutputError, match=f"^{out} is inside .*: write to a place outside it"):
        find_sources([given], Path(out))


@pytest.mark.parametrize(
    ("given", "out"),
    [
        ("pt", "run"),
        ("pt", "."),
        ("pt", "pt2"),
        ("pt", "pt/.run"),
        ("pt/c.csv", "pt/run"),
        ("pt/*.csv", "pt/run"),
        ("**/*.csv", "pt/unique.jsonl"),
        ("-", "run"),
    ],
)
def test_an_output_elsewhere_is_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: str, out: str
) -> None:
    monkeypatch.chdir(folder)
    assert find_sources([given], Path(out)) == find_sources([given])


def test_what_is_no_file_is_told_and_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pt" / "b.txt")
    for given in ("pt", "pt/*.txt", "pt/b.txt"):
        with pytest.raises(InputError, match=r"b\.txt is a pipe or a device, no file: pipe its text in"):
            find_sources([str(folder / given)])
    (folder / "pt" / "b.txt").unlink()
    (folder / "pt" / "b.txt").symlink_to("gone.txt")
    for given in ("pt", "pt/*.txt", "pt/b.txt"):
        with pytest.raises(InputError, match=r"b\.txt leads to no file: mend the link, or remove it"):
            find_sources([str(folder / given)])
