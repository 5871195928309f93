"""Senses found in real text, scored against labels given by hand (`senses/*.tsv`).

A row is a source, the character at which the word begins in it, and its sense there; the sentences are found
again in the data. Uses that fit none of a word's senses (verbs, names) were left out when labelling. Without
--model, mini-pt is asked about the Portuguese word, mini-en about the English ones, MiniLM about all.
"""

import csv
import lzma
import re
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from common import RESULTS, ROOT, arguments, data_root, minilm, table, write_result

if TYPE_CHECKING:
    from unmask.analyse.uses import Use

LABELS = ROOT / "benchmarks" / "senses"
PORTUGUESE = "banco"
HEAD = [
    "model", "word", "layer", "senses", "uses", "found", "ARI", "V", "purity", "ARI, number given", "names",
    "nearest sense", "commonest sense",
]  # fmt: skip


@cache
def source_text(name: str) -> str:
    with lzma.open(data_root() / "text" / f"{name}.txt.xz", "rt", encoding="utf-8") as file:
        return file.read()


def find_again(name: str, offset: int, word: str) -> "Use":
    """The use that begins at a character of a source, in its sentence."""
    from unmask.analyse.uses import Use
    from unmask.text import sentence_starts

    text = source_text(name)
    first = text.rfind("\n", 0, offset) + 1
    paragraph = text[first : text.find("\n", offset)]
    starts = [*sentence_starts(paragraph), len(paragraph)]
    start, end = next((a, b) for a, b in pairwise(starts) if a <= offset - first < b)
    found = re.compile(rf"{word}s?\b", re.IGNORECASE).match(paragraph, offset - first)
    if found is None:
        sys.exit(f"{name} has no {word} at {offset}: it is not the text that was labelled")
    return Use(paragraph[start:end], found.start() - start, found.end() - start)


def read_labels(word: str) -> tuple[list, list[str]]:
    with (LABELS / f"{word}.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    uses = [find_again(row["source"], int(row["offset"]), word) for row in rows]
    return uses, [row["sense"] for row in rows]


def nearest_sense(model, word: str, layer: int | str) -> float:
    """Share of the uses whose sense is that of the nearest labelled centre, made without the use itself."""
    from unmask.analyse.clusters import near_their_own
    from unmask.analyse.intrinsic import unit
    from unmask.analyse.senses import as_word
    from unmask.analyse.uses import embed_uses

    uses, labels = read_labels(word)
    vectors = unit(embed_uses(model, [as_word(use, word) for use in uses], layer))
    return float(near_their_own(vectors, labels).mean())


def label_map(title: str, found, labels: list[str]):
    """The uses of a word, in the colour of the sense that was given by hand."""
    from unmask.charts import scatter

    spots = list(zip(found.uses, labels, strict=True))
    groups = {
        label: [(use.x, use.y, f"{label}, found as {use.sense + 1}") for use, mine in spots if mine == label]
        for label in sorted(set(labels))
    }
    return scatter(title, "colour: sense by hand; place: vectors", groups)


def score(model, name: str, word: str, layer: int | str) -> tuple:
    """A row of the table, and a map."""
    from unmask.analyse.senses import find_senses, score_senses

    uses, labels = read_labels(word)
    free = find_senses(model, uses, word, layer=layer)
    given = find_senses(model, uses, word, count=len(set(labels)), layer=layer)
    scores = score_senses(free, labels)
    names = "; ".join(", ".join(sense.name[:3]) for sense in given.senses if sense.name) or "–"
    row = (
        name, word, layer, len(set(labels)), len(uses), len(free.senses), f"{scores.ari:.2f}",
        f"{scores.v_measure:.2f}", f"{scores.purity:.2f}", f"{score_senses(given, labels).ari:.2f}", names,
        f"{nearest_sense(model, word, layer):.2f}",
        f"{Counter(labels).most_common(1)[0][1] / len(labels):.2f}",
    )  # fmt: skip
    return row, label_map(f"{word}, {name}", free, labels)


def by_layer(model, name: str, word: str) -> tuple:
    """A row of the second table."""
    layers = range(1, model.config.layers + 1)
    return name, word, *(f"{nearest_sense(model, word, layer):.2f}" for layer in layers)


def find_models(given: list[Path], words: list[str]) -> dict[str, tuple[Path, list[str]]]:
    """Names, folders, and the words that each is asked about."""
    if given:
        return {folder.name: (folder, words) for folder in given}
    own = {"pt": [w for w in words if w == PORTUGUESE], "en": [w for w in words if w != PORTUGUESE]}
    ours = {f"mini-{language}": (Path(f"mini-{language}"), mine) for language, mine in own.items() if mine}
    return ours | {"all-MiniLM-L6-v2": (minilm(), words)}


def main() -> None:
    from unmask import load
    from unmask.charts import side_by_side

    words = sorted(path.stem for path in LABELS.glob("*.tsv"))
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, action="append", default=[])
    parser.add_argument("--word", choices=words, action="append", help="by default every one")
    parser.add_argument("--layer", action="append", help="-1, last4 (the default: both), 5 …")
    options = parser.parse_args()
    layers = [int(layer) if layer != "last4" else layer for layer in options.layer or ["-1", "last4"]]
    found, deep = [], []
    for name, (folder, mine) in find_models(options.model, options.word or words).items():
        model = load(folder, "cpu")
        found += [score(model, name, word, layer) for word in mine for layer in layers]
        deep += [by_layer(model, name, word) for word in mine]
    body = (
        "`found`: the number of senses chosen by silhouette, whose scores follow; then with as many as there"
        " are labels, and what names them. `nearest sense`: the share of uses whose sense is that of the"
        " nearest labelled centre, each left out of its own; `commonest sense`: the share of always saying"
        " that one.\n\n"
    )
    body += table(HEAD, [row for row, _ in found])
    most = max(map(len, deep)) - 2
    body += "\n\nNearest sense by layer:\n\n"
    body += table(
        ["model", "word", *map(str, range(1, most + 1))],
        [row + ("",) * (most + 2 - len(row)) for row in deep],
    )
    body += "\n\n![Maps of the first layer asked for](senses.svg)"
    write_result("senses", "Senses against labels by hand", body, ["torch", "scikit-learn"])
    (RESULTS / "senses.svg").write_text(
        side_by_side([drawn for _, drawn in found[:: len(layers)]], 4), "utf-8"
    )


if __name__ == "__main__":
    main()
