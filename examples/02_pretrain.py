"""A tiny masked language model from text, in seconds on a CPU. The examples after this one start from it.

python examples/02_pretrain.py
"""

import shutil
from itertools import product
from pathlib import Path

import unmask

OUT = Path("example-out/02")
# A small world, for a small model to learn: every choice between bars, with every other.
WORLD = """
O gato|O cão|A vizinha|Pedro / dorme|correu|cantava / no telhado|na praça|no jardim|perto do rio
O filme|O livro|A peça|O concerto / foi / muito bom|muito bonito|muito mau|muito triste
Gostei|Não gostei / do filme|da peça|do livro|do concerto / porque foi / bom|bonito|mau|triste
Ana|Pedro|Marta|João|Rita / mora em|vive em|nasceu em / Lisboa|Recife|Porto|Natal / com o gato|e canta
O banco|Um banco / abriu a conta|guardou o dinheiro|emprestou o dinheiro / de Ana|da vizinha|de Pedro
O banco|Um banco / de madeira|de pedra / ficava na praça|ficava no jardim / perto do rio|sob a árvore
Onde mora|Onde vive / Ana|Pedro|Marta|João|Rita
"""
CHANGES = {
    "text.documents": "line", "text.min_chars": 1, "tokenizer.vocab_size": 230, "tokenizer.lowercase": False,
    "prepare.valid": 0.05, "model.width": 64, "model.heads": 2, "model.inner": 128, "model.init_std": 0.1,
    "train.steps": 160, "train.batch_tokens": 1024,
}  # fmt: skip


def sentences(world: str) -> list[str]:
    """Every sentence that the lines of a world stand for."""
    lines = [[part.split("|") for part in line.split(" / ")] for line in world.strip().splitlines()]
    return [" ".join(words) + "." for line in lines for words in product(*line)]


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "mundo.txt").write_text("\n".join(sentences(WORLD)), "utf-8")
    result = unmask.pretrain("tiny-docs", OUT / "run", f"pt={OUT / 'mundo.txt'}", changes=CHANGES)
    assert result.valid is not None
    print(f"{result.steps} steps, validation loss {result.valid.loss:.3f}; curves: {result.report}")

    model = unmask.load(OUT / "run/model")
    assert isinstance(model, unmask.MaskedLM)
    for text in ("O gato dorme no [MASK].", "O [MASK] guardou o dinheiro de Ana."):
        found = model.fill(text, top=3)
        print(text, "→", ", ".join(f"{fill.words[0].text} {fill.probability:.2f}" for fill in found))


if __name__ == "__main__":  # the processes that prepare text read this file too
    main()
