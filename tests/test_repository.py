"""The repository itself: the version is told once, nothing private is in it, the Makefile keeps its word."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import unmask

ROOT = Path(__file__).resolve().parents[1]


def test_changelog_speaks_of_this_version() -> None:
    assert f"## {unmask.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_readme_shows_the_two_commands_first() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    code = text[text.index("```") :]
    assert code.index("make demo") < code.index("make test") < code.index("unmask ")


def test_make_alone_lists_its_targets() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in "setup demo test slow check fix docs bench serve".split():
        assert f"make {target} " in listed


def test_make_says_what_takes_minutes(tmp_path: Path) -> None:
    steps = subprocess.run(
        ["make", "-n", "setup", f"VENV={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert 0 < steps.index("installing unmask and what its tests need") < steps.index("pip install")


def test_extras_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {"serve", "onnx", "analyse", "ray", "dev"} <= set(project["optional-dependencies"])
    assert "torch>=2.11" in project["dependencies"]


def same_name(package: str) -> str:
    """`tomli_w` and `tomli-w` are one package."""
    return package.lower().replace("_", "-")


def test_every_dependency_is_pinned_for_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {same_name(re.split(r"[\[><=]", want)[0]) for want in wanted} - {"unmask"}
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {same_name(line.split("==")[0]) for line in lines if "==" in line}
    assert names <= pinned
    assert "torch==2.13.0" in lines


def test_no_machine_paths_or_registry_hosts() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    private = re.compile("/wo" + r"rk/|/ro" + r"ot/|/opt/" + r"wheels|python" + r"hosted|npm" + "js")
    for name in files:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".html", ""} and path.is_file():
            found = private.search(path.read_text("utf-8", "replace"))
            assert not found, f"{name}: {found}"
