"""Scores on plain text: against a direct computation in float64, in units that no vocabulary changes."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import Heard
from typer.testing import CliRunner

from unmask.cli import app
from unmask.errors import InputError
from unmask.evaluation import evaluate
from unmask.evaluation.mlm import fitting, passages
from unmask.evaluation.results import read_items
from unmask.evaluation.suites import MlmSuite
from unmask.model.network import Model
from unmask.predict import load
from unmask.text import split_of, text_hash
from unmask.tokenizer import Tokenizer

TEXT = (
    "The blue boat came back.\n\nNobody knew why. As redes secaram ao sol.\n\nO porto dormia; a chuva, não!"
)
SUITE = MlmSuite(kind="mlm", about="a", source="s", licence="l", files=("x.txt",))


@torch.no_grad()
def test_bits_per_byte_and_perplexity_are_a_direct_computation(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text(TEXT, "utf-8")
    (result,) = evaluate(str(tmp_path / "novel.txt"), folder, tmp_path / "out", card=False)
    lm = load(folder)
    assert isinstance(lm.model, Model)
    model = lm.model.double()
    surprise = 0.0
    for text in TEXT.split("\n\n"):
        encoding = lm.tokenizer.encode(text)
        for place in np.flatnonzero(encoding.words >= 0):
            copy = encoding.ids.copy()
            copy[place:][encoding.words[place:] == encoding.words[place]] = lm.tokenizer.mask_id
            ids = torch.from_numpy(copy)[None]
            hidden = model.encoder.padded(ids, torch.ones_like(ids))[0, place : place + 1]
            surprise -= float(model.mlm(hidden).log_softmax(-1)[0, encoding.ids[place]])
    size = sum(len(text.encode()) for text in TEXT.split("\n\n"))
    words = 6 + (4 + 6) + (4 + 5)  # punctuation marks are words of their own
    assert result.scores["bits per byte"].value == pytest.approx(surprise / size / math.log(2), rel=1e-5)
    assert result.scores["perplexity per word"].value == pytest.approx(math.exp(surprise / words), rel=1e-4)


def test_hidden_tokens(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text(TEXT, "utf-8")
    (result,) = evaluate(str(tmp_path / "novel.txt"), folder, tmp_path / "out", card=False)
    items = read_items(tmp_path / "out", "novel")
    assert all(item["hidden"] == max(1, round(0.15 * item["tokens"])) for item in items)
    total = sum(item["loss"] for item in items) / sum(item["hidden"] for item in items)
    assert result.scores["loss"].value == pytest.approx(total)
    assert 0 <= result.scores["accuracy"].value <= 1
    (again,) = evaluate(str(tmp_path / "novel.txt"), folder, tmp_path / "out2", card=False)
    assert again.scores == result.scores
    (other,) = evaluate(str(tmp_path / "novel.txt"), folder, tmp_path / "out3", seed=1, card=False)
    assert other.scores["loss"].value != result.scores["loss"].value


def test_a_causal_model_has_no_hidden_tokens(
    save: Callable[..., Path], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    causal = save(
        "mlm", family="modernbert-decoder", causal=True, norm="before", position="rotary", segments=0,
        gated=True, classifier="norm", pooling="last", norm_bias=False, attention_bias=False,
        inner_bias=False, head_bias=False, scaled_init=True, norm_eps=1e-5,
        bos_id=tokenizer.cls_id, eos_id=tokenizer.sep_id,
    )  # fmt: skip
    (tmp_path / "novel.txt").write_text(TEXT, "utf-8")
    (result,) = evaluate(str(tmp_path / "novel.txt"), causal, tmp_path / "out", card=False)
    assert list(result.scores) == ["bits per byte", "perplexity per word"]


def test_passages_are_whole_sentences(tmp_path: Path) -> None:
    sentences = [f"Sentence number {number} ends here." for number in range(20)]
    (tmp_path / "x.txt").write_text(" ".join(sentences) + "\n\nAnother one.", "utf-8")
    found = list(passages(str(tmp_path / "x.txt"), SUITE.model_copy(update={"chars": 70})))
    assert " ".join(found) == " ".join([*sentences, "Another one."])
    assert all(text.count(".") in (1, 2) and len(text) <= 70 for text in found)
    assert found[-1] == "Another one."  # documents are not joined
    (tmp_path / "x.txt").write_text("word " * 50, "utf-8")
    (cut,) = passages(str(tmp_path / "x.txt"), SUITE.model_copy(update={"chars": 22}))
    assert cut == "word word word word"


def test_the_column_of_a_table_is_told(folder: Path, heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("id\ttexto\n1\tThe blue boat came back.\n", "utf-8")
    (tmp_path / "b.tsv").write_text("id\tcorpo\n1\tThe blue boat came back.\n", "utf-8")
    evaluate(str(tmp_path / "a.tsv"), folder, tmp_path / "out", card=False, progress=heard)
    assert f"{tmp_path / 'a.tsv'}: the text is taken from the column texto" in heard.said
    with pytest.raises(InputError, match="no column text, only id, corpo; name the one with the text so$"):
        evaluate(str(tmp_path / "b.tsv"), folder, tmp_path / "out", card=False)


def test_held_out_passages_are_those_of_the_test_split(tmp_path: Path) -> None:
    texts = [f"O barco número {number} voltou." for number in range(2000)]
    (tmp_path / "x.txt").write_text("\n\n".join(texts), "utf-8")
    held_out = set(passages(str(tmp_path / "x.txt"), SUITE.model_copy(update={"held_out": True})))
    assert held_out == {text for text in texts if split_of(text_hash(text), 0.005, 0.005) == 2}
    assert held_out


def test_passages_are_spread_over_the_file(folder: Path, write: Callable[..., Path], tmp_path: Path) -> None:
    text = "\n\n".join(f"The boat {number}." for number in range(50))
    suite = write('kind = "mlm"\nfiles = ["x.txt"]\nlimit = 3', x__txt=text)
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    assert result.main.items == 3


def test_nothing_to_score(folder: Path, write: Callable[..., Path], tmp_path: Path) -> None:
    suite = write('kind = "mlm"\nfiles = ["x.txt"]\nheld_out = true', x__txt="One boat.")
    with pytest.raises(InputError, match="mine: no passage to score"):
        evaluate(str(suite), folder, tmp_path / "out")


def test_passages_longer_than_the_model_are_scored_in_pieces(
    save: Callable[..., Path], tmp_path: Path
) -> None:
    text = " ".join(["The blue boat came back to the harbour before the rain"] * 5) + "\n\n" + "hb" * 45
    (tmp_path / "novel.txt").write_text(text, "utf-8")
    small = save("mlm", positions=16)
    (result,) = evaluate(str(tmp_path / "novel.txt"), small, tmp_path / "out", card=False)
    items = read_items(tmp_path / "out", "novel")
    assert [(item["words"], item["bytes"]) for item in items] == [(55, 274), (1, 90)]
    assert all(item["tokens"] > 16 and item["hidden"] > 1 for item in items)
    assert result.details["passages cut to fit the model"] == 2
    assert math.isfinite(result.main.value)


def test_pieces_are_cut_between_words(folder: Path, save: Callable[..., Path]) -> None:
    inputs = load(save("mlm", positions=16)).inputs
    words = "The nets dried in the sun for the whole afternoon, and nobody knew where the key was."
    pieces = fitting(words, inputs)
    assert len(pieces) > 1
    assert " ".join(pieces) == words
    assert all(len(encoding) <= 16 for encoding in inputs.encode(pieces))
    letters = fitting("hb" * 45, inputs)
    assert len(letters) > 1
    assert "".join(letters) == "hb" * 45
    assert fitting(words, load(folder).inputs) == [words]


def test_unknown_tokens_are_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text("The boat came back \u4e2d \u56fd here.", "utf-8")
    asked = ["evaluate", str(tmp_path / "novel.txt"), "-q", "--no-card", "-m", str(folder)]
    done = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "out")])
    (item,) = read_items(tmp_path / "out", "novel")
    assert item["unknown"] == 2
    note = f"novel: {2 / item['tokens']:.1%} of the tokens are unknown"
    assert note in done.stdout
    assert note in (tmp_path / "out" / "report.html").read_text("utf-8")
    (tmp_path / "novel.txt").write_text("The boat came back.", "utf-8")
    assert (
        "of the tokens are unknown"
        not in CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "out")]).stdout
    )
