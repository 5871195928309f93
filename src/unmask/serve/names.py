"""Names of models and their folders. Loads nothing heavy: a wrong path is told at once."""

import re
from collections.abc import Sequence
from pathlib import Path

from unmask.errors import ConfigError
from unmask.predict.folders import find_folder


def named_folders(folders: Sequence[str]) -> dict[str, str]:
    """`FOLDER` or `name=FOLDER` -> names and folders; wrong ones are told before anything is loaded."""
    found: dict[str, str] = {}
    for given in folders:
        name, equals, folder = given.partition("=")
        if not equals or Path(given).exists():
            path = Path(given).resolve()
            name, folder = (path.parent.name if path.name == "model" else path.name), given
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
