"""Presets have the published sizes, counted without memory on the meta device."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from unmask.errors import ConfigError
from unmask.model.families import FAMILIES
from unmask.model.network import Model
from unmask.model.presets import PRESETS, preset
from unmask.model.published import read_config, write_config

PUBLISHED = {  # parameters of the published encoders, with the pooler where the family has one
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "bert-base": 109_482_240,
    "bert-base-cased": 108_310_272,
    "bert-large": 335_141_888,
    "bert-large-cased": 333_579_264,
    "spanbert-base": 108_310_272,
    "distilbert": 66_362_880,
    "roberta-base": 124_645_632,
    "roberta-large": 355_359_744,
    "xlmr-base": 278_043_648,
    "xlmr-large": 559_890_432,
    "modernbert-base": 149_014_272,
    "modernbert-large": 394_781_696,
}


@pytest.mark.parametrize("name", PRESETS)
def test_parameters(name: str) -> None:
    config = PRESETS[name]
    poolers = ["pooler"] if "pooler" in FAMILIES[config.family].heads else []
    with torch.device("meta"):
        count = sum(p.numel() for p in Model(config, poolers).parameters())
    if name in PUBLISHED:
        assert count == PUBLISHED[name]
    elif name.endswith("m"):  # named by their millions
        assert round(count / 1e6) == int(name.rpartition("-")[2][:-1])
    else:
        assert count == PUBLISHED["modernbert-base"]  # the causal twin of that size


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_written_in_their_layout(name: str) -> None:
    config = PRESETS[name]
    assert read_config(write_config(config, FAMILIES[config.family].stem + "Model")) == config


def test_what_lies_about_is_no_preset(tmp_path: Path) -> None:
    (tmp_path / "bert-base").mkdir()
    code = "from unmask.model.presets import preset; print(preset('bert-base').layers)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "12\n"


def test_changes_and_unknown_names() -> None:
    assert preset("tiny", vocab_size=99).vocab_size == 99
    with pytest.raises(ConfigError, match="there is no preset huge; those we have: tiny, mini"):
        preset("huge")
    for changes, says in (
        ({"colour": 3}, "preset tiny: there is no colour"),
        ({"heads": 3}, "preset tiny: "),
    ):
        with pytest.raises(ConfigError, match=says) as caught:
            preset("tiny", **changes)
        assert "\n" not in str(caught.value)
