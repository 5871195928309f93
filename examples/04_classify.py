"""Classify texts: train on labelled examples, then ask.

python examples/04_classify.py [MODEL]      # by default the one of 02_pretrain.py
"""

import csv
import shutil
import sys
from itertools import product
from pathlib import Path

import unmask
from unmask.tasks.settings import FinetuneConfig

MODEL = sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model"
OUT = Path("example-out/04")
GOOD, BAD = ("bom", "bonito"), ("mau", "triste")


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    what = ("O filme", "O livro", "A peça", "O concerto", "O jardim", "O gato")
    rows = [
        (f"{thing} {was} {word}.", "gostou" if word in GOOD else "detestou")
        for thing, was, word in product(what, ("foi muito", "era", "foi"), (*GOOD, *BAD))
    ]
    with (OUT / "opinioes.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])

    # A tenth is held out by a hash of the text; a small model takes a high rate.
    settings = FinetuneConfig(lr=3e-3, epochs=14, batch=16, patience=0)
    result = unmask.finetune("classify", MODEL, OUT / "opinioes.csv", out=OUT / "model", settings=settings)
    print(f"{result.metric} {result.scores[result.metric]:.2f} on {result.valid_examples} held-out texts")

    model = unmask.load(OUT / "model")
    for text in ("O banco foi muito bonito.", "A praça era triste."):
        best = model(text)[0]
        print(f"{text} → {best.name} {best.score:.2f}")


if __name__ == "__main__":
    main()
