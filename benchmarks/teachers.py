"""Little text, read many times: a model that learns from models trained before it, against those alone.

All have one size, one text and as many steps. To be taught costs the training of the teacher, and its way
forward in every step: so there is also a single model that had as much arithmetic as both together.

    python benchmarks/teachers.py
"""

import statistics
import subprocess
from pathlib import Path

from common import arguments, table, unmask, unpack, write_result

RECIPE = "tiny-docs"
TEXT = "en/wikinews"
BOTH = 2 + 1 / 3
"""Arithmetic of a teacher and its pupil, as a share of one alone: forward is a third of a step."""


def quietly(*words: object) -> None:
    """Run a command of ours without what it prints."""
    unmask(*words, "--quiet", stdout=subprocess.DEVNULL)


def prepared(scratch: Path, limit_mb: float) -> Path:
    """Shards of the text in a vocabulary of its own; made once, so that runs that were stopped go on."""
    vocab, shards = scratch / "vocab", scratch / "shards"
    if not shards.exists():
        (text,) = unpack([TEXT], scratch / "text", limit_mb)
        quietly("tokenizer", text, "--recipe", RECIPE, "-o", vocab, "--overwrite")
        quietly("prepare", text, "--tokenizer", vocab, "-o", shards, "--set", "prepare.valid=0.1")
    return shards


def main() -> None:
    from unmask.runs import read_metrics

    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.set_defaults(limit_mb=1.0)
    options = parser.parse_args()
    scratch = options.scratch / f"teachers-{options.limit_mb:g}-{options.epochs}"
    shards = prepared(scratch, options.limit_mb)
    rows: list[list[str]] = []

    def run(name: str, seed: int, epochs: float, *teachers: Path) -> Path:
        """Train, and say where the model is."""
        place = scratch / name.replace(" ", "-").replace(",", "")
        settings = [f"--set=train.epochs={epochs}", f"--set=seed={seed}"]
        taught = [f"--teacher={teacher}" for teacher in teachers]
        quietly("pretrain", RECIPE, "--data", shards, "-o", place, "--resume", *settings, *taught)
        records = list(read_metrics(place))
        train = [each for each in records if each["split"] == "train"]
        valid = [each for each in records if each["split"] == "valid"]
        best = min(each["loss"] for each in valid)
        last = statistics.fmean(each["parts"]["mlm"] for each in train[-100:])
        figures = [f"{value:.3f}" for value in (last, valid[-1]["loss"], best)]
        right = f"{valid[-1]['accuracy']['mlm']:.1%}"
        rows.append([name, str(seed), f"{epochs:.0f}", *figures, right])
        return place / "model"

    first = run("alone", 1, options.epochs)
    second = run("alone, again", 2, options.epochs)
    run("alone, a third time", 3, options.epochs)
    run("taught by the first", 3, options.epochs, first)
    run("taught by the first and the second", 3, options.epochs, first, second)
    run("alone, with the arithmetic of the first and what it taught", 3, round(options.epochs * BOTH))
    head = ["run", "seed", "epochs", "training loss", "validation loss", "lowest", "right"]
    body = (
        f"`{RECIPE}` on {options.limit_mb:g} MB of Wikinews. Teachers have read the same training text and"
        " nothing else. Losses are of hidden tokens alone, in training over the last 100 steps; `lowest` is"
        " the best validation of a run, `right` the share of hidden validation tokens at its end.\n\n"
    )
    body += table(head, rows)
    write_result("teachers", "Learning from a teacher with little text", body, ["torch", "tokenizers"])


if __name__ == "__main__":
    main()
