"""Pretraining on the CPU against the Trainer of `transformers`: real tokens per second on real paragraphs.

A BERT of 6 layers, width 384, dropout 0.1, the vocabulary of BERT (cased), 15 % hidden 80/10/10, AdamW; 32
sequences of at most 128 tokens a step. The Trainer gets paragraphs padded to the longest of their batch (its
`run_mlm` line by line), and documents one after another cut into blocks of 128 (its default, in which texts
attend to their neighbours); in float32, its default, and in bfloat16. unmask takes the precision it takes by
itself, and float32. Each side has a process of its own; they take turns.
"""

import itertools
import json
import lzma
import multiprocessing
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from common import arguments, data_root, table, write_result

LENGTH, ROWS, WARM = 128, 32, 3
SIDES = {
    "unmask": ("ours", "auto"),
    "unmask, float32": ("ours", "fp32"),
    "Trainer, padded": ("padded", "fp32"),
    "Trainer, blocks": ("blocks", "fp32"),
    "Trainer, padded, bfloat16": ("padded", "bf16"),
    "Trainer, blocks, bfloat16": ("blocks", "bf16"),
}


def make_shards(folder: Path, documents: int) -> Path:
    """Paragraphs of news, each a document, as shards."""
    from unmask.config import load_recipe
    from unmask.data.prepare import prepare
    from unmask.text import find_sources
    from unmask.tokenizer import Tokenizer

    with lzma.open(data_root() / "text/en/wikinews.txt.xz", "rt", encoding="utf-8") as file:
        lines = list(itertools.islice((line.strip() for line in file if line.strip()), documents))
    (folder / "news.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines), "utf-8")
    tokenizer = Tokenizer.load(data_root() / "vocab/bert/cased.txt")
    recipe = load_recipe(None, ["text.min_chars=1", "prepare.valid=0", "prepare.test=0"])
    prepare(find_sources([f"en={folder / 'news.jsonl'}"]), tokenizer, folder / "shards", recipe)
    return folder / "shards"


def ours(shards: Path, precision: str, steps: int) -> list[float]:
    """Tokens per second of each step."""
    from unmask.config import load_recipe
    from unmask.data.plan import Position
    from unmask.train.feed import feed
    from unmask.train.machine import Machine, repeatable
    from unmask.train.material import gather
    from unmask.train.plan import make_trainer
    from unmask.train.schedule import Schedule
    from unmask.train.start import Start

    room = LENGTH * ROWS
    changes = [
        "model.width=384", "model.layers=6", "model.heads=6", "model.inner=1536", f"batch.length={LENGTH}",
        f"train.batch_tokens={room}", f"train.micro_tokens={room}", f"train.precision={precision}",
        "train.stages=[]", "train.batch_warmup=0", "batch.pairs=none",
    ]  # fmt: skip
    material = gather(load_recipe("bert-base", changes), Path("unused"), Start(data=shards))
    machine, schedule = Machine.choose(material.recipe.train), Schedule(material.recipe, 10 * steps)
    trainer = make_trainer(material, machine, schedule)
    with closing(feed(material.corpus, schedule, 0, Position())) as inputs, repeatable(machine):
        return [record.tokens_per_s for record in itertools.islice(trainer.run(inputs), steps)]


def trainer(shards: Path, kind: str, precision: str, steps: int) -> list[float]:
    """The same by the Trainer; padding is not counted."""
    import numpy as np
    import transformers
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        DataCollatorForLanguageModeling,
        PreTrainedTokenizerFast,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    from unmask.data.shards import Corpus

    transformers.logging.set_verbosity_error()
    transformers.set_seed(0)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(shards / "tokenizer")
    corpus = Corpus.open(shards)
    cls, sep = corpus.special.cls, corpus.special.sep
    texts = [corpus.document(number)[0].astype(np.int64) for number in range(corpus.document_count)]
    if kind == "padded":
        whole = [[cls, *text[: LENGTH - 2].tolist(), sep] for text in texts]
    else:
        joined = np.concatenate([[cls, *text.tolist(), sep] for text in texts])
        whole = joined[: len(joined) // LENGTH * LENGTH].reshape(-1, LENGTH).tolist()
    rows = [{"input_ids": row} for row in whole]
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    counts: list[int] = []
    times: list[float] = []

    def counted(batch: list[dict[str, Any]]) -> Any:
        counts.append(sum(len(row["input_ids"]) for row in batch))
        return collate(batch)

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=384, num_hidden_layers=6, num_attention_heads=6,
        intermediate_size=1536,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        options = TrainingArguments(
            scratch, per_device_train_batch_size=ROWS, max_steps=steps, learning_rate=1e-4, use_cpu=True,
            bf16=precision == "bf16", report_to=[], save_strategy="no", logging_strategy="no",
            disable_tqdm=True, remove_unused_columns=False,
        )  # fmt: skip
        Trainer(BertForMaskedLM(config), options, counted, rows, callbacks=[Watch()]).train()
    seconds = [after - before for before, after in zip(times[::2], times[1::2], strict=True)]
    return [count / each for count, each in zip(counts, seconds, strict=False)]


def run_side(side: str, shards: Path, steps: int, results: Any) -> None:
    kind, precision = SIDES[side]
    rates = ours(shards, precision, steps) if kind == "ours" else trainer(shards, kind, precision, steps)
    results.put(statistics.median(rates[WARM:]))


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as scratch:
        shards = make_shards(Path(scratch), 20_000)
        for _ in range(options.rounds):
            for side in SIDES:
                results = context.Queue()
                process = context.Process(target=run_side, args=(side, shards, options.steps, results))
                process.start()
                process.join()
                if process.exitcode:
                    sys.exit(f"{side}: the process failed")
                found[side].append(results.get())
                print(side, f"{found[side][-1]:,.0f}", file=sys.stderr)
    base = statistics.median(found["unmask"])
    rows = [
        [side, f"{statistics.median(rates):,.0f}", f"{base / statistics.median(rates):.2f} ×"]
        for side, rates in found.items()
    ]
    about = (__doc__ or "").partition("\n\n")[2].replace("\n", " ").strip()
    note = (
        f"Median of {options.rounds} rounds of {options.steps - WARM} steps after {WARM} others; "
        "padding is not counted."
    )
    head = ["side", "tokens/s", "unmask is faster by"]
    write_result(
        "pretrain-cpu", "Pretraining on the CPU against the Trainer of transformers",
        f"{about}\n\n{note}\n\n{table(head, rows)}",
        ["torch", "transformers", "accelerate", "tokenizers"],
    )  # fmt: skip


if __name__ == "__main__":
    main()
