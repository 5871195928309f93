"""Go on with a model on the text of a domain, with entries added to its vocabulary.

python examples/03_continue_on_a_domain.py [MODEL]      # by default the one of 02_pretrain.py
"""

import shutil
import sys
from itertools import product
from pathlib import Path

import unmask
from unmask.config import load_recipe
from unmask.text import find_sources
from unmask.tokenizer.extend import extend

MODEL = Path(sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model")
OUT = Path("example-out/03")
WHO = ("O proprietário", "O inquilino", "A proprietária", "O fiador")
MUST = ("paga", "conserva", "entrega", "não vende")
WHAT = ("a renda", "o telhado", "o contrato", "a caução", "o jardim")
WHEN = ("antes do prazo", "depois do prazo", "todos os meses")
TRAIN = {"train.epochs": 36, "train.batch_tokens": 1024, "train.lr": 4e-3}
TEXT = ["text.documents=line", "text.min_chars=1", "prepare.valid=0.1"]


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    laws = [" ".join(words) + "." for words in product(WHO, MUST, WHAT, WHEN)]
    (OUT / "leis.txt").write_text("\n".join(laws), "utf-8")
    sources = find_sources([f"pt={OUT / 'leis.txt'}"])

    old = unmask.Tokenizer.load(MODEL)
    new = extend(old, laws, add=18)
    word = "inquilino"
    for name, tokenizer in (("before", old), ("after", new)):
        print(f"{name}: {word} is", [tokenizer.piece(n) for n in tokenizer.encode(word, special=False).ids])

    # Shards with the new vocabulary; each new row of the model starts as the mean of the pieces it replaces.
    unmask.prepare(sources, new, OUT / "shards", load_recipe("tiny-docs", TEXT), workers=1)
    result = unmask.pretrain("tiny-docs", OUT / "run", data=OUT / "shards", base=MODEL, changes=TRAIN)
    assert result.valid is not None
    print(f"{result.steps} steps, validation loss {result.valid.loss:.3f}")

    text = "O inquilino paga a [MASK] todos os meses."
    for folder in (MODEL, OUT / "run/model"):
        model = unmask.load(folder)
        assert isinstance(model, unmask.MaskedLM)
        print(f"{folder}: {[fill.words[0].text for fill in model.fill(text, top=3)]}")


if __name__ == "__main__":
    main()
