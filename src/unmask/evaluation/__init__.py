"""Trained folder to scores: suites, intervals, comparisons."""

from unmask.evaluation.results import Result, differences
from unmask.evaluation.run import evaluate
from unmask.evaluation.suites import suite_names

__all__ = ["Result", "differences", "evaluate", "suite_names"]
