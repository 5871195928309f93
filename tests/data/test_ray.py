"""Shares as tasks of a real Ray of two workers: the bytes of a local run, and nothing is left behind."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from unmask.cli.prepare import prepare as command
from unmask.config import TokenizerConfig
from unmask.data.prepare import prepare, prepare_on_ray
from unmask.errors import ConfigError, UserError
from unmask.processes import ray_cluster, run_on_ray
from unmask.text import find_sources
from unmask.tokenizer import Tokenizer, train_tokenizer


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Ray were not installed."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "")
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.mark.usefixtures("without_ray")
def test_ray_is_asked_for_only_when_there_is_work(
    text_folder: Path, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    sources = find_sources([str(text_folder)])
    with pytest.raises(ConfigError, match=r"Ray is not installed: pip install 'unmask\[ray\]'"):
        prepare_on_ray(sources, tokenizer, tmp_path / "o")
    with pytest.raises(ConfigError, match="standard input cannot be shared"):
        prepare_on_ray(find_sources(["-"]), tokenizer, tmp_path / "o")
    made = prepare(sources, tokenizer, tmp_path / "o", workers=1)
    assert prepare_on_ray(sources, tokenizer, tmp_path / "o") == made


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": "ray", "shard": "1/2"}, "leave --shard out"),
        ({"ray_address": "auto"}, "goes with --engine ray"),
        ({"engine": "ray", "ray_address": "auto", "workers": 2}, "no --workers"),
    ],
)
def test_options_that_exclude_each_other(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        command(["a.txt"], Path("vocab"), Path("out"), **options)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> Path:
    """Three files, each enough for a share of its own, a vocabulary, and the corpus as made without Ray."""
    folder = tmp_path_factory.mktemp("ray")
    draw = random.Random(0)
    (folder / "text").mkdir()
    for number in range(3):
        documents = [" ".join(draw.choices(words, k=400)).capitalize() + "." for _ in range(3700)]
        (folder / "text" / f"{number}.txt").write_text("\n\n".join([*documents, documents[7]]), "utf-8")
    tokenizer = train_tokenizer(documents[:200], TokenizerConfig(vocab_size=280))
    tokenizer.save(folder / "vocab")
    prepare(find_sources([str(folder / "text")]), tokenizer, folder / "whole", workers=2)
    return folder


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A short place for temporary files: the names of sockets are not long."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


def start(place: Path, out: str, temporary: Path, *options: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "unmask", "prepare", "text", "-t", "vocab", "-o", out, "--engine", "ray"]
    return subprocess.Popen(
        [*line, *options],
        cwd=place,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where the tests run in the background Ctrl-C is ignored, and who is started inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def tree(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def until(found: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not found():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def tasks(process: int) -> list[psutil.Process]:
    """The processes below this one that are at a task of ours."""
    found = []
    for child in psutil.Process(process).children(recursive=True):
        try:
            if child.cmdline()[:1] == ["ray::_call"]:
                found.append(child)
        except psutil.Error:  # it has just ended
            continue
    return found


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=30)
    for process in alive:
        process.kill()
    return not alive


@pytest.mark.slow
def test_a_cluster_that_is_there_and_loses_tasks(
    place: Path, temporary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import ray

    before = psutil.Process().children(recursive=True)
    with ray_cluster(workers=2) as there:
        assert there == 2
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        assert sorted(run_on_ray(eval, ["3 + 4", "os.getpid() > 0 and 1"])) == [1, 7]
        mark = tmp_path / "mark"
        once = f"7 if Path({str(mark)!r}).exists() else Path({str(mark)!r}).touch() or os._exit(9)"
        assert list(run_on_ray(eval, [once])) == [7]
        with pytest.raises(UserError, match="a task on Ray failed, also when tried again: .*died"):
            list(run_on_ray(eval, ["os._exit(9)"]))
        with pytest.raises(ConfigError, match="^it is wrong$"):
            list(run_on_ray(eval, ["(_ for _ in ()).throw(ConfigError('it is wrong'))"]))
        process = start(place, "there", temporary, "--ray-address", ray.get_runtime_context().gcs_address)
        until(lambda: tasks(os.getpid()), process)
        tasks(os.getpid())[0].kill()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert tree(place / "there") == tree(place / "whole")
        started = [child for child in psutil.Process().children(recursive=True) if child not in before]
        assert len(started) > 3
    assert gone(started)
    assert not capsys.readouterr().out  # what Ray says of lost tasks is no result


@pytest.mark.slow
@pytest.mark.parametrize("address", ["127.0.0.1:1", "auto", "nonsense"])
def test_a_cluster_that_does_not_answer(address: str) -> None:
    with pytest.raises(UserError, match=f"^no Ray cluster answers at {address}: ."):
        with ray_cluster(address):
            pass


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_behind_and_the_work_goes_on(place: Path, temporary: Path) -> None:
    process = start(place, "stopped", temporary, "--workers", "2")
    until(lambda: tasks(process.pid), process)
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) > 3
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert gone(below)
    assert not list(temporary.iterdir())
    assert not (place / "stopped" / "manifest.json").exists()
    prepare(
        find_sources([str(place / "text")]), Tokenizer.load(place / "vocab"), place / "stopped", workers=2
    )
    assert tree(place / "stopped") == tree(place / "whole")


@pytest.mark.slow
def test_kill_9_leaves_no_process_behind(place: Path, temporary: Path) -> None:
    process = start(place, "killed", temporary, "--workers", "2")
    until(lambda: tasks(process.pid), process)
    below = psutil.Process(process.pid).children(recursive=True)
    agents = [child for child in below if "Agent" in " ".join(child.cmdline())]
    workers = [child for child in below if child not in agents]
    assert len(workers) > 3
    process.kill()
    process.communicate()
    assert gone(workers)
    for agent in agents:  # Ray gives them a minute to end by themselves
        agent.kill()
