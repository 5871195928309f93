"""Senses of a word whose two meanings a small model has learned: found, named, told apart."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import Heard
from typer.testing import CliRunner, Result

from unmask.analyse.senses import Senses, disambiguate, find_senses, learn_senses, score_senses
from unmask.analyse.senses_page import sense_map, write_senses
from unmask.analyse.uses import Use, find_uses, forms_of, in_context
from unmask.checkpoint import save_model
from unmask.cli import app
from unmask.config import ModelConfig, TokenizerConfig
from unmask.errors import ConfigError, InputError, UserError
from unmask.model.network import Model
from unmask.predict import MaskedLM, load
from unmask.predict.batching import pack
from unmask.tokenizer import Tokenizer, train_tokenizer

SEATS, TREASURIES = ("telhado", "muro", "degrau"), ("tesouro", "cofre", "governo")
SAT = [
    f"{who} {did} {{}} {where}"
    for who in ("o gato", "a menina", "um velho")
    for did in ("dormiu no", "subiu ao", "caiu do")
    for where in ("do jardim", "da praça", "de pedra", "de madeira")
]
PAID = [
    f"{who} {did} {{}} {where}"
    for who in ("o ministro", "a empresa", "um cliente")
    for did in ("pediu dinheiro ao", "pagou juros ao", "deve milhões ao")
    for where in ("central", "do estado", "de lisboa", "com atraso")
]
WORDS = {"assento": SAT, "finanças": PAID}


def learn(model: Model, tokenizer: Tokenizer) -> None:
    """Teach it which words stand in which frames, the word always hidden."""
    fitting = [(*SEATS, "banco")] * len(SAT) + [(*TREASURIES, "banco")] * len(PAID)
    ids = [tokenizer.encode(frame.format(tokenizer.mask_token)).ids for frame in (*SAT, *PAID)]
    truth = torch.tensor([[tokenizer.id(word) for word in words] for words in fitting])
    packed = pack(ids, torch.device("cpu"))
    rows = (packed.ids == tokenizer.mask_id).nonzero()[:, 0]
    optimiser = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(50):
        scores = model.mlm(model.encoder(*packed.inputs)[rows])
        loss = -scores.log_softmax(1).gather(1, truth).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 1.5  # four words fit everywhere: log 4 is 1.39


@pytest.fixture(scope="module")
def bilingual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that knows both meanings."""
    words = " ".join((*SEATS, *TREASURIES, "banco", "bancos"))
    texts = [frame.format("banco") for frame in (*SAT, *PAID)] + [words] * 60
    tokenizer = train_tokenizer(texts, TokenizerConfig(vocab_size=165))
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, pad_id=tokenizer.pad_id, width=32, layers=2, heads=4, inner=64,
        positions=64, dropout=0.0,
    )  # fmt: skip
    model = Model(config, ("mlm",), torch.Generator().manual_seed(0))
    learn(model, tokenizer)
    place = tmp_path_factory.mktemp("bilingual") / "model"
    save_model(model.eval(), place, tokenizer)
    return place


@pytest.fixture(scope="module")
def lm(bilingual: Path) -> MaskedLM:
    model = load(bilingual, "cpu")
    assert isinstance(model, MaskedLM)
    return model


@pytest.fixture(scope="module")
def labelled() -> tuple[list[Use], list[str]]:
    """Uses in both forms; a third of each meaning in the plural, and some with a capital letter."""
    uses, labels = [], []
    for label, frames in WORDS.items():
        for number, frame in enumerate(frames):
            form = ("banco", "bancos", "Banco")[number % 3]
            uses += find_uses([frame.format(form)], forms_of("banco", "pt"))
            labels.append(label)
    return uses, labels


@pytest.fixture(scope="module")
def found(lm: MaskedLM, labelled: tuple[list[Use], list[str]]) -> Senses:
    return find_senses(lm, labelled[0], "banco")


def test_two_senses_are_found(found: Senses, labelled: tuple[list[Use], list[str]]) -> None:
    scores = score_senses(found, labelled[1])
    assert (scores.ari, scores.v_measure, scores.purity, scores.items) == pytest.approx((1, 1, 1, 72))
    assert [sense.size for sense in found.senses] == [36, 36]
    assert found.silhouette is not None
    assert found.silhouette > 0.3
    assert found.forms == {"banco": 48, "bancos": 24}
    for number, sense in enumerate(found.senses):
        assert all(found.uses[example].sense == number for example in sense.examples)
    for use in found.uses:
        assert all(found.uses[other].sense == use.sense for other in use.nearest)


def test_what_takes_long_is_shown(lm: MaskedLM, labelled: tuple[list[Use], list[str]], heard: Heard) -> None:
    find_senses(lm, labelled[0][::6], "banco", 2, kind="tsne", progress=heard)
    assert {"grouping", "drawing"} <= set(heard.stages)


def test_no_example_is_shown_twice(lm: MaskedLM, labelled: tuple[list[Use], list[str]]) -> None:
    uses = [*labelled[0][:3]] * 4
    (one,) = find_senses(lm, uses, "banco", count=1).senses
    assert len(one.examples) == len({uses[number].text for number in one.examples}) == 3


def test_a_sense_is_named_by_what_fits_it_and_not_the_other(found: Senses) -> None:
    by_meaning = {"muro" in sense.name: set(sense.name[:3]) for sense in found.senses}
    assert by_meaning == {True: set(SEATS), False: set(TREASURIES)}
    assert not found.notes


def test_new_sentences_are_told_apart(lm: MaskedLM, found: Senses) -> None:
    texts = ["a menina caiu do banco da praça", "o ministro deve milhões ao banco com atraso"]
    seat, treasury = disambiguate(lm, found, list(find_uses(texts, ("banco",))))
    assert "muro" in found.senses[seat.sense].name
    assert "cofre" in found.senses[treasury.sense].name
    assert seat.margin > 0.2
    assert treasury.margin > 0.2
    assert disambiguate(lm, found, []) == []


def test_one_meaning_is_one_sense_and_a_number_may_be_given(lm: MaskedLM) -> None:
    rng = np.random.default_rng(0)
    uses = list(find_uses([SAT[n].format("banco") for n in rng.integers(0, 8, 3)], ("banco",)))
    only = find_senses(lm, uses, "banco")
    assert len(only.senses) == 1
    assert only.silhouette is None
    assert set(SEATS) <= set(only.senses[0].name)
    assert disambiguate(lm, only, uses)[0].sense == 0
    assert len(find_senses(lm, uses, "banco", count=2).senses) <= 2


def test_too_few_uses(lm: MaskedLM) -> None:
    with pytest.raises(InputError, match="'banco' occurs once"):
        find_senses(lm, [Use("o banco", 2, 7)], "banco")
    with pytest.raises(InputError, match="there is no banco in the text"):
        find_senses(lm, [], "banco")


def test_maps(lm: MaskedLM, labelled: tuple[list[Use], list[str]]) -> None:
    drawn = find_senses(lm, labelled[0], "banco", kind="tsne")
    places = np.array([[use.x, use.y] for use in drawn.uses])
    assert np.isfinite(places).all()
    assert np.ptp(places, axis=0).min() > 1
    assert sense_map(drawn).svg.count("<title>") == 72
    with pytest.raises(ConfigError, match="there is no map 'mercator'"):
        find_senses(lm, labelled[0], "banco", kind="mercator")  # type: ignore[arg-type]


@pytest.mark.slow
def test_umap(lm: MaskedLM, labelled: tuple[list[Use], list[str]]) -> None:
    pytest.importorskip("umap")
    drawn = find_senses(lm, labelled[0], "banco", kind="umap")
    assert np.isfinite([use.x for use in drawn.uses]).all()


def test_a_model_without_a_head_groups_and_says_why_it_does_not_name(headless: Path) -> None:
    model = load(headless, "cpu")
    uses = list(
        find_uses([f"{who} viu a carta" for who in ("O gato", "A vizinha", "Nobody", "Um velho")], ("carta",))
    )
    found = find_senses(model, uses, "carta", count=2)
    assert len(found.senses) == 2
    assert all(sense.name == () for sense in found.senses)
    assert found.notes == ("the senses have no names: this model has no masked-LM head that proposes words",)


@pytest.fixture(scope="module")
def learned(lm: MaskedLM, labelled: tuple[list[Use], list[str]]) -> Senses:
    """By ten labels of seats, six of money."""
    uses, labels = labelled
    return learn_senses(lm, [*uses[:10], *uses[36:42]], [*labels[:10], *labels[36:42]], "banco")


def test_senses_are_learned_from_labels(learned: Senses, lm: MaskedLM) -> None:
    assert learned.labelled is not None
    assert learned.labelled.labels == ("assento", "finanças")
    assert [sense.size for sense in learned.senses] == list(learned.labelled.right) == [10, 6]
    share = learned.labelled.accuracy
    assert (share.value, share.high, learned.labelled.commonest) == (1, 1, 10 / 16)
    assert share.low == pytest.approx(16 / (16 + 1.959964**2))  # Wilson's, where all are right
    assert "muro" in learned.senses[0].name
    assert not learned.notes
    texts = [frame.format("banco") for frame in (*SAT[20:], *PAID[20:])]
    guesses = disambiguate(lm, learned, list(find_uses(texts, ("banco",))))
    assert [guess.sense for guess in guesses] == [0] * 16 + [1] * 16
    assert all(0 < guess.margin < 1 for guess in guesses)


def test_a_sense_of_one_use_cannot_be_known_without_it(
    lm: MaskedLM, labelled: tuple[list[Use], list[str]]
) -> None:
    uses, labels = labelled
    learned = learn_senses(lm, [*uses[:5], uses[40]], [*labels[:5], labels[40]], "banco")
    assert learned.labelled is not None
    assert learned.labelled.right == (5, 0)
    assert learned.labelled.accuracy.value == learned.labelled.commonest == 5 / 6
    assert learned.notes == ("of finanças there is one use only: without it nothing is known of that sense",)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b"], "2 labels for 3 uses"),
        (["a", "a", "a"], "every use has the sense a"),
        (["a", " ", "b"], "a use has an empty label: 'O gato dormiu no banco"),
    ],
)
def test_labels_that_teach_nothing(lm: MaskedLM, labels: list[str], message: str) -> None:
    texts = ["o gato caiu do banco", "O gato dormiu no banco", "o governo deve ao banco"]
    with pytest.raises(InputError, match=message):
        learn_senses(lm, list(find_uses(texts, ("banco",))), labels, "banco")
    with pytest.raises(InputError, match="there is no labelled use"):
        learn_senses(lm, [], [], "banco")


def test_labels_without_a_head(headless: Path) -> None:
    uses = list(find_uses(["O gato viu a carta", "Nobody viu a carta", "Um velho viu a carta"], ("carta",)))
    learned = learn_senses(load(headless, "cpu"), uses, ["a", "b", "a"], "carta")
    assert learned.notes[0].startswith("there are no typical substitutes: this model has no masked-LM head")


def test_page_of_labelled_senses(learned: Senses, lm: MaskedLM, tmp_path: Path) -> None:
    guess = disambiguate(lm, learned, list(find_uses(["a empresa pagou juros ao banco"], ("banco",))))
    write_senses(tmp_path, [learned], {"banco": guess})
    (values,) = json.loads((tmp_path / "senses.json").read_text("utf-8"))
    assert values["labelled"]["labels"] == ["assento", "finanças"]
    assert values["labelled"]["accuracy"]["value"] == 1
    assert values["predicted"][0]["label"] == "finanças"
    page = (tmp_path / "senses.html").read_text("utf-8")
    assert "2 senses (silhouette " in page
    assert "100% are nearest to the right one (95 % interval 81% to 100%); always the commonest" in page
    assert "<th>right</th>" in page.replace(' class="number"', "")
    assert "assento  o gato dormiu no [banco] do jardim" in page


def test_page_and_json(found: Senses, lm: MaskedLM, tmp_path: Path) -> None:
    guess = disambiguate(lm, found, list(find_uses(["um velho subiu ao banco de pedra"], ("banco",))))
    write_senses(tmp_path, [found], {"banco": guess})
    (values,) = json.loads((tmp_path / "senses.json").read_text("utf-8"))
    assert values["predicted"][0]["sense"] == guess[0].sense
    assert len(values["uses"]) == 72
    assert values["uses"][5]["nearest"] == list(found.uses[5].nearest)
    assert values["senses"][1]["name"] == list(found.senses[1].name)
    page = (tmp_path / "senses.html").read_text("utf-8")
    assert "72 uses (banco 48, bancos 24), 2 senses (silhouette" in page
    assert "um velho subiu ao [banco] de pedra" in page
    assert "<script" not in page
    assert "<h2>" not in page  # one word: the title names it


def test_a_use_is_shown_in_whole_words() -> None:
    text = f"{'antes ' * 20}do banco, {'depois ' * 20}"
    (use,) = find_uses([text], ("banco",))
    line = in_context(use)
    assert line.startswith("…antes antes ")
    assert " do [banco], depois " in line
    assert line.endswith(" depois…")
    assert len(line) <= 2 * 70 + len("[banco]……")
    unspaced = Use("あ" * 100 + "銀行" + "い" * 100, 100, 102)
    assert in_context(unspaced) == "…" + "あ" * 70 + "[銀行]" + "い" * 70 + "…"


def test_no_form_of_the_word_names_a_sense(lm: MaskedLM, labelled: tuple[list[Use], list[str]]) -> None:
    uses = [*labelled[0], *find_uses(["o gato dormiu no muro do jardim"] * 2, ("muro",))]
    (one,) = find_senses(lm, uses, "banco", count=1).senses
    assert not {"banco", "bancos", "muro"} & set(one.name)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("corpus") / "text.txt"
    lines = [frame.format(("banco", "bancos")[n % 2]) for n, frame in enumerate((*SAT, *PAID))]
    file.write_text(".\n\n".join(lines) + ".\n\nUma mosca.", "utf-8")
    return file


def test_command(bilingual: Path, corpus: Path, tmp_path: Path) -> None:
    command = [
        "analyse", "senses", " banco", "velho", "--plural", "pt", "--text", str(corpus), "-m", str(bilingual),
        "-o", str(tmp_path), "-q", "--predict", "o gato caiu do banco de madeira",
    ]  # fmt: skip
    shown = CliRunner().invoke(app, command, catch_exceptions=False).stdout
    assert "banco: 72 uses (banco 36, bancos 36), 2 senses" in shown
    assert "velho: 12 uses (velho 12)" in shown
    assert "→ " in shown
    assert "the new texts do not hold the word" in shown
    printed = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False).stdout
    assert json.loads(printed) == json.loads((tmp_path / "senses.json").read_text("utf-8"))
    few = CliRunner().invoke(app, [*command, "--limit", "10", "--senses", "2"], catch_exceptions=False).stdout
    assert "banco: 10 uses" in few
    with pytest.raises(ConfigError, match=r"text.txt is a file, not a word: repeat --text for every file"):
        CliRunner().invoke(app, [*command, "--text", str(corpus), str(corpus)], catch_exceptions=False)


def test_new_texts_are_a_text_of_any_length_a_file_or_a_folder(
    bilingual: Path, corpus: Path, tmp_path: Path
) -> None:
    lines = ["o gato caiu do banco", "um velho subiu ao banco"]
    for name, line in zip(("a.txt", "b.txt"), lines, strict=True):
        (tmp_path / name).write_text(line, "utf-8")
    long = "o gato dormiu " * 40 + "no banco"
    for given, texts in ((long, [long]), (tmp_path / "a.txt", lines[:1]), (tmp_path, lines)):
        command = ["analyse", "senses", "banco", "--text", str(corpus), "-m", str(bilingual), "--senses", "1"]
        printed = (
            CliRunner()
            .invoke(app, [*command, "-q", "--json", "--predict", str(given)], catch_exceptions=False)
            .stdout
        )
        assert [each["text"] for each in json.loads(printed)[0]["predicted"]] == texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["girafa"], "there is no girafa in the text"),
        (["mosca"], "'mosca' occurs once"),
        (["banco", "--layer", "9"], "there is no layer 9: 0 is the embeddings, 1 to 2 the blocks, or last4"),
        (["banco", "--layer", "all"], "--layer all: write a number or last4"),
        (["banco", "--layer", "upper"], "--layer upper: write a number"),
        (["banco", "--senses", "400"], "400 senses cannot be found in 36 uses"),
        (["banco", "--predict", " "], "it is empty"),
        (["banco", "--text", "nowhere.txt"], "there is no nowhere.txt"),
    ],
)
def test_command_refuses(bilingual: Path, corpus: Path, options: list[str], message: str) -> None:
    command = ["analyse", "senses", *options, "--text", str(corpus), "-m", str(bilingual), "-q"]
    failed = CliRunner().invoke(app, command)
    assert isinstance(failed.exception, UserError)
    assert message in str(failed.exception)


LABELLED = [*((frame.format("banco"), "assento") for frame in SAT[:6]), (PAID[0].format("Banco"), "finanças"),
            *((frame.format("banco"), "finanças") for frame in PAID[1:4])]  # fmt: skip


def run_labelled(bilingual: Path, file: Path, *options: str, quiet: bool = True) -> Result:
    command = ["analyse", "senses", "banco", "--labelled", str(file), "-m", str(bilingual), *options]
    return CliRunner().invoke(app, [*command, "-q"] if quiet else command)


def test_command_with_labels(bilingual: Path, tmp_path: Path) -> None:
    table, lines = tmp_path / "usos.csv", tmp_path / "usos.jsonl"
    table.write_text("sentido,texto\n" + "".join(f"{sense},{text}\n" for text, sense in LABELLED), "utf-8")
    rows = [{"onde": text, "qual": sense} for text, sense in LABELLED]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    new = ["--predict", "a menina caiu do banco da praça"]
    shown = run_labelled(bilingual, table, *new, "-o", str(tmp_path / "out")).stdout
    assert "banco: 10 uses (banco 10), 2 senses" in shown
    assert "100% are nearest to the right one" in shown
    assert "  assento (6, 6 right)\n" in shown
    assert "→ assento  (margin " in shown
    assert "assento" in (tmp_path / "out" / "senses.html").read_text("utf-8")
    named = run_labelled(
        bilingual, lines, *new, "--text-column", "onde", "--label-column", "qual", "--json"
    ).stdout
    assert json.loads(named) == json.loads((tmp_path / "out" / "senses.json").read_text("utf-8"))


def test_a_text_counts_once_and_its_first_use_is_taken(bilingual: Path, tmp_path: Path) -> None:
    file = tmp_path / "usos.csv"
    twice = "o gato caiu do banco e a menina subiu ao banco"
    rows = [*LABELLED, LABELLED[3], (twice, "assento"), ("do banco ao banco", "assento")]
    file.write_text("text,sense\n" + "".join(f"{text},{sense}\n" for text, sense in rows), "utf-8")
    told = run_labelled(bilingual, file, "--json", quiet=False)
    (values,) = json.loads(told.stdout)
    assert len(values["uses"]) == 12
    assert [use["start"] for use in values["uses"] if use["text"] == twice] == [twice.index("banco")]
    assert "usos.csv: 1 row with a text of another row left out" in told.stderr
    assert (
        "usos.csv, line 13: the word stands there more than once, and its first use is taken; so in 1 other"
        in " ".join(told.stderr.split())
    )


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ("o muro,assento\n", [], "line 12: there is no banco in 'o muro'"),
        (
            "os bancos,assento\n",
            [],
            "line 12: there is no banco in 'os bancos': mend the row, or count plurals",
        ),
        ("o banco, \n", [], "line 12: the label is missing"),
        ("o banco,assento|areia\n", [], "line 12: a use has one sense"),
        (
            f"{SAT[0].format('banco')},areia\n",
            [],
            "line 12: the sense is areia, but assento of the same text",
        ),
        ("", ["--label-column", "text"], "the column text cannot be a text and its label"),
        ("", ["--label-column", "meaning"], "there is no column meaning, only text, sense"),
        ("", ["--senses", "2", "--limit", "9"], "--senses, --limit: with --labelled"),
        ("", ["--text", "a.txt"], "--text: with --labelled"),
        ("", ["velho"], "--labelled is of one word, not of banco, velho"),
    ],
)
def test_command_refuses_labels(
    bilingual: Path, tmp_path: Path, rows: str, options: list[str], message: str
) -> None:
    file = tmp_path / "usos.csv"
    table = "".join(f"{text},{sense}\n" for text, sense in LABELLED)
    file.write_text(f"text,sense\n{table}{rows}", "utf-8")
    failed = run_labelled(bilingual, file, *options)
    assert isinstance(failed.exception, UserError)
    assert message in str(failed.exception)


def test_plurals_of_labelled_uses(bilingual: Path, tmp_path: Path) -> None:
    file = tmp_path / "usos.tsv"
    file.write_text("text\tsense\nos bancos do jardim\ta\no banco do estado\tb\n", "utf-8")
    assert "bancos 1" in run_labelled(bilingual, file, "--plural", "pt").stdout


def test_uses_come_from_somewhere(bilingual: Path) -> None:
    for options, message in (
        ([], "where are the uses?"),
        (["--text-column", "t", "--text", "a"], "without --labelled"),
    ):
        failed = CliRunner().invoke(app, ["analyse", "senses", "banco", "-m", str(bilingual), *options])
        assert isinstance(failed.exception, ConfigError)
        assert message in str(failed.exception)
