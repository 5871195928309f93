"""Questions about a text: where in it does the answer stand?

python examples/07_answer_questions.py [MODEL]      # by default the one of 02_pretrain.py
"""

import json
import shutil
import sys
from itertools import product
from pathlib import Path
from typing import Any

import unmask
from unmask.tasks.settings import FinetuneConfig

MODEL = sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model"
OUT = Path("example-out/07")
PEOPLE = ("Ana", "Pedro", "Marta", "João", "Rita")
PLACES = ("Lisboa", "Recife", "Porto", "Natal")


def paragraph(number: int, who: str, verb: str, place: str) -> dict[str, Any]:
    """A context and a question, as SQuAD writes them."""
    context = f"{who} {verb} em {place} com o gato."
    answer = {"text": place, "answer_start": context.index(place)}
    return {
        "context": context,
        "qas": [{"id": str(number), "question": f"Onde {verb} {who}", "answers": [answer]}],
    }


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    facts = product(PEOPLE, ("mora", "vive", "nasceu"), PLACES)
    paragraphs = [paragraph(number, *fact) for number, fact in enumerate(facts)]
    squad = {"version": "1.1", "data": [{"title": "casas", "paragraphs": paragraphs}]}
    (OUT / "perguntas.json").write_text(json.dumps(squad, ensure_ascii=False), "utf-8")

    settings = FinetuneConfig(lr=2e-3, epochs=8, batch=16)
    result = unmask.finetune("qa", MODEL, OUT / "perguntas.json", out=OUT / "model", settings=settings)
    print(f"{result.metric} {result.scores[result.metric]:.2f} on {result.valid_examples} held-out questions")

    model = unmask.load(OUT / "model")
    context = "Pedro nasceu em Porto e canta."  # no context of the training goes on like this
    answer = model("Onde nasceu Pedro", context)
    print(f"{answer.text!r}, characters {answer.start} to {answer.end}, {answer.score:.2f}")


if __name__ == "__main__":
    main()
