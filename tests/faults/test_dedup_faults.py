"""`unmask dedup` on a full disk: one clear line, and nothing is left."""

from pathlib import Path
from typing import Any

import pytest
from tests.faults.conftest import fail, finish, start

DRIVER = """
import sys
from pathlib import Path
from unmask.config import TextConfig
from unmask.errors import UserError
from unmask.text import find_sources
from unmask.text.dedup import deduplicate
sys.stdout.write("ready\\n")
sys.stdout.flush()
try:
    deduplicate(find_sources(["in.txt"]), Path(sys.argv[1]), TextConfig(documents="line"))
except UserError as error:
    sys.exit(f"unmask: {error}")
"""
LINES = 30_000
DOCUMENT, SIGNATURE, BANDS, PARENT = (
    58,
    4 * 128,
    8 * 18,
    8,
)  # bytes of a line in each file
DISK = 32 << 20

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("missing", [DOCUMENT // 2, DOCUMENT + PARENT // 2, DOCUMENT + PARENT + BANDS])
def test_a_full_disk_is_one_clear_line(tmp_path: Path, small_disk: Any, missing: int) -> None:
    """Whatever was to be written when the room ended."""
    (tmp_path / "driver.py").write_text(DRIVER, "utf-8")
    lines = "\n".join(" ".join(f"{number * 6 + i:05x}" for i in range(5)) for number in range(LINES))
    (tmp_path / "in.txt").write_text(lines, "utf-8")
    small = small_disk.mount(megabytes=DISK >> 20)
    room = LINES * (2 * DOCUMENT + SIGNATURE + BANDS + PARENT - missing)
    (small / "ballast").write_bytes(bytes(DISK - room))
    fail(start(tmp_path, small / "out.jsonl"), "no space left")
    assert [path.name for path in small.iterdir()] == ["ballast"]
    (small / "ballast").unlink()
    finish(start(tmp_path, small / "out.jsonl"))
    assert len((small / "out.jsonl").read_text().splitlines()) == LINES
