"""A very small pretrained model and labelled examples that it can learn."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from unmask.checkpoint import save_model
from unmask.config import ModelConfig, TokenizerConfig
from unmask.model.network import Model
from unmask.tasks.examples import QuestionExample, Span, TaggedExample, TextExample
from unmask.tasks.settings import FinetuneConfig
from unmask.tokenizer import Tokenizer, train_tokenizer

THINGS = ["o livro", "a sopa", "the film", "o vinho", "the room", "a viagem", "o quarto", "the song"]
GOOD = ["excelente", "wonderful", "bom", "agradável"]
BAD = ["horrível", "awful", "mau", "aborrecido"]
WHEN = ["ontem", "today", "sempre", "no fim", "em maio"]
PEOPLE = ["Rui", "Marta", "Alice", "Tomás"]
PLACES = ["Lisboa", "Leeds", "Porto", "Madrid"]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Several threads only wait for one another in models this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def reviews() -> list[TextExample]:
    return [
        TextExample(f"{thing} {word} {when}", None, label, f"line {n}")
        for n, (thing, when) in enumerate((thing, when) for thing in THINGS for when in WHEN)
        for word, label in ((GOOD[n % 4], "good"), (BAD[n % 4], "bad"))
    ]


def tagged() -> list[TaggedExample]:
    words = [(a, "Sá", "mora", "em", b, c) for a in PEOPLE for b in PLACES for c in WHEN[:3]]
    tags = ("B-PER", "I-PER", "O", "O", "B-LOC", "O")
    return [
        TaggedExample(one[n % 6 :] + words[n - 7], tags[n % 6 :] + tags) for n, one in enumerate(words)
    ]  # they begin anywhere, as windows do


def questions() -> list[QuestionExample]:
    found = []
    for person in PEOPLE:
        for place in PLACES:
            context = f"{person} mora em {place}."
            found.append(QuestionExample("Onde mora?", context, (Span(place, context.index(place)),)))
            found.append(QuestionExample("Quem mora?", context, (Span(person, 0),)))
    return found


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    texts = [example.text for example in reviews()] + [" ".join(e.words) for e in tagged()]
    texts += [f"{e.question} {e.context}" for e in questions()]
    return train_tokenizer(texts, TokenizerConfig(vocab_size=150))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    """A model folder with a masked-LM head, as pretraining leaves it."""
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id, width=32, layers=2, heads=2, inner=64,
        positions=48, init_std=0.2, dropout=0.0, attention_dropout=0.0, head_dropout=0.0,
    )  # fmt: skip
    model = Model(config, ["mlm"], torch.Generator().manual_seed(1))
    folder = tmp_path_factory.mktemp("base") / "model"
    save_model(model, folder, tokenizer, "---\nlicense: mit\n---\n# A card\n")
    return folder


@pytest.fixture(scope="session")
def fast() -> FinetuneConfig:
    """Few steps with a high rate: enough for what can be learnt from one word."""
    return FinetuneConfig(lr=5e-3, epochs=10, batch=16, patience=0)
