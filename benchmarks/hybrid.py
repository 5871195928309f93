"""One model that fills masks and generates, against one that only fills and one that only generates.

The same stack, shards and steps; only the share of causal steps differs. What each learns of masks and of
next tokens, and what the hybrid one writes.

    python tools/models.py prepare small-en --scratch DIR
    python benchmarks/hybrid.py --data DIR/parts/en/shards --steps 3000
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from common import arguments, table, train_and_score, trained_and_scored, unmask, write_result

RUNS = {
    "both": ("hybrid-small", []),
    "masks alone": ("hybrid-small", ["objective.causal=0"]),
    "next tokens alone": ("causal-small", []),
}
"""The recipe, and what is changed in it. Both recipes have one stack."""
MASKED = [
    "The [MASK] rose over the sea, and the birds began to sing.",
    "She opened the [MASK] and went in.",
    "He was born in London in the [MASK] of 1850.",
    "The government said on Monday that the [MASK] would be held in May.",
    "They [MASK] never been there before.",
]
DRAWN = ["--max-tokens", 40, "--top-p", 0.9, "--seed", 0]
PROMPTS = [
    "The old man",
    "Once upon a time",
    "The company announced",
    "In the middle of the night",
    "He was born in",
]


def asked(*words: object) -> Any:
    """What a command of ours answers."""
    return json.loads(unmask(*words, "--quiet", "--json", stdout=subprocess.PIPE).stdout)


def samples(model: Path) -> str:
    """How it fills and goes on."""
    filled = [asked("fill", "--model", model, text, "--top", 3) for text in MASKED]
    written = [asked("generate", "--model", model, prompt, *DRAWN) for prompt in PROMPTS]
    fills = table(
        ["text", "filled"],
        [
            (
                text,
                ", ".join(f"{fill['words'][0]['text']} {fill['probability']:.0%}" for fill in found["fills"]),
            )
            for text, found in zip(MASKED, filled, strict=True)
        ],
    )
    return fills + "\n\n" + "\n\n".join(f"> {each['text']}" for each in written)


def main() -> None:
    import torch

    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="shards that `unmask prepare` made")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipes")
    options = parser.parse_args()
    scratch, rows = options.scratch / "hybrid", []
    for name, (recipe, own) in RUNS.items():
        place = scratch / name.replace(" ", "-")
        changes = [f"train.steps={options.steps}", *own, *options.set]
        settings = [f"--set={change}" for change in changes]
        train_and_score(place, [recipe, "--data", options.data, *settings])
        found = trained_and_scored(place)
        assert found
        train, valid, blimp = found
        losses = [f"{valid['parts'][part]:.3f}" if part in valid["parts"] else "" for part in ("mlm", "next")]
        rows.append([name, f"{train['tokens'] / 1e6:.0f} M", *losses, f"{100 * blimp.value:.1f}"])
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "the processor"
    body = (
        f"`hybrid-small` and `causal-small` on {device}, {options.steps:,} steps, seed 0; with both, a"
        " quarter of the steps are causal. BLiMP by pseudo-log-likelihood; of the last by log-likelihood.\n\n"
        + table(["objective", "tokens", "masked loss", "next-token loss", "BLiMP"], rows)
        + "\n\nThe model of both:\n\n"
        + samples(scratch / "both" / "run" / "model")
    )
    write_result("hybrid", "Filling and generating with one model", body, ["torch", "tokenizers"])


if __name__ == "__main__":
    main()
