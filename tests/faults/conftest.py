"""What the tests of faults share."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

# Without the variable three restarts of eight failed: processes met at the store of those before them.
STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def start(place: Path, *arguments: object, launcher: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start the driver of a folder, there, and wait until it says that it is ready."""
    process = subprocess.Popen(
        [sys.executable, *launcher, "driver.py", *map(str, arguments)],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | STORE,
    )
    assert process.stdout
    said = process.stdout.readline()
    if said != "ready\n":
        process.terminate()  # torchrun takes its processes along
        _, errors = process.communicate(timeout=300)
        pytest.fail(f"the driver said {said!r} in place of ready: {errors}")
    return process


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for the end, which is a good one."""
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def fail(process: subprocess.Popen[str], says: str) -> None:
    """Wait for the end, which is one clear line."""
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert says in errors
    assert "Traceback" not in errors


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
