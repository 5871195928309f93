"""Studio in a real browser, before a real server of small random models."""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.predict.conftest import make_config, make_model, make_tokenizer
from tests.serve.conftest import running

from unmask.checkpoint import save_model
from unmask.predict.convert import convert

HEADS: dict[str, tuple[str, str, dict[str, object]]] = {
    "lm": ("wordpiece", "mlm", {}),
    "other": ("bpe", "mlm", {"layers": 3}),
    "topics": ("wordpiece", "classify", {"labels": ("weather", "animals", "sea")}),
    "names": ("wordpiece", "tag", {"labels": ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")}),
    "answers": ("wordpiece", "answer", {}),
}
CARDS = {"other": "---\nlanguage: pt-BR\n---\n# A card\n"}
JUDGES = {  # classifiers that say what they judge
    "pairs": {"name": "pair"},
    "singles": {"name": "classify", "pairs": False},
}
GRAPH = "graph"  # an ONNX graph
WIDTHS = {"desktop": (1280, 860), "phone": (390, 844)}
PATIENCE = 20_000  # milliseconds: the first request of a kind loads what it needs
Open = Callable[..., Any]


def write_models(root: Path) -> list[str]:
    """A folder per head, as `name=FOLDER`."""
    tokenizers = {kind: make_tokenizer(kind) for kind in ("wordpiece", "bpe")}
    for name, (kind, head, changes) in HEADS.items():
        config = make_config(tokenizers[kind], positions=512, **changes)
        save_model(make_model(config, (head,)), root / name, tokenizers[kind], CARDS.get(name, "# A card\n"))
    config = make_config(tokenizers["wordpiece"], positions=512, labels=("follows", "not"))
    for name, task in JUDGES.items():
        classifier, facts = make_model(config, ("classify",)), {"task": task}
        save_model(classifier, root / name, tokenizers["wordpiece"], "# A card\n", facts)
    convert(root / "lm", root / GRAPH, "onnx")
    return [f"{name}={root / name}" for name in (*HEADS, *JUDGES, GRAPH)]


def record(step: int) -> str:
    loss = 2 + 5 * math.exp(-step / 20)
    accuracy = {"mlm": 1 - loss / 8}
    values = {"step": step, "split": "train", "tokens": 100 * step, "seconds": step, "loss": loss}
    return json.dumps(values | {"accuracy": accuracy, "lr": 1e-3 / step}) + "\n"


def tuned(seed: int, step: int, matthews: float, best: bool) -> str:
    scores = {"accuracy": 0.6, "matthews": matthews}
    values = {"split": "valid", "seed": seed, "step": step, "scores": scores, "best": best}
    return json.dumps(values) + "\n"


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is still training, beside two fine-tuned models, one of them of two seeds."""
    root = tmp_path_factory.mktemp("runs")
    epochs = [(5, 0.1, True), (10, 0.293, True), (15, -0.2, False)]
    for name, seeds in {"tuned": 1, "seeds": 2}.items():
        (root / name).mkdir()
        lines = [tuned(seed, *epoch) for seed in range(seeds) for epoch in epochs]
        (root / name / "metrics.jsonl").write_text("".join(lines))
        os.utime(root / name / "metrics.jsonl", (0, 0))  # the page begins with the newest
    (root / "training").mkdir()
    (root / "training" / "metrics.jsonl").write_text("".join(map(record, range(1, 41))))
    return root / "training"


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def studio(folders: list[str], run_folder: Path) -> Iterator[str]:
    """The address of a server with a model of every head."""
    with running(*folders, "--runs", str(run_folder.parent), "--quiet") as started:
        yield started.url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium; not for the session: while it lives, no other test can run an event loop."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium: apt-get install chromium")
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Open an address; at the end no page may have failed, warned, or asked another server."""
    contexts, wrong = [], []

    def opened(address: str, *, width: str = "desktop", locale: str = "en-GB", dark: bool = False) -> Any:
        size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
        context = browser.new_context(
            viewport=size, locale=locale, color_scheme="dark" if dark else "light", reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        here = address.split("#")[0].rstrip("/")
        page.on("console", lambda told: told.type in ("error", "warning") and wrong.append(told.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(here) or wrong.append(asked.url))
        page.goto(address)
        return page

    opened.wrong = wrong  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    assert wrong == []
