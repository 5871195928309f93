"""`unmask embed` under kill -9, on a full disk and on Ray: nothing half-written, the end is the same."""

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.faults.conftest import fail, finish, start

from unmask.checkpoint import save_model
from unmask.config import ModelConfig, TokenizerConfig
from unmask.model.network import Model
from unmask.predict import load
from unmask.predict.bulk import embed_file, embed_on_ray
from unmask.predict.parts import EmbedSettings
from unmask.tokenizer import train_tokenizer

# Small parts, so that a short run has many moments at which it can be killed.
DRIVER = """
import sys
import torch
from unmask.errors import UserError
from unmask.predict import load, parts
from unmask.predict.bulk import embed_file
parts.CHUNK_TEXTS = 40
torch.set_num_threads(2)
try:
    model = load("model", "cpu")
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    embed_file(model, "text.txt", sys.argv[1])
except UserError as error:
    sys.exit(f"unmask: {error}")
"""
KILLS = 4

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> Path:
    """Four thousand lines, a small model, and their vectors as made without disturbance."""
    folder = tmp_path_factory.mktemp("embed")
    draw = random.Random(0)
    lines = [" ".join(draw.choices(words, k=draw.randint(1, 12))).capitalize() + "." for _ in range(4000)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", "utf-8")
    tokenizer = train_tokenizer(lines, TokenizerConfig(vocab_size=150))
    sizes = {"width": 64, "layers": 3, "heads": 4, "inner": 256, "positions": 128}
    config = ModelConfig(vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id, **sizes)
    save_model(Model(config, ("mlm",), torch.Generator().manual_seed(0)), folder / "model", tokenizer)
    (folder / "driver.py").write_text(DRIVER, "utf-8")
    finish(start(folder, "whole.npy"))
    return folder


def test_killed_at_random_moments_ends_byte_identical(place: Path) -> None:
    draw, parts = random.Random(1), place / "out.npy.work" / "parts"
    killed = 0
    while killed < KILLS:
        process = start(place, "out.npy")
        try:
            process.wait(draw.uniform(0, 0.3))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            killed += 1
            assert not (place / "out.npy").exists() or not parts.exists() or len(list(parts.iterdir())) >= 100
            continue
        finish(process)
        assert (place / "out.npy").read_bytes() == (place / "whole.npy").read_bytes()
        (place / "out.npy").unlink()
    if not (place / "out.npy").exists() or parts.exists():
        finish(start(place, "out.npy"))
    assert (place / "out.npy").read_bytes() == (place / "whole.npy").read_bytes()
    assert not parts.exists()


def test_a_full_disk_is_one_clear_line_and_nothing_is_lost(place: Path, small_disk: Any) -> None:
    small = small_disk.mount(megabytes=1)
    fail(start(place, small / "out.npy"), "no space left while writing")
    assert not (small / "out.npy").exists()
    small_disk.grow(megabytes=8)
    finish(start(place, small / "out.npy"))
    assert (small / "out.npy").read_bytes() == (place / "whole.npy").read_bytes()


def test_ray_gives_the_same_bytes(place: Path) -> None:
    words = EmbedSettings("word")
    embed_file(load(place / "model", "cpu"), place / "text.txt", place / "here.safetensors", words)
    done = embed_on_ray(place / "model", place / "text.txt", place / "ray.safetensors", words)
    assert done.kept == done.texts == 4000  # all that was left to do here was to join the parts
    assert (place / "ray.safetensors").read_bytes() == (place / "here.safetensors").read_bytes()
    assert not (place / "ray.safetensors.work").exists()
