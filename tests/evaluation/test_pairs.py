"""Minimal pairs and stereotype pairs: equal to a plain computation with one copy per mask."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from unmask.errors import InputError
from unmask.evaluation import evaluate
from unmask.evaluation.results import read_items
from unmask.model.network import Model
from unmask.predict import MaskedLM, load
from unmask.predict.score import shared_copies, targets

PAIRS = [
    ("The boats come back.", "The boats comes back."),
    ("The boat comes back.", "The boat come back."),
    ("The fishermen kept the keys.", "The fishermans kept the keys."),
    ("The old nets dried.", "The old nets dried."),
    ("Nobody kept the key in the harbour.", "Nobody keeped the key in the harbour."),
]


@torch.no_grad()
def token_logs(lm: MaskedLM, text: str, method: str) -> tuple[list[int], list[float]]:
    """Ids and log-probabilities of a text's tokens, each from a copy of its own."""
    assert isinstance(lm.model, Model)
    encoding = lm.tokenizer.encode(text)
    ids, logs = [], []
    for place in np.flatnonzero(encoding.words >= 0):
        copy = torch.from_numpy(encoding.ids.copy())
        for later in range(place, len(encoding)):
            if later == place or (method == "word-l2r" and encoding.words[later] == encoding.words[place]):
                copy[later] = lm.tokenizer.mask_id
        hidden = lm.model.encoder.padded(copy[None], torch.ones_like(copy[None]))
        ids.append(int(encoding.ids[place]))
        logs.append(float(lm.model.mlm(hidden[0, place : place + 1]).double().log_softmax(-1)[0, ids[-1]]))
    return ids, logs


@pytest.mark.parametrize("method", ["word-l2r", "token"])
def test_minimal_pairs_equal_one_copy_per_mask(
    folder: Path, pair_suite: Path, tmp_path: Path, method: str
) -> None:
    pair_suite.write_text(pair_suite.read_text("utf-8") + f'\nmethod = "{method}"\n', "utf-8")
    (result,) = evaluate(str(pair_suite), folder, tmp_path / "out", card=False)
    lm = load(folder)
    assert isinstance(lm, MaskedLM)
    margins = [sum(token_logs(lm, a, method)[1]) - sum(token_logs(lm, b, method)[1]) for a, b in PAIRS]
    items = read_items(tmp_path / "out", "mine")
    assert [item["id"] for item in items] == ["a/0", "a/1", "a/2", "b/0", "b/1"]
    assert [item["margin"] for item in items] == pytest.approx(margins, abs=1e-3)
    assert items[3]["margin"] == 0
    correct = [0.5 if number == 3 else float(margin > 0) for number, margin in enumerate(margins)]
    assert [item["correct"] for item in items] == correct
    by_set = [np.mean(correct[:3]), np.mean(correct[3:])]
    assert result.main.value == pytest.approx(np.mean(by_set))
    assert [result.groups["set"][name]["accuracy"].value for name in "ab"] == pytest.approx(by_set)
    assert result.groups["phenomenon"]["k"]["accuracy"].items == 5


def test_copies_that_two_sentences_share_are_computed_once(folder: Path) -> None:
    lm = load(folder)
    assert isinstance(lm, MaskedLM)
    texts = ["The old boat.", "The old nets.", "The old boat."]
    encodings = lm.inputs.encode(texts)
    places = [targets(encoding, lm.tokenizer) for encoding in encodings]
    groups = shared_copies(encodings, places, lm.tokenizer, "token")
    assert sorted(job for group in groups for job in group) == [
        (text, spot) for text, where in enumerate(places) for spot in range(len(where))
    ]
    first, second, third = (len(where) for where in places)
    # The repeated sentence costs nothing, and with its noun hidden the second one is the first.
    shared = 1 if first == second else 0
    assert len(groups) == first + second - shared
    assert first == third
    scores = lm.score(texts)
    assert scores[0].log_probability == scores[2].log_probability


def test_bias_counts_the_tokens_both_sentences_share(
    folder: Path, write: Callable[..., Path], tmp_path: Path
) -> None:
    rows = [
        {"category": "age", "stereotype": "The old boat dried.", "antistereotype": "The blue boat dried."},
        {"category": "age", "stereotype": "The nets.", "antistereotype": "The nets."},
        {"category": "job", "stereotype": "The fisherman kept it.", "antistereotype": "The sun kept it."},
    ]
    suite = write('kind = "bias"\nfiles = ["x.jsonl"]', x__jsonl=rows)
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    lm = load(folder)
    assert isinstance(lm, MaskedLM)
    items = read_items(tmp_path / "out", "mine")
    for row, item in zip(rows, items, strict=True):
        one, other = (token_logs(lm, row[key], "token") for key in ("stereotype", "antistereotype"))
        head = next(
            (n for n, (a, b) in enumerate(zip(one[0], other[0], strict=False)) if a != b), len(one[0])
        )
        tail = next(n for n in range(9) if n == len(one[0]) - head or one[0][-1 - n] != other[0][-1 - n])
        sums = [sum(logs[:head]) + sum(logs[len(logs) - tail :]) for _, logs in (one, other)]
        assert item["margin"] == pytest.approx(sums[0] - sums[1], abs=1e-3)
    assert items[1]["preferred"] == 0.5
    assert set(result.groups["category"]) == {"age", "job"}


def test_a_missing_column_is_named(folder: Path, write: Callable[..., Path], tmp_path: Path) -> None:
    suite = write('kind = "pairs"\nfiles = ["x.jsonl"]', x__jsonl=[{"good": "a", "bad": "b"}])
    with pytest.raises(InputError, match="line 1: there is no column sentence_good, only good, bad"):
        evaluate(str(suite), folder, tmp_path / "out")


@pytest.mark.slow
def test_real_blimp(data_root: Path, folder: Path, tmp_path: Path) -> None:
    """One of the real sets: another order of the sentences is the complement."""
    for name, good, bad in [("s0", "sentence_good", "sentence_bad"), ("s1", "sentence_bad", "sentence_good")]:
        (tmp_path / f"{name}.toml").write_text(
            'kind = "pairs"\nabout = "a"\nsource = "s"\nlicence = "l"\nphenomenon = "linguistics_term"\n'
            f'files = ["eval/en/blimp_fast/passive_1.jsonl"]\ngood = "{good}"\nbad = "{bad}"\n',
            "utf-8",
        )
    one, other = evaluate(
        [str(tmp_path / "s0.toml"), str(tmp_path / "s1.toml")],
        folder,
        tmp_path / "out",
        data_root,
        card=False,
    )
    assert one.main.items == 200
    assert one.main.value == pytest.approx(1 - other.main.value)
    assert list(one.groups["phenomenon"]) == ["argument_structure"]
