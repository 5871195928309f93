"""Trained folder to scores: suites, intervals, comparisons."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.evaluation.results import Result, differences
    from unmask.evaluation.run import evaluate
    from unmask.evaluation.suites import suite_names

__all__ = ["Result", "differences", "evaluate", "suite_names"]

_HOMES = {"evaluate": "run", "suite_names": "suites"}


def __getattr__(name: str) -> Any:
    """Public names are looked up when first used, so that suites are found without torch."""
    if name not in __all__:
        raise AttributeError(f"module 'unmask.evaluation' has no attribute {name!r}")
    return getattr(import_module(f"unmask.evaluation.{_HOMES.get(name, 'results')}"), name)
