"""How a sentence-transformers folder turns token vectors into its published sentence vectors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unmask.checkpoint import inside, read_json
from unmask.errors import ModelError
from unmask.files import write_json
from unmask.target import CONFIG

Pool = Literal["mean", "cls", "max", "first"]
_OLD_NAMES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}


@dataclass(frozen=True)
class SentenceSettings:
    """What `embed` does unless told otherwise."""

    pool: Pool = "mean"
    normalise: bool = False
    max_length: int | None = None
    """Longer texts are cut off, as published; None: they are an error."""
    prompt: str = ""
    """Put before every text."""
    lower: bool = False
    """Texts are read in lower case, whatever the tokenizer does."""

    def prepared(self, text: str) -> str:
        """The text that the model reads."""
        text = self.prompt + text
        return text.lower() if self.lower else text


def read_sentence_settings(folder: Path) -> SentenceSettings:
    """The folder's own settings, or the defaults if it is no sentence-transformers folder."""
    if not (folder / "modules.json").exists():
        return SentenceSettings()
    pool: Pool = "mean"
    normalise, pools_prompt = False, True
    for module in read_json(folder, "modules.json", list):
        if not isinstance(module, dict):
            raise ModelError(f"{folder / 'modules.json'} should hold one object per layer")
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind == "Pooling":
            name = str(Path(str(module.get("path", ""))) / CONFIG)
            pool = _pooling(folder, name)
            pools_prompt = _settings(folder, name).get("include_prompt") is not False
        elif kind == "Normalize":
            normalise = True
        elif kind != "Transformer":
            raise ModelError(f"{folder / 'modules.json'} asks for a {kind} layer, which unmask does not have")
    settings = _settings(folder, "sentence_bert_config.json")
    length = settings.get("max_seq_length")
    limit = length if isinstance(length, int) and length > 2 else None
    lower = settings.get("do_lower_case") is True
    prompt = _default_prompt(folder)
    if prompt and not pools_prompt:
        raise ModelError(
            f"{folder} leaves its prompt out of the mean (include_prompt), which unmask does not"
        )
    return SentenceSettings(pool, normalise, limit, prompt, lower)


def write_sentence_settings(folder: Path, settings: SentenceSettings, width: int) -> None:
    """The modules with which sentence-transformers makes the same vectors of the folder's model."""
    kinds = {"Transformer": "", "Pooling": "1_Pooling"}
    if settings.normalise:
        kinds["Normalize"] = "2_Normalize"
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(kinds.items())
    ]
    write_json(folder / "modules.json", modules)
    pooling = {name: mode == settings.pool for name, mode in _OLD_NAMES.items()}
    write_json(folder / "1_Pooling" / CONFIG, {"word_embedding_dimension": width} | pooling)
    lengths = {"max_seq_length": settings.max_length, "do_lower_case": settings.lower}
    write_json(folder / "sentence_bert_config.json", lengths)


def _default_prompt(folder: Path) -> str:
    """What stands before every text unless another prompt is asked for."""
    settings = _settings(folder, "config_sentence_transformers.json")
    name, prompts = settings.get("default_prompt_name"), settings.get("prompts")
    if name is None:
        return ""
    if not isinstance(prompts, dict) or not isinstance(prompts.get(name), str):
        raise ModelError(f"{folder}: config_sentence_transformers.json has no prompt {name!r}, its default")
    return str(prompts[name])


def _pooling(folder: Path, name: str) -> Pool:
    values = _settings(folder, name)
    asked = [mode for key, mode in _OLD_NAMES.items() if values.get(key)]
    asked += [
        key for key in values if key.startswith("pooling_mode_") and key not in _OLD_NAMES and values[key]
    ]
    mode = values.get("pooling_mode", asked[0] if len(asked) == 1 else asked or "mean")
    if mode not in ("mean", "cls", "max"):
        raise ModelError(f"{folder / name} asks for {mode} pooling; unmask has mean, cls and max")
    return mode  # type: ignore[no-any-return]


def _settings(folder: Path, name: str) -> dict[str, Any]:
    """The contents of a file that may be missing."""
    values: dict[str, Any] = read_json(folder, name) if inside(folder, name).exists() else {}
    return values
