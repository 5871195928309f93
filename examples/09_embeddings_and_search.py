"""Vectors of a file, and the texts that are nearest to a query.

python examples/09_embeddings_and_search.py [MODEL]      # by default the one of 02_pretrain.py
"""

import shutil
import sys
from pathlib import Path

import numpy as np

import unmask
from unmask.analyse.neighbours import Index, add_file
from unmask.predict.bulk import embed_file

MODEL = sys.argv[1] if len(sys.argv) > 1 else "example-out/02/run/model"
OUT = Path("example-out/09")
TEXTS = """O gato dorme no telhado.
O cão correu perto do rio.
A vizinha cantava na praça.
O banco guardou o dinheiro de Ana.
Um banco emprestou o dinheiro da vizinha.
O banco de madeira ficava no jardim.
Um banco de pedra ficava na praça sob a árvore.
Marta mora em Lisboa e canta.
"""


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "textos.txt").write_text(TEXTS, "utf-8")
    model = unmask.load(MODEL)

    print(embed_file(model, OUT / "textos.txt", OUT / "textos.npy"))
    print("one row a line:", np.load(OUT / "textos.npy").shape)

    added = add_file(OUT / "index", model, OUT / "textos.txt")
    index = Index(OUT / "index", model)
    query = "O banco abriu a conta de Pedro."
    print(f"{added} texts; nearest to {query!r}:")
    for found in index.nearest([query], top=3)[0]:
        print(f"  {found.score:.3f} {found.text}")
    query = "O banco de pedra ficava no jardim."
    print(f"uses of 'banco' like that in {query!r}:")
    for found in index.nearest_uses("banco", query, top=2):
        print(f"  {found.score:.3f} {found.text}")


if __name__ == "__main__":
    main()
