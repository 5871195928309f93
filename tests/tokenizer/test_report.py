"""The vocabulary report, and the folder that `unmask tokenizer` makes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unmask.cli import app
from unmask.config import load_recipe
from unmask.errors import ConfigError, InputError, OutputError
from unmask.text import Document
from unmask.tokenizer import Tokenizer
from unmask.tokenizer.build import check_free
from unmask.tokenizer.report import Meter, VocabularyReport


def measured(tokenizer: Tokenizer, *documents: Document, words: tuple[str, ...] = ()) -> VocabularyReport:
    meter = Meter()
    assert list(meter.watch(documents)) == list(documents)
    return meter.report(tokenizer, words)


def test_figures_by_hand(tmp_path: Path) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "o", "gato", "cor", "##rendo", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), "utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    fit = measured(tokenizer, Document("o gato correndo .", "pt"), Document("o ж.", "pt")).languages["pt"]
    assert (fit.words, fit.tokens, fit.bytes) == (7, 8, 22)
    assert fit.tokens_per_word == pytest.approx(8 / 7)
    assert fit.bytes_per_token == pytest.approx(22 / 8)
    assert fit.unknown == pytest.approx(1 / 8)
    assert fit.whole == pytest.approx(6 / 7)
    assert fit.pieces[:3] == pytest.approx((6 / 7, 1 / 7, 0))


def test_languages_and_examples(tokenizer: Tokenizer, texts: list[str]) -> None:
    documents = [Document(text, "pt" if "O" in text else "en") for text in texts] + [Document("só")]
    report = measured(tokenizer, *documents, words=("jornal",))
    assert list(report.languages) == ["none", "en", "pt"]
    assert list(measured(tokenizer, Document("só")).languages) == ["all"]
    assert list(report.examples)[:5] == ["jornal", "gatinho", "cãozinho", "correndo", "rapidamente"]
    for word, pieces in report.examples.items():
        assert "".join(pieces).replace("##", "").strip("▁Ġ") == word
    english = measured(tokenizer, Document("The old teacher walks slowly.", "en"))
    assert "gatinho" not in english.examples


def test_frequent_split_words_are_shown(tokenizer: Tokenizer) -> None:
    report = measured(tokenizer, Document("O desembargador e o desembargador, um otorrino."))
    assert [word for word in report.examples if word.startswith(("des", "oto"))] == [
        "desembargador",
        "otorrino",
    ]


def test_no_text_to_measure(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="no text"):
        measured(tokenizer)


def test_files(tokenizer: Tokenizer, texts: list[str], tmp_path: Path) -> None:
    report = measured(tokenizer, *(Document(text, "pt") for text in texts), words=("<b>",))
    report.save(tmp_path)
    saved = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert saved["languages"]["pt"]["tokens"] == report.languages["pt"].tokens
    assert saved["fingerprint"] == tokenizer.fingerprint
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<svg" in page
    assert "Pieces per word" in page
    assert "cãozinho" in page
    assert "<td>&lt;b&gt;</td>" in page
    assert 'src="http' not in page


def unmask(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def corpus(tmp_path: Path, texts: list[str]) -> Path:
    (tmp_path / "a.txt").write_text("\n\n".join(texts), "utf-8")
    return tmp_path / "a.txt"


def test_train_extend_and_report_from_the_command_line(corpus: Path, tmp_path: Path) -> None:
    out, more = tmp_path / "vocab", tmp_path / "more"
    shown = unmask("tokenizer", f"pt={corpus}", "--vocab-size", "150", "--lowercase", "-o", out, "--quiet")
    assert "gatinho" in shown
    assert "tokens/word" in shown
    assert {path.name for path in out.iterdir()} == {
        "tokenizer.json",
        "tokenizer_config.json",
        "recipe.toml",
        "report.json",
        "report.html",
    }
    recipe = load_recipe(out / "recipe.toml").tokenizer
    assert (recipe.vocab_size, recipe.lowercase, recipe.kind) == (150, True, "wordpiece")
    (tmp_path / "new.txt").write_text("o desembargador homologou\n\no desembargador homologou", "utf-8")
    unmask("tokenizer", "--extend", out, tmp_path / "new.txt", "--add", "2", "-o", more, "-q")
    assert Tokenizer.load(more).id("desembargador") >= 150
    figures = json.loads(unmask("tokenizer", "--report", more, corpus, "--word", "avó", "--json", "-q"))
    assert figures["vocab_size"] == 152
    assert "avó" in figures["examples"]


def refused(*args: object) -> str:
    result = CliRunner().invoke(app, ["tokenizer", *map(str, args), "-q"])
    assert isinstance(result.exception, ConfigError), result.output
    return str(result.exception)


def test_options_that_would_do_nothing_are_refused(corpus: Path, tmp_path: Path) -> None:
    base, out = tmp_path / "base", tmp_path / "out"
    unmask("tokenizer", corpus, "--vocab-size", "150", "-o", base, "-q")
    more = ("--extend", base, corpus, "-o", out)
    assert refused(*more, "--vocab-size", 160) == (
        "--vocab-size 160: --extend adds to the 150 entries that are there: say --add 10 in its place"
    )
    for given in (("--vocab-size", 150), ("--kind", "bpe"), ("--lowercase",), ("--keep-accents",)):
        assert (
            "would change nothing, since --extend keeps 150 entries and their settings, and adds"
            in refused(*more, *given)
        )
    assert "--set tokenizer.coverage=0.9 would change nothing" in refused(
        *more, "--set", "tokenizer.coverage=0.9", "--set", "text.min_chars=3"
    )
    (tmp_path / "of-text.toml").write_text("[text]\nmin_chars = 3\n[tokenizer]\nkind = 'bpe'\n")
    for there in (more, ("--report", base, corpus)):
        assert "--recipe bert-base would change nothing" in refused(*there, "--recipe", "bert-base")
    unmask("tokenizer", "--report", base, corpus, "--recipe", tmp_path / "of-text.toml", "-q")
    for given in (("--vocab-size", 160), ("--kind", "bpe"), ("--cased",)):
        assert f"{given[0].replace('cased', 'lowercase')} would change nothing, since --report" in refused(
            "--report", base, corpus, *given
        )
    for given in (("-o", out), ("--report", base)):
        assert "--add: without --extend this does nothing" in refused(corpus, "--add", 50, *given)
    assert not out.exists()


def test_what_the_command_refuses(corpus: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    wrong = runner.invoke(app, ["tokenizer", str(corpus), "-q"])
    assert isinstance(wrong.exception, ConfigError)
    assert "-o DIR" in str(wrong.exception)
    both = ["tokenizer", str(corpus), "--extend", "a", "--report", "b"]
    assert isinstance(runner.invoke(app, both).exception, ConfigError)
    (tmp_path / "vocab").mkdir()
    (tmp_path / "vocab" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    for given in (["-o", str(tmp_path / "o"), "--kind", "bpe"], []):
        alone = runner.invoke(app, ["tokenizer", str(corpus), "--extend", str(tmp_path / "vocab"), *given])
        assert isinstance(alone.exception, ConfigError)
        assert alone.output == ""  # no word of a casing that is guessed
    itself = ["tokenizer", str(corpus), "--extend", str(tmp_path), "-o", str(tmp_path)]
    assert "start from" in str(runner.invoke(app, itself).exception)
    taken = runner.invoke(app, ["tokenizer", str(corpus), "-o", str(tmp_path), "-q"])
    assert isinstance(taken.exception, OutputError)
    swapped = runner.invoke(app, ["tokenizer", "--report", str(corpus), str(tmp_path), "-q"])
    assert str(swapped.exception) == (
        f"{corpus} is no vocabulary, as no line of it is [CLS]: name a tokenizer's folder in its place"
    )
    (tmp_path / "blank.txt").write_text("\n\n")
    for more, dropped in (
        ((), "none, there is no text in the input"),
        (("--set", "text.min_chars=90"), "2 short"),
    ):
        nothing = runner.invoke(
            app, ["tokenizer", str(tmp_path / "blank.txt"), "-o", str(tmp_path / "o"), "-q", *more]
        )
        assert (
            str(nothing.exception)
            == f"no documents of {tmp_path / 'blank.txt'} are left (dropped: {dropped})"
        )
        (tmp_path / "blank.txt").write_text("a\n\nb\n")


def test_nothing_is_written_over_unasked(tokenizer: Tokenizer, tmp_path: Path) -> None:
    check_free(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    check_free(tmp_path)
    tokenizer.save(tmp_path)
    with pytest.raises(OutputError, match=r"in use \(tokenizer\.json …\).*--overwrite"):
        check_free(tmp_path)
    check_free(tmp_path, overwrite=True)
    with pytest.raises(OutputError, match="is a file"):
        check_free(tmp_path / "tokenizer.json", overwrite=True)
    (tmp_path / "config.json").touch()
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="holds a model, .*: choose another folder"):
            check_free(tmp_path, overwrite)
