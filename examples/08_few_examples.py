"""Few labelled examples: which way of using a pretrained model gets furthest with them?

python examples/08_few_examples.py [MODEL]      # by default the one of 02_pretrain.py
"""

import shutil
import sys
from itertools import product
from pathlib import Path

import unmask
from unmask.tasks.examples import TextExample
from unmask.tasks.settings import FewshotConfig

MODEL = sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model"
OUT = Path("example-out/08")
SETTINGS = FewshotConfig(
    sizes=(2, 4),
    seeds=1,
    steps=15,
    prompt="{text} Foi muito [MASK].",
    words=("gostou=bom", "detestou=mau"),
)


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    things, reasons = ("do filme", "da peça", "do livro", "do concerto"), ("porque foi", "pois era")
    examples = [
        TextExample(f"{liked} {thing} {reason} {word}.", target=target)
        for liked, target, words in (
            ("Gostei", "gostou", ("bom", "bonito")),
            ("Não gostei", "detestou", ("mau", "triste")),
        )
        for thing, reason, word in product(things, reasons, words)
    ]
    result = unmask.fewshot(MODEL, examples[::2], examples[1::2], OUT, SETTINGS)
    print(f"always the commonest class: {result.commonest:.2f}")
    for point in result.points:
        print(f"{point.method:6} with {point.size} examples of each class: {result.metric} {point.mean:.2f}")
    print(f"table and curve: {OUT / 'report.html'}")


if __name__ == "__main__":
    main()
