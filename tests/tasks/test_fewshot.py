"""Few examples: prompts, what is drawn, and a comparison of all ways."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Heard
from tests.tasks.conftest import BAD, GOOD, THINGS, reviews
from typer.testing import CliRunner

from unmask.checkpoint import load_model, save_model
from unmask.cli import app
from unmask.errors import ConfigError, InputError, UserError
from unmask.predict.cloze import Cloze
from unmask.predict.masked import MaskedLM
from unmask.progress import Progress, Stage
from unmask.sections import Change, load_settings
from unmask.tasks.batches import make_batch
from unmask.tasks.comparison import Comparison
from unmask.tasks.examples import TextExample
from unmask.tasks.fewshot import fewshot, table
from unmask.tasks.finetune import gather
from unmask.tasks.prompts import ClozeLoss, cloze_items, make_prompt, word_ids
from unmask.tasks.settings import METHODS, FewshotConfig, FinetuneConfig
from unmask.tokenizer import Tokenizer

WORDS = ("bad=no", "good=so")  # single pieces of this vocabulary
LABELS = ("bad", "good")
TRAIN, VALID = reviews()[:60], reviews()[60:]


def quick(**values: Any) -> FewshotConfig:
    usual: dict[str, Any] = {"sizes": (4, 16), "seeds": 2}
    if set(values.get("methods", METHODS)) & {"cloze", "lora"}:
        usual |= {"steps": 60, "lr": 5e-3, "batch": 8}
    return FewshotConfig(**usual | values)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, base: Path) -> Path:
    out = tmp_path_factory.mktemp("few") / "out"
    fewshot(base, TRAIN, VALID, out, quick(prompt="[MASK].", words=WORDS))
    return out


def test_every_way_with_every_draw(compared: Path) -> None:
    found = json.loads((compared / "results.json").read_text("utf-8"))
    cells = {(trial["method"], trial["size"], trial["seed"]) for trial in found["trials"]}
    ways = ("cloze", "probe", "knn", "lora")
    expected = {(way, size, seed) for way in ways for size in (4, 16) for seed in (0, 1)}
    assert cells == expected | {("cloze", 0, 0)}
    assert len(found["trials"]) == len(cells)
    means = {(point["method"], point["size"]): point["mean"] for point in found["points"]}
    by_hand = [
        trial["scores"]["accuracy"]
        for trial in found["trials"]
        if (trial["method"], trial["size"]) == ("lora", 16)
    ]
    assert means["lora", 16] == pytest.approx(np.mean(by_hand))
    assert found["commonest"] == 0.5
    # One word decides, and it can be learnt.
    assert means["lora", 16] > 0.7
    assert means["cloze", 16] > 0.7
    assert means["probe", 16] > 0.6


def test_examples_that_are_scored_and_learned_from_are_told(tmp_path: Path, base: Path, heard: Heard) -> None:
    settings = quick(methods=("probe",), sizes=(4,), seeds=1)
    result = fewshot(base, TRAIN, TRAIN, tmp_path / "out", settings, progress=heard)
    assert result.valid_in_train == 8  # of two classes four each
    assert any(said.startswith("8 of 60 validation examples trained on too") for said in heard.said)
    told = "8 of 60 validation examples among those drawn to learn from"
    assert told in (tmp_path / "out/report.html").read_text("utf-8")


def test_the_figure_and_the_page(compared: Path) -> None:
    assert (compared / "curve.svg").read_text("utf-8").startswith("<svg")
    page = (compared / "report.html").read_text("utf-8")
    for part in ("examples per class", "commonest class", "±", "cloze", "knn"):
        assert part in page


def test_draws_are_balanced_nested_and_their_own(base: Path) -> None:
    made = gather("classify", base, TRAIN, VALID, FinetuneConfig(lora=2))
    draws = Comparison(made, quick(methods=("probe",), sizes=(4, 8)), Progress()).draws
    for (size, _), numbers in draws.items():
        targets = [TRAIN[number].target for number in numbers]
        assert {label: targets.count(label) for label in LABELS} == dict.fromkeys(LABELS, size)
        assert len(set(numbers)) == len(numbers)
    assert set(draws[4, 0]) < set(draws[8, 0])
    assert draws[8, 0] != draws[8, 1]


def test_vectors_are_computed_once(base: Path) -> None:
    made = gather("classify", base, TRAIN, VALID, FinetuneConfig(lora=2))
    comparison = Comparison(made, quick(methods=("knn", "probe")), Progress())
    assert comparison._vectors is comparison._vectors
    used = {number for numbers in comparison.draws.values() for number in numbers}
    vectors, valid = comparison._vectors
    assert set(vectors) == used
    assert len(valid) == len(VALID)
    model = MaskedLM(load_model(base)[0], made.tokenizer)
    number = min(used)
    np.testing.assert_allclose(vectors[number], model.embed(TRAIN[number].text), atol=1e-5)


def test_the_loss_is_over_the_words_alone(base: Path, tokenizer: Tokenizer) -> None:
    model, _ = load_model(base, torch.float64, heads=["mlm"])
    lm = MaskedLM(model, tokenizer)
    prompt = make_prompt("[MASK] {text}", WORDS, LABELS, pairs=False)
    assert prompt.words == ("no", "so")
    cloze = Cloze(lm, prompt.texts(TRAIN[:3], tokenizer, 48))
    words = word_ids(cloze, prompt.words)
    loss = ClozeLoss(words)
    batch = make_batch(cloze_items(cloze, [0, 1, 1]), segments=True)
    assert batch.ids[batch.target_index].tolist() == [tokenizer.mask_id] * 3
    outcome = loss(model, batch)["cloze"]
    hidden = model.encoder(batch.ids, batch.positions, batch.cu_seqlens, batch.max_seqlen)
    scores = model.mlm(hidden)[batch.cu_seqlens[:-1].long() + 1][:, words]
    expected = F.cross_entropy(scores, torch.tensor([0, 1, 1]), reduction="none")
    torch.testing.assert_close(outcome.losses.double(), expected, atol=1e-6, rtol=1e-6)
    assert loss.counts(batch) == {"cloze": 3}


@settings(deadline=None, max_examples=30)
@given(
    words=st.lists(st.sampled_from([*GOOD, *BAD, *THINGS, "{pair}", "[ "]), min_size=1, max_size=90),
    pair=st.none() | st.lists(st.sampled_from(THINGS), max_size=60),
    length=st.integers(12, 40),
)
def test_prompts_fit(tokenizer: Tokenizer, words: list[str], pair: list[str] | None, length: int) -> None:
    text, second = " ".join(words), None if pair is None else " ".join(pair)
    template = "{text} é [MASK]" if pair is None else "{text} [MASK] {pair}"
    prompt = make_prompt(template, WORDS, LABELS, pairs=pair is not None)
    (filled,) = prompt.texts([TextExample(text, second)], tokenizer, length)
    assert len(tokenizer.encode(filled)) <= length
    assert filled.count("[MASK]") == 1
    begins = filled.partition(" é [MASK]" if pair is None else " [MASK] ")[0]
    assert text.startswith(begins)
    whole = template.replace("{text}", "\0").replace("{pair}", second or "").replace("\0", text)
    if len(tokenizer.encode(whole)) <= length:
        assert filled == whole


def test_a_model_without_the_head_skips_the_cloze(tmp_path: Path, base: Path, tokenizer: Tokenizer) -> None:
    bare, _ = load_model(base, heads=[])
    save_model(bare, tmp_path / "bare", tokenizer)
    watch = Heard()
    chosen = quick(prompt="[MASK]", words=WORDS, methods=("cloze", "knn"), sizes=(4, 900))
    result = fewshot(tmp_path / "bare", TRAIN, VALID, tmp_path / "out", chosen, progress=watch)
    assert {point.method for point in result.points} == {"knn"}
    assert "no masked-LM head" in result.skipped["cloze"]
    assert len(watch.said) == 3
    said = "2 fits on frozen vectors, each scored on 20 examples; fewer --sizes or --seeds take less time"
    assert watch.said[2] == said
    assert "larger sizes are left out" in watch.said[0]
    assert table(result)[0] == ["accuracy", "4"]
    with pytest.raises(ConfigError, match="nothing to compare"):
        fewshot(tmp_path / "bare", TRAIN, VALID, tmp_path / "no", quick(prompt="[MASK]", methods=("cloze",)))


def test_a_signal_keeps_what_is_done(tmp_path: Path, base: Path) -> None:
    class Impatient(Progress):
        @contextmanager
        def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
            class Once(Stage):
                def advance(self, amount: float) -> None:
                    os.kill(os.getpid(), signal.SIGTERM)

            yield Once()

    result = fewshot(base, TRAIN, VALID, tmp_path / "out", quick(methods=("probe",)), progress=Impatient())
    assert result.stopped == signal.SIGTERM
    assert len(result.trials) == 1
    assert len(json.loads((tmp_path / "out/results.json").read_text("utf-8"))["trials"]) == 1
    assert "Stopped after 1 trial: the rest was not measured." in (tmp_path / "out/report.html").read_text(
        "utf-8"
    )


def test_the_time_left_goes_by_steps(tmp_path: Path, base: Path) -> None:
    amounts: dict[str, list[float]] = {}

    class Counted(Progress):
        @contextmanager
        def stage(self, label: str, total: float | None = None, unit: str = "") -> Iterator[Stage]:
            amounts[label] = []

            class Steps(Stage):
                def advance(self, amount: float) -> None:
                    amounts[label].append(amount)

            yield Steps()
            if label == "few-shot":
                assert total == sum(amounts[label])

    chosen = quick(sizes=(4,), seeds=1, steps=5, prompt="[MASK].", words=WORDS)
    fewshot(base, TRAIN, VALID, tmp_path / "out", chosen, progress=Counted())
    assert len(amounts["few-shot"]) == 2 * 5 + 2 + 1  # cloze and lora, two fits, the prompt alone


def test_pairs(tmp_path: Path, base: Path) -> None:
    pairs = [
        TextExample(a.text, b.text, "same" if a.target == b.target else "other")
        for a in TRAIN[:12]
        for b in TRAIN[3:7]
    ]
    chosen = quick(sizes=(8,), seeds=1, steps=2, prompt="{text} [MASK] {pair}", words=("same=e", "other=a"))
    result = fewshot(base, pairs, pairs[::3], tmp_path / "out", chosen)
    assert {point.method for point in result.points} == {"cloze", "probe", "knn", "lora"}
    with pytest.raises(ConfigError, match="the examples are pairs"):
        fewshot(base, pairs, pairs, tmp_path / "no", quick(prompt="[MASK]", words=("same=o", "other=a")))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prompt": "It was so."}, "write one .MASK. in the prompt"),
        ({"prompt": "[MASK]", "words": ("bad=mau",)}, "--words lacks good"),
        ({"prompt": "[MASK]", "words": (*WORDS, "meh=o")}, "no example has the class 'meh', only bad, good"),
        ({"prompt": "[MASK]", "words": ("bad", "good=bom")}, "write label=word"),
        ({"prompt": "[MASK]", "words": ("bad=no", "good=no")}, "two classes have the same word"),
        ({"prompt": "[MASK]", "words": ("bad=no", "good=xyzyx")}, "'xyzyx' is"),
        ({"prompt": "[MASK]", "words": ("bad=no", "good=☀")}, "'☀' is not in this vocabulary"),
        (
            {"methods": ("lora", "cloze"), "lr": 1e30, "prompt": "[MASK]", "words": ("bad=no", "good=xyzyx")},
            "'xyzyx' is",  # before anything is trained
        ),
        ({"methods": ("cloze",)}, "needs a prompt"),
        ({"sizes": (500,)}, "the class '.*' has only 30 examples"),
        ({"lr": 1e30, "methods": ("lora",)}, "diverged.*lower lr"),
        ({"lr": 1e36, "methods": ("lora",), "steps": 2}, "diverged.*not finite at step.*--set lr="),
        (
            {"lr": 1e36, "methods": ("cloze",), "steps": 2, "prompt": "[MASK]", "words": WORDS},
            "diverged.*not finite at step.*--set lr=",
        ),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, base: Path, values: dict[str, Any], message: str) -> None:
    watch = Heard()
    with pytest.raises(UserError, match=message):
        fewshot(base, TRAIN, VALID, tmp_path / "out", quick(**{"sizes": (4, 900)} | values), progress=watch)
    assert not watch.said or "diverged" in message  # nothing but the refusal
    assert not (tmp_path / "out").exists()


def test_a_size_is_a_list_of_one() -> None:
    with pytest.raises(ConfigError, match=r"^--set: sizes: write a list, like \[8\] \(got 8\)$"):
        load_settings(FewshotConfig, ["sizes=8"])
    assert load_settings(FewshotConfig, ["sizes=[8]"]).sizes == (8,)


@pytest.mark.parametrize(
    ("methods", "given", "need"),
    [
        (("knn",), {"prompt": "[MASK]"}, "methods=cloze"),
        (("probe", "lora"), {"words": WORDS}, "methods=cloze"),
        (("cloze", "lora"), {"neighbours": 5}, "methods=knn"),  # the default, but said
        (("knn", "probe"), {"steps": 20}, "methods=cloze or lora"),
    ],
)
def test_what_no_way_reads(methods: tuple[Any, ...], given: dict[str, Any], need: str) -> None:
    ((key, value),) = given.items()
    with pytest.raises(ValueError, match=f"{key}\n  would change nothing, .* only with {need}: "):
        FewshotConfig(methods=methods, **given)
    why = f"would change nothing, since it is read only with {need}: leave it out"
    for option, told in ((f"--{key}", f"--{key}: {why}"), ("--set", f"--set: {key} {why}")):
        with pytest.raises(ConfigError, match=f"^{told}$"):
            load_settings(
                FewshotConfig, [Change("--methods", "methods", methods), Change(option, key, value)]
            )
    FewshotConfig(**given)  # all that are possible


def test_one_class_each(tmp_path: Path, base: Path) -> None:
    several = [TextExample("o livro", None, ("a", "b")), TextExample("a sopa", None, ("a",))]
    with pytest.raises(InputError, match="some examples have several"):
        fewshot(base, several, several, tmp_path / "out")


def test_the_command(tmp_path: Path, base: Path) -> None:
    for name, examples in (("train", TRAIN), ("valid", VALID)):
        rows = [f"{example.text},{example.target}" for example in examples]
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "\n".join(rows), "utf-8")
    given = ["--train", tmp_path / "train.csv", "--valid", tmp_path / "valid.csv", "--model", base]
    few = ["--methods", "cloze,probe", "--sizes", "4", "--set", "seeds=1", "--set", "steps=2", "-q"]
    prompt = ["--prompt", "[MASK]", "--words", "bad=no, good=so"]
    command = ["fewshot", *map(str, given), *few, *prompt, "-o", str(tmp_path / "out")]
    run = CliRunner().invoke(app, [*command, "--seeds", "1"])
    assert run.exit_code == 0, run.output
    assert run.output.splitlines()[0].split() == ["accuracy", "0", "4"]
    assert [line.split()[0] for line in run.output.splitlines()[1:3]] == ["cloze", "probe"]
    printed = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "again"), "--json"])
    assert len(json.loads(printed.output)["trials"]) == 3
    command[command.index("--sizes") + 1] = "few"
    wrong = CliRunner().invoke(app, command)
    assert isinstance(wrong.exception, ConfigError)
