"""Tag words: names of people and places, from a CoNLL file.

python examples/05_tag.py [MODEL]      # by default the one of 02_pretrain.py
"""

import shutil
import sys
from itertools import product
from pathlib import Path

import unmask
from unmask.tasks.settings import FinetuneConfig

MODEL = sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model"
OUT = Path("example-out/05")
PEOPLE = ("Ana", "Pedro", "Marta", "João")
PLACES = ("Lisboa", "Recife", "Porto", "Natal")


def tagged(person: str, verb: str, place: str) -> str:
    """One sentence, a word and its tag a line."""
    words = [(person, "B-PER"), (verb, "O"), ("em", "O"), (place, "B-LOC"), (".", "O")]
    return "".join(f"{word} {tag}\n" for word, tag in words)


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    examples = [tagged(*words) for words in product(PEOPLE, ("mora", "vive", "nasceu"), PLACES)]
    plain = product("OA", ("gato", "cão", "vizinha"), ("dorme", "canta"), ("na praça", "no jardim"))
    examples += ["".join(f"{word} O\n" for word in " ".join([*words, "."]).split()) for words in plain]
    (OUT / "nomes.conll").write_text("\n".join(examples), "utf-8")

    settings = FinetuneConfig(lr=2e-3, epochs=8, batch=8)
    result = unmask.finetune("tag", MODEL, OUT / "nomes.conll", out=OUT / "model", settings=settings)
    print(f"{result.metric} {result.scores[result.metric]:.2f} on {result.valid_examples} held-out sentences")

    model = unmask.load(OUT / "model")
    text = "Rita nasceu em Recife e canta no jardim."  # Rita is in no example
    for entity in model(text):
        print(
            f"{entity.label} {entity.text!r}, characters {entity.start} to {entity.end}, {entity.score:.2f}"
        )
    print([label.name for label in model([["Pedro", "vive", "em", "Natal", "."]])[0]])


if __name__ == "__main__":
    main()
