"""One training of one seed: the shared loop, a validation after every epoch, the best weights kept."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.checkpoint import load_model
from unmask.config import Recipe
from unmask.model.network import Model
from unmask.predict.settings import TaskSettings
from unmask.progress import Progress, Stage, counted
from unmask.tasks.divergence import check_begin, check_steps, judged
from unmask.tasks.kinds import Baseline, Evaluation, TaskKind
from unmask.tasks.lora import adapt
from unmask.tasks.objective import TaskLoss
from unmask.tasks.replay import Feed, Forgetting, WithReplay, check_head
from unmask.tasks.rows import narrow, widen
from unmask.tasks.settings import FinetuneConfig
from unmask.tokenizer import Tokenizer
from unmask.train.loop import StepRecord, Trainer
from unmask.train.machine import Machine
from unmask.train.schedule import Schedule
from unmask.train.signals import Wish

_LINES = 500  # at most so many training steps are recorded
_CORRELATIONS = ("spearman", "pearson", "matthews")


@dataclass(frozen=True)
class Material:
    """All that the seeds of a fine-tuning share."""

    kind: TaskKind
    folder: Path
    tokenizer: Tokenizer
    settings: FinetuneConfig
    task: TaskSettings
    train: Sequence[Any]
    valid: Sequence[Any]
    machine: Machine
    metric: str

    def model(self, seed: int) -> Model:
        """The pretrained model with a new head, drawn from the seed; what is frozen does not learn."""
        torch.manual_seed(seed)
        kept = self.settings.replay_text or self.settings.report_forgetting
        heads = [self.kind.head, *(["mlm"] if kept else [])]
        model, report = load_model(self.folder, heads=heads, changes=self.kind.changes)
        check_head(model, report, self.folder)
        check_begin(model, self.folder)
        freeze(model, self.settings.layers)
        if self.settings.lora:
            adapt(model, self.settings.lora, self.settings.lora_alpha, self.settings.lora_matrices)
        return model.to(self.machine.device)


@dataclass
class Run:
    """A training and what came of it."""

    material: Material
    seed: int
    ids: Tensor
    """Those that the training and its validation read."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """Lines for metrics.jsonl."""
    best: Evaluation | None = None
    best_epoch: int | None = None
    epochs: int = 0
    """Finished epochs."""
    steps: int = 0
    seconds: float = 0.0
    weights: dict[str, Tensor] = field(default_factory=dict)
    """The best ones, those that learn."""

    @property
    def score(self) -> float:
        """The best validation score."""
        return -math.inf if self.best is None else self.best.scores[self.material.metric]

    def train(self, valid: Sequence[Any], feed: Feed, wish: Wish, stage: Stage, progress: Progress) -> None:
        """Train until the epochs are over, the score stays away, or a signal asks to stop."""
        made, settings = self.material, self.material.settings
        model = self._model()
        recipe = Recipe(seed=self.seed, train=settings.train_config())
        per_epoch = feed.steps_per_epoch
        schedule = Schedule(recipe, settings.epochs * per_epoch)
        weights = made.kind.weights if settings.class_weights else None
        loss = TaskLoss(made.kind.head, weights, frozen=settings.layers == 0)
        trainer = Trainer(model, schedule, WithReplay(loss) if settings.replay_text else loss, made.machine)
        predictor = made.kind.predictor(model, made.tokenizer, made.task)
        stale = 0
        for record in trainer.run(feed.steps(0, schedule.steps)):
            self._note(record, schedule.steps, stage)
            check_steps(trainer)
            if record.step % per_epoch == 0:
                model.eval()
                self.epochs = record.step // per_epoch
                with judged(trainer), made.machine.autocast():
                    evaluation = made.kind.evaluate(predictor, valid, made.valid)
                score = evaluation.scores[made.metric]
                stale = 0 if score > self.score else stale + 1
                best = score >= self.score  # with few examples epochs tie: the later one is surer
                self._validated(record, evaluation, best, progress)
                if best:
                    self._keep(model, evaluation)
                stage.note(self._told(record))
            if wish.asked_by or (settings.patience and stale >= settings.patience):
                break

    def best_model(self) -> Model:
        """The model with its best weights."""
        model = self._model()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in self.weights:
                    parameter.copy_(self.weights[name])
        widen(model)
        return model.eval()

    def _model(self) -> Model:
        model = self.material.model(self.seed)
        if not self.material.settings.replay_text:  # which hidden tokens may be, every row says
            narrow(model, self.ids)
        return model

    def _note(self, record: StepRecord, steps: int, stage: Stage) -> None:
        self.steps, self.seconds = record.step, record.seconds
        if record.step % max(1, steps // _LINES) == 0 or record.skipped:
            kept = (
                "step",
                "epoch",
                "tokens",
                "seconds",
                "loss",
                "accuracy",
                "lr",
                "grad_norm",
                "tokens_per_s",
            )
            values = asdict(record)
            split = "replay" if "mlm" in record.parts else "train"
            self.records.append({"split": split, "seed": self.seed} | {key: values[key] for key in kept})
        stage.advance(1)
        stage.note(self._told(record))

    def _told(self, record: StepRecord) -> str:
        return f"loss {record.loss:.3f}" + (f" · best {self.score:.4f}" if self.best else "")

    def _validated(self, record: StepRecord, evaluation: Evaluation, best: bool, progress: Progress) -> None:
        place = {
            "step": record.step,
            "epoch": self.epochs,
            "tokens": record.tokens,
            "seconds": record.seconds,
        }
        self.records.append(
            {"split": "valid", "seed": self.seed, **place, "scores": evaluation.scores, "best": best}
        )
        shown = ", ".join(f"{name} {value:.4f}" for name, value in evaluation.scores.items())
        progress.say(f"seed {self.seed}, epoch {self.epochs}: {shown}" + (" (best so far)" if best else ""))

    def _keep(self, model: Model, evaluation: Evaluation) -> None:
        self.best, self.best_epoch = evaluation, self.epochs
        learning: dict[str, Tensor] = {
            name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
        }
        if not self.weights:
            self.weights = {name: torch.empty_like(p, device="cpu") for name, p in learning.items()}
        for name, parameter in learning.items():
            self.weights[name].copy_(parameter.detach())


@dataclass(frozen=True, slots=True)
class FinetuneResult:
    """What a fine-tuning came to."""

    folder: str | None
    """The model folder; None if it was stopped before its first validation."""
    task: str
    metric: str
    """The score that decided."""
    scores: dict[str, float]
    """Validation scores of the model that was kept."""
    seeds: dict[int, float]
    """The deciding score of every seed."""
    mean: float | None
    deviation: float | None
    """Of the seeds' scores; with one seed there is none."""
    train_examples: int
    valid_examples: int
    lr: float
    """The highest learning rate: the one given, or the one chosen for the model."""
    epochs: int
    """Finished epochs of the seed that was kept."""
    kept_epoch: int | None
    """The epoch whose weights were kept: the best on validation, of several the last."""
    kept_seed: int
    """The seed of that training."""
    steps: int
    seconds: float
    """Time spent in training steps, over all seeds."""
    stopped: int | None = None
    """The signal that stopped it."""
    forgetting: Forgetting | None = None
    """The masked-LM loss before and after, if it was asked for."""
    data: str | None = None
    """The name of the file of training examples, if they were in one."""
    meanings: dict[str, str] = field(default_factory=dict)
    """What each score is of, in words."""
    baseline: Baseline | None = None
    """What giving every validation example the same answer scores."""
    valid_in_train: int = 0
    """Validation examples that were trained on too."""

    @property
    def kept(self) -> str:
        """In words, which weights were kept."""
        return f"epoch {self.kept_epoch}" + (f" of seed {self.kept_seed}" if len(self.seeds) > 1 else "")

    @property
    def passes(self) -> str:
        """In words, how many epochs were finished."""
        return counted(self.epochs, "epoch")

    @property
    def judges(self) -> str:
        """In words, the examples that chose the weights."""
        if not self.valid_in_train:
            return counted(self.valid_examples, "other")
        known = "all" if self.valid_in_train == self.valid_examples else f"{self.valid_in_train:,}"
        return f"{counted(self.valid_examples, 'example')}, {known} of which it was trained on"

    @property
    def doubt(self) -> str | None:
        """A remark if the deciding score is within two standard errors of the baseline's."""
        if self.baseline is None or self.metric not in self.scores:
            return None
        score, base = self.scores[self.metric], self.baseline.scores[self.metric]
        spread = 1.0 if self.metric in _CORRELATIONS else base * (1 - base)
        clear = base + 2 * math.sqrt(spread / self.valid_examples)
        if score > clear:
            return None
        if clear >= 1:  # no training could mend that
            return (
                f"{self.metric} {score:.4f} says little: on so few examples ({self.valid_examples:,}) even "
                f"1.0000 is not clearly better than {base:.4f} ({self.baseline.answer}): validate on more"
            )
        return (
            f"{self.metric} {score:.4f} is not clearly better than {base:.4f} ({self.baseline.answer}): "
            "look at the labels, train longer (--epochs), at another rate (--lr), or with more examples"
        )


def freeze(model: Model, layers: int | str) -> None:
    """Leave only the heads and the last `layers` blocks to learn; `all` leaves everything."""
    if layers == "all":
        return
    model.encoder.requires_grad_(False)
    blocks = list(model.encoder.blocks)
    for block in blocks[len(blocks) - int(layers) :]:
        block.requires_grad_(True)
    if layers:
        model.encoder.norm.requires_grad_(True)
