"""Size against quality under one budget of arithmetic: models of 4 to 100 million parameters, one recipe.

Every model gets the same number of floating-point operations: those of its matrix products, forward and
backward, attention and head counted, nothing computed twice (`unmask.train.work`); so small ones see more
tokens. 6 × parameters × tokens is shown beside. Each is trained by `unmask pretrain` in a process of its own,
several at a time, and asked for BLiMP; one that fails does not stop the others; called again, it goes on.

    unmask prepare text/ -t vocab/ -o shards
    python benchmarks/sizes.py --data shards --budget 2e16 --jobs 3                              # a GPU
    python benchmarks/sizes.py --data shards --budget 2e10 --sizes 4,8 --batch 1024 --sample 20  # to try it
"""

import argparse
import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from common import RESULTS, arguments, table, train_and_score, trained_and_scored, write_result

LENGTH = 128
SIZES = {
    4: (192, 4),
    8: (256, 8),
    17: (384, 10),
    33: (512, 12),
    57: (640, 14),
    100: (768, 18),
}
"""Millions of parameters at a vocabulary of 12,288 -> width, layers."""


@dataclass(frozen=True)
class Job:
    """One size, and how long it may train."""

    million: int
    changes: dict[str, Any]
    per_token: float
    """Operations for each token of the text."""


def make_job(million: int, options: argparse.Namespace) -> Job:
    """The settings of a size, and the steps that fit the budget."""
    import torch

    from unmask.config import load_recipe
    from unmask.tokenizer import Tokenizer
    from unmask.train.work import operations

    width, layers = SIZES[million]
    sizes = {"width": width, "layers": layers, "heads": width // 64, "inner": width * 3 // 2}
    changes: dict[str, Any] = {f"model.{name}": value for name, value in sizes.items()}
    changes |= {"batch.length": LENGTH, "train.stages": "[]", "seed": options.seed}
    changes |= {"train.batch_tokens": options.batch, "train.micro_tokens": min(options.batch, 32768)}
    recipe = load_recipe(options.recipe, [f"{name}={value}" for name, value in changes.items()])
    vocabulary = Tokenizer.load(options.data / "tokenizer").vocab_size
    mask, sequences = recipe.batch.mask, 64
    ratio = mask.ratio if mask.ratio_end is None else (mask.ratio + mask.ratio_end) / 2
    hidden = round(ratio * sequences * LENGTH)
    batch = SimpleNamespace(
        ids=range(sequences * LENGTH),
        cu_seqlens=torch.arange(sequences + 1) * LENGTH,
        target_ids=range(hidden),
        causal=False,
    )
    config = recipe.model.model_copy(update={"vocab_size": vocabulary})
    per_token = operations(config, batch, hidden) / (sequences * LENGTH)  # type: ignore[arg-type]
    changes["train.steps"] = max(1, round(options.budget / per_token / options.batch))
    return Job(million, changes, per_token)


def folder(job: Job, options: argparse.Namespace) -> Path:
    """Where a size is trained and scored; other settings have another one."""
    recipe, sample = Path(options.recipe).stem, options.sample or "all"
    name = f"{recipe}-{options.budget:g}-{options.batch}-{job.million}-{options.seed}-{sample}"
    return options.scratch / "sizes" / name


def run(job: Job, options: argparse.Namespace) -> bool:
    """Train and score one size; whether that went well."""
    place = folder(job, options)
    settings = [f"--set={name}={value}" for name, value in job.changes.items()]
    sample = ["--sample", options.sample] if options.sample else []
    train = [options.recipe, "--data", options.data, *settings]
    try:
        train_and_score(place, train, *sample, cpu=options.device == "cpu")
    except subprocess.CalledProcessError:
        print(f"{job.million} M failed, see {place / 'log.txt'}", file=sys.stderr, flush=True)
        return False
    print(f"{job.million} M is done", file=sys.stderr, flush=True)
    return True


def facts(job: Job, options: argparse.Namespace) -> dict[str, Any] | None:
    """What a finished size came to."""
    place = folder(job, options)
    found = trained_and_scored(place)
    if found is None:
        return None
    last, valid, blimp = found
    plan = json.loads((place / "run" / "plan.json").read_text("utf-8"))
    return {
        "parameters": plan["parameters"], "epochs": plan["epochs"], "tokens": last["tokens"],
        "steps": last["step"], "loss": valid["loss"],
        "right": valid["accuracy"]["mlm"], "blimp": blimp,
    }  # fmt: skip


def write(jobs: list[Job], options: argparse.Namespace) -> None:
    """The page, and the curves, of what is done."""
    import torch

    from unmask.charts import lines, side_by_side

    found = [(job, values) for job in jobs if (values := facts(job, options))]
    rows = [
        (
            f"{values['parameters']:,}",
            "{} × {}".format(*SIZES[job.million]),
            f"{values['tokens']:,} ({values['epochs']:.1f} epochs)",
            f"{values['steps']:,}",
            f"{job.per_token * values['tokens']:.2e}",
            f"{6 * values['parameters'] * values['tokens']:.2e}",
            f"{values['loss']:.4f}",
            f"{values['right']:.1%}",
            f"{100 * values['blimp'].value:.1f} ({100 * values['blimp'].low:.1f}"
            f" to {100 * values['blimp'].high:.1f})",
        )
        for job, values in found
    ]
    head = [
        "parameters", "width × layers", "tokens", "steps", "operations", "6 N tokens", "validation loss",
        "hidden tokens right", "BLiMP, macro",
    ]  # fmt: skip
    at = [math.log2(values["parameters"]) for _, values in found]
    marks = {x: f"{2**x / 1e6:.0f} M" for x in at}
    losses, scores = ([values["loss"] for _, values in found], [values["blimp"].value for _, values in found])
    label = "parameters (logarithmic)"
    charts = [
        lines(
            "Validation loss", "nats per hidden token",
            {"loss": list(zip(at, losses, strict=True))}, label, marks=marks,
        ),
        lines(
            "BLiMP", "% of the pairs right, macro over 67 sets",
            {"BLiMP": [(x, 100 * score) for x, score in zip(at, scores, strict=True)]}, label, marks=marks,
        ),
    ]  # fmt: skip
    (RESULTS / "sizes.svg").write_text(side_by_side(charts), "utf-8")
    gpu = torch.cuda.is_available() and options.device != "cpu"
    device = torch.cuda.get_device_name() if gpu else "the processor"
    sampled = f" BLiMP on a sample of {options.sample} pairs." if options.sample else ""
    body = (
        f"`{options.recipe}` on {device}, {options.jobs} at a time, {options.budget:g} operations each,"
        f" sequences of {LENGTH}, {options.batch:,} tokens a step, the same rates for all, seed"
        f" {options.seed}. Operations are those of matrix products, forward and backward, with attention and"
        f" head; epochs say how often the text was seen.{sampled}\n\n{table(head, rows)}\n\n"
        "![curves](sizes.svg)"
    )
    write_result("sizes", "Size against quality under one budget", body, ["torch", "tokenizers", "numpy"])


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="shards that `unmask prepare` made")
    parser.add_argument("--budget", type=float, default=2e16, help="floating-point operations of each model")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="in millions of parameters")
    parser.add_argument("--recipe", default="modern-small")
    parser.add_argument("--batch", type=int, default=32768, help="tokens of a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="models trained at the same time")
    parser.add_argument("--device", choices=["auto", "cpu"], default="auto")
    parser.add_argument("--sample", type=int, help="BLiMP on so many pairs only, to try it out")
    options = parser.parse_args()
    jobs = [make_job(int(size), options) for size in options.sizes.split(",")]
    with ThreadPoolExecutor(options.jobs) as pool:
        started = [pool.submit(run, job, options) for job in jobs]
        well = []
        for done in as_completed(started):
            well.append(done.result())
            if well[-1]:
                write(jobs, options)
    if not all(well):
        sys.exit(f"{well.count(False)} of {len(well)} sizes failed")


if __name__ == "__main__":
    main()
