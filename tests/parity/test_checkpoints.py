"""Real published weights: the same vectors and scores as the reference, and a round trip without loss."""

import importlib.util
import lzma
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from torch.nn.utils.rnn import pad_sequence

from unmask.checkpoint import load_model, save_model
from unmask.model.network import Model

HEAVY = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYC"
    "SRWGGDGFYAMDYWGQGTLVTVSS"
)
LIGHT = (
    "DIQMTQSPSSLSASVGDRVTITCRASQDVNTAVAWYQQKPGKAPKLLIYSASFLYSGVPSRFSGSRSGTDFTLTISSLQPEDFATYYCQQHYTTPP"
    "TFGQGTKVEIK"
)
CHAINS = [HEAVY, LIGHT, HEAVY[:60], LIGHT[10:30]]
RESIDUES = "ACDEFGHIKLMNPQRSTVWY"


def installed(package: str, *parts: str) -> Path:
    """A folder inside an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.origin).parent.joinpath(*parts)


@pytest.fixture(scope="module")
def sentences(data_root: Path) -> list[str]:
    """200 real sentences and paragraphs of all lengths."""
    with lzma.open(data_root / "text" / "en" / "wikinews.txt.xz", "rt", encoding="utf-8") as lines:
        texts = (line.strip() for line in lines)
        return [text for _, text in zip(range(200), filter(None, texts), strict=False)]


def pack(sequences: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    lengths = [len(ids) for ids in sequences]
    ids = torch.tensor([token for sequence in sequences for token in sequence])
    positions = torch.cat([torch.arange(length) for length in lengths])
    return ids, positions, torch.tensor([0, *lengths]).cumsum(0).int(), max(lengths)


@torch.inference_mode()
def scores_of(model: Model, sequences: list[list[int]]) -> list[torch.Tensor]:
    scores = model.mlm(model.encoder(*pack(sequences)))
    return list(scores.split([len(ids) for ids in sequences]))


@torch.inference_mode()
def reference_scores(reference: torch.nn.Module, sequences: list[list[int]]) -> list[torch.Tensor]:
    return [reference(torch.tensor([ids])).logits[0] for ids in sequences]


def assert_round_trip(model: Model, reference: transformers.PreTrainedModel, folder: Path) -> None:
    """What we write opens in the reference with exactly the weights it reads from the original."""
    save_model(model, folder)
    opened = type(reference).from_pretrained(folder)
    expected = reference.state_dict()
    assert set(opened.state_dict()) == set(expected)
    for name, tensor in opened.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    again, report = load_model(folder)
    assert not report
    for (name, ours), tensor in zip(again.named_parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, tensor), name


def test_minilm_gives_the_same_vectors_on_real_sentences(minilm: Path, sentences: list[str]) -> None:
    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)
    sequences = [encoding.ids for encoding in tokenizer.encode_batch(sentences)]
    model, report = load_model(minilm)
    assert not report
    reference = transformers.AutoModel.from_pretrained(minilm).eval()
    sequences.sort(key=len)
    with torch.inference_mode():
        inputs = pack(sequences)
        ours = model.encoder(*inputs).split([len(ids) for ids in sequences])
        for start in range(0, len(sequences), 20):
            rows = [torch.tensor(ids) for ids in sequences[start : start + 20]]
            grid = pad_sequence(rows, batch_first=True)
            theirs = reference(grid, attention_mask=(grid > 0).long()).last_hidden_state
            for i, ids in enumerate(rows):
                found, expected = ours[start + i], theirs[i, : len(ids)]
                torch.testing.assert_close(found.mean(0), expected.mean(0), atol=1e-5, rtol=1e-4)
                torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def test_minilm_round_trip(minilm: Path, tmp_path: Path) -> None:
    model, _ = load_model(minilm)
    assert_round_trip(model, transformers.AutoModel.from_pretrained(minilm), tmp_path / "model")


@pytest.mark.slow
def test_what_we_write_opens_in_sentence_transformers(minilm: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model, _ = load_model(minilm)
    save_model(model, tmp_path / "model")
    for path in minilm.iterdir():
        if path.is_dir():
            shutil.copytree(path, tmp_path / "model" / path.name)
        elif path.name not in ("config.json", "model.safetensors"):
            shutil.copy(path, tmp_path / "model" / path.name)
    texts = [
        "O rio transbordou durante a noite.",
        "A short sentence.",
        "Another one, a little longer than that.",
    ]
    expected = SentenceTransformer(str(minilm), device="cpu").encode(texts, convert_to_tensor=True)
    found = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(texts, convert_to_tensor=True)
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


@pytest.mark.parametrize("name", ["sapiens-heavy", "sapiens-light"])
def test_roberta_with_a_masked_lm_head(name: str, data_root: Path, tmp_path: Path) -> None:
    folder = data_root / "checkpoints" / name
    tokens = {residue: 4 + index for index, residue in enumerate(RESIDUES)}
    sequences = [[0, *(tokens[residue] for residue in chain), 2] for chain in CHAINS]
    sequences.append([0, *(24 if i % 7 == 3 else tokens[r] for i, r in enumerate(CHAINS[0])), 2])
    model, report = load_model(folder)
    assert not report
    reference = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    for ours, theirs in zip(scores_of(model, sequences), reference_scores(reference, sequences), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    chain = CHAINS[0] if name == "sapiens-heavy" else CHAINS[1]
    found = scores_of(model, [sequences[CHAINS.index(chain)]])[0].argmax(-1)[1:-1].tolist()
    right = sum(found[i] == tokens[residue] for i, residue in enumerate(chain))
    assert right > 0.8 * len(chain)  # a model that knows antibodies
    assert_round_trip(model, reference, tmp_path / "model")


def test_bert_with_a_masked_lm_head_out_of_a_pickle(tmp_path: Path) -> None:
    folder = installed("antiberty", "trained_models", "AntiBERTy_md_smooth")
    vocabulary = (folder.parent / "vocab.txt").read_text().split()
    tokens = {token: index for index, token in enumerate(vocabulary)}
    sequences = [[tokens["[CLS]"], *(tokens[r] for r in chain), tokens["[SEP]"]] for chain in CHAINS]
    model, report = load_model(folder, allow_pickle=True)
    assert not report.missing
    assert not report.new
    assert {name.split(".")[1] for name in report.unused} == {"species", "chain", "graft"}
    reference = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    for ours, theirs in zip(scores_of(model, sequences), reference_scores(reference, sequences), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert_round_trip(model, reference, tmp_path / "model")
