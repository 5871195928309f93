"""The wheel, built and installed into an environment of its own, works without the repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import unmask
from unmask.predict.folders import bundled_names

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_wheel_in_a_clean_environment(tmp_path: Path) -> None:
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        tmp_path / "dist",
        ROOT,
        cwd=tmp_path,
    )
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    python, command = tmp_path / "env" / "bin" / "python", tmp_path / "env" / "bin" / "unmask"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)

    assert run(command, "--version", cwd=tmp_path) == f"unmask {unmask.__version__}\n"
    assert run(python, "-m", "unmask", "--help", cwd=tmp_path).count("prepare")
    (tmp_path / "a.txt").write_text(
        "\n\n".join(f"A maré número {n} subiu devagar." for n in range(50)), "utf-8"
    )
    run(command, "tokenizer", "a.txt", "--vocab-size", "60", "-o", "vocab", "-q", cwd=tmp_path)
    run(command, "prepare", "a.txt", "-t", "vocab", "-o", "shards", "-q", cwd=tmp_path)
    assert "agrees with its checksum" in run(command, "corpus", "shards", "--verify", cwd=tmp_path)
    where = run(python, "-c", "import unmask; print(unmask.__file__)", cwd=tmp_path)
    assert where.startswith(str(tmp_path / "env"))
    recipes = run(python, "-c", "from unmask.config import recipe_names; print(recipe_names())", cwd=tmp_path)
    assert "tiny-docs" in recipes
    assert bundled_names() == ["mini-en", "mini-pt"]
    for name in bundled_names():
        filled = run(command, "fill", "--model", name, "A [MASK] subiu devagar.", "--top", "1", cwd=tmp_path)
        assert "subiu devagar." in filled
