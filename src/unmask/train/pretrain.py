"""From a recipe and text to a model folder: `unmask pretrain`.

run/
  recipe.toml        the settings as run            plan.json      steps, tokens, parameters
  metrics.jsonl      what was measured (runs.py)    checkpoints/   to go on from (state.py)
  report.html        the same to look at (report.py) tensorboard/  if asked for (board.py)
  best/  model/      model folders: lowest validation loss, and the end (with patience, the best)
  vocab/  shards/    only when the run began with raw text
  .lock              held while a process works there
"""

import math
import signal
from collections.abc import Generator
from contextlib import ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unmask import __version__
from unmask.checkpoint import save_model
from unmask.config import Recipe, write_recipe
from unmask.data.plan import Position
from unmask.data.shards import Corpus, verify, without_validation
from unmask.errors import ConfigError, CorpusError, ModelError, OutputError, UserError
from unmask.files import digest
from unmask.predict.folders import model_fingerprint
from unmask.processes import worker_errors
from unmask.progress import SILENT, Progress, Stage
from unmask.runs import RECIPE, Metrics
from unmask.target import CONFIG, copy_model
from unmask.train import parallel
from unmask.train.board import Board, check_tensorboard
from unmask.train.card import model_card
from unmask.train.cloze import Clozes
from unmask.train.feed import feed
from unmask.train.folder import alone, begin, check_begun, check_folder, check_same_recipe
from unmask.train.frequency import token_counts
from unmask.train.loop import Counters, StepRecord
from unmask.train.machine import Machine, repeatable
from unmask.train.material import Material, gather
from unmask.train.plan import Clock, RunPlan, make_plan, make_trainer, run_plan, write_plan
from unmask.train.report import REPORT, write_report
from unmask.train.schedule import Schedule
from unmask.train.signals import Wish, polite_signals
from unmask.train.start import Start
from unmask.train.state import Saver, Snapshot, checkpoint_path, checkpoints, newest, read_checkpoint
from unmask.train.validate import Validation, Validator

_SKIPS = 5  # steps in a row that may fail before the weights go back to the last checkpoint
_ROLLBACKS = 3  # how often they may before the run gives up
_EVAL_EVERY = 10  # steps between validations at least, unless the recipe says so
_LINES = 5000  # at most so many training steps are written to metrics.jsonl


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to."""

    run: str
    steps: int
    tokens: int
    seconds: float
    valid: Validation | None
    """The last validation; with patience that of `model`."""
    best_loss: float | None
    model: str | None
    """The model folder; None if the run was stopped before its end."""
    report: str
    stopped: int | None = None
    """The signal that stopped it."""
    without_gain: int | None = None
    """The validations without a lower loss that ended it before its last step."""
    model_step: int | None = None
    """The step that `model` is of."""


def pretrain(
    recipe: Recipe,
    run: Path,
    start: Start,
    resume: bool = False,
    progress: Progress = SILENT,
    tensorboard: bool = False,
) -> RunResult:
    """Train a model in the folder `run`, or go on with one that was stopped or killed.

    Under torchrun every process calls this; only the first one writes and speaks.
    """
    if tensorboard:
        check_tensorboard()
    with parallel.processes(), ExitStack() as held:
        if parallel.rank() > 0:
            progress = SILENT
        with parallel.first_alone():
            check_folder(run, resume)
            if parallel.rank() == 0:
                held.enter_context(alone(run))
                check_folder(run, resume)  # another may have been here meanwhile
                begin(run)
            if resume:
                check_begun(run, recipe)
            material = gather(recipe, run, start, progress)
            if resume and not checkpoints(run / "checkpoints"):
                progress.say(f"{run} holds no checkpoint yet: the run begins")
        _check_same_everywhere(material)
        machine = Machine.choose(recipe.train)
        with repeatable(machine):
            training = Pretraining(material, machine, run, progress)
            if resume:
                training.resume()
            return training.train(tensorboard)


def dry_run(recipe: Recipe, run: Path, start: Start, progress: Progress = SILENT) -> RunPlan:
    """What `pretrain` would do; with raw text the vocabulary and the shards are made, to be used later."""
    with parallel.processes(), ExitStack() as held:
        if parallel.rank() > 0:
            progress = SILENT
        with parallel.first_alone():
            check_folder(run, resume=True)
            if parallel.rank() == 0:
                held.enter_context(alone(run))
            check_begun(run, recipe)
            material = gather(recipe, run, start, progress)
        machine = Machine.choose(recipe.train)
        with repeatable(machine):
            return make_plan(material, machine, True, progress)


class Pretraining:
    """A run in its folder."""

    def __init__(self, material: Material, machine: Machine, run: Path, progress: Progress) -> None:
        self._material, self._machine, self._run, self._progress = material, machine, run, progress
        recipe = material.recipe
        plan = run_plan(material, machine, run, progress)
        self.trainer = make_trainer(material, machine, Schedule(recipe, plan.steps))
        self._follow(plan)
        self._clock: Clock | None = None
        self._teachers = [model_fingerprint(folder) for folder in material.teachers]
        self._validation = self._make_validation()
        self._saver = Saver(run / "checkpoints", recipe.train.keep)
        self._best = self._kept = math.inf  # the lowest loss, and that of the weights in `best`
        self._kept_step = 0
        self._kept_valid: Validation | None = None
        self._keeps_best = True
        self._stale = self._rollbacks = 0
        self._valid: Validation | None = None

    def _follow(self, plan: RunPlan) -> None:
        recipe = self._material.recipe
        self._plan, self.trainer.schedule = plan, Schedule(recipe, plan.steps)
        twentieth = max(1, plan.steps // 20)
        self._eval_every = recipe.train.eval_every or max(twentieth, _EVAL_EVERY)
        self._save_every = recipe.train.save_every or twentieth

    def _change(self, plan: RunPlan) -> None:
        self._follow(plan)
        if parallel.rank() == 0:
            write_plan(plan, self._run)

    def _make_validation(self) -> tuple[Validator, Clozes] | None:
        corpus, recipe = Corpus.open(self._material.corpus.folder, "valid"), self._material.recipe
        begun = bool(checkpoints(self._run / "checkpoints"))  # by an earlier version, which allowed it
        if not corpus.token_count and recipe.train.patience and not begun:
            raise ConfigError(
                "train.patience waits for validations, and there is no validation text: leave it out, "
                "or prepare the text with some (prepare.valid)"
            )
        if remark := without_validation(corpus.manifest):
            self._progress.say(remark)
        if not corpus.token_count:
            return None
        with self._progress.stage("counting tokens"):
            counts = token_counts(self._material.corpus)
        try:
            validator = Validator(corpus, recipe, self._machine, counts)
        except (ConfigError, CorpusError) as error:
            # too little text for pairs, though there may be enough to train on
            if recipe.batch.pairs == "none" or not recipe.objective.mlm:
                raise
            self._progress.say(f"validating without pairs, on text that is too small for them: {error}")
            alone = recipe.model_copy(update={"batch": recipe.batch.model_copy(update={"pairs": "none"})})
            validator = Validator(corpus, alone, self._machine, counts)
        return validator, Clozes(corpus, self._material.tokenizer, recipe, self._machine, counts)

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        snapshot = self._newest()
        if snapshot is None:
            folder = self._run / "checkpoints"
            if parallel.first(bool(checkpoints(folder))):
                raise ModelError(f"no checkpoint in {folder} is whole: delete that folder to begin again")
            return
        facts = snapshot.facts
        check_same_recipe(facts["recipe"], self._material.recipe)
        if facts["corpus"] != self._material.corpus.fingerprint:
            raise CorpusError(
                f"{self._material.corpus.folder} changed since this run began: bring the old shards back, "
                "or start a new run"
            )
        if facts.get("teachers", []) != self._teachers:
            raise ModelError("a teacher changed since this run began: bring it back, or start a new run")
        verify(self._material.corpus.folder, self._progress)
        self._restore(snapshot)
        if "plan" in facts and (plan := RunPlan(**facts["plan"])) != self._plan:
            self._change(plan)  # the run was killed after it had planned anew, and before it saved
        counters = facts["counters"]
        self.trainer.counters = Counters(**{**counters, "position": Position(**counters["position"])})
        self._best = math.inf if facts["best"] is None else facts["best"]
        kept = facts.get("kept", facts["best"])  # one number, in checkpoints of before
        self._kept = math.inf if kept is None else kept
        self._stale, self._rollbacks = facts["stale"], facts["rollbacks"]
        self._valid = Validation(**facts["valid"]) if facts["valid"] else None
        if valid := facts.get("kept_valid"):  # not in checkpoints of before
            self._kept_step, self._kept_valid = facts["kept_step"], Validation(**valid)
        self._progress.say(f"going on after step {snapshot.step:,} of {self._plan.steps:,}")

    def _newest(self) -> Snapshot | None:
        """The newest whole checkpoint: the first process chooses, so that all have the same."""
        self._saver.wait()
        folder = self._run / "checkpoints"
        snapshot, broken = newest(folder) if parallel.rank() == 0 else (None, [])
        for problem in broken:
            self._progress.say(f"passed over a broken checkpoint: {problem}")
        step = parallel.first(snapshot.step if snapshot else -1)
        if parallel.rank() > 0 and step >= 0:
            path = checkpoint_path(folder, step)
            if not path.is_dir():
                raise OutputError(f"{path} is not on this machine: put the run on a disk that all share")
            snapshot = read_checkpoint(path)
        return snapshot

    @torch.no_grad()
    def _restore(self, snapshot: Snapshot) -> None:
        trainer = self.trainer
        trainer.average = {}
        for name, parameter in trainer.model.named_parameters():
            parallel.fill(parameter, snapshot.weights[name])
            if snapshot.average:
                trainer.average[name] = torch.empty_like(parameter, requires_grad=False)
                parallel.fill(trainer.average[name], snapshot.average[name])
        trainer.optimiser.load(snapshot.optimiser)

    def train(self, tensorboard: bool = False) -> RunResult:
        """Train to the end, or until a signal asks to stop."""
        if parallel.rank() == 0:
            write_recipe(self._material.recipe, self._run / RECIPE)
        counters, first = self.trainer.counters, parallel.rank() == 0
        if seconds := self._material.recipe.train.seconds:
            self._clock = Clock(seconds, parallel.mean(counters.seconds))
        board = Board(self._run / "tensorboard", counters.step) if tensorboard and first else None
        metrics = Metrics(self._run, counters.step, board) if first else None
        with (
            polite_signals() as wish,
            worker_errors("go on with --resume, perhaps with a smaller train.workers"),
            closing(self._records()) as records,
            closing(board) if board else nullcontext(),
            closing(self._saver),
            self._progress.stage("training", self._plan.steps, "steps") as stage,
        ):
            stage.skip(counters.step)
            for record in records:
                steps = self._plan.steps
                stage.expect(steps)
                self._show(record, stage, metrics)
                if record.skipped:
                    self._mend()
                if record.step % self._eval_every == 0 or record.step == steps:
                    self._validate(metrics)
                last = record.step == steps or self._converged() or _agreed(wish)
                if record.step == steps or (
                    (last or record.step % self._save_every == 0) and not record.skipped
                ):  # weights that may be at fault are no good to go back to
                    self._save()
                if last:
                    break
            self._saver.wait()
        return self._finish(wish)

    def _records(self) -> Generator[StepRecord, None, None]:
        """Every step to the end, fed anew whenever their number changes."""
        pin, pages = self._machine.device.type == "cuda", self.trainer.graphs is not None
        counters = self.trainer.counters
        while counters.step < self._plan.steps and not self._converged():
            schedule = self.trainer.schedule
            inputs = feed(self._material.corpus, schedule, counters.step, counters.position, pin, pages)
            with closing(inputs):
                for record in self.trainer.run(inputs):
                    self._keep_time()
                    yield record
                    if self.trainer.schedule is not schedule:
                        break

    def _keep_time(self) -> None:
        """Plan more steps or fewer, where the run has a time and its pace asks for it."""
        counters, before, plan = self.trainer.counters, self.trainer.schedule, self._plan
        if self._clock is None:
            return
        seconds = parallel.mean(counters.seconds)
        if before.growing(counters.step) and not self._clock.over(seconds):
            return  # steps that differ have no pace
        steps = self._clock.steps(plan.steps, counters.step, seconds)
        if steps == plan.steps:
            return
        left = "time is up"
        if steps > counters.step:
            left = f"at this pace the time is enough for {steps:,} steps"
        self._progress.say(f"step {counters.step:,}: {left}")
        self._change(plan.changed(before, counters.step, steps))
        if steps > counters.step:
            stage = self.trainer.schedule.stage(counters.step)
            if stage.length != before.stage(counters.step - 1).length and stage.start != counters.step:
                counters.position = Position(counters.position.epoch + 1)  # as where a stage begins: see feed

    def _show(self, record: StepRecord, stage: Stage, metrics: Metrics | None) -> None:
        if metrics and (record.skipped or record.step % max(1, self._plan.steps // _LINES) == 0):
            metrics.write({"split": "train", **asdict(record)})
        stage.advance(1)
        main = "mlm" if "mlm" in record.accuracy else next(iter(record.accuracy), None)
        right = f" · {record.accuracy[main]:.1%} right" if main else ""
        loss = record.parts.get(main or "", record.loss)  # of what the validation speaks of too
        stage.note(f"loss {loss:.3f}{right} · {record.tokens_per_s:,.0f} tokens/s")

    def _mend(self) -> None:
        """After several failed steps take the weights of the last checkpoint, and go on with other text."""
        counters = self.trainer.counters
        self._progress.say(f"step {counters.step}: the loss is not finite; the step is skipped")
        if counters.skipped < _SKIPS:
            return
        snapshot = self._newest()
        if snapshot is None or self._rollbacks == _ROLLBACKS:
            raise UserError(
                f"training has diverged: the loss was not finite {_SKIPS} times in a row at step "
                f"{counters.step}; lower train.lr or lengthen train.warmup, and start a new run"
            )
        self._restore(snapshot)
        counters.averaged = snapshot.facts["counters"]["averaged"]
        counters.skipped = 0
        self._rollbacks += 1
        self._progress.say(f"the weights are those of step {snapshot.step} again; going on with other text")

    def _validate(self, metrics: Metrics | None) -> None:
        if self._validation is None:
            return
        validator, clozes = self._validation
        counters = self.trainer.counters
        with self.trainer.averaged() as model:
            valid, fills = validator(model), clozes(model)
            self._valid = valid
            better = valid.loss < self._best
            if self._keeps_best and valid.loss < self._kept:
                self._keep_best(valid)
        self._best = min(self._best, valid.loss)
        self._stale = 0 if better else self._stale + 1
        if metrics:
            place = {"step": counters.step, "epoch": counters.position.epoch, "tokens": counters.tokens}
            when = {**place, "seconds": counters.seconds}
            metrics.write({"split": "valid", **when, **asdict(valid), "best": better})
            metrics.write({"split": "cloze", **when, "fills": fills})
        main = max(valid.accuracy.get("mlm", 0.0), valid.accuracy.get("next", 0.0))
        self._progress.say(
            f"step {counters.step:,}: validation loss {valid.loss:.4f}, {main:.1%} right"
            + (" (best so far)" if better else "")
        )

    def _converged(self) -> bool:
        patience = self._material.recipe.train.patience
        return patience is not None and self._stale >= patience

    def _save(self) -> None:
        trainer = self.trainer
        facts: dict[str, Any] = {
            "plan": asdict(self._plan),
            "counters": asdict(trainer.counters),
            "best": self._best if math.isfinite(self._best) else None,
            "kept": self._kept if math.isfinite(self._kept) else None,
            "kept_step": self._kept_step,
            "kept_valid": asdict(self._kept_valid) if self._kept_valid else None,
            "stale": self._stale,
            "rollbacks": self._rollbacks,
            "valid": asdict(self._valid) if self._valid else None,
            "recipe": self._material.recipe.model_dump(mode="json"),
            "corpus": self._material.corpus.fingerprint,
            "teachers": self._teachers,
            "versions": {"unmask": __version__, "torch": torch.__version__},
        }
        weights = {name: parameter.data for name, parameter in trainer.model.named_parameters()}
        self._saver.save(
            Snapshot(trainer.counters.step, facts, weights, trainer.optimiser.state(), trainer.average)
        )

    def _save_model(self, name: str) -> None:
        card = model_card(self._material, self.trainer.counters, self._valid)
        recipe = self._material.recipe
        facts = {"hybrid": True} if recipe.objective.causal and not recipe.model.causal else None
        save_model(self.trainer.model, self._run / name, self._material.tokenizer, card, facts)

    def _keep_best(self, valid: Validation) -> None:
        """Write `best`; what came into its place meanwhile ends no training, and is tried once."""
        with parallel.gathered(self.trainer.model):
            if parallel.rank() == 0:
                try:
                    self._save_model("best")
                except OutputError as error:
                    self._keeps_best = False
                    self._progress.say(f"the best weights are not kept until --resume: {error}")
        self._keeps_best = bool(parallel.first(self._keeps_best))
        if self._keeps_best:
            self._kept, self._kept_step, self._kept_valid = valid.loss, self.trainer.counters.step, valid

    def _best_is_model(self) -> bool:
        """Whether the weights in `best` are to be the model's: with patience, if the last are no better."""
        kept, last, patience = self._kept_valid, self._valid, self._material.recipe.train.patience
        if patience is None or kept is None or last is None or kept.loss > last.loss:
            return False
        return bool(parallel.first((self._run / "best" / CONFIG).is_file()))

    def _finish(self, wish: Wish) -> RunResult:
        counters, converged = self.trainer.counters, self._converged()
        step, valid = counters.step, self._valid
        ended = step >= self._plan.steps or converged
        if ended and self._best_is_model():
            step, valid = self._kept_step, self._kept_valid
            if parallel.rank() == 0:
                copy_model(self._run / "best", self._run / "model")
        elif ended:
            with self.trainer.averaged(), parallel.gathered(self.trainer.model):
                if parallel.rank() == 0:
                    self._save_model("model")
        if parallel.rank() == 0:
            write_report(self._run)
        return RunResult(
            run=str(self._run),
            steps=counters.step,
            tokens=counters.tokens,
            seconds=counters.seconds,
            valid=valid,
            best_loss=self._best if math.isfinite(self._best) else None,
            model=str(self._run / "model") if ended else None,
            report=str(self._run / REPORT),
            stopped=None if ended else int(wish.asked_by or signal.SIGTERM),  # or another rank was asked
            without_gain=self._stale if converged and counters.step < self._plan.steps else None,
            model_step=step if ended else None,
        )


def _agreed(wish: Wish) -> bool:
    """Whether any rank was asked to stop, so that all stop after the same step."""
    return parallel.total([float(wish.asked_by is not None)])[0] > 0


def _check_same_everywhere(material: Material) -> None:
    """Processes on several machines may have been given different things."""
    if parallel.ranks() == 1:
        return
    models = [model_fingerprint(folder) for folder in (material.base, *material.teachers) if folder]
    mine = int(digest(material.recipe.model_dump_json(), material.corpus.fingerprint, *models)[:10], 16)
    if parallel.first(mine) != mine:
        raise CorpusError(
            f"process {parallel.rank()} has another recipe, other shards or another model to begin with "
            "or to learn from than process 0: give all the same"
        )
