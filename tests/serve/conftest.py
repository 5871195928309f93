"""Small random models of every head, and a real server of them on loopback."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.predict.conftest import make_config, make_model, make_tokenizer

from unmask.checkpoint import save_model
from unmask.predict import load
from unmask.predict.predictor import Predictor

HEADS: dict[str, tuple[str, dict[str, object]]] = {
    "lm": ("mlm", {}),
    "topics": ("classify", {"labels": ("weather", "animals", "sea")}),
    "ranker": ("classify", {"labels": ("fit",), "problem": "regression"}),
    "names": ("tag", {"labels": ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")}),
    "answers": ("answer", {}),
}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder per head."""
    root = tmp_path_factory.mktemp("served")
    tokenizer = make_tokenizer("wordpiece")
    for name, (head, changes) in HEADS.items():
        config = make_config(tokenizer, positions=128, **changes)
        save_model(make_model(config, (head,)), root / name, tokenizer, "# A card\n")
    return {name: root / name for name in HEADS}


@pytest.fixture(scope="session")
def predictors(folders: dict[str, Path]) -> dict[str, Predictor]:
    """The same models, loaded here."""
    return {name: load(folder, "cpu") for name, folder in folders.items()}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is over, one that trains, a fine-tuned folder, and two that are damaged."""
    root = tmp_path_factory.mktemp("runs")
    for name in ("over", "training"):
        (root / name).mkdir()
        lines = [f'{{"step": {step}, "split": "train", "loss": {9 - step}}}\n' for step in range(1, 4)]
        (root / name / "metrics.jsonl").write_text("".join(lines))
    (root / "over" / "model").mkdir()
    (root / "over" / "model" / "config.json").write_text("{}")
    for name in ("tuned", "damaged", "unreadable"):
        (root / name).mkdir()
    records = ['{"step": 1, "split": "train"}\n', '{"step": 2, "split": "train"}\n']
    (root / "tuned" / "metrics.jsonl").write_text("".join(records))
    (root / "tuned" / "config.json").write_text("{}")
    (root / "damaged" / "metrics.jsonl").write_text(records[0] + "{}\n" + records[1])
    (root / "unreadable" / "metrics.jsonl").write_bytes(b"\xff\xfe\n")
    return root


class Running:
    """A server in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, said: list[str]) -> None:
        self.process, self.url, self.said = process, url, said

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End it: its exit status and what it wrote on standard error since it was ready."""
        self.process.send_signal(number)
        _, told = self.process.communicate(timeout=60)
        return self.process.returncode, told


@contextmanager
def running(*arguments: str, key: str = "") -> Iterator[Running]:
    """`unmask serve` with these arguments, on a free port."""
    command = [sys.executable, "-m", "unmask", "serve", *arguments, "--port", "0"]
    environment = {**os.environ, "UNMASK_API_KEY": key, "OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": ""}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        said: list[str] = []
        try:
            for line in process.stderr:
                said.append(line.rstrip("\n"))
                if found := re.match(r"ready: (http://\S+)", line):
                    yield Running(process, found[1], said)
                    break
            else:
                raise AssertionError("\n".join(said))
        finally:
            process.kill()


@pytest.fixture(scope="session")
def server(folders: dict[str, Path], runs: Path) -> Iterator[Running]:
    """All the models behind one server."""
    named = [f"{name}={folder}" for name, folder in folders.items()]
    with running(*named, "--runs", str(runs), "--quiet") as started:
        yield started


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


Ask = Callable[..., object]


@pytest.fixture
def ask(client: httpx.Client) -> Ask:
    """POST a body and read the answer, which must be 200."""

    def post(path: str, **body: object) -> object:
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return post
