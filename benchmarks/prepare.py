"""`unmask prepare`, end to end, against the tokenizer library alone and against `datasets.map`.

All sides get the same uncompressed text, the same vocabulary and the same number of threads, each in a
process of its own, one after the other in one run. Ours reads, cleans, deduplicates, splits, finds sentences,
encodes, writes and checks; its start is counted, as is theirs.
"""

import argparse
import os
import sys
from pathlib import Path

from common import Cost, arguments, clean, data_root, table, timed_run, unpack, write_result

PORTUGUESE = ["pt/parlamento", "pt/romances", "pt/machado", "pt/senado", "pt-research/dhbb"]
ENGLISH = ["en/gutenberg", "en/wikipedia", "en/wikinews"]
ENGLISH += [
    f"en-research/babylm_{part}"
    for part in ("childes", "open_subtitles", "gutenberg", "simple_wiki", "bnc_spoken")
]
CORES = len(os.sched_getaffinity(0))
OURS = "unmask prepare, the whole pipeline"
SIDES = {
    "batch": "tokenizers encode_batch alone",
    "fast": "tokenizers encode_batch_fast alone",
    "datasets": "datasets.map",
}


def encode_alone(paths: list[Path], vocabulary: Path, fast: bool) -> None:
    from unmask.tokenizer import Tokenizer

    backend = Tokenizer.load(vocabulary).backend
    encode = backend.encode_batch_fast if fast else backend.encode_batch
    lines = [line for path in paths for line in path.read_text("utf-8").split("\n") if line]
    for at in range(0, len(lines), 10_000):  # the results of one call at a time are in memory
        encode(lines[at : at + 10_000], add_special_tokens=False)


def map_datasets(paths: list[Path], vocabulary: Path, cache: Path) -> None:
    import datasets
    from transformers import AutoTokenizer

    from unmask.tokenizer import Tokenizer

    Tokenizer.load(vocabulary).save(cache / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(cache / "tokenizer")
    tokenizer.model_max_length = int(1e30)
    datasets.disable_progress_bars()
    files = [str(path) for path in paths]
    data = datasets.load_dataset("text", data_files=files, split="train", cache_dir=str(cache))
    data.map(
        lambda rows: tokenizer(rows["text"], add_special_tokens=False, return_attention_mask=False),
        batched=True, num_proc=CORES, remove_columns=["text"],
    )  # fmt: skip


def run_ours(paths: list[Path], vocabulary: Path, out: Path) -> Cost:
    clean(out)
    command = [sys.executable, "-m", "unmask", "prepare", *map(str, paths)]
    return timed_run([*command, "-t", str(vocabulary), "-o", str(out), "-q"])


def run_side(side: str, options: argparse.Namespace) -> Cost:
    limits = ["--limit-mb", str(options.limit_mb), "--scratch", str(options.scratch)]
    return timed_run([sys.executable, __file__, "--side", side, *limits])


def compare(paths: list[Path], vocabulary: Path, options: argparse.Namespace) -> str:
    size = sum(path.stat().st_size for path in paths) / 1e6
    costs = {OURS: [run_ours(paths, vocabulary, options.scratch / "out")]}
    for side, name in SIDES.items():
        costs[name] = [run_side(side, options)]
        clean(options.scratch / "cache")
    costs[OURS].append(run_ours(paths, vocabulary, options.scratch / "out"))
    seconds = {name: sum(c.seconds for c in each) / len(each) for name, each in costs.items()}
    core = {name: sum(c.core_seconds for c in each) / len(each) for name, each in costs.items()}
    rows = [
        [
            name,
            ", ".join(f"{cost.seconds:.0f}" for cost in each),
            f"{size / seconds[name]:.2f}",
            f"{seconds[name] / seconds[OURS]:.2f} ×",
            f"{core[name]:.0f}",
            f"{core[name] / core[OURS]:.2f} ×",
            f"{max(cost.peak_mb for cost in each):.0f}",
        ]
        for name, each in costs.items()
    ]
    head = ["side", "seconds", "MB/s", "unmask is", "core seconds", "unmask is", "peak memory, MB"]
    about = (
        f"{size:.0f} MB of Portuguese, BERTimbau's WordPiece vocabulary, {CORES} threads or processes each."
    )
    return f"{about}\n\n{table(head, rows)}"


def memory(vocabulary: Path, options: argparse.Namespace) -> str:
    rows = []
    for limit in (50, 500):
        paths = unpack(PORTUGUESE + ENGLISH, options.scratch / "more", min(limit, options.limit_mb))
        size = sum(path.stat().st_size for path in paths) / 1e6
        cost = run_ours(paths, vocabulary, options.scratch / "out")
        rows.append(
            [f"{size:.0f}", f"{cost.seconds:.0f}", f"{size / cost.seconds:.2f}", f"{cost.peak_mb:.0f}"]
        )
    return table(["text, MB", "seconds", "MB/s", "peak memory of all processes, MB"], rows)


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=["speed", "memory"], help="one of the two parts")
    options = parser.parse_args()
    vocabulary = data_root() / "vocab" / "bertimbau" / "vocab.txt"
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    text = options.scratch / "text"
    if options.side:
        paths = sorted(text.glob("*.txt"))
        if options.side == "datasets":
            map_datasets(paths, vocabulary, options.scratch / "cache")
        else:
            encode_alone(paths, vocabulary, options.side == "fast")
        return
    clean(options.scratch)
    packages = ["unmask", "tokenizers", "datasets", "pyarrow"]
    if options.only != "memory":
        body = compare(sorted(unpack(PORTUGUESE, text, options.limit_mb)), vocabulary, options)
        write_result("prepare", "Preparing a corpus", body, packages)
    if options.only != "speed":
        write_result("prepare-memory", "Preparing a corpus: memory", memory(vocabulary, options), packages)
    clean(options.scratch)


if __name__ == "__main__":
    main()
