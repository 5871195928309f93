"""`unmask dedup`: its signatures against datasketch's on the same documents; the whole pass in MB/s and MB.

Both sides sign the same clean documents by 128 permutations over their runs of five words, on one thread.
"""

import os

os.environ["RAYON_NUM_THREADS"] = "1"  # before rensa is loaded

import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from common import arguments, clean, table, timed_run, unpack, write_result
from unmask.config import TextConfig
from unmask.text import Cleaner, find_sources, read_documents
from unmask.text.minhash import PERMUTATIONS, signatures

CORPORA = ["en/wikipedia", "en/wikinews", "pt/machado"]
SIGNED = 4000  # documents for the comparison; datasketch is slow


def sign_datasketch(texts: list[str]) -> np.ndarray:
    from datasketch import MinHash

    rows = []
    for text in texts:
        words = text.lower().split()
        shingles = {" ".join(words[i : i + 5]).encode() for i in range(max(len(words) - 4, 1))}
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch(list(shingles))
        rows.append(sketch.hashvalues)
    return np.stack(rows)


def sign_ours(texts: list[str]) -> np.ndarray:
    return np.concatenate([signatures(texts[i : i + 256]) for i in range(0, len(texts), 256)])


def nearly(text: str) -> str:
    """A near-duplicate: every twentieth word is another."""
    return " ".join("another" if i % 20 == 19 else word for i, word in enumerate(text.split()))


def measure(sign: Callable[[list[str]], np.ndarray], texts: list[str]) -> tuple[float, np.ndarray]:
    start = time.process_time()
    rows = sign(texts)
    return sum(len(text.encode()) for text in texts) / 1e6 / (time.process_time() - start), rows


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    paths = unpack(CORPORA, options.scratch, options.limit_mb)
    cleaner = Cleaner(TextConfig())
    documents = (
        cleaner(doc.text)[0] for doc in read_documents(find_sources([str(paths[0])])[0], TextConfig())
    )
    texts = list(islice(documents, SIGNED))
    pairs = [nearly(text) for text in texts[:500]]
    rows = []
    for name, sign in (("unmask (rensa)", sign_ours), ("datasketch", sign_datasketch)):
        speed, first = measure(sign, texts)
        alike = (first[:500] == sign(pairs)).mean()
        rows.append((name, f"{speed:.1f}", f"{alike:.3f}"))
    body = [
        f"Signing {len(texts):,} documents, MB per second of processor time; beside it the mean similarity"
        " that the signatures give to 500 documents and their copies with every twentieth word changed.",
        table(["signatures", "MB/s", "similarity"], rows),
        "The whole pass (read, clean, sign, compare, write), one and two workers.",
        table(["text", "workers", "seconds", "MB/s", "peak MB"], whole_pass(paths, options.scratch)),
    ]
    write_result("dedup", "Near-duplicates", "\n\n".join(body), ["rensa", "datasketch", "numpy"])
    clean(options.scratch)


def whole_pass(paths: list[Path], scratch: Path) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for files, workers in ((paths[2:], 1), (paths, 1), (paths, 2)):
        size = sum(path.stat().st_size for path in files) / 1e6
        options = ["-o", str(scratch / "out.jsonl"), "--workers", str(workers), "--quiet"]
        cost = timed_run([sys.executable, "-m", "unmask", "dedup", *map(str, files), *options])
        (scratch / "out.jsonl").unlink()  # dedup writes over nothing
        rate, peak = f"{size / cost.seconds:.1f}", f"{cost.peak_mb:.0f}"
        rows.append((f"{size:.0f} MB", workers, f"{cost.seconds:.1f}", rate, peak))
    return rows


if __name__ == "__main__":
    main()
