"""Suites: ours parse and say where their data come from; a user's own; what is wrong is one clear line."""

from collections.abc import Container
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from unmask.errors import ConfigError, InputError
from unmask.evaluation.run import KINDS
from unmask.evaluation.suites import (
    FOLDER,
    OWN_DATA,
    Collection,
    Suite,
    _Common,
    find_suites,
    read_suite,
    suite_names,
)


@pytest.mark.parametrize("name", suite_names())
def test_ours_parse(name: str) -> None:
    suite = read_suite(FOLDER / f"{name}.toml")
    assert suite.about
    assert not suite.about.endswith(".")
    if isinstance(suite, Collection):
        assert set(suite.suites) <= set(suite_names())
        return
    assert suite.source
    assert suite.licence
    assert suite.kind in KINDS


def test_the_issue_names_are_there() -> None:
    wanted = "mlm blimp wic glue squad ner pos portuguese facts bias probe contrast".split()
    assert set(wanted) <= set(suite_names())


@pytest.mark.parametrize("name", suite_names())
def test_our_own_data_are_there(name: str) -> None:
    for found in find_suites([name], Path("nowhere")):
        if found.suite.own:
            assert found.roots == (OWN_DATA,)
            assert found.inputs()


@pytest.mark.parametrize("name", suite_names())
def test_real_data_are_where_the_suites_say(name: str, data_root: Path) -> None:
    for found in find_suites([name], data_root):
        assert all(path.is_file() for path in found.inputs())


def test_missing_data_are_named_with_their_source(tmp_path: Path) -> None:
    (found,) = find_suites(["blimp"], tmp_path)
    with pytest.raises(InputError) as told:
        found.inputs()
    said = str(told.value)
    assert f"there is no {tmp_path}/eval/en/blimp_fast/*.jsonl" in said
    assert "BLiMP (Warstadt et al. 2020)" in said
    assert "--data" in said
    assert "\n" not in said


def test_collections_and_repetitions_are_each_run_once(tmp_path: Path) -> None:
    names = [found.name for found in find_suites(["bias", "bias-pt", "wic"], tmp_path)]
    assert names == ["bias-en", "bias-pt", "wic"]


def test_a_suite_of_ones_own_reads_beside_itself_first(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    toml = 'kind = "pairs"\nabout = "a"\nsource = "s"\nlicence = "l"\nfiles = ["x.jsonl"]'
    (tmp_path / "own.toml").write_text(toml, "utf-8")
    (data / "x.jsonl").write_text("{}\n", "utf-8")
    (found,) = find_suites([str(tmp_path / "own.toml")], data)
    assert found.name == "own"
    assert found.inputs() == [data / "x.jsonl"]
    (tmp_path / "x.jsonl").write_text("{}\n", "utf-8")
    assert found.inputs() == [tmp_path / "x.jsonl"]


def test_a_text_file_is_a_suite(tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text("O mar estava calmo.", "utf-8")
    (found,) = find_suites([str(tmp_path / "novel.txt")], tmp_path)
    assert (found.name, found.suite.kind, found.inputs()) == ("novel", "mlm", [tmp_path / "novel.txt"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('kind = "pears"', "kind must be"),
        ("", "kind must be"),
        ('kind = "pairs"\nfiles = ["x"]\nabout = "a"\nsource = "s"', "licence is missing"),
        ('kind = "pairs"\nfile = ["x"]', "there is no file in a suite of kind pairs"),
        ('kind = "mlm"\nfiles = ["x"]\nabout = "a"\nsource = "s"\nlicence = "l"\nlimit = 0', "limit"),
        ("kind = ", "not valid TOML"),
    ],
)
def test_mistakes_in_a_suite(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "own.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=says):
        find_suites([str(tmp_path / "own.toml")], tmp_path)


def table(kind: type[BaseModel], shared: Container[str]) -> str:
    """The keys of a kind of suite, as the documentation lists them."""
    rows = ["| key | default | meaning |", "| --- | --- | --- |"]
    for name, field in kind.model_fields.items():
        if name in ("kind", *shared):
            continue
        assert field.description, f"{kind.__name__}.{name} has no documentation"
        plain = field.is_required() or field.default_factory or isinstance(field.default, BaseModel)
        default = "required" if field.is_required() else "" if plain else f"`{field.default}`"
        meaning = field.description.replace("|", "\\|")
        rows.append(f"| `{name}` | {default.replace('`None`', 'none').lower()} | {meaning} |")
    return "\n".join(rows)


@pytest.mark.parametrize("kind", get_args(Suite))
def test_every_key_is_documented(kind: type[BaseModel]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")
    name = get_args(kind.model_fields["kind"].annotation)[0]
    assert table(_Common, ()) in page
    assert f"### `{name}`\n" in page
    section = page.partition(f"### `{name}`\n")[2].partition("\n#")[0]
    assert table(kind, _Common.model_fields) in section, table(kind, _Common.model_fields)


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no suite blmp; did you mean blimp"):
        find_suites(["blmp"], tmp_path)
    with pytest.raises(ConfigError, match="cannot read the suite"):
        find_suites([str(tmp_path / "none.toml")], tmp_path)
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "same.txt").write_text(part, "utf-8")
    with pytest.raises(ConfigError, match="two suites are called same"):
        find_suites([str(tmp_path / part / "same.txt") for part in ("a", "b")], tmp_path)


def test_paths_may_be_absolute_but_mean_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.jsonl").write_text("", "utf-8")
    toml = 'kind = "pairs"\nabout = "a"\nsource = "here"\nlicence = "none"\n'
    (tmp_path / "mine.toml").write_text(f'{toml}files = ["{tmp_path}/data/*.jsonl"]', "utf-8")
    (found,) = find_suites([str(tmp_path / "mine.toml")], Path("nowhere"))
    assert found.inputs() == [tmp_path / "data" / "x.jsonl"]
    for wrong in ("data", ""):
        with pytest.raises(InputError, match="here: put them there"):
            found.paths(wrong)
