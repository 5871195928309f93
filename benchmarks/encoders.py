"""Encoders fine-tuned and measured on eight tasks a language, by the suites of `unmask evaluate`.

Against the bundled model of the language: the same architecture with random weights, and for English MiniLM,
which had a teacher and a billion pairs. Every model, task and seed is a cell; finished ones are kept in the
scratch folder (one for each choice of sizes and settings) and not repeated, so that the work can be done in
slices; the page shows what is there. Cells are computed side by side, a process each: at these sizes that is
faster than all cores on one, and far faster where others use the machine. All tasks with one seed come before
the next seed. A cell that fails is tried once more, in a new process, and the others go on.

Models want different rates: of several, every model takes for every task the one with which the first seed
does best on the examples that also decide the epoch, never on those that are scored.

    python benchmarks/encoders.py en                          # mini-en, random, minilm; sizes for two cores
    python benchmarks/encoders.py en --examples 10000 --scored 2000 --batch 32 --jobs 8 --seconds 500  # a GPU
    python benchmarks/encoders.py en --examples 10000 --scored 2000 --batch 32 --seconds 0   # only the page
    python benchmarks/encoders.py pt --lr 2e-4,5e-4,1e-3
    python benchmarks/encoders.py pt --tasks assin2-rte,harem --seeds 1
    python benchmarks/encoders.py pt-more                     # further tasks, a page of their own
    python benchmarks/encoders.py en --model mini-en --model trainer=runs/hf     # NAME=FOLDER adds one
"""

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from common import arguments, data_root, minilm, table, write_result

TASKS = {
    "en": ["sst2", "cola", "mrpc", "rte", "stsb", "squad", "pos-en", "wnut17"],
    "pt": [
        "assin2-rte", "assin2-sts", "lener-br", "harem", "sentiment-repro", "sentiment-reli", "faquad",
        "pos-pt",
    ],
    "en-more": ["wsc", "mnli", "qqp", "wikiann-en"],
    "pt-more": [
        "assin-ptbr-rte", "assin-ptbr-sts", "assin-ptpt-rte", "assin-ptpt-sts", "wikiann-pt",
    ],
}  # fmt: skip
"""A page each."""
TITLES = {
    "en": "English encoders",
    "pt": "Portuguese encoders",
    "en-more": "English encoders, more tasks",
    "pt-more": "Portuguese encoders, more tasks",
}
ZERO_SHOT = {
    "en": ["mlm-en", "blimp", "blimp-supplement", "facts-en", "pararel", "wic"],
    "pt": ["mlm-pt", "minimal-pairs-pt", "facts-pt"],
    "en-more": [],
    "pt-more": [],
}
NO_HEAD = {"wic"}
"""What a model without a masked-LM head can do without training."""
RANDOM, MINILM = "random", "minilm"
EXAMPLES = {"sst2": 4000, "cola": 4000, "pos-en": 2500, "pos-pt": 2500, "mrpc": 1500, "rte": 1500}
QUESTIONS, OTHERS = 400, 2000
"""What is learned from, chosen so that a training of 8 million parameters takes a core about a minute."""
TIMES = {"faquad": 5, "mrpc": 2, "rte": 2, "sentiment-reli": 2, "wnut17": 2}
"""Where there is little to learn from, so many times the epochs."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_THREAD = threading.local()


class Cell(NamedTuple):
    """What is measured at a time."""

    name: str
    """Of the model."""
    folder: str
    """Or a name that `unmask.load` knows."""
    suite: str
    asked: str
    """The suite's file, or its name."""
    seed: int
    rate: float

    def place(self, options: argparse.Namespace) -> Path:
        """Where its result is."""
        return place(options, self.rate) / "cells" / self.name / self.suite / str(self.seed)


def rates(text: str) -> list[float]:
    """Numbers with commas between."""
    return [float(rate) for rate in text.split(",")]


def begin(threads: int) -> None:
    """What a process does first: it ends when this one is killed, and computes with so many threads."""
    import torch

    from unmask.processes import end_with_parent

    end_with_parent()
    torch.set_num_threads(threads)


def capped(name: str, options: argparse.Namespace, rate: float) -> Path:
    """The suite as a file, with this benchmark's sizes and settings."""
    import tomli_w

    from unmask.evaluation.suites import FOLDER, FinetuneSuite, read_suite

    suite = read_suite(FOLDER / f"{name}.toml")
    assert isinstance(suite, FinetuneSuite)
    chosen = {
        "lr": rate, "epochs": options.epochs * TIMES.get(name, 1), "batch": options.batch,
        "length": options.length, "patience": 0, "optimiser": options.optimiser,
    }  # fmt: skip
    examples = options.examples or (QUESTIONS if suite.task == "qa" else EXAMPLES.get(name, OTHERS))
    values = suite.model_dump(exclude_none=True, exclude={"own", "settings"})
    values |= {"examples": examples, "scored": options.scored, "settings": chosen}
    path = place(options, rate) / "suites" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomli_w.dumps(values), "utf-8")
    return path


def place(options: argparse.Namespace, rate: float) -> Path:
    """Where the results of these settings are."""
    sizes = f"{options.examples or 'some'}-{options.scored}-{options.length}-{options.batch}"
    how = f"{options.epochs}-{rate:g}" + ("-muon" if options.optimiser == "muon" else "")
    # Cells from before "unseen" may have learned from what they are scored on.
    return Path(options.scratch) / "encoders" / f"{options.page}-unseen-{sizes}-{how}"


def random_twin(like: str, folder: Path, seed: int) -> Path:
    """The architecture and the vocabulary of a model, with weights that nothing was learned in."""
    import torch

    from unmask.checkpoint import save_model
    from unmask.model.network import Model
    from unmask.predict import load

    if not (folder / "config.json").exists():
        model = load(like, "cpu")
        twin = Model(model.config, ["mlm"], torch.Generator().manual_seed(seed))
        save_model(twin, folder, model.tokenizer)
    return folder


def chosen_models(options: argparse.Namespace) -> dict[str, str]:
    """Names, and folders or names that `unmask.load` knows."""
    usual = [options.bundled, RANDOM, *([MINILM] if options.bundled == "mini-en" else [])]
    found = {}
    for given in options.model or usual:
        name, _, folder = given.partition("=")
        found[name] = folder or (str(minilm()) if name == MINILM else name)
    return found


def cells(options: argparse.Namespace, seed: int) -> Iterator[Cell]:
    """All suites and models with one seed: the first one with every rate, the others with the best."""
    wanted = options.tasks.split(",") if options.tasks else ZERO_SHOT[options.page] + TASKS[options.page]
    for suite in wanted:
        learned = suite in TASKS[options.page]
        if seed > 0 and not learned:
            continue
        for name, folder in chosen_models(options).items():
            if name == RANDOM:
                twin = place(options, options.lr[0]) / "random" / str(seed)
                folder = str(random_twin(options.like, twin, seed))
            best = best_rate(options, name, suite)
            for rate in options.lr if seed == 0 and learned else [] if best is None else [best]:
                asked = str(capped(suite, options, rate)) if learned else suite
                yield Cell(name, folder, suite, asked, seed, rate)


def tried_rates(options: argparse.Namespace, name: str, suite: str) -> dict[float, float]:
    """How a model did with each rate tried: the first seed, on the examples that decide the epoch."""
    from unmask.evaluation.finetuned import VALIDATION
    from unmask.evaluation.results import read

    found = {}
    for rate in options.lr:
        one = read(Cell(name, "", suite, "", 0, rate).place(options), suite)
        if one is not None and VALIDATION in one.details:
            found[rate] = one.details[VALIDATION]
    return found


def best_rate(options: argparse.Namespace, name: str, suite: str) -> float | None:
    """The best of the rates that were tried; None where none was."""
    if len(options.lr) == 1 or suite not in TASKS[options.page]:
        return float(options.lr[0])
    tried = tried_rates(options, name, suite)
    return max(tried, key=tried.__getitem__, default=None)


def measure(cell: Cell, out: Path) -> str:
    """One cell; `evaluate` keeps its result and does not repeat it."""
    from unmask.evaluation import evaluate
    from unmask.predict import load

    needs_head = cell.asked == cell.suite and cell.suite not in NO_HEAD
    if needs_head and "mlm" not in load(cell.folder, "cpu").model.heads:
        return "it has no head for that"
    start = time.perf_counter()
    (result,) = evaluate(cell.asked, cell.folder, out, data_root(), card=False, seed=cell.seed)
    return f"{result.main.value:.4f} ({time.perf_counter() - start:.0f} s)"


def attend(cell: Cell, options: argparse.Namespace) -> tuple[bool, str]:
    """Measure a cell in this thread's own process: whether it went well, and what there is to say.

    After a failure the process is replaced: one that lost its GPU would fail for good.
    """
    told = ""
    for _ in range(2):
        if time.monotonic() > options.until:
            return not told, told or "left for another time"
        if getattr(_THREAD, "pool", None) is None:
            threads = max(1, CORES // options.jobs)
            _THREAD.pool = ProcessPoolExecutor(1, get_context("spawn"), begin, (threads,))
        try:
            return True, _THREAD.pool.submit(measure, cell, cell.place(options)).result()
        except Exception as error:
            told = f"failed, {type(error).__name__}: {error}"
            _THREAD.pool.shutdown(wait=False)
            _THREAD.pool = None
    return False, told


def results(options: argparse.Namespace, models: list[str], suite: str) -> list[list[Any]]:
    """What is there of a suite: for each model a result per seed."""
    from unmask.evaluation.results import read

    found = []
    for name in models:
        rate = best_rate(options, name, suite)
        paths = [] if rate is None else Cell(name, "", suite, "", 0, rate).place(options).parent.glob("*")
        found.append([one for path in sorted(paths) if (one := read(path, suite))])
    return found


def shown(found: list[Any], seeds: int) -> str:
    """The mean over the seeds, and how far they lie apart; of one seed the interval over the items."""
    if not found:
        return "—"
    values = [result.main.value for result in found]
    if len(values) > 1:
        fewer = f" ({len(values)} seeds)" if len(values) < seeds else ""
        return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}{fewer}"
    score = found[0].main
    return f"{score.value:.3f} ({score.low:.3f} to {score.high:.3f})"


def learned_table(options: argparse.Namespace, models: list[str]) -> str:
    """A row for each task, and the mean of those that every model has."""
    rows, means = [], []
    for suite in TASKS[options.page]:
        found = results(options, models, suite)
        first = next((one for seeds in found for one in seeds), None)
        if first is None:
            continue
        sizes = f"{first.details['learned from']:,} / {first.main.items:,}"
        rows.append((suite, first.measures[0].name, sizes, *(shown(one, options.seeds) for one in found)))
        if all(found):
            means.append([statistics.mean(one.main.value for one in seeds) for seeds in found])
    if len(means) > 1:
        mean = (f"{statistics.mean(column):.3f}" for column in zip(*means, strict=True))
        rows.append((f"mean of {len(means)}", "", "", *mean))
    return table(["task", "measure", "learned from / scored", *models], rows)


def rates_table(options: argparse.Namespace, models: list[str]) -> str:
    """Which rate each model took for each task; of how many, where not all were tried."""

    def told(name: str, suite: str) -> str:
        tried, best = tried_rates(options, name, suite), best_rate(options, name, suite)
        fewer = f" (of {len(tried)})" if len(tried) < len(options.lr) else ""
        return "—" if best is None else f"{best:g}{fewer}"

    rows = [(suite, *(told(name, suite) for name in models)) for suite in TASKS[options.page]]
    return table(["task", *models], rows)


def untrained_table(options: argparse.Namespace, models: list[str]) -> str:
    """A row for each suite that needs no training."""
    found = {suite: results(options, models, suite) for suite in ZERO_SHOT[options.page]}
    firsts = {suite: next((one for seeds in all_ for one in seeds), None) for suite, all_ in found.items()}
    rows = [
        (suite, first.measures[0].name, *(shown(one, 1) for one in found[suite]))
        for suite, first in firsts.items()
        if first
    ]
    return table(["suite", "measure", *models], rows)


def write(options: argparse.Namespace) -> None:
    """The page of what is there."""
    import torch

    found = {path.name for rate in options.lr for path in (place(options, rate) / "cells").glob("*")}
    models = sorted(found)
    models.sort(key=lambda name: (name == MINILM, name == RANDOM))  # ours first
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "the processor"
    more = ", ".join(
        f"{options.epochs * TIMES[suite]} of {suite}" for suite in TASKS[options.page] if suite in TIMES
    )
    several = len(options.lr) > 1
    also = " and, with the first seed, which rate is taken" if several else ""
    given = ("one of " if several else "") + ", ".join(f"{rate:g}" for rate in options.lr)
    chosen = f"\n\nThe rates chosen:\n\n{rates_table(options, models)}" if several else ""
    body = (
        f"Fine-tuned on {device}, seeds from 0, {options.epochs} epochs{f' ({more})' if more else ''},"
        f" {options.optimiser}, lr {given}, batches of {options.batch}, windows of {options.length}"
        " tokens, the same for every model; a tenth of the examples to learn from decides which epoch's"
        f" weights are scored{also}. At most {options.scored:,} are scored: of the development part, or of a"
        " tenth by hash of the text where there is none. Mean ± standard deviation over the seeds; of one"
        f" seed, the 95 % interval over the items.\n\n{learned_table(options, models)}{chosen}"
    )
    if ZERO_SHOT[options.page]:
        body += (
            "\n\nWithout training (of bits per byte, less is better; their text is held out from the bundled"
            " models; chance is 0.5 for pairs of sentences and for"
            f" wic):\n\n{untrained_table(options, models)}"
        )
    write_result(f"encoders-{options.page}", TITLES[options.page], body, ["torch", "tokenizers", "numpy"])


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("page", choices=sorted(TASKS))
    parser.add_argument(
        "--model", action="append", metavar="NAME[=FOLDER]", help="only these; may be repeated"
    )
    parser.add_argument("--tasks", help="only these suites, with commas between")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--like", help="the model whose architecture `random` has; by default the bundled one"
    )
    parser.add_argument("--examples", type=int, help="to learn from, at most; by default as in EXAMPLES")
    parser.add_argument("--scored", type=int, default=1000, help="to score on, at most")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument(
        "--lr", type=rates, default=[2e-4], help="one, or several to choose from, with commas between"
    )
    parser.add_argument("--optimiser", choices=["adamw", "muon"], default="adamw")
    parser.add_argument("--batch", type=int, default=16, help="examples of a step")
    parser.add_argument("--length", type=int, default=256, help="tokens of the longest window")
    parser.add_argument("--jobs", type=int, default=CORES, help="cells computed side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no cell after so many")
    options = parser.parse_args()
    options.until = time.monotonic() + options.seconds
    options.bundled = f"mini-{options.page.partition('-')[0]}"
    options.like = options.like or options.bundled
    count = failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for seed in range(options.seeds):
            started = {pool.submit(attend, cell, options): cell for cell in cells(options, seed)}
            try:
                for done in as_completed(started):
                    cell, (well, told) = started[done], done.result()
                    what = f"{cell.suite} {cell.name} {cell.seed} at {cell.rate:g}"
                    print(f"{what}: {told}", file=sys.stderr, flush=True)
                    failed += not well
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
                raise
            count += len(started)
            write(options)
    if failed:
        sys.exit(f"{failed} of {count} cells failed")


if __name__ == "__main__":
    main()
