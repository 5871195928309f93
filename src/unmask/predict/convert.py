"""`convert`: a model folder in another form, checked against the network it was made from."""

import math
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unmask.checkpoint import ONNX_FILE, inside, load_model, own_facts, read_values, write_model
from unmask.errors import ModelError
from unmask.files import disk_errors, write_json
from unmask.model.network import Model
from unmask.model.weights import LoadReport
from unmask.predict.batching import Pack, pack
from unmask.predict.export import exported_head, write_onnx
from unmask.predict.folders import check_conversion
from unmask.predict.onnx import OnnxEncoder
from unmask.predict.predictor import NotFiniteError, pool_rows
from unmask.progress import SILENT, Progress
from unmask.target import CONFIG, whole_folder
from unmask.tokenizer import Tokenizer

_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_SIDE_FILES = (
    "README.md",
    "report.html",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "*_Pooling/config.json",
)
_TOLERANCE, _SCORES_TOLERANCE = 1e-4, 1e-3
"""Of hidden states, and of scores, which are sums over them."""
_LENGTHS = (1, 3, 8, 21, 55)


@dataclass(frozen=True)
class Conversion:
    """What was written, and how far it is from what was read."""

    folder: str
    form: str
    difference: float
    """Largest absolute difference of any number in the hidden states of sample sequences."""
    cosine: float
    """Mean cosine of their mean vectors."""
    scores: float | None
    """Largest absolute difference of any score of the head, if there is one."""
    lengths: tuple[int, ...]
    """Tokens of the sample sequences; together they make one batch with padding."""
    tokenizer: bool
    """The folder held a tokenizer, which went along."""


def convert(
    source: str | Path,
    target: str | Path,
    to: str = "hf",
    int8: bool = False,
    allow_pickle: bool = False,
    progress: Progress = SILENT,
    *,
    overwrite: bool = False,
) -> tuple[Conversion, LoadReport]:
    """Write a model folder as safetensors or ONNX, and compare.

    `to` is hf (float32), bfloat16 (half the size, the same layout) or onnx (in eight bits if asked). A model
    that `target` holds already is replaced at the end, if `overwrite` says so and the copy was found right.
    """
    folder, target = check_conversion(source, target, to, int8, overwrite), Path(target)
    model, report = load_model(folder, allow_pickle=allow_pickle)
    has_tokenizer = any(next(folder.glob(pattern), None) for pattern in _TOKENIZER_FILES)
    tokenizer = Tokenizer.load(folder, progress) if has_tokenizer else None
    progress.say(f"{folder} -> {target} ({to}{', int8' if int8 else ''})")
    with whole_folder(target, overwrite) as unfinished:
        _copy(folder, unfinished)
        written: Model | OnnxEncoder
        if to != "onnx":
            dtype = torch.bfloat16 if to == "bfloat16" else torch.float32
            write_model(model, unfinished, tokenizer, own_facts(read_values(folder)), dtype)
            written = load_model(unfinished)[0]
        else:
            with progress.stage("exporting"):
                write_json(unfinished / CONFIG, read_values(folder))
                if tokenizer is not None:
                    tokenizer.save(unfinished)
                write_onnx(model, unfinished / ONNX_FILE, int8)
            written = OnnxEncoder(unfinished / ONNX_FILE)
        made = Conversion(str(target), to, *compare(model, written), has_tokenizer)
        if not math.isfinite(made.difference + (made.scores or 0.0)):
            raise NotFiniteError(folder)
        if not int8 and to != "bfloat16":
            _check_exact(made)
    return made, report


def _check_exact(made: Conversion) -> None:
    """Refuse a copy that is not what it was made from."""
    scores = made.scores or 0.0
    if made.difference > _TOLERANCE or scores > _SCORES_TOLERANCE:
        raise ModelError(
            f"the copy's vectors are off by {made.difference:.2g} and its scores by {scores:.2g}, so "
            f"{made.folder} is left as it was: report a fault"
        )


def _copy(folder: Path, target: Path) -> None:
    for pattern in _SIDE_FILES:
        for file in folder.glob(pattern):
            name = file.relative_to(folder)
            with disk_errors(target / name):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(inside(folder, str(name)), target / name)


@torch.inference_mode()
def compare(model: Model, written: Model | OnnxEncoder) -> tuple[float, float, float | None, tuple[int, ...]]:
    """How far a copy of a network is from it, on random sequences: as in `Conversion`.

    The network takes them packed; a copy that takes a padded grid is so checked with padding.
    """
    config = model.config
    lengths = tuple(sorted({min(length, config.positions) for length in _LENGTHS}))
    random = np.random.default_rng(0)
    packed = pack([random.integers(0, config.vocab_size, length) for length in lengths], torch.device("cpu"))
    (truth, scores), (copy, copied) = (_outputs(network, packed, model) for network in (model, written))
    counts = torch.tensor(lengths)
    ours, theirs = (pool_rows(rows, counts, "mean") for rows in (truth, copy))
    cosine = float(torch.cosine_similarity(ours, theirs).mean())
    off = None if scores is None or copied is None else float((scores - copied).abs().max())
    return float((truth - copy).abs().max()), cosine, off, lengths


def _outputs(network: Model | OnnxEncoder, packed: Pack, model: Model) -> tuple[Tensor, Tensor | None]:
    """Hidden states, and the scores of the model's head if it has one."""
    head = exported_head(model)
    if isinstance(network, OnnxEncoder):
        return network(*packed.inputs), None if head is None else network.run("logits", *packed.inputs)
    hidden = network.encoder(*packed.inputs)
    if head is None:
        return hidden, None
    if head == "classify":
        return hidden, network.classify(hidden, packed.cu_seqlens)
    return hidden, getattr(network, head)(hidden)
