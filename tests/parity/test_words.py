"""Word vectors against `transformers`: the mean of the pieces whose characters lie in the word."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from unmask.predict import load
from unmask.predict.bulk import embed_file
from unmask.predict.parts import EmbedSettings

TEXTS = [
    "The lighthouse-keeper's daughter misremembered everything, unfortunately.",
    "O pescador desembarcou no cais às 5h30, encharcado e tiritante.",
    "Antidisestablishmentarianism isn't  a word    one whispers.",
]


def test_a_word_is_the_mean_of_its_pieces(minilm: Path, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    embed_file(
        load(minilm, "cpu"), tmp_path / "texts.txt", tmp_path / "w.parquet", EmbedSettings("word", "all")
    )
    table = pq.read_table(tmp_path / "w.parquet").to_pylist()
    tokenizer, model = AutoTokenizer.from_pretrained(minilm), AutoModel.from_pretrained(minilm).eval()
    several = 0
    for number, text in enumerate(TEXTS):
        given = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = given.pop("offset_mapping")[0].numpy()
        with torch.no_grad():
            states = torch.cat(model(**given, output_hidden_states=True).hidden_states).numpy()
        rows = [row for row in table if row["number"] == number]
        assert "".join(row["word"] for row in rows) == "".join(text.split())
        for row in rows:
            inside = (
                (offsets[:, 0] >= row["start"])
                & (offsets[:, 1] <= row["end"])
                & (offsets[:, 0] < offsets[:, 1])
            )
            several += inside.sum() > 1
            assert inside.any()
            assert text[row["start"] : row["end"]] == row["word"]
            for layer in range(7):
                np.testing.assert_allclose(row[f"vector_{layer}"], states[layer, inside].mean(0), atol=1e-5)
    assert several > 6
