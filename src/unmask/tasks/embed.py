"""Sentence vectors by contrast: what belongs together is pulled together, the rest of the batch pushed away.

`unmask finetune embed`. The folder opens in sentence-transformers, with the same vectors.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from unmask.charts import lines
from unmask.checkpoint import load_model, read_values, save_model
from unmask.config import Recipe, TextConfig
from unmask.errors import ConfigError, InputError
from unmask.model.network import Model
from unmask.model.published import read_config
from unmask.predict.folders import find_folder
from unmask.predict.predictor import Predictor
from unmask.predict.sentence import SentenceSettings, read_sentence_settings, write_sentence_settings
from unmask.progress import SILENT, Progress, counted, held
from unmask.report import Cell, Part, Table, write_page
from unmask.runs import Metrics
from unmask.target import check_room, check_target
from unmask.tasks import metrics
from unmask.tasks.batches import Item, TaskFeed
from unmask.tasks.card import sentence_card
from unmask.tasks.columns import USUAL, Columns, resolve, text_example
from unmask.tasks.contrast import Contrast, ContrastLoss, contrast_items, contrast_of
from unmask.tasks.divergence import DivergedError, check_begin, check_steps, judged
from unmask.tasks.examples import TextExample, count_repeated
from unmask.tasks.finetune import file_name
from unmask.tasks.read import file_form, open_source, refuse_columns_of_lines, rows_of
from unmask.tasks.rows import narrow, read_rows, widen
from unmask.tasks.settings import EmbedConfig
from unmask.text import find_sources, read_documents
from unmask.text.tables import decimal_comma, nothing_in
from unmask.tokenizer import Tokenizer
from unmask.train.loop import StepRecord, Trainer, parameter_count
from unmask.train.machine import Machine, repeatable
from unmask.train.schedule import Schedule
from unmask.train.signals import Wish, polite_signals

Texts = Path | str | Sequence[TextExample]
_SCORE = ("score", "similarity", "relatedness", "relatedness_score", "similaridade", "nota")
_DROPOUT = 0.1
_TRIED = 8  # texts
_LENGTH = 128
_WHOLE = 1 << 40  # a step is one batch: every pair is compared with all the others

DEFAULTS = EmbedConfig()


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """What a training of sentence vectors came to."""

    folder: str
    learnt_from: Contrast
    before: dict[str, float] | None
    """Correlation of the cosines with the scores of the validation pairs, if there are any."""
    after: dict[str, float] | None
    """The same after training: of the best epoch, which is the one that was kept."""
    train_examples: int
    valid_examples: int
    lr: float
    """The highest learning rate: the one given, or the one chosen for the model."""
    kept_epoch: int | None
    """The epoch whose weights were kept, finished or stopped; without validation pairs none was chosen."""
    steps: int
    seconds: float
    stopped: int | None = None
    """The signal that stopped it."""
    data: str | None = None
    """The name of the file of training texts, if they were in one."""
    valid_in_train: int = 0
    """Validation pairs that were trained on too."""


def finetune_embed(
    model: Path | str,
    train: Texts,
    valid: Texts | None = None,
    out: Path | str = "model",
    settings: EmbedConfig = DEFAULTS,
    columns: Columns = USUAL,
    progress: Progress = SILENT,
    *,
    overwrite: bool = False,
) -> EmbedResult:
    """Train sentence vectors on pairs, scored pairs or texts alone; write a sentence-transformers folder.

    A model that `out` holds already is replaced at the end, if `overwrite` says so.
    """
    folder = find_folder(model)
    check_target(Path(out), overwrite, (folder, train, valid))
    examples = _loaded(train, columns)
    pairs = [] if valid is None else _loaded(valid, columns)
    if valid is not None and contrast_of(pairs) != "scores":
        raise InputError("validation takes two texts and a score in each row: name the column of the score")
    with held(progress) as told:
        repeated = count_repeated(pairs, examples, told)
        training = _Training(folder, examples, pairs, settings, told)
    check_room(Path(out), 4 * parameter_count(training.model))
    with repeatable(training.machine), polite_signals() as wish:
        try:
            training.train(wish)
        except DivergedError as error:
            if not training.best:
                raise
            progress.say(f"{error}; kept: epoch {training.kept_epoch}")
        training.restore()
        result = training.result(str(out), None if wish.asked_by is None else int(wish.asked_by))
        result = replace(result, data=file_name(train), valid_in_train=repeated)
        training.save(Path(out), result, overwrite)
    return result


class _Training:
    """A model that learns, and its score before, meanwhile and after."""

    def __init__(
        self,
        folder: Path,
        examples: Sequence[TextExample],
        valid: Sequence[TextExample],
        settings: EmbedConfig,
        progress: Progress,
    ) -> None:
        self.config = read_config(read_values(folder))
        settings = settings.suited(self.config)
        self.folder, self.settings, self.examples, self.valid = folder, settings, examples, valid
        self.progress, self.contrast = progress, contrast_of(examples)
        self.tokenizer = Tokenizer.load(folder)
        self.machine = Machine.choose(settings.train_config())
        self.model = self._model()
        lower = read_sentence_settings(folder).lower
        sentence = SentenceSettings("mean", True, self.length, lower=lower)
        self.predictor = Predictor(self.model, self.tokenizer, sentence=sentence)
        with progress.stage("encoding"):
            items = self._items(examples)
        narrow(self.model, read_rows([*items, *self._items(valid)]))
        self.feed = TaskFeed(items, settings.batch, _WHOLE, settings.seed, segments=False)
        recipe = Recipe(seed=settings.seed, train=settings.train_config())
        self.schedule = Schedule(recipe, settings.epochs * self.feed.steps_per_epoch)
        loss = ContrastLoss(self.contrast, settings.temperature)
        self.trainer = Trainer(self.model, self.schedule, loss, self.machine)
        self.records: list[dict[str, Any]] = []
        with progress.stage("scoring"):
            self.before = self.after = None if not valid else self._score()
        self.best: dict[str, Tensor] = {}
        self.kept_epoch: int | None = None
        self._scored_at = 0

    def train(self, wish: Wish) -> None:
        """Train to the end, or until a signal asks to stop; score what was not."""
        with self.progress.stage("fine-tuning", self.schedule.steps, "steps") as stage:
            for record in self._steps():
                stage.advance(1)
                stage.note(f"loss {record.loss:.3f}")
                if wish.asked_by:
                    break
        with judged(self.trainer):
            self._validate()
            if not self.valid:  # nothing was scored: a few vectors show whether the weights do
                self.model.eval()
                self.predictor.embed([example.text for example in self.examples[:_TRIED]])

    def restore(self) -> None:
        """Go back to the best weights."""
        if self.best:
            self.model.load_state_dict(self.best)
        widen(self.model)
        self.model.eval()

    def _steps(self) -> Iterator[StepRecord]:
        """Train, and score the model after each epoch."""
        for record in self.trainer.run(self.feed.steps(0, self.schedule.steps)):
            values = {"step": record.step, "loss": record.loss, "lr": record.lr, "seconds": record.seconds}
            self.records.append({"split": "train", "epoch": record.epoch} | values)
            check_steps(self.trainer)
            if record.step % self.feed.steps_per_epoch == 0:
                with judged(self.trainer):
                    self._validate()
            yield record

    def result(self, out: str, stopped: int | None) -> EmbedResult:
        """What came of it."""
        counters = self.trainer.counters
        return EmbedResult(
            out, self.contrast, self.before, self.after, len(self.examples), len(self.valid),
            self.settings.train_config().lr, self.kept_epoch, counters.step, counters.seconds, stopped,
        )  # fmt: skip

    def save(self, out: Path, result: EmbedResult, overwrite: bool) -> None:
        """Write the folder with the modules of sentence-transformers."""

        def also(folder: Path) -> None:
            write_sentence_settings(folder, self.predictor.sentence, self.model.config.width)
            log = Metrics(folder)
            for record in self.records:
                log.write(record)
            curve = [(float(r["step"]), r["loss"]) for r in self.records if r["split"] == "train"]
            parts: list[Part] = [
                f"{counted(result.train_examples, 'example')} ({result.learnt_from}), "
                f"{counted(result.steps, 'step')} at lr {result.lr:g}, {result.seconds:,.0f} s."
            ]
            if result.before and result.after:
                parts.append(f"The weights of epoch {result.kept_epoch} were kept, the best by spearman.")
                rows: list[list[Cell]] = [
                    [name, value, result.after[name]] for name, value in result.before.items()
                ]
                parts.append(Table(["correlation", "before", "after"], rows))
            parts.append(lines("Training loss", "loss", {"loss": curve}))
            data = f" on {result.data}" if result.data else ""
            begun = self.folder.resolve().name
            write_page(folder / "report.html", f"Sentence vectors{data}, from {begun}", parts)

        card = sentence_card(self.folder, asdict(result), self.settings, asdict(self.predictor.sentence))
        save_model(self.model, out, self.tokenizer, card, also=also, overwrite=overwrite)

    def _model(self) -> Model:
        settings, config = self.settings, self.config
        self.length = settings.length or min(_LENGTH, config.positions)
        if self.length > config.positions:
            raise ConfigError(f"length={self.length}: the model takes at most {config.positions} tokens")
        silent = self.contrast == "texts" and not config.dropout
        dropout = (_DROPOUT if silent else config.dropout) if settings.dropout is None else settings.dropout
        if self.contrast == "texts" and not dropout:
            raise ConfigError(
                "dropout=0: a text alone is told from itself by dropout; set some, or give pairs"
            )
        model, _ = load_model(self.folder, heads=[], changes={"dropout": dropout})
        return check_begin(model, self.folder).to(self.machine.device)

    def _items(self, examples: Sequence[TextExample]) -> list[Item]:
        texts = [example.text for example in examples]
        pairs = [example.text if example.pair is None else example.pair for example in examples]
        prepared = self.predictor.sentence.prepared
        first, second = (
            self.predictor.inputs.ids(list(map(prepared, side)), truncate=True, limit=self.length)
            for side in (texts, pairs)
        )
        return contrast_items(examples, first, second)

    def _score(self) -> dict[str, float]:
        self.model.eval()
        both = [*(example.text for example in self.valid), *(example.pair or "" for example in self.valid)]
        first, second = np.split(self.predictor.embed(both), 2)
        truth = [float(example.target) for example in self.valid]  # type: ignore[arg-type]
        found = metrics.regression(truth, (first * second).sum(1).tolist())
        return {name: found[name] for name in ("spearman", "pearson")}

    def _validate(self) -> None:
        step = self.trainer.counters.step
        if not self.valid or step == self._scored_at:
            return
        scores = self._score()
        # of epochs that tie the later one, as in `Run.train`
        better = not self.best or self.after is None or scores["spearman"] >= self.after["spearman"]
        if better:
            self.after, self.kept_epoch = scores, math.ceil(step / self.feed.steps_per_epoch)
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        self._scored_at = step
        self.records.append({"split": "valid", "step": step, "scores": scores, "best": better})
        self.progress.say(f"step {step}: spearman {scores['spearman']:.4f}")


def read_texts(path: Path | str, columns: Columns = USUAL) -> list[TextExample]:
    """Pairs, with their scores if there are any, or texts alone: a table, XML pairs, or lines of a .txt."""
    path = Path(path)
    if path.exists() and file_form(path) == ".txt":
        refuse_columns_of_lines(path, columns)
        documents = read_documents(find_sources([str(path)])[0], TextConfig(documents="line"))
        return [TextExample(document.text) for document in documents]
    source, form = open_source("regress", path)
    names: tuple[str, ...] = ()
    found = []
    comma = decimal_comma(source)
    for place, row in rows_of(source, form, columns):
        if tuple(row) != names:
            names = tuple(row)
            chosen = _columns(names, columns, place)
        found.append(text_example(row, "regress", chosen, place, comma))
    if not found:
        raise nothing_in(source, "example")
    return found


def _columns(names: Sequence[str], said: Columns, place: str) -> Columns:
    texts = resolve(names, "regress", said, place, labelled=said.label is not None)
    usual = next((name for name in names if name.lower().strip() in _SCORE), None)
    label = said.label or (usual if texts.pair is not None else None)
    if label is not None and texts.pair is None:
        raise InputError(f"{place}: a score is of two texts; say the second one's column with --pair-column")
    return Columns(texts.text, texts.pair, label)


def _loaded(source: Texts, columns: Columns) -> list[TextExample]:
    examples = read_texts(source, columns) if isinstance(source, Path | str) else list(source)
    if len(examples) < 2:
        raise InputError("one example has no other to be told from: give at least two")
    return examples
