"""`load`: a folder, a bundled model, or one in the local Hugging Face cache, ready to answer; no network."""

from pathlib import Path

import torch

from unmask.checkpoint import ONNX_FILE, WEIGHTS, inside, load_model, own_facts, read_values
from unmask.errors import ConfigError, ModelError
from unmask.model.published import read_config
from unmask.model.weights import LoadReport
from unmask.predict.answer import Answerer
from unmask.predict.classify import Classifier
from unmask.predict.folders import find_folder
from unmask.predict.masked import MaskedLM
from unmask.predict.memory import keep_freed_memory
from unmask.predict.onnx import OnnxModel
from unmask.predict.predictor import Predictor
from unmask.predict.quantise import quantise
from unmask.predict.sentence import read_sentence_settings
from unmask.predict.settings import read_task_settings
from unmask.predict.tag import Tagger
from unmask.predict.tasks import TaskModel
from unmask.tokenizer import Tokenizer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_TASKS: dict[str, type[TaskModel]] = {"classify": Classifier, "tag": Tagger, "answer": Answerer}


def load(
    name: str | Path,
    device: str = "auto",
    dtype: str = "auto",
    tokenizer: Tokenizer | Path | str | None = None,
) -> Predictor:
    """The model in a folder: a `MaskedLM`, or a `Classifier`, `Tagger` or `Answerer` if it holds such a head.

    `name` is a folder, the name of a bundled model or of one in the local Hugging Face cache. `dtype` is
    float32, bfloat16, float16, int8 (CPU) or auto: bfloat16 on CUDA, float32 elsewhere, however stored.
    """
    folder = find_folder(name)
    place = choose_device(device)
    if dtype not in ("auto", "int8", *DTYPES):
        raise ConfigError(f"there is no dtype {dtype!r}; those we have: auto, int8, {', '.join(DTYPES)}")
    if dtype == "int8" and place.type != "cpu":
        raise ConfigError("int8 runs on the CPU: ask for device cpu, or for another dtype")
    if place.type == "cpu":
        keep_freed_memory()
    model: object
    if (folder / ONNX_FILE).exists() and not (folder / WEIGHTS).exists():
        model, report = OnnxModel(read_config(read_values(folder)), inside(folder, ONNX_FILE)), LoadReport()
        kind: type[Predictor] = MaskedLM
    else:
        wanted = DTYPES.get(
            dtype, torch.bfloat16 if dtype == "auto" and place.type == "cuda" else torch.float32
        )
        model, report = load_model(folder, wanted)
        if dtype == "int8":
            quantise(model.encoder)
        model.to(place)
        kind = _TASKS[model.task] if model.task else MaskedLM
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = Tokenizer.load(folder if tokenizer is None else tokenizer)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise ModelError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size:,} entries, "
            f"but the model only {model.config.vocab_size:,}: they do not belong together"
        )
    sentence = read_sentence_settings(folder)
    if issubclass(kind, TaskModel):
        made: Predictor = kind(model, tokenizer, report, sentence, read_task_settings(read_values(folder)))
    else:
        made = kind(model, tokenizer, report, sentence)
    if isinstance(made, MaskedLM):
        made.hybrid = own_facts(read_values(folder)).get("hybrid") is True
    made.folder = folder
    return made


def choose_device(name: str) -> torch.device:
    """The device asked for; auto: CUDA, then MPS, then the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        line = str(error).splitlines()[0]
        raise ConfigError(f"device {name!r} cannot be used here: {line}") from None
    return device
