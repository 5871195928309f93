"""Tasks: fine-tuned where the head is missing, only scored where it is there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from seqeval.metrics import f1_score as seqeval_f1
from sklearn.metrics import matthews_corrcoef
from tests.conftest import Heard

from unmask.errors import InputError
from unmask.evaluation import evaluate
from unmask.evaluation.finetuned import fits
from unmask.evaluation.results import read_items
from unmask.evaluation.suites import FOLDER, FinetuneSuite, find_suites, read_suite, suite_names
from unmask.files import digest, file_digest
from unmask.predict import Answerer, Classifier, Tagger, load
from unmask.predict.settings import TaskSettings
from unmask.tasks.columns import Columns
from unmask.tasks.examples import TextExample
from unmask.tasks.finetune import finetune
from unmask.tasks.metrics import answers
from unmask.tasks.read import read_examples
from unmask.tasks.settings import FinetuneConfig

Write = Callable[..., Path]
Save = Callable[..., Path]
CLASSES = [
    {"text": f"The boat {n} came back before the {word}.", "label": label}
    for n in range(20)
    for word, label in (("sun", "good"), ("rain", "bad"))
]


def test_a_model_without_the_head_is_fine_tuned(folder: Path, write: Write, tmp_path: Path) -> None:
    suite = write(
        'kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"\nmetric = "matthews"\nexamples = 30\n'
        "[settings]\nepochs = 8\nbatch = 4\nlr = 0.003\n", x__jsonl=CLASSES,
    )  # fmt: skip
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    items = read_items(tmp_path / "out", "mine")
    assert list(result.scores) == ["Matthews", "accuracy", "macro F1"]
    assert result.main.items == len(items) == 4  # a tenth, by hash
    assert result.details["learned from"] <= 30
    assert result.details["learning rate"] == 0.003
    assert result.details["best validation score"] == 1
    assert result.scores["accuracy"].value == 1  # one word says it all
    gold, predicted = ([item[key] for item in items] for key in ("gold", "predicted"))
    assert result.main.value == pytest.approx(matthews_corrcoef(gold, predicted))
    (few,) = evaluate(str(suite), folder, tmp_path / "few", card=False, sample=8)
    assert few.details["learned from"] <= 8
    with pytest.raises(InputError, match=r"hold some out .* \(in a sample of 1 of mine: perhaps too few\)"):
        evaluate(str(suite), folder, tmp_path / "one", card=False, sample=1)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "results.json", "mine.json", "mine.items.jsonl", "report.html"
    }  # fmt: skip


def test_what_is_scored_is_not_learned_from(folder: Path, write: Write, tmp_path: Path, heard: Heard) -> None:
    """As ASSIN 2 has it, whose file to learn from holds the one to score on."""
    suite = write(
        'kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"\ndev = "dev.jsonl"\n'
        "[settings]\nepochs = 1\nvalid = 0.5\n",
        x__jsonl=CLASSES, dev__jsonl=[*CLASSES[:12], {"text": "New.", "label": "good"}],
    )  # fmt: skip
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False, progress=heard)
    assert result.main.items == 13
    assert result.details["learned from"] == (len(CLASSES) - 12) / 2
    told = "left out of the training, as they are scored"
    assert result.details[told] == 12
    assert f"mine: 12 of 40 training examples {told}" in heard.said
    suite = write(
        'kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"\ndev = "x.jsonl"\n', x__jsonl=CLASSES
    )
    with pytest.raises(InputError, match=r"x.jsonl holds all of x.jsonl"):
        evaluate(str(suite), folder, tmp_path / "all", card=False)


def test_a_pair_that_is_scored_is_not_learned_from_the_other_way_round(
    folder: Path, write: Write, tmp_path: Path
) -> None:
    pairs = [(f"The boat {n} came.", "It came." if n % 2 else "It sank.", str(n % 2)) for n in range(12)]
    rows = [{"text": a, "pair": b, "label": c} for a, b, c in pairs]
    other = [row | {"text": row["pair"], "pair": row["text"]} for row in rows[:4]]
    suite = write(
        'kind = "finetune"\ntask = "pair"\ntrain = "x.jsonl"\ndev = "dev.jsonl"\n'
        "[settings]\nepochs = 1\nvalid = 0.5\n",
        x__jsonl=rows, dev__jsonl=other,
    )  # fmt: skip
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    assert result.details["learned from"] == 4


def test_results_of_when_it_was_learned_from_are_computed_again(write: Write, tmp_path: Path) -> None:
    suite = write('kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"', x__jsonl=CLASSES)
    (found,) = find_suites([str(suite)], tmp_path)
    asks = found.suite.model_dump_json(exclude={"about", "source", "licence"})
    assert found.material(0) != digest(asks, "0", *map(file_digest, found.inputs()))


def test_a_head_that_was_trained_on_some_of_the_scored_examples(
    folder: Path, write: Write, tmp_path: Path
) -> None:
    suite = write(
        'kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"\ndev = "dev.jsonl"\n',
        x__jsonl=CLASSES, dev__jsonl=[*CLASSES[:3], {"text": "New.", "label": "good"}],
    )  # fmt: skip
    tuned = tmp_path / "tuned"
    finetune("classify", folder, tmp_path / "x.jsonl", out=tuned, settings=FinetuneConfig(epochs=1))
    (result,) = evaluate(str(suite), tuned, tmp_path / "out", card=False)
    assert "of which 3 of the scored examples are a part" in result.details["head"]


def test_the_rate_that_the_model_decides_belongs_to_the_result(
    folder: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = write(
        'kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"\nexamples = 30\n[settings]\nepochs = 1\n',
        x__jsonl=CLASSES,
    )
    found = []
    for highest in (1e-3, 1e-3, 5e-4):
        monkeypatch.setattr("unmask.tasks.settings.HIGHEST_LR", highest)
        found += evaluate(str(suite), folder, tmp_path / "out", card=False)
    assert [result.details["learning rate"] for result in found] == [1e-3, 1e-3, 5e-4]
    assert found[0] == found[1]
    assert found[0].fingerprint != found[2].fingerprint
    assert found[0].data == found[2].data  # the question is the same: models of two widths compare


def test_a_classifier_is_only_scored(save: Save, write: Write, tmp_path: Path) -> None:
    classifier = save("classify", labels=("bad", "good"))
    suite = write(
        'kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"\ndev = "x.jsonl"\nscored = 25',
        x__jsonl=CLASSES,
    )
    (result,) = evaluate(str(suite), classifier, tmp_path / "out", card=False)
    assert list(result.details) == ["files", "head"]  # nothing was learned
    assert "on what it was trained is not known (bad, good)" in result.details["head"]
    assert result.main.items == 25
    items = read_items(tmp_path / "out", "mine")
    assert result.main.value == pytest.approx(sum(item["gold"] == item["predicted"] for item in items) / 25)


def test_numbers(save: Save, write: Write, tmp_path: Path) -> None:
    model = save("classify", labels=("score",), problem="regression")
    rows = [{"sentence1": "The boat.", "sentence2": "boat " * n, "score": n} for n in range(1, 9)]
    suite = write(
        'kind = "finetune"\ntask = "regress"\ntrain = "x.jsonl"\ndev = "x.jsonl"\nmetric = "pearson"',
        x__jsonl=rows,
    )
    (result,) = evaluate(str(suite), model, tmp_path / "out", card=False)
    assert list(result.scores) == ["Pearson", "Spearman"]
    assert [item["gold"] for item in read_items(tmp_path / "out", "mine")] == list(range(1, 9))


def test_tags(save: Save, write: Write, tmp_path: Path) -> None:
    tags = ("O", "B-LOC", "I-LOC", "B-PER")
    model = save("tag", labels=tags)
    sentences = [
        [("Nobody", "B-PER"), ("knew", "O"), ("the", "B-LOC"), ("harbour", "I-LOC")],
        [("The", "O"), ("old", "O"), ("fisherman", "B-PER")],
    ]
    text = "\n\n".join("\n".join(f"{word}\t{tag}" for word, tag in sentence) for sentence in sentences)
    suite = write('kind = "finetune"\ntask = "tag"\ntrain = "x.conll"\ndev = "x.conll"', x__conll=text)
    (result,) = evaluate(str(suite), model, tmp_path / "out", card=False)
    tagger = load(model)
    assert isinstance(tagger, Tagger)
    gold = [[tag for _, tag in sentence] for sentence in sentences]
    found = [
        [label.name for label in labels]
        for labels in tagger.tag_words([[w for w, _ in s] for s in sentences])
    ]
    assert result.main.value == pytest.approx(seqeval_f1(gold, found, zero_division=0))
    right = sum(a == b for x, y in zip(gold, found, strict=True) for a, b in zip(x, y, strict=True))
    assert result.scores["accuracy"].value == pytest.approx(right / 7)


def test_sentences_without_spans_have_their_f1_too(save: Save, write: Write, tmp_path: Path) -> None:
    """Which score stands for a suite must not depend on the sentences that a sample holds."""
    model = save("tag", labels=("O", "B-LOC", "I-LOC"))
    suite = write(
        'kind = "finetune"\ntask = "tag"\ntrain = "x.conll"\ndev = "dev.conll"',
        x__conll="harbour B-LOC\n", dev__conll="boats O\ncome O\n\nnets O\n",
    )  # fmt: skip
    (result,) = evaluate(str(suite), model, tmp_path / "out", card=False)
    assert list(result.scores) == ["span F1", "accuracy"]
    assert result.main.value == 0


def test_several_classes_for_a_text_are_refused(folder: Path, write: Write, tmp_path: Path) -> None:
    rows = [*CLASSES[:6], {"text": "Both.", "label": "good|bad"}]
    suite = write('kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"', x__jsonl=rows)
    with pytest.raises(InputError, match=r"x.jsonl, line 7: several classes, but a suite scores one"):
        evaluate(str(suite), folder, tmp_path / "out", card=False)


def test_questions(save: Save, write: Write, tmp_path: Path) -> None:
    context = "The old fisherman kept the key in the harbour."
    questions = [("Where was the key?", "in the harbour"), ("Who kept it?", "The old fisherman")]
    qas = [
        {"id": str(n), "question": q, "answers": [{"text": a, "answer_start": context.index(a)}]}
        for n, (q, a) in enumerate(questions)
    ]
    squad = json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]})
    suite = write('kind = "finetune"\ntask = "qa"\ntrain = "x.json"\ndev = "x.json"', x__json=squad)
    model = save("answer")
    (result,) = evaluate(str(suite), model, tmp_path / "out", card=False)
    answerer = load(model)
    assert isinstance(answerer, Answerer)
    found = [answer.text for answer in answerer.answer_all([q for q, _ in questions], [context] * 2)]
    expected = answers([[a] for _, a in questions], found)
    assert result.scores["F1"].value == pytest.approx(expected["f1"])
    assert result.scores["exact match"].value == pytest.approx(expected["exact"])


TASKS = {
    name: suite
    for name in suite_names()
    if isinstance(suite := read_suite(FOLDER / f"{name}.toml"), FinetuneSuite)
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_real_files_are_read(name: str, data_root: Path) -> None:
    suite = TASKS[name]
    (found,) = find_suites([name], data_root)
    for path in found.inputs():
        assert len(read_examples(suite.task, path, Columns(**suite.columns))) > 400


def test_a_classifier_of_texts_is_none_of_pairs(save: Save, tmp_path: Path) -> None:
    """Labels such as 0 and 1 are those of many tasks."""
    model = load(save("classify", labels=("0", "1")))
    assert isinstance(model, Classifier)
    suites = [read_suite(FOLDER / f"{name}.toml") for name in ("sst2", "rte")]
    examples = [TextExample("a", "b", "1")]
    for name, expected in (("", [True, True]), ("classify", [True, False]), ("pair", [False, True])):
        model.settings = TaskSettings(name=name)
        assert [fits(model, suite, examples, "mark") for suite in suites] == expected  # type: ignore[arg-type]


def test_a_head_is_known_by_what_it_was_trained_on(folder: Path, write: Write, tmp_path: Path) -> None:
    """SST-2 and CoLA have the same labels, but are not the same task."""
    toml = 'kind = "finetune"\ntask = "classify"\ntrain = "x.jsonl"\n[settings]\nepochs = 1\n'
    other = [row | {"text": f"{row['text']} No."} for row in CLASSES]
    suite = write(toml, x__jsonl=CLASSES, other__jsonl=other)
    for name, own in (("x", True), ("other", False)):
        tuned, settings = tmp_path / f"tuned-{name}", FinetuneConfig(epochs=1)
        finetune("classify", folder, tmp_path / f"{name}.jsonl", out=tuned, settings=settings)
        (result,) = evaluate(str(suite), tuned, tmp_path / f"out-{name}", card=False)
        assert ("learned from" in result.details) == (not own)
        assert (
            "trained on x.jsonl, of which the scored examples are a part" in result.details["head"]
        ) == own


def test_parts_of_speech_are_no_spans(save: Save, write: Write, tmp_path: Path) -> None:
    model = save("tag", labels=("NOUN", "VERB"))
    suite = write(
        'kind = "finetune"\ntask = "tag"\ntrain = "x.conll"\ndev = "x.conll"',
        x__conll="boats NOUN\ncome VERB\n\nnets NOUN\n",
    )
    (result,) = evaluate(str(suite), model, tmp_path / "out", card=False)
    assert list(result.scores) == ["accuracy"]
