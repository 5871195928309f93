"""What a person sees of a run: the page, the sentences filled on the way, events for TensorBoard."""

import math
import re
import signal
import sys
from collections.abc import Callable
from html import unescape
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from unmask.charts import number_text
from unmask.checkpoint import load_model
from unmask.cli import app
from unmask.config import Recipe
from unmask.data.prepare import prepare
from unmask.data.shards import Corpus
from unmask.errors import InputError, UserError
from unmask.model.network import Model
from unmask.predict import load
from unmask.runs import Metrics, read_metrics
from unmask.text import find_sources
from unmask.tokenizer import Tokenizer
from unmask.tokenizer.build import build_tokenizer
from unmask.train.board import Board
from unmask.train.cloze import Clozes, choose_clozes, read_clozes
from unmask.train.frequency import Bands, token_counts
from unmask.train.machine import Machine
from unmask.train.material import gather
from unmask.train.objectives import Objectives
from unmask.train.pretrain import pretrain
from unmask.train.report import smoothed, write_report
from unmask.train.start import Start
from unmask.train.validate import Validator, validation_batches

Make = Callable[..., Recipe]
CPU = Machine(torch.device("cpu"), False)


def of(run: Path, split: str) -> list[dict[str, Any]]:
    return [record for record in read_metrics(run) if record["split"] == split]


@pytest.fixture(scope="module")
def run(small: Make, shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything to show: two languages, pairs, events."""
    folder = tmp_path_factory.mktemp("report") / "two-tongues"
    recipe = small("train.steps=40", "train.eval_every=10", "train.lr=0.01", "batch.pairs=sop")
    pretrain(recipe, folder, Start(data=shards), tensorboard=True)
    return folder


def test_the_page_shows_what_was_measured(run: Path) -> None:
    page = (run / "report.html").read_text("utf-8")
    titles = re.findall(r'<text class="title"[^>]*>([^<]+)<', page)
    assert titles[:5] == [
        "Loss, hidden tokens", "Accuracy, hidden tokens", "Loss, sentence order", "Accuracy, sentence order",
        "Accuracy by kind of hiding",
    ]  # fmt: skip
    assert {"Loss by language", "Accuracy by language", "Accuracy by frequency", "Learning rate"} <= set(
        titles
    )
    assert {"Norm of the gradient", "Speed", "Fill rate"} <= set(titles)
    train, valid = of(run, "train"), of(run, "valid")
    first, last = valid[0]["languages"]["pt"]["loss"], valid[-1]["languages"]["pt"]["loss"]
    assert f"pt from {number_text(first)} to {number_text(last)}" in page
    assert f"<td>{train[-1]['tokens']:,}, epoch {train[-1]['epoch'] + 1}</td>" in page
    assert f"{valid[-1]['accuracy']['mlm']:.1%} of the hidden tokens" in page
    assert "<td>40 of 40</td>" in page
    assert "seed = 0" in page
    assert len(page) < 150_000
    card = (run / "model" / "README.md").read_text("utf-8")
    assert f"(the commonest token alone: {valid[-1]['guess']:.1%})" in card


def test_the_table_of_sentences(run: Path) -> None:
    page = (run / "report.html").read_text("utf-8")
    records = of(run, "cloze")
    assert [record["step"] for record in records] == [10, 20, 30, 40]
    table = page[page.index("<th>sentence</th>") :].split("</table>")[0]
    rows = [re.findall(r"<td(.*?)>(.*?)</td>", row) for row in table.split("<tr>")[1:]]
    assert len(rows) == len(records[-1]["fills"]) == 10
    for row, *fills in zip(rows, *(record["fills"] for record in records), strict=True):
        assert unescape(row[0][1]) == fills[0]["text"]
        assert unescape(row[1][1]) == fills[0]["answer"]
        for (style, shown), fill in zip(row[2:], fills, strict=True):
            said = f"{fill['word']} <small>{fill['probability']:.0%}</small>"
            assert unescape(shown).removeprefix("✓ ") == said
            assert ('class="marked right"' in style) == shown.startswith("✓") == fill["right"]
            assert fill["right"] == (fill["word"] == fill["answer"])


def test_what_is_seldom_there(tmp_path: Path) -> None:
    place = {"epoch": 0, "tokens": 99, "seconds": 300.0}
    train = {
        "split": "train",
        **place,
        "loss": 2.0,
        "parts": {"mlm": 2.0},
        "accuracy": {"mlm": 0.5},
        "lr": 0.1,
    }
    many = {f"x{number}": {"loss": 2.0, "accuracy": 0.25} for number in range(9)}
    valid = {**train, "split": "valid", "step": 3, "languages": many, "frequency": {}, "guess": 0.1}
    fill = {"text": "A [MASK].", "answer": "casa", "word": "casa", "probability": 0.9, "right": True}
    records = [
        {**train, "step": 1, "mfu": 0.25, "skipped": False},
        {**train, "step": 2, "loss": None, "parts": {"mlm": None}, "skipped": True},
        {**train, "step": 3, "mfu": 0.5, "skipped": False, "parts": {"next": 3.0}},  # a hybrid run
        valid,
        {"split": "cloze", **place, "step": 3, "fills": [{**fill, "answer_probability": 0.9}]},
    ]
    metrics = Metrics(tmp_path)
    for record in records:
        metrics.write(record)
    page = write_report(tmp_path).read_text("utf-8")
    assert '<td class="marked right" title="casa: 90.0%">✓ casa <small>90%</small></td>' in page
    assert "Skipped, as the loss was not finite: 1 of the steps (2)." in page
    assert "Share of the matmul peak from 25% to 50%" in page
    assert '<td>x8</td><td class="number">2.000</td><td>25.0%</td>' in page
    assert "<td>5.0 minutes</td>" in page
    assert "The model is causal" not in page


def test_sentences_are_filled_as_fill_does(run: Path) -> None:
    model = load(run / "model", device="cpu")
    for fill in of(run, "cloze")[-1]["fills"]:
        best = model.fill(fill["text"], top=1)[0]
        assert best.words[0].text == fill["word"]
        assert best.probability == pytest.approx(fill["probability"], rel=1e-3)


def test_the_command_makes_the_same_page_again(run: Path, tmp_path: Path) -> None:
    made = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    shown = CliRunner().invoke(app, ["report", str(run)])
    assert shown.stdout == f"report: {run / 'report.html'}\n"
    assert (run / "report.html").read_bytes() == made
    with pytest.raises(InputError, match="is not a run"):
        write_report(tmp_path)
    whole = (run / "metrics.jsonl").read_text("utf-8")
    (tmp_path / "metrics.jsonl").write_text(whole + '{"step": 41, "spl', "utf-8")  # as a kill leaves it
    write_report(tmp_path)
    (tmp_path / "metrics.jsonl").write_text(whole + "nonsense\n", "utf-8")
    with pytest.raises(InputError, match=f"line {whole.count(chr(10)) + 1} is damaged"):
        write_report(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("", "utf-8")
    assert "Nothing is measured yet" in write_report(tmp_path).read_text("utf-8")
    (tmp_path / "config.json").touch()
    with pytest.raises(InputError, match="is a model and not a run"):
        write_report(tmp_path)


def test_a_run_that_was_stopped_has_its_page(
    small: Make, shards: Path, tmp_path: Path, watcher: type
) -> None:
    stop = watcher(lambda step: signal.raise_signal(signal.SIGTERM) if step == 3 else None)
    result = pretrain(small(), tmp_path / "run", Start(data=shards), False, stop)
    assert result.stopped
    assert "<td>3 of 6</td>" in Path(result.report).read_text("utf-8")


def test_short_runs_validate_now_and_then(small: Make, shards: Path, tmp_path: Path) -> None:
    pretrain(small("train.steps=12", "model.layers=1"), tmp_path / "run", Start(data=shards))
    assert [record["step"] for record in of(tmp_path / "run", "valid")] == [10, 12]


def test_events_for_tensorboard(run: Path, small: Make, shards: Path, tmp_path: Path, watcher: type) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"), {"scalars": 0, "tensors": 0})
    events.Reload()
    for split, key in (("train", "loss"), ("train", "lr"), ("valid", "loss")):
        expected = [(record["step"], record[key]) for record in of(run, split)]
        found = [(event.step, event.value) for event in events.Scalars(f"{split}/{key}")]
        assert found == [(step, pytest.approx(value, rel=1e-5)) for step, value in expected]
    assert len(events.Scalars("valid/languages/pt/accuracy")) == 4
    told = events.Tensors("cloze/text_summary")[-1].tensor_proto.string_val[0].decode()
    assert of(run, "cloze")[-1]["fills"][0]["text"] in told


def test_events_after_the_checkpoint_no_longer_count(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for begin, end, loss in ((0, 5, 1.0), (3, 4, 2.0)):
        board = Board(tmp_path, begin)
        for step in range(begin + 1, end + 1):
            board({"split": "train", "step": step, "loss": loss, "grad_norm": math.nan})
        board.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert found == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0)]
    assert events.Tags()["scalars"] == ["train/loss"]


def test_tensorboard_that_is_not_there_is_said_at_once(
    small: Make, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UserError, match=r"pip install 'unmask\[tensorboard\]'"):
        pretrain(small(), tmp_path / "run", Start(data=shards), tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_frequencies_are_those_of_the_training_text(shards: Path) -> None:
    corpus = Corpus.open(shards)
    every = np.concatenate([corpus.document(number)[0] for number in range(corpus.document_count)])
    counts = token_counts(corpus)
    assert counts.tolist() == [int((every == token).sum()) for token in range(corpus.vocab_size)]
    bands = Bands.cut(counts)
    assert bands.names == ("1-10", "11-30", "31-100", "101-140")
    assert np.bincount(bands.of).tolist() == [10, 20, 70, 40]
    assert counts[bands.of == 0].min() >= counts[bands.of == 1].max()
    assert counts[bands.commonest] == counts.max()


def test_validation_by_frequency(small: Make, shards: Path, run: Path) -> None:
    recipe = small("train.eval_tokens=600", "train.micro_tokens=192")
    valid, counts = Corpus.open(shards, "valid"), token_counts(Corpus.open(shards))
    model = load_model(run / "model")[0]
    result = Validator(valid, recipe, CPU, counts)(model)
    ranks = {token: rank for rank, token in enumerate(sorted(range(140), key=lambda t: -counts[t]))}
    groups: dict[str, list[tuple[float, bool]]] = {}
    right = []
    for batch in validation_batches(valid, recipe):
        with torch.no_grad():
            outcome = Objectives(recipe)(model, batch)["mlm"]
        for token, loss, correct in zip(
            batch.target_ids.tolist(), *map(torch.Tensor.tolist, outcome), strict=True
        ):
            rank = ranks[token]
            band = "1-10" if rank < 10 else "11-30" if rank < 30 else "31-100" if rank < 100 else "101-140"
            groups.setdefault(band, []).append((loss, correct))
            right.append(token == next(iter(ranks)))
    assert set(result.frequency) == set(groups)
    for band, found in groups.items():
        loss, accuracy = np.mean(np.array(found, float), axis=0)
        assert result.frequency[band] == {"loss": pytest.approx(loss), "accuracy": pytest.approx(accuracy)}
    assert result.guess == pytest.approx(np.mean(right))


def test_sentences_come_from_the_validation_text(small: Make, shards: Path) -> None:
    valid, counts = Corpus.open(shards, "valid"), token_counts(Corpus.open(shards))
    tokenizer = Tokenizer.load(shards / "tokenizer")
    texts = {tokenizer.decode(valid.document(n)[0]): valid.languages[n] for n in range(valid.document_count)}
    chosen = choose_clozes(valid, tokenizer, small(), counts)
    languages = []
    for cloze in chosen:
        whole = cloze.text.replace("[MASK]", cloze.answer or "")
        languages.append(next(language for text, language in texts.items() if whole in text))
        assert tokenizer.encode(cloze.text).ids.tolist() == cloze.ids.tolist()
        assert cloze.ids[cloze.place] == tokenizer.mask_id
        assert tokenizer.piece(cloze.answer_id or 0) == cloze.answer
    assert sorted(languages) == [0] * 5 + [1] * 5
    again = choose_clozes(valid, tokenizer, small(), counts)
    assert [cloze.text for cloze in again] == [cloze.text for cloze in chosen]
    other = choose_clozes(valid, tokenizer, small("seed=5"), counts)
    assert [cloze.text for cloze in other] != [cloze.text for cloze in chosen]


@pytest.mark.parametrize("kind", ["wordpiece", "unigram", "bpe"])
def test_the_hole_of_a_chosen_sentence_is_a_word(kind: str, small: Make, tmp_path: Path) -> None:
    who = [
        "O padeiro",
        "A costureira",
        "O ferreiro",
        "A vizinha",
        "O carteiro",
        "A enfermeira",
        "O marinheiro",
    ]
    did = ["trouxe", "perdeu", "encontrou", "guardou", "vendeu", "pintou", "esqueceu", "escondeu"]
    what = ["o chapéu", "a bicicleta", "um retrato", "uma cadeira", "o relógio", "a lanterna", "dois livros"]
    where = [
        "na cozinha",
        "perto do mercado",
        "depois da chuva",
        "antes do almoço",
        "no domingo",
        "em Aveiro",
    ]
    lines = [f"{' '.join(words)}." for words in product(who, did, what, where)]
    (tmp_path / "a.txt").write_text("\n".join(lines), "utf-8")
    size = {"wordpiece": 150, "unigram": 80, "bpe": 400}[kind]
    changes = (f"tokenizer.kind={kind}", f"tokenizer.vocab_size={size}", "text.documents=line")
    recipe = small(*changes, "prepare.valid=0.05", "prepare.deduplicate=false", "text.min_chars=1")
    sources = find_sources([f"pt={tmp_path / 'a.txt'}"])
    build_tokenizer(sources, tmp_path / "vocab", recipe)
    tokenizer = Tokenizer.load(tmp_path / "vocab")
    prepare(sources, tokenizer, tmp_path / "shards", recipe, workers=1)
    valid, counts = Corpus.open(tmp_path / "shards", "valid"), token_counts(Corpus.open(tmp_path / "shards"))
    model = gather(recipe, tmp_path, Start(data=tmp_path / "shards")).model()
    model.heads["mlm"].bias.data[: tokenizer.vocab_size][~torch.from_numpy(tokenizer.openings)] += 50
    filled = Clozes(valid, tokenizer, recipe, CPU, counts)(model)
    assert filled
    for fill in filled:
        before, mask, _ = fill["text"].partition(tokenizer.mask_token)
        assert mask
        assert before[-1:] in ("", " ")
        entries = tokenizer.encode(f"a {fill['word']}", special=False).ids
        assert any(tokenizer.openings[entry] for entry in entries[1:])  # a word, or the beginning of one
    for cloze in choose_clozes(valid, tokenizer, recipe, counts):
        assert tokenizer.encode(cloze.text).ids.tolist() == cloze.ids.tolist()


def test_sentences_of_a_file(small: Make, shards: Path, tmp_path: Path) -> None:
    tokenizer, path = Tokenizer.load(shards / "tokenizer"), tmp_path / "clozes.txt"
    path.write_text("O menino [MASK] o comboio.\tespera\n\nThe <mask> writes letters.\n", "utf-8")
    first, second = read_clozes(path, tokenizer, 64)
    assert (first.answer, second.answer, second.answer_id) == ("espera", None, None)
    assert second.ids[second.place] == tokenizer.mask_id
    recipe = small(f"train.cloze={path}")
    valid, counts = Corpus.open(shards, "valid"), token_counts(Corpus.open(shards))
    model = gather(recipe, tmp_path, Start(data=shards)).model()
    model.heads["mlm"].bias.data[: tokenizer.vocab_size][~torch.from_numpy(tokenizer.openings)] += 50
    filled = Clozes(valid, tokenizer, recipe, CPU, counts)(model)
    assert [fill["text"] for fill in filled] == ["O menino [MASK] o comboio.", "The <mask> writes letters."]
    assert not any(
        fill["word"].startswith("##") for fill in filled
    )  # as `fill`, which gives no tails of words
    for wrong, says in (
        ("nothing hidden here\n", "line 1: 0 masks"),
        ("[MASK] e [MASK]\n", "line 1: 2 masks"),
    ):
        path.write_text(wrong, "utf-8")
        with pytest.raises(InputError, match=says):
            read_clozes(path, tokenizer, 64)
    path.write_text("ok [MASK]\n" + "rega " * 80 + "[MASK]\n", "utf-8")
    with pytest.raises(InputError, match=r"line 2: .* tokens; .* at most 64"):
        read_clozes(path, tokenizer, 64)
    with pytest.raises(InputError, match=r"train\.cloze"):
        read_clozes(tmp_path / "nowhere", tokenizer, 64)


def test_a_causal_model_goes_on_from_what_stands_before(small: Make, shards: Path, tmp_path: Path) -> None:
    recipe = small("objective.causal=1.0", "train.steps=10", "model.causal=true", "model.segments=0")
    valid, counts = Corpus.open(shards, "valid"), token_counts(Corpus.open(shards))
    tokenizer = Tokenizer.load(shards / "tokenizer")
    torch.manual_seed(3)
    model = Model(recipe.model.model_copy(update={"vocab_size": 140}), ["mlm"]).eval()
    clozes = choose_clozes(valid, tokenizer, recipe, counts)
    filled = Clozes(valid, tokenizer, recipe, CPU, counts)(model)
    for cloze, fill in islice(zip(clozes, filled, strict=True), 3):
        before = torch.from_numpy(cloze.ids[: cloze.place])
        ends = torch.tensor([0, len(before)], dtype=torch.int32)
        with torch.no_grad():
            hidden = model.encoder(before, torch.arange(len(before)), ends, len(before), causal=True)
            chances = model.mlm(hidden[-1:]).softmax(-1)[0]
        assert fill["answer_probability"] == pytest.approx(chances[cloze.answer_id].item(), rel=1e-4)


def test_a_vocabulary_size_that_is_not_used_is_said(
    small: Make, shards: Path, tmp_path: Path, watcher: type
) -> None:
    watch = watcher()
    gather(small("model.vocab_size=500"), tmp_path, Start(data=shards), watch)
    assert watch.said == [
        "model.vocab_size = 500 is not used: the vocabulary has 140 entries "
        "(tokenizer.vocab_size says how many a new one gets)"
    ]
    gather(small(), tmp_path, Start(data=shards), watch)
    gather(small("model.vocab_size=140"), tmp_path, Start(data=shards), watch)
    assert len(watch.said) == 1


def test_curves_are_means_of_equal_parts() -> None:
    points = [(float(step), float(step % 2)) for step in range(1, 401)]
    curve = smoothed(points)
    assert len(curve) == 100
    assert curve[-1] == (400.0, 0.5)
    assert smoothed(points[:7]) == points[:7]
    assert smoothed([]) == []


def test_every_key_is_documented(run: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "pretraining.md").read_text("utf-8")
    section = page.split("## metrics.jsonl")[1].split("\n## ")[0]
    records = list(read_metrics(run))
    fills = [fill for record in records if record["split"] == "cloze" for fill in record["fills"]]
    parts = [group for record in records for group in (record.get("parts"), record.get("accuracy")) if group]
    for key in {key for record in [*records, *fills, *parts] for key in record}:
        assert f"`{key}`" in section, key
