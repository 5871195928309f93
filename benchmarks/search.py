"""Ranks ideas for a recipe by short runs: trained on the same shards, scored on BLiMP, a line each.

An idea is a name and what it changes; `recipe` and `data` may be among that. Several run side by side, so
their seconds mean nothing. `LOG.md` is made of such lines.

    python benchmarks/search.py --data shards --steps 1000 --beside 4 \\
        "base" "seed 1: seed=1" "dropout: model.dropout=0.1 train.weight_decay=0.1" "bpe: data=shards-bpe"
"""

import os
import subprocess
from argparse import ArgumentParser, Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import train_and_score, trained_and_scored

BUDGETS = {"train.steps", "train.epochs", "train.seconds"}


def run(idea: str, options: Namespace) -> str:
    """Train and score one idea; its line of the table."""
    name, _, rest = idea.partition(":")
    changes = dict(change.split("=", 1) for change in rest.split())
    place = options.out / name.strip().replace(" ", "-").replace("/", "-")
    recipe, data = changes.pop("recipe", options.recipe), changes.pop("data", str(options.data))
    if not BUDGETS & changes.keys():
        changes["train.steps"] = str(options.steps)
    settings = [f"--set={key}={value}" for key, value in changes.items()]
    try:
        train_and_score(place, [recipe, "--data", data, *settings])
    except subprocess.CalledProcessError as error:
        return f"| {name} | | | failed with status {error.returncode}, see {place.name}/log.txt |"
    found = trained_and_scored(place)
    assert found
    train, valid, blimp = found
    return f"| {name} | {train['tokens'] / 1e6:.1f} M | {valid['loss']:.3f} | {100 * blimp.value:.2f} |"


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ideas", nargs="+", metavar="NAME[: KEY=VALUE …]")
    parser.add_argument("--data", type=Path, required=True, help="shards that `unmask prepare` made")
    parser.add_argument("--recipe", default="record-small")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--beside", type=int, default=1, help="ideas that run at the same time")
    parser.add_argument("--out", "-o", type=Path, default=Path("demo-out/search"), help="where runs are kept")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // options.beside)))
    print("| run | tokens | validation loss | BLiMP |\n| --- | --- | --- | --- |", flush=True)
    with ThreadPoolExecutor(options.beside) as pool:
        for line in pool.map(lambda idea: run(idea, options), options.ideas):
            print(line, flush=True)


if __name__ == "__main__":
    main()
