"""Sentence vectors: the losses, what files teach, and a folder that sentence-transformers opens."""

import json
import math
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.conftest import Heard
from tests.tasks.conftest import BAD, GOOD, THINGS, WHEN
from typer.testing import CliRunner

import unmask
from unmask.checkpoint import load_model
from unmask.cli import app
from unmask.errors import ConfigError, UserError
from unmask.runs import read_metrics
from unmask.tasks import embed
from unmask.tasks.batches import make_batch
from unmask.tasks.columns import Columns
from unmask.tasks.contrast import ContrastLoss, contrast_items, contrast_of, ordered
from unmask.tasks.embed import EmbedResult, _Training, finetune_embed, read_texts
from unmask.tasks.examples import TextExample
from unmask.tasks.settings import EmbedConfig
from unmask.tokenizer import Tokenizer

PAIRS = [
    TextExample(f"{thing} {GOOD[n % 4]} {when}", f"{when} {thing} {BAD[n % 4]}")
    for thing in THINGS
    for n, when in enumerate(WHEN)
]
"""Alike where they speak of the same thing at the same time."""
SCORED = [
    TextExample(one.text, other.pair, float(one is other) + (one.text[:4] == other.text[:4]))
    for one in PAIRS[::3]
    for other in PAIRS[::4]
]


def quick(**values: Any) -> EmbedConfig:
    usual: dict[str, Any] = {"lr": 3e-3, "epochs": 6, "batch": 10}
    return EmbedConfig(**usual | values)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, base: Path) -> tuple[Path, EmbedResult]:
    out = tmp_path_factory.mktemp("embed") / "out"
    return out, finetune_embed(base, PAIRS, SCORED, out, quick())


def test_the_score_rises(trained: tuple[Path, EmbedResult]) -> None:
    out, result = trained
    assert result.learnt_from == "pairs"
    assert result.before is not None
    assert result.after is not None
    assert result.after["spearman"] > result.before["spearman"] + 0.1
    valid = [record for record in read_metrics(out) if record["split"] == "valid"]
    assert len(valid) == 6
    assert max(record["scores"]["spearman"] for record in valid) == pytest.approx(result.after["spearman"])
    model = unmask.load(out)
    first, second = np.split(model.embed([e.text for e in SCORED] + [str(e.pair) for e in SCORED]), 2)
    from scipy.stats import spearmanr

    found = spearmanr((first * second).sum(1), [e.target for e in SCORED]).statistic
    assert found == pytest.approx(result.after["spearman"], abs=1e-3)
    best = max(valid, key=lambda record: (record["scores"]["spearman"], record["step"]))
    assert result.kept_epoch == best["step"] * 6 // result.steps
    kept = f"epoch {result.kept_epoch}"
    card, page = ((out / name).read_text("utf-8") for name in ("README.md", "report.html"))
    assert f"- weights: {kept}, the best by spearman\n- settings: lr 0.003, batch" in card
    assert f"{result.steps} steps at lr 0.003," in page
    assert f"The weights of {kept} were kept" in page
    assert f"| spearman | {result.before['spearman']:.4f} | {result.after['spearman']:.4f} |" in card
    assert "Training loss" in page


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_sentence_transformers_makes_the_same_vectors(trained: tuple[Path, EmbedResult]) -> None:
    from sentence_transformers import SentenceTransformer

    texts = ["a sopa excelente ontem", "the room", "o vinho " * 60]
    theirs = SentenceTransformer(str(trained[0]), device="cpu").encode(texts, show_progress_bar=False)
    ours = unmask.load(trained[0]).embed(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


def batch_of(base: Path, examples: list[TextExample]) -> Any:
    tokenizer = Tokenizer.load(base)
    sides = ([e.text for e in examples], [e.text if e.pair is None else e.pair for e in examples])
    ids = [[encoding.ids for encoding in tokenizer.encode_batch(side)] for side in sides]
    return make_batch(contrast_items(examples, *ids), segments=False)


def test_in_batch_negatives_by_hand(base: Path) -> None:
    model, _ = load_model(base, heads=[])
    examples = [*PAIRS[:4], TextExample(PAIRS[0].text, "the song")]  # its first text stands there twice
    outcome = ContrastLoss("pairs", 0.1)(model, batch_of(base, examples))["contrast"]
    own = unmask.load(base)
    first, second = (
        F.normalize(torch.tensor(own.embed(side), dtype=torch.float64), dim=1)
        for side in ([e.text for e in examples], [str(e.pair) for e in examples])
    )
    scores = first @ second.T / 0.1
    for i, j in ((0, 4), (4, 0)):
        scores[i, j] = -torch.inf
    expected = -(scores.log_softmax(1).diagonal() + scores.log_softmax(0).diagonal()) / 2
    torch.testing.assert_close(outcome.losses.double(), expected, atol=1e-4, rtol=1e-4)


def test_order_by_hand() -> None:
    cosines, truth = torch.tensor([0.9, 0.1, 0.5]), torch.tensor([1.0, 3.0, 1.0])
    expected = np.log(1 + np.exp(0.9 - 0.1) + np.exp(0.5 - 0.1))
    torch.testing.assert_close(ordered(cosines, truth), torch.full((3,), float(expected)))
    assert ordered(cosines, torch.ones(3)).tolist() == [0.0, 0.0, 0.0]


def test_scores_teach(tmp_path: Path, base: Path, heard: Heard) -> None:
    result = finetune_embed(base, SCORED, SCORED[::2], tmp_path / "out", quick(epochs=3), progress=heard)
    assert heard.stages == ["encoding", "scoring", "fine-tuning"]
    assert result.learnt_from == "scores"
    assert result.before is not None
    assert result.after is not None
    assert result.after["spearman"] > result.before["spearman"] + 0.1


def test_texts_alone_learn_by_dropout(tmp_path: Path, base: Path) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(example.text for example in PAIRS), "utf-8")
    for columns in (Columns("a"), Columns(pair="a"), Columns(label="a")):
        with pytest.raises(ConfigError, match=r"lines.txt is plain text and has no column a: name none"):
            finetune_embed(base, tmp_path / "lines.txt", out=tmp_path / "out", columns=columns)
    result = finetune_embed(base, tmp_path / "lines.txt", out=tmp_path / "out", settings=quick(epochs=4))
    assert (result.learnt_from, result.train_examples) == ("texts", len(PAIRS))
    assert result.before is None
    model = unmask.load(tmp_path / "out")
    assert model.config.dropout == 0.1  # the model had none
    texts = [example.text for example in PAIRS]

    def crowded(vectors: Any) -> float:
        return float(np.mean(vectors @ vectors.T))

    assert crowded(model.embed(texts)) < crowded(unmask.load(base).embed(texts, normalise=True)) - 0.1


def test_what_files_teach(tmp_path: Path) -> None:
    header, row = "sentence1\tsentence2\tscore\n", "o gato\ta gata\t4.5\n"
    (tmp_path / "sts.tsv").write_text(header + row, "utf-8")
    assert read_texts(tmp_path / "sts.tsv")[0].target == 4.5
    (tmp_path / "sts.csv").write_text("text;pair;score\num;dois;4,5\n", "utf-8")
    assert read_texts(tmp_path / "sts.csv")[0].target == 4.5
    (tmp_path / "pairs.csv").write_text("premise,hypothesis,label\num,dois,neutral\n", "utf-8")
    (found,) = read_texts(tmp_path / "pairs.csv")
    assert (found.text, found.pair, found.target) == ("um", "dois", None)
    (tmp_path / "lonely.jsonl").write_text('{"text": "um", "score": 3}\n', "utf-8")
    assert contrast_of(read_texts(tmp_path / "lonely.jsonl")) == "texts"
    xml = '<c><pair id="1" similarity="2.5" entailment="None"><t>um</t><h>dois</h></pair></c>'
    (tmp_path / "assin.xml").write_text(xml, "utf-8")
    assert read_texts(tmp_path / "assin.xml")[0].target == 2.5
    (tmp_path / "bare.tsv").write_text("x\t5.0\tum\tdois\n", "utf-8")
    numbered = read_texts(tmp_path / "bare.tsv", Columns("3", "4", "2"))
    assert (numbered[0].text, numbered[0].target) == ("um", 5.0)


@pytest.mark.parametrize(
    ("train", "valid", "values", "message"),
    [
        (PAIRS[:1], None, {}, "at least two"),
        (PAIRS, PAIRS, {}, "two texts and a score"),
        ([*PAIRS, TextExample("só", place="p.tsv, line 9")], None, {}, "p.tsv, line 9' has no second text"),
        (
            [TextExample("a", "b", 1.0), TextExample("c", "d", place="line 2")],
            None,
            {},
            "line 2' has no number",
        ),
        ([TextExample("a", "b", 1.0), TextExample("c", "d", float("nan"))], None, {}, "'c' has no number"),
        ([TextExample("a", "b", "yes"), TextExample("c", "d", "no")], None, {}, "'a' has no number"),
        ([TextExample("a"), TextExample("b")], None, {"dropout": 0.0}, "told from itself by dropout"),
        (PAIRS, None, {"length": 300}, "takes at most 48 tokens"),
        (PAIRS, None, {"lr": 1e30, "epochs": 9}, "diverged.*lower lr"),
        (PAIRS, None, {"lr": 1e36, "epochs": 1}, "diverged.*not finite at step.*--lr"),
        (PAIRS, SCORED, {"lr": 1e36, "epochs": 1}, "diverged.*not finite at step.*--lr"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, base: Path, train: Any, valid: Any, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        finetune_embed(base, train, valid, tmp_path / "out", quick(**values))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("batch", [2, 20])
def test_a_good_epoch_is_kept_where_a_later_one_diverges(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    validate = _Training._validate

    def then_break(training: _Training) -> None:
        validate(training)
        next(training.model.parameters()).data.fill_(math.nan)

    monkeypatch.setattr(_Training, "_validate", then_break)
    result = finetune_embed(base, PAIRS, SCORED, tmp_path / "out", quick(epochs=3, batch=batch))
    assert (result.kept_epoch, result.stopped) == (1, None)
    assert np.isfinite(unmask.load(tmp_path / "out").embed(["o gato"])).all()


def test_the_command(tmp_path: Path, base: Path) -> None:
    rows = [f"{example.text}\t{example.pair}" for example in PAIRS]
    (tmp_path / "pairs.tsv").write_text("text\tpair\n" + "\n".join(rows), "utf-8")
    command = ["finetune", "embed", "--model", str(base), "--train", str(tmp_path / "pairs.tsv"), "-q"]
    run = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "a"), "--set", "batch=20"])
    assert run.exit_code == 0, run.output
    assert "40 examples (pairs), 2 steps at lr 0.00072 in" in run.output
    assert "kept" not in run.output  # without validation there is no choice
    taken = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "a")])
    assert "a holds a model already: add --overwrite to replace it" in str(taken.exception)
    itself = ["finetune", "embed", "--model", str(tmp_path / "a"), "-o", str(tmp_path / "a"), "--overwrite"]
    itself += ["--train", str(tmp_path / "pairs.tsv")]
    assert "a holds what is to be read" in str(CliRunner().invoke(app, itself).exception)
    with pytest.raises(UserError, match="a holds what is to be read"):
        finetune_embed(tmp_path / "a", PAIRS, out=tmp_path / "a", overwrite=True)
    printed = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "a"), "--overwrite", "--json"])
    result = json.loads(printed.output)
    assert (result["learnt_from"], result["kept_epoch"]) == ("pairs", None)
    assert result["lr"] == pytest.approx(3e-5 * 768 / 32)
    scored = [f"{example.text}\t{example.pair}\t{example.target}" for example in SCORED]
    (tmp_path / "scored.tsv").write_text("text\tpair\tscore\n" + "\n".join(scored), "utf-8")
    valid = ["--valid", str(tmp_path / "scored.tsv"), "-o", str(tmp_path / "d")]
    run = CliRunner().invoke(app, [*command, *valid])
    assert f"kept: epoch 1, the best by cosines against the scores of {len(SCORED)} pairs:" in run.output
    itself = ["finetune", "embed", "--model", str(base), "--train", str(tmp_path / "scored.tsv"), "-q"]
    assert CliRunner().invoke(app, [*itself, *valid, "--overwrite"]).exit_code == 0
    card = (tmp_path / "d/README.md").read_text("utf-8")
    assert f"{len(SCORED)} pairs, {len(SCORED)} of which it was trained on, and chosen by:" in card
    for given in (
        ("--layers", "1"), ("--lora", "8"), ("--replay-text", str(tmp_path / "pairs.tsv")), ("--seeds", "2"),
    ):  # fmt: skip
        wrong = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "c"), *given])
        assert str(wrong.exception) == (
            f"{given[0]}: embed has no such setting, only classify, tag, pair, qa and regress have it:"
            " leave it out"
        )
    classify = ["finetune", "classify", *command[2:], "-o", str(tmp_path / "c"), "--set", "temperature=1"]
    assert str(CliRunner().invoke(app, classify).exception) == (
        "--set temperature=1: classify has no such setting, only embed has it: leave it out"
    )


def test_a_stopped_training_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: Path) -> None:
    result = EmbedResult("out", "texts", None, None, 300, 0, 3e-4, None, 1, 7.0, stopped=signal.SIGINT)
    monkeypatch.setattr(embed, "finetune_embed", lambda *_, **__: result)
    (tmp_path / "a.txt").write_text("O gato dorme.", "utf-8")
    command = ["finetune", "embed", "--model", str(base), "--train", str(tmp_path / "a.txt")]
    run = CliRunner().invoke(app, [*command, "-o", str(tmp_path / "out")])
    assert run.exit_code == 128 + signal.SIGINT
    assert run.stdout.startswith("stopped before its end: this is what was learnt until then\n")
