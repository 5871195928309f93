"""Forgetting: measured as a plain reference measures it, and less of it where old text is replayed."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tasks.conftest import reviews, tagged
from typer.testing import CliRunner

import unmask
from unmask.checkpoint import load_model, save_model
from unmask.cli import app
from unmask.config import Recipe, TrainConfig
from unmask.data.plan import Position
from unmask.errors import ConfigError, InputError, ModelError, UserError
from unmask.model.network import Model
from unmask.predict import Classifier
from unmask.runs import read_metrics
from unmask.tasks.batches import TaskBatch, TaskFeed
from unmask.tasks.finetune import finetune, gather
from unmask.tasks.replay import Forgetting, MixedFeed, PlainBatches, PlainText, WithReplay
from unmask.tasks.run import FinetuneResult
from unmask.tasks.settings import FinetuneConfig
from unmask.tokenizer import Tokenizer
from unmask.train.feed import StepInput
from unmask.train.loop import Trainer
from unmask.train.machine import Machine, repeatable
from unmask.train.objectives import Objectives
from unmask.train.schedule import Schedule

CPU = Machine(torch.device("cpu"), bf16=False)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "plain.txt"
    path.write_text("\n\n".join(" ".join(example.words) for example in tagged()), "utf-8")
    return path


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory, base: Path, text: Path) -> Path:
    """A model that knows the text a little, so that it can forget it."""
    tokenizer = Tokenizer.load(base)
    model, _ = load_model(base, heads=["mlm"])
    plain = PlainBatches(PlainText(text, tokenizer, 1 << 20), 48, seed=0)
    schedule = Schedule(Recipe(train=TrainConfig(lr=5e-3, compile=False)), 150)
    batches = zip(range(schedule.steps), plain.endless(512), strict=False)
    steps = (StepInput(number, [batch], Position(), 1.0) for number, batch in batches)
    with repeatable(CPU):
        for _ in Trainer(model, schedule, Objectives(Recipe()), CPU).run(steps):
            pass
    folder = tmp_path_factory.mktemp("taught") / "model"
    save_model(model, folder, tokenizer)
    return folder


def tuned(taught: Path, out: Path, **values: Any) -> FinetuneResult:
    usual: dict[str, Any] = {"lr": 5e-3, "epochs": 3, "batch": 16, "patience": 0, "precision": "fp32"}
    return finetune("classify", taught, reviews(), out=out, settings=FinetuneConfig(**usual | values))


def forgotten(result: FinetuneResult) -> Forgetting:
    assert result.forgetting is not None
    return result.forgetting


def test_forgetting_of_the_replayed_text_is_called_that(tmp_path: Path, taught: Path, text: Path) -> None:
    """A model that learns from the text it is measured on says little of what it forgot."""
    other = tmp_path / "other.txt"
    other.write_text(text.read_text("utf-8"), "utf-8")
    for measured, replayed in ((f"pt={text.parent}/pl*.txt", True), (other, False)):
        out = tmp_path / f"out-{replayed}"
        given: dict[str, Any] = {"replay_text": str(text), "report_forgetting": str(measured), "epochs": 1}
        assert forgotten(tuned(taught, out, **given)).replayed == replayed
        told = "loss on the replayed text, which says less of any other: "
        assert (told in (out / "README.md").read_text("utf-8")) == replayed
        assert (told in (out / "report.html").read_text("utf-8")) == replayed


def reference(model: Model, plain: PlainBatches) -> float:
    """Sequence by sequence, every token's scores, in double precision."""
    model = model.double().eval()
    total, count = 0.0, 0
    for batch in plain._batches.one_pass(7):
        starts = batch.cu_seqlens.tolist()
        for start, stop in pairwise(starts):
            size = torch.tensor([0, stop - start], dtype=torch.int32)
            ids, positions = batch.ids[start:stop], torch.arange(stop - start)
            logs = model.mlm(model.encoder(ids, positions, size, stop - start)).log_softmax(-1)
            for place, token in zip(batch.target_index.tolist(), batch.target_ids.tolist(), strict=True):
                if start <= place < stop:
                    total -= float(logs[place - start, token])
                    count += 1
    return total / count


def test_the_loss_is_that_of_a_reference(tmp_path: Path, taught: Path, text: Path) -> None:
    tokenizer = Tokenizer.load(taught)
    result = tuned(taught, tmp_path / "out", replay_text=str(text), report_forgetting=str(text), epochs=1)
    plain = PlainBatches(PlainText(text, tokenizer, 1 << 17), 48, seed=0)
    found = forgotten(result)
    with torch.no_grad():
        assert found.before == pytest.approx(reference(load_model(taught)[0], plain), abs=1e-5)
        after = load_model(tmp_path / "out", heads=["mlm"])[0]
        assert found.after == pytest.approx(reference(after, plain), abs=1e-5)
    assert found.predicted == sum(len(batch.target_ids) for batch in plain._batches.one_pass(3))
    assert found.before != found.after


def test_replay_forgets_less(tmp_path: Path, taught: Path, text: Path) -> None:
    told = {"report_forgetting": str(text), "epochs": 10}
    plain = tuned(taught, tmp_path / "plain", **told)
    kept = tuned(taught, tmp_path / "kept", replay_text=str(text), replay=0.5, **told)
    assert forgotten(plain).before == forgotten(kept).before
    assert forgotten(plain).after > forgotten(plain).before + 0.2
    assert forgotten(kept).after < forgotten(plain).after - 0.2
    assert kept.scores["accuracy"] >= plain.scores["accuracy"] > 0.8
    assert f"{forgotten(kept).after:.4f} after" in (tmp_path / "kept/README.md").read_text("utf-8")
    assert "Masked-LM loss" in (tmp_path / "kept/report.html").read_text("utf-8")
    records = list(read_metrics(tmp_path / "kept"))
    splits = [record["split"] for record in records]
    assert splits.count("replay") == splits.count("train")
    # The head is kept beside the task's where it has learnt, and only there.
    assert set(load_model(tmp_path / "kept")[0].heads) == {"mlm", "pooler", "classify"}
    assert set(load_model(tmp_path / "plain")[0].heads) == {"pooler", "classify"}
    model = unmask.load(tmp_path / "kept")
    assert isinstance(model, Classifier)
    assert model("o vinho awful ontem")[0].name == "bad"  # type: ignore[union-attr]


def test_measuring_changes_nothing(tmp_path: Path, taught: Path, text: Path) -> None:
    tuned(taught, tmp_path / "a", epochs=1)
    tuned(taught, tmp_path / "b", epochs=1, report_forgetting=str(text))
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.8])
def test_steps_are_mixed_evenly(base: Path, text: Path, share: float) -> None:
    made = gather("classify", base, reviews(), reviews()[:4], FinetuneConfig())
    predictor = made.kind.predictor(made.model(0), made.tokenizer, made.task)
    items = made.kind.items(made.kind.prepare(predictor, reviews()), reviews())
    task = TaskFeed(items, 10, 8192, 0, segments=False)
    mixed = MixedFeed(task, PlainBatches(PlainText(text, made.tokenizer, 999), 48, 0), share, 100)
    total = mixed.steps_per_epoch
    steps = list(mixed.steps(0, 2 * total))
    assert [each.step for each in steps] == list(range(2 * total))
    kinds = [isinstance(each.batches[0], TaskBatch) for each in steps]
    assert sum(kinds) == 2 * task.steps_per_epoch
    assert abs((1 - sum(kinds) / len(kinds)) - share) < 0.1
    assert not kinds[total - 1]  # an epoch's task steps are done before it is scored
    theirs = list(task.steps(0, 2 * task.steps_per_epoch))
    ours = [each for each, own in zip(steps, kinds, strict=True) if own]
    for mine, plain in zip(ours, theirs, strict=True):
        assert torch.equal(mine.batches[0].ids, plain.batches[0].ids)
    spread = [sum(kinds[:at]) / at for at in range(10, len(kinds))]
    assert all(abs(1 - seen - share) < 0.2 for seen in spread)


def test_each_batch_has_its_loss(taught: Path, text: Path) -> None:
    class Told:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError("the task's loss was asked about plain text")

    model, _ = load_model(taught)
    plain = PlainBatches(PlainText(text, Tokenizer.load(taught), 999), 48, 0)
    batch = next(plain.endless(60))
    loss = WithReplay(Told())
    assert loss.counts(batch) == {"mlm": len(batch.target_ids)}
    assert set(loss(model, batch)) == {"mlm"}


def test_a_model_without_the_head_is_told(tmp_path: Path, base: Path, text: Path) -> None:
    bare, _ = load_model(base, heads=[])
    save_model(bare, tmp_path / "bare", Tokenizer.load(base))
    for values in ({"report_forgetting": str(text)}, {"replay_text": str(text)}):
        with pytest.raises(ModelError, match="has no masked-LM head"):
            tuned(tmp_path / "bare", tmp_path / "out", **values)
    with pytest.raises(UserError, match="missing"):
        tuned(base, tmp_path / "out", report_forgetting=str(tmp_path / "missing.txt"))
    (tmp_path / "blank.txt").write_text("\n\n \n")
    with pytest.raises(InputError, match=r"blank.txt"):
        tuned(base, tmp_path / "out", replay_text=str(tmp_path / "blank.txt"))
    with pytest.raises(ValueError, match="layers = 0 changes nothing"):
        FinetuneConfig(layers=0, replay_text="x.txt")
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path: Path, base: Path, text: Path) -> None:
    rows = [f"{example.text},{example.target}" for example in reviews()]
    (tmp_path / "train.csv").write_text("text,label\n" + "\n".join(rows), "utf-8")
    command = ["finetune", "classify", "--model", str(base), "--train", str(tmp_path / "train.csv"), "-q"]
    command += ["--replay-text", str(text), "--report-forgetting", str(text), "--lora", "2"]
    run = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "out"), "--set", "epochs=1"])
    assert run.exit_code == 0, run.output
    assert "masked-LM loss on the replayed text, which says less of any other:" in run.output
    wrong = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "no"), "--set", "replay=1"])
    assert isinstance(wrong.exception, ConfigError)
