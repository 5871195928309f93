"""Where a model folder is. Loads nothing heavy: a wrong path is told at once."""

import difflib
import os
import re
from pathlib import Path

from unmask.errors import ConfigError, ModelError
from unmask.files import digest, file_digest
from unmask.target import CONFIG, WEIGHTS, bundled, check_target

FORMS = ("hf", "bfloat16", "onnx")
_CARD = 1 << 14  # characters of a card that its header lies in
_HEADER = re.compile(r"---\n(.*?)\n---\n", re.DOTALL)
_LANGUAGES = re.compile(r"^language: *([\w-]*)((?:\n- *[\w-]+)*)$", re.MULTILINE)
_IDENTITY = (CONFIG, "tokenizer.json", "vocab.*", *WEIGHTS, "unmask_heads.safetensors")


def find_folder(name: str | Path) -> Path:
    """A folder that exists, else a bundled model, else the newest stored one in the Hugging Face cache."""
    try:
        path = Path(name)
    except TypeError:
        raise ModelError(f"{repr(name)[:40]} is no model: give its folder or its name") from None
    if path.is_file():
        meant = path.parent if (path.parent / CONFIG).exists() else "the folder of a model"
        raise ModelError(f"{path} is a file: name {meant}")
    if path.exists():
        if not (path / CONFIG).exists():
            if (path / "model" / CONFIG).exists():
                raise ModelError(f"{path} is the folder of a run; its model is in {path / 'model'}")
            _check_finished(path)
        return path
    if known := _known(str(name)):
        return known
    if path.name == "model":
        _check_finished(path.parent)
    raise ModelError(
        f"no model folder at {name}, and none of that name in {cache_folder()}; unmask never downloads"
        + _bundled_hint(path.name)
    )


def _check_finished(run: Path) -> None:
    if (run / "checkpoints").is_dir():
        best = f"; {run / 'best'} is its best so far" if (run / "best").is_dir() else ""
        raise ModelError(f"{run} is not finished: unmask pretrain … --resume goes on with it{best}")


def find_tokenizer(name: str | Path) -> Path:
    """Where a tokenizer may be: a path that exists, else a model known by name, else the path as given."""
    path = Path(name)
    return path if path.exists() else _known(str(name)) or path


def bundled_names() -> list[str]:
    """The names of the models that come with the package."""
    return list(bundled())


def model_name(folder: Path) -> str:
    """What to call a model: its folder's name; of `run/model` the run's, in a cache the published one."""
    above = folder.parent
    if above.name == "snapshots":
        return above.parent.name.rpartition("--")[2]
    return above.name if folder.name == "model" and above.name not in ("", "..") else folder.name


def card_language(folder: Path) -> str | None:
    """The language that a model's card names, if it is one alone."""
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            head = _HEADER.match(file.read(_CARD))
    except OSError:
        return None
    found = _LANGUAGES.search(head[1]) if head else None
    names = [name for name in (found[1], *re.split(r"\n- *", found[2])) if name] if found else []
    return names[0] if len(names) == 1 else None


def model_fingerprint(folder: Path) -> str:
    """The same for the same settings, weights and vocabulary, whatever else lies in the folder."""
    files = [path for pattern in _IDENTITY for path in sorted(folder.glob(pattern))]
    return digest(*(file_digest(path) for path in files if path.is_file()))


def cache_folder() -> Path:
    """Where Hugging Face libraries keep what they downloaded."""
    if place := os.environ.get("HF_HUB_CACHE"):
        return Path(place)
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(home).expanduser() / "hub"


def check_conversion(source: str | Path, target: str | Path, to: str, int8: bool, overwrite: bool) -> Path:
    """The folder to convert, if it can be written to `target` in that form."""
    folder = find_folder(source)
    if to not in FORMS:
        raise ConfigError(f"there is no form {to!r}; those we have: {', '.join(FORMS)}")
    if int8 and to != "onnx":
        raise ConfigError(
            "int8 goes with --to onnx; in Python, load(folder, dtype='int8') needs no conversion"
        )
    check_target(Path(target), overwrite, [folder])
    return folder


def _bundled_hint(name: str) -> str:
    names = bundled_names()
    close = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"; bundled models: {', '.join(names)}{meant}" if names else ""


def _known(name: str) -> Path | None:
    """The folder of a bundled model, else of a stored one."""
    return bundled().get(name) or _cached(name)


def _cached(name: str) -> Path | None:
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) or ".." in name:
        return None
    folder = cache_folder() / f"models--{name.replace('/', '--')}"
    try:
        commit = (folder / "refs" / "main").read_text("utf-8").strip()
    except OSError:
        return None
    snapshot = folder / "snapshots" / commit
    return snapshot if re.fullmatch(r"\w+", commit) and snapshot.is_dir() else None
