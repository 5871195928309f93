"""How a model is fine-tuned, made to give sentence vectors, or tried on few examples; without torch."""

from collections.abc import Callable
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from unmask.config import ModelConfig, TrainConfig
from unmask.errors import ConfigError
from unmask.predict.settings import STRIDE
from unmask.sections import UNREAD, AnySection, Count, Needs, Positive, Section, Share, unread

LORA_LR = HIGHEST_LR = 1e-3
Rate = Annotated[float, Field(gt=0)]
NO_RATE = "lr: say one, or take the one of a model: settings.suited(config)"
Method = Literal["cloze", "probe", "knn", "lora"]
METHODS: tuple[Method, ...] = get_args(Method)


def usual_rate(base: float, model: ModelConfig) -> float:
    """A rate for a model, from that of one 768 wide; norms after the sums bear less of a rise."""
    return min(HIGHEST_LR, base * (768 / model.width) ** (2 if model.norm == "before" else 1))


def _check_read(settings: AnySection, needs: Needs[AnySection]) -> AnySection:
    """Refuse what was said, and with the other settings is not read."""
    if found := unread(settings, sorted(settings.model_fields_set), needs):
        key, reason = found
        problem = PydanticCustomError(UNREAD, reason)
        line = InitErrorDetails(type=problem, loc=(key,), input=getattr(settings, key))
        raise ValidationError.from_exception_data(type(settings).__name__, [line])
    return settings


class FinetuneConfig(Section):
    """Settings of a fine-tuning; `--set key=value` changes one."""

    lr: Rate | None = None
    """Highest learning rate; by default 5e-5 times 768 / width, or its square where the norms come first, at
    most 1e-3; with lora 1e-3."""
    optimiser: Literal["adamw", "muon"] = "adamw"
    """muon: for the matrices of the blocks; of use where the model was pretrained with it."""
    muon_lr: Rate = 0.01
    """Highest learning rate of Muon."""
    epochs: Positive = 3
    """Passes over the training examples."""
    batch: Positive = 32
    """Examples of a step."""
    warmup: Share = 0.1
    """Share of the steps over which the learning rate rises from 0; then it falls to 0 in a line."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Decoupled weight decay; biases and norms have none."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Each block's learning rate as a share of that of the block above it."""
    layers: Count | Literal["all"] = "all"
    """Blocks to train, from the top: all, with the embeddings, or so many; 0 trains the head alone."""
    lora: Count = 0
    """Train low-rank adapters of this rank and the head alone; they are merged when saved. 0: none."""
    lora_alpha: Annotated[float, Field(gt=0)] = 16.0
    """What the adapters say counts alpha / rank times."""
    lora_matrices: Literal["attention", "all"] = "all"
    """Which matrices have adapters: those of attention, or those of the feed-forward layers too."""
    replay_text: str | None = None
    """A text file: some steps are masked-LM steps on it, so that the model forgets less of what it knew."""
    replay: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the steps that are, where there is such a text."""
    report_forgetting: str | None = None
    """A text file on which the masked-LM loss is measured before and after."""
    class_weights: bool = False
    """Weigh the examples of rare classes more, so that all classes count alike."""
    patience: Count = 2
    """Stop after so many epochs without a better score; 0: never."""
    metric: str | None = None
    """The validation score that decides; by default what suits the task."""
    seed: Count = 0
    """Every random choice follows from this number."""
    seeds: Positive = 1
    """Train so many times, from this seed on; the best by validation is kept."""
    length: Annotated[int, Field(ge=8)] | None = None
    """Tokens of the longest window; by default 384 for questions, else what the model takes up to 512."""
    stride: Count = STRIDE
    """Tokens that neighbouring windows of a long text share; of a classifier's with long=mean, or `predict
    --long mean` later."""
    long: Literal["head", "tail", "mean"] = "head"
    """Of a text too long to classify: its beginning, its end, or the mean over windows of all of it."""
    valid: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the training examples held out where no validation file is given."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Gradients of a larger norm are scaled down to it."""
    micro_tokens: Positive = 8192
    """Tokens that go through the model at once; a larger step accumulates gradients."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Of the matrix products; auto: bf16 on a GPU or processor that has it."""

    @model_validator(mode="after")
    def _check(self) -> "FinetuneConfig":
        if self.lora and self.layers != "all":
            raise ValueError("lora and layers exclude each other: adapters are on every block")
        if self.lora and self.optimiser == "muon":
            raise ValueError("lora and muon exclude each other: adapters are trained with adamw")
        if self.replay_text and self.layers == 0:
            raise ValueError("layers = 0 changes nothing that a replay could keep: leave one of them out")
        return _check_read(self, _FINETUNE_NEEDS)

    def suited(self, model: ModelConfig) -> Self:
        """With a rate that suits a model; adapters are small and begin at zero."""
        usual = LORA_LR if self.lora else usual_rate(5e-5, model)
        return self.model_copy(update={"lr": self.lr or usual})

    def train_config(self) -> TrainConfig:
        """The same as the training loop knows it; a rate must be chosen."""
        if self.lr is None:
            raise ConfigError(NO_RATE)
        return TrainConfig(
            lr=self.lr,
            optimiser=self.optimiser,
            muon_lr=self.muon_lr,
            betas=(0.9, 0.999),
            eps=1e-8,
            weight_decay=self.weight_decay,
            layer_decay=self.layer_decay,
            warmup=self.warmup,
            clip=self.clip,
            precision=self.precision,
            compile=False,
        )


_FINETUNE_NEEDS: Needs[FinetuneConfig] = {
    "muon_lr": ("with optimiser=muon", lambda one: one.optimiser == "muon"),
    "lora_alpha": ("with lora", lambda one: one.lora),
    "lora_matrices": ("with lora", lambda one: one.lora),
    "layer_decay": ("with blocks that are trained, so not with layers=0", lambda one: one.layers != 0),
    "replay": ("with replay_text", lambda one: one.replay_text),
    "patience": (
        "with epochs=3 or more, as the first is always the best so far",
        lambda one: one.epochs > 2 or not one.patience,
    ),
}


class EmbedConfig(Section):
    """Settings of a training of sentence vectors; `--set key=value` changes one."""

    lr: Rate | None = None
    """Highest learning rate; by default 3e-5 times 768 / width, or its square where the norms come first, at
    most 1e-3."""
    epochs: Positive = 1
    """Passes over the training texts."""
    batch: Annotated[int, Field(ge=2)] = 64
    """Pairs of a step; each is compared with all the others."""
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """Cosines are divided by it: the lower, the more the nearest others count."""
    length: Annotated[int, Field(ge=8)] | None = None
    """Tokens of the longest text, the rest is cut off; by default what the model takes up to 128."""
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """By default the model's own; texts alone need some, and have 0.1 if the model has none."""
    warmup: Share = 0.1
    """Share of the steps over which the learning rate rises from 0; then it falls to 0 in a line."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Decoupled weight decay; biases and norms have none."""
    seed: Count = 0
    """Every random choice follows from this number."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Of the matrix products; auto: bf16 on a GPU or processor that has it."""

    def suited(self, model: ModelConfig) -> Self:
        """With a rate that suits a model."""
        return self.model_copy(update={"lr": self.lr or usual_rate(3e-5, model)})

    def train_config(self) -> TrainConfig:
        """The same as the training loop knows it; a rate must be chosen."""
        if self.lr is None:
            raise ConfigError(NO_RATE)
        own = self.model_dump(include={"lr", "warmup", "weight_decay", "precision"})
        return TrainConfig(**own, betas=(0.9, 0.999), eps=1e-8, compile=False)


class FewshotConfig(Section):
    """Settings of a comparison; `--set key=value` changes one."""

    methods: tuple[Method, ...] | None = None
    """Which ways to compare; by default all that the model and the prompt allow."""
    sizes: Annotated[tuple[Positive, ...], Field(min_length=1)] = (8, 16, 32, 64)
    """Examples per class."""
    seeds: Positive = 3
    """How often examples are drawn and models trained."""
    seed: Count = 0
    """Every random choice follows from this number."""
    prompt: str | None = None
    """A text with one [MASK]; {text} (and {pair}) stand for an example, which else comes before it."""
    words: tuple[str, ...] = ()
    """`label=word` for each class: the word that fills the mask."""
    neighbours: Positive = 5
    """Nearest examples that vote."""
    steps: Positive = 100
    """Steps of a training, whatever the number of examples."""
    batch: Positive = 16
    """Examples of a step."""
    lr: Rate = LORA_LR
    """Highest learning rate."""
    lora: Positive = 8
    """Rank of the adapters."""
    length: Annotated[int, Field(ge=8)] | None = None
    """Tokens of the longest text; by default what the model takes up to 512."""

    @model_validator(mode="after")
    def _check(self) -> "FewshotConfig":
        return _check_read(self, _FEWSHOT_NEEDS)


def _tries(*methods: Method) -> Callable[[FewshotConfig], bool]:
    """Whether one of these ways may be among those to compare."""
    return lambda one: one.methods is None or not set(methods).isdisjoint(one.methods)


_FEWSHOT_NEEDS: Needs[FewshotConfig] = {
    "neighbours": ("with methods=knn", _tries("knn")),
} | {
    name: ("with methods=cloze", _tries("cloze")) for name in ("prompt", "words")
} | {
    name: ("with methods=cloze or lora", _tries("cloze", "lora"))
    for name in ("steps", "batch", "lr", "lora", "length")
}  # fmt: skip
