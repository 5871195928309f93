"""`unmask prepare` under kill -9, a full disk and a killed worker: nothing is lost, the end is the same."""

import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.faults.conftest import fail, finish, start

from unmask.config import TokenizerConfig
from unmask.tokenizer import train_tokenizer

# Small chunks, so that a short run has many moments at which it can be killed.
DRIVER = """
import sys
from pathlib import Path
from unmask.config import load_recipe
from unmask.data import prepare as module
from unmask.errors import UserError
from unmask.text import find_sources
from unmask.tokenizer import Tokenizer
if __name__ == "__main__":
    module.CHUNK_CHARS, module.BATCH_BYTES = 40_000, 200_000
    recipe = load_recipe(None, ["prepare.shard_tokens=30000", "prepare.valid=0.1"])
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    try:
        module.prepare(find_sources(["text"]), Tokenizer.load("vocab"), Path(sys.argv[1]), recipe, workers=2)
    except UserError as error:
        sys.exit(f"unmask: {error}")
"""
KILLS = 20

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> Path:
    """Text of about 3 MB in four files, with duplicates, and a vocabulary."""
    folder = tmp_path_factory.mktemp("faults")
    draw = random.Random(0)
    (folder / "text").mkdir()
    for number in range(4):
        documents = []
        for _ in range(1200):
            line = " ".join(draw.choices(words, k=draw.randint(5, 200)))
            documents.append(line.capitalize() + ".")
        documents += draw.sample(documents, 20)
        (folder / "text" / f"{number}.txt").write_text("\n\n".join(documents), "utf-8")
    train_tokenizer(documents, TokenizerConfig(vocab_size=150)).save(folder / "vocab")
    (folder / "driver.py").write_text(DRIVER, "utf-8")
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


@pytest.fixture(scope="module")
def undisturbed(place: Path) -> tuple[dict[str, bytes], float]:
    """The files of a run that nothing disturbed, and how long it took once it was ready."""
    process = start(place, "whole")
    begin = time.monotonic()
    finish(process)
    return tree(place / "whole"), time.monotonic() - begin


def test_killed_at_random_moments_ends_byte_identical(
    place: Path, undisturbed: tuple[dict[str, bytes], float]
) -> None:
    expected, seconds = undisturbed
    assert sum(name.startswith("train/") for name in expected) > 5
    draw = random.Random(1)
    out, kills, ended = place / "killed", 0, False
    while kills < KILLS or not ended:
        process = start(place, out)
        if kills < KILLS:
            try:
                process.wait(draw.uniform(0, seconds))
            except subprocess.TimeoutExpired:
                workers = psutil.Process(process.pid).children(recursive=True)
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills, ended = kills + 1, False
                _, alive = psutil.wait_procs(workers, timeout=20)
                assert not alive, "workers outlive their parent"
                continue
        finish(process)
        assert tree(out) == expected
        ended = True
        if kills < KILLS:
            shutil.rmtree(out)


def test_a_killed_worker_is_one_clear_line(place: Path, undisturbed: tuple[dict[str, bytes], float]) -> None:
    process = start(place, "worker")
    parts = place / "worker" / ".work" / "parts"
    while not list(parts.glob("*.safetensors")):
        time.sleep(0.01)
    workers = [
        p
        for p in psutil.Process(process.pid).children(recursive=True)
        if "spawn_main" in " ".join(p.cmdline())
    ]
    workers[0].kill()
    fail(process, "a worker process died")
    finish(start(place, "worker"))
    assert tree(place / "worker") == undisturbed[0]


def test_a_full_disk_is_one_clear_line_and_nothing_is_lost(
    place: Path, undisturbed: tuple[dict[str, bytes], float], small_disk: Any
) -> None:
    small = small_disk.mount(megabytes=1)
    fail(start(place, small / "out"), "no space left")
    assert not list(small.rglob("*.tmp"))
    small_disk.grow(megabytes=64)
    finish(start(place, small / "out"))
    assert tree(small / "out") == undisturbed[0]
