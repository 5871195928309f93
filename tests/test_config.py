"""Recipes: read, changed, written back; a misspelt key says which one was meant."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.config import Recipe, load_recipe, recipe_names, write_recipe
from unmask.errors import ConfigError
from unmask.model.published import read_config
from unmask.sections import Change, known_keys


def test_defaults_need_no_file() -> None:
    assert load_recipe() == Recipe()


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_parses(name: str) -> None:
    assert load_recipe(name) != Recipe()


def test_unknown_recipe_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"did you mean tiny-docs\? Name a file, or one of .*tiny-docs"):
        load_recipe("tiny-dogs")
    with pytest.raises(ConfigError, match="there is no recipe xyz. Name a file"):
        load_recipe("xyz")


def test_changes_go_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('seed = 3\n[text]\nmin_chars = 20\ncolumn = "body"\n')
    recipe = load_recipe(path, ["text.min_chars=5", "tokenizer.kind=unigram", "text.fix_mojibake=true"])
    assert (recipe.seed, recipe.text.min_chars, recipe.text.column) == (3, 5, "body")
    assert recipe.tokenizer.kind == "unigram"
    assert recipe.text.fix_mojibake


def test_an_empty_change_restores_the_default(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[text]\nmin_chars = 20\n")
    assert load_recipe(path, ["text.min_chars=", "text.max_chars="]) == Recipe()


def test_recipe_as_run_reads_back(tmp_path: Path) -> None:
    recipe = load_recipe(None, ["text.language_column=lang", "prepare.valid=0.1"])
    write_recipe(recipe, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == recipe


@pytest.mark.parametrize(
    ("change", "meant"),
    [
        ("tokenizer.vocabsize=8", "tokenizer.vocab_size"),
        ("text.min_char=8", "text.min_chars"),
        ("tokeniser.kind=bpe", r"tokenizer.kind\?"),
        ("sed=1", "seed"),
        ("learning_rate=1", "train.lr"),
        ("train.learning_rate=1", "train.lr"),
        ("train.batch_len=1", "train.batch_tokens"),
        ("data.valid=0.1", "prepare.valid"),
        ("train.valid=0.1", "prepare.valid"),
        ("mask.ratio=0.2", "batch.mask.ratio"),
        ("train.length=8", r"batch.length\?$"),
    ],
)
def test_misspelt_key_names_the_one_meant(change: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {meant}"):
        load_recipe(None, [change])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "tokenizer=vocab",
            "--set: tokenizer is a section, not a value: set one of its keys, tokenizer.kind",
        ),
        (
            "batch.mask=word",
            "--set: batch.mask is a section, not a value: set one of its keys, batch.mask",
        ),
    ],
)
def test_a_section_takes_no_value(change: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_recipe(None, [change])
    assert str(caught.value).startswith(says)
    assert not {"tokenizer", "batch.mask"} & set(known_keys(Recipe))


@pytest.mark.parametrize("section", ["train", "model", "batch.mask"])
def test_a_section_is_not_emptied(section: str) -> None:
    with pytest.raises(ConfigError, match=f"^--set: {section} is a section, not a value"):
        load_recipe("record-small", [f"{section}="])


def test_an_unknown_section_is_told_by_its_keys(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("[data]\nvalid = 0.1\n[data.masks]\nratio = 0.2\n")
    with pytest.raises(ConfigError) as caught:
        load_recipe(tmp_path / "r.toml", ["data.test=0.1"])
    assert str(caught.value) == (
        f"{tmp_path / 'r.toml'}: there is no data.valid; did you mean prepare.valid?; "
        "there is no data.masks.ratio; did you mean batch.mask.ratio?; "
        "--set: there is no data.test; did you mean prepare.test?"
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("seed", "section.key=value"),
        ("=3", "section.key=value"),
        ("tokenizer.kind=wordpeice", "tokenizer.kind: .*'wordpeice'"),
        ("train.betas=0.9", r"train.betas: write a list, like \[0.9\] \(got 0.9\)"),
        ("train.stages=5", r"train.stages: write the list like \[{share=…, length=…}, …\] \(got 5\)"),
        ("train.stages=[5]", r"train.stages.0: write the list like \[{share=…, length=…}, …\] \(got 5\)"),
        ("train.stages={share = 1}", r"train.stages: write the list like \[{share=…, length=…}, …\] \(got {"),
        ("train.stages.share=1", r"train.stages: write the list like \[{share=…, length=…}, …\] \(got {"),
        ("train.stages=[{len=8}]", r"no train.stages.0.len; write the list like \[{share=…, length=…}, …\]"),
        ("model.labels=a, b", r'model.labels: write a list, like \["a", "b"\] \(got'),
        ("prepare.valid=2", "prepare.valid: .*less than or equal to 1"),
        ("seed.x=1", "seed"),
        ("train.epochs=true", r"^--set: train.epochs: write a number, not true or false \(got True\)$"),
        ("train.betas=[true, 0.9]", "train.betas: write a number, not true or false"),
        ("train.stages=[{share = true, length = 16}]", "train.stages.0.share: write a number, not true"),
        ("model.dropout=1", "model.dropout = 1 drops everything: set it below 1"),
        ("model.attention_dropout=1.0", "model.attention_dropout = 1 drops everything"),
        ("model.head_dropout=1", "model.head_dropout = 1 drops everything"),
        ("prepare={valid = 0.6, test = 0.5}", "nothing to train on"),
        ("train.lr=inf", "train.lr: input should be a finite number"),
        (
            "train.compile=x",
            r"^--set: train.compile: .*; train.compile: input should be 'auto' \(got",
        ),
    ],
)
def test_bad_values_are_one_clear_line(change: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load_recipe(None, [change])
    assert "\n" not in str(caught.value)


def test_a_folder_that_drops_everything_is_read_all_the_same() -> None:
    """Its dropout plays no part in answering."""
    values = {"model_type": "bert", "hidden_dropout_prob": 1.0, "attention_probs_dropout_prob": 1.0}
    assert read_config(values).dropout == 1


def test_what_is_wrong_names_the_option_that_gave_it(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("[train]\nclip = -1\n[model]\nwidth = 0\n")
    changes = [Change("--vocab-size", "tokenizer.vocab_size", 0), "train.lr=0", "model.width=24"]
    with pytest.raises(ConfigError) as caught:
        load_recipe(tmp_path / "r.toml", changes)
    parts = str(caught.value).split("; ")
    assert parts[0].startswith("--vocab-size: input should be greater")
    assert parts[1].startswith("--set: train.lr: input should be greater")
    assert parts[2].startswith(f"{tmp_path / 'r.toml'}: train.clip: ")
    assert len(parts) == 3
    section = Change("--size", "model.size", 3)
    with pytest.raises(ConfigError, match="^--size: there is no such setting here$"):
        load_recipe(None, [section])


def test_an_option_and_set_must_agree() -> None:
    size = Change("--vocab-size", "tokenizer.vocab_size", 90)
    assert load_recipe(None, ["tokenizer.vocab_size=90", size]).tokenizer.vocab_size == 90
    assert load_recipe(None, ["seed=1", "seed=2"]).seed == 2  # the last --set of a key counts
    for value in ("100", ""):
        with pytest.raises(ConfigError) as caught:
            load_recipe(None, [f"tokenizer.vocab_size={value}", size])
        assert str(caught.value) == (
            f"--set tokenizer.vocab_size={value} and --vocab-size 90 are one setting with two values: "
            "leave one of them out"
        )


@pytest.mark.parametrize(("content", "says"), [("a = [", "not valid TOML"), (None, "no recipe at")])
def test_bad_files(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "r.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=says):
        load_recipe(path)
    if content is not None:
        with pytest.raises(ConfigError, match="cannot read the recipe .*: Not a directory"):
            load_recipe(path / "inner.toml")


def test_a_recipe_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Recipe().seed = 1  # type: ignore[misc]


@given(st.sampled_from(sorted(known_keys(Recipe))), st.text(max_size=8))
def test_any_change_is_applied_or_explained(key: str, value: str) -> None:
    try:
        assert isinstance(load_recipe(None, [f"{key}={value}"]), Recipe)
    except ConfigError as error:
        assert str(error).startswith("--set")


def test_every_field_is_documented() -> None:
    def check(section: type) -> None:
        for name, field in section.model_fields.items():
            if hasattr(field.annotation, "model_fields"):
                check(field.annotation)
            else:
                assert field.description, f"{section.__name__}.{name}"

    check(Recipe)
