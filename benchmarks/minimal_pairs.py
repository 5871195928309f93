"""BLiMP by pseudo-log-likelihood: 67 sets of 200 pairs on a 12-layer, 384-wide model, ours and a plain loop.

The plain loop makes one copy per mask and sends them through `transformers` with the same weights: the copies
of one sentence at a time, or 64 copies at a time in the order of the text, padded. It gets a few of the sets;
ours gets the same ones for the ratio, and all of them for the claim. The weights are random: the time does
not depend on them, and the scores must agree all the same.

    python benchmarks/minimal_pairs.py                  two cores: about a quarter of an hour
    python benchmarks/minimal_pairs.py --device cuda    a GPU: a minute
"""

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from common import arguments, data_root, table, write_result
from unmask.checkpoint import save_model
from unmask.model.network import Model
from unmask.model.presets import preset
from unmask.predict import MaskedLM, load
from unmask.predict.score import masked_copy, targets
from unmask.tokenizer import Tokenizer

COPIES = 64


def sentences(sets: int) -> list[str]:
    """Good and bad sentences of the first so many sets."""
    files = sorted((data_root() / "eval" / "en" / "blimp_fast").glob("*.jsonl"))[:sets]
    rows = [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]
    return [row[key] for key in ("sentence_good", "sentence_bad") for row in rows]


def make_model(folder: Path) -> None:
    """A BERT of 12 layers and width 384 with a real vocabulary."""
    tokenizer = Tokenizer.load(data_root() / "vocab" / "bert" / "cased.txt")
    sizes = {"layers": 12, "width": 384, "heads": 6, "inner": 1536}
    config = preset("bert-base", vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id, **sizes)
    save_model(Model(config, ["mlm"], torch.Generator().manual_seed(0)), folder, tokenizer)


@torch.inference_mode()
def plain(folder: Path, texts: list[str], device: str, together: bool) -> list[float]:
    """One copy per mask through `transformers`; the sum of each text."""
    from transformers import AutoModelForMaskedLM

    lm = load(folder)
    peer = AutoModelForMaskedLM.from_pretrained(folder).eval().to(device)
    if device == "cuda":
        peer = peer.bfloat16()
    sums = [0.0] * len(texts)
    for jobs in batches(lm, texts, together):
        width = max(len(ids) for _, ids, _, _ in jobs)
        grid = torch.full((len(jobs), width), lm.tokenizer.pad_id)
        mask = torch.zeros_like(grid)
        for row, (_, ids, _, _) in enumerate(jobs):
            grid[row, : len(ids)] = torch.from_numpy(ids)
            mask[row, : len(ids)] = 1
        logits = peer(input_ids=grid.to(device), attention_mask=mask.to(device)).logits
        rows = logits[torch.arange(len(jobs)), torch.tensor([place for _, _, place, _ in jobs])].float()
        chosen = rows.log_softmax(-1).cpu()[
            torch.arange(len(jobs)), torch.tensor([truth for *_, truth in jobs])
        ]
        for (text, *_), value in zip(jobs, chosen.tolist(), strict=True):
            sums[text] += value
    return sums


def batches(lm: object, texts: list[str], together: bool) -> Iterator[list[tuple[int, np.ndarray, int, int]]]:
    """Copies with the number of their text, the place that is hidden and what stands there."""
    assert isinstance(lm, MaskedLM)
    held: list[tuple[int, np.ndarray, int, int]] = []
    for number, encoding in enumerate(lm.inputs.encode(texts)):
        for place in targets(encoding, lm.tokenizer).tolist():
            copy = masked_copy(encoding, place, lm.tokenizer, "word-l2r")
            held.append((number, copy, place, int(encoding.ids[place])))
        if not together or len(held) >= COPIES:
            yield held
            held = []
    if held:
        yield held


def ours(folder: Path, texts: list[str], device: str) -> list[float]:
    lm = load(folder, device)
    assert isinstance(lm, MaskedLM)
    return [score.log_probability for score in lm.score(texts)]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", type=int, default=67, help="sets that ours scores")
    parser.add_argument("--peer-sets", type=int, default=2, help="sets that all sides score")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        make_model(folder)
        few, device = sentences(options.peer_sets), options.device
        ours(folder, few[:64], device)  # warm
        sides = {
            "unmask": lambda: ours(folder, few, device),
            "transformers, a sentence's copies at a time": lambda: plain(folder, few, device, False),
            f"transformers, {COPIES} copies at a time": lambda: plain(folder, few, device, True),
        }
        found, seconds = {}, {}
        for name, side in sides.items():
            start = time.perf_counter()
            found[name] = side()
            seconds[name] = time.perf_counter() - start
        texts = sentences(options.sets)
        start = time.perf_counter()
        ours(folder, texts, device)
        whole = time.perf_counter() - start
    first = found["unmask"]
    rows = [
        (
            name,
            f"{took:.1f}",
            f"{took / seconds['unmask']:.2f}",
            f"{np.abs(np.subtract(found[name], first)).max():.1e}",
        )
        for name, took in seconds.items()
    ]
    body = (
        f"{options.peer_sets} sets, {len(few):,} sentences, {device}, {torch.get_num_threads()} threads.\n\n"
        + table(("side", "seconds", "times ours", "largest difference of a score"), rows)
        + f"\n\nAll {options.sets} sets ({len(texts):,} sentences) by unmask: {whole:.0f} s."
    )
    name = "minimal-pairs" if device == "cpu" else f"minimal-pairs-{device}"
    write_result(name, "Minimal pairs by pseudo-log-likelihood", body, ("torch", "transformers"))


if __name__ == "__main__":
    main()
