"""A small corpus in two languages, prepared once, and recipes for very small models."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from unmask.config import Recipe, TokenizerConfig, load_recipe
from unmask.data.prepare import prepare
from unmask.progress import Progress, Stage
from unmask.runs import read_metrics
from unmask.text import find_sources
from unmask.tokenizer import train_tokenizer
from unmask.train.state import newest

PEOPLE = {
    "pt": ["O padeiro", "A professora", "O carteiro", "A vizinha", "O menino", "A pintora"],
    "en": ["The baker", "The teacher", "The postman", "The neighbour", "The boy", "The painter"],
}
DEEDS = {
    "pt": ["abre a janela", "vende pão quente", "escreve cartas", "rega as plantas", "espera o comboio"],
    "en": [
        "opens the window",
        "sells warm bread",
        "writes letters",
        "waters the plants",
        "waits for the train",
    ],
}
TIMES = {
    "pt": ["de manhã.", "à tarde.", "aos domingos.", "quando chove."],
    "en": ["in the morning.", "after lunch.", "on Sundays.", "when it rains."],
}


def documents(language: str) -> list[str]:
    """Documents of two to five sentences."""
    every = [f"{p} {d} {t}" for p in PEOPLE[language] for d in DEEDS[language] for t in TIMES[language]]
    shuffled = [every[number * 37 % len(every)] for number in range(len(every))]
    found, at, size = [], 0, 2
    while at < len(shuffled):
        found.append(" ".join(shuffled[at : at + size]))
        at, size = at + size, 2 + size % 4
    return found


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Several threads only wait for one another in models this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documents as two files."""
    folder = tmp_path_factory.mktemp("text")
    for language in PEOPLE:
        (folder / f"{language}.txt").write_text("\n\n".join(documents(language)), "utf-8")
    return folder


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory, text: Path) -> Path:
    """The documents as a corpus folder."""
    folder = tmp_path_factory.mktemp("train")
    tokenizer = train_tokenizer(documents("pt") + documents("en"), TokenizerConfig(vocab_size=140))
    recipe = load_recipe(None, ["prepare.valid=0.15", "prepare.test=0.0"])
    sources = find_sources([f"{language}={text / language}.txt" for language in PEOPLE])
    prepare(sources, tokenizer, folder / "shards", recipe, workers=1)
    return folder / "shards"


SMALL = [
    "model.width=32", "model.layers=2", "model.heads=2", "model.inner=48", "model.positions=64",
    "batch.length=48", "train.batch_tokens=384", "train.micro_tokens=192", "train.workers=0",
    "train.steps=6", "train.lr=0.003", "train.eval_tokens=2000",
    "train.precision=fp32",  # auto depends on the processor, and these numbers must not
]  # fmt: skip


@pytest.fixture(scope="session")
def small() -> Callable[..., Recipe]:
    """A recipe at toy size, with changes."""

    def make(*changes: str, recipe: str | None = None) -> Recipe:
        return load_recipe(recipe, [*SMALL, *changes])

    return make


class Watcher(Progress):
    """Calls back after every training step, and keeps what was said."""

    def __init__(self, after_step: Callable[[int], None] = lambda step: None) -> None:
        self.after_step, self.said = after_step, list[str]()

    def say(self, message: str) -> None:
        self.said.append(message)

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
        yield _Steps(self.after_step) if label == "training" else Stage()


class _Steps(Stage):
    def __init__(self, after_step: Callable[[int], None]) -> None:
        self.after_step, self.step = after_step, 0

    def advance(self, amount: float) -> None:
        self.step += int(amount)

    def note(self, text: str) -> None:
        self.after_step(self.step)


@pytest.fixture(scope="session")
def watcher() -> type[Watcher]:
    """Progress that can act in the middle of a training."""
    return Watcher


def final_weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def identical(one: Path, other: Path) -> bool:
    a, b = newest(one / "checkpoints")[0], newest(other / "checkpoints")[0]
    assert a
    assert b
    tables = [(a.weights, b.weights), (a.optimiser, b.optimiser), (a.average, b.average)]
    tables.append((final_weights(one), final_weights(other)))
    return all(x.keys() == y.keys() and all(torch.equal(x[k], y[k]) for k in x) for x, y in tables)


def rows(run: Path) -> list[dict[str, object]]:
    """The metrics without what depends on the clock."""
    return [
        {k: v for k, v in row.items() if k not in ("seconds", "tokens_per_s", "mfu")}
        for row in read_metrics(run)
    ]


def stopped_at(step: int, watcher: type) -> object:
    """Progress that asks the run to stop after a step, as a cluster would."""
    return watcher(lambda done: signal.raise_signal(signal.SIGTERM) if done == step else None)
