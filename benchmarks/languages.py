"""English and Portuguese of unequal size in one model: the loss in each by α, the exponent of the sampling.

The same text, vocabulary, recipe, seed and number of steps for every α; only how often each language is drawn
differs. The validation text is the same too, in its natural shares. Paragraphs are documents here, so that
both languages have many in every split.

    python benchmarks/languages.py                                       # a CPU, some minutes for each α
    python benchmarks/languages.py --recipe modern-small --limit-mb 40 --steps 3000      # a GPU
"""

import sys
from pathlib import Path
from typing import Any

from common import RESULTS, arguments, clean, table, unpack, write_result

TEXTS = {"en": "en/wikinews", "pt": "pt/senado"}  # the large one, the small one
COMMON = ["text.documents=line", "prepare.valid=0.04", "prepare.test=0.0", "train.eval_tokens=150000"]


def make_corpus(scratch: Path, recipe: Any, limit_mb: float, ratio: float) -> tuple[Path, dict[str, int]]:
    """Shards of both languages, and the training tokens of each."""
    from unmask.data.prepare import prepare
    from unmask.progress import Console
    from unmask.text import find_sources
    from unmask.tokenizer import Tokenizer
    from unmask.tokenizer.build import build_tokenizer

    small = limit_mb / (1 + ratio)
    named = []
    for (language, name), size in zip(TEXTS.items(), (limit_mb - small, small), strict=True):
        (path,) = unpack([name], scratch / "text", size)
        named.append(f"{language}={path}")
    sources = find_sources(named)
    build_tokenizer(sources, scratch / "vocab", recipe, progress=Console())
    tokenizer = Tokenizer.load(scratch / "vocab")
    manifest = prepare(sources, tokenizer, scratch / "shards", recipe, progress=Console())
    found = manifest["splits"]["train"]["languages"]
    return scratch / "shards", {name: found[name]["tokens"] for name in TEXTS}


def train(recipe: Any, shards: Path, run: Path) -> list[dict[str, Any]]:
    """The validations of a run."""
    from unmask.progress import Console
    from unmask.runs import read_metrics
    from unmask.train.pretrain import pretrain
    from unmask.train.start import Start

    pretrain(recipe, run, Start(data=shards), resume=True, progress=Console())
    return [record for record in read_metrics(run) if record["split"] == "valid"]


def draw(runs: dict[float, list[dict[str, Any]]], path: Path) -> None:
    """A chart for each language, a curve for each α; the first tenth is left out, where all fall alike."""
    from unmask.charts import lines, side_by_side

    charts = []
    for language, name in TEXTS.items():
        curves = {
            f"α = {alpha:g}": [
                (record["step"], record["languages"][language]["loss"])
                for record in records[len(records) // 10 :]
            ]
            for alpha, records in runs.items()
        }
        charts.append(lines(f"Loss, {language} ({name})", "nats per hidden token, validation", curves))
    path.write_text(side_by_side(charts), "utf-8")


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.set_defaults(limit_mb=18.0)
    parser.add_argument("--ratio", type=float, default=8.0, help="how much more English than Portuguese")
    parser.add_argument("--alphas", type=float, nargs="+", default=[1.0, 0.5, 0.3])
    parser.add_argument("--recipe", default="tiny-docs", help="a recipe's name or file")
    parser.add_argument("--steps", type=int, default=1500, help="steps of each run")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe")
    options = parser.parse_args()

    import torch

    from unmask.config import load_recipe
    from unmask.text.languages import sampling_weights

    changes = [*COMMON, f"train.steps={options.steps}", *options.set]
    scratch = options.scratch / "languages"
    clean(scratch)
    recipe = load_recipe(options.recipe, changes)
    shards, tokens = make_corpus(scratch, recipe, options.limit_mb, options.ratio)
    runs = {
        alpha: train(
            load_recipe(options.recipe, [*changes, f"batch.alpha={alpha}"]),
            shards,
            scratch / f"alpha-{alpha:g}",
        )
        for alpha in options.alphas
    }
    draw(runs, RESULTS / "languages.svg")
    rows = []
    for alpha, records in runs.items():
        scores = [records[-1]["languages"][language] for language in TEXTS]
        rows.append(
            (
                f"{alpha:g}",
                f"{sampling_weights(tokens, alpha)['pt']:.1%}",
                *(f"{score['loss']:.3f}" for score in scores),
                *(f"{score['accuracy']:.1%}" for score in scores),
            )
        )
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "the processor"
    body = (
        f"Trained on {device}: {options.recipe}, {options.steps:,} steps of {recipe.train.batch_tokens:,} "
        f"tokens. To train on: {tokens['en']:,} tokens of English ({TEXTS['en']}) and {tokens['pt']:,} of "
        f"Portuguese ({TEXTS['pt']}). Loss at the end, in nats per hidden token of the validation text.\n\n"
        + table(["α", "Portuguese drawn", "loss en", "loss pt", "right en", "right pt"], rows)
        + "\n\n![loss by language and α](languages.svg)"
    )
    write_result("languages", "Two languages, one model, by α", body, ["torch", "tokenizers", "numpy"])
    clean(scratch)


if __name__ == "__main__":
    sys.exit(main())
