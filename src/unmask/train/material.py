"""What a run trains on and begins with: shards, their tokenizer, a recipe that fits them, first weights."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from unmask.checkpoint import load_model, read_values
from unmask.config import ModelConfig, Recipe
from unmask.data.prepare import prepare
from unmask.data.shards import MANIFEST, Corpus, read_tokenizer
from unmask.errors import ConfigError, CorpusError, ModelError, OutputError
from unmask.files import digest, write_json
from unmask.model.families import choose_architecture
from unmask.model.network import Model
from unmask.model.published import read_config, write_config
from unmask.progress import SILENT, Progress
from unmask.text import Source
from unmask.tokenizer import Tokenizer
from unmask.tokenizer.build import build_tokenizer
from unmask.train.loop import seed_of
from unmask.train.objectives import Objectives
from unmask.train.start import Start
from unmask.train.state import checkpoints
from unmask.train.teachers import check_vocabulary, find_teachers


@dataclass(frozen=True, slots=True)
class Material:
    """Everything a training needs but time."""

    recipe: Recipe
    """With the model's settings that follow from the tokenizer, or from the model to go on from."""
    corpus: Corpus
    tokenizer: Tokenizer
    base: Path | None
    teachers: Sequence[Path] = ()

    def model(self) -> Model:
        """The first weights: drawn from the seed, or those of the base."""
        torch.manual_seed(seed_of(self.recipe.seed))
        heads = Objectives(self.recipe).heads
        if self.base is None:
            return Model(self.recipe.model, heads)
        model, _ = load_model(self.base, heads=heads)
        known = Tokenizer.load(self.base).vocab_size
        return grow(model, self.recipe.model, self.tokenizer, known)


def gather(recipe: Recipe, run: Path, start: Start, progress: Progress = SILENT) -> Material:
    """Open the shards, or make them in the run's folder from raw text, and fit the recipe to them."""
    if bool(start.sources) == bool(start.data):
        raise ConfigError("name what to train on: either --data SHARDS or --text FILES")
    base = read_config(read_values(start.base)) if start.base else None
    _check_length(recipe, base)  # before hours of preparing
    _check_direction(recipe.objective.causal, base or recipe.model)
    teachers = find_teachers(recipe)
    if start.data:
        folder = start.data
        tokenizer = read_tokenizer(folder)
        check_vocabulary(teachers, tokenizer, folder, "run unmask prepare with --tokenizer and the teacher")
    else:
        if _begun(run) and not (run / "shards" / MANIFEST).is_file():
            raise _other_text(run)
        if known := start.base or next(iter(teachers), None):
            tokenizer = Tokenizer.load(known)
            check_vocabulary(teachers, tokenizer, known, "they must have one")
        else:
            tokenizer = _vocabulary(recipe, run, start.sources, progress)
        folder = run / "shards"
        try:
            prepare(start.sources, tokenizer, folder, recipe, progress=progress)
        except OutputError as error:
            if _begun(run):
                raise _other_text(run) from error  # no advice to delete what the run needs
            raise
    remark = ""
    if base and start.base:
        _check_extends(Tokenizer.load(start.base), tokenizer, start.base)
        model = base.model_copy(update={"vocab_size": max(base.vocab_size, tokenizer.vocab_size)})
    else:
        model = _fitted(recipe.model, tokenizer)
        asked = recipe.model.vocab_size
        if "vocab_size" in recipe.model.model_fields_set and asked != model.vocab_size:
            remark = (
                f"model.vocab_size = {asked:,} is not used: the vocabulary has {model.vocab_size:,} entries "
                "(tokenizer.vocab_size says how many a new one gets)"
            )
    recipe = recipe.model_copy(update={"model": model})
    write_config(model, choose_architecture(model, Objectives(recipe).heads)[0])  # better now than at the end
    if remark:
        progress.say(remark)
    return Material(recipe, Corpus.open(folder), tokenizer, start.base, teachers)


def _vocabulary(recipe: Recipe, run: Path, sources: Sequence[Source], progress: Progress) -> Tokenizer:
    """The vocabulary of the sources; trained once, as long as they and the settings stay as they are."""
    if any(source.path is None for source in sources):
        raise ConfigError("standard input can be read only once: run `unmask tokenizer` and `unmask prepare`")
    stats = [(source.name, source.path.stat()) for source in sources if source.path]
    settings = recipe.model_dump_json(include={"text", "tokenizer"})
    made_of = digest(settings, *(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats))
    folder, marker = run / "vocab", run / "vocab.json"
    if _made_of(marker) != made_of:
        if _begun(run):
            raise _other_text(run)
        build_tokenizer(sources, folder, recipe, progress=progress)
        write_json(marker, {"made_of": made_of})
    return Tokenizer.load(folder)


def _made_of(marker: Path) -> str | None:
    """What a vocabulary was made of, if it can be read."""
    try:
        return str(json.loads(marker.read_text("utf-8"))["made_of"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _begun(run: Path) -> bool:
    return bool(checkpoints(run / "checkpoints"))


def _other_text(run: Path) -> CorpusError:
    shards = run / "shards"
    if not (shards / MANIFEST).is_file():
        return CorpusError("this run began with --data: go on with the same shards, in place of --text")
    return CorpusError(
        "the text, or its vocabulary, is not as it was when this run began: bring it back with its date, "
        f"or go on with --data {shards} in place of --text"
    )


def _fitted(config: ModelConfig, tokenizer: Tokenizer) -> ModelConfig:
    """The model's settings for this vocabulary."""
    pad = tokenizer.pad_id
    return config.model_copy(
        update={
            "vocab_size": tokenizer.vocab_size,
            "pad_id": pad,
            "bos_id": None if config.bos_id is None else tokenizer.cls_id,
            "eos_id": None if config.eos_id is None else tokenizer.sep_id,
            "position_offset": pad + 1 if config.position_offset else 0,
        }
    )


def _check_length(recipe: Recipe, base: ModelConfig | None) -> None:
    positions = (base or recipe.model).positions
    if recipe.longest > positions:
        raise ConfigError(
            f"sequences of {recipe.longest} tokens are longer than the model's {positions} positions: "
            f"set batch.length (or the stages){'' if base else ', or model.positions'}"
        )


def _check_direction(share: float, model: ModelConfig) -> None:
    """What is learned must be what the model can be asked for."""
    if model.causal and share < 1:
        raise ConfigError(
            "a causal model cannot fill masks, only go on with a text: set objective.causal = 1"
        )
    if share == 1 and not model.causal:
        raise ConfigError(
            "objective.causal = 1 teaches next tokens alone: set model.causal = true (as in causal-small), "
            "or a smaller share for a model that fills masks too"
        )


def _check_extends(old: Tokenizer, new: Tokenizer, base: Path) -> None:
    """The new tokenizer must be the base's own, or the base's with entries added."""
    if old.fingerprint == new.fingerprint:
        return
    same = new.vocab_size >= old.vocab_size and all(
        old.piece(number) == new.piece(number) for number in range(old.vocab_size)
    )
    if not same:
        raise ModelError(
            f"the shards were made with another tokenizer than {base}'s: prepare them with that one, "
            "or with one that `unmask tokenizer --extend` made of it"
        )


@torch.no_grad()
def grow(model: Model, config: ModelConfig, tokenizer: Tokenizer, known: int) -> Model:
    """The model with a row for every entry; one that is new begins as the mean of its old pieces' rows."""
    if tokenizer.vocab_size <= known:
        return model
    grown = Model(config, model.heads)
    old = dict(model.named_parameters())
    for name, weight in grown.named_parameters():
        if weight.shape == old[name].shape and weight.shape[0] != config.vocab_size:
            weight.copy_(old[name])
            continue
        rows = old[name][:known]
        weight[:known] = rows
        weight[known:] = rows.mean(0)
        for new, pieces in tokenizer.old_pieces.items():
            weight[new] = rows[list(pieces)].mean(0)
    return grown
