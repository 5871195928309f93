"""Runs from start to end: folders, going on to the bit, signals, failures, bases, recipes."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.conftest import Heard
from tests.train.conftest import final_weights, identical, rows, stopped_at

from unmask.checkpoint import load_model
from unmask.config import Recipe, TokenizerConfig, check_changes, load_recipe, recipe_names
from unmask.data.batches import Batches
from unmask.data.prepare import prepare
from unmask.data.shards import Corpus
from unmask.errors import ConfigError, CorpusError, ModelError, OutputError, UserError
from unmask.predict import MaskedLM, load
from unmask.predict.folders import find_folder
from unmask.progress import Progress, Stage
from unmask.runs import read_metrics
from unmask.text import find_sources
from unmask.text.split import split_of, text_hash
from unmask.tokenizer import Tokenizer, extend, train_tokenizer
from unmask.train import plan
from unmask.train.loop import Trainer
from unmask.train.machine import Machine
from unmask.train.material import gather
from unmask.train.pretrain import Pretraining, dry_run, pretrain
from unmask.train.start import Start
from unmask.train.validate import validation_batches

Make = Callable[..., Recipe]
GOLDEN = Path(__file__).resolve().parents[1] / "golden"

OBJECTIVES = {
    "mlm": [],
    "muon": ["train.optimiser=muon"],
    "nsp": ["batch.pairs=nsp"],
    "sop": ["batch.pairs=sop", "batch.mask.kind=word"],
    "span": ["batch.mask.kind=span", "objective.sbo=true"],
    "causal": ["objective.causal=1.0", "model.causal=true", "model.family=unmask"],
    "hybrid": ["objective.causal=0.5", "batch.mask.ratio_end=0.3"],
    "stages": ["train.stages=[{share=0.5,length=16},{share=0.5,length=64}]", "train.average=0.4"],
    "half": ["train.precision=bf16"],
    "workers": ["train.workers=2", "train.batch_warmup=0.5", "batch.alpha=0.3"],
}


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_resumed_equals_uninterrupted(
    kind: str, small: Make, shards: Path, tmp_path: Path, watcher: type
) -> None:
    recipe, start = small(*OBJECTIVES[kind], "train.save_every=100", "train.eval_every=2"), Start(data=shards)
    whole = pretrain(recipe, tmp_path / "whole", start)
    assert whole.steps == 6
    assert whole.stopped is None
    for number, step in enumerate([1, 3, 5] if kind in ("mlm", "stages") else [2]):
        result = pretrain(recipe, tmp_path / "parts", start, number > 0, stopped_at(step, watcher))
        assert (result.steps, result.stopped, result.model) == (step, signal.SIGTERM, None)
    result = pretrain(recipe, tmp_path / "parts", start, resume=True)
    assert result.steps == 6
    assert identical(tmp_path / "whole", tmp_path / "parts")
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")
    assert result.valid == whole.valid


def test_the_folder_of_a_run(small: Make, shards: Path, tmp_path: Path) -> None:
    result = pretrain(
        small("train.steps=8", "train.keep=3", "train.eval_every=4"), tmp_path / "run", Start(data=shards)
    )
    run = tmp_path / "run"
    assert {p.name for p in run.iterdir()} == {
        ".lock", "recipe.toml", "plan.json", "metrics.jsonl", "report.html", "checkpoints", "best", "model",
    }  # fmt: skip
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == ["00000006", "00000007", "00000008"]
    assert load_recipe(run / "recipe.toml").model.vocab_size == 140
    records = list(read_metrics(run))
    train = [record for record in records if record["split"] == "train"]
    valid = [record for record in records if record["split"] == "valid"]
    assert [record["step"] for record in train] == list(range(1, 9))
    assert set(valid[-1]["languages"]) == {"en", "pt"}
    assert {"mlm", "masked", "random", "kept"} <= set(valid[-1]["accuracy"])
    assert valid[-1]["loss"] < valid[0]["loss"]
    assert result.best_loss == pytest.approx(min(record["loss"] for record in valid), rel=1e-5)
    mean = sum(valid[-1]["languages"][name]["loss"] for name in ("en", "pt")) / 2
    assert mean == pytest.approx(valid[-1]["loss"], abs=0.2)
    assert "fill-mask" in (run / "model" / "README.md").read_text()


def test_transformers_opens_the_model(small: Make, shards: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    from unmask.predict import load

    pretrain(small("train.steps=20", "train.lr=0.01"), tmp_path / "run", Start(data=shards))
    folder = tmp_path / "run" / "model"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder)
    text = "O padeiro [MASK] pão quente."
    given = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        scores = model(**given).logits[0, given["input_ids"][0].tolist().index(tokenizer.mask_token_id)]
    ours = load(folder, device="cpu").fill(text, top=1)[0]
    assert ours.text
    best = tokenizer.decode(scores.argmax())
    assert best in ours.text


def test_from_raw_text_in_one_go(small: Make, text: Path, tmp_path: Path) -> None:
    recipe = small("tokenizer.vocab_size=120", "prepare.valid=0.1", "train.steps=", "train.epochs=0.5")
    sources = find_sources([f"pt={text / 'pt.txt'}", f"en={text / 'en.txt'}"])
    planned = dry_run(recipe, tmp_path / "run", Start(sources))
    assert planned.tokens_per_s
    assert planned.memory_bytes
    assert planned.seconds
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*") if p.is_file()}
    assert planned.epochs == pytest.approx(0.5, rel=0.2)
    result = pretrain(recipe, tmp_path / "run", Start(sources))
    assert result.steps == planned.steps
    kept = {p for p, when in made.items() if p.stat().st_mtime_ns == when}
    assert kept == set(made), "vocabulary and shards are made once"
    assert Tokenizer.load(tmp_path / "run" / "model").vocab_size == 120
    other = small("tokenizer.vocab_size=110", "prepare.valid=0.1", "train.steps=", "train.epochs=0.5")
    with pytest.raises(OutputError, match="holds a run already"):
        pretrain(other, tmp_path / "run", Start(sources))


class Meter(Progress):
    """Progress that keeps how much of each stage was done."""

    def __init__(self) -> None:
        self.done: dict[str, float] = {}

    @contextmanager
    def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
        meter = self

        class Counted(Stage):
            def advance(self, amount: float) -> None:
                meter.done[label] = meter.done.get(label, 0) + amount

        yield Counted()


def test_a_step_costs_something_and_each_of_its_tokens_too() -> None:
    first, last = plan.Step(512, 1 + 0.512, 100 + 512), plan.Step(2048, 1 + 2.048, 100 + 2048)
    far = plan.on_line(first, last, (65_536 - 512) / (2048 - 512))
    assert far.tokens == 65_536
    assert far.seconds == pytest.approx(1 + 65.536)
    assert far.memory == 100 + 65_536


def test_a_large_step_on_a_cpu_is_estimated_from_small_ones(
    small: Make, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_LONG", 0.05)
    step = 1 << 22
    large = small(f"train.batch_tokens={step}", f"train.micro_tokens={step}", "train.optimiser=muon")
    meter = Meter()
    estimated = dry_run(large, tmp_path / "run", Start(data=shards), meter)
    assert estimated.estimated_from
    assert estimated.estimated_from * 30 < step
    assert 0 < meter.done["measuring"] < step
    assert estimated.memory_bytes
    assert estimated.tokens_per_s
    assert dry_run(small(), tmp_path / "run", Start(data=shards)).estimated_from is None


def test_a_heavy_model_is_estimated_from_few_of_its_blocks(
    small: Make, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def cost(blocks: int, tokens: int) -> plan.Step:
        return plan.Step(tokens, 1 + blocks * (0.5 + tokens / 1000), 10_000 + blocks * (100 + 3 * tokens))

    def measured(trainer: Trainer, corpus: Corpus, size: int, *given: Any) -> plan.Step:
        assert len(trainer.model.encoder.blocks) < 40
        tried.append(size)
        return cost(len(trainer.model.encoder.blocks), size)

    step = 1 << 22
    sizes = f"train.batch_tokens={step}", f"train.micro_tokens={step // 2}"
    deep = small("model.layers=40", "model.global_every=1", "model.window=0", *sizes)
    material = gather(deep, tmp_path, Start(data=shards))
    weights = sum(weight.numel() for weight in material.model().parameters())
    monkeypatch.setattr(plan, "_HEAVY", weights)
    monkeypatch.setattr(plan, "_measure", measured)
    monkeypatch.setattr(plan, "_FORGET", tmp_path / "forget")
    (tmp_path / "forget").touch()
    found = dry_run(deep, tmp_path / "run", Start(data=shards))
    assert (found.parameters, found.estimated_from, found.estimated_blocks) == (weights, max(tried), 4)
    assert found.tokens_per_s == pytest.approx(step / cost(40, step).seconds)
    assert found.memory_bytes == cost(40, step // 2).memory
    assert (tmp_path / "forget").read_text() == "5"
    monkeypatch.setattr(plan, "_FORGET", tmp_path)  # it is there, and nothing can be written to it
    assert dry_run(deep, tmp_path / "run", Start(data=shards)).memory_bytes is None


_LINES = ", or --set text.documents=line if every line is a document"
_MORE = ": for more, prepare it with --set prepare.valid=0.2"


@pytest.mark.parametrize(
    ("names", "documents", "told"),
    [
        (["a.csv"], "block", f"no document fell to validation{_MORE}"),
        (
            ["a.txt"],
            "block",
            f"no document fell to validation, as one cannot be shared: give more text{_LINES}",
        ),
        (["a.txt"], "line", f"no document fell to validation{_MORE}"),
        (["pt=many.csv", "en=a.csv"], "block", f"no document of en fell to validation{_MORE}"),
    ],
)
def test_a_corpus_without_validation_is_told(
    names: list[str],
    documents: str,
    told: str,
    small: Make,
    shards: Path,
    tmp_path: Path,
    watcher: type,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "a.txt"):
        Path(name).write_text("text\n" + "O padeiro saiu cedo de casa.\n" * 9, "utf-8")
    many = [f"O padeiro saiu de casa {number}.\n" for number in range(300)]
    Path("many.csv").write_text("text\n" + "".join(many), "utf-8")
    changes = [
        f"prepare.valid={0.02 if len(names) > 1 else 0}",
        "prepare.test=0",
        "prepare.deduplicate=false",
        f"text.documents={documents}",
    ]
    prepare(
        find_sources(names), Tokenizer.load(shards / "tokenizer"), tmp_path / "shards", small(*changes),
        workers=1,
    )  # fmt: skip
    watch = watcher()
    pretrain(small("train.steps=1"), tmp_path / "run", Start(data=tmp_path / "shards"), progress=watch)
    assert told in watch.said


def test_resume_begins_a_run_that_left_no_checkpoint(small: Make, shards: Path, tmp_path: Path) -> None:
    start = Start(data=shards)
    pretrain(small("train.steps=9"), tmp_path / "run", start, resume=True)
    shutil.rmtree(tmp_path / "run" / "checkpoints")  # as if it had been killed before the first one
    assert pretrain(small(), tmp_path / "run", start, resume=True).steps == 6
    assert [row["step"] for row in read_metrics(tmp_path / "run") if row["split"] == "train"] == [
        *range(1, 7)
    ]


def test_a_run_has_a_folder_of_its_own(small: Make, shards: Path, tmp_path: Path) -> None:
    """A folder of books is no place for it; one that a killed run left is, however often that fails."""
    start, run = Start(data=shards), tmp_path / "run"
    run.mkdir()
    (run / "book.txt").write_text("Era uma vez.", "utf-8")
    with pytest.raises(OutputError, match="holds other files and no run"):
        pretrain(small(), run, start)
    assert [path.name for path in run.iterdir()] == ["book.txt"]
    (run / "book.txt").rename(run / "metrics.jsonl")
    (run / "plan.json").write_text("{}", "utf-8")
    for _ in range(2):
        with pytest.raises(UserError, match="missing"):
            pretrain(small(), run, Start(data=tmp_path / "missing"), resume=True)
    (run / "metrics.jsonl").unlink()
    assert pretrain(small(), run, start, resume=True).steps == 6


def test_a_finished_run_is_finished(small: Make, shards: Path, tmp_path: Path) -> None:
    first = pretrain(small(), tmp_path / "run", Start(data=shards))
    before = final_weights(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    again = pretrain(small(), tmp_path / "run", Start(data=shards), resume=True)
    assert again == first
    assert all(torch.equal(before[name], tensor) for name, tensor in final_weights(tmp_path / "run").items())


SPOILT = [  # a rate that rises until it does harm
    "train.steps=60", "train.lr=5", "train.warmup=1.0", "train.clip=1e9", "train.eval_every=2",
    "train.patience=2",
]  # fmt: skip


@pytest.mark.parametrize("changes", [["batch.pairs=nsp"], ["train.average=0.99"]])
def test_patience_ends_a_run_with_its_best_weights(
    changes: list[str], small: Make, shards: Path, tmp_path: Path, watcher: type
) -> None:
    recipe, start, run = small(*SPOILT, *changes), Start(data=shards), tmp_path / "run"
    result = pretrain(recipe, run, start)
    losses = {row["step"]: row["loss"] for row in read_metrics(run) if row["split"] == "valid"}
    best = min(losses, key=lambda step: losses[step])
    assert (result.steps, result.without_gain, result.model_step) == (best + 4, 2, best)
    assert result.steps < 60
    assert result.valid
    assert result.valid.loss == result.best_loss == pytest.approx(losses[best])
    assert f"{best} steps" in (run / "model" / "README.md").read_text("utf-8")
    model, report = load_model(run / "model")
    assert not report.missing
    assert not report.unused
    assert ("nsp" in model.heads) == ("batch.pairs=nsp" in changes)
    Tokenizer.load(run / "model")

    # Stopped while it waited for a better one, it ends the same; ended, it is ended.
    parts = tmp_path / "parts"
    assert pretrain(recipe, parts, start, False, stopped_at(best + 3, watcher)).model_step is None
    for _ in range(2):
        again = pretrain(recipe, parts, start, resume=True)
        assert (again.valid, again.steps, again.model_step) == (result.valid, result.steps, best)
        assert identical(run, parts)


@pytest.mark.parametrize("steps", [4, 6])
def test_patience_keeps_the_best_weights_of_a_run_that_ends_as_planned(
    steps: int, small: Make, shards: Path, tmp_path: Path
) -> None:
    """Before it would end the run, and just when it would."""
    result = pretrain(small(*SPOILT, f"train.steps={steps}"), tmp_path / "run", Start(data=shards))
    losses = {row["step"]: row["loss"] for row in read_metrics(tmp_path / "run") if row["split"] == "valid"}
    best = min(losses, key=lambda step: losses[step])
    assert best < steps
    assert (result.steps, result.without_gain, result.model_step) == (steps, None, best)
    assert result.valid
    assert result.valid.loss == pytest.approx(losses[best])


def test_the_best_weights_that_are_gone_are_no_model(small: Make, shards: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = pretrain(small(*SPOILT), run, Start(data=shards))
    shutil.rmtree(run / "best")
    again = pretrain(small(*SPOILT), run, Start(data=shards), resume=True)
    assert again.model_step == again.steps == result.steps
    assert again.valid != result.valid


def test_patience_without_validation_text_is_refused(small: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("O padeiro saiu cedo de casa.\n", "utf-8")
    recipe = small("train.patience=2", "tokenizer.vocab_size=28")
    heard = Heard()
    with pytest.raises(ConfigError, match="there is no validation text: leave it out"):
        pretrain(recipe, tmp_path / "run", Start(find_sources([str(tmp_path / "a.txt")])), progress=heard)
    assert heard.said == []


def test_a_run_that_is_refused_does_not_begin(small: Make, shards: Path, tmp_path: Path) -> None:
    heard, start = Heard(), Start(data=shards)
    refused = small("model.qk_norm=true", "model.vocab_size=999")
    with pytest.raises(ModelError, match="cannot express model.qk_norm"):
        pretrain(refused, tmp_path / "run", start, resume=True, progress=heard)
    assert heard.said == []
    allowed = small("model.vocab_size=999", "train.steps=1")
    pretrain(allowed, tmp_path / "run", start, resume=True, progress=heard)
    assert "model.vocab_size = 999 is not used" in heard.said[0]
    assert heard.said[1] == f"{tmp_path / 'run'} holds no checkpoint yet: the run begins"


def test_the_command_says_what_ended_a_run(shards: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from unmask.cli import app

    changes = [part for change in (*TOY[:-1], *SPOILT) for part in ("--set", change)]
    command = ["pretrain", "tiny-docs", "--data", str(shards), "-o", str(tmp_path / "run"), *changes, "-q"]
    shown = CliRunner().invoke(app, command).stdout
    told = json.loads(CliRunner().invoke(app, [*command, "--resume", "--json"]).stdout)
    assert told["without_gain"] == 2
    line = f"stopped: 2 validations without a lower loss; model/ is that of step {told['model_step']}"
    assert line in shown.splitlines()


def poisoned(recipe: Recipe, shards: Path, run: Path, steps: range, watcher: type) -> tuple[Pretraining, Any]:
    """A run into whose weights an infinity is put after some steps."""

    def poison(step: int) -> None:
        if step in steps:
            with torch.no_grad():
                training.trainer.model.heads["mlm"].bias[7] = float("inf")

    watch = watcher(poison)
    material, machine = gather(recipe, run, Start(data=shards)), Machine(torch.device("cpu"), False)
    training = Pretraining(material, machine, run, watch)
    return training, watch


def test_after_several_bad_steps_the_weights_go_back(
    small: Make, shards: Path, tmp_path: Path, watcher: type
) -> None:
    recipe = small("train.steps=16", "train.save_every=4", "train.eval_every=16")
    training, watch = poisoned(recipe, shards, tmp_path / "run", range(6, 7), watcher)
    assert training.train().steps == 16
    records = [record for record in read_metrics(tmp_path / "run") if record["split"] == "train"]
    assert [record["step"] for record in records if record["skipped"]] == [7, 8, 9, 10, 11]
    assert [record["loss"] is None for record in records] == [record["skipped"] for record in records]
    assert any("the weights are those of step 4 again" in said for said in watch.said)


def test_a_run_that_diverges_again_and_again_gives_up(
    small: Make, shards: Path, tmp_path: Path, watcher: type
) -> None:
    recipe = small("train.steps=60", "train.save_every=4", "train.eval_every=60")
    training, _ = poisoned(recipe, shards, tmp_path / "run", range(6, 60), watcher)
    with pytest.raises(UserError, match=r"diverged.*lower train\.lr"):
        training.train()


def test_a_broken_checkpoint_is_passed_over(small: Make, shards: Path, tmp_path: Path, watcher: type) -> None:
    recipe, start = small("train.save_every=1"), Start(data=shards)
    pretrain(recipe, tmp_path / "whole", start)
    pretrain(recipe, tmp_path / "run", start, False, stopped_at(4, watcher))
    victim = tmp_path / "run" / "checkpoints" / "00000004" / "rank-00000-of-00001.safetensors"
    content = bytearray(victim.read_bytes())
    content[-3] ^= 4
    victim.write_bytes(content)
    watch = watcher()
    pretrain(recipe, tmp_path / "run", start, True, watch)
    assert any("passed over a broken checkpoint" in said for said in watch.said)
    assert any("after step 3" in said for said in watch.said)
    assert identical(tmp_path / "whole", tmp_path / "run")


def test_without_a_whole_checkpoint_nothing_is_begun_again(small: Make, shards: Path, tmp_path: Path) -> None:
    recipe, start, run = small(), Start(data=shards), tmp_path / "run"
    pretrain(recipe, run, start)
    for file in (run / "checkpoints").glob("*/*.safetensors"):
        file.write_bytes(file.read_bytes()[:100])
    model = (run / "model" / "model.safetensors").read_bytes()
    with pytest.raises(ModelError, match=r"no checkpoint in .* is whole: delete that folder to begin again"):
        pretrain(recipe, run, start, True)
    assert (run / "model" / "model.safetensors").read_bytes() == model


def test_what_changed_since_is_refused(small: Make, shards: Path, tmp_path: Path, watcher: type) -> None:
    folder = tmp_path / "shards"
    shutil.copytree(shards, folder)
    start = Start(data=folder)
    pretrain(small(), tmp_path / "run", start, False, stopped_at(3, watcher))
    with pytest.raises(OutputError, match="add --resume"):
        pretrain(small(), tmp_path / "run", start)
    with pytest.raises(
        ConfigError, match=r"began with batch\.mask\.ratio=0\.15, with train\.lr=0\.003: go on"
    ):
        pretrain(small("train.lr=0.1", "batch.mask.ratio=0.2", "train.keep=5"), tmp_path / "run", start, True)
    shard = next(iter((folder / "train").glob("*.safetensors")))
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(CorpusError, match="changed since it was prepared"):
        pretrain(small(), tmp_path / "run", start, True)
    recipe = load_recipe(None, ["prepare.valid=0.2"])
    (tmp_path / "other.txt").write_text("A vizinha rega as plantas.\n\nO menino espera o comboio.", "utf-8")
    sources, tokenizer = find_sources([str(tmp_path / "other.txt")]), Tokenizer.load(shards / "tokenizer")
    prepare(sources, tokenizer, tmp_path / "other", recipe, workers=1)
    with pytest.raises(CorpusError, match="changed since this run began"):
        pretrain(small(), tmp_path / "run", Start(data=tmp_path / "other"), True)


def test_what_is_learned_is_what_the_model_can_be_asked(small: Make, shards: Path, tmp_path: Path) -> None:
    run, causal = tmp_path / "run", ["model.causal=true", "model.family=unmask"]
    for changes in (causal, [*causal, "objective.causal=0.5"]):
        with pytest.raises(ConfigError, match=r"cannot fill masks.* set objective\.causal = 1"):
            pretrain(small(*changes), run, Start(data=shards))
    with pytest.raises(ConfigError, match=r"set model\.causal = true .*, or a smaller share"):
        pretrain(small("objective.causal=1"), run, Start(data=shards))
    pretrain(small(*causal, "objective.causal=1", "train.steps=1"), run, Start(data=shards))
    with pytest.raises(ConfigError, match="cannot fill masks"):
        pretrain(small(), tmp_path / "on", Start(data=shards, base=run / "model"))


def test_the_text_of_validation_does_not_depend_on_what_a_device_takes_at_once(
    small: Make, shards: Path
) -> None:
    corpus, more = Corpus.open(shards, "valid"), ["batch.pairs=nsp", "batch.sentences=true"]
    for asked, *changes in ((300,), (600,), (10**6,), (300, more[0]), (300, more[1])):
        found = []
        for micro in (48, 96, 250, 5000):
            recipe = small(f"train.micro_tokens={micro}", f"train.eval_tokens={asked}", *changes)
            made = list(validation_batches(corpus, recipe))
            assert all(batch.tokens <= max(micro, 48) + 48 for batch in made)
            found.append(
                [torch.cat([getattr(batch, name) for batch in made]) for name in ("ids", "target_ids")]
            )
        assert all(torch.equal(*pair) for other in found for pair in zip(found[0], other, strict=True))
        whole = sum(batch.tokens for batch in Batches(corpus, recipe.batch, recipe.seed).one_pass(1))
        assert min(asked, whole) <= sum(batch.tokens for batch in made) < asked + 48


def test_mistakes_are_one_clear_line(small: Make, shards: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="either --data SHARDS or --text"):
        pretrain(small(), tmp_path / "run", Start())
    with pytest.raises(ConfigError, match=r"longer than the model's 64 positions: .*, or model\.positions$"):
        pretrain(small("batch.length=128"), tmp_path / "run", Start(data=shards))
    base = Start(data=shards, base=find_folder("mini-pt"))  # whose positions cannot be set
    with pytest.raises(ConfigError, match=r"positions: set batch\.length \(or the stages\)$"):
        pretrain(small("batch.length=4096"), tmp_path / "run", base)
    (tmp_path / "some.txt").write_text("O carteiro espera o comboio.", "utf-8")
    with pytest.raises(ConfigError, match="longer than the model's 64 positions"):
        pretrain(
            small("batch.length=128"), tmp_path / "raw", Start(find_sources([str(tmp_path / "some.txt")]))
        )
    assert not (tmp_path / "raw").exists()  # told before anything is prepared
    with pytest.raises(CorpusError, match="not a corpus"):
        pretrain(small(), tmp_path / "run", Start(data=shards / "train"))
    with pytest.raises(UserError, match="cannot express model.gated"):
        pretrain(small("model.gated=true"), tmp_path / "run", Start(data=shards))
    (tmp_path / "tuned").mkdir()
    for name in ("config.json", "metrics.jsonl"):  # fine-tuned models have both
        (tmp_path / "tuned" / name).write_text("{}")
    with pytest.raises(OutputError, match="tuned holds a model"):
        pretrain(small(), tmp_path / "tuned", Start(data=shards))
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        pretrain(small(), tmp_path / "file", Start(data=shards))


def test_going_on_from_a_model_with_new_entries(
    small: Make, shards: Path, text: Path, tmp_path: Path
) -> None:
    pretrain(small(), tmp_path / "base", Start(data=shards))
    base = tmp_path / "base" / "model"
    old = Tokenizer.load(base)
    words = ["zamburra zamburra cravina cravina", "cravina zamburra do jardim"] * 20
    new = extend(old, words, 4)
    assert new.vocab_size > old.vocab_size
    prepare(
        find_sources([str(text)]), new, tmp_path / "new", load_recipe(None, ["prepare.valid=0.1"]), workers=1
    )
    material = gather(small(), tmp_path / "run", Start(data=tmp_path / "new", base=base))
    table = material.model().encoder.embeddings.tokens.weight
    before = load_file(base / "model.safetensors")["bert.embeddings.word_embeddings.weight"]
    assert torch.equal(table[: old.vocab_size], before)
    for entry, pieces in new.old_pieces.items():
        torch.testing.assert_close(table[entry], before[list(pieces)].mean(0))
    result = pretrain(small(), tmp_path / "run", Start(data=tmp_path / "new", base=base))
    assert result.steps == 6
    assert Tokenizer.load(tmp_path / "run" / "model").vocab_size == new.vocab_size
    stranger = tmp_path / "stranger"
    other = train_tokenizer(["uma frase bem diferente das outras"] * 5, TokenizerConfig(vocab_size=40))
    prepare(find_sources([str(text)]), other, stranger, load_recipe(None, []), workers=1)
    with pytest.raises(ModelError, match="another tokenizer"):
        pretrain(small(), tmp_path / "refused", Start(data=stranger, base=base))


def test_going_on_lowers_the_loss_from_where_it_was(small: Make, shards: Path, tmp_path: Path) -> None:
    recipe = small("train.steps=20", "train.eval_every=20")
    first = pretrain(recipe, tmp_path / "base", Start(data=shards))
    more = pretrain(recipe, tmp_path / "more", Start(data=shards, base=tmp_path / "base" / "model"))
    assert first.valid
    assert more.valid
    assert more.valid.loss < first.valid.loss
    assert (
        next(iter(read_metrics(tmp_path / "more")))["loss"]
        < next(iter(read_metrics(tmp_path / "base")))["loss"] - 0.3
    )


TOY = [
    "model.width=32", "model.layers=3", "model.heads=2", "model.inner=48", "model.positions=64",
    "batch.length=32", "train.batch_tokens=256", "train.micro_tokens=128", "train.workers=0",
    "train.eval_tokens=500", "train.steps=3",
]  # fmt: skip


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_runs_at_toy_size(name: str, shards: Path, tmp_path: Path) -> None:
    stages = load_recipe(name).train.stages
    toy = [*TOY, "train.stages=[{share=0.7,length=16},{share=0.3,length=32}]"] if stages else TOY
    result = pretrain(load_recipe(name, toy), tmp_path / "run", Start(data=shards))
    assert result.steps == 3
    assert result.valid
    model, report = load_model(tmp_path / "run" / "model")
    assert not report.missing
    assert not report.unused
    assert model.config == load_recipe(tmp_path / "run" / "recipe.toml").model


WITHOUT_DROPOUT = ["model.dropout=0.0", "model.attention_dropout=0.0"]


@pytest.mark.parametrize("kind", ["mlm", "hybrid"])
def test_golden_losses(kind: str, small: Make, shards: Path, tmp_path: Path) -> None:
    recipe = small(*OBJECTIVES[kind], "train.steps=12", "train.eval_every=1", *WITHOUT_DROPOUT)
    pretrain(recipe, tmp_path / "run", Start(data=shards))
    rows = [row for row in read_metrics(tmp_path / "run") if row["split"] != "cloze"]
    found = [[row["step"], row["split"], row["loss"]] for row in rows]
    path = GOLDEN / f"losses-{kind}.json"
    expected = json.loads(path.read_text())
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert [row[2] for row in found] == pytest.approx([row[2] for row in expected], abs=1e-4)


def test_a_hybrid_run_fills_and_generates(small: Make, shards: Path, tmp_path: Path) -> None:
    pretrain(small(*OBJECTIVES["hybrid"], "train.steps=2"), tmp_path / "run", Start(data=shards))
    made = load(tmp_path / "run" / "model", "cpu")
    assert isinstance(made, MaskedLM)
    assert made.fill("O gato [MASK].")
    assert made.generate("O gato", max_tokens=3).text.startswith("O gato")
    card = (tmp_path / "run" / "model" / "README.md").read_text("utf-8")
    assert "model.fill(" in card
    assert "model.generate(" in card


def test_command_line(shards: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from unmask.cli import app

    changes = [part for change in TOY for part in ("--set", change)]
    common = ["pretrain", "tiny-docs", "--data", str(shards), "-o", str(tmp_path / "run"), *changes]
    shown = CliRunner().invoke(app, [*common, "--dry-run", "-q"])
    assert shown.exit_code == 0, shown.output
    assert "tokens/s (measured)" in shown.stdout
    made = CliRunner().invoke(app, [*common, "--json", "-q"])
    assert json.loads(made.stdout)["steps"] == 3
    again = CliRunner().invoke(app, common)
    assert isinstance(again.exception, OutputError)
    assert "model:" in CliRunner().invoke(app, [*common, "--resume", "-q"]).stdout


@pytest.mark.parametrize(
    ("options", "change", "why"),
    [
        (["--data", "shards"], "tokenizer.vocab_size=90", "the shards of --data are made already"),
        (["--data", "shards"], "text.min_chars=9", "the shards of --data are made already"),
        (["--text", "a.txt", "--from", "mini-pt"], "model.layers=4", "the model is that of --from"),
        (["--text", "a.txt", "--from", "mini-pt"], "tokenizer.kind=bpe", "the vocabulary is that of --from"),
        (["--text", "a.txt", "--teacher", "mini-pt"], "tokenizer.kind=", "the vocabulary is the teacher's"),
    ],
)
def test_changes_of_what_is_there_already(options: list[str], change: str, why: str, tmp_path: Path) -> None:
    """The recipe has these keys too, and they are no mistake there: `test_command_line`."""
    from typer.testing import CliRunner

    from unmask.cli import app

    given = ["pretrain", "tiny-docs", "-o", str(tmp_path / "run"), *options, "--set", change]
    wrong = CliRunner().invoke(app, given).exception
    assert isinstance(wrong, ConfigError)
    assert str(wrong) == f"--set {change} would change nothing, since {why}: leave it out"


@pytest.mark.parametrize(
    ("changes", "key", "need"),
    [
        (["batch.pairs=none", "batch.short=0.9"], "batch.short", "with batch.pairs=nsp or sop"),
        (["batch={pairs = 'none', short = 0.9}"], "batch.short", "with batch.pairs=nsp or sop"),
        (["train.schedule=cosine", "train.decay=0.3"], "train.decay", "with train.schedule=wsd"),
        (["train.muon_lr=0.1", "train.optimiser=adamw"], "train.muon_lr", "with train.optimiser=muon"),
        (
            ["model.window=0", "model.global_every=1", "model.local_rope_base=5"],
            "model.local_rope_base", "with model.window and model.global_every",
        ),
        (
            ["train.stages=[{share = 1, length = 32}]", "batch.length=64"],
            "batch.length", "with train.stages=[], as stages have lengths of their own",
        ),
        (["objective.causal=1", "batch.mask.ratio=0.3"], "batch.mask.ratio", "with objective.causal below 1"),
        (
            ["train.steps=9", "train.eval_every=9", "train.patience=1"],
            "train.patience",
            "with train.eval_every below train.steps, as a single validation is the best so far",
        ),
        (
            ["tokenizer.kind=unigram", "tokenizer.min_frequency=3"],
            "tokenizer.min_frequency", "with tokenizer.kind=wordpiece or bpe",
        ),
    ],
)  # fmt: skip
def test_changes_that_the_recipe_does_not_read(
    changes: list[str], key: str, need: str, tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from unmask.cli import app

    given = [part for change in changes for part in ("--set", change)]
    command = ["pretrain", "tiny-docs", "--text", "a.txt", "-o", str(tmp_path / "run")]
    wrong = CliRunner().invoke(app, [*command, *given]).exception
    assert isinstance(wrong, ConfigError)
    assert str(wrong) == f"--set {key} would change nothing, since it is read only {need}: leave it out"


@pytest.mark.parametrize("name", recipe_names())
def test_what_a_recipe_itself_says_may_stand(name: str) -> None:
    """A change may leave values unread that the recipe has: those nobody said."""
    changes = ["train.optimiser=adamw", "train.schedule=linear", "train.lr=1e-4", "train.decay="]
    check_changes(load_recipe(name, changes), changes)


def test_a_run_that_began_with_such_a_change_goes_on(shards: Path, tmp_path: Path) -> None:
    """Earlier versions took it, and the run holds it among its settings."""
    from typer.testing import CliRunner

    from unmask.cli import app

    changes = [*TOY, "tokenizer.vocab_size=90"]
    pretrain(load_recipe("tiny-docs", changes), tmp_path / "run", Start(data=shards))
    given = [part for change in changes for part in ("--set", change)]
    common = ["pretrain", "tiny-docs", "--data", str(shards), *given, "--resume", "-q", "-o"]
    done = CliRunner().invoke(app, [*common, str(tmp_path / "run")])
    assert "model:" in done.stdout, done.output
    new = CliRunner().invoke(app, [*common, str(tmp_path / "new")])
    assert "tokenizer.vocab_size=90 would change nothing" in str(new.exception)


@pytest.mark.parametrize("pairs", ["nsp", "sop"])
def test_validation_text_without_pairs_does_not_stop_a_run(
    pairs: str, small: Make, tmp_path: Path, watcher: type
) -> None:
    """One document of one sentence is held out: enough for hidden tokens, not for pairs."""
    recipe = small(f"batch.pairs={pairs}", "prepare.valid=0.3", "prepare.test=0.0")

    def held_out(text: str) -> bool:
        return split_of(text_hash(text), 0.3, 0.0) == 1

    long = (f"O padeiro número {n} abre a janela. A vizinha vende pão quente." for n in range(40))
    lone = next(t for n in range(40) if held_out(t := f"O menino {n} espera o comboio"))
    texts = [*(text for text in long if not held_out(text)), lone]
    (tmp_path / "text.txt").write_text("\n\n".join(texts), "utf-8")
    tokenizer = train_tokenizer(texts, TokenizerConfig(vocab_size=100))
    prepare(find_sources([str(tmp_path / "text.txt")]), tokenizer, tmp_path / "shards", recipe, workers=1)
    said = watcher()
    result = pretrain(recipe, tmp_path / "run", Start(data=tmp_path / "shards"), progress=said)
    assert result.valid is not None
    assert set(result.valid.parts) == {"mlm"}
    assert any("validating without pairs" in line for line in said.said)
