"""Prediction against the libraries people use: the same vectors, the same likeliest words."""

import lzma
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from unmask.analyse.attention import read_attention
from unmask.analyse.attribution import attribute
from unmask.config import TokenizerConfig
from unmask.predict import MaskedLM, load
from unmask.tokenizer import Tokenizer, train_tokenizer
from unmask.tokenizer.families import ROBERTA, add_special, set_template

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
ANTIBODIES = [
    "QVQLVQSGAEVKKPGASVKVSCKASGYTFTSYYMHWVRQAPGQGLEWMGIINPSGGSTSYAQKFQG",
    "EVQLLESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKG",
]


@pytest.fixture(scope="module")
def paragraphs(data_root: Path) -> list[str]:
    with lzma.open(data_root / "text" / "en" / "wikipedia.txt.xz", "rt", encoding="utf-8") as lines:
        return list(islice((line.strip() for line in lines if line.strip()), 0, 800, 4))


def test_sentence_vectors_are_the_published_ones(minilm: Path, paragraphs: list[str]) -> None:
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(minilm), device="cpu").encode(paragraphs, show_progress_bar=False)
    ours = load(minilm, "cpu").embed(paragraphs)
    assert len(paragraphs) == 200
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_eight_bits_keep_the_direction(minilm: Path, paragraphs: list[str]) -> None:
    some = paragraphs[:60]
    exact, small = load(minilm, "cpu").embed(some), load(minilm, "cpu", "int8").embed(some)
    assert (exact * small).sum(1).mean() > 0.99
    np.testing.assert_allclose(load(minilm, "cpu", "int8").embed(some[7]), small[7], atol=1e-5)


@pytest.mark.parametrize("kind", ["BertForNextSentencePrediction", "BertForPreTraining"])
def test_next_sentences_are_the_published_ones(kind: str, tmp_path: Path) -> None:
    texts = [
        "O comboio partiu tarde.",
        "Choveu toda a noite, e o rio subiu.",
        "Ninguém sabia porquê.",
        "Sim.",
    ]
    tokenizer = train_tokenizer(texts * 9, TokenizerConfig(vocab_size=90))
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=48, max_position_embeddings=64, initializer_range=0.5,
        pad_token_id=tokenizer.pad_id,
    )  # fmt: skip
    theirs = getattr(transformers, kind)(config).eval()
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    first = [one for one in texts for _ in texts]
    second = texts * len(texts)
    given = transformers.AutoTokenizer.from_pretrained(tmp_path)(
        first, second, padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        out = theirs(**given)
    scores = out.logits if kind == "BertForNextSentencePrediction" else out.seq_relationship_logits
    expected = scores.softmax(-1)[:, 0].tolist()
    assert max(expected) - min(expected) > 0.1
    ours = load(tmp_path, "cpu")
    assert isinstance(ours, MaskedLM)
    assert ours.follows(first, second) == pytest.approx(expected, abs=1e-5)
    ours.budget = 30  # in several batches
    assert ours.follows(first, second) == pytest.approx(expected, abs=1e-5)
    assert ours.follows(first[1], second[1]) == pytest.approx(expected[1], abs=1e-5)


@pytest.fixture(scope="module")
def residues() -> Tokenizer:
    """The antibody alphabet: one letter, one token; `<mask>` comes last."""
    letters = [ROBERTA.cls, ROBERTA.pad, ROBERTA.sep, ROBERTA.unk, *RESIDUES, ROBERTA.mask]
    backend = Backend(models.BPE({letter: n for n, letter in enumerate(letters)}, [], unk_token=ROBERTA.unk))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    add_special(backend, ROBERTA)
    set_template(backend, ROBERTA)
    return Tokenizer(backend, ROBERTA)


@pytest.mark.parametrize("name", ["sapiens-heavy", "sapiens-light"])
def test_fill_and_score_of_a_real_checkpoint(data_root: Path, residues: Tokenizer, name: str) -> None:
    from transformers import AutoModelForMaskedLM

    folder = data_root / "checkpoints" / name
    lm = load(folder, "cpu", tokenizer=residues)
    assert isinstance(lm, MaskedLM)
    theirs = AutoModelForMaskedLM.from_pretrained(folder).eval()
    for sequence in ANTIBODIES:
        hidden = f"{sequence[:30]}<mask>{sequence[31:]}"
        ids = residues.encode(hidden).ids
        with torch.no_grad():
            logits = theirs(torch.from_numpy(ids)[None]).logits[0]
        place = list(ids).index(residues.mask_id)
        expected = logits[place].log_softmax(-1)
        expected[list(residues.special_ids)] = -torch.inf
        best = expected.topk(5)
        fills = lm.fill(hidden)
        assert [fill.words[0].text for fill in fills] == [residues.piece(int(i)) for i in best.indices]
        assert [fill.probability for fill in fills] == pytest.approx(best.values.exp().tolist(), abs=1e-5)
        assert fills[0].text == hidden.replace("<mask>", fills[0].words[0].text)

        score = lm.score(sequence, "token")
        whole = torch.from_numpy(residues.encode(sequence).ids)
        copies = whole.repeat(len(sequence), 1)
        copies[torch.arange(len(sequence)), torch.arange(1, len(sequence) + 1)] = residues.mask_id
        with torch.no_grad():
            logs = theirs(copies).logits.log_softmax(-1)
        truth = [float(logs[n, n + 1, whole[n + 1]]) for n in range(len(sequence))]
        assert [token.log_probability for token in score.tokens] == pytest.approx(truth, abs=1e-4)
        assert [token.piece for token in score.tokens] == list(sequence)


@pytest.mark.parametrize("name", ["sapiens-heavy", "sapiens-light"])
def test_attention_and_attribution_of_a_real_checkpoint(
    data_root: Path, residues: Tokenizer, name: str
) -> None:
    from transformers import AutoModel

    folder = data_root / "checkpoints" / name
    lm = load(folder, "cpu", tokenizer=residues)
    assert isinstance(lm, MaskedLM)
    theirs = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    for sequence in ANTIBODIES:
        maps = read_attention(lm, sequence)
        with torch.no_grad():
            seen = theirs(torch.from_numpy(residues.encode(sequence).ids)[None], output_attentions=True)
        np.testing.assert_allclose(maps.weights, torch.cat(seen.attentions).numpy(), atol=1e-5)
        np.testing.assert_allclose(maps.rollout.sum(1), 1, atol=1e-6)
        found = attribute(lm, f"{sequence[:30]}<mask>{sequence[31:]}")
        assert found.complete
        assert found.steps <= 64
