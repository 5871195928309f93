"""`unmask prepare`, end to end, against the tokenizer library alone and against `datasets.map`.

The three sides get the same uncompressed text, the same vocabulary and the same number of threads, one after
the other in one run. Ours reads, cleans, deduplicates, splits, finds sentences, encodes, writes and checks.
"""

import os
import sys
import time
from pathlib import Path

from common import arguments, clean, data_root, table, timed_run, unpack, write_result

PORTUGUESE = ["pt/parlamento", "pt/romances", "pt/machado", "pt/senado", "pt-research/dhbb"]
ENGLISH = ["en/gutenberg", "en/wikipedia", "en/wikinews", "en-research/babylm_childes"]
CORES = len(os.sched_getaffinity(0))


def read_lines(paths: list[Path]) -> list[str]:
    return [line for path in paths for line in path.read_text("utf-8").split("\n") if line]


def time_encode_batch(lines: list[str], vocabulary: Path, fast: bool) -> float:
    from unmask.tokenizer import Tokenizer

    backend = Tokenizer.load(vocabulary).backend
    encode = backend.encode_batch_fast if fast else backend.encode_batch
    start = time.perf_counter()
    for at in range(0, len(lines), 10_000):  # the results of one call at a time are in memory
        encode(lines[at : at + 10_000], add_special_tokens=False)
    return time.perf_counter() - start


def time_datasets(paths: list[Path], vocabulary: Path, cache: Path) -> float:
    import datasets
    from transformers import AutoTokenizer

    from unmask.tokenizer import Tokenizer

    Tokenizer.load(vocabulary).save(cache / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(cache / "tokenizer")
    tokenizer.model_max_length = int(1e30)
    datasets.disable_progress_bars()
    start = time.perf_counter()
    files = [str(path) for path in paths]
    data = datasets.load_dataset("text", data_files=files, split="train", cache_dir=str(cache))
    data.map(
        lambda rows: tokenizer(rows["text"], add_special_tokens=False, return_attention_mask=False),
        batched=True, num_proc=CORES, remove_columns=["text"],
    )  # fmt: skip
    return time.perf_counter() - start


def ours(paths: list[Path], vocabulary: Path, out: Path) -> tuple[float, float]:
    clean(out)
    return timed_run(
        [sys.executable, "-m", "unmask", "prepare", *map(str, paths), "-t", str(vocabulary), "-o", str(out), "-q"]
    )


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    scratch, vocabulary = options.scratch, data_root() / "vocab" / "bertimbau" / "vocab.txt"
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    paths = unpack(PORTUGUESE, scratch / "text", options.limit_mb)
    size = sum(path.stat().st_size for path in paths) / 1e6
    lines = read_lines(paths)

    results: dict[str, list[float]] = {}
    seconds, memory = ours(paths, vocabulary, scratch / "out")
    results["unmask prepare (whole pipeline)"] = [seconds]
    results["tokenizers encode_batch"] = [time_encode_batch(lines, vocabulary, fast=False)]
    results["tokenizers encode_batch_fast"] = [time_encode_batch(lines, vocabulary, fast=True)]
    del lines
    results["datasets.map"] = [time_datasets(paths, vocabulary, scratch / "cache")]
    again, _ = ours(paths, vocabulary, scratch / "out")
    results["unmask prepare (whole pipeline)"].append(again)
    clean(scratch / "cache")

    rate = {name: size / (sum(times) / len(times)) for name, times in results.items()}
    mine = rate["unmask prepare (whole pipeline)"]
    rows = [
        [name, ", ".join(f"{s:.1f}" for s in results[name]), f"{value:.2f}", f"{mine / value:.2f} ×"]
        for name, value in rate.items()
    ]
    body = f"{size:.0f} MB of Portuguese, BERTimbau's WordPiece vocabulary, {CORES} threads or processes.\n\n"
    body += table(["side", "seconds", "MB/s", "unmask is"], rows)

    body += f"\n\nPeak resident memory of all processes: {memory:.0f} MB at {size:.0f} MB of text.\n\n"
    sizes = []
    for limit in (50, 500):
        some = unpack(PORTUGUESE + ENGLISH, scratch / "text", min(limit, options.limit_mb))
        mb = sum(path.stat().st_size for path in some) / 1e6
        seconds, memory = ours(some, vocabulary, scratch / "out")
        sizes.append([f"{mb:.0f}", f"{seconds:.1f}", f"{mb / seconds:.2f}", f"{memory:.0f}"])
    body += table(["text, MB", "seconds", "MB/s", "peak memory, MB"], sizes)
    write_result("prepare", "Preparing a corpus", body, ["unmask", "tokenizers", "datasets", "pyarrow"])
    clean(scratch)


if __name__ == "__main__":
    main()
