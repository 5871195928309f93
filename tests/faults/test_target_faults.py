"""Model folders where files cannot be moved at will: on a disk of their own, under a folder of others."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.faults.conftest import SmallDisk

from unmask.errors import OutputError
from unmask.target import check_room, check_target, whole_folder

pytestmark = pytest.mark.slow
NOBODY = 65534
WRITE = f"""
import os, sys
from pathlib import Path
from unmask.errors import OutputError
from unmask.target import check_target, whole_folder
os.setegid({NOBODY})
os.seteuid({NOBODY})
try:
    check_target(Path(sys.argv[1]), overwrite=True)
    with whole_folder(Path(sys.argv[1]), overwrite=True) as unfinished:
        (unfinished / "config.json").touch()
except OutputError as error:
    sys.exit(str(error))
"""


def test_a_mount_is_filled_and_never_replaced(small_disk: SmallDisk) -> None:
    place = small_disk.mount(1)
    check_target(place)
    with whole_folder(place) as unfinished:
        (unfinished / "config.json").write_text("{}")
    assert [path.name for path in place.iterdir()] == ["config.json"]
    with pytest.raises(OutputError, match="is a mount, which cannot be replaced"):
        check_target(place, overwrite=True)


def test_a_model_that_does_not_fit_is_one_clear_line(small_disk: SmallDisk) -> None:
    place = small_disk.mount(1)
    command = [sys.executable, "-m", "unmask", "convert", "mini-en", str(place / "copy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unmask: no space left while writing" in done.stderr
    assert "fault in unmask" not in done.stderr
    assert list(place.iterdir()) == []
    with pytest.raises(OutputError, match="will take about 31 MB, its disk has 1 MB left"):
        check_room(place / "copy", 4 * 7_684_608)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to be somebody else")
def test_an_own_folder_under_one_of_others() -> None:
    with tempfile.TemporaryDirectory() as name:  # into the folders of pytest nobody else may look
        closed, own = Path(name), Path(name) / "own"
        closed.chmod(0o755)
        own.mkdir()
        os.chown(own, NOBODY, NOBODY)
        for place, says in (("own", ""), ("own", "not allowed to write"), ("new", "not allowed to write")):
            line = [sys.executable, "-c", WRITE, str(closed / place)]
            run = subprocess.run(line, check=False, capture_output=True, text=True)
            assert (run.returncode, run.stderr.count("\n")) == ((1, 1) if says else (0, 0)), run.stderr
            assert says in run.stderr
        assert [path.name for path in closed.iterdir()] == ["own"]
        assert [path.name for path in own.iterdir()] == ["config.json"]
