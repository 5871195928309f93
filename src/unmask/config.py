"""The recipe: everything that decides a result, as frozen sections read from and written to TOML.

A recipe file is a short difference from the defaults below. `--set section.key=value` changes one value.
"""

import difflib
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from unmask.errors import ConfigError
from unmask.files import write_atomic
from unmask.sections import (
    SET,
    Change,
    Count,
    Needs,
    Positive,
    Section,
    Share,
    Size,
    changed,
    checked,
    leaves,
    read_change,
    unread,
)

RECIPES = Path(__file__).parent / "recipes"
_BUDGETS = {"train.steps", "train.epochs", "train.seconds"}  # a change of one takes the place of a recipe's


class TextConfig(Section):
    """How raw files become clean documents."""

    documents: Literal["block", "line", "file"] = "block"
    """What a document is in a .txt file: a block between blank lines, a line, or the whole file."""
    column: str = "text"
    """The column or key that holds the text; without a `text`, one with a usual name (texto, review …).

    `{title}: {body}` makes a text of two.
    """
    language_column: str | None = None
    """The column or key that holds the language, if the rows carry one."""
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"
    """Unicode normalisation."""
    fix_mojibake: bool = False
    """Repair text that was decoded with the wrong encoding (ftfy); slow, so it is asked for."""
    min_chars: Count = 1
    """Shorter documents are dropped, counted as `short`."""
    max_chars: Positive = 10_000_000
    """Documents of more characters, as read or when clean, are dropped, counted as `long`."""
    min_letters: Share = 0.0
    """Documents with a smaller share of letters among what is not space are dropped, counted as `letters`."""


class TokenizerConfig(Section):
    """How a vocabulary is trained."""

    kind: Literal["wordpiece", "unigram", "bpe"] = "wordpiece"
    """WordPiece (BERT), Unigram LM (XLM-RoBERTa) or byte-level BPE (RoBERTa)."""
    vocab_size: Positive = 32_000
    """Entries in all, special tokens included."""
    lowercase: bool = False
    """Fold case before anything else."""
    strip_accents: bool = False
    """Remove accents before anything else."""
    min_frequency: Positive = 2
    """A pair (WordPiece, BPE) seen fewer times is not joined."""
    coverage: Share = 0.99999
    """Share of all characters to have entries for (WordPiece, Unigram); the rarest become unknown."""
    sample_mb: Positive = 400
    """Train on a uniform sample of the documents of at most this many megabytes (Unigram: at most 50)."""
    special: Literal["bert", "roberta"] | None = None
    """`[CLS] [SEP] …` or `<s> </s> …`; by default what the kind's own family uses."""


class PrepareConfig(Section):
    """How clean documents become token shards."""

    valid: Share = 0.005
    """Share of the documents held out for validation, by hash of their text."""
    test: Share = 0.005
    """Share held out for the final test, likewise."""
    deduplicate: bool = True
    """Drop documents whose cleaned text was seen before, counted as `duplicate`."""
    shard_tokens: Positive = 1 << 24
    """A shard is closed when it holds this many tokens."""

    @model_validator(mode="after")
    def _check(self) -> "PrepareConfig":
        if self.valid + self.test >= 1:
            raise ValueError("valid and test together leave nothing to train on")
        return self


class MaskConfig(Section):
    """Which tokens are hidden from the model, and how."""

    kind: Literal["token", "word", "span"] = "token"
    """Single tokens, whole words, or spans of whole words (geometric with p = 0.2, at most 10 words)."""
    ratio: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens to predict."""
    ratio_end: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share at the end of training, reached in a straight line; by default the same throughout."""
    mask: Share = 0.8
    """Of those to predict, the share replaced by the mask token."""
    random: Share = 0.1
    """The share replaced by a random token."""
    keep: Share = 0.1
    """The share left as it is."""

    @model_validator(mode="after")
    def _check(self) -> "MaskConfig":
        if abs(self.mask + self.random + self.keep - 1) > 1e-6:
            raise ValueError("mask, random and keep are shares of a whole: they must sum to 1")
        if self.kind == "span" and max(self.ratio, self.ratio_end or 0) > 0.5:
            raise ValueError("spans need unmasked words between them: a ratio above 0.5 does not fit")
        return self


class BatchConfig(Section):
    """How token shards become batches."""

    length: Annotated[int, Field(ge=8)] = 512
    """Tokens of the longest sequence, special tokens included; shorter ones are packed together to this."""
    sentences: bool = False
    """Make every sentence a sequence of its own."""
    pairs: Literal["none", "nsp", "sop"] = "none"
    """Pairs of texts: is the second the next one (nsp), or are the two in order (sop)?"""
    short: Share = 0.1
    """Share of the pairs that are made shorter at random."""
    alpha: Share = 1.0
    """Languages are drawn with q ∝ pᵅ: 1 as the corpus has them, 0 all alike."""
    mask: MaskConfig = MaskConfig()

    @model_validator(mode="after")
    def _check(self) -> "BatchConfig":
        if self.sentences and self.pairs != "none":
            raise ValueError("sentences and pairs exclude each other: set one of them")
        return self


class ModelConfig(Section):
    """The network: every family is a set of values here, none is a subclass."""

    family: Literal[
        "bert",
        "roberta",
        "xlm-roberta",
        "camembert",
        "distilbert",
        "modernbert",
        "modernbert-decoder",
        "unmask",
    ] = "bert"
    """The published layout in which the model is saved; `unmask` is our own, for what no other expresses."""
    vocab_size: Size = 30_522
    """Rows of the token table."""
    width: Size = 768
    """Width of the hidden states."""
    layers: Annotated[int, Field(ge=1, le=1000)] = 12
    """Number of blocks."""
    heads: Size = 12
    """Attention heads; they share the width equally."""
    inner: Size = 3072
    """Width inside the feed-forward layer."""
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    """Non-linearity of the feed-forward layer."""
    gated: bool = False
    """Multiply the activation by a second projection (GeGLU with gelu)."""
    norm: Literal["before", "after"] = "after"
    """Layer norm before each half of a block (and once at the end), or after the residual sum."""
    norm_eps: Annotated[float, Field(gt=0)] = 1e-12
    """Added to the variance in every layer norm."""
    norm_bias: bool = True
    """Layer norms have a bias."""
    attention_bias: bool = True
    """Attention projections have biases."""
    qk_norm: bool = False
    """Bring queries and keys to one length before they are compared; only the `unmask` layout has it."""
    inner_bias: bool = True
    """Feed-forward projections have biases."""
    positions: Size = 512
    """The longest sequence, in tokens."""
    position: Literal["learned", "rotary"] = "learned"
    """A learned vector per position added to the input, or queries and keys rotated by it."""
    position_offset: Count = 0
    """Rows of the position table before the first position (RoBERTa: the padding id + 1)."""
    rope_base: Annotated[float, Field(gt=0)] = 160_000.0
    """Base of the rotary angles in layers that see the whole sequence."""
    local_rope_base: Annotated[float, Field(gt=0)] = 10_000.0
    """Base of the rotary angles in local layers."""
    window: Count = 0
    """How far a local layer sees to each side, in tokens; 0: there are no local layers."""
    global_every: Positive = 1
    """Layers 0, n, 2n, … see the whole sequence; those between are local."""
    causal: bool = False
    """Each token sees itself and those before it, unless a batch says otherwise."""
    segments: Annotated[int, Field(ge=0, le=1000)] = 2
    """Rows of the segment table (first and second text of a pair); 0: there is none."""
    dropout: Share = 0.1
    """Dropout of the embeddings and of what each half of a block adds."""
    attention_dropout: Share = 0.1
    """Dropout of attention weights; the fast kernels on CUDA need 0."""
    head_dropout: Share = 0.1
    """Dropout in classification heads."""
    tied: bool = True
    """The masked-LM head uses the token table as its output matrix."""
    head_activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    """Non-linearity of the masked-LM head."""
    head_bias: bool = True
    """The dense layer of the masked-LM head has a bias."""
    output_bias: bool = True
    """The masked-LM head has a bias per vocabulary entry."""
    classifier: Literal["pooler", "tanh", "relu", "norm"] = "pooler"
    """Classification head: BERT's pooler, RoBERTa's, DistilBERT's, or ModernBERT's dense layer with norm."""
    pooling: Literal["first", "mean", "last"] = "first"
    """Which token, or the mean of all, the classification head reads."""
    labels: tuple[str, ...] = ()
    """Names of the classes, if there is a classification or tagging head."""
    problem: Literal["single", "multi", "regression"] = "single"
    """One class per text, any number of classes, or a number."""
    init_std: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of new weights."""
    scaled_init: bool = False
    """ModernBERT's: cut at two deviations, and smaller by √(2 layers) where a block writes its result."""
    pad_id: Count = 0
    """Id of the padding token, which unmask itself never computes."""
    bos_id: Count | None = None
    """Id of the token that opens a sequence, if the layout records it."""
    eos_id: Count | None = None
    """Id of the token that closes a sequence; generation stops there."""

    @model_validator(mode="after")
    def _sizes_agree(self) -> "ModelConfig":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.position == "rotary" and self.width // self.heads % 2:
            raise ValueError(f"rotary positions need an even width per head, not {self.width // self.heads}")
        if (self.global_every > 1) != (self.window > 0):
            raise ValueError("window and global_every go together: set both, or leave 0 and 1")
        if self.global_every > self.layers:
            raise ValueError(f"global_every {self.global_every} is more than layers {self.layers}")
        if self.pad_id >= self.vocab_size:
            raise ValueError(f"pad_id {self.pad_id} is outside the vocabulary of {self.vocab_size}")
        return self


class ObjectiveConfig(Section):
    """What the model learns to predict; how tokens are hidden and paired is in `batch`."""

    mlm: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the hidden tokens' loss; the losses of pairs (batch.pairs) and spans have weight 1."""
    sbo: bool = False
    """Predict each hidden token from the two tokens around its span too (needs batch.mask.kind = span)."""
    causal: Share = 0.0
    """Share of the steps that predict the next token instead, each token seeing only those before it."""
    teachers: tuple[str, ...] = ()
    """Models of the same vocabulary, folders or names: what they expect at hidden tokens is learned too."""
    teach: Annotated[float, Field(gt=0)] = 1.0
    """Weight of that loss, the cross-entropy with the mean of the teachers' distributions."""


class StageConfig(Section):
    """A part of the training with sequences of one length."""

    share: Annotated[float, Field(gt=0, le=1)]
    """Share of the steps."""
    length: Annotated[int, Field(ge=8)]
    """Tokens of the longest sequence, in place of batch.length."""


class TrainConfig(Section):
    """How long to train, with which optimiser, and how often to look and save."""

    steps: Positive | None = None
    """Number of steps. Without steps, epochs and seconds: one epoch."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """Passes over the corpus, in place of steps."""
    seconds: Annotated[float, Field(gt=0)] | None = None
    """Time to spend in steps, compiling included, in place of steps: their number is guessed at the start and
    counted anew as the pace becomes known. Validation and saving are on top."""
    batch_tokens: Positive = 65_536
    """Tokens of a step, over all devices and micro-batches together."""
    micro_tokens: Positive = 16_384
    """Tokens that go through the model at once on one device; a larger step accumulates gradients."""
    batch_warmup: Share = 0.0
    """Share of the steps over which batch_tokens grows in a straight line, from an eighth of it."""
    stages: tuple[StageConfig, ...] = ()
    """Sequence lengths in turn, for example 128 for 90 % of the steps, then 512; each begins a new epoch."""
    optimiser: Literal["adamw", "muon"] = "adamw"
    """AdamW for all weights, or Muon for the matrices of the blocks and AdamW for the rest."""
    lr: Annotated[float, Field(gt=0)] = 5e-4
    """Highest learning rate of AdamW."""
    muon_lr: Annotated[float, Field(gt=0)] = 0.02
    """Highest learning rate of Muon."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    """Decay of AdamW's averages of the gradient and of its square."""
    eps: Annotated[float, Field(gt=0)] = 1e-6
    """Added to AdamW's denominator."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Decoupled weight decay; biases and norms have none."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The rate in each block as a share of the rate in the block above; heads have the whole rate."""
    decay_embeddings: bool = True
    """Decay the embedding tables too, as BERT and its successors do."""
    warmup: Share = 0.06
    """Share of the steps over which the learning rate rises from 0."""
    schedule: Literal["linear", "cosine", "wsd"] = "linear"
    """How the learning rate falls after that: in a line, as a cosine, or only in the last part (wsd)."""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.2
    """For wsd: share of the steps, at the end, over which it falls in a line."""
    final: Share = 0.0
    """Learning rate at the very end, as a share of the highest."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Gradients of a larger norm are scaled down to it."""
    average: Share = 0.0
    """Share of the steps, at the end, over which the weights are averaged; the mean is what is kept."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Of the matrix products; weights are always float32. auto: bf16 on a GPU or processor that has it."""
    compile: bool | Literal["auto"] = "auto"
    """Compile the blocks with torch.compile. auto: on a GPU."""
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"
    """Under torchrun: every process has all weights (ddp), or only its rows of each (fsdp). auto: ddp."""
    checkpoint_activations: bool = False
    """Compute each block again in the backward pass: less memory, about a third more work."""
    eval_every: Positive | None = None
    """Steps between validations; by default a twentieth of the training, and at least ten."""
    eval_tokens: Positive = 1 << 18
    """Validate on the first so many tokens of the validation split."""
    cloze: str | None = None
    """A file of sentences with a `[MASK]`, filled at each validation; by default ten of the text for it."""
    save_every: Positive | None = None
    """Steps between checkpoints; by default a twentieth of the training."""
    keep: Positive = 2
    """Checkpoints to keep."""
    patience: Positive | None = None
    """Stop after so many validations without a lower loss, and keep the best weights; by default never."""
    workers: Count | None = None
    """Processes that build batches ahead: by default 1, for a GPU up to 4; 0: none. They change no batch."""

    @model_validator(mode="after")
    def _check(self) -> "TrainConfig":
        if sum(value is not None for value in (self.steps, self.epochs, self.seconds)) > 1:
            raise ValueError("steps, epochs and seconds exclude each other: set one of them")
        if self.stages and abs(sum(stage.share for stage in self.stages) - 1) > 1e-6:
            raise ValueError("the shares of the stages are parts of a whole: they must sum to 1")
        if self.schedule == "wsd" and self.warmup + self.decay > 1:
            raise ValueError("warmup and decay are shares of the steps: together at most 1")
        if self.optimiser == "muon" and self.parallel == "fsdp":
            raise ValueError("muon needs whole matrices, fsdp splits them: set parallel to ddp, or adamw")
        return self


class Recipe(Section):
    """A whole run, from raw text to a trained model."""

    seed: Count = 0
    """Every random choice follows from this number."""
    text: TextConfig = TextConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    prepare: PrepareConfig = PrepareConfig()
    model: ModelConfig = ModelConfig()
    batch: BatchConfig = BatchConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    train: TrainConfig = TrainConfig()

    @model_validator(mode="after")
    def _sections_agree(self) -> "Recipe":
        objective, batch = self.objective, self.batch
        if objective.sbo and batch.mask.kind != "span":
            raise ValueError("objective.sbo predicts the tokens of spans: set batch.mask.kind to span")
        if objective.causal and (batch.pairs != "none" or objective.sbo):
            raise ValueError("objective.causal goes with neither batch.pairs nor objective.sbo")
        if objective.teachers and (objective.causal or not objective.mlm):
            raise ValueError("objective.teachers need objective.mlm above 0, and objective.causal = 0")
        if objective.teach != 1 and not objective.teachers:
            raise ValueError("objective.teach weighs what teachers expect: name one (--teacher MODEL)")
        for name in ("dropout", "attention_dropout", "head_dropout"):  # folders with it can be read
            if getattr(self.model, name) == 1:
                raise ValueError(f"model.{name} = 1 drops everything: set it below 1")
        if not objective.mlm and not objective.sbo and objective.causal < 1:
            raise ValueError("objective.mlm = 0 leaves no token to predict: set another objective")
        return self

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence in any stage."""
        return max((stage.length for stage in self.train.stages), default=self.batch.length)


_RECIPE_NEEDS: Needs[Recipe] = {
    "batch.length": (
        "with train.stages=[], as stages have lengths of their own",
        lambda one: not one.train.stages,
    ),
    "batch.short": ("with batch.pairs=nsp or sop", lambda one: one.batch.pairs != "none"),
    "model.local_rope_base": ("with model.window and model.global_every", lambda one: one.model.window),
    "model.position_offset": ("with model.position=learned", lambda one: one.model.position == "learned"),
    "model.rope_base": ("with model.position=rotary", lambda one: one.model.position == "rotary"),
    "tokenizer.coverage": (
        "with tokenizer.kind=wordpiece or unigram",
        lambda one: one.tokenizer.kind != "bpe",
    ),
    "tokenizer.min_frequency": (
        "with tokenizer.kind=wordpiece or bpe",
        lambda one: one.tokenizer.kind != "unigram",
    ),
    "train.decay": ("with train.schedule=wsd", lambda one: one.train.schedule == "wsd"),
    "train.muon_lr": ("with train.optimiser=muon", lambda one: one.train.optimiser == "muon"),
    "train.patience": (
        "with train.eval_every below train.steps, as a single validation is the best so far",
        lambda one: (one.train.eval_every or 0) < (one.train.steps or math.inf),
    ),
} | {
    f"batch.mask.{name}": ("with objective.causal below 1", lambda one: one.objective.causal < 1)
    for name in MaskConfig.model_fields
}


def load_recipe(path: Path | str | None = None, changes: Sequence[str | Change] = ()) -> Recipe:
    """Read a recipe, a file or one of ours by its name, and apply `section.key=value` changes in order."""
    values = _read_toml(_find(Path(path))) if path else {}
    return checked(values, str(path or SET), Recipe, changed(values, changes, _BUDGETS))


def check_changes(recipe: Recipe, changes: Sequence[str | Change]) -> None:
    """Refuse changes that the recipe with all of them does not read; what it says itself may stand."""
    for each in changes:
        change = read_change(each) if isinstance(each, str) else each
        said = () if change.value is None else leaves(change.key, change.value)
        if found := unread(recipe, said, _RECIPE_NEEDS):
            raise ConfigError(f"{change.option} {' '.join(found)}")


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe as run; reading it back gives the same one."""
    import tomli_w

    write_atomic(path, tomli_w.dumps(recipe.model_dump(mode="json", exclude_none=True)))


def recipe_names() -> list[str]:
    """The recipes that come with unmask."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def _find(path: Path) -> Path:
    if path.exists() or path.suffix or len(path.parts) > 1:
        return path
    if path.name not in recipe_names():
        close = difflib.get_close_matches(path.name, recipe_names(), n=1)
        meant = f"; did you mean {close[0]}?" if close else "."
        raise ConfigError(
            f"there is no recipe {path}{meant} Name a file, or one of {', '.join(recipe_names())}"
        )
    return RECIPES / f"{path.name}.toml"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no recipe at {path}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; name the recipe file in it") from None
    except OSError as error:
        raise ConfigError(f"cannot read the recipe {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
