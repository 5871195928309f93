"""One real pretraining run on a GPU: `modern-small` on English text, then BLiMP.

Without `--data` the text is the ten million words of `text/en-research`. Called again, it goes on.

    python tools/models.py prepare small-en --scratch DIR
    python benchmarks/real_run.py --data DIR/parts/en/shards --seconds 540 --set batch.alpha=0.5
    python benchmarks/real_run.py --data shards --seconds 500 --page real-run-research
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from common import RESULTS, arguments, data_root, need_gpu, table, unmask, unpack, write_result
from unmask.charts import Chart, lines, side_by_side
from unmask.evaluation.results import read
from unmask.runs import read_metrics


def research_text(folder: Path) -> list[str]:
    """Ten million words, as `unmask pretrain` takes them."""
    names = sorted(path.name.removesuffix(".txt.xz") for path in (data_root() / "text/en-research").iterdir())
    texts = unpack([f"en-research/{name}" for name in names], folder)
    return [word for path in texts for word in ("--text", str(path))]


def count_words(shards: Path) -> int:
    """Of the part that is learned from."""
    languages = json.loads((shards / "manifest.json").read_text("utf-8"))["splits"]["train"]["languages"]
    return sum(counts["words"] for counts in languages.values())


def draw(train: Sequence[dict], valid: Sequence[dict]) -> list[Chart]:
    """Loss, accuracy and speed."""
    every = max(1, len(train) // 200)
    curves = {
        "training": [(record["step"], record["loss"]) for record in train[every::every]],
        "validation": [(record["step"], record["loss"]) for record in valid],
    }
    right = {"validation": [(record["step"], record["accuracy"]["mlm"]) for record in valid]}
    pace = {"speed": [(record["step"], record["tokens_per_s"]) for record in train[every::every]]}
    return [
        lines("Loss", "nats per hidden token", curves),
        lines("Hidden tokens right", "share", right, percent=True),
        lines("Speed", "tokens/s", pace),
    ]


def main() -> None:
    """Train, score, write down."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=480, help="time to train for")
    parser.add_argument("--recipe", default="modern-small")
    parser.add_argument("--data", type=Path, help="shards of the same text, made before")
    parser.add_argument("--page", default="real-run", help="name of the page in results/")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe")
    options = parser.parse_args()
    need_gpu()
    scratch = options.scratch / options.page
    run = scratch / "run"
    sources = ["--data", str(options.data)] if options.data else research_text(scratch / "text")
    changes = [f"train.seconds={options.seconds}", *options.set]
    settings = [word for change in changes for word in ("--set", change)]
    unmask("pretrain", options.recipe, *sources, "-o", str(run), "--resume", *settings)
    unmask("evaluate", "blimp", "--model", str(run / "model"), "-o", str(scratch / "scores"))
    records = list(read_metrics(run))
    train, valid = ([r for r in records if r["split"] == split] for split in ("train", "valid"))
    (RESULTS / f"{options.page}.svg").write_text(side_by_side(draw(train, valid)), "utf-8")
    write(options, run, train[-1], valid[-1])


def write(options: argparse.Namespace, run: Path, last: dict, valid: dict) -> None:
    """The result as a page."""
    import torch

    plan = json.loads((run / "plan.json").read_text("utf-8"))
    result = read(run.parent / "scores", "blimp")
    assert result is not None
    score = result.main
    rows = [("words of text", f"{count_words(options.data):,}")] if options.data else []
    rows += [
        ("parameters", f"{plan['parameters']:,}"),
        ("steps, tokens", f"{last['step']:,}, {last['tokens']:,} ({plan['epochs']:.1f} epochs)"),
        ("seconds asked for, in steps", f"{options.seconds:,.0f}, {last['seconds']:,.0f}"),
        ("tokens/s over the whole run", f"{last['tokens'] / last['seconds']:,.0f}"),
        ("validation loss", f"{valid['loss']:.4f}"),
        ("hidden tokens right", f"{valid['accuracy']['mlm']:.1%}"),
        (
            "BLiMP, 67 sets, macro",
            f"{100 * score.value:.1f} ({100 * score.low:.1f} to {100 * score.high:.1f})",
        ),
    ]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "the processor"
    body = (
        f"{options.recipe} on {device}.\n\n{table(['what', 'value'], rows)}\n\n![curves]({options.page}.svg)"
    )
    write_result(options.page, "A real run", body, ["torch", "tokenizers", "numpy"])


if __name__ == "__main__":
    main()
