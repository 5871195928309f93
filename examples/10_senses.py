"""The senses of a word: its uses in a text, grouped by their vectors, and the sense of new uses.

python examples/10_senses.py [MODEL]      # by default the one of 02_pretrain.py
"""

import sys
from itertools import product

import unmask
from unmask.analyse.senses import disambiguate, find_senses, score_senses
from unmask.analyse.uses import find_uses, forms_of

MODEL = sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model"


def main() -> None:
    money = [
        f"O banco {did} {whose}."
        for did, whose in product(
            ("abriu a conta", "guardou o dinheiro", "emprestou o dinheiro"),
            ("de Ana", "da vizinha", "de Pedro"),
        )
    ]
    seats = [
        f"O banco {made} ficava {where}."
        for made, where in product(
            ("de madeira", "de pedra"), ("na praça", "no jardim", "na praça perto do rio")
        )
    ]
    model = unmask.load(MODEL)
    uses = list(find_uses([*money, *seats], forms_of("banco", "pt")))
    senses = find_senses(model, uses, "banco", count=2)
    for number, sense in enumerate(senses.senses):
        example = senses.uses[sense.examples[0]].text
        print(f"sense {number}: {sense.size} uses such as {example!r}; named {', '.join(sense.name[:3])}")

    labels = ["money"] * len(money) + ["seat"] * len(seats)
    print(f"adjusted Rand index against the labels: {score_senses(senses, labels).ari:.2f}")
    new = ["O banco abriu a conta de Rita.", "O banco de pedra ficava sob a árvore."]
    for guess in disambiguate(model, senses, list(find_uses(new, ["banco"]))):
        print(f"{guess.text} → sense {guess.sense}, margin {guess.margin:.2f}")


if __name__ == "__main__":
    main()
