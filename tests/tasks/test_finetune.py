"""Fine-tuning, from examples to a folder that answers here and in transformers."""

import json
import math
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import Heard
from tests.tasks.conftest import GOOD, questions, reviews, tagged
from typer.testing import CliRunner

import unmask
from unmask.checkpoint import load_model, save_model
from unmask.cli import app
from unmask.errors import ConfigError, InputError, ModelError, OutputError, UserError
from unmask.model.network import Model
from unmask.predict import Answerer, Classifier, Tagger
from unmask.progress import SILENT, Progress, Stage
from unmask.runs import read_metrics
from unmask.sections import Change, load_settings
from unmask.tasks.columns import Columns
from unmask.tasks.examples import QuestionExample, Span, TaggedExample, TextExample, count_repeated
from unmask.tasks.finetune import finetune
from unmask.tasks.kinds import Evaluation
from unmask.tasks.read import Task
from unmask.tasks.run import Run, freeze
from unmask.tasks.settings import FinetuneConfig
from unmask.tasks.texts import Classes
from unmask.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory, base: Path, fast: FinetuneConfig) -> Path:
    out = tmp_path_factory.mktemp("out") / "classifier"
    result = finetune("classify", base, reviews(), out=out, settings=fast)
    assert result.folder == str(out)
    assert result.scores["accuracy"] == 1.0
    assert result.train_examples + result.valid_examples == len(reviews())
    return out


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory, base: Path, fast: FinetuneConfig) -> Path:
    out = tmp_path_factory.mktemp("out") / "tagger"
    settings = fast.model_copy(update={"length": 8, "stride": 2})
    result = finetune("tag", base, tagged(), out=out, settings=settings)
    assert result.metric == "f1"
    assert result.scores["f1"] > 0.9
    return out


@pytest.fixture(scope="module")
def answerer(tmp_path_factory: pytest.TempPathFactory, base: Path, fast: FinetuneConfig) -> Path:
    out = tmp_path_factory.mktemp("out") / "answerer"
    impossible = [
        QuestionExample("Quando mora?", example.context, (), place=example.place) for example in questions()
    ]
    both = [*questions(), *impossible]
    result = finetune("qa", base, both, both[::5], out, fast.model_copy(update={"epochs": 12}))
    assert result.scores["f1"] > 0.8
    assert result.scores["unanswerable_right"] > 0.8
    return out


def test_the_folder_answers(classifier: Path) -> None:
    model = unmask.load(classifier)
    assert isinstance(model, Classifier)
    assert model.config.labels == ("bad", "good")
    found = model([f"a sopa {GOOD[0]} em maio", "the room awful ontem"])
    assert [labels[0].name for labels in found] == ["good", "bad"]  # type: ignore[union-attr]
    assert model("the room awful ontem")[0].name == "bad"  # type: ignore[union-attr]
    long = model(["horrível " + "today " * 100])  # longer than the model: the beginning counts
    assert long[0][0].name == "bad"  # type: ignore[index]


def test_what_is_in_the_folder(classifier: Path) -> None:
    records = list(read_metrics(classifier))
    assert {record["split"] for record in records} == {"train", "valid"}
    assert sum(record["split"] == "valid" for record in records) == 10
    page = (classifier / "report.html").read_text("utf-8")
    for part in ("Training loss", "Validation accuracy", "Confusion", "Classes", "calibration error"):
        assert part in page
    card = (classifier / "README.md").read_text("utf-8")
    assert "license: mit" in card
    assert "| score | value | always 'bad' | of what |" in card
    assert "| accuracy | 1.0000 | 0.5000 | share of the texts that are right |" in card
    assert "| f1 | 1.0000 | 0.0000 | of the class 'good' |" in card
    assert json.loads((classifier / "config.json").read_text())["unmask"]["task"]["name"] == "classify"


def test_transformers_agrees_on_classes(classifier: Path) -> None:
    from transformers import pipeline

    theirs = pipeline("text-classification", str(classifier), top_k=None)
    texts = [example.text for example in reviews()[:6]]
    for ours, found in zip(unmask.load(classifier)(texts), theirs(texts), strict=True):  # type: ignore[operator]
        assert [label.name for label in ours] == [each["label"] for each in found]
        np.testing.assert_allclose([label.score for label in ours], [e["score"] for e in found], atol=1e-5)


def test_transformers_agrees_on_tags(tagger: Path) -> None:
    from transformers import pipeline

    model = unmask.load(tagger)
    assert isinstance(model, Tagger)
    text = "Marta Sá mora em Leeds"
    theirs = pipeline("token-classification", str(tagger), aggregation_strategy="first")(text)
    # eight tokens fit a window, and this text has more: ours are of windows
    whole = Tagger(model.network, model.tokenizer).tag(text)
    found = [(each["entity_group"], each["start"], each["end"]) for each in theirs]
    assert [(each.label, each.start, each.end) for each in whole] == found
    assert [(each.label, each.text) for each in model.tag(text)] == [("PER", "Marta Sá"), ("LOC", "Leeds")]


def test_long_texts_are_tagged_to_their_end(tagger: Path) -> None:
    model = unmask.load(tagger)
    assert isinstance(model, Tagger)
    sentence = ("Rui", "Sá", "mora", "em", "Porto", "ontem")
    (labels,) = model([sentence * 9])  # type: ignore[misc]
    truth = ["B-PER", "I-PER", "O", "O", "B-LOC", "O"] * 9
    assert len(labels) == len(truth)
    assert np.mean([label.name == tag for label, tag in zip(labels, truth, strict=True)]) > 0.85
    text = " ".join(sentence * 9)
    found = model.tag(text)
    assert found[-1].start > len(text) - 20
    assert all(text[entity.start : entity.end] == entity.text for entity in found)
    assert model([["\u200b", "Rui"], []])[0][0].name == "O"  # type: ignore[union-attr,index]


def test_transformers_agrees_on_answers(answerer: Path) -> None:
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    model = unmask.load(answerer)
    assert isinstance(model, Answerer)
    assert model.settings.unanswerable
    question, context = "Onde mora?", "Alice mora em Madrid."
    ours = model(question, context)
    theirs = AutoModelForQuestionAnswering.from_pretrained(answerer)
    inputs = AutoTokenizer.from_pretrained(answerer)(question, context, return_tensors="pt")
    with torch.no_grad():
        out = theirs(**inputs)
    encoding = model.tokenizer.encode(question, context)
    first, last = int(out.start_logits.argmax()), int(out.end_logits.argmax())
    start, end = encoding.offsets[first, 0], encoding.offsets[last, 1]
    assert context[start:end] == ours.text == "Madrid"  # type: ignore[union-attr]


def test_questions_without_an_answer(answerer: Path) -> None:
    model = unmask.load(answerer)
    assert isinstance(model, Answerer)
    found = model(["Quando mora?", "Quem mora?"], ["Rui mora em Leeds.", "Rui mora em Leeds."])
    assert [answer.text for answer in found] == ["", "Rui"]  # type: ignore[union-attr]
    assert all(0 < answer.score <= 1 for answer in found)  # type: ignore[union-attr]
    far = "sempre no fim " * 30 + "Marta mora em Porto."
    assert far[model.answer("Onde mora?", far).start :].startswith(model.answer("Onde mora?", far).text)
    with pytest.raises(InputError, match="context is empty"):
        model.answer("Onde?", " ")


def test_numbers_come_back_in_their_own_units(tmp_path: Path, base: Path, fast: FinetuneConfig) -> None:
    worth = [
        TextExample(e.text, None, 5000.0 if e.target == "good" else 1000.0 + n % 3)
        for n, e in enumerate(reviews())
    ]
    result = finetune("regress", base, worth, out=tmp_path / "out", settings=fast)
    assert result.metric == "spearman"
    assert result.scores["mae"] < 800
    (label,) = unmask.load(tmp_path / "out")("o vinho excelente sempre")  # type: ignore[operator]
    assert 4000 < label.score < 6000
    from transformers import pipeline

    theirs = pipeline("text-classification", str(tmp_path / "out"))("o vinho excelente sempre")
    assert theirs[0]["score"] == pytest.approx(label.score, rel=1e-4)


def test_several_classes_and_pairs(tmp_path: Path, base: Path, fast: FinetuneConfig) -> None:
    several = [
        TextExample(e.text, None, (str(e.target), "time") if "ontem" in e.text else (str(e.target),))
        for e in reviews()
    ]
    longer = fast.model_copy(update={"epochs": 25})
    result = finetune("classify", base, several, several[::3], tmp_path / "multi", longer)
    assert result.scores["micro_f1"] > 0.9
    said = unmask.load(tmp_path / "multi")([e.text for e in several])  # type: ignore[operator]
    right = [
        {x.name for x in labels if x.score > 0.5} == set(e.target)
        for labels, e in zip(said, several, strict=True)
    ]  # type: ignore[arg-type]
    assert np.mean(right) > 0.8
    words = reviews()[:40]
    pairs = [
        TextExample(a.text, b.text, "same" if a.target == b.target else "other")
        for a in words[::3]
        for b in words[::5]
    ]
    weighed = fast.model_copy(update={"class_weights": True, "epochs": 2, "long": "mean", "length": 16})
    result = finetune("pair", base, pairs, out=tmp_path / "pair", settings=weighed)
    assert set(result.scores) == {"accuracy", "macro_f1", "f1", "matthews"}
    both = unmask.load(tmp_path / "pair")("the song bom", "o livro mau " * 20)  # type: ignore[operator]
    assert sum(label.score for label in both) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("layers", "learnt"), [(0, set()), (1, {1}), (2, {0, 1})])
def test_what_is_frozen_does_not_change(
    tmp_path: Path, base: Path, fast: FinetuneConfig, layers: int, learnt: set[int]
) -> None:
    settings = fast.model_copy(update={"layers": layers, "epochs": 1})
    finetune("classify", base, reviews(), out=tmp_path / "out", settings=settings)
    before = load_model(base)[0].encoder.state_dict()
    after = load_model(tmp_path / "out")[0].encoder.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {int(name.split(".")[1]) for name in changed} == learnt
    assert all(name.startswith("blocks.") for name in changed)


def test_no_backward_through_what_is_frozen(base: Path) -> None:
    model, _ = load_model(base, heads=["tag"], changes={"labels": ("O", "B-X")})
    freeze(model, 1)
    ids = torch.arange(5)
    hidden = model.encoder(ids, ids, torch.tensor([0, 5], dtype=torch.int32), 5)
    model.tag(hidden).sum().backward()
    assert model.encoder.blocks[0].attention.qkv.weight.grad is None
    assert model.encoder.embeddings.tokens.weight.grad is None
    assert model.encoder.blocks[1].attention.qkv.weight.grad is not None


def test_the_rate_is_that_of_the_model(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unmask.tasks.settings.HIGHEST_LR", 1)
    result = finetune("classify", base, reviews(), out=tmp_path / "out", settings=FinetuneConfig(epochs=1))
    assert result.lr == pytest.approx(5e-5 * 768 / 32)
    assert "lr 0.0012," in (tmp_path / "out/README.md").read_text("utf-8")
    assert "1 epoch at lr 0.0012," in (tmp_path / "out/report.html").read_text("utf-8")
    with pytest.raises(ConfigError, match="lr: say one"):
        FinetuneConfig().train_config()


def test_muon_moves_the_matrices_of_the_blocks_in_every_direction(
    tmp_path: Path, base: Path, fast: FinetuneConfig
) -> None:
    settings = fast.model_copy(update={"optimiser": "muon", "weight_decay": 0.0})
    result = finetune("classify", base, reviews(), out=tmp_path / "out", settings=settings)
    assert result.scores["accuracy"] == 1.0
    before, after = (load_model(folder)[0] for folder in (base, tmp_path / "out"))
    name = "encoder.blocks.0.feedforward.down.weight"
    moved = torch.linalg.svdvals(after.state_dict()[name] - before.state_dict()[name])
    assert moved.median() > 0.2 * moved.max()  # AdamW moves it along a few directions


def test_seeds_are_summed_up_and_the_best_is_kept(tmp_path: Path, base: Path, fast: FinetuneConfig) -> None:
    settings = fast.model_copy(update={"seeds": 3, "epochs": 1, "lr": 1e-3})
    first = finetune("classify", base, reviews(), out=tmp_path / "a", settings=settings)
    assert len(first.seeds) == 3
    assert first.mean == pytest.approx(np.mean(list(first.seeds.values())))
    assert first.deviation == pytest.approx(np.std(list(first.seeds.values()), ddof=1))
    assert first.scores[first.metric] == max(first.seeds.values()) == first.seeds[first.kept_seed]
    assert first.kept == f"epoch 1 of seed {first.kept_seed}"
    assert f"- weights: {first.kept}, the best by accuracy" in (tmp_path / "a/README.md").read_text("utf-8")
    again = finetune("classify", base, reviews(), out=tmp_path / "b", settings=settings)
    assert again.seeds == first.seeds
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()


def test_it_stops_when_the_score_stays_away(tmp_path: Path, base: Path) -> None:
    settings = FinetuneConfig(lr=1e-9, epochs=9, patience=2, batch=40)
    result = finetune("classify", base, reviews(), out=tmp_path / "out", settings=settings)
    assert result.epochs == 3  # the first is the best, and two are not better
    kept = [row["best"] for row in read_metrics(tmp_path / "out") if row["split"] == "valid"]
    assert kept == [True, True, True]  # but as good: the last of them is kept
    assert (result.kept_epoch, result.kept) == (3, "epoch 3")


def test_the_epoch_that_was_kept_is_named(
    tmp_path: Path, base: Path, fast: FinetuneConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.5, 0.9, 0.9, 0.7])  # of four epochs

    def scored(self: Classes, *_: Any, details: bool = False) -> Evaluation:
        return Evaluation({"accuracy": 0.9 if details else next(scores)})

    monkeypatch.setattr(Classes, "evaluate", scored)
    settings = fast.model_copy(update={"epochs": 4, "patience": 0})
    result = finetune("classify", base, reviews(), out=tmp_path / "out", settings=settings)
    assert (result.epochs, result.kept_epoch, result.kept_seed) == (4, 3, 0)
    assert "- weights: epoch 3, the best by accuracy" in (tmp_path / "out/README.md").read_text("utf-8")
    assert "weights were kept: those of epoch 3." in (tmp_path / "out/report.html").read_text("utf-8")


class Notes(Progress):
    """Keeps the last words behind the numbers."""

    last = ""

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
        watch = self

        class Noted(Stage):
            def note(self, text: str) -> None:
                watch.last = text

        yield Noted()


def test_what_takes_long_is_shown(tmp_path: Path, base: Path, fast: FinetuneConfig, heard: Heard) -> None:
    settings = fast.model_copy(update={"epochs": 1})
    lines = [json.dumps({"text": one.text, "label": one.target}) for one in reviews()]
    (tmp_path / "reviews.jsonl").write_text("\n".join(lines), "utf-8")
    finetune("classify", base, tmp_path / "reviews.jsonl", None, tmp_path / "out", settings, progress=heard)
    assert heard.stages == ["reading", "encoding", "fine-tuning", "scoring"]


def test_a_refusal_stands_alone(tmp_path: Path, base: Path, heard: Heard) -> None:
    lines = [json.dumps({"review": one.text, "label": one.target}) for one in reviews()]
    (tmp_path / "reviews.jsonl").write_text("\n".join(lines), "utf-8")
    for settings in ({"layers": 99}, {"length": 99_999}, {"metric": "bleu"}):
        with pytest.raises(ConfigError):
            finetune(
                "classify", base, tmp_path / "reviews.jsonl", None, tmp_path / "out",
                FinetuneConfig(**settings), progress=heard,
            )  # fmt: skip
    assert heard.said == []


def test_the_last_line_shows_the_best_score(tmp_path: Path, base: Path, fast: FinetuneConfig) -> None:
    watch, settings = Notes(), fast.model_copy(update={"epochs": 1})
    result = finetune("classify", base, reviews(), out=tmp_path / "out", settings=settings, progress=watch)
    assert watch.last.endswith(f"best {result.scores['accuracy']:.4f}")


class Signals(Progress):
    """Sends a signal after some steps."""

    def __init__(self, after: int) -> None:
        self.after, self.said = after, list[str]()

    def say(self, message: str) -> None:
        self.said.append(message)

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
        watch = self

        class Steps(Stage):
            def advance(self, amount: float) -> None:
                watch.after -= 1
                if watch.after == 0:
                    os.kill(os.getpid(), signal.SIGTERM)

        yield Steps() if label == "fine-tuning" else Stage()


@pytest.mark.parametrize(("after", "written"), [(2, False), (7, True)])
def test_a_signal_stops_politely(
    tmp_path: Path, base: Path, fast: FinetuneConfig, after: int, written: bool
) -> None:
    result = finetune("classify", base, reviews(), None, tmp_path / "out", fast, progress=Signals(after))
    assert result.stopped == signal.SIGTERM
    assert (result.folder is not None) == written == (tmp_path / "out").exists()
    assert result.steps == after


@pytest.mark.parametrize(("known", "words"), [(12, "all"), (4, "4")])
def test_validation_examples_that_are_trained_on_are_told(
    tmp_path: Path, base: Path, fast: FinetuneConfig, heard: Heard, known: int, words: str
) -> None:
    settings = fast.model_copy(update={"epochs": 1})
    train = reviews()[:-12]
    valid = [*train[:known], *reviews()[len(train) + known :]]
    result = finetune("classify", base, train, valid, tmp_path / "out", settings, progress=heard)
    assert heard.said[0].startswith(f"{known} of 12 validation examples trained on too: ")
    assert result.valid_in_train == known
    assert result.judges == f"12 examples, {words} of which it was trained on"
    assert f"On {result.judges} and chosen by:" in (tmp_path / "out/README.md").read_text("utf-8")
    assert f"Validated on {result.judges}." in (tmp_path / "out/report.html").read_text("utf-8")


def test_examples_may_be_made_of_lists() -> None:
    mine = TaggedExample(["Rui", "mora"], ["B-X", "O"], "here")  # type: ignore[arg-type]
    assert count_repeated([mine], [replace(mine, place="there")], SILENT) == 1
    assert count_repeated([mine], [replace(mine, tags=["O", "O"])], SILENT) == 0  # type: ignore[arg-type]


def test_an_example_is_known_by_what_is_read_and_said() -> None:
    """Not by its number, nor by which text of a pair stands first."""
    asked = QuestionExample("Quem?", "Rui.", (Span("Rui", 0),), "1")
    assert count_repeated([asked], [replace(asked, id="2")], SILENT) == 1
    pair = TextExample("a", "b", 2.0)
    assert count_repeated([pair], [TextExample("b", "a", 2.0)], SILENT) == 1
    assert count_repeated([pair], [TextExample("b", "a", 3.0)], SILENT) == 0


def test_a_split_is_made_and_said(tmp_path: Path, base: Path, fast: FinetuneConfig) -> None:
    watch = Signals(0)
    settings = fast.model_copy(update={"epochs": 1})
    result = finetune("classify", base, reviews(), None, tmp_path / "out", settings, progress=watch)
    assert f"{result.valid_examples} of {len(reviews())} examples held out" in watch.said[0]
    assert result.valid_examples == 8


GOODS = reviews()
NUMBERS = [TextExample(example.text, None, float(len(example.text))) for example in GOODS]
SPACES = TaggedExample(("", " "), ("O", "B-X"))


@pytest.mark.parametrize(
    ("task", "train", "valid", "settings", "error", "message"),
    [
        ("classify", GOODS[::2], None, {}, InputError, "there is no label but 'good'"),
        (
            "classify",
            [TextExample("a", None, ("x",)), TextExample("b", None, ())],
            [TextExample("a", None, ("x",))],
            {},
            InputError,
            "there is no label but 'x'",
        ),
        ("classify", GOODS, [], {}, InputError, "there is no example to validate on"),
        ("classify", [], GOODS, {}, InputError, "there is no example to learn from"),
        (
            "regress",
            [TextExample("a", "b", 1.0), TextExample("c", None, 2.0, "p.jsonl, line 2")],
            [TextExample("a", "b", 1.0)],
            {},
            InputError,
            "p.jsonl, line 2' has no second text, but others have one",
        ),
        ("tag", [SPACES], [SPACES], {}, InputError, "white space"),
        ("regress", NUMBERS, None, {"metric": "mae"}, ConfigError, "no metric mae; it has spearman, pearson"),
        ("regress", NUMBERS, None, {"class_weights": True}, ConfigError, "regress has no classes to weigh"),
        (
            "classify",
            GOODS,
            [TextExample("x", None, "meh", "v.csv, line 9")],
            {},
            InputError,
            "v.csv, line 9: no training example has the label 'meh', only bad, good",
        ),
        (
            "classify",
            [TextExample("a", None, "1"), TextExample("b", None, "2")],
            None,
            {},
            InputError,
            "too few examples",
        ),
        (
            "regress",
            [TextExample("a", None, 1.0), TextExample("b", None, 1.0)],
            [],
            {},
            InputError,
            "every example has the number 1",
        ),
        (
            "regress",
            [TextExample("a", None, 1.0), TextExample("b", None, float("nan"))],
            [],
            {},
            InputError,
            "not finite",
        ),
        (
            "tag",
            [TaggedExample(("a", "b"), ("O",), "t.conll, line 3")],
            [],
            {},
            InputError,
            "t.conll, line 3: 2 words but 1 tag;",
        ),
        (
            "tag",
            tagged(),
            [TaggedExample(("a",), ("B-ORG",), "line 1")],
            {},
            InputError,
            "no training example has the tag 'B-ORG'",
        ),
        ("qa", [QuestionExample("a", "b")], [], {}, InputError, "no question has an answer"),
        (
            "qa",
            [*questions(), QuestionExample("a", " ", place="q 3")],
            questions(),
            {},
            InputError,
            "q 3: the context is empty",
        ),
        ("classify", GOODS, None, {"metric": "bleu"}, ConfigError, "no metric bleu; it has accuracy"),
        ("classify", GOODS, None, {"layers": 9}, ConfigError, "the model has 2 blocks"),
        ("classify", GOODS, None, {"length": 300}, ConfigError, "takes at most 48"),
        ("tag", tagged(), None, {"long": "head"}, ConfigError, "long would change nothing, .* by classify"),
        ("qa", questions(), None, {"long": "mean"}, ConfigError, "long would change nothing, .* by classify"),
        (
            "classify",
            GOODS,
            GOODS,
            {"valid": 0.2},
            ConfigError,
            "valid would change nothing, .* where no file",
        ),
        ("translate", GOODS, None, {}, ConfigError, "there is no task translate"),
        ("translate", "a.csv", None, {}, ConfigError, "there is no task translate"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    base: Path,
    task: Any,
    train: Any,
    valid: Any,
    settings: dict[str, Any],
    error: type,
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        finetune(task, base, train, valid, tmp_path / "out", FinetuneConfig(**settings))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "need"),
    [
        (["replay=0.2"], "replay_text"),
        (["muon_lr=0.02"], "optimiser=muon"),
        (["layers=0", "layer_decay=0.5"], "blocks that are trained, so not with layers=0"),
        (["lora_alpha=8"], "lora"),
        (["lora=0", "lora_matrices=all"], "lora"),
        (["epochs=2", "patience=1"], "epochs=3 or more, as the first is always the best so far"),
    ],
)
def test_what_the_other_settings_leave_unread(given: list[str], need: str) -> None:
    key = given[-1].partition("=")[0]
    with pytest.raises(ConfigError) as told:
        load_settings(FinetuneConfig, given)
    assert str(told.value) == (
        f"--set: {key} would change nothing, since it is read only with {need}: leave it out"
    )
    assert load_settings(FinetuneConfig, [*given, f"{key}="]).lora == 0  # the default again is not said


def test_what_options_say_together_is_not_put_on_another() -> None:
    several = [Change("--lora", "lora", 2), Change("--layers", "layers", 2)]
    with pytest.raises(ConfigError, match="^lora and layers exclude each other: "):
        load_settings(FinetuneConfig, several)
    with pytest.raises(ConfigError, match="^--set: lora and layers exclude each other: "):
        load_settings(FinetuneConfig, [several[0], "layers=2"])


@pytest.mark.parametrize(
    ("task", "own"), [("tag", "words and tags"), ("qa", "question, context and answers")]
)
def test_columns_that_have_names_of_their_own(task: Any, own: str, base: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"words": ["a"], "tags": ["O"]}\n', "utf-8")
    with pytest.raises(ConfigError, match=f"{task} reads {own}, and no column corpo: name none"):
        finetune(task, base, tmp_path / "a.jsonl", out=tmp_path / "out", columns=Columns("corpo"))


def test_nothing_is_written_over(tmp_path: Path, base: Path) -> None:
    (tmp_path / "kept").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="holds other files and no model"):
            finetune("classify", base, reviews(), out=tmp_path, overwrite=overwrite)


def test_a_model_is_replaced_only_if_asked(tmp_path: Path, base: Path, fast: FinetuneConfig) -> None:
    shutil.copytree(base, tmp_path / "taken")
    with pytest.raises(OutputError, match="taken holds a model already: add --overwrite"):
        finetune("classify", base, "nowhere.csv", out=tmp_path / "taken")  # before anything is read
    assert "mlm" in load_model(tmp_path / "taken")[0].heads
    settings = fast.model_copy(update={"epochs": 1})
    finetune("classify", base, reviews(), out=tmp_path / "taken", settings=settings, overwrite=True)
    assert "classify" in load_model(tmp_path / "taken")[0].heads


def test_what_is_read_is_not_replaced(tmp_path: Path, base: Path) -> None:
    taken, data = tmp_path / "taken", tmp_path / "taken" / "vocab.txt"
    shutil.copytree(base, taken)
    data.write_text("a, b")
    before = (taken / "model.safetensors").read_bytes()
    for model, train, valid, text in (
        (taken, "nowhere.csv", None, None),
        (base, data, None, None),
        (base, "nowhere.csv", str(data), None),
        (base, "nowhere.csv", None, str(data)),
    ):
        settings = FinetuneConfig(replay_text=text)
        with pytest.raises(OutputError, match="taken holds what is to be read .*: name another folder"):
            finetune("classify", model, train, valid, taken, settings, overwrite=True)
    assert (taken / "model.safetensors").read_bytes() == before


def test_a_training_whose_place_was_taken_is_kept(
    tmp_path: Path, base: Path, fast: FinetuneConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    train = Run.train

    def meanwhile(*values: Any) -> None:
        shutil.copytree(base, out)
        train(*values)

    monkeypatch.setattr(Run, "train", meanwhile)
    settings = fast.model_copy(update={"epochs": 1})
    with pytest.raises(OutputError, match="out holds a model already.*; the new model is in ") as caught:
        finetune("classify", base, reviews(), out=out, settings=settings)
    assert "mlm" in load_model(out)[0].heads
    assert "classify" in load_model(str(caught.value).rpartition(" ")[2])[0].heads


def test_a_training_that_diverges_is_told(tmp_path: Path, base: Path) -> None:
    settings = FinetuneConfig(lr=1e30, epochs=9, batch=8)
    with pytest.raises(UserError, match="diverged.*lower lr"):
        finetune("classify", base, reviews(), out=tmp_path / "out", settings=settings)


@pytest.mark.parametrize("task", ["classify", "regress", "tag", "qa"])
@pytest.mark.parametrize("changes", [{}, {"lora": 4}])
def test_an_epoch_that_diverges_is_not_kept(
    tmp_path: Path, base: Path, task: Task, changes: dict[str, Any]
) -> None:
    numbers = [replace(example, target=float(example.target == "good")) for example in reviews()]
    given = {"classify": reviews(), "regress": numbers, "tag": tagged(), "qa": questions()}[task]
    settings = FinetuneConfig(lr=1e36, epochs=1, batch=len(given) // 2, **changes)
    with pytest.raises(UserError, match=r"diverged: .* not finite at step \d; lower lr \(--lr, now 1e\+36\)"):
        finetune(task, base, given, given, tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("batch", [4, 20])  # told by the steps, and at the end of the epoch
@pytest.mark.parametrize("seeds", [1, 2])
def test_a_good_epoch_is_kept_where_a_later_one_diverges(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, batch: int, seeds: int
) -> None:
    keep = Run._keep

    def then_break(run: Run, model: Model, evaluation: Evaluation) -> None:
        keep(run, model, evaluation)
        next(model.parameters()).data.fill_(math.nan)

    monkeypatch.setattr(Run, "_keep", then_break)
    watch = Heard()
    settings = FinetuneConfig(epochs=3, batch=batch, seeds=seeds)
    result = finetune("classify", base, reviews(), reviews(), tmp_path / "out", settings, progress=watch)
    assert (result.kept_epoch, len(result.seeds), result.stopped) == (1, seeds, None)
    told = [said for said in watch.said if "diverged" in said]
    assert [said[:6] for said in told] == ["seed 0", "seed 1"][:seeds]
    assert "not finite" in told[0]
    assert told[0].endswith("; kept: epoch 1 of seed 0")
    unmask.load(tmp_path / "out")(["o livro excelente"])


def test_a_model_of_nans_is_told(tmp_path: Path, base: Path, tokenizer: Tokenizer) -> None:
    """No rate mends it; a fine-tuned one writes no predictions."""
    model, _ = load_model(base, heads=["classify"], changes={"labels": ("bad", "good")})
    next(model.parameters()).data.fill_(math.nan)
    save_model(model, tmp_path / "broken", tokenizer, "# A card\n")
    with pytest.raises(ModelError, match="broken: its weights are not finite.*another model"):
        finetune("classify", tmp_path / "broken", reviews(), out=tmp_path / "out")
    (tmp_path / "in.jsonl").write_text('{"text": "o livro excelente"}\n', "utf-8")
    command = ["predict", "--model", str(tmp_path / "broken"), str(tmp_path / "in.jsonl")]
    run = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "out.jsonl")])
    assert isinstance(run.exception, ModelError)
    assert "broken: its weights or scores are not finite" in str(run.exception)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["broken", "in.jsonl"]


def test_validation_without_any_entity(tmp_path: Path, base: Path) -> None:
    """It has no F1 to speak of, but the score that decides is there."""
    plain = [TaggedExample(("mora", "em"), ("O", "O"))]
    result = finetune("tag", base, tagged(), plain, tmp_path / "out", FinetuneConfig(epochs=1))
    assert result.scores["f1"] == 0


@pytest.mark.parametrize("pair", [None, "the room " * 20])
def test_training_texts_that_are_cut_are_told(
    tmp_path: Path, base: Path, heard: Heard, pair: str | None
) -> None:
    examples = [replace(example, pair=pair) for example in reviews()]
    examples[0] = replace(examples[0], text="o vinho " * 40)
    settings = FinetuneConfig(epochs=1)
    finetune("classify", base, examples, examples[:9], tmp_path / "out", settings, progress=heard)
    count, advice = (80, "") if pair else (1, ": --set long=mean reads such texts whole")
    told = f"{count} of {len(examples)} training examples cut to 48 tokens{advice}"
    assert told in heard.said
