"""What decided a fill: known answers, captum's, and the sums that must come out."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.analyse import attribution
from unmask.analyse.attention_page import summary
from unmask.analyse.attribution import attribute, fills, integrated_gradients
from unmask.config import ModelConfig, TokenizerConfig
from unmask.errors import InputError, ModelError
from unmask.model.network import Model
from unmask.predict import MaskedLM
from unmask.predict.quantise import quantise
from unmask.tokenizer import Tokenizer, train_tokenizer

Make = Callable[..., MaskedLM]
TEXT = "O gato [MASK] no telhado da casa velha."


@pytest.fixture(scope="module")
def lm(make_lm: Make) -> MaskedLM:
    return make_lm()


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def test_of_a_linear_score_each_token_gets_its_own_term() -> None:
    inputs, baseline, slope = random(5, 3), random(5, 4)[:, :3], random(5, 6)[:, :3]
    found = integrated_gradients(lambda x: (x * slope).sum((1, 2)), inputs, baseline, 1)
    np.testing.assert_allclose(found, (slope * (inputs - baseline)).sum(1).numpy(), atol=1e-12)


def test_of_a_square_the_way_is_halved_between_its_ends() -> None:
    """For (w·x)² the gradient along the way is 2w times its value there, whose mean is that of both ends."""
    inputs, baseline, slope = random(4, 3), random(4, 5)[:, :3], random(4, 7)[:, :3]
    found = integrated_gradients(lambda x: (x * slope).sum((1, 2)) ** 2, inputs, baseline, 2)
    ends = (slope * inputs).sum() + (slope * baseline).sum()
    np.testing.assert_allclose(found, ((slope * (inputs - baseline)).sum(1) * ends).numpy(), atol=1e-12)


def test_batches_change_nothing() -> None:
    inputs, baseline = random(4, 3), random(4, 5)[:, :3]
    whole, parts = (
        integrated_gradients(lambda x: x.sin().prod(1).sum(1), inputs, baseline, 9, budget)
        for budget in (1000, 1)
    )
    np.testing.assert_allclose(whole, parts, atol=1e-12)


def test_it_is_what_captum_finds(lm: MaskedLM) -> None:
    from captum.attr import IntegratedGradients

    assert isinstance(lm.model, Model)
    ids = torch.from_numpy(lm.tokenizer.encode(TEXT).ids)
    place = ids.tolist().index(lm.tokenizer.mask_id)
    inner = torch.full_like(ids[1:-1], lm.tokenizer.mask_id)
    table = lm.model.encoder.embeddings.tokens.weight.detach()
    inputs, baseline = table[ids], table[torch.cat([ids[:1], inner, ids[-1:]])]

    def score(vectors: Tensor) -> Tensor:
        rows = []
        for one in vectors:  # a text at a time
            starts = torch.tensor([0, len(one)], dtype=torch.int32)
            hidden = lm.model.encoder(one, torch.arange(len(one)), starts, len(one))
            rows.append(lm.model.mlm(hidden[[place]]).log_softmax(-1)[0, 40])  # type: ignore[union-attr]
        return torch.stack(rows)

    theirs = IntegratedGradients(score).attribute(
        inputs[None], baseline[None], n_steps=16, method="gausslegendre"
    )
    ours = integrated_gradients(score, inputs, baseline, 16)
    np.testing.assert_allclose(ours, theirs[0].sum(-1).detach().numpy(), atol=1e-4)
    found = attribute(lm, TEXT, 0, lm.tokenizer.piece(40))
    np.testing.assert_allclose([token.score for token in found.tokens], ours, atol=0.02)


def test_the_sums_come_out(lm: MaskedLM) -> None:
    found = attribute(lm, TEXT)
    best = lm.fill(TEXT, top=1)[0]
    assert found.target == best.words[0].text
    assert found.pieces == best.words[0].pieces
    assert found.probability == pytest.approx(best.probability, rel=1e-4)
    ids = lm.tokenizer.encode(TEXT).ids
    masked = ids.copy()
    masked[1:-1] = lm.tokenizer.mask_id
    place = np.flatnonzero(ids == lm.tokenizer.mask_id)
    target = lm.tokenizer.id(found.pieces[0])
    assert found.baseline == pytest.approx(
        np.exp(lm.log_probabilities([masked], [place])[0][0, target]), rel=1e-4
    )
    gain = np.log(found.probability / found.baseline)
    total = sum(token.score for token in found.tokens)
    assert total - gain == pytest.approx(found.completeness_error, abs=1e-6)
    assert abs(found.completeness_error) <= 0.01 * max(1, abs(gain))
    assert found.complete
    assert sum(word.score for word in found.words) == pytest.approx(total)
    shown = [word.text for word in found.words]
    assert shown == ["O", "gato", "[MASK]", "no", "telhado", "da", "casa", "velha", "."]
    assert found.tokens[0].score == found.tokens[-1].score == found.tokens[place[0]].score == 0


def test_a_word_that_is_not_named_is_the_one_that_fills(lm: MaskedLM) -> None:
    """Never the tail of the word before it, even where the model finds that likelier."""
    model = deepcopy(lm.model)
    model.heads["mlm"].bias.data[~torch.from_numpy(lm.tokenizer.openings)] += 50
    fond = MaskedLM(model, lm.tokenizer)
    for text, joined in ((TEXT, False), ("O gato[MASK] dorme.", True)):
        found = attribute(fond, text)
        assert found.pieces == fond.fill(text, top=1)[0].words[0].pieces
        assert found.pieces[0].startswith("##") == joined


def test_gradients_are_turned_on_for_it(lm: MaskedLM) -> None:
    with torch.inference_mode():
        inside = attribute(lm, TEXT)
    with torch.no_grad():
        without = attribute(lm, TEXT)
    assert inside == without == attribute(lm, TEXT)
    assert any(token.score for token in inside.tokens)


@pytest.fixture(scope="module")
def copier(tokenizer: Tokenizer) -> tuple[MaskedLM, list[str]]:
    """A model taught to repeat, at the mask, the word after `gato`, among words drawn at random."""
    words = ["preto", "dorme", "telhado", "casa", "velha", "chuva", "noite", "rio", "black", "house"]
    words = [word for word in words if len(tokenizer.encode(word, special=False)) == 1]
    ids = torch.tensor([tokenizer.id(word) for word in words])
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id, width=32, layers=1, heads=2, inner=64,
        positions=16, dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    model = Model(config, generator=generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    count, length = 64, 8
    starts, positions = (
        torch.arange(count + 1, dtype=torch.int32) * length,
        torch.arange(length).repeat(count),
    )
    for _ in range(150):
        batch = ids[torch.randint(len(ids), (count, length), generator=generator)]
        batch[:, 0], batch[:, -1], batch[:, 5] = tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id
        hidden = model.encoder(batch.flatten(), positions, starts, length, rows=starts[:-1] + 5)
        loss = F.cross_entropy(model.mlm(hidden), batch[:, 2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    return MaskedLM(model.eval(), tokenizer), words


def test_a_model_that_copies_was_decided_by_what_it_copied(copier: tuple[MaskedLM, list[str]]) -> None:
    lm, words = copier
    rng = np.random.default_rng(0)
    for _ in range(5):
        drawn = rng.choice(words, 5, replace=False)
        found = attribute(lm, f"{' '.join(drawn[:4])} [MASK] {drawn[4]}")
        assert found.target == drawn[1]
        scores = [word.score for word in found.words]
        assert np.argmax(scores) == 1
        assert scores[1] > 0.6 * sum(map(abs, scores))
        assert found.complete


def test_words_of_several_pieces_and_the_second_mask(lm: MaskedLM) -> None:
    two = "O [MASK] dorme na [MASK]."
    word = "telhadorio"
    found = attribute(lm, two, 1, word)
    assert len(found.pieces) > 1
    assert found.target == word
    assert [w.text for w in found.words] == ["O", "[MASK]", "dorme", "na", "[MASK]", "."]
    ids = lm.tokenizer.encode("O [MASK] dorme na" + " [MASK]" * len(found.pieces) + ".").ids
    places = np.flatnonzero(ids == lm.tokenizer.mask_id)[1:]
    logs = lm.log_probabilities([ids], [places])[0]
    expected = sum(logs[n, lm.tokenizer.id(piece)] for n, piece in enumerate(found.pieces))
    assert np.log(found.probability) == pytest.approx(expected, abs=1e-4)
    assert attribute(lm, two, 0, word).probability != pytest.approx(found.probability, rel=1e-3, abs=0)


def test_a_piece_as_the_vocabulary_writes_it(lm: MaskedLM) -> None:
    inside = next(p for n in range(lm.tokenizer.vocab_size) if (p := lm.tokenizer.piece(n)).startswith("##"))
    assert attribute(lm, TEXT, 0, inside).pieces == (inside,)


@pytest.mark.parametrize(("kind", "size"), [("bpe", 290), ("unigram", 46)])
def test_other_vocabularies(kind: str, size: int) -> None:
    text = "A chuva caiu durante a noite inteira, e o rio subiu."
    tokenizer = train_tokenizer(
        [f"{text} {n}" for n in range(40)], TokenizerConfig(kind=kind, vocab_size=size)  # type: ignore[arg-type]
    )  # fmt: skip
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id, width=32, layers=2, heads=2, inner=64,
        positions=64, init_std=0.3, family="modernbert", norm="before", position="rotary", segments=0,
        window=3, global_every=2,
    )  # fmt: skip
    lm = MaskedLM(Model(config, generator=torch.Generator().manual_seed(0)).eval(), tokenizer)
    found = attribute(lm, "A chuva <mask> durante a noite.", 0, "caiu")
    assert [word.text for word in found.words] == ["A", "chuva", "<mask>", "durante", "a", "noite", "."]
    assert found.complete
    assert found.tokens[0].score == 0


def test_an_error_that_stays_large_is_told(lm: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "STEPS", (1,))
    found = attribute(lm, TEXT)
    assert not found.complete
    assert abs(found.completeness_error) > 0.01
    assert "too much to trust" in summary(found)
    assert "too much" not in summary(replace(found, complete=True))


def test_steps_are_added_until_they_no_longer_help() -> None:
    inputs, baseline = torch.full((1, 1), 3.0), torch.zeros(1, 1)

    def sharp(x: Tensor) -> Tensor:
        return torch.sigmoid(200 * (x.sum((1, 2)) - 1))

    found, steps = attribution._integrate_well(sharp, inputs, baseline, 1.0, 1000)
    assert 64 <= steps < 512
    assert found.sum() == pytest.approx(1, abs=0.01)
    rounded = 1.0 + 0.05  # as if the ends were known to few digits: no number of steps reaches it
    _, steps = attribution._integrate_well(lambda x: x.sum((1, 2)) / 3, inputs, baseline, rounded, 1000)
    assert steps == 32


def test_half_precision_tells_the_same(make_lm: Make, lm: MaskedLM) -> None:
    rounded = make_lm()
    rounded.model.to(torch.bfloat16)  # type: ignore[union-attr]
    found, exact = (attribute(one, TEXT, 0, "dorme") for one in (rounded, lm))
    np.testing.assert_allclose([w.score for w in found.words], [w.score for w in exact.words], atol=0.2)


def test_mistakes_are_told(lm: MaskedLM, make_lm: Make) -> None:
    for text, number, target, says in (
        ("O gato dorme.", 0, None, "there is no mask: write"),
        (TEXT, 1, None, "there is no mask 2: the text has 1"),
        (TEXT, -1, None, "there is no mask 0"),
        (TEXT, 0, "日本", "cannot write the candidate"),
        (TEXT, 0, "", "cannot write the candidate"),
        (TEXT, 0, "[SEP]", "cannot write the candidate"),
        ("gato " * 70 + "[MASK]", 0, None, "takes at most 64: shorten it"),
        ("gato " * 61 + "[MASK]", 0, "telhadorio", "pieces at the mask the text has"),
        ("", 0, None, "the text is empty"),
    ):
        with pytest.raises(InputError, match=says):
            attribute(lm, text, number, target)
    with pytest.raises(ModelError, match="causal"):
        attribute(make_lm(causal=True), TEXT)
    small = make_lm()
    quantise(small.model.encoder)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="eight bits"):
        attribute(small, TEXT)


def test_only_a_masked_language_model_fills(lm: MaskedLM, make_lm: Make) -> None:
    assert fills(lm, TEXT)
    assert not fills(lm, "O gato dorme.")
    assert not fills(make_lm(causal=True), TEXT)
    headless = MaskedLM(Model(lm.config, ()), lm.tokenizer)
    assert not fills(headless, TEXT)
    with pytest.raises(ModelError, match="no mlm head"):
        attribute(headless, TEXT, 0, "gato")
