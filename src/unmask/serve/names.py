"""Names of models, their folders and standardisers. Loads nothing heavy: a wrong path is told at once."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from unmask.errors import ConfigError
from unmask.predict.folders import find_folder, model_name
from unmask.predict.standardise import Standardiser


def named_folders(folders: Sequence[str]) -> dict[str, str]:
    """`FOLDER` or `name=FOLDER` -> names and folders; wrong ones are told before anything is loaded."""
    found: dict[str, str] = {}
    for given in folders:
        name, equals, folder = given.partition("=")
        if not equals or Path(given).exists():
            name, folder = model_name(Path(given).resolve()), given
        if not re.fullmatch(r"[\w.-]+", name):
            raise ConfigError(
                f"{name!r} is no name for a model: say name=FOLDER, with letters, digits, _ . -"
            )
        if name in found:
            raise ConfigError(f"two models are called {name}: say name=FOLDER")
        find_folder(folder)
        found[name] = folder
    if not found:
        raise ConfigError("name the folder of at least one model")
    return found


def named_standardisers(files: Sequence[str], models: Collection[str]) -> dict[str, list[Standardiser]]:
    """`FILE`, where there is one model, or `name=FILE` -> the standardisers of each model."""
    found: dict[str, list[Standardiser]] = {name: [] for name in models}
    for given in files:
        name, equals, file = given.partition("=")
        if not equals or Path(given).exists():
            if len(models) > 1:
                raise ConfigError(
                    f"--standardise {given}: of which model? Say name=FILE, as in {min(models)}={given}"
                )
            (name,), file = models, given
        if name not in found:
            raise ConfigError(
                f"--standardise {given}: no model is called {name}; those loaded: {', '.join(models)}"
            )
        found[name].append(Standardiser.load(file))
    return found
