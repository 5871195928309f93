"""Masked batches per second, the room they leave empty, and the collator of `transformers` beside them.

Ours packs, masks and builds tensors from the memory-mapped corpus, planning included. The collator gets
ready-cut lists of equal length from memory (so it never pads) and masks single tokens.
"""

import sys
import time
from pathlib import Path

from common import arguments, clean, data_root, table, unpack, write_result

TEXTS = {"en": ["en/wikipedia", "en/wikinews"], "pt": ["pt/parlamento", "pt/machado"]}
BATCH_TOKENS = 32_768
SECONDS = 4.0


def make_corpus(scratch: Path, limit_mb: float) -> Path:
    from unmask.data.prepare import prepare
    from unmask.text import find_sources
    from unmask.tokenizer import Tokenizer

    sources = []
    for language, names in TEXTS.items():
        for name in names:
            (path,) = unpack([name], scratch / "text", limit_mb / 4)
            sources.append(f"{language}={path}")
    tokenizer = Tokenizer.load(data_root() / "vocab" / "bert" / "multilingual-cased.txt")
    prepare(find_sources(sources), tokenizer, scratch / "corpus")
    return scratch / "corpus"


def rate(batches: object, tokens_of: object) -> tuple[float, float]:
    """Batches and tokens per second, after the first batch."""
    stream = iter(batches)  # type: ignore[call-overload]
    next(stream)
    start, count, tokens = time.perf_counter(), 0, 0
    for batch in stream:
        count += 1
        tokens += tokens_of(batch)  # type: ignore[operator]
        if time.perf_counter() - start > SECONDS:
            break
    seconds = time.perf_counter() - start
    return count / seconds, tokens / seconds


def ours(corpus: object, length: int, workers: int, **settings: object) -> tuple[float, float, float]:
    from unmask.config import BatchConfig
    from unmask.data.batches import Batches
    from unmask.data.plan import Position

    config = BatchConfig.model_validate({"length": length, **settings})
    batches = Batches(corpus, config)  # type: ignore[arg-type]
    steps = batches.steps(Position(), BATCH_TOKENS // length, workers=workers)
    speed = rate(steps, lambda step: len(step[0].ids))
    return *speed, batches.fill_rate


def collator(corpus: object, folder: Path, length: int, workers: int) -> tuple[float, float]:
    import torch
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    ids = [
        token
        for number in range(min(4000, corpus.document_count))
        for token in corpus.document(number)[0].tolist()
    ]
    room = length - 2
    examples = [
        {"input_ids": [tokenizer.cls_token_id, *ids[at : at + room], tokenizer.sep_token_id]}
        for at in range(0, len(ids) - room, room)
    ]
    loader = torch.utils.data.DataLoader(
        examples * 20,
        batch_size=BATCH_TOKENS // length,
        num_workers=workers,
        collate_fn=DataCollatorForLanguageModeling(tokenizer),
    )
    return rate(loader, lambda batch: batch["input_ids"].numel())


def planning(corpus: object, length: int, **settings: object) -> float:
    """Millions of tokens planned per second of processor time."""
    from unmask.config import BatchConfig
    from unmask.data.plan import Plan

    plan = Plan(corpus, BatchConfig.model_validate({"length": length, **settings}), 0)  # type: ignore[arg-type]
    start = time.process_time()
    tokens = sum(plan.window((0, number)).tokens for number in range(min(12, plan.windows)))
    return tokens / (time.process_time() - start) / 1e6


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, help="a corpus folder that is there already")
    options = parser.parse_args()
    scratch = options.scratch / "batches"
    folder = options.corpus or make_corpus(scratch, min(options.limit_mb, 80))

    from unmask.data.shards import Corpus

    corpus = Corpus.open(folder)
    rows = []
    for length in (128, 512):
        for workers in (0, 2):
            for kind in ("token", "word", "span"):
                speed, tokens, fill = ours(corpus, length, workers, mask={"kind": kind})
                rows.append(
                    (length, workers, f"unmask, {kind}", f"{speed:.0f}", f"{tokens:,.0f}", f"{fill:.4f}")
                )
            speed, tokens = collator(corpus, folder, length, workers)
            rows.append((length, workers, "transformers, token", f"{speed:.0f}", f"{tokens:,.0f}", ""))
    plans = [
        (length, name, f"{planning(corpus, length, **settings):.0f}")
        for length in (128, 512)
        for name, settings in {
            "documents": {},
            "sentences": {"sentences": True},
            "nsp": {"pairs": "nsp"},
        }.items()
    ]
    body = (
        f"{corpus.document_count:,} documents, {corpus.token_count:,} tokens, {BATCH_TOKENS:,} a batch.\n\n"
        + table(["length", "workers", "batches", "batches/s", "tokens/s", "fill rate"], rows)
        + "\n\nPlanning (cutting and packing, by one process), per second of processor time:\n\n"
        + table(["length", "sequences", "million tokens/s"], plans)
    )
    write_result("batches", "Masked batches per second", body, ["numpy", "torch", "transformers"])
    if options.corpus is None:
        clean(scratch)


if __name__ == "__main__":
    sys.exit(main())
