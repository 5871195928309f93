"""Masks filled: alone, together, by words of several pieces, from a list of candidates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from math import exp, log, prod
from string import ascii_letters

import numpy as np
import pytest
import torch

from unmask.config import ModelConfig
from unmask.errors import InputError, ModelError
from unmask.model.network import Model
from unmask.predict import MaskedLM
from unmask.predict import fill as filling
from unmask.predict.fill import continuations, opens_word
from unmask.predict.inputs import with_own_mask
from unmask.progress import Progress, Stage
from unmask.tokenizer import Tokenizer

LogsOf = Callable[[MaskedLM, np.ndarray], torch.Tensor]


def test_one_mask_gives_the_distribution(lm: MaskedLM, logs_of: LogsOf) -> None:
    fills = lm.fill("O gato [MASK] no telhado.", top=8)
    ids = lm.tokenizer.encode("O gato [MASK] no telhado.").ids
    logs = logs_of(lm, ids)[list(ids).index(lm.tokenizer.mask_id)]
    logs[~torch.from_numpy(lm.tokenizer.openings)] = -torch.inf  # passed over: nothing is renormalised
    best = logs.topk(8)
    assert [fill.words[0].pieces for fill in fills] == [
        (lm.tokenizer.piece(int(token)),) for token in best.indices
    ]
    assert [fill.probability for fill in fills] == pytest.approx(best.values.exp().tolist(), rel=1e-4)
    assert [fill.score for fill in fills] == [fill.words[0].probability for fill in fills]


def test_both_spellings_for_every_kind(any_lm: MaskedLM) -> None:
    brackets, angles = any_lm.fill("O gato [MASK] no telhado."), any_lm.fill("O gato <mask> no telhado.")
    assert brackets == angles
    for fill in brackets:
        assert fill.text.startswith("O gato")
        assert fill.text.endswith("no telhado.")
        assert fill.words[0].text in fill.text


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_mask_by_itself_is_a_word_of_its_own(any_lm: MaskedLM, pieces: int) -> None:
    """Not the tail of the word before, however likely: `O gato [MASK].` was answered with `gatos`."""
    entries, openings = any_lm.tokenizer.vocab_size, any_lm.tokenizer.openings
    fills = any_lm.fill("O gato [MASK] dorme.", top=entries, pieces=pieces)
    firsts = {any_lm.tokenizer.id(fill.words[0].pieces[0]) for fill in fills}
    blanks = any_lm.tokenizer.blanks if pieces > 1 else np.zeros(entries, np.bool_)
    assert all(openings[token] or blanks[token] for token in firsts)
    assert all(fill.text == f"O gato {fill.words[0].text} dorme." for fill in fills)
    assert all(fill.words[0].text.strip() for fill in fills)
    if pieces == 1 and any_lm.tokenizer.kind == "wordpiece":  # others write white space in several ways
        assert firsts == set(np.flatnonzero(openings))


def test_a_mask_behind_a_letter_may_go_on_with_the_word(lm: MaskedLM) -> None:
    fills = lm.fill("O gato[MASK] dorme.", top=100)
    assert any(fill.words[0].pieces[0].startswith("##") for fill in fills)
    assert any(not fill.words[0].pieces[0].startswith("##") for fill in fills)
    assert all(fill.text == f"O gato{fill.words[0].text} dorme." for fill in fills)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("O gato [MASK].", "wordpiece unigram bpe"), ("O gato [MASK]s.", "wordpiece unigram bpe"),
        ("[MASK] dorme.", "wordpiece unigram"), ("O gato\n[MASK].", "wordpiece unigram"),
        ("gato-[MASK]", "wordpiece"), ('"[MASK]"', "wordpiece"), ("([MASK])", "wordpiece"),
        ("( [MASK] )", "wordpiece unigram bpe"),
        ("gato[MASK]", ""), ("7[MASK]", ""), ("[CLS][MASK][MASK]", ""),
    ],
)  # fmt: skip
def test_where_a_word_is_marked_to_open(any_tokenizer: Tokenizer, text: str, kinds: str) -> None:
    own = with_own_mask(text, any_tokenizer)
    start = own.rindex(any_tokenizer.mask_token)
    assert opens_word(any_tokenizer, own, start) == (any_tokenizer.kind in kinds.split())


def test_a_candidate_keeps_a_space_that_is_a_piece(any_lm: MaskedLM) -> None:
    """Byte-level BPE may write ` w` as a space and `w`, where no entry begins with both."""
    tokenizer = any_lm.tokenizer
    for text in ("O gato [MASK].", "[MASK] dorme."):
        for fill in any_lm.fill(text, candidates=["w", "casa", "O"]):
            assert fill.text == text.replace("[MASK]", fill.words[0].text)
            pieces = [tokenizer.piece(i) for i in tokenizer.encode(fill.text, special=False).ids]
            assert " ".join(fill.words[0].pieces) in " ".join(pieces)
            if tokenizer.kind == "bpe" and not text.startswith("["):
                assert fill.words[0].pieces[0].startswith("Ġ")
    for special in (tokenizer.mask_token, tokenizer.piece(tokenizer.pad_id)):
        with pytest.raises(InputError, match="cannot write the candidate"):
            any_lm.fill("O gato [MASK].", candidates=["casa", special])


def test_candidates_may_be_any_part_of_a_word(lm: MaskedLM) -> None:
    (fill,) = lm.fill("O gato[MASK] dorme.", candidates=["s"])
    assert fill.text == "O gatos dorme."


def test_a_new_word_is_not_glued_to_the_one_before(any_lm: MaskedLM) -> None:
    spaced = 0
    for fill in any_lm.fill("O gato[MASK].", top=100):
        word = fill.words[0]
        space = " " if word.pieces[0].startswith(("Ġ", "▁")) else ""
        spaced += len(space)
        assert fill.text == f"O gato{space}{word.text}."
    assert spaced or any_lm.tokenizer.kind == "wordpiece"


@pytest.mark.parametrize("top", [1, 7, 300])
def test_what_is_let_go_on_the_way_is_not_missed(
    lm: MaskedLM, monkeypatch: pytest.MonkeyPatch, top: int
) -> None:
    """All that grows is held with one setting, with the other never more than a beam and what one gives."""
    found = []
    for asked, held in ((1000, 10**9), (2, 1)):
        monkeypatch.setattr(filling, "_ASKED", asked)
        monkeypatch.setattr(filling, "_HELD", held)
        found.append(lm.fill("O [MASK] da [MASK] velha.", top=top))
    everything, little = found
    assert len({each.text for each in little}) == top
    assert [each.score for each in little] == pytest.approx([each.score for each in everything], rel=1e-4)


def test_many_answers_for_several_masks_need_little_memory(
    lm: MaskedLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many beams as the vocabulary has entries, times as many ways to go on, were held at once before."""
    held = []
    distinct = filling._distinct
    monkeypatch.setattr(filling, "_distinct", lambda beams: held.append(len(beams)) or distinct(beams))
    top = lm.tokenizer.vocab_size
    assert len(lm.fill("O [MASK] da [MASK] velha.", top=top)) == top
    assert max(held) <= (filling._HELD + 1) * top


def test_several_masks_follow_the_surest_first(lm: MaskedLM, logs_of: LogsOf) -> None:
    """A wide beam over few candidates is an exhaustive search: redo it by hand."""
    words = ["a", "o", "e"]
    text = "O [MASK] da [MASK] velha."
    choices = [lm.tokenizer.encode(word, special=False).ids for word in words]
    assert all(len(ids) == 1 for ids in choices)
    allowed = [int(ids[0]) for ids in choices]
    fills = lm.fill(text, top=20, candidates=words, beam=50)
    ids = lm.tokenizer.encode(text).ids
    places = np.flatnonzero(ids == lm.tokenizer.mask_id)
    logs = logs_of(lm, ids)
    surest = max(places, key=lambda place: float(logs[place, allowed].max()))
    other = next(place for place in places if place != surest)
    expected = {}
    for first, second in product(allowed, repeat=2):
        filled = ids.copy()
        filled[surest] = first
        then = logs_of(lm, filled)
        filled[other] = second
        pair = tuple(lm.tokenizer.piece(filled[place]) for place in places)
        expected[pair] = exp(float(logs[surest, first] + then[other, second]))
    found = {tuple(word.pieces[0] for word in fill.words): fill.probability for fill in fills}
    assert found == pytest.approx(expected, rel=1e-3)
    assert fills[0].probability == pytest.approx(max(expected.values()), rel=1e-3)
    assert fills == sorted(fills, key=lambda fill: -fill.score)


def test_joint_probability_is_the_product_of_the_words(lm: MaskedLM) -> None:
    for fill in lm.fill("[MASK] gato [MASK] no [MASK].", top=6):
        assert fill.probability == pytest.approx(prod(word.probability for word in fill.words), rel=1e-5)
        assert fill.score == pytest.approx(fill.probability ** (1 / 3), rel=1e-5)
        assert len(fill.words) == 3
        assert "[MASK]" not in fill.text


def test_words_of_several_pieces(any_lm: MaskedLM) -> None:
    (one,) = any_lm.fill("O gato [MASK] no telhado.", top=1)
    many = any_lm.fill("O gato [MASK] no telhado.", top=200, pieces=3)
    sizes = {len(fill.words[0].pieces) for fill in many}
    assert {1, 2} <= sizes <= {1, 2, 3}
    again = {fill.text: fill.score for fill in many}
    assert again[one.text] == pytest.approx(one.score, rel=1e-5)
    goes_on = continuations(any_lm.tokenizer)
    for fill in many:
        assert all(goes_on[any_lm.tokenizer.id(piece)] for piece in fill.words[0].pieces[1:])


def test_the_search_is_shown(lm: MaskedLM) -> None:
    """Long words take a small model many seconds: every step counts, to the end."""

    class Shown(Progress):
        total, steps = 0.0, 0
        done = 0.0

        @contextmanager
        def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
            self.total += total or 0
            yield self  # type: ignore[misc]

        def advance(self, amount: float) -> None:
            self.steps += 1
            self.done += amount

    shown = Shown()
    found = lm.fill("O [MASK] da [MASK].", pieces=2, progress=shown)
    assert found == lm.fill("O [MASK] da [MASK].", pieces=2)
    assert shown.total == (1 + 1) + 2 * (1 + 2) + (2 + 2)
    assert shown.steps == shown.total
    assert shown.done == pytest.approx(shown.total)


def test_continuations(wordpiece: Tokenizer) -> None:
    goes_on = continuations(wordpiece)
    for token in range(wordpiece.vocab_size):
        assert goes_on[token] == wordpiece.piece(token).startswith("##")


def test_openings(any_tokenizer: Tokenizer) -> None:
    opens = {any_tokenizer.piece(int(token)) for token in np.flatnonzero(any_tokenizer.openings)}
    mark = {"wordpiece": "", "unigram": "▁", "bpe": "Ġ"}[any_tokenizer.kind]
    assert opens & {f"{mark}a", f"{mark}O", "▁Os"}
    assert all(any_tokenizer.decode([any_tokenizer.id(piece)]).strip() for piece in opens)  # none is blank
    assert not any(piece.startswith("##") for piece in opens)
    assert not opens & {any_tokenizer.piece(token) for token in any_tokenizer.special_ids}
    for piece in opens:
        assert piece.startswith(mark) or piece[0] not in ascii_letters


def test_rows_beyond_the_vocabulary_are_never_an_answer(lm: MaskedLM) -> None:
    """Tables are rounded up to sizes that machines like; here only the added rows are likely."""
    entries = lm.tokenizer.vocab_size
    config = ModelConfig(**lm.config.model_dump() | {"vocab_size": entries + 30})
    model = Model(config, ["mlm"]).eval()
    model.heads["mlm"].bias.data[entries:] = 50
    for pieces in (1, 2):
        fills = MaskedLM(model, lm.tokenizer).fill("O [MASK] da [MASK].", top=5, pieces=pieces)
        assert len(fills) == 5


def test_candidates_of_any_length(any_lm: MaskedLM) -> None:
    words = ["casa", "tempestade", "pescadores", "rio", "lua"]
    fills = any_lm.fill("O dono da [MASK] dorme.", top=50, candidates=words)
    assert {fill.words[0].text for fill in fills} == set(words)
    assert {fill.text for fill in fills} == {f"O dono da {word} dorme." for word in words}
    for fill in fills:
        inside = any_lm.tokenizer.encode(fill.text)
        pieces = fill.words[0].pieces
        assert " ".join(pieces) in " ".join(any_lm.tokenizer.piece(i) for i in inside.ids)
        assert log(fill.score) == pytest.approx(log(fill.probability) / len(pieces), rel=1e-4)


def test_a_candidate_is_written_as_it_was_given(any_lm: MaskedLM) -> None:
    """The pieces around a full stop or a hyphen would be decoded with spaces."""
    (fill,) = any_lm.fill("O dono da [MASK] dorme.", candidates=["casa.rio"])
    assert fill.words[0].text == "casa.rio"
    assert fill.text == "O dono da casa.rio dorme."


def test_candidate_of_several_pieces_by_hand(lm: MaskedLM, logs_of: LogsOf) -> None:
    text, word = "O dono da [MASK] dorme.", "tempestades"
    pieces = lm.tokenizer.encode(word, special=False).ids
    assert len(pieces) > 1
    (fill,) = lm.fill(text, candidates=[word])
    ids = lm.tokenizer.encode(text).ids
    place = list(ids).index(lm.tokenizer.mask_id)
    ids = np.concatenate([ids[:place], np.full(len(pieces), lm.tokenizer.mask_id), ids[place + 1 :]])
    total, left = 0.0, dict(enumerate(pieces, place))
    while left:
        logs = logs_of(lm, ids)
        surest = max(left, key=lambda spot: float(logs[spot, left[spot]]))
        total += float(logs[surest, left[surest]])
        ids[surest] = left.pop(surest)
    assert fill.probability == pytest.approx(exp(total), rel=1e-3)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("O gato dorme.", {}, "write [MASK] or <mask>"),
        ("", {}, "nothing to fill"),
        ("[MASK] " + "gato " * 80, {}, "takes at most 64"),
        ("O [MASK] [MASK].", {"pieces": 16}, "combinations"),
        ("O [MASK].", {"pieces": 17}, "longest searched, not 17"),
        ("O [MASK].", {"candidates": ["日本"]}, "cannot write the candidate"),
        ("O [MASK].", {"candidates": []}, "list of words"),
        ("O [MASK].", {"candidates": "gato"}, "list of words"),
        ("O [MASK].", {"top": 0}, "at least 1"),
        ("O [MASK].", {"pieces": 0}, "from 1 to 16"),
        ("[MASK] " * 5, {"pieces": 4}, "fewer pieces"),
    ],
)
def test_mistakes(lm: MaskedLM, text: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as caught:
        lm.fill(text, **options)  # type: ignore[arg-type]
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_causal_model_does_not_fill(causal: MaskedLM) -> None:
    with pytest.raises(ModelError, match="generate"):
        causal.fill("O [MASK].")
