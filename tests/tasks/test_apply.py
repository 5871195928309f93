"""`predict`: files in, files out, row by row; and the two commands as a user runs them."""

import csv
import gzip
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from tests.conftest import Heard
from tests.tasks.conftest import questions, reviews, tagged
from typer.testing import CliRunner

import unmask
from unmask.checkpoint import save_model
from unmask.cli import app
from unmask.config import ModelConfig
from unmask.errors import ConfigError, InputError, ModelError, OutputError
from unmask.model.network import Model
from unmask.predict import Answerer, Classifier, MaskedLM, Tagger
from unmask.predict.settings import TaskSettings, read_task_settings
from unmask.tasks.apply import _text_rows, predict_file
from unmask.tasks.columns import Columns
from unmask.tasks.finetune import finetune
from unmask.tasks.read import stream_examples
from unmask.tasks.settings import FinetuneConfig
from unmask.tokenizer import Tokenizer


def network(tokenizer: Tokenizer, head: str, **changes: object) -> Model:
    config = ModelConfig(
        **{"vocab_size": tokenizer.vocab_size, "width": 16, "layers": 1, "heads": 2, "inner": 16}  # type: ignore[arg-type]
        | {"positions": 32, "init_std": 0.5}
        | changes
    )
    return Model(config, [head], torch.Generator().manual_seed(0)).eval()


@pytest.fixture(scope="module")
def classifier(tokenizer: Tokenizer) -> Classifier:
    model = network(tokenizer, "classify", labels=("bad", "good"))
    return Classifier(model, tokenizer, settings=TaskSettings(long="mean"))


@pytest.fixture(scope="module")
def tagger(tokenizer: Tokenizer) -> Tagger:
    return Tagger(network(tokenizer, "tag", labels=("O", "B-X", "I-X")), tokenizer)


@pytest.fixture(scope="module")
def answerer(tokenizer: Tokenizer) -> Answerer:
    return Answerer(network(tokenizer, "answer"), tokenizer, settings=TaskSettings(unanswerable=True))


def read(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


def test_long_rows_are_answered_in_smaller_lots(tmp_path: Path, classifier: Classifier) -> None:
    """So that progress is seen."""
    (tmp_path / "in.jsonl").write_text((json.dumps({"text": "bom " * 5000}) + "\n") * 9)
    lots: list[int] = []
    whole = classifier.classify

    def counted(texts: list[str], pairs: list[str] | None) -> object:
        lots.append(len(texts))
        return whole(texts, pairs)

    classifier.classify = counted  # type: ignore[method-assign, assignment]
    try:
        assert predict_file(classifier, tmp_path / "in.jsonl", tmp_path / "out.jsonl") == 9
    finally:
        classifier.classify = whole  # type: ignore[method-assign]
    assert lots == [5, 4]


@pytest.mark.parametrize("form", [".csv", ".tsv"])
def test_columns_of_later_rows_are_kept(tmp_path: Path, classifier: Classifier, form: str) -> None:
    rows = [{"text": "a\nb"}, {"text": 'so, "so"', "id": 7}, {"text": "x" * 140_000, "note": "late\tone"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    predict_file(classifier, tmp_path / "in.jsonl", tmp_path / f"out{form}")
    found = read(tmp_path / f"out{form}")
    assert [row["text"] for row in found] == [row["text"] for row in rows]
    assert [row["id"] for row in found] == ["", "7", ""]
    assert [row["note"] for row in found] == ["", "", "late\tone"]
    assert all(row["predicted"] in ("good", "bad") for row in found)
    assert {path.name for path in tmp_path.iterdir()} == {"in.jsonl", f"out{form}"}


@pytest.mark.parametrize("form", [".jsonl", ".csv", ".tsv"])
def test_classes(tmp_path: Path, classifier: Classifier, form: str) -> None:
    texts = [example.text for example in reviews()[:5]]
    (tmp_path / "in.csv").write_text("id,text\n" + "".join(f'7,"{text}"\n' for text in texts), "utf-8")
    assert predict_file(classifier, tmp_path / "in.csv", tmp_path / f"out{form}") == 5
    rows = read(tmp_path / f"out{form}")
    for row, text, labels in zip(rows, texts, classifier.classify(texts), strict=True):
        assert row["text"] == text
        assert row["id"] == "7"
        assert row["predicted"] == labels[0].name
        assert float(row["probability"]) == pytest.approx(labels[0].score)  # type: ignore[arg-type]
        if form != ".jsonl":
            assert float(row["p(bad)"]) + float(row["p(good)"]) == pytest.approx(1)  # type: ignore[arg-type]


def test_rows_without_text(tmp_path: Path, classifier: Classifier) -> None:
    for name, text in (("a.csv", 'text\nbom\n""\nmau\n'), ("b.txt", "bom\n\nmau\n")):
        (tmp_path / name).write_text(text)
        predict_file(classifier, tmp_path / name, tmp_path / f"{name}.csv")
    assert [row["text"] for row in read(tmp_path / "a.csv.csv")] == ["bom", "", "mau"]
    assert [row["text"] for row in read(tmp_path / "b.txt.csv")] == ["bom", "mau"]
    (tmp_path / "c.jsonl").write_text('{"text": "bom"}\n{"text": null}\n')
    with pytest.raises(InputError, match="c.jsonl, line 2: text holds no text"):
        predict_file(classifier, tmp_path / "c.jsonl", tmp_path / "c.csv")


def test_a_number_is_no_text(tmp_path: Path, classifier: Classifier, tagger: Tagger) -> None:
    """In a file, in Python and (test_routes.py) on the server; in a .csv all is text."""
    (tmp_path / "n.jsonl").write_text('{"text": "bom"}\n{"text": 5}\n')
    for model in (classifier, tagger):
        with pytest.raises(InputError, match="n.jsonl, line 2: text holds 5, not text$"):
            predict_file(model, tmp_path / "n.jsonl", tmp_path / "n.csv")
    with pytest.raises(InputError, match="^text 2 holds 5, not text$"):
        classifier(["bom", 5])  # type: ignore[list-item]
    (tmp_path / "n.csv").write_text("text\nbom\n5\n")
    assert predict_file(classifier, tmp_path / "n.csv", tmp_path / "of-csv.csv") == 2


@pytest.mark.parametrize("form", [".csv", ".jsonl"])
def test_nothing_that_is_there_is_written_over(tmp_path: Path, classifier: Classifier, form: str) -> None:
    """The predictions of one model may be the input of another."""
    (tmp_path / "in.csv").write_text("text,predicted,p(good)\nBom.,topic,0.25\n", "utf-8")
    predict_file(classifier, tmp_path / "in.csv", tmp_path / f"once{form}")
    predict_file(classifier, tmp_path / f"once{form}", tmp_path / "twice.csv")
    (once,), (twice,) = read(tmp_path / f"once{form}"), read(tmp_path / "twice.csv")
    assert once["given_predicted"] == "topic"
    assert once["given_p(good)"] == "0.25"
    assert {"topic", "0.25"} < set(twice.values())
    assert twice["given_predicted"] == "topic"
    assert twice["given_given_predicted"] == twice["predicted"] == once["predicted"]


def test_lines_and_pairs(tmp_path: Path, classifier: Classifier) -> None:
    (tmp_path / "in.txt").write_text("bom\n\nmau\n")
    assert predict_file(classifier, tmp_path / "in.txt", tmp_path / "a.jsonl") == 2
    (tmp_path / "in.jsonl").write_text('{"sentence1": "bom", "sentence2": "mau"}\n')
    predict_file(classifier, tmp_path / "in.jsonl", tmp_path / "b.jsonl", Columns(pair="sentence2"))
    (row,) = read(tmp_path / "b.jsonl")
    assert row["probability"] == pytest.approx(classifier("bom", "mau")[0].score)  # type: ignore[union-attr]


def test_plain_text_has_no_columns(tmp_path: Path, classifier: Classifier, tagger: Tagger) -> None:
    lines, conll = tmp_path / "in.txt", tmp_path / "in.conll"
    lines.write_text("o filme foi bom\n", "utf-8")
    conll.write_text("filme O\nbom B-X\n", "utf-8")
    for model, path, columns, says in (
        (classifier, lines, Columns("corpo"), r"in.txt is plain text and has no column corpo: name none"),
        (classifier, lines, Columns(pair="b"), r"in.txt is plain text and has no column b: name none"),
        (tagger, lines, Columns("corpo"), r"in.txt is plain text and has no column corpo: name none"),
        (tagger, conll, Columns("corpo"), r"tag reads words and tags, and no column corpo: name none"),
    ):
        with pytest.raises(ConfigError, match=says):
            predict_file(model, path, tmp_path / "out.jsonl", columns)
    learnt = replace(classifier.settings, text_template="{title}: {body}")  # nobody said that
    of_two = Classifier(classifier.network, classifier.tokenizer, settings=learnt)
    assert predict_file(of_two, lines, tmp_path / "out.jsonl") == 1
    with pytest.raises(InputError, match=r"there is no .*none.txt"):
        predict_file(classifier, tmp_path / "none.txt", tmp_path / "none.jsonl", Columns("corpo"))


@pytest.mark.parametrize(
    ("labels", "expected"), [(("B-X", "I-X", "O"), [0, 0, 1]), (("NOUN", "VERB"), [0.5, 0.5])]
)
def test_a_word_without_pieces_is_outside_or_anything(
    tokenizer: Tokenizer, labels: tuple[str, ...], expected: list[float]
) -> None:
    tagger = Tagger(network(tokenizer, "tag", labels=labels), tokenizer)
    (rows,) = tagger.scores(tagger.prepare([["O", "\u200b"]]), [2])
    assert rows[1].tolist() == expected


def test_tags(tmp_path: Path, tagger: Tagger) -> None:
    words = [example.words for example in tagged()[:4]]
    (tmp_path / "in.conll").write_text("\n\n".join("\n".join(each) for each in words), "utf-8")
    assert predict_file(tagger, tmp_path / "in.conll", tmp_path / "a.jsonl") == 4
    said = [row["predicted"] for row in read(tmp_path / "a.jsonl")]
    assert said == [[label.name for label in each] for each in tagger.tag_words(words)]
    lines = [json.dumps({"tokens": words[0]}), json.dumps({"text": "Rui mora em Leeds"})]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    predict_file(tagger, tmp_path / "in.jsonl", tmp_path / "b.jsonl")
    first, second = read(tmp_path / "b.jsonl")
    assert first["predicted"] == said[0]
    assert second["entities"] == [vars(entity) for entity in tagger.tag("Rui mora em Leeds")]


@pytest.mark.parametrize("form", [".conll", ".conllu", ".tsv", ".jsonl"])
def test_the_tags_of_the_file_stand_before_those_predicted(tmp_path: Path, tagger: Tagger, form: str) -> None:
    sentences = [
        (("Rui", "mora", "em", "Leeds"), ("B-X", "O", "O", "B-Y")),
        (("Marta", "hoje"), ("I-X", "O")),
    ]
    rows = {
        ".conll": lambda n, word, tag: f"{word} _ {tag}\n",
        ".tsv": lambda n, word, tag: f"{word}\t{tag}\n",
        ".conllu": lambda n, word, tag: f"{n}\t{word}\t_\t{tag}" + 6 * "\t_" + "\n",
        ".jsonl": lambda n, word, tag: "",
    }[form]
    text = "\n".join("".join(map(rows, range(1, 9), words, tags)) for words, tags in sentences)
    if form == ".jsonl":
        text = "\n".join(json.dumps({"tokens": words, "ner_tags": tags}) for words, tags in sentences)
    (tmp_path / f"in{form}").write_text(text, "utf-8")
    said = [[label.name for label in each] for each in tagger.tag_words([words for words, _ in sentences])]

    predict_file(tagger, tmp_path / f"in{form}", tmp_path / "out.jsonl")
    found = read(tmp_path / "out.jsonl")
    assert [row.get("tags", row.get("ner_tags")) for row in found] == [list(tags) for _, tags in sentences]
    assert [row["predicted"] for row in found] == said

    assert predict_file(tagger, tmp_path / f"in{form}", tmp_path / "out.conll") == 2
    blocks = (tmp_path / "out.conll").read_text("utf-8").strip().split("\n\n")
    columns = [list(zip(*(line.split(" ") for line in block.splitlines()), strict=True)) for block in blocks]
    assert columns == [[words, tags, tuple(new)] for (words, tags), new in zip(sentences, said, strict=True)]
    again = list(stream_examples("tag", tmp_path / "out.conll"))
    assert [list(each.tags) for each in again] == said  # type: ignore[union-attr]


def test_tags_as_conll(tmp_path: Path, tagger: Tagger, classifier: Classifier) -> None:
    (tmp_path / "bare.conllu").write_text("".join(f"{n}\tRui" + 8 * "\t_" + "\n" for n in (1, 2)))
    predict_file(tagger, tmp_path / "bare.conllu", tmp_path / "bare.conll")
    assert [len(line.split()) for line in (tmp_path / "bare.conll").read_text().splitlines()] == [2, 2, 0]
    (tmp_path / "spaces.conll").write_text("São Paulo\tB-X\n", "utf-8")
    predict_file(tagger, tmp_path / "spaces.conll", tmp_path / "out.conll")
    (found,) = stream_examples("tag", tmp_path / "out.conll")
    assert found.words == ("São Paulo",)  # type: ignore[union-attr]
    (tmp_path / "in.txt").write_text("o livro bom\n")
    for model in (tagger, classifier):
        with pytest.raises(
            OutputError, match="x.conll: .conll is for tags of words, not of texts: write .jsonl"
        ):
            predict_file(model, tmp_path / "in.txt", tmp_path / "x.conll")
    assert not (tmp_path / "x.conll").exists()


@pytest.mark.parametrize("form", [".conll", ".conllu", ".jsonl"])
def test_where_any_word_has_a_tag_all_do(tmp_path: Path, tagger: Tagger, form: str) -> None:
    text = {
        ".conll": "Rui\nmora\n\nRui B-X\ncorre O\n\nRui B-X\nlê\n",
        ".conllu": "\n".join(
            "".join(f"{n}\t{word}\t_\t{tag}" + 6 * "\t_" + "\n" for n, (word, tag) in enumerate(sentence, 1))
            for sentence in (
                [("Rui", "_"), ("mora", "_")],
                [("Rui", "B-X"), ("corre", "O")],
                [("Rui", "B-X"), ("lê", "_")],
            )
        ),
        ".jsonl": '{"words": ["Rui", "mora"]}\n{"words": ["Rui", "corre"], "tags": ["B-X", "O"]}\n'
        '{"words": ["Rui", "lê"], "tags": ["B-X", "_"]}\n',
    }[form]
    (tmp_path / f"in{form}").write_text(text, "utf-8")
    wanted = [["_", "_"], ["B-X", "O"], ["B-X", "_"]]
    for out in (".jsonl", ".csv", ".tsv"):
        predict_file(tagger, tmp_path / f"in{form}", tmp_path / f"out{out}")
        found = [row["tags"] for row in read(tmp_path / f"out{out}")]
        assert found == (wanted if out == ".jsonl" else list(map(json.dumps, wanted)))
    predict_file(tagger, tmp_path / f"in{form}", tmp_path / "out.conll")
    lines = [line.split() for line in (tmp_path / "out.conll").read_text("utf-8").splitlines() if line]
    assert [line[1] for line in lines if len(line) == 3] == [tag for tags in wanted for tag in tags]


def test_as_many_tags_as_words(tmp_path: Path, tagger: Tagger) -> None:
    rows = [{"words": ["Rui"], "tags": []}, {"words": ["Rui", "mora"], "tags": ["O"]}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match="in.jsonl, line 2: 2 words but 1 tag; give each word one tag"):
        predict_file(tagger, tmp_path / "in.jsonl", tmp_path / "out.csv")
    (tmp_path / "bare.jsonl").write_text(json.dumps(rows[0]))
    predict_file(tagger, tmp_path / "bare.jsonl", tmp_path / "bare.conll")
    assert [len(line.split()) for line in (tmp_path / "bare.conll").read_text().splitlines()] == [2, 0]


@pytest.mark.parametrize("name", ["in.tsv", "in.txt", "in.conll"])
def test_nothing_but_the_beginning_of_a_document(tmp_path: Path, tagger: Tagger, name: str) -> None:
    (tmp_path / name).write_text("-DOCSTART-\tO\n")
    for read_it in (
        lambda: predict_file(tagger, tmp_path / name, tmp_path / "out.jsonl"),
        lambda: list(stream_examples("tag", tmp_path / name)),
    ):
        with pytest.raises(InputError, match=f"{name} is empty: there is no example in it"):
            read_it()


def test_answers(tmp_path: Path, answerer: Answerer) -> None:
    asked = questions()[:3]
    rows = [{"id": "a", "question": e.question, "context": e.context} for e in asked]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    predict_file(answerer, tmp_path / "in.jsonl", tmp_path / "a.csv")
    for row, example in zip(read(tmp_path / "a.csv"), asked, strict=True):
        found = answerer.answer(example.question, example.context)
        assert row["answer"] == found.text
        assert float(row["probability"]) == pytest.approx(found.score)  # type: ignore[arg-type]


def test_mistakes(tmp_path: Path, classifier: Classifier, base: Path) -> None:
    (tmp_path / "in.csv").write_text("corpo\na\n")
    with pytest.raises(InputError, match="which column holds the text"):
        predict_file(classifier, tmp_path / "in.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    with pytest.raises(OutputError, match="is there already"):
        predict_file(classifier, tmp_path / "in.csv", tmp_path / "in.csv")
    with pytest.raises(OutputError, match="written as .jsonl"):
        predict_file(classifier, tmp_path / "in.csv", tmp_path / "out.xlsx")
    with pytest.raises(ModelError, match="fine-tune it first"):
        predict_file(unmask.load(base), tmp_path / "in.csv", tmp_path / "out.csv")
    for text, message in (
        ("", "is empty"),
        ("text\n", r"has a header \(text\) but no rows"),
    ):
        (tmp_path / "empty.csv").write_text(text)
        with pytest.raises(InputError, match=message):
            predict_file(classifier, tmp_path / "empty.csv", tmp_path / "out.csv")
    with pytest.raises(InputError, match="not both"):
        Tagger(classifier.network, classifier.tokenizer)(["a", ["b"]])  # type: ignore[list-item]


@pytest.mark.parametrize("task", [{"length": 2}, {"stride": -1}, {"long": "middle"}, {"length": "x"}])
def test_settings_that_make_no_sense(task: dict[str, object]) -> None:
    with pytest.raises(ModelError, match="not what it should be"):
        read_task_settings({"unmask": {"task": task}})


def test_the_commands(tmp_path: Path, base: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "unmask", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    rows = "".join(f"{example.text}\t{example.target}\n" for example in reviews())
    (tmp_path / "train.tsv").write_text("frase\trótulo\n" + rows, "utf-8")
    made = run(
        *("finetune", "classify", "-m", str(base), "--train", "train.tsv", "-o", "out", "--json"),
        *("--lr", "5e-3", "--epochs", "4", "--batch-size", "16", "--layers", "1"),
    )
    assert made.returncode == 0, made.stderr
    assert "train.tsv: the text in frase, the label in rótulo\n" in made.stderr
    result = json.loads(made.stdout)
    assert (result["metric"], result["data"]) == ("accuracy", "train.tsv")
    assert (result["lr"], result["kept_seed"]) == (5e-3, 0)
    assert 1 <= result["kept_epoch"] <= result["epochs"]
    assert "lr 0.005, batch 16" in (tmp_path / "out/README.md").read_text("utf-8")
    assert "Fine-tuning: classify on train.tsv, from " in (tmp_path / "out/report.html").read_text("utf-8")
    said = run("predict", "-m", "out", "train.tsv", "-o", "said.csv")
    assert said.returncode == 0, said.stderr
    assert f"{len(reviews())} rows: said.csv" in said.stdout
    assert "train.tsv: the text in frase\n" in said.stderr
    wrong = run("finetune", "tag", "-m", str(base), "--train", "train.tsv", "-o", "x", "--set", "epoch=4")
    assert wrong.returncode == 2
    assert "there is no epoch; did you mean epochs?" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_texts_that_were_cut_are_counted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    save_model(network(tokenizer, "classify", labels=("bad", "good")), tmp_path / "model", tokenizer)
    (tmp_path / "in.txt").write_text("bom\n" + 2 * ("bom " * 40 + "\n"))

    def run(*options: str) -> tuple[str, str]:
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
        given = [str(tmp_path / "in.txt"), "-m", str(tmp_path / "model"), "-o", str(out), "--json", *options]
        done = CliRunner().invoke(app, ["predict", *given])
        assert json.loads(done.stdout) == {"rows": 3, "file": str(out)}
        return done.stderr, out.read_text("utf-8")

    said, cut = run()
    assert said == "2 of 3 rows cut to 32 tokens: --long mean reads such texts whole\n"
    assert run("--quiet") == ("", cut)
    said, whole = run("--long", "mean")
    assert said == ""
    assert whole != cut


@pytest.mark.parametrize(
    ("head", "labels", "given", "says"),
    [
        ("tag", ("O", "B-LOC"), ("--long", "mean"), "--long mean is for classifiers, and "),
        (
            "tag",
            ("O", "B-LOC"),
            ("--pair-column", "b"),
            "tags are of single texts: leave --pair-column b out",
        ),
        ("answer", (), ("--long", "head"), "--long head is for classifiers, and "),
        ("answer", (), ("--text-column", "b"), "qa reads question, context and answers, and no column b"),
    ],
)
def test_options_that_the_model_does_not_read(
    head: str,
    labels: tuple[str, ...],
    given: tuple[str, str],
    says: str,
    tmp_path: Path,
    tokenizer: Tokenizer,
) -> None:
    save_model(network(tokenizer, head, labels=labels), tmp_path / "model", tokenizer)
    (tmp_path / "in.jsonl").write_text('{"text": "bom", "question": "bom", "context": "bom", "b": "bom"}\n')
    command = ["predict", str(tmp_path / "in.jsonl"), "-m", str(tmp_path / "model"), "-o"]
    wrong = CliRunner().invoke(app, [*command, str(tmp_path / "out.jsonl"), *given])
    assert isinstance(wrong.exception, ConfigError)
    assert says in str(wrong.exception)
    assert CliRunner().invoke(app, [*command, str(tmp_path / "out.jsonl")]).exit_code == 0


@pytest.mark.parametrize("task", ["pair", "regress"])
def test_a_first_text_that_windows_cut_is_counted_too(
    task: str, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    labels, problem = (("score",), "regression") if task == "regress" else (("no", "yes"), "single")
    model = network(tokenizer, "classify", labels=labels, problem=problem)
    save_model(model, tmp_path / "model", tokenizer, facts={"task": {"name": task}})
    rows = [("bom", "bom"), ("bom " * 40, "bom"), ("bom", "bom " * 40), ("bom " * 40, "bom " * 40)]
    lines = [json.dumps({"text": text, "text2": pair}) for text, pair in rows]
    (tmp_path / "in.jsonl").write_text("\n".join(lines), "utf-8")
    for options, cut in (((), 3), (("--long", "mean"), 2)):  # windows read all of a long second text
        out = tmp_path / f"{cut}.csv"
        given = [str(tmp_path / "in.jsonl"), "-m", str(tmp_path / "model"), "-o", str(out), *options]
        done = CliRunner().invoke(app, ["predict", *given])
        assert f"{cut} of 4 rows cut to 32 tokens\n" in done.stderr, done.output


def test_one_column_for_each_label(tmp_path: Path, base: Path) -> None:
    votes = [(example.text, n % 3, int(n % 4 > 0)) for n, example in enumerate(reviews())]
    rows = [json.dumps({"text": text, "insult": f"{a}.0", "racism": b, "spam": 0}) for text, a, b in votes]
    (tmp_path / "train.jsonl").write_text("\n".join(rows), "utf-8")
    common = ["finetune", "classify", "-m", str(base), "--train", str(tmp_path / "train.jsonl")]
    done = CliRunner().invoke(
        app, [*common, "-o", str(tmp_path / "out"), "--labels", "insult, racism, spam", "--epochs", "1"]
    )
    assert done.exit_code == 0, done.output
    assert "no training example has the label spam: the model will not know it\n" in done.stderr
    assert re.match(r"\d+ examples, 1 epoch at lr 0.001 in .* kept: epoch 1, the best on", done.stdout)
    assert "macro_f1" in done.stdout
    assert "mean over the classes" in done.stdout
    card = (tmp_path / "out/README.md").read_text("utf-8")
    assert r"| score | value | always 'insult \| racism' | of what |" in card
    model = unmask.load(tmp_path / "out")
    assert (model.config.labels, model.config.problem) == (("insult", "racism"), "multi")
    wrong = CliRunner().invoke(app, [*common, "-o", "x", "--labels", "insult", "--label-column", "racism"])
    assert isinstance(wrong.exception, ConfigError)


@pytest.mark.slow
def test_a_million_rows_take_no_more_memory(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = network(tokenizer, "classify", labels=("bad", "good"), width=8, inner=8, heads=1)
    save_model(model, tmp_path / "model", tokenizer)
    peaks = {}
    for rows in (20_000, 1_000_000):
        path = tmp_path / f"{rows}.csv"
        with path.open("w", encoding="utf-8") as file:
            file.write("text\n")
            file.writelines(f"a sopa {number % 977}\n" for number in range(rows))
        script = (
            "import resource, sys; from pathlib import Path; import unmask\n"
            "from unmask.tasks.apply import _text_rows, predict_file\n"
            "file = Path(sys.argv[2])\n"
            "count = predict_file(unmask.load(sys.argv[1]), file, file.with_suffix('.out.csv'))\n"
            "print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        command = [sys.executable, "-c", script, str(tmp_path / "model"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        count, peak = map(int, done.stdout.split())
        assert count == rows
        peaks[rows] = peak
    assert peaks[1_000_000] < peaks[20_000] * 1.1


def test_numbers_stand_beside_those_that_are_there(tmp_path: Path, tokenizer: Tokenizer) -> None:
    model = Classifier(network(tokenizer, "classify", labels=("score",), problem="regression"), tokenizer)
    (tmp_path / "in.csv").write_text("text,score\no livro bom,4.5\n", "utf-8")
    predict_file(model, tmp_path / "in.csv", tmp_path / "out.jsonl")
    (row,) = read(tmp_path / "out.jsonl")
    assert row["score"] == "4.5"
    assert row["predicted"] == pytest.approx(model("o livro bom")[0].score)  # type: ignore[union-attr]


def test_words_are_read_as_in_training(tmp_path: Path, tagger: Tagger) -> None:
    (tmp_path / "in.conll").write_text("-DOCSTART- O\n\npt:Rui B-X\npt:mora O\n", "utf-8")
    predict_file(tagger, tmp_path / "in.conll", tmp_path / "out.jsonl")
    assert [row["words"] for row in read(tmp_path / "out.jsonl")] == [["Rui", "mora"]]


def test_tagged_text_files_are_known_by_the_tags(tmp_path: Path, tagger: Tagger) -> None:
    expected = [["Rui", "mora"], ["em", "Leeds"]]
    for form, tab in ((".txt", " "), (".tsv", "\t"), (".txt.gz", "\t")):
        rows = f"pt:Rui{tab}B-X\npt:mora{tab}O\n\npt:em{tab}O\npt:Leeds{tab}X\n".encode()
        path = tmp_path / f"in{form}"
        path.write_bytes(gzip.compress(rows) if form.endswith(".gz") else rows)
        predict_file(tagger, path, tmp_path / f"{form}.jsonl")
        assert [row["words"] for row in read(tmp_path / f"{form}.jsonl")] == expected
    for name, text in (("plain.txt", "tipo O\n"), ("other.txt", "um barco O\ntipo O\n")):
        (tmp_path / name).write_text(text)
        predict_file(tagger, tmp_path / name, tmp_path / f"{name}.jsonl")
        assert [row["text"] for row in read(tmp_path / f"{name}.jsonl")] == text.splitlines()
    (tmp_path / "names.tsv").write_text("-DOCSTART-\nRui\tB-OTHER\nSão Paulo\tO \n")
    predict_file(tagger, tmp_path / "names.tsv", tmp_path / "names.jsonl")
    assert read(tmp_path / "names.jsonl")[0]["words"] == ["Rui", "São Paulo"]
    for name, above in (("header.tsv", "Word\tTag\n"), ("about.txt", "# text = Rui mora\n")):
        (tmp_path / name).write_text(f"{above}Rui\tB-X\nmora\tO\n")
        predict_file(tagger, tmp_path / name, tmp_path / f"{name}.jsonl")
        assert [row["words"] for row in read(tmp_path / f"{name}.jsonl")] == [["Rui", "mora"]]
    (tmp_path / "table.tsv").write_text("text\tid\nRui mora\tO\n")
    predict_file(tagger, tmp_path / "table.tsv", tmp_path / "table.jsonl")
    assert read(tmp_path / "table.jsonl")[0]["text"] == "Rui mora"


def test_compressed_files(tmp_path: Path, classifier: Classifier, answerer: Answerer) -> None:
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress(b"bom\nmau\n"))
    assert predict_file(classifier, tmp_path / "in.txt.gz", tmp_path / "a.jsonl") == 2
    asked = questions()[0]
    table = f"question,context\n{asked.question},{asked.context}\n"
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(table.encode()))
    predict_file(answerer, tmp_path / "in.csv.gz", tmp_path / "b.jsonl")
    assert read(tmp_path / "b.jsonl")[0]["answer"] == answerer.answer(asked.question, asked.context).text


def test_some_rows_lack_their_second_text(tmp_path: Path, classifier: Classifier) -> None:
    pair = replace(classifier.settings, name="regress")
    model = Classifier(classifier.network, classifier.tokenizer, settings=pair)
    (tmp_path / "in.jsonl").write_text('{"text": "a", "pair": "b"}\n{"text": "c"}\n')
    with pytest.raises(InputError, match="line 2' has no second text, but others have one"):
        predict_file(model, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    model.settings = replace(pair, name="pair")
    with pytest.raises(InputError, match="line 2: which column holds the pair"):
        predict_file(model, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    (tmp_path / "in.txt").write_text("a\n")
    with pytest.raises(InputError, match=r"in.txt: this model judges pairs: give a table \(.csv"):
        predict_file(model, tmp_path / "in.txt", tmp_path / "out.jsonl")


def test_a_model_of_pairs_refuses_single_texts_and_the_other_way_round(
    tmp_path: Path, classifier: Classifier
) -> None:
    """What answers in Python, on the command line and over HTTP is `prepare`."""
    model = Classifier(classifier.network, classifier.tokenizer)
    for name, pairs in (("pair", None), ("regress", True), ("classify", True)):
        model.settings = TaskSettings(name=name, pairs=pairs)
        with pytest.raises(InputError, match="judges pairs of texts: give each text its second"):
            model("bom")
        assert model("bom", "mau")
        assert model([]) == []
    (tmp_path / "in.jsonl").write_text('{"text": "a", "pair": "b"}\n')
    for name in ("regress", "classify"):
        model.settings = TaskSettings(name=name, pairs=False)
        with pytest.raises(InputError, match="judges single texts: leave the second ones out"):
            model(["bom"], ["mau"])
        assert predict_file(model, tmp_path / "in.jsonl", tmp_path / f"{name}.jsonl") == 1
    xml = '<c><pair id="1" entailment="None"><t>bom</t><h>mau</h></pair></c>'
    (tmp_path / "in.xml").write_text(xml, "utf-8")
    with pytest.raises(InputError, match="this model judges single texts: --text-column t takes the first$"):
        predict_file(model, tmp_path / "in.xml", tmp_path / "xml.jsonl")
    assert predict_file(model, tmp_path / "in.xml", tmp_path / "xml.jsonl", Columns(text="t")) == 1
    model.settings = TaskSettings(name="classify")  # of a folder that does not say
    assert model("bom")
    assert model("bom", "mau")


@pytest.mark.parametrize("paired", [True, False])
def test_a_folder_says_whether_it_judges_pairs(tmp_path: Path, base: Path, paired: bool) -> None:
    examples = [replace(example, pair="mau" if paired else None) for example in reviews()]
    finetune("classify", base, examples, out=tmp_path / "out", settings=FinetuneConfig(epochs=1))
    model = unmask.load(tmp_path / "out")
    assert isinstance(model, Classifier)
    assert model.settings.wants_pairs is paired


def test_a_question_that_is_too_long_is_named_with_its_row(tmp_path: Path, answerer: Answerer) -> None:
    (tmp_path / "in.csv").write_text(f"question,context\nQuem?,O Rui.\n{'quem ' * 40},O Rui.\n")
    with pytest.raises(InputError, match="^.*in.csv, line 3: the question 'quem quem.*tokens, but the model"):
        predict_file(answerer, tmp_path / "in.csv", tmp_path / "out.jsonl")


def test_a_question_without_a_context_is_named_with_its_row(tmp_path: Path, answerer: Answerer) -> None:
    (tmp_path / "in.csv").write_text("question,context\nQuem?,O Rui.\nOnde?,\n")
    with pytest.raises(InputError, match=r"in\.csv, line 3: the context is empty$"):
        predict_file(answerer, tmp_path / "in.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_questions_that_are_not_there(tmp_path: Path, answerer: Answerer) -> None:
    for name in ("none.csv", "none.json"):
        with pytest.raises(InputError, match=f"there is no .*{name}"):
            predict_file(answerer, tmp_path / name, tmp_path / "out.jsonl")


@pytest.mark.parametrize("heads", [(), ("pooler",)])  # as sentence-transformers folders have them
def test_vectors_are_no_labels(tmp_path: Path, tokenizer: Tokenizer, heads: tuple[str, ...]) -> None:
    save_model(Model(network(tokenizer, "mlm").config, heads), tmp_path / "bare", tokenizer)
    (tmp_path / "in.txt").write_text("bom\n")
    with pytest.raises(ModelError, match=r"makes vectors \(unmask embed\)"):
        predict_file(unmask.load(tmp_path / "bare"), tmp_path / "in.txt", tmp_path / "out.jsonl")


@pytest.mark.parametrize("heads", [("nsp",), ("mlm", "sop")])
def test_whether_texts_follow_each_other(
    tmp_path: Path, tokenizer: Tokenizer, heads: tuple[str, ...], heard: Heard
) -> None:
    model = Model(network(tokenizer, "mlm").config, heads, torch.Generator().manual_seed(2))
    save_model(model, tmp_path / "model", tokenizer)
    pairs = [("o livro bom", "a sopa"), ("a sopa", "o livro bom"), ("bom " * 40, "mau")]
    with (tmp_path / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "pair", "predicted"), *((*pair, "x") for pair in pairs)])

    def run(name: str) -> tuple[str, Path]:
        out = tmp_path / name
        given = [str(tmp_path / "pairs.csv"), "-m", str(tmp_path / "model"), "-o", str(out)]
        done = CliRunner().invoke(app, ["predict", *given])
        assert done.exit_code == 0, done.output
        return done.stderr, out

    said, out = run("out.csv")
    assert said.startswith("yes or no: whether each second text follows the first; for labels, fine-tune")
    assert "1 of 3 rows cut to 32 tokens\n" in said
    lm = unmask.load(tmp_path / "model")
    assert isinstance(lm, MaskedLM)
    expected = [lm.follows(*pair, truncate=True) for pair in pairs]
    rows = read(out)
    assert [float(str(row["p(yes)"])) for row in rows] == pytest.approx(expected, abs=1e-6)
    assert [row["predicted"] for row in rows] == ["yes" if share >= 0.5 else "no" for share in expected]
    assert {row["given_predicted"] for row in rows} == {"x"}
    assert all(float(str(row["probability"])) >= 0.5 for row in rows)
    assert read(run("out.jsonl")[1])[0]["probabilities"] == {
        "yes": pytest.approx(expected[0]), "no": pytest.approx(1 - expected[0])
    }  # fmt: skip
    (tmp_path / "in.txt").write_text("bom\n")
    with pytest.raises(InputError, match="this model judges pairs: give a table"):
        predict_file(lm, tmp_path / "in.txt", tmp_path / "new.csv", progress=heard)
    assert heard.said == []
    (tmp_path / "single.csv").write_text("text\nbom\n")
    with pytest.raises(InputError, match="which column holds the pair"):
        predict_file(lm, tmp_path / "single.csv", tmp_path / "new.csv")


def test_answers_that_are_there_are_not_read(tmp_path: Path, answerer: Answerer) -> None:
    row = {"question": "Quem?", "context": "Rui mora em Leeds.", "answers": ["Rui"]}
    (tmp_path / "in.jsonl").write_text(json.dumps(row), "utf-8")
    assert predict_file(answerer, tmp_path / "in.jsonl", tmp_path / "out.jsonl") == 1


@pytest.mark.parametrize("header", ["title,body,other,label\n", ""])
@pytest.mark.parametrize("task", ["classify", "pair"])
def test_a_model_keeps_what_its_texts_were_made_of(
    tmp_path: Path, base: Path, heard: Heard, task: Literal["classify", "pair"], header: str
) -> None:
    """`body` has a usual name: it was read alone, and the predictions were of other texts."""
    rows = [f"{number},{example.text},x,{example.target}\n" for number, example in enumerate(reviews())]
    (tmp_path / "in.csv").write_text(header + "".join(rows), "utf-8")
    made, label = ("{title}: {body}", "label") if header else ("{1}: {2}", "4")
    columns = Columns(made, made if task == "pair" else None, label)
    finetune(task, base, tmp_path / "in.csv", None, tmp_path / "out", FinetuneConfig(epochs=1), columns)
    model = unmask.load(tmp_path / "out")
    assert isinstance(model, Classifier)
    (_, first), *_ = _text_rows(model, tmp_path / "in.csv", Columns(), heard)
    assert first.text == f"0: {reviews()[0].text}"
    assert first.pair == (first.text if task == "pair" else None)
    second = f", the second text in {made}" if task == "pair" else ""
    assert heard.said == [f"{tmp_path}/in.csv: the text in {made}{second}, as the model learnt it"]
    said = Columns("body" if header else "2")
    assert next(_text_rows(model, tmp_path / "in.csv", said, heard))[1].text == reviews()[0].text
    (tmp_path / "other.jsonl").write_text('{"text": "bom", "corpo": "mau"}\n')
    lacking = (
        f"no column {made[1:-1].split('}')[0]}, only text, corpo; the model learnt from {made}: say with"
    )
    with pytest.raises(InputError, match=f"{re.escape(lacking)} --text-column what to read here$"):
        predict_file(model, tmp_path / "other.jsonl", tmp_path / "out.jsonl")
