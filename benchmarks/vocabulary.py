"""Training WordPiece and Unigram on Portuguese: time, memory, and fit against BERTimbau's vocabulary.

Each vocabulary is trained by the command line in a process of its own. Fit is measured on paragraphs that
were held out by their hash, and on a text of another kind that ours were not trained on.
"""

import sys
from pathlib import Path

from common import Cost, arguments, clean, data_root, table, timed_run, unpack, write_result
from unmask.config import TextConfig
from unmask.text import find_sources, read_documents, split_of, text_hash
from unmask.tokenizer import Tokenizer
from unmask.tokenizer.build import measure_tokenizer
from unmask.tokenizer.report import split_word

PORTUGUESE = ("pt/parlamento", "pt/romances", "pt/senado", "pt/machado")
OTHER = "pt-research/dhbb"
WORDS = ("gatinho", "cãozinho", "correndo", "rapidamente")
HELD_OUT = 0.01


def separate(paths: list[Path], train: Path, held: Path) -> None:
    """Write a stable hundredth of the paragraphs to one file and the rest to another."""
    with train.open("w", encoding="utf-8") as most, held.open("w", encoding="utf-8") as few:
        for source in find_sources([str(path) for path in paths]):
            for paragraph in read_documents(source, TextConfig(documents="line")):
                chosen = few if split_of(text_hash(paragraph.text), HELD_OUT, 0.0) else most
                chosen.write(paragraph.text + "\n\n")


def train(kind: str, vocab_size: int, text: Path, out: Path) -> Cost:
    wanted = ["--kind", kind, "--vocab-size", str(vocab_size)]
    return timed_run(
        [sys.executable, "-m", "unmask", "tokenizer", f"pt={text}", "-o", str(out), "-q", *wanted]
    )


def main() -> None:
    parser = arguments((__doc__ or "").splitlines()[0])
    parser.add_argument("--vocab-size", type=int, default=32_000)
    options = parser.parse_args()
    scratch = options.scratch / "vocabulary"
    share = options.limit_mb / len(PORTUGUESE)
    paths = [path for name in PORTUGUESE for path in unpack([name], scratch / "text", share)]
    separate(paths, scratch / "train.txt", scratch / "held.txt")
    size = (scratch / "train.txt").stat().st_size / 1e6
    (other,) = unpack([OTHER], scratch / "other", min(options.limit_mb, 10))

    costs = []
    tokenizers = {}
    for kind in ("wordpiece", "unigram"):
        cost = train(kind, options.vocab_size, scratch / "train.txt", scratch / kind)
        costs.append([kind, f"{cost.seconds:.0f}", f"{cost.core_seconds:.0f}", f"{cost.peak_mb:.0f}"])
        tokenizers[f"ours, {kind}"] = Tokenizer.load(scratch / kind)
    tokenizers["BERTimbau, wordpiece"] = Tokenizer.load(data_root() / "vocab" / "bertimbau")

    fits = []
    for text, path in (("held out", scratch / "held.txt"), ("dictionary", other)):
        for name, tokenizer in tokenizers.items():
            report = measure_tokenizer(tokenizer, find_sources([f"pt={path}"]), TextConfig())
            (fit,) = report.languages.values()
            figures = [f"{fit.tokens_per_word:.3f}", f"{fit.bytes_per_token:.3f}"]
            shares = [f"{fit.unknown:.3%}", f"{fit.whole:.1%}"]
            fits.append([text, name, f"{tokenizer.vocab_size:,}", f"{fit.words:,}", *figures, *shares])

    splits = [
        [word, *(" ".join(split_word(tokenizer, word)) for tokenizer in tokenizers.values())]
        for word in WORDS
    ]
    body = "\n\n".join(
        [
            f"{size:.0f} MB of Portuguese, {options.vocab_size:,} entries; cleaning, training and the report "
            "included. Unigram learns from a sample of at most 50 MB of it. "
            "Core seconds are those of all cores together and vary less on a shared machine.",
            table(["kind", "seconds", "core seconds", "peak memory, MB"], costs),
            "Fit on text that ours were not trained on; a word is a run of letters and digits, or one sign.",
            table(
                ["text", "vocabulary", "entries", "words", "tokens/word", "bytes/token", "unknown", "whole"],
                fits,
            ),
            table(["word", *tokenizers], splits),
        ]
    )
    write_result("vocabulary", "Training a vocabulary", body, ["unmask", "tokenizers", "sentencepiece"])
    clean(scratch)


if __name__ == "__main__":
    main()
