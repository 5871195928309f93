"""The cost of length: tokens per second at 512 to 8,192 tokens, with local and global layers or all global.

ModernBERT-base with random weights, the same number of tokens in every step, so that only the length of the
sequences differs. Needs a GPU.

    python benchmarks/long.py      about two minutes on one H200
"""

import argparse

import numpy as np
import torch

from common import need_gpu, table, write_result
from pretrain_gpu import SEED, Ours, full_texts, packed, paragraphs
from unmask.model.presets import preset

LENGTHS = (512, 1024, 2048, 4096, 8192)
LAYERS = {"local and global": {}, "all global": {"window": 0, "global_every": 1}}


def main() -> None:
    """Measure both models at every length and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=65_536, help="tokens of a step")
    parser.add_argument("--steps", type=int, default=3, help="steps of each of three timed rounds")
    options = parser.parse_args()
    need_gpu()
    parts = paragraphs(12)
    speeds: dict[str, list[float]] = {}
    for name, changes in LAYERS.items():
        ours = Ours(preset("modernbert-base", **changes))
        speeds[name] = []
        for length in LENGTHS:
            texts = full_texts(parts, length, np.random.default_rng(SEED))
            batch = packed([next(texts) for _ in range(options.tokens // length)])
            speeds[name].append(ours.speed([batch], 4, options.steps).tokens_per_s)
    local, everywhere = (np.array(values) for values in speeds.values())
    rows = [
        [
            length,
            f"{a / 1e3:,.0f}",
            f"{a / local[0]:.0%}",
            f"{b / 1e3:,.0f}",
            f"{b / everywhere[0]:.0%}",
            f"{a / b:.2f}",
        ]
        for length, a, b in zip(LENGTHS, local, everywhere, strict=True)
    ]
    columns = [f"{name}: {what}" for name in LAYERS for what in ("k tokens/s", "of that at 512")]
    body = (
        f"{torch.cuda.get_device_name()}. ModernBERT-base: 22 layers of 768; every third layer global, the "
        f"others see 64 tokens to each side. {options.tokens:,} tokens a step, three timed rounds of "
        f"{options.steps} steps, median; "
        f"forward, backward and AdamW in bfloat16; seed {SEED}.\n\n"
        f"{table(['length', *columns, 'ratio'], rows)}\n"
    )
    write_result("long", "The cost of length", body, ["torch"])


if __name__ == "__main__":
    main()
