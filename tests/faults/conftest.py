"""What the tests of faults share."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of a few megabytes that can be made larger."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def mount(self, megabytes: int) -> Path:
        line = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(self.place)]
        if os.geteuid() != 0 or subprocess.run(line, check=False, capture_output=True).returncode:
            pytest.skip("needs the right to mount a small file system")
        return self.place

    def grow(self, megabytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(self.place)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A place for a small file system, which goes when the test ends."""
    place = tmp_path / "small"
    place.mkdir()
    yield SmallDisk(place)
    if place.is_mount():
        subprocess.run(["umount", "--lazy", str(place)], check=True)
