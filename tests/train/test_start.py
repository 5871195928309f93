"""`unmask.pretrain`: the command's run from Python, and what cannot be told before torch is loaded."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.conftest import SMALL, final_weights, identical

import unmask
from unmask.config import Recipe
from unmask.errors import ConfigError, InputError, OutputError
from unmask.text import find_sources
from unmask.train.pretrain import pretrain
from unmask.train.start import Start

Make = Callable[..., Recipe]


def test_a_run_from_text(text: Path, tmp_path: Path) -> None:
    changes = {"tokenizer.vocab_size": 120, "prepare.valid": 0.1, "train.steps": 2, "train.seconds": None}
    sizes = {key: _value(text) for key, text in map(_parted, SMALL)}
    sources = [f"pt={text / 'pt.txt'}", f"en={text / 'en.txt'}"]
    result = unmask.pretrain("tiny-docs", tmp_path / "run", sources, changes=sizes | changes)
    assert result.steps == 2
    assert result.valid
    assert set(result.valid.languages) == {"pt", "en"}
    assert result.model
    assert unmask.load(result.model).tokenizer.vocab_size == 120
    with pytest.raises(OutputError, match="holds a run already"):
        unmask.pretrain("tiny-docs", str(tmp_path / "run"), sources, changes=sizes | changes)
    again = unmask.pretrain("tiny-docs", tmp_path / "run", sources, None, None, sizes | changes, resume=True)
    assert again == result
    tables = find_sources(sources)
    other = unmask.pretrain("tiny-docs", tmp_path / "other", tables, changes=sizes | changes)
    assert other.valid == result.valid
    with pytest.raises(InputError, match="is given twice, as pt and as en"):
        unmask.pretrain("tiny-docs", tmp_path / "new", [f"{code}={text / 'pt.txt'}" for code in ("pt", "en")])
    with pytest.raises(ConfigError, match=r"write the keys of train with a dot"):
        unmask.pretrain("tiny-docs", tmp_path / "new", sources, changes={"train": {"steps": 2}})
    with pytest.raises(ConfigError, match=r"prepare\.valid = 0 leaves no text"):
        waits = {"train.patience": 2, "prepare.valid": 0}
        unmask.pretrain("tiny-docs", tmp_path / "new", sources, changes=waits)


def _parted(change: str) -> tuple[str, str]:
    key, _, value = change.partition("=")
    return key, value


def _value(text: str) -> float | str:
    return text if text.isalnum() and not text.isdecimal() else float(text) if "." in text else int(text)


def test_it_is_the_run_of_the_command(small: Make, shards: Path, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("")
    unmask.pretrain(tmp_path / "a.toml", tmp_path / "one", data=str(shards), changes=SMALL)
    pretrain(small(), tmp_path / "other", Start(data=shards))
    assert identical(tmp_path / "one", tmp_path / "other")
    unmask.pretrain(
        "tiny-docs", tmp_path / "more", data=shards, base=tmp_path / "one/model",
        changes=[change for change in SMALL if not change.startswith("model")],
    )  # fmt: skip
    assert final_weights(tmp_path / "more").keys() == final_weights(tmp_path / "one").keys()
    for changes in ({"tokenizer.kind": "bpe"}, ["tokenizer.kind=bpe"]):
        with pytest.raises(
            ConfigError, match=r"--set tokenizer.kind=bpe would change nothing, since the shards"
        ):
            unmask.pretrain("tiny-docs", tmp_path / "new", data=shards, changes=changes)
    with pytest.raises(ConfigError, match="name what to train on"):
        unmask.pretrain("tiny-docs", tmp_path / "new")


def test_mistakes_are_told_before_torch_is_loaded(tmp_path: Path) -> None:
    code = """
import sys
import unmask
from unmask.errors import UserError
for given in ({"recipe": "tiny-doc"}, {"text": "a.txt"}, {"base": "nowhere"}, {"changes": ["train.step=5"]}):
    try:
        unmask.pretrain(**{"recipe": "tiny-docs", "out": "run"} | given)
    except UserError as error:
        print(error)
assert "torch" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    told = done.stdout.splitlines()
    assert len(told) == 4
    assert "did you mean tiny-docs?" in told[0]
    assert "train.steps" in told[3]
    assert not list(tmp_path.iterdir())
