"""Minimal pairs of your own, two models, and whether the difference could be chance.

python examples/11_evaluate_and_compare.py [MODEL] [OTHER]      # by default those of 02 and 03
"""

import json
import shutil
import sys
from itertools import product
from pathlib import Path

import unmask
from unmask.evaluation import differences

given = sys.argv[1:]
MODELS = given if len(given) == 2 else ["example-out/02/run/model", "example-out/03/run/model"]
OUT = Path("example-out/11")
SUITE = """
kind = "pairs"
about = "articles that agree with their noun"
source = "written for this example"
licence = "CC0"
files = ["artigos.jsonl"]
good = "good"
bad = "bad"
"""


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    nouns = (("do filme", "da filme"), ("da peça", "do peça"), ("do livro", "da livro"))
    pairs = [
        {"good": f"{liked} {good} porque foi {what}.", "bad": f"{liked} {bad} porque foi {what}."}
        for (good, bad), liked, what in product(nouns, ("Gostei", "Não gostei"), ("bom", "mau", "triste"))
    ]
    (OUT / "artigos.jsonl").write_text("\n".join(json.dumps(p, ensure_ascii=False) for p in pairs), "utf-8")
    (OUT / "artigos.toml").write_text(SUITE, "utf-8")

    for number, model in enumerate(MODELS):
        (result,) = unmask.evaluate(
            str(OUT / "artigos.toml"), model, out=OUT / f"scores-{number}", card=False
        )
        score = result.main
        print(f"{model}: {score.value:.2f} right (95 %: {score.low:.2f} to {score.high:.2f})")
    for suite, measures in differences(OUT / "scores-0", OUT / "scores-1").items():
        for name, found in measures.items():
            interval = f"{found.low:+.2f} to {found.high:+.2f}"
            print(f"{suite}, {name}: {found.value:+.2f} ({interval}), p = {found.p:.2f}")


if __name__ == "__main__":
    main()
