"""Ways to classify with few examples, each tried with every draw of them.

No way sees the validation examples before it is scored on them once: nothing is chosen by them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.analyse.probes import fit_predict
from unmask.checkpoint import load_model
from unmask.config import Recipe
from unmask.data.plan import generator
from unmask.errors import ConfigError, InputError
from unmask.model.network import Model
from unmask.predict.cloze import Cloze
from unmask.predict.masked import MaskedLM
from unmask.predict.predictor import Predictor
from unmask.predict.sentence import read_sentence_settings
from unmask.progress import Progress, Stage, counted
from unmask.tasks import metrics
from unmask.tasks.batches import Item, TaskFeed
from unmask.tasks.divergence import check_begin, check_steps, judged
from unmask.tasks.examples import TextExample
from unmask.tasks.lora import adapt
from unmask.tasks.objective import TaskLoss
from unmask.tasks.prompts import ClozeLoss, Prompt, choose_words, cloze_items, make_prompt, word_ids
from unmask.tasks.run import Material
from unmask.tasks.settings import METHODS, FewshotConfig
from unmask.tasks.texts import Classes
from unmask.train.loop import Trainer
from unmask.train.objectives import Losses
from unmask.train.schedule import Schedule

Floats = NDArray[np.float32]

_TRAINED = ("cloze", "lora")
_DRAW = 18  # the stream of random numbers that draws examples
_RATE = "--set lr="


@dataclass(frozen=True, slots=True)
class Trial:
    """One way with one draw of examples."""

    method: str
    size: int
    """Examples per class; 0: none."""
    seed: int
    scores: dict[str, float]


class Comparison:
    """The ways that can be tried, and the examples drawn for them."""

    def __init__(self, made: Material, settings: FewshotConfig, progress: Progress) -> None:
        assert isinstance(made.kind, Classes)
        self.made, self.settings, self.progress, self.kind = made, settings, progress, made.kind
        if made.kind.multi:
            raise InputError("fewshot compares ways to tell one class per text: some examples have several")
        self.truth = [str(example.target) for example in made.valid]
        self.draws = self._draw()
        self.skipped: dict[str, str] = {}
        self.prompt: Prompt | None = None
        self._words: list[int] = []
        self._stage = Stage()
        asked = settings.methods or METHODS
        self.methods = [method for method in METHODS if method in asked and self._possible(method)]
        if not self.methods:
            raise ConfigError("nothing to compare: " + "; ".join(self.skipped.values()))

    def run(self) -> Iterator[Trial]:
        """Every way with every draw."""
        ways: dict[str, Callable[[], Iterator[Trial]]] = {
            "cloze": self._cloze, "probe": self._probe, "knn": self._knn, "lora": self._lora
        }  # fmt: skip
        trained = len(self.draws) * sum(method in _TRAINED for method in self.methods)
        frozen = len(self.draws) * sum(method not in _TRAINED for method in self.methods)
        steps = self.settings.steps
        work = [f"{counted(trained, 'training')} of {counted(steps, 'step')}"] * bool(trained)
        work += [f"{counted(frozen, 'fit')} on frozen vectors"] * bool(frozen)
        fewer = "fewer --sizes, --seeds or --set steps=" if trained else "fewer --sizes or --seeds"
        self.progress.say(
            f"{' and '.join(work)}, each scored on {counted(len(self.made.valid), 'example')}; {fewer} take"
            " less time"
        )
        # A fit counts as one step, and so does the scoring of a prompt without examples.
        total = trained * steps + frozen + ("cloze" in self.methods)
        with self.progress.stage("few-shot", total, "steps") as self._stage:
            for method in self.methods:
                self._stage.note(method)
                for trial in ways[method]():
                    if method not in _TRAINED or not trial.size:
                        self._stage.advance(1)
                    yield trial

    def _draw(self) -> dict[tuple[int, int], list[int]]:
        """For each size and seed the numbers of the training examples; larger draws hold the smaller ones."""
        of: dict[str, list[int]] = {label: [] for label in self.kind.labels}
        for number, example in enumerate(self.made.train):
            of[example.target].append(number)
        rarest = min(of, key=lambda label: len(of[label]))
        sizes = [size for size in sorted(set(self.settings.sizes)) if size <= len(of[rarest])]
        if len(sizes) < len(set(self.settings.sizes)):
            reason = f"the class {rarest!r} has only {counted(len(of[rarest]), 'example')}"
            if not sizes:
                raise InputError(f"{reason}: ask for fewer per class (--sizes)")
            self.progress.say(f"{reason}: larger sizes are left out")
        draws: dict[tuple[int, int], list[int]] = {}
        for seed in range(self.settings.seed, self.settings.seed + self.settings.seeds):
            rng = generator(seed, _DRAW, 0)
            order = {label: rng.permutation(numbers).tolist() for label, numbers in of.items()}
            for size in sizes:
                draws[size, seed] = [number for numbers in order.values() for number in numbers[:size]]
        return draws

    def _possible(self, method: str) -> bool:
        if method != "cloze":
            return True
        settings, asked = self.settings, self.settings.methods is not None
        if settings.prompt is None:
            return self._skip("the cloze needs a prompt and words: --prompt and --words", asked)
        model, _ = load_model(self.made.folder)
        if "mlm" not in model.heads or model.config.causal:
            which = "is causal" if model.config.causal else "has no masked-LM head"
            return self._skip(f"no cloze: {self.made.folder} {which}", False)
        pairs = any(example.pair is not None for example in self.made.train)
        self.prompt = make_prompt(settings.prompt, settings.words, self.kind.labels, pairs)
        text = self.prompt.texts(self.made.valid[:1], self.made.tokenizer, self._length)
        self._words = word_ids(Cloze(MaskedLM(model, self.made.tokenizer), text), self.prompt.words)
        return True

    def _skip(self, reason: str, asked: bool) -> bool:
        if asked:
            raise ConfigError(reason)
        self.skipped["cloze"] = reason
        self.progress.say(reason)
        return False

    @property
    def _length(self) -> int:
        assert self.made.task.length is not None
        return self.made.task.length

    def _trial(self, method: str, size: int, seed: int, predicted: Sequence[str]) -> Trial:
        return Trial(method, size, seed, metrics.classification(self.truth, predicted, self.kind.labels))

    def _cloze(self) -> Iterator[Trial]:
        """The words without any example, then trained with adapters."""
        made, prompt, labels = self.made, self.prompt, self.kind.labels
        assert prompt is not None
        texts = prompt.texts(made.valid, made.tokenizer, self._length)
        lm = MaskedLM(self._masked(0), made.tokenizer)
        yield self._trial("cloze", 0, self.settings.seed, self._named(choose_words(lm, texts, prompt.words)))
        for (size, seed), numbers in self.draws.items():
            model = self._masked(seed)
            lm = MaskedLM(model, made.tokenizer)
            drawn = [made.train[number] for number in numbers]
            cloze = Cloze(lm, prompt.texts(drawn, made.tokenizer, self._length))
            items = cloze_items(cloze, [labels.index(example.target) for example in drawn])
            with judged(self._train(model, items, ClozeLoss(self._words), seed), _RATE):
                chosen = self._named(choose_words(lm, texts, prompt.words))
            yield self._trial("cloze", size, seed, chosen)

    def _masked(self, seed: int) -> Model:
        torch.manual_seed(seed)
        model, _ = load_model(self.made.folder, heads=["mlm"])
        check_begin(model, self.made.folder)
        adapt(model, self.settings.lora, self.made.settings.lora_alpha)
        return model.to(self.made.machine.device)

    def _lora(self) -> Iterator[Trial]:
        """A new head and adapters."""
        made, kind, valid = self.made, self.kind, None
        for (size, seed), numbers in self.draws.items():
            model = made.model(seed)
            predictor = kind.predictor(model, made.tokenizer, made.task)
            valid = valid or kind.prepare(predictor, made.valid)
            drawn = [made.train[number] for number in numbers]
            items = kind.items(kind.prepare(predictor, drawn), drawn)
            with judged(self._train(model, items, TaskLoss(kind.head), seed), _RATE):
                scores = kind.evaluate(predictor, valid, made.valid).scores
            yield Trial("lora", size, seed, scores)

    def _probe(self) -> Iterator[Trial]:
        """Logistic regression on frozen vectors."""
        return self._frozen("probe", fit_predict)

    def _knn(self) -> Iterator[Trial]:
        """The nearest frozen vectors vote."""
        return self._frozen("knn", self._neighbours)

    def _frozen(self, method: str, fit: Callable[[Floats, Any, Floats], NDArray[Any]]) -> Iterator[Trial]:
        vectors, valid = self._vectors
        for (size, seed), numbers in self.draws.items():
            known = np.stack([vectors[number] for number in numbers])
            labels = np.array([self.made.train[number].target for number in numbers])
            yield self._trial(method, size, seed, fit(known, labels, valid).tolist())

    def _neighbours(self, known: Floats, labels: NDArray[np.str_], asked: Floats) -> NDArray[Any]:
        """Labels by the vote of the nearest vectors, standardised, by cosine."""
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        count = min(self.settings.neighbours, len(known))
        voters = KNeighborsClassifier(count, metric="cosine", weights="distance")
        predicted: NDArray[Any] = make_pipeline(StandardScaler(), voters).fit(known, labels).predict(asked)
        return predicted

    @cached_property
    def _vectors(self) -> tuple[dict[int, Floats], Floats]:
        """Vectors of the training examples that are drawn at all, and of the validation examples."""
        made = self.made
        used = sorted({number for numbers in self.draws.values() for number in numbers})
        model, _ = load_model(made.folder, heads=[])
        check_begin(model, made.folder).to(made.machine.device)
        predictor = Predictor(model, made.tokenizer, sentence=read_sentence_settings(made.folder))
        found = _embedded(predictor, [*(made.train[number] for number in used), *made.valid])
        return dict(zip(used, found, strict=False)), found[len(used) :]

    def _train(self, model: Model, items: Sequence[Item], loss: Losses, seed: int) -> Trainer:
        """So many steps, whatever comes of them."""
        settings, tuning = self.settings, self.made.settings
        segments = model.config.segments > 1
        feed = TaskFeed(items, settings.batch, tuning.micro_tokens, seed, segments)
        schedule = Schedule(Recipe(seed=seed, train=tuning.train_config()), settings.steps)
        trainer = Trainer(model, schedule, loss, self.made.machine)
        for _ in trainer.run(feed.steps(0, settings.steps)):
            self._stage.advance(1)
            check_steps(trainer, _RATE)
        model.eval()
        return trainer

    def _named(self, numbers: Sequence[int]) -> list[str]:
        return [self.kind.labels[number] for number in numbers]


def _embedded(predictor: Predictor, examples: Sequence[TextExample]) -> Floats:
    """A vector per text; of a pair both, and how far they are apart."""
    first: Floats = predictor.embed([example.text for example in examples], truncate=True)
    if all(example.pair is None for example in examples):
        return first
    second = predictor.embed([example.pair or "" for example in examples], truncate=True)
    return np.concatenate((first, second, np.abs(first - second)), axis=1)
