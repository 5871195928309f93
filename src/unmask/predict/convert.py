"""`convert`: a model folder in another form, checked against the network it was made from."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from unmask.checkpoint import CONFIG, inside, load_model, read_values, save_model
from unmask.errors import ConfigError, ModelError, OutputError
from unmask.files import disk_errors, write_json
from unmask.model.encoder import Encoder
from unmask.model.network import Model
from unmask.model.weights import LoadReport
from unmask.predict.batching import pack
from unmask.predict.export import write_onnx
from unmask.predict.loading import find_folder
from unmask.predict.onnx import ONNX_FILE, OnnxEncoder
from unmask.predict.predictor import pool_rows
from unmask.progress import SILENT, Progress
from unmask.tokenizer import Tokenizer

_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_SIDE_FILES = (
    "README.md",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "*_Pooling/config.json",
)
_TOLERANCE = 1e-4
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
) -> tuple[Conversion, LoadReport]:
    """Write a model folder as safetensors (`hf`) or ONNX (`onnx`, in eight bits if asked) and compare."""
    folder, target = find_folder(source), Path(target)
    if to not in ("hf", "onnx"):
        raise ConfigError(f"there is no form {to!r}; those we have: hf, onnx")
    if int8 and to == "hf":
        raise ConfigError(
            "int8 goes with --to onnx; in Python, load(folder, dtype='int8') needs no conversion"
        )
    if target.resolve() == folder.resolve():
        raise OutputError(f"{target} is the folder to convert: name another one to write to")
    model, report = load_model(folder, allow_pickle=allow_pickle)
    has_tokenizer = any(next(folder.glob(pattern), None) for pattern in _TOKENIZER_FILES)
    tokenizer = Tokenizer.load(folder, progress) if has_tokenizer else None
    progress.say(f"{folder} -> {target} ({to}{', int8' if int8 else ''})")
    if to == "hf":
        save_model(model, target, tokenizer)
        _copy(folder, target)
        written: Encoder | OnnxEncoder = load_model(target)[0].encoder
    else:
        _write_onnx_folder(folder, target, model, tokenizer, int8)
        written = OnnxEncoder(target / ONNX_FILE)
    difference, cosine, lengths = compare(model, written)
    if difference > _TOLERANCE and not int8:
        raise ModelError(
            f"{target}: its vectors are off by {difference:.2g}; do not use it, and report a fault"
        )
    return Conversion(str(target), to, difference, cosine, lengths, has_tokenizer), report


def _write_onnx_folder(
    folder: Path, target: Path, model: Model, tokenizer: Tokenizer | None, int8: bool
) -> None:
    if target.is_dir() and any(target.iterdir()) and not (target / ONNX_FILE).exists():
        raise OutputError(f"{target} holds other files and no ONNX model; choose another folder")
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        (target / ONNX_FILE).unlink(missing_ok=True)
    write_json(target / CONFIG, read_values(folder))
    if tokenizer is not None:
        tokenizer.save(target)
    _copy(folder, target)
    write_onnx(model, target / ONNX_FILE, int8)


def _copy(folder: Path, target: Path) -> None:
    for pattern in _SIDE_FILES:
        for file in folder.glob(pattern):
            name = file.relative_to(folder)
            with disk_errors(target / name):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(inside(folder, str(name)), target / name)


@torch.inference_mode()
def compare(model: Model, written: Encoder | OnnxEncoder) -> tuple[float, float, tuple[int, ...]]:
    """Largest difference and mean cosine between a network and its copy, on random sequences.

    The network takes them packed; a copy that takes a padded grid is so checked with padding.
    """
    config = model.config
    lengths = tuple(sorted({min(length, config.positions) for length in _LENGTHS}))
    random = np.random.default_rng(0)
    sequences = [random.integers(0, config.vocab_size, length) for length in lengths]
    packed = pack(sequences, torch.device("cpu"))
    truth, answer = (
        encoder(packed.ids, packed.positions, packed.cu_seqlens, packed.max_seqlen)
        for encoder in (model.encoder, written)
    )
    counts = torch.tensor(lengths)
    ours, theirs = (pool_rows(rows, counts, "mean") for rows in (truth, answer))
    return float((truth - answer).abs().max()), float(torch.cosine_similarity(ours, theirs).mean()), lengths
