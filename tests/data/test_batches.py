"""Batches: the contract of `Batch`, the same units for every number of workers and ranks, exact resuming."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from itertools import islice, pairwise, repeat
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.data.conftest import CONFIGS, SIZES, same, steps

from unmask.config import BatchConfig, MaskConfig, Recipe, load_recipe
from unmask.data import plan as plan_module
from unmask.data.batches import Batch, Batches, Objective
from unmask.data.masking import MASK, NEXT
from unmask.data.pairs import NO_PAIR
from unmask.data.plan import Plan, Position, generator
from unmask.data.prepare import prepare
from unmask.data.shards import Corpus, Special
from unmask.errors import ConfigError, CorpusError
from unmask.text import find_sources
from unmask.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("small_windows")


def originals(batch: Batch) -> torch.Tensor:
    """The ids before masking."""
    ids = batch.ids.clone()
    if not batch.causal:
        ids[batch.target_index] = batch.target_ids
    return ids


def stretches(batch: Batch, special: Special) -> list[tuple[int, int]]:
    """Where each sequence begins and ends; not the empty rests of pages, which are separators alone."""
    whole = list(pairwise(batch.cu_seqlens.tolist()))
    rests = [(low, high) for low, high in whole if (batch.ids[low:high] == special.sep).all()]
    assert sum(high - low for low, high in rests) == batch.empty == len(batch.ids) - batch.tokens
    assert all(batch.page and high % batch.page == 0 for _, high in rests)
    return [each for each in whole if each not in rests]


def sequences(batch: Batch, special: Special) -> list[list[int]]:
    ids = originals(batch).tolist()
    return [ids[low:high] for low, high in stretches(batch, special)]


def check_contract(batch: Batch, config: BatchConfig, documents) -> None:
    special = documents.special
    for name in ("ids", "positions", "target_index", "target_ids", "languages"):
        assert getattr(batch, name).dtype == torch.int64, name
    assert batch.cu_seqlens.dtype == torch.int32
    assert batch.target_kind.dtype == torch.uint8
    bounds = batch.cu_seqlens.tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(batch.ids) == len(batch.positions)
    assert len(batch.languages) == len(bounds) - 1
    sizes = np.diff(bounds)
    assert min(high - low for low, high in stretches(batch, special)) >= 3
    assert batch.page == (config.length if config.sentences else None)
    if batch.page:
        assert set(range(0, len(batch.ids) + 1, batch.page)) <= set(bounds), "none crosses a page"
    assert sizes.max() == batch.max_seqlen <= config.length
    assert batch.positions.tolist() == [i for size in sizes for i in range(size)]
    assert len(batch.target_index) == len(batch.target_ids) == len(batch.target_kind)
    assert (batch.ids[batch.target_index[batch.target_kind == MASK]] == special.mask).all()
    assert (batch.spans is not None) == (config.mask.kind == "span" and not batch.causal)
    if batch.spans is not None:
        index = batch.target_index
        assert (batch.spans[:, 0] + batch.spans[:, 2] == index).all()
        assert (batch.spans[:, 1] > index).all()
        assert not torch.isin(batch.spans[:, :2], index).any()
    for tokens in sequences(batch, special):
        assert tokens[0] == special.cls
        assert tokens[-1] == special.sep


def check_sequences(batch: Batch, documents) -> None:
    """Each text between special tokens is a stretch of one document, and pairs are what their label says."""
    special = documents.special
    labels = batch.pair_labels.tolist() if batch.pair_labels is not None else repeat(NO_PAIR)
    spoken = dict(zip(batch.cu_seqlens.tolist(), batch.languages.tolist(), strict=False))
    lows = [low for low, _ in stretches(batch, special)]
    for low, tokens, label in zip(lows, sequences(batch, special), labels, strict=False):
        language = spoken[low]
        body = np.array(tokens[1:-1])
        separators = np.flatnonzero(body == special.sep)
        texts = [body] if not len(separators) else [body[: separators[0]], body[separators[-1] + 1 :]]
        for text in texts:
            assert len(text)
            assert (np.diff(text) == 1).all(), "in the order of the document, nothing left out"
            assert len(set(documents.owner(text))) == 1, "no document crossed"
        owners = [int(documents.owner(text)[0]) for text in texts]
        assert documents.languages[owners[0]] == language
        assert (len(texts) == 2) == (label != NO_PAIR)
        if batch.segments is not None:
            second = len(texts[1]) + 1 if len(texts) == 2 else 0
            expected = [0] * (len(tokens) - second) + [1] * second
            assert batch.segments[low : low + len(tokens)].tolist() == expected
        if label == 0:
            assert texts[0][-1] + 1 == texts[1][0]


@pytest.mark.parametrize("name", CONFIGS)
@settings(deadline=None, max_examples=25)
@example(sizes=[43, 1, 1, 1, 107, 30, 18], seed=1, separators=1)  # no pair in the first window
@given(
    sizes=st.lists(st.integers(1, 120), min_size=2, max_size=25),
    seed=st.integers(0, 2**70),
    separators=st.sampled_from([1, 2]),
)
def test_one_pass_holds_every_token_once(
    make_documents: Callable, name: str, sizes: list[int], seed: int, separators: int
) -> None:
    documents = make_documents([*sizes, 120], languages=[i % 3 for i in range(len(sizes) + 1)])
    documents.special = replace(documents.special, pair_separators=separators)
    config = CONFIGS[name]
    tokens: list[int] = []
    for batch in Batches(documents, config, seed).one_pass(3):
        check_contract(batch, config, documents)
        check_sequences(batch, documents)
        tokens += [token for token in originals(batch).tolist() if token > 4]
    if config.pairs == "nsp":
        assert set(tokens) == set(documents.ids.tolist())
    else:
        assert sorted(tokens) == documents.ids.tolist()


@pytest.mark.parametrize("name", CONFIGS)
def test_ranks_put_together_are_the_whole(make_documents: Callable, name: str) -> None:
    documents = make_documents(SIZES)
    for ranks in (2, 4):
        parts = [steps(Batches(documents, CONFIGS[name], 7, rank, ranks), 12) for rank in range(ranks)]
        whole = steps(Batches(documents, CONFIGS[name], 7), 12)
        for step, (batch, position) in enumerate(whole):
            together = [part[step][0] for part in parts]
            assert {part[step][1] for part in parts} == {position}
            assert len(batch.ids) == sum(len(part.ids) for part in together)
            expected = sorted(zip(originals(batch).tolist(), batch.ids.tolist(), strict=True))
            found = [
                pair for p in together for pair in zip(originals(p).tolist(), p.ids.tolist(), strict=True)
            ]
            assert sorted(found) == expected, "the same tokens with the same masks"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_saved_position_resumes_exactly(make_documents: Callable, name: str) -> None:
    documents = make_documents(SIZES)
    whole = steps(Batches(documents, CONFIGS[name], 5), 40)
    assert whole[-1][1].epoch >= 2, "the steps run over the ends of epochs"
    for stop in (1, 6, 7, 19, 30):
        saved = json.loads(json.dumps(asdict(whole[stop - 1][1])))
        positions = [Position(**saved), Position(saved["epoch"], saved["unit"])]  # with and without the hint
        for position in positions:
            resumed = steps(Batches(documents, CONFIGS[name], 5), 4, start=position)
            for (first, at_first), (second, at_second) in zip(whole[stop : stop + 4], resumed, strict=True):
                assert same(first, second)
                assert at_first == at_second


def test_a_unit_does_not_depend_on_how_many_make_a_step(make_documents: Callable) -> None:
    documents = make_documents(SIZES)
    batches = Batches(documents, CONFIGS["words"], 5)
    single = torch.cat([batch.ids for batch, _ in islice(batches.steps(Position(), 1), 30)])
    many = torch.cat([batch.ids for batch, _ in islice(batches.steps(Position(), 6), 5)])
    assert torch.equal(single, many)


def test_a_rank_takes_every_so_manyth_unit(make_documents: Callable) -> None:
    documents = make_documents([50] * 30)
    for rank in range(3):
        batches = Batches(documents, CONFIGS["documents"], 0, rank, 3)
        asked = [r for r, _ in batches.requests(Position(unit=2), 6, [Objective()] * 3)]
        numbers = [request.units.numbers.tolist() for request in asked]
        assert numbers == [[2 + 6 * step + rank, 5 + 6 * step + rank] for step in range(3)]


def test_units_of_the_same_shape_have_masks_of_their_own(make_documents: Callable) -> None:
    documents = make_documents([30] * 20)
    places = {
        tuple(batch.target_index.tolist()) for batch in Batches(documents, CONFIGS["documents"]).one_pass(1)
    }
    assert len(places) > 15


def test_documents_are_taken_in_a_mixed_order(make_documents: Callable) -> None:
    documents = make_documents([30] * 60, languages=[0] * 30 + [1] * 30)
    plan = Plan(documents, BatchConfig(length=32), 0)
    assert plan.windows > 5
    windows = [plan.window((0, number)).sequences[:, 0] for number in range(plan.windows)]
    assert sum(len(set(documents.languages[w])) == 2 for w in windows) > len(windows) / 2
    again = [plan.window((1, number)).sequences[:, 0] for number in range(plan.windows)]
    assert sorted(np.concatenate(windows)) == sorted(np.concatenate(again)) == list(range(60))
    assert not np.array_equal(np.concatenate(windows), np.concatenate(again))


def test_seeds_and_epochs_differ(make_documents: Callable) -> None:
    documents = make_documents(SIZES)
    first, other = (steps(Batches(documents, CONFIGS["documents"], seed), 1)[0][0] for seed in (1, 2))
    assert not torch.equal(originals(first), originals(other))
    later = steps(Batches(documents, CONFIGS["documents"], 1), 1, start=Position(epoch=1))[0][0]
    assert not torch.equal(originals(first), originals(later))
    passes = [list(Batches(documents, CONFIGS["documents"], 1).one_pass(3)) for _ in range(2)]
    assert all(same(a, b) for a, b in zip(*passes, strict=True)), "validation never changes"


def test_generators_are_keyed_by_place() -> None:
    reference = np.random.Philox(key=np.array([7, 2], np.uint64), counter=np.array([0, 0, 3, 4], np.uint64))
    drawn = generator(7, 2, 3, 4).random(5)
    assert np.array_equal(drawn, np.random.Generator(reference).random(5))
    places = [
        (7, 2, 3, 4),
        (7, 2, 4, 3),
        (7, 2, 3),
        (7, 2, 4),
        (7, 1, 3, 4),
        (8, 2, 3, 4),
        (7 + 2**63, 2, 3, 4),
    ]
    assert len({generator(*place).random() for place in places}) == len(places)


@pytest.mark.parametrize("name", ["documents", "sentences"])
def test_causal_batches_predict_the_next_token(make_documents: Callable, name: str) -> None:
    documents = make_documents(SIZES)
    batch = steps(Batches(documents, CONFIGS[name]), 1, objectives=[Objective("causal")])[0][0]
    assert batch.causal
    assert set(batch.target_kind.tolist()) == {NEXT}
    assert torch.equal(batch.target_ids, batch.ids[batch.target_index + 1])
    expected = [i for low, high in stretches(batch, documents.special) for i in range(low, high - 1)]
    assert batch.target_index.tolist() == expected
    assert documents.special.mask not in batch.ids.tolist()


def test_the_ratio_is_the_objectives(make_documents: Callable) -> None:
    documents = make_documents([500] * 20)
    for ratio in (0.1, 0.4):
        batch = steps(Batches(documents, CONFIGS["documents"]), 1, objectives=[Objective(ratio=ratio)])[0][0]
        text = (originals(batch) > 4).sum().item()
        assert abs(len(batch.target_ids) - ratio * text) < 4
    config = BatchConfig(length=32, mask=MaskConfig(ratio=0.4, ratio_end=0.1))
    assert (
        len(next(iter(Batches(documents, config).one_pass(4))).target_ids)
        < len(steps(Batches(documents, config), 1)[0][0].target_ids) / 2
    ), "validation has the ratio of the end of training"


def test_unknown_tokens_are_not_predicted(make_documents: Callable) -> None:
    documents = make_documents([400] * 3)
    documents.ids = documents.ids.copy()
    documents.ids[::3] = documents.special.unk
    for batch in Batches(documents, CONFIGS["documents"]).one_pass(4):
        assert documents.special.unk in batch.ids.tolist()
        assert documents.special.unk not in batch.target_ids.tolist()


def shares(plan: Plan, documents, epochs: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens per language, and how often each document came."""
    seen = np.zeros(documents.document_count, np.int64)
    for epoch in epochs:
        for window in range(plan.windows):
            rows = plan.window((epoch, window)).sequences
            np.add.at(seen, rows[rows[:, 1] == 0, 0], 1)
    return np.bincount(documents.languages, weights=seen * documents.lengths), seen


def test_languages_are_drawn_with_alpha(make_documents: Callable) -> None:
    sizes, languages = [30] * 320 + [20] * 30 + [25] * 4, [0] * 320 + [1] * 30 + [2] * 4
    documents = make_documents(sizes, languages=languages)
    natural = np.array([9600, 600, 100]) / 10300
    for alpha in (0.0, 0.3, 0.7, 1.0):
        plan = Plan(documents, BatchConfig(length=64, alpha=alpha), 0)
        tokens, _ = shares(plan, documents, range(4))
        expected = natural**alpha / (natural**alpha).sum()
        assert np.abs(tokens / tokens.sum() - expected).max() < 0.02
    plan = Plan(documents, BatchConfig(length=64, alpha=0.3), 0)
    _, seen = shares(plan, documents, range(6))
    for language in range(3):
        counts = seen[documents.languages == language]
        assert counts.max() - counts.min() <= 1, "all documents of a language before any comes again"


def test_validation_has_the_natural_languages(make_documents: Callable) -> None:
    documents = make_documents([20] * 50 + [20], languages=[0] * 50 + [1])
    batches = Batches(documents, BatchConfig(length=32, alpha=0.0))
    tokens = [t for batch in batches.one_pass(3) for t in originals(batch).tolist() if t > 4]
    assert sorted(tokens) == documents.ids.tolist()


def test_fill_rate(make_documents: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "WINDOW_TOKENS", 1 << 20)
    documents = make_documents(np.random.default_rng(0).geometric(1 / 300, 800))
    batches = Batches(documents, BatchConfig(length=128))
    batch = steps(batches, 1)[0][0]
    assert batches.fill_rate >= 0.99
    assert math.isclose(len(batch.ids) / (4 * 128), 1, abs_tol=0.08)


def test_what_cannot_be_is_one_clear_line(make_documents: Callable) -> None:
    with pytest.raises(CorpusError, match="holds no text"):
        Batches(make_documents([]), BatchConfig())
    with pytest.raises(CorpusError, match="holds no text"):
        Batches(make_documents([0, 0]), BatchConfig())
    with pytest.raises(CorpusError, match="at least two documents"):
        Batches(make_documents([50]), BatchConfig(pairs="nsp"))
    for position in (Position(0, 99, 99, 9), Position(-1), Position(0, 5, 1, 6), Position(0, -3)):
        with pytest.raises(CorpusError, match="saved with another corpus"):
            steps(Batches(make_documents(SIZES), BatchConfig()), 1, start=position)
    one_sentence = make_documents([5, 6, 7])
    one_sentence.flags = one_sentence.flags & 1
    with pytest.raises(ConfigError, match="several sentences"):
        steps(Batches(one_sentence, BatchConfig(pairs="sop")), 1)
    with pytest.raises(ConfigError, match="no rank 2 of 2"):
        Batches(make_documents([50]), BatchConfig(), 0, 2, 2)
    with pytest.raises(ConfigError, match="greater than or equal to 8"):
        load_recipe(None, ["batch.length=4"])
    with pytest.raises(ConfigError, match="must sum to 1"):
        load_recipe(None, ["batch.mask.keep=0.5"])
    with pytest.raises(ConfigError, match=r"above 0\.5"):
        load_recipe(None, ["batch.mask.kind=span", "batch.mask.ratio_end=0.7"])
    with pytest.raises(ConfigError, match="exclude each other"):
        load_recipe(None, ["batch.sentences=true", "batch.pairs=nsp"])


def test_pieces_are_read_from_every_shard(text_folder: Path, tmp_path: Path, tokenizer: Tokenizer) -> None:
    recipe = Recipe.model_validate({"prepare": {"valid": 0.0, "test": 0.0, "shard_tokens": 600}})
    prepare(find_sources([str(text_folder)]), tokenizer, tmp_path / "out", recipe, workers=1)
    corpus, rng = Corpus.open(tmp_path / "out"), np.random.default_rng(0)
    assert len(corpus.manifest["splits"]["train"]["shards"]) > 2
    numbers = rng.integers(0, corpus.document_count, 200)
    ends = np.sort(rng.integers(0, corpus.lengths[numbers] + 1, (2, 200)), axis=0)
    pieces = np.stack([numbers, *ends], axis=1)
    expected = [[each[start:stop] for each in corpus.document(n)] for n, start, stop in pieces.tolist()]
    for found, parts in zip(corpus.parts(pieces), zip(*expected, strict=True), strict=True):
        assert np.array_equal(found, np.concatenate(parts))
    assert [len(each) for each in corpus.parts(pieces[:0])] == [0, 0]


def test_the_global_generator_is_left_alone(make_documents: Callable) -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    steps(Batches(make_documents(SIZES), CONFIGS["documents"]), 3)
    assert torch.equal(torch.rand(1), expected)


def test_batches_move_whole(make_documents: Callable) -> None:
    batch = steps(Batches(make_documents(SIZES), CONFIGS["sop"]), 1)[0][0]
    assert same(batch.to("cpu"), batch)
    moved = batch.to("meta")
    assert all(v.is_meta for v in (getattr(moved, f.name) for f in fields(Batch)) if torch.is_tensor(v))
    assert moved.max_seqlen == batch.max_seqlen


def test_a_prepared_folder(text_folder: Path, tmp_path: Path, texts: list[str], tokenizer: Tokenizer) -> None:
    recipe = Recipe.model_validate({"prepare": {"valid": 0.0, "test": 0.0, "shard_tokens": 600}})
    prepare(find_sources([str(text_folder)]), tokenizer, tmp_path / "out", recipe, workers=1)
    corpus = Corpus.open(tmp_path / "out")
    config = BatchConfig(length=24, mask=MaskConfig(kind="word", ratio=0.3))
    found, continued, split_words = [], 0, 0
    for batch in Batches(corpus, config, 1).one_pass(8, workers=1):
        check_contract(batch, config, corpus)
        found += [t for tokens in sequences(batch, corpus.special) for t in tokens[1:-1]]
        hidden = set(batch.target_index.tolist())
        pieces = [tokenizer.piece(token) for token in originals(batch).tolist()]
        for i, piece in enumerate(pieces):
            if piece.startswith("##") and originals(batch)[i - 1] != tokenizer.cls_id:
                split_words += (i in hidden) != (i - 1 in hidden)
                continued += 1
    expected = [i for text in texts for i in tokenizer.encode(text, special=False).ids]
    assert sorted(found) == sorted(expected)
    assert continued > 50
    assert split_words == 0


def test_real_text_fills_the_units(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lzma

    monkeypatch.undo()
    with lzma.open(data_root / "text" / "en" / "wikipedia.txt.xz", "rt", encoding="utf-8") as source:
        (tmp_path / "text.txt").write_text(source.read(2_000_000), "utf-8")
    tokenizer = Tokenizer.load(data_root / "vocab" / "bert" / "cased.txt")
    prepare(find_sources([str(tmp_path / "text.txt")]), tokenizer, tmp_path / "out", workers=1)
    corpus = Corpus.open(tmp_path / "out")
    for kind in ({}, {"sentences": True}, {"pairs": "nsp"}, {"pairs": "sop"}):
        batches = Batches(corpus, BatchConfig.model_validate({"length": 128, **kind}))
        steps(batches, 1)
        assert batches.fill_rate >= 0.99, kind
