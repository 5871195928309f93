"""Two texts: does the second follow from the first?

python examples/06_pair.py [MODEL]      # by default the one of 02_pretrain.py
"""

import json
import shutil
import sys
from itertools import product
from pathlib import Path

import unmask
from unmask.tasks.settings import FinetuneConfig

MODEL = sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model"
OUT = Path("example-out/06")
PEOPLE = ("Ana", "Pedro", "Marta", "João")
PLACES = ("Lisboa", "Recife", "Porto", "Natal")


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    rows = [
        {"premise": f"{who} {verb} em {place} e canta.", "hypothesis": f"{who} canta.", "label": "segue"}
        for who, verb, place in product(PEOPLE, ("mora", "vive"), PLACES)
    ] + [
        {"premise": f"{who} {verb} em {place} e canta.", "hypothesis": f"{who} dorme.", "label": "não segue"}
        for who, verb, place in product(PEOPLE, ("mora", "vive"), PLACES)
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (OUT / "pares.jsonl").write_text("\n".join(lines), "utf-8")

    settings = FinetuneConfig(lr=2e-3, epochs=8, batch=16)
    result = unmask.finetune("pair", MODEL, OUT / "pares.jsonl", out=OUT / "model", settings=settings)
    print(f"{result.metric} {result.scores[result.metric]:.2f} on {result.valid_examples} held-out pairs")

    model = unmask.load(OUT / "model")
    for second in ("Rita canta.", "Rita dorme."):
        best = model("Rita nasceu em Porto e canta.", second)[0]
        print(f"{second} {best.name} {best.score:.2f}")


if __name__ == "__main__":
    main()
