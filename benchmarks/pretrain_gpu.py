"""Pretraining BERT-base on a GPU: unmask against `transformers`, the same tokens, masks, batch and optimiser.

Both sides run in bfloat16 autocast with fused AdamW and clipping at 1, on batches that lie ready in memory:
only steps are timed. The peer is called without an attention mask where nothing is padded, compiled and not.

  full      sequences of exactly 128 or 512 tokens
  mixed     real paragraphs of their own length in random order: we pack them; the peer pads each batch to its
            longest, or gets them joined into sequences of 512 (a paragraph then sees its neighbours)

    python benchmarks/pretrain_gpu.py            about five minutes on one H200
    python benchmarks/pretrain_gpu.py --profile  where our step's time goes
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from common import ROOT, data_root, need_gpu, table, unpack, write_result
from unmask.config import ModelConfig, load_recipe
from unmask.data.batches import Batch
from unmask.data.plan import Position
from unmask.model.network import Model
from unmask.model.presets import preset
from unmask.tokenizer import Tokenizer
from unmask.train.feed import StepInput
from unmask.train.loop import Trainer
from unmask.train.machine import Machine
from unmask.train.objectives import Objectives
from unmask.train.schedule import Schedule
from unmask.train.work import matmul_peak, operations

MASK_RATIO, SEED = 0.15, 0
PAD, UNKNOWN, CLS, SEP, MASK = 0, 100, 101, 102, 103
VOCABULARY = 30522
PADDED_VOCABULARY = 30528  # the peer's, as its documentation advises (pad_to_multiple_of): faster kernels


@dataclass(frozen=True)
class Text:
    """One sequence with its masks, as both sides get it."""

    ids: np.ndarray
    targets: np.ndarray
    labels: np.ndarray


def hide(ids: np.ndarray, rng: np.random.Generator) -> Text:
    """80/10/10 on 15 % of the tokens."""
    count = max(1, round(MASK_RATIO * len(ids)))
    targets = np.sort(rng.choice(len(ids), count, replace=False))
    labels, hidden = ids[targets].copy(), ids.copy()
    kind = rng.random(count)
    hidden[targets] = np.where(
        kind < 0.8, MASK, np.where(kind < 0.9, rng.integers(1000, VOCABULARY, count), labels)
    )
    return Text(hidden, targets, labels)


def paragraphs(limit_mb: float) -> list[np.ndarray]:
    """Tokens of real paragraphs, each between [CLS] and [SEP], at most 512 long."""
    paths = unpack(["en/wikipedia"], ROOT / "demo-out" / "bench", limit_mb)
    lines = [line for line in paths[0].read_text("utf-8").splitlines() if line.strip()]
    tokenizer = Tokenizer.load(data_root() / "vocab" / "bert" / "uncased.txt")
    encoded = tokenizer.backend.encode_batch_fast(lines, add_special_tokens=False)
    return [np.array([CLS, *each.ids[:510], SEP]) for each in encoded if each.ids]


def full_texts(parts: Sequence[np.ndarray], length: int, rng: np.random.Generator) -> Iterator[Text]:
    """Sequences of one length, cut from the running text."""
    stream = np.concatenate([part[1:-1] for part in parts])
    for start in itertools.cycle(range(0, len(stream) - length, length - 2)):
        yield hide(np.r_[CLS, stream[start : start + length - 2], SEP], rng)


def packed(texts: Sequence[Text], page: int | None = None) -> Batch:
    """The texts as unmask's own batch; with `page` all have that length."""
    lengths = np.array([len(text.ids) for text in texts])
    starts = np.r_[0, lengths.cumsum()]
    targets = np.concatenate([text.targets + start for text, start in zip(texts, starts, strict=False)])
    return Batch(
        ids=torch.from_numpy(np.concatenate([text.ids for text in texts])),
        positions=torch.from_numpy(np.concatenate([np.arange(length) for length in lengths])),
        cu_seqlens=torch.from_numpy(starts).int(),
        max_seqlen=int(lengths.max()),
        causal=False,
        target_index=torch.from_numpy(targets),
        target_ids=torch.from_numpy(np.concatenate([text.labels for text in texts])),
        target_kind=torch.zeros(len(targets), dtype=torch.uint8),
        languages=torch.zeros(len(texts), dtype=torch.int64),
        page=page,
    ).pin_memory()


def padded(texts: Sequence[Text]) -> dict[str, torch.Tensor]:
    """The texts as `transformers` takes them; no mask where nothing is padded."""
    longest = max(len(text.ids) for text in texts)
    ids = torch.full((len(texts), longest), PAD)
    labels = torch.full((len(texts), longest), -100)
    for row, text in enumerate(texts):
        ids[row, : len(text.ids)] = torch.from_numpy(text.ids)
        labels[row, text.targets] = torch.from_numpy(text.labels)
    mask = ids != PAD
    batch = {"input_ids": ids, "labels": labels} | ({} if mask.all() else {"attention_mask": mask.long()})
    return {name: tensor.pin_memory() for name, tensor in batch.items()}


@dataclass(frozen=True)
class Speed:
    """Real tokens (no padding) per second, and seconds a step: the median of three rounds."""

    tokens_per_s: float
    seconds: float
    memory_gb: float


def timed(step: Callable[[int], int], warm: int, steps: int) -> Speed:
    """`step(k)` launches step k and says how many real tokens it has; a round ends with the device idle."""
    torch.cuda.reset_peak_memory_stats()
    for number in range(warm):
        step(number)
    rounds = []
    for number in range(3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        tokens = sum(step(warm + number * steps + k) for k in range(steps))
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        rounds.append((tokens / seconds, seconds / steps))
    fast, seconds = np.median(np.array(rounds), 0).tolist()
    return Speed(fast, seconds, torch.cuda.max_memory_allocated() / 1e9)


def bert(dropout: float) -> ModelConfig:
    """BERT-base."""
    return preset("bert-base", dropout=dropout, attention_dropout=dropout)


class Ours:
    """unmask's own loop."""

    def __init__(self, config: ModelConfig, tokens: int) -> None:
        torch._dynamo.reset()
        room = [f"train.{name}_tokens={tokens}" for name in ("batch", "micro")]
        recipe = load_recipe("bert-base", ["train.stages=[]", "batch.pairs=none", *room])
        self.machine = Machine.choose(recipe.train)
        self.config = config
        model = Model(config, ["mlm"], torch.Generator().manual_seed(SEED))
        self.machine.fit(model, recipe.train)
        objectives = Objectives(recipe, self.machine.compiles(recipe.train))
        self.trainer = Trainer(model, Schedule(recipe, 1_000_000), objectives, self.machine)

    def speed(self, batches: Sequence[Batch], warm: int, steps: int) -> Speed:
        """Through `Trainer.run`, records and all."""
        cycle = itertools.cycle(batches)
        self.losses = []
        tokens = {}

        def inputs() -> Iterator[StepInput]:
            for number in itertools.count(1000):
                batch = next(cycle)
                tokens[number - 1000] = len(batch.ids)
                yield StepInput(number, [batch], Position(), 1.0)

        records = self.trainer.run(inputs())

        def step(number: int) -> int:
            self.losses.append(next(records).loss)
            return tokens[number]

        return timed(step, warm, steps)


class Peer:
    """`transformers`' BertForMaskedLM in a plain loop: nothing that its Trainer could leave out."""

    def __init__(self, dropout: float, compiled: bool) -> None:
        import transformers

        torch._dynamo.reset()
        torch.manual_seed(SEED)
        config = transformers.BertConfig(
            vocab_size=PADDED_VOCABULARY, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
        )
        self.model = (
            transformers.BertForMaskedLM._from_config(config, attn_implementation="sdpa").cuda().train()
        )
        self.run = torch.compile(self.model) if compiled else self.model
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-6, weight_decay=0.01, fused=True)

    def speed(
        self, batches: Sequence[dict[str, torch.Tensor]], tokens: Sequence[int], warm: int, steps: int
    ) -> Speed:
        """Forward, backward, clip, step."""

        def step(number: int) -> int:
            place = number % len(batches)
            batch = {name: tensor.cuda(non_blocking=True) for name, tensor in batches[place].items()}
            with torch.autocast("cuda", torch.bfloat16):
                loss = self.run(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
            return tokens[place]

        return timed(step, warm, steps)


def take(texts: Iterator[Text], budget: int) -> list[Text]:
    """Texts of about `budget` tokens."""
    taken, size = [], 0
    for text in texts:
        if size + len(text.ids) > budget:
            break
        taken.append(text)
        size += len(text.ids)
    return taken


def full(
    parts: Sequence[np.ndarray], length: int, dropout: float, options: argparse.Namespace
) -> list[list[object]]:
    """Rows of the table for sequences of one length."""
    rng = np.random.default_rng(SEED)
    texts = full_texts(parts, length, rng)
    groups = [[next(texts) for _ in range(options.tokens // length)] for _ in range(4)]
    trainer = Ours(bert(dropout), options.tokens)
    # As `unmask pretrain` lays them out: on pages where a step is recorded and played.
    ours = [packed(group, length if trainer.trainer.graphs else None) for group in groups]
    peer = [padded(group) for group in groups]
    sizes = [sum(len(text.ids) for text in group) for group in groups]
    mine = trainer.speed(ours, options.warm, options.steps)
    work = operations(trainer.config, ours[0], len(ours[0].target_ids))
    share = work / mine.seconds / matmul_peak(trainer.machine.device, True)
    del trainer
    rows = [["unmask", length, dropout, mine, share, 1.0]]
    for name, compiled in (("transformers, compiled", True), ("transformers", False)):
        torch.cuda.empty_cache()
        speed = Peer(dropout, compiled).speed(peer, sizes, options.warm, options.steps)
        rows.append([name, length, dropout, speed, None, mine.tokens_per_s / speed.tokens_per_s])
    return rows


def mixed(
    parts: Sequence[np.ndarray], dropout: float, joined: Speed, options: argparse.Namespace
) -> list[list[object]]:
    """Rows of the table for real paragraphs in random batches; `joined` is the peer's best at full 512."""
    rng = np.random.default_rng(SEED)
    texts = (hide(parts[number], rng) for number in itertools.cycle(rng.permutation(len(parts))))
    packs = [packed(take(texts, options.tokens)) for _ in range(12)]
    mine = Ours(bert(dropout), options.tokens).speed(packs, options.warm + 8, options.steps)
    # The peer's batch has as much room as ours, and its padding takes its part of it.
    groups = [[next(texts) for _ in range(options.tokens // 512)] for _ in range(12)]
    sizes = [sum(len(text.ids) for text in group) for group in groups]
    grids = [padded(group) for group in groups]
    found = []
    for compiled in (True, False):
        torch.cuda.empty_cache()
        found.append(Peer(dropout, compiled).speed(grids, sizes, options.warm + 8, options.steps))
    best = max(found, key=lambda speed: speed.tokens_per_s)
    return [
        ["unmask, packed", "mixed", dropout, mine, None, 1.0],
        ["transformers, padded (best)", "mixed", dropout, best, None, mine.tokens_per_s / best.tokens_per_s],
        [
            "transformers, joined (best)",
            "mixed",
            dropout,
            joined,
            None,
            mine.tokens_per_s / joined.tokens_per_s,
        ],
    ]


def profile(parts: Sequence[np.ndarray], options: argparse.Namespace) -> None:
    """Where the time of our step goes, by kind of kernel."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    for length, dropout in ((512, 0.0), (128, 0.1)):
        texts = full_texts(parts, length, np.random.default_rng(SEED))
        ours = Ours(bert(dropout), options.tokens)
        page = length if ours.trainer.graphs else None
        batch = packed([next(texts) for _ in range(options.tokens // length)], page)
        ours.speed([batch], 6, 1)
        with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
            speed = ours.speed([batch], 0, 5)
        print(
            f"length {length}, dropout {dropout}: {speed.tokens_per_s:,.0f} tokens/s, {speed.seconds:.4f} s"
        )
        print(
            found.key_averages().table(sort_by="self_cuda_time_total", row_limit=28, max_name_column_width=70)
        )


def show(rows: list[list[object]]) -> str:
    """The rows as a table."""
    cells = []
    for name, length, dropout, speed, share, ratio in rows:
        assert isinstance(speed, Speed)
        peak = "" if share is None else f"{share:.0%}"
        times = "" if ratio == 1.0 else f"{ratio:.2f} ×"
        cells.append(
            [name, length, dropout, f"{speed.tokens_per_s / 1e3:,.0f}", f"{speed.memory_gb:.0f}", peak, times]
        )
    head = ["what", "length", "dropout", "k tokens/s", "GB", "of matmul peak", "unmask is"]
    return table(head, cells)


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=65_536, help="tokens of a step")
    parser.add_argument("--steps", type=int, default=8, help="steps of each of three timed rounds")
    parser.add_argument("--warm", type=int, default=6, help="steps before timing")
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.1, 0.0], help="of both sides")
    parser.add_argument("--limit-mb", type=float, default=12)
    parser.add_argument("--profile", action="store_true", help="only show where our time goes")
    options = parser.parse_args()
    need_gpu()
    parts = paragraphs(options.limit_mb)
    if options.profile:
        profile(parts, options)
    else:
        compare(parts, options)


def compare(parts: Sequence[np.ndarray], options: argparse.Namespace) -> None:
    """Run all comparisons; what is measured is written down at once."""
    rows: list[list[object]] = []
    for dropout in options.dropout:
        for length in (128, 512):
            rows += full(parts, length, dropout, options)
            write(rows, parts, options)
        if dropout:
            joined = max((row[3] for row in rows[-2:]), key=lambda speed: speed.tokens_per_s)
            rows += mixed(parts, dropout, joined, options)
            write(rows, parts, options)


def write(rows: list[list[object]], parts: Sequence[np.ndarray], options: argparse.Namespace) -> None:
    """The result as far as it goes."""
    lengths = np.array([len(part) for part in parts])
    peak = matmul_peak(torch.device("cuda", torch.cuda.current_device()), True)
    body = (
        f"{torch.cuda.get_device_name()}, matmul peak measured {peak / 1e12:.0f} TFLOP/s (8192³, bfloat16). "
        f"BERT-base, {options.tokens:,} tokens a step, three timed rounds of {options.steps} steps, median; "
        f"seed {SEED}. Paragraphs: {len(parts):,}, mean {lengths.mean():.0f} tokens, "
        f"median {np.median(lengths):.0f}, longest {lengths.max()}.\n\n{show(rows)}\n"
    )
    write_result("pretrain-gpu", "Pretraining on a GPU", body, ["torch", "transformers", "tokenizers"])


if __name__ == "__main__":
    main()
