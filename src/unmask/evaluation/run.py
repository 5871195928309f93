"""`evaluate`: run suites on a model; finished ones are kept, so that an interrupted run goes on."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unmask import __version__
from unmask.checkpoint import read_values
from unmask.errors import InputError, OutputError
from unmask.evaluation import results
from unmask.evaluation.context import Context, Subject
from unmask.evaluation.contrast import contrast
from unmask.evaluation.facts import facts
from unmask.evaluation.finetuned import finetuned
from unmask.evaluation.mlm import mlm
from unmask.evaluation.pairs import bias, minimal_pairs
from unmask.evaluation.probe import probe
from unmask.evaluation.results import RESULTS, SAMPLE, Outcome, Result
from unmask.evaluation.show import update_card, write_report
from unmask.evaluation.suites import FinetuneSuite, Suite, data_folder, find_suites
from unmask.evaluation.wic import wic
from unmask.files import digest, write_json
from unmask.model.published import read_config
from unmask.predict.folders import find_folder, model_fingerprint
from unmask.progress import SILENT, Progress, counted
from unmask.target import is_bundled

KINDS: dict[str, Callable[[Context, Any], Outcome]] = {
    "mlm": mlm, "pairs": minimal_pairs, "bias": bias, "facts": facts, "wic": wic, "contrast": contrast,
    "probe": probe, "finetune": finetuned,
}  # fmt: skip


def evaluate(
    suites: str | Sequence[str],
    model: str | Path,
    out: str | Path,
    data: str | Path | None = None,
    card: bool = True,
    seed: int = 0,
    sample: int | None = None,
    progress: Progress = SILENT,
) -> list[Result]:
    """Score a model folder; results, items and a page go to `out`, the scores also into the folder's card.

    `suites` are names of ours (`unmask evaluate --list`), TOML files, or text files. Results that `out` holds
    already, of the same model, suite and data, are not computed again. `sample` items of each suite, by a
    hash of their text, are a quick look: the result says so, and the card is left as it is.
    """
    asked = [suites] if isinstance(suites, str) else list(suites)
    found = find_suites(asked, data_folder(None if data is None else Path(data)))
    folder, out = find_folder(model), Path(out)
    results.check_folder(out)
    files = {one.name: len(one.inputs()) for one in found}  # what is missing is told before any work
    fingerprint = model_fingerprint(folder)
    _check(out, folder, fingerprint)
    subject = Subject(folder, progress)
    done = []
    for one in found:
        context = Context(one, subject, out, seed, sample, progress)
        done.append(_run(context, fingerprint, one.material(seed, sample), files[one.name]))
        _finish(out, folder, fingerprint)
    if card and sample is None and Path(model).is_dir() and not is_bundled(folder):
        try:
            update_card(folder, done)
        except OutputError as error:  # a model that others share; `out` has the scores
            progress.say(f"{error}; the card stays as it was, and {out} has the scores")
    return done


def _run(context: Context, fingerprint: str, material: str, files: int) -> Result:
    found, progress = context.found, context.progress
    mark = digest(fingerprint, material, *_chosen(found.suite, context.subject.folder))
    before = results.read(context.out, found.name)
    if before is not None and before.fingerprint == mark:
        progress.say(f"{found.name}: done already")
        return before
    if before is not None and context.sample is not None:
        _check_larger(before, context)
    progress.say(f"{found.name}: reading {counted(files, 'file')} (the whole suite: {found.suite.about})")
    start = time.monotonic()
    try:
        outcome = KINDS[found.suite.kind](context, found.suite)
    except InputError as error:
        if context.sample is None:
            raise
        raise InputError(
            f"{error} (in a sample of {context.sample} of {found.name}: perhaps too few)"
        ) from error
    progress.say(f"{found.name}: {counted(len(outcome.items), 'item')} of {counted(files, 'file')}")
    with progress.stage("resampling"):
        scores, groups = results.summarise(outcome, context.seed)
    suite, details = found.suite, {"files": files, **outcome.details}
    if context.sample is not None:
        details[SAMPLE] = context.sample
    result = Result(
        found.name, suite.kind, suite.about, suite.source, suite.licence, mark, material,
        time.monotonic() - start, outcome.measures, scores, groups, details,
    )  # fmt: skip
    return results.save(context.out, result, outcome.items)


def _check_larger(before: Result, context: Context) -> None:
    """A result of more items is not lost to one of fewer."""
    out, name, sample = context.out, context.found.name, context.sample
    if SAMPLE not in before.details:
        raise OutputError(f"{out} holds {name} as a whole: name another folder for the results of a sample")
    if before.details[SAMPLE] > sample:
        raise OutputError(f"{out} holds more of {name} than a sample of {sample}: name another folder")


def _chosen(suite: Suite, folder: Path) -> list[str]:
    """What the model decides where the suite is silent: a result with another rate is another result."""
    if not isinstance(suite, FinetuneSuite):
        return []
    return [str(suite.settings.suited(read_config(read_values(folder))).lr)]


def _check(out: Path, folder: Path, fingerprint: str) -> None:
    """A folder of results belongs to one model, from the first suite that was finished there."""
    path = out / RESULTS
    if not path.is_file():
        return
    try:
        before = json.loads(path.read_text("utf-8"))
        other, name = before["suites"] and before["fingerprint"] != fingerprint, before["model"]
    except (ValueError, KeyError, TypeError):
        raise OutputError(f"{path} is damaged: remove it, or name another folder") from None
    if other:
        raise OutputError(
            f"{out} holds results of another model ({name}), or of {folder} before it was trained on:"
            " name another folder"
        )


def _finish(out: Path, folder: Path, fingerprint: str) -> None:
    """Write what all suites of the folder gave, for people and for programs."""
    found = [result for name in results.suites_in(out) if (result := results.read(out, name))]
    _write(out, folder, fingerprint, found)
    write_report(out / "report.html", str(folder), found)


def _write(out: Path, folder: Path, fingerprint: str, found: Sequence[Result]) -> None:
    suites = {
        result.suite: {name: asdict(score) for name, score in result.scores.items()} for result in found
    }
    values = {"model": str(folder), "fingerprint": fingerprint, "unmask": __version__, "suites": suites}
    write_json(out / RESULTS, values)
