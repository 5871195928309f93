"""A vocabulary and token shards from raw text.

python examples/01_vocabulary_and_shards.py
"""

import shutil
from itertools import product
from pathlib import Path

import unmask
from unmask.config import load_recipe
from unmask.data.batches import Batches
from unmask.data.plan import Position
from unmask.data.shards import Corpus
from unmask.text import find_sources

OUT = Path("example-out/01")
CHANGES = """tokenizer.vocab_size=100 text.documents=line
prepare.valid=0.1 prepare.test=0.05 batch.length=32"""


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)

    # A line is a document here; your text may be folders of .txt, .jsonl, .csv or .parquet, compressed too.
    who = ("O gato", "A gatinha", "O cão", "A vizinha", "O pescador")
    does = ("dorme", "correu", "esperava", "cantava")
    where = ("no telhado", "na praça", "perto do rio", "sob a ponte")
    sentences = [" ".join(words) + "." for words in product(who, does, where)]
    (OUT / "livro.txt").write_text("\n".join(sentences), "utf-8")

    recipe = load_recipe(None, CHANGES.split())
    tokenizer = unmask.train_tokenizer(sentences, recipe.tokenizer)
    tokenizer.save(OUT / "vocab")
    encoding = tokenizer.encode("A gatinha dormia.")
    print("pieces:", [tokenizer.piece(number) for number in encoding.ids])
    print("words: ", encoding.words.tolist(), "(which word each piece belongs to)")

    sources = find_sources([f"pt={OUT / 'livro.txt'}"])
    manifest = unmask.prepare(sources, tokenizer, OUT / "shards", recipe, workers=1)
    for split in ("train", "valid", "test"):
        print(f"{split}: {manifest['splits'][split]['documents']} documents")

    # What training reads: sequences packed end to end, 15 % of the tokens to be predicted.
    batches = Batches(Corpus.open(OUT / "shards"), recipe.batch, seed=1)
    batch, position = next(iter(batches.steps(Position(), units_per_step=4)))
    first = batch.ids[: batch.cu_seqlens[1]]
    print("a sequence as the model sees it:", tokenizer.decode(first.numpy(), special=True))
    print(f"{len(batch.ids)} tokens, {len(batch.target_ids)} of them to predict; next: {position}")


if __name__ == "__main__":  # the processes that prepare text read this file too
    main()
