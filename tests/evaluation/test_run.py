"""Running suites: kept when finished, refused for another model, shown in a page and in the card."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation.conftest import PAIRS, Write
from typer.testing import CliRunner

import unmask
from unmask.cli import app
from unmask.errors import InputError, ModelError, OutputError
from unmask.evaluation import differences, evaluate, run
from unmask.evaluation.results import Outcome, names_apart, read_items
from unmask.evaluation.show import group_tables, update_card
from unmask.progress import Progress


@pytest.fixture
def model(folder: Path, tmp_path: Path) -> Path:
    """A copy whose card may be written to."""
    return Path(shutil.copytree(folder, tmp_path / "model"))


def test_results_as_files(model: Path, pair_suite: Path, tmp_path: Path) -> None:
    assert unmask.evaluate is evaluate
    (result,) = evaluate([str(pair_suite)], model, tmp_path / "out")
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        "results.json", "mine.json", "mine.items.jsonl", "report.html"
    }  # fmt: skip
    whole = json.loads((out / "results.json").read_text("utf-8"))
    assert whole["suites"]["mine"]["accuracy"]["value"] == pytest.approx(result.main.value)
    assert len(read_items(out, "mine")) == 5
    page = (out / "report.html").read_text("utf-8")
    assert "these tests" in page
    assert "accuracy by set" in page


def test_finished_suites_are_kept(
    model: Path, pair_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    real = run.KINDS["pairs"]
    broken = tmp_path / "second.toml"
    broken.write_text(pair_suite.read_text("utf-8") + 'good = "other"\n', "utf-8")

    def counted(context: object, suite: object) -> Outcome:
        ran.append(context.found.name)  # type: ignore[attr-defined]
        return real(context, suite)  # type: ignore[arg-type]

    monkeypatch.setitem(run.KINDS, "pairs", counted)
    asked = [str(pair_suite), str(broken)]
    with pytest.raises(InputError, match="other"):
        evaluate(asked, model, tmp_path / "out")
    assert ran == ["mine", "second"]
    broken.write_text(broken.read_text("utf-8").replace('good = "other"', ""), "utf-8")
    one, two = evaluate(asked, model, tmp_path / "out")
    assert ran == ["mine", "second", "second"]
    assert one.scores == two.scores
    with (tmp_path / "b.jsonl").open("a") as file:  # other data: both are computed again
        file.write('{"sentence_good": "The sun.", "sentence_bad": "Sun the."}\n')
    again = evaluate(asked, model, tmp_path / "out")
    assert ran[3:] == ["mine", "second"]
    assert again[0].main.items == 6


def test_a_folder_of_results_belongs_to_one_model(
    model: Path, other_folder: Path, pair_suite: Path, tmp_path: Path
) -> None:
    evaluate(str(pair_suite), model, tmp_path / "out", card=False)
    with pytest.raises(OutputError, match="holds results of another model"):
        evaluate(str(pair_suite), other_folder, tmp_path / "out", card=False)
    (tmp_path / "out" / "results.json").write_text("{", "utf-8")
    with pytest.raises(OutputError, match="damaged"):
        evaluate(str(pair_suite), model, tmp_path / "out", card=False)
    with pytest.raises(OutputError, match="is a file"):
        evaluate(str(pair_suite), model, pair_suite)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (("config.json", "report.html"), "holds a model"),
        (("config.json", "mine.items.jsonl", "results.json"), "holds a model"),
        (("metrics.jsonl", "report.html"), "holds metrics.jsonl and no results"),
        (("curve.svg", "report.html", "results.json"), "holds curve.svg and no results"),
        (("a.txt",), "holds a.txt and no results"),
    ],
)
def test_the_page_of_another_command_stays(
    model: Path, pair_suite: Path, tmp_path: Path, held: tuple[str, ...], said: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name in held:
        (out / name).write_text("old", "utf-8")
    with pytest.raises(OutputError, match=f"{said}.*: name another folder"):
        evaluate(str(pair_suite), model, out, card=False)
    assert {path.name: path.read_text("utf-8") for path in out.iterdir()} == dict.fromkeys(held, "old")


def test_damaged_results_are_told(model: Path, pair_suite: Path, tmp_path: Path) -> None:
    evaluate(str(pair_suite), model, tmp_path / "out", card=False)
    (tmp_path / "out" / "mine.json").write_text('{"suite": "mine"}', "utf-8")
    with pytest.raises(InputError, match="mine.json is damaged"):
        evaluate(str(pair_suite), model, tmp_path / "out", card=False)


def test_the_card_gets_its_scores_once(model: Path, pair_suite: Path, tmp_path: Path) -> None:
    results = evaluate(str(pair_suite), model, tmp_path / "out")
    card = (model / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: mit\n---\n# A card\n")
    assert "| mine | accuracy |" in card
    update_card(model, results)
    assert (model / "README.md").read_text("utf-8") == card
    (model / "README.md").write_text(card + "What I wrote below.\n", "utf-8")
    other = tmp_path / "novel.txt"
    other.write_text("O barco voltou ao porto. A chuva caiu.", "utf-8")
    evaluate(str(other), model, tmp_path / "out2")
    card = (model / "README.md").read_text("utf-8")
    assert card.count("## Scores") == 1
    assert card.index("| mine |") < card.index("| novel | bits per byte") < card.index("What I wrote below.")
    (model / "README.md").write_text("mine: <!-- scores by unmask evaluate: begin --> kept", "utf-8")
    update_card(model, results)
    assert "kept" in (model / "README.md").read_text("utf-8")


def test_a_folder_without_a_card_gets_one(other_folder: Path, pair_suite: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(other_folder, tmp_path / "bare"))
    evaluate(str(pair_suite), place, tmp_path / "out")
    assert (place / "README.md").read_text("utf-8").startswith("<!-- scores")


def test_a_card_that_may_not_be_written_costs_no_scores(
    model: Path, pair_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OutputError("not allowed to write it")

    monkeypatch.setattr(run, "update_card", refuse)
    said: list[str] = []
    told = Progress()
    monkeypatch.setattr(told, "say", said.append)
    (result,) = evaluate(str(pair_suite), model, tmp_path / "out", progress=told)
    assert result.scores
    assert said[-1].startswith("not allowed to write it; the card stays as it was")


def test_files_of_one_name_are_told_apart(
    folder: Path, other_folder: Path, write: Write, tmp_path: Path
) -> None:
    """Else a set would be both, and of two items with one name only the last would be compared."""
    suite = write('kind = "pairs"\nfiles = ["*/x.jsonl", "*/*.jsonl"]')
    for language, pairs in (("en", PAIRS[:2]), ("pt", PAIRS[2:])):
        (tmp_path / language).mkdir()
        rows = [{"sentence_good": good, "sentence_bad": bad} for good, bad in pairs]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / language / "x.jsonl").write_text(lines, "utf-8")
    for place, out in ((folder, "a"), (other_folder, "b")):
        (result,) = evaluate(str(suite), place, tmp_path / "out" / out, card=False)
    assert result.main.items == 5, "a file that two patterns mean is read once"
    ids = [item["id"] for item in read_items(tmp_path / "out/a", "mine")]
    assert ids == [
        f"{name}/{n}" for name, count in (("en/x.jsonl", 2), ("pt/x.jsonl", 3)) for n in range(count)
    ]
    assert set(result.groups["set"]) == {"en/x.jsonl", "pt/x.jsonl"}
    assert differences(tmp_path / "out/a", tmp_path / "out/b")["mine"]["accuracy"].items == 5


def test_files_here_and_elsewhere(
    folder: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    row = {"sentence_good": PAIRS[0][0], "sentence_bad": PAIRS[0][1]}
    (tmp_path / "other/x.jsonl").write_text(json.dumps(row), "utf-8")
    write(f'kind = "pairs"\nfiles = ["x.jsonl", "{tmp_path}/other/x.jsonl"]', x__jsonl=[row])
    monkeypatch.chdir(tmp_path)
    (result,) = evaluate("mine.toml", folder, "out", card=False)
    assert set(result.groups["set"]) == {"x.jsonl", "other/x.jsonl"}


def test_two_models_are_compared_item_by_item(
    folder: Path, other_folder: Path, pair_suite: Path, tmp_path: Path
) -> None:
    for place, out in ((folder, "a"), (other_folder, "b")):
        evaluate(str(pair_suite), place, tmp_path / out, card=False)
    found = differences(tmp_path / "a", tmp_path / "b")["mine"]["accuracy"]
    back = differences(tmp_path / "b", tmp_path / "a")["mine"]["accuracy"]
    assert found.value == pytest.approx(-back.value)
    assert found.p == pytest.approx(back.p)
    assert differences(tmp_path / "a", tmp_path / "a")["mine"]["accuracy"].p == 1
    lines = (tmp_path / "b" / "mine.items.jsonl").read_text("utf-8").splitlines()
    (tmp_path / "b" / "mine.items.jsonl").write_text("\n".join(lines[1:]) + "\n", "utf-8")
    with pytest.raises(InputError, match="not measured on the same items"):
        differences(tmp_path / "a", tmp_path / "b")
    with pytest.raises(InputError, match="holds no results"):
        differences(tmp_path / "a", folder)
    with pytest.raises(InputError, match="no folder of results"):
        differences(tmp_path / "a", tmp_path / "none")


def test_what_is_no_language_model_is_told(
    folder: Path, save: Callable[..., Path], tmp_path: Path, pair_suite: Path
) -> None:
    classifier = save("classify", labels=("a", "b"))
    with pytest.raises(ModelError, match="holds a classifier, but this suite needs a language model"):
        evaluate(str(pair_suite), classifier, tmp_path / "out")
    evaluate(str(pair_suite), folder, tmp_path / "out", card=False)  # what failed has not taken the folder


def test_a_claim_without_results_does_not_count(folder: Path, pair_suite: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    claim = {"model": "another", "fingerprint": "another", "suites": {}}
    (tmp_path / "out" / "results.json").write_text(json.dumps(claim), "utf-8")
    assert evaluate(str(pair_suite), folder, tmp_path / "out", card=False)


def test_what_was_read_is_told(folder: Path, pair_suite: Path, tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").unlink()
    asked = ["evaluate", str(pair_suite), "--no-card", "-m", str(folder), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, asked)
    assert "mine: reading 1 file (the whole suite: ours)" in done.output
    assert "mine: 3 items of 1 file\n" in done.output
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "3 items. The whole suite: ours." in page
    assert "files: 1" in page


def test_a_sample_is_the_same_and_says_so(model: Path, pair_suite: Path, tmp_path: Path) -> None:
    (whole,) = evaluate(str(pair_suite), model, tmp_path / "whole", card=False)
    (few,) = evaluate(str(pair_suite), model, tmp_path / "few", sample=2)
    assert (whole.main.items, few.main.items) == (5, 2)
    items = {item["id"]: item for item in read_items(tmp_path / "whole", "mine")}
    kept = read_items(tmp_path / "few", "mine")
    for item in kept:  # in smaller batches: the last digits may differ
        same = items[item["id"]]
        assert item["margin"] == pytest.approx(same["margin"], rel=1e-5)
        assert item | {"margin": 0} == same | {"margin": 0}
    evaluate(str(pair_suite), model, tmp_path / "more", sample=3, card=False)
    assert {item["id"] for item in kept} < {item["id"] for item in read_items(tmp_path / "more", "mine")}
    assert few.details["sample"] == 2
    note = "mine: a sample of at most 2 items (--sample)"
    assert note in (tmp_path / "few" / "report.html").read_text("utf-8")
    assert "mine" not in (model / "README.md").read_text("utf-8")  # scores of the whole would be lost
    with pytest.raises(InputError, match="not measured on the same items"):
        differences(tmp_path / "whole", tmp_path / "few")
    places = ["-m", str(model), "-o", str(tmp_path / "few")]
    shown = CliRunner().invoke(app, ["evaluate", str(pair_suite), "-q", "--sample", "2", "--json", *places])
    assert json.loads(shown.stdout)["notes"] == [note]
    evaluate(str(pair_suite), model, tmp_path / "one", sample=1)
    page = (tmp_path / "one" / "report.html").read_text("utf-8")
    assert "mine: a score of one item alone has no interval" in page
    with pytest.raises(OutputError, match="more holds more of mine than a sample of 2: name another folder"):
        evaluate(str(pair_suite), model, tmp_path / "more", sample=2)
    for size in (2, 500):  # the whole suite has five
        with pytest.raises(OutputError, match=r"whole holds mine as a whole: name .* results of a sample$"):
            evaluate(str(pair_suite), model, tmp_path / "whole", sample=size)
    evaluate(str(pair_suite), model, tmp_path / "few", sample=3, card=False)
    assert len(read_items(tmp_path / "few", "mine")) == 3


def test_every_kind_takes_a_sample(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text("O barco voltou.\n\nA chuva caiu.\n\nO sol secou as redes.", "utf-8")
    asked = ["bias-pt", "facts-pt", "minimal-pairs-pt", str(tmp_path / "novel.txt")]
    for result in evaluate(asked, folder, tmp_path / "out", card=False, sample=2):
        assert result.main.items == len(read_items(tmp_path / "out", result.suite)) == 2


def test_unknown_tokens_are_told_wherever_the_scores_are(model: Path, tmp_path: Path) -> None:
    novel = tmp_path / "novel: part one.txt"
    novel.write_text("O barco ☂ ☃ ☀.\n\nA nau ☂ ☃ ☀.", "utf-8")
    asked = ["evaluate", str(novel), "-q", "--json", "-m", str(model), "-o", str(tmp_path / "out")]
    (note,) = json.loads(CliRunner().invoke(app, asked).stdout)["notes"]
    assert "of the tokens are unknown to the vocabulary" in note
    (tmp_path / "other.txt").write_text("O barco voltou.", "utf-8")
    evaluate(str(tmp_path / "other.txt"), model, tmp_path / "out")
    evaluate(str(novel), model, tmp_path / "out")
    card = (model / "README.md").read_text("utf-8")
    assert card.count(f"- {note}\n") == 1  # the notes of other suites are kept


def test_commands(folder: Path, other_folder: Path, pair_suite: Path, tmp_path: Path) -> None:
    runner = CliRunner()

    def call(*arguments: object) -> str:
        done = runner.invoke(app, [str(argument) for argument in arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "67 sets of English minimal pairs" in call("evaluate", "--list")
    for asked in (("--list", "--json"), ("--json", "--list")):
        listed = json.loads(call("evaluate", *asked))
        assert listed["blimp"]["kind"] == "pairs"
        assert "67 sets of English minimal pairs" in listed["blimp"]["about"]
    shown = call("evaluate", pair_suite, "-q", "--no-card", "-o", tmp_path / "a", "-m", folder)
    assert "mine   accuracy" in shown
    asked = ("evaluate", pair_suite, "--no-card", "--json", "-o", tmp_path / "b", "-m", other_folder)
    against = [*map(str, asked), "--compare", str(tmp_path / "a")]
    done = runner.invoke(app, against, env={"FORCE_COLOR": "1"})
    assert "comparing" in done.stderr  # shown while it lasts, as on a terminal
    told = json.loads(done.stdout)
    assert told["scores"]["mine"]["accuracy"]["items"] == 5
    difference = told["differences"]["mine"]["accuracy"]
    assert (
        json.loads(call("compare", tmp_path / "b", tmp_path / "a", "--json"))["mine"]["accuracy"]
        == difference
    )
    table = call("compare", tmp_path / "b", tmp_path / "a", "-q").splitlines()
    assert table[0].split()[:5] == ["suite", "measure", "other", folder.parent.name, "difference"]
    assert table[1].split()[2:4] == [f"{difference[one]:.4f}" for one in ("first", "second")]
    both = call(*asked[:2], "-q", "--no-card", "-o", tmp_path / "b", "-m", other_folder, *against[-2:])
    assert table[0] in both.splitlines()
    assert "README.md" not in [path.name for path in other_folder.iterdir()]


def test_scores_by_group_are_shown_where_they_are_few(folder: Path, write: Write, tmp_path: Path) -> None:
    pairs = [
        {"stereotype": f"{who} viu o sol.", "antistereotype": f"{other} viu o sol.", "category": category}
        for who, other, category in (("A avó", "O avô", "gênero"), ("A avó", "A neta", "idade"))
    ]
    suite = write('kind = "bias"\nfiles = ["x.jsonl"]', x__jsonl=[*pairs, *pairs[:1]])
    asked = ["evaluate", str(suite), "-q", "--no-card", "-m", str(folder), "-o", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, asked).stdout.splitlines()
    assert shown[2:5] == ["", "mine by category", "category  stereotype preferred  95 % interval     items"]
    assert [line.split()[0] for line in shown[5:7]] == ["gênero", "idade"]
    assert [line.split()[-1] for line in shown[5:7]] == ["2", "1"]
    told = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    groups = told["groups"]["mine"]["category"]
    assert {name: scores["stereotype preferred"]["items"] for name, scores in groups.items()} == {
        "gênero": 2, "idade": 1
    }  # fmt: skip
    (result,) = evaluate(str(suite), folder, tmp_path / "out", card=False)
    members = result.groups["category"] | {str(n): result.groups["category"]["idade"] for n in range(10)}
    assert [len(rows) for *_, rows in group_tables([replace(result, groups={"category": members})])] == [12]
    for groups in ({"13th": {}} | members, {"idade": members["idade"]}):
        assert not list(group_tables([replace(result, groups={"category": groups})]))


@pytest.mark.parametrize(
    ("models", "folders", "names"),
    [
        (("mini-pt", "runs/long/model"), ("a", "b"), ("mini-pt", "long")),
        (("model", "../model"), ("a", "b"), ("a", "b")),
        (("x/hub/models--who--bert/snapshots/0af1", "model"), ("a", "b"), ("bert", "model")),
        (("old/small", "new/small"), ("a", "b"), ("a", "b")),
        (("small", "small"), ("a/scores", "b/scores"), ("a/scores", "b/scores")),
        (("small", None), ("a", "b"), ("a", "b")),
        (("small", "small"), ("a", "a"), ("first", "second")),
    ],
)
def test_two_models_are_told_apart(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    models: tuple[str | None, str | None],
    folders: tuple[str, str],
    names: tuple[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for model, folder in zip(models, folders, strict=True):
        Path(folder).mkdir(parents=True, exist_ok=True)
        if model is not None:
            (Path(folder) / "results.json").write_text(json.dumps({"model": model}), "utf-8")
    assert names_apart(Path(folders[0]), Path(folders[1])) == names


def test_other_data_are_not_compared(folder: Path, tmp_path: Path) -> None:
    """As many items of the same names, but others."""
    for name, text in (("a", "O barco azul voltou."), ("b", "As redes secaram.")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text.txt").write_text(text, "utf-8")
        evaluate(str(tmp_path / name / "text.txt"), folder, tmp_path / f"out-{name}", card=False)
    with pytest.raises(InputError, match="not measured on the same items"):
        differences(tmp_path / "out-a", tmp_path / "out-b")


def test_what_cannot_be_compared_is_told_before_any_work(
    pair_suite: Path, folder: Path, other_folder: Path, tmp_path: Path
) -> None:
    evaluate(str(pair_suite), folder, tmp_path / "a", card=False)
    (tmp_path / "text.txt").write_text("O barco azul voltou.", "utf-8")
    for asked, told in (
        ((pair_suite, "--seed", 1), "mine was measured on other items, or with another seed, for"),
        ((pair_suite, "--sample", 2), "with the same seed and sample"),
        ((tmp_path / "text.txt",), "holds no results of text: run the same suites for both"),
    ):
        given = ("evaluate", *asked, "-m", other_folder, "-o", tmp_path / "b", "--compare", tmp_path / "a")
        done = CliRunner().invoke(app, list(map(str, given)))
        assert told in " ".join(str(done.exception).split())
        assert not (tmp_path / "b").exists()


def test_items_may_hold_any_character(tmp_path: Path) -> None:
    items = [{"id": "a\u2028b\x85c"}, {"id": "d"}]
    (tmp_path / "x.items.jsonl").write_text(
        "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), "utf-8"
    )
    assert read_items(tmp_path, "x") == items
