"""Learning from teachers: the loss by its formula, going on to the bit, and teachers that do not fit."""

import json
import math
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from typer.testing import CliRunner

from unmask.checkpoint import load_model, save_model
from unmask.cli import app
from unmask.config import ModelConfig, Recipe
from unmask.data.batches import Batch
from unmask.data.plan import Position
from unmask.errors import ConfigError, ModelError
from unmask.model.network import Model
from unmask.predict import load
from unmask.runs import read_metrics
from unmask.text import find_sources
from unmask.tokenizer import Tokenizer
from unmask.train.feed import StepInput, feed
from unmask.train.graphs import put, room_for
from unmask.train.loop import Trainer
from unmask.train.machine import Machine
from unmask.train.material import gather
from unmask.train.objectives import Objectives
from unmask.train.plan import make_trainer
from unmask.train.pretrain import pretrain
from unmask.train.schedule import Schedule
from unmask.train.start import Start
from unmask.train.work import operations

Make = Callable[..., Recipe]
CPU = Machine(torch.device("cpu"), False)
STILL = ["model.dropout=0.0", "model.attention_dropout=0.0", "train.clip=1e9"]
WIDER = {"width": 48, "layers": 3, "heads": 3, "inner": 64, "positions": 64, "segments": 1}


@pytest.fixture
def teacher(shards: Path, tmp_path: Path) -> Callable[..., str]:
    """Writes a model with drawn weights, and says where."""

    def make(name: str, seed: int = 0, **changes: object) -> str:
        tokenizer = Tokenizer.load(shards / "tokenizer")
        config = ModelConfig(**{**WIDER, "vocab_size": tokenizer.vocab_size, "init_std": 0.3} | changes)
        model = Model(config, generator=torch.Generator().manual_seed(seed))
        save_model(model, tmp_path / name, tokenizer)
        return str(tmp_path / name)

    return make


def first_step(recipe: Recipe, shards: Path, run: Path) -> tuple[Trainer, StepInput]:
    material = gather(recipe, run, Start(data=shards))
    trainer = make_trainer(material, CPU, Schedule(material.recipe, 6))
    return trainer, next(feed(material.corpus, trainer.schedule, 0, Position()))


def log_probabilities(model: Model, batch: Batch, segments: bool) -> Tensor:
    hidden = model.encoder(
        batch.ids,
        batch.positions,
        batch.cu_seqlens,
        batch.max_seqlen,
        batch.segments if segments else None,
    )
    scores = model.mlm(hidden[batch.target_index])
    return scores - scores.exp().sum(-1, keepdim=True).log()


@pytest.mark.parametrize("pairs", ["none", "nsp"])
def test_the_loss_is_that_of_the_formula(
    small: Make, shards: Path, tmp_path: Path, teacher: Callable[..., str], pairs: str
) -> None:
    size = Tokenizer.load(shards / "tokenizer").vocab_size
    names = [teacher("one"), teacher("two", 1, vocab_size=size + 20)]  # a table with rows for nothing
    changes = [*STILL, f"objective.teachers={json.dumps(names)}", "objective.teach=0.7", "objective.mlm=0.5"]
    trainer, inputs = first_step(small(*changes, f"batch.pairs={pairs}"), shards, tmp_path / "run")
    assert len({len(batch.target_ids) for batch in inputs.batches}) == 2
    plain = Model(trainer.model.config, trainer.model.heads).double()
    plain.load_state_dict(trainer.model.state_dict())
    wise = [load_model(name)[0].double() for name in names]
    hard = soft = torch.zeros((), dtype=torch.float64)
    targets = sum(len(batch.target_ids) for batch in inputs.batches)
    for batch in inputs.batches:
        mine = log_probabilities(plain, batch, True)
        with torch.no_grad():
            each = [log_probabilities(model, batch, False)[:, :size].exp() for model in wise]
            each = [row / row.sum(-1, keepdim=True) for row in each]
        hard = hard - mine[range(len(mine)), batch.target_ids].sum()
        soft = soft - ((each[0] + each[1]) / 2 * mine).sum()
    (0.5 * hard / targets + 0.7 * soft / targets).backward()
    record = next(trainer.run([inputs]))
    assert record.parts["mlm"] == pytest.approx(hard.item() / targets, rel=1e-5)
    assert record.parts["taught"] == pytest.approx(soft.item() / targets, rel=1e-5)
    others = sum(value for part, value in record.parts.items() if part not in ("mlm", "taught"))
    assert record.loss == pytest.approx(
        0.5 * record.parts["mlm"] + 0.7 * record.parts["taught"] + others, rel=1e-6
    )
    if pairs == "none":
        for name, weight in trainer.model.named_parameters():
            grad, wanted = weight.grad, plain.get_parameter(name).grad
            assert grad is not None
            assert wanted is not None
            torch.testing.assert_close(grad.double(), wanted, rtol=1e-3, atol=1e-6, msg=name)


def test_its_own_teacher_has_nothing_to_teach(small: Make, shards: Path, tmp_path: Path) -> None:
    """The loss is the entropy of what it expects, which no step lowers; everything counts as agreed."""
    material = gather(small(*STILL), tmp_path, Start(data=shards))
    model = material.model()
    objectives = Objectives(material.recipe, teachers=[material.model()])
    (batch, *_) = next(feed(material.corpus, Schedule(material.recipe, 1), 0, Position())).batches
    outcome = objectives(model, batch)["taught"]
    outcome.losses.sum().backward()  # type: ignore[no-untyped-call]
    expected = log_probabilities(model, batch, True)
    torch.testing.assert_close(outcome.losses, -(expected.exp() * expected).sum(-1))
    assert outcome.correct.all()
    assert all(weight.grad is None or weight.grad.abs().max() < 1e-4 for weight in model.parameters())


def test_empty_targets_teach_nothing(small: Make, shards: Path, tmp_path: Path) -> None:
    recipe = small(*STILL, "batch.sentences=true", "train.micro_tokens=384")
    material = gather(recipe, tmp_path, Start(data=shards))
    other = Model(material.recipe.model, generator=torch.Generator().manual_seed(5))
    objectives = Objectives(material.recipe, teachers=[other])
    (batch,) = next(feed(material.corpus, Schedule(material.recipe, 1), 0, Position())).batches
    filled = room_for(batch, torch.device("cpu"))
    put(batch, filled)
    plain, more = (objectives(material.model(), each)["taught"] for each in (batch, filled))
    there = len(batch.target_ids)
    assert len(more.losses) > there
    torch.testing.assert_close(more.losses[:there], plain.losses)
    assert more.losses[there:].abs().max() == 0
    assert not more.correct[there:].any()


def test_work_counts_the_teachers_way_forward(
    small: Make, shards: Path, tmp_path: Path, teacher: Callable[..., str]
) -> None:
    recipe = small(f"objective.teachers={json.dumps([teacher('one')])}")
    trainer, inputs = first_step(recipe, shards, tmp_path / "run")
    objectives, batch = trainer.objectives, inputs.batches[0]
    assert isinstance(objectives, Objectives)
    config, targets = load_model(tmp_path / "one")[0].config, len(batch.target_ids)
    own = operations(trainer.model.config, batch, targets)
    whole = own + operations(config, batch, targets) / 3
    assert objectives.operations(trainer.model.config, batch) == pytest.approx(whole)


def test_a_student_comes_close_to_its_teacher(small: Make, shards: Path, tmp_path: Path) -> None:
    """With the same few steps it predicts what the teacher predicts more often than without one."""
    changes = [*STILL, "train.lr=0.01"]
    pretrain(small(*changes, "train.steps=60"), tmp_path / "teacher", Start(data=shards))
    name = str(tmp_path / "teacher" / "model")
    before = {path: path.read_bytes() for path in Path(name).iterdir()}
    for run, more in (
        ("alone", []),
        ("taught", [f"objective.teachers={json.dumps([name])}", "objective.teach=2"]),
    ):
        result = pretrain(
            small(*changes, "train.steps=30", "seed=1", *more), tmp_path / run, Start(data=shards)
        )
        assert result.valid is not None
        assert set(result.valid.parts) == {"mlm"}  # the validation asks no teacher
    texts = [
        "O padeiro [MASK] a janela de manhã.",
        "The boy [MASK] letters after lunch.",
        "A vizinha rega as [MASK].",
    ]
    wise = load(name)
    apart = {}
    for run in ("alone", "taught"):
        student = load(tmp_path / run / "model")
        gaps = []
        for text in texts:
            theirs = {each.text: each.score for each in wise.fill(text, top=20)}
            ours = {each.text: each.score for each in student.fill(text, top=140)}
            gaps.append(sum(abs(score - ours.get(each, 0.0)) for each, score in theirs.items()))
        apart[run] = math.fsum(gaps)
    assert apart["taught"] < 0.8 * apart["alone"]
    assert all(path.read_bytes() == content for path, content in before.items())
    assert "- taught by: teacher\n" in (tmp_path / "taught" / "model" / "README.md").read_text("utf-8")
    page = (tmp_path / "taught" / "report.html").read_text("utf-8")
    assert "taught by" in page
    assert "what teachers expect" in page
    steps = [row for row in read_metrics(tmp_path / "taught") if row["split"] == "train"]
    assert steps[-1]["parts"]["taught"] < steps[0]["parts"]["taught"]


def test_resumed_equals_uninterrupted(
    small: Make, shards: Path, tmp_path: Path, watcher: type, teacher: Callable[..., str]
) -> None:
    name = teacher("one")
    recipe, start = small(f"objective.teachers={json.dumps([name])}"), Start(data=shards)
    pretrain(recipe, tmp_path / "whole", start)
    stop = watcher(lambda done: signal.raise_signal(signal.SIGTERM) if done == 3 else None)
    pretrain(recipe, tmp_path / "parts", start, False, stop)
    shutil.move(name, tmp_path / "kept")
    teacher("one", seed=1)
    with pytest.raises(ModelError, match="a teacher changed since this run began"):
        pretrain(recipe, tmp_path / "parts", start, resume=True)
    shutil.rmtree(name)
    shutil.move(tmp_path / "kept", name)
    pretrain(recipe, tmp_path / "parts", start, resume=True)
    whole, parts = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[key], parts[key]) for key in whole)


def test_teachers_that_do_not_fit(
    small: Make, shards: Path, tmp_path: Path, teacher: Callable[..., str]
) -> None:
    def refused(name: str, message: str, *changes: str) -> None:
        with pytest.raises(ModelError, match=message):
            pretrain(
                small(f"objective.teachers={json.dumps([name])}", *changes),
                tmp_path / "run",
                Start(data=shards),
            )

    refused("nowhere", "no model folder at nowhere")
    refused("mini-pt", r"mini-pt has another vocabulary than .*shards: run unmask prepare with --tokenizer")
    refused(teacher("short", positions=40), "reads 40 tokens at once, and the run has sequences of 48")
    refused(teacher("later", family="modernbert-decoder", causal=True, **DECODER), "a teacher fills masks")
    bare = Model(load_model(teacher("whole"))[0].config, heads=())
    save_model(bare, tmp_path / "bare", Tokenizer.load(shards / "tokenizer"))
    refused(str(tmp_path / "bare"), "has no masked-LM head")
    with pytest.raises(ConfigError, match=r"name one \(--teacher MODEL\)"):
        small("objective.teach=2")
    for change in ("objective.causal=0.5", "objective.causal=1", "objective.mlm=0"):
        with pytest.raises(ConfigError, match=r"objective\.teachers need objective\.mlm above 0"):
            small('objective.teachers=["mini-pt"]', change)


DECODER = {
    "segments": 0, "norm": "before", "position": "rotary", "gated": True, "norm_bias": False,
    "attention_bias": False, "inner_bias": False, "head_bias": False, "classifier": "norm", "pooling": "last",
    "scaled_init": True, "bos_id": 2, "eos_id": 3,
}  # fmt: skip


def test_raw_text_takes_the_teachers_vocabulary(
    text: Path, tmp_path: Path, small: Make, teacher: Callable[..., str]
) -> None:
    name = teacher("one")
    recipe = small(f"objective.teachers={json.dumps([name])}", "train.steps=1", "prepare.valid=0.15")
    pretrain(recipe, tmp_path / "run", Start(find_sources([f"pt={text / 'pt.txt'}"])))
    assert Tokenizer.load(tmp_path / "run" / "model").fingerprint == Tokenizer.load(name).fingerprint
    start = Start(find_sources([f"pt={text / 'pt.txt'}"]))
    with pytest.raises(ConfigError, match=r"this run began with objective\.teachers=.*: go on with the same"):
        pretrain(small("train.steps=1", "prepare.valid=0.15"), tmp_path / "run", start, resume=True)
    assert not (tmp_path / "run" / "vocab").exists()  # told before another vocabulary is trained
    several = f"objective.teachers={json.dumps([name, 'mini-pt'])}"
    with pytest.raises(ModelError, match=r"mini-pt has another vocabulary than .*one: they must have one"):
        pretrain(small(several), tmp_path / "other", start)


def test_command_line(shards: Path, tmp_path: Path, teacher: Callable[..., str]) -> None:
    common = ["pretrain", "tiny-docs", "--data", str(shards), "-o", str(tmp_path / "run"), "-q"]
    sizes = ["train.steps=2", "batch.length=48", "train.batch_tokens=96", "train.workers=0"]
    common += [part for size in sizes for part in ("--set", size)]
    made = CliRunner().invoke(app, [*common, "--teacher", teacher("one"), "--teacher", teacher("two", 1)])
    assert made.exit_code == 0, made.output
    assert f'"{tmp_path / "two"}"' in (tmp_path / "run" / "recipe.toml").read_text("utf-8")
    wrong = CliRunner().invoke(app, [*common, "--teacher", "mini-tp"])
    assert isinstance(wrong.exception, ModelError)
    assert "did you mean mini-pt?" in str(wrong.exception)
