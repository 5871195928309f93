"""The peer of our pretraining: our architecture, vocabulary and text, trained by `transformers`' Trainer.

As its `run_mlm` example does: documents between [CLS] and [SEP] one after another, cut into blocks; 15 %
hidden anew each time by `DataCollatorForLanguageModeling`; AdamW with linear decay; bfloat16 and SDPA on a
GPU. Time is the same, not the steps: a few steps are timed, the schedule is planned for those that fit, and
the clock stops it; where the GPU is shared, `--steps` gives it as many as it had alone. Text is drawn in its
natural shares, in an order of its own. The folder opens in unmask, which measures its validation loss with
the masks of our own runs.

  defaults   learning rate 5e-5, no warm-up, batches of 8
  tuned      one set, not searched: 5e-4, a tenth of warm-up, weight decay 0.01, our batch
             (train.batch_tokens); the head on hidden tokens alone (`sparse_prediction`), as ours

    python benchmarks/hf_mlm.py --data shards --recipe modern-mini --seconds 540 --variant tuned -o runs/hf
    unmask evaluate blimp --model runs/hf -o scores
"""

import argparse
import copy
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    ModernBertConfig,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from unmask.checkpoint import load_model
from unmask.config import load_recipe
from unmask.data.shards import Corpus
from unmask.model.published import write_config
from unmask.train.frequency import token_counts
from unmask.train.machine import Machine
from unmask.train.material import Material, gather
from unmask.train.start import Start
from unmask.train.validate import Validator

WARM, TIMED = 20, 80
"""Steps before the speed is measured, and those it is measured on."""


class Blocks(torch.utils.data.Dataset):
    """The training documents one after another, in blocks of one length; what is left over is dropped."""

    def __init__(self, corpus: Corpus, length: int) -> None:
        special = corpus.special
        ends = np.array([special.cls]), np.array([special.sep])
        parts = [
            part
            for number in range(corpus.document_count)
            for part in (ends[0], corpus.document(number)[0], ends[1])
        ]
        joined = np.concatenate(parts).astype(np.int32)
        self.rows = joined[: len(joined) // length * length].reshape(-1, length)
        self.special = np.isin(self.rows, special.all)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, list[int]]:
        row, special = self.rows[number], self.special[number]
        return {"input_ids": row.tolist(), "special_tokens_mask": special.astype(int).tolist()}


class Clock(TrainerCallback):
    """Times the steps, and stops when the time is over."""

    def __init__(self, seconds: float = float("inf")) -> None:
        self.limit, self.marks, self.seconds = seconds, {}, 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step in (WARM, WARM + TIMED) and torch.cuda.is_available():
            torch.cuda.synchronize()
        self.seconds = time.perf_counter() - self.began
        self.marks[state.global_step] = self.seconds
        control.should_training_stop |= self.seconds >= self.limit


def train(
    model: Any, steps: int, clock: Clock, collator: Any, blocks: Blocks, options: argparse.Namespace
) -> Any:
    """So many steps of the Trainer; its state at the end."""
    tuned = options.variant == "tuned"
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            scratch,
            per_device_train_batch_size=options.batch,
            learning_rate=options.lr,
            warmup_steps=steps // 10 if tuned else 0,
            weight_decay=0.01 if tuned else 0.0,
            max_steps=steps,
            seed=options.seed,
            bf16=torch.cuda.is_available(),
            use_cpu=not torch.cuda.is_available(),
            dataloader_num_workers=options.workers,
            torch_compile=options.compile,
            logging_steps=max(1, steps // 20),
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments, collator, blocks, callbacks=[clock])
        trainer.train()
    return trainer.state


def validate(folder: Path, material: Material) -> Any:
    """What unmask measures at the end of its own runs, with the same hidden tokens."""
    recipe = material.recipe
    machine = Machine.choose(recipe.train)
    corpus = Corpus.open(material.corpus.folder, "valid")
    model, _ = load_model(folder, heads=["mlm"])
    return Validator(corpus, recipe, machine, token_counts(material.corpus))(model.to(machine.device))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="shards that `unmask prepare` made")
    parser.add_argument(
        "--out", "-o", type=Path, required=True, help="the folder to write; OUT.json has the facts"
    )
    parser.add_argument("--recipe", default="modern-small", help="whose architecture and masks of validation")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change the recipe")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, default=540)
    length.add_argument("--steps", type=int, help="in place of a time")
    parser.add_argument("--variant", choices=["defaults", "tuned"], default="defaults")
    parser.add_argument("--length", type=int, default=512, help="tokens of a block")
    parser.add_argument("--batch", type=int, help="blocks of a step, in place of the variant's")
    parser.add_argument("--lr", type=float, help="in place of the variant's")
    parser.add_argument("--workers", type=int, default=4, help="processes that hide tokens ahead")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        material = gather(load_recipe(options.recipe, options.set), Path(scratch), Start(data=options.data))
    tuned = options.variant == "tuned"
    options.batch = options.batch or (
        max(1, material.recipe.train.batch_tokens // options.length) if tuned else 8
    )
    options.lr = options.lr or (5e-4 if tuned else 5e-5)
    set_seed(options.seed)
    written = write_config(material.recipe.model, "ModernBertForMaskedLM")
    config = ModernBertConfig.from_dict(written | {"sparse_prediction": tuned})
    model = AutoModelForMaskedLM.from_config(config, attn_implementation="sdpa")
    collator = DataCollatorForLanguageModeling(AutoTokenizer.from_pretrained(options.data / "tokenizer"))
    blocks = Blocks(material.corpus, options.length)

    steps, clock = options.steps, Clock()
    if steps is None:
        probe, clock = Clock(), Clock(options.seconds)
        train(copy.deepcopy(model), WARM + TIMED, probe, collator, blocks, options)
        pace = (probe.marks[WARM + TIMED] - probe.marks[WARM]) / TIMED
        steps = max(1, int(options.seconds / pace))
    state = train(model, steps, clock, collator, blocks, options)

    model.float().save_pretrained(options.out)
    material.tokenizer.save(options.out)
    found = validate(options.out, material)
    tokens = state.global_step * options.batch * options.length
    facts = {
        "variant": options.variant, "parameters": sum(p.numel() for p in model.parameters()),
        "batch": options.batch, "length": options.length, "lr": options.lr, "compile": options.compile,
        "steps": state.global_step, "planned": state.max_steps, "seconds": round(clock.seconds, 1),
        "tokens": tokens, "tokens_per_s": round(tokens / clock.seconds),
        "epochs": round(tokens / blocks.rows.size, 2), "validation loss": round(found.loss, 4),
        "hidden tokens right": round(found.accuracy["mlm"], 4), "losses": state.log_history,
    }  # fmt: skip
    options.out.with_name(options.out.name + ".json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    print(json.dumps({key: value for key, value in facts.items() if key != "losses"}, indent=1))
    if state.global_step < 0.95 * state.max_steps:
        sys.exit(
            "slower than the first steps: the rate had not fallen to its end, take fewer --seconds or retry"
        )


if __name__ == "__main__":
    main()
