"""Generation: greedy, drawn, bounded, repeatable."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from unmask.checkpoint import save_model
from unmask.errors import InputError, ModelError
from unmask.predict import MaskedLM, load
from unmask.predict.convert import convert
from unmask.predict.generate import Sampling, sample
from unmask.tokenizer import Tokenizer


def test_greedy_takes_the_likeliest(causal: MaskedLM) -> None:
    made = causal.generate("O gato", max_tokens=6, temperature=0)
    ids = list(causal.tokenizer.encode("O gato").ids[:-1])
    for _ in range(made.tokens):
        packed = causal._pack([np.array(ids)])
        ids.append(int(causal._logits(causal._encode(packed)[-1:])[0].argmax()))
    assert made.text == causal.tokenizer.decode(ids)
    assert made.text == causal.tokenizer.decode(causal.tokenizer.encode("O gato").ids) + made.new


def test_a_seed_repeats(causal: MaskedLM) -> None:
    first, again = (causal.generate("A chuva", 12, seed=3) for _ in range(2))
    assert first == again
    assert len({causal.generate("A chuva", 12, seed=seed).text for seed in range(4)}) > 1


def test_stops_at_the_last_position_and_at_the_end(causal: MaskedLM) -> None:
    made = causal.generate("O gato", max_tokens=500, seed=1)
    start = len(causal.tokenizer.encode("O gato")) - 1
    assert made.finished or made.tokens == causal.config.positions - start


def test_the_closing_token_ends_the_text(causal: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.zeros(1, causal.config.vocab_size)
    scores[0, causal.tokenizer.sep_id] = 50
    monkeypatch.setattr(causal, "_logits", lambda rows: scores)
    made = causal.generate("O gato", 10)
    assert made.finished
    assert made.tokens == 0


def test_only_what_the_tokenizer_knows_is_drawn(causal: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = causal.tokenizer.vocab_size
    scores = torch.zeros(1, entries + 30)
    scores[0, entries:] = 50
    scores[0, causal.tokenizer.sep_id] = 40
    monkeypatch.setattr(causal, "_logits", lambda rows: scores)
    assert causal.generate("O gato", 10, temperature=0).finished


def test_top_k_and_top_p_bound_the_draw() -> None:
    logits = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0])
    generator = torch.Generator().manual_seed(0)
    drawn = {sample(logits, Sampling(5.0, top_k=2), generator) for _ in range(100)}
    assert drawn == {0, 1}
    share = float(logits.softmax(0)[0])
    assert {sample(logits, Sampling(top_p=share - 0.01), generator) for _ in range(50)} == {0}
    assert {sample(logits, Sampling(top_p=share + 0.01), generator) for _ in range(200)} == {0, 1}
    assert len({sample(logits, Sampling(50.0), generator) for _ in range(300)}) == 5


@pytest.mark.parametrize(
    "options", [{"temperature": -1}, {"temperature": math.nan}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}]
)
def test_mistakes(causal: MaskedLM, options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        causal.generate("O", **options)  # type: ignore[arg-type]


def test_a_masked_model_does_not_generate(lm: MaskedLM) -> None:
    with pytest.raises(ModelError, match="fill"):
        lm.generate("O gato")


def test_a_hybrid_generates_and_fills(lm: MaskedLM, wordpiece: Tokenizer, tmp_path: Path) -> None:
    """One token at a time, each seeing only those before it: what comes later changes nothing."""
    save_model(lm.model, tmp_path / "model", wordpiece, facts={"hybrid": True})
    convert(tmp_path / "model", tmp_path / "half", "bfloat16")
    for folder in (tmp_path / "model", tmp_path / "half"):
        hybrid = load(folder, "cpu")
        assert isinstance(hybrid, MaskedLM)
        made = hybrid.generate("O gato", max_tokens=6, temperature=0)
        ids = wordpiece.encode("O gato").ids[:-1].tolist()
        for _ in range(6):
            encoded = hybrid._encode(hybrid._pack([np.array(ids)]), causal=True)
            ids.append(int(hybrid._logits(encoded)[-1].argmax()))
        whole = hybrid._logits(hybrid._encode(hybrid._pack([np.array(ids)]), causal=True))
        assert made.text == wordpiece.decode(ids)
        assert whole.argmax(-1)[-7:-1].tolist() == ids[-6:]
        assert hybrid.fill("O gato [MASK].")


@pytest.mark.parametrize("cold", [1e-40, 5e-324])
def test_what_is_nearly_no_temperature_takes_the_likeliest(causal: MaskedLM, cold: float) -> None:
    assert causal.generate("O gato", 6, temperature=cold) == causal.generate("O gato", 6, temperature=0)


@pytest.mark.parametrize("seed", [1 << 64, -(1 << 63) - 1])
def test_a_seed_has_64_bits(causal: MaskedLM, seed: int) -> None:
    with pytest.raises(InputError, match=f"the seed {seed} is too large"):
        causal.generate("O gato", seed=seed)


@pytest.mark.parametrize("ask", ["generate", "hidden", "attention"])
def test_what_cannot_cut_a_text_does_not_advise_it(causal: MaskedLM, ask: str) -> None:
    with pytest.raises(InputError, match=r"has \d+ tokens, but the model takes at most 64: shorten it$"):
        getattr(causal, ask)("O gato preto dorme. " * 20)
