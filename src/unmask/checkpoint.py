"""The model folder: what is on disk, read with suspicion and written whole or not at all.

config.json · model.safetensors (or shards with an index) · unmask_heads.safetensors (heads that the published
layout has no place for) · tokenizer.json · tokenizer_config.json · README.md
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from unmask import __version__
from unmask.config import ModelConfig
from unmask.errors import ModelError
from unmask.files import atomic_path, safetensors_errors, write_atomic, write_json
from unmask.model.network import Model
from unmask.model.published import read_config, write_config
from unmask.model.weights import LoadReport, assemble, disassemble
from unmask.progress import counted
from unmask.target import CONFIG, whole_folder

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
OWN_WEIGHTS = "unmask_heads.safetensors"
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"
ONNX_FILE = "model.onnx"
_STORED = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""What safetensors calls the numbers that weights may be."""


class SavesItself(Protocol):
    """What `save_model` needs of a tokenizer."""

    def save(self, folder: Path) -> None: ...


def load_model(
    folder: Path | str,
    dtype: torch.dtype = torch.float32,
    heads: Iterable[str] | None = None,
    changes: Mapping[str, Any] | None = None,
    allow_pickle: bool = False,
) -> tuple[Model, LoadReport]:
    """The model in a folder, and what did not fit.

    With the heads it holds, or those asked for; `changes` to its settings, such as labels for a new head.
    """
    folder = Path(folder)
    values = read_values(folder)
    tensors = _read_weights(folder, allow_pickle)
    own = _read_safetensors(folder, OWN_WEIGHTS) if (folder / OWN_WEIGHTS).exists() else {}
    try:
        config = ModelConfig(**read_config(values).model_dump() | dict(changes or {}))
        return assemble(config, values, tensors, own, dtype, heads)
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from None


def save_model(
    model: Model,
    folder: Path | str,
    tokenizer: SavesItself | None = None,
    card: str | None = None,
    facts: Mapping[str, Any] | None = None,
    also: Callable[[Path], None] | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    overwrite: bool = True,
) -> None:
    """Write a folder that unmask, transformers and sentence-transformers open, whole or not at all.

    `facts` are kept under `unmask` in its config.json; `also` may write more files before all is in place.
    `dtype` is of the stored weights; config.json says float32 all the same, for that is what to compute in.
    """
    with whole_folder(Path(folder), overwrite) as unfinished:
        write_model(model, unfinished, tokenizer, facts, dtype)
        if card is not None:
            write_atomic(unfinished / "README.md", card)
        if also is not None:
            also(unfinished)


def write_model(
    model: Model,
    folder: Path,
    tokenizer: SavesItself | None,
    facts: Mapping[str, Any] | None,
    dtype: torch.dtype,
) -> None:
    """Write the files of a model into a folder, as `save_model` does."""
    architecture, tensors, own = disassemble(model)
    values = write_config(model.config, architecture)
    values["unmask"] = {"version": __version__, "heads": list(model.heads)} | dict(facts or {})
    write_json(folder / CONFIG, values)
    _write_safetensors(tensors, folder / WEIGHTS, dtype)
    if own:
        _write_safetensors(own, folder / OWN_WEIGHTS, dtype)
    if tokenizer is not None:
        tokenizer.save(folder)


def read_values(folder: Path) -> dict[str, Any]:
    """The contents of a folder's config.json."""
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}")
    values: dict[str, Any] = read_json(folder, CONFIG)
    return values


def stored_types(folder: Path) -> list[str]:
    """In what numbers a folder's weights are stored, whatever they are computed in."""
    whole = (folder / WEIGHTS).exists()
    files = {WEIGHTS} if whole else set(read_json(folder, INDEX)["weight_map"].values())
    found = set()
    for each in files:
        with safe_open(inside(folder, each), "pt") as file:
            found |= {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118  it is no mapping
    return sorted(_STORED[name] for name in found & _STORED.keys())


def own_facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """The `facts` that a folder was saved with, from the contents of its config.json."""
    own = values.get("unmask")
    kept = own if isinstance(own, Mapping) else {}
    return {key: value for key, value in kept.items() if key not in ("version", "heads")}


def read_json(folder: Path, name: str, kind: type = dict) -> Any:
    """The contents of a folder's file: an object, or a list if `kind` says so."""
    path = inside(folder, name)
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{folder} has no {name}: it is not a model folder, or its copy is incomplete"
        ) from None
    except (ValueError, RecursionError, OSError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(values, kind):
        wanted = "an object" if kind is dict else "a list"
        raise ModelError(f"{path} should hold {wanted}, not a {type(values).__name__}")
    return values


def inside(folder: Path, name: str) -> Path:
    """The path of a folder's file; an error if it leads out of the folder."""
    root = folder.resolve()
    if root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--"):
        root = root.parent.parent  # the Hugging Face cache keeps the files beside its snapshots
    path = folder / name
    try:
        if path.resolve().is_relative_to(root):
            return path
    except (ValueError, RuntimeError) as error:  # a name that no file can have, or links in a circle
        raise ModelError(f"{folder} names a file {name!r}: {error}") from None
    raise ModelError(f"{path} leads out of its folder; copy the file into it if you trust it")


def _read_weights(folder: Path, allow_pickle: bool) -> dict[str, Tensor]:
    if (folder / WEIGHTS).exists():
        return _read_safetensors(folder, WEIGHTS)
    if (folder / INDEX).exists():
        return _read_shards(folder, INDEX, _read_safetensors)
    pickled = sorted(folder.glob("*.bin"))
    if pickled and not allow_pickle:
        raise ModelError(
            f"{folder} holds pickled weights ({pickled[0].name}), which may run code; if you trust them: "
            f"unmask convert {folder} DST --allow-pickle"
        )
    if (folder / PICKLE).exists():
        return _read_pickle(folder, PICKLE)
    if (folder / PICKLE_INDEX).exists():
        return _read_shards(folder, PICKLE_INDEX, _read_pickle)
    if (folder / ONNX_FILE).exists():
        raise ModelError(
            f"{folder} holds an ONNX model, which can be neither trained nor converted: "
            "name the folder it was converted from"
        )
    raise ModelError(f"{folder} has no {WEIGHTS}: it is not a model folder, or its copy is incomplete")


def _read_shards(
    folder: Path, index: str, read: Callable[[Path, str], dict[str, Tensor]]
) -> dict[str, Tensor]:
    placed = read_json(folder, index).get("weight_map")
    if not isinstance(placed, dict) or not all(isinstance(name, str) for name in placed.values()):
        raise ModelError(f"{folder / index} has no weight_map of names to files")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(placed.values())):
        tensors |= read(folder, shard)
    lost = sorted(set(placed) - set(tensors))
    if lost:
        raise ModelError(
            f"{folder}: the shards lack {counted(len(lost), 'weight')} that {index} names, such as {lost[0]}"
        )
    return tensors


def _read_safetensors(folder: Path, name: str) -> dict[str, Tensor]:
    path = inside(folder, name)
    try:
        return load_file(path)
    except FileNotFoundError:
        raise ModelError(f"{folder} has no {name}: its copy is incomplete") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(f"{path} is damaged or cut short: copy or download it again ({error})") from None


def _write_safetensors(tensors: Mapping[str, Tensor], path: Path, dtype: torch.dtype) -> None:
    copies = {name: tensor.to("cpu", dtype, copy=True) for name, tensor in tensors.items()}
    with atomic_path(path) as temporary, safetensors_errors(temporary):
        save_file(copies, temporary, metadata={"format": "pt"})


def _read_pickle(folder: Path, name: str) -> dict[str, Tensor]:
    """Tensors of an old checkpoint, through the unpickler that knows tensors only."""
    path = inside(folder, name)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ModelError(f"{folder} has no {name}: its copy is incomplete") from None
    except Exception as error:  # whatever a hostile or broken file makes the unpickler raise
        raise ModelError(
            f"{path} is damaged or holds more than tensors: {str(error).splitlines()[0]}"
        ) from None
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ModelError(f"{path} does not hold a table of tensors")
    return dict(state)
