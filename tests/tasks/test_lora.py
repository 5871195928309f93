"""Low-rank adapters: merged they say the same, and nothing else has learnt."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tasks.conftest import reviews

import unmask
from unmask.checkpoint import load_model
from unmask.config import ModelConfig
from unmask.errors import ConfigError
from unmask.model.network import Model
from unmask.predict import Classifier
from unmask.sections import load_settings
from unmask.tasks.finetune import finetune
from unmask.tasks.lora import Adapter, adapt, merge
from unmask.tasks.settings import EmbedConfig, FinetuneConfig


def states(model: Model) -> torch.Tensor:
    ids = torch.arange(12)
    starts = torch.tensor([0, 5, 12], dtype=torch.int32)
    return model.encoder(ids, ids, starts, 7)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("matrices", "count"), [("attention", 4), ("all", 8)])
def test_merged_equals_unmerged(base: Path, matrices: str, count: int) -> None:
    model, _ = load_model(base, torch.float64, heads=[])
    before = states(model)
    names = [name for name, _ in model.named_parameters()]
    adapt(model, 3, 16.0, matrices)  # type: ignore[arg-type]
    adapters = [module for module in model.modules() if isinstance(module, Adapter)]
    assert len(adapters) == count
    assert torch.equal(states(model), before)  # B is zero
    with torch.no_grad():
        for adapter in adapters:
            adapter.b.normal_(std=0.02)
    unmerged = states(model)
    assert (unmerged - before).abs().max() > 1e-2
    merge(model)
    assert [name for name, _ in model.named_parameters()] == names
    torch.testing.assert_close(states(model), unmerged, atol=1e-12, rtol=0)


def test_only_adapters_and_the_head_learn(base: Path) -> None:
    model, _ = load_model(base, heads=["tag"], changes={"labels": ("O", "B-X")})
    adapt(model, 2, 4.0)
    model.tag(states(model)).sum().backward()  # type: ignore[no-untyped-call]
    learning = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert learning
    assert all(name.startswith("heads.") or name.endswith((".a", ".b")) for name in learning)


def test_a_folder_made_with_adapters_is_an_ordinary_one(tmp_path: Path, base: Path) -> None:
    settings = FinetuneConfig(lora=4, lr=5e-3, epochs=15, batch=16, patience=0, precision="fp32")
    result = finetune("classify", base, reviews(), out=tmp_path / "out", settings=settings)
    assert result.scores["accuracy"] == 1.0
    model = unmask.load(tmp_path / "out")
    assert isinstance(model, Classifier)
    assert not model.report
    assert model("a sopa awful ontem")[0].name == "bad"  # type: ignore[union-attr]
    assert "LoRA of rank 4" in (tmp_path / "out/README.md").read_text("utf-8")
    before, after = (load_model(folder)[0].encoder.state_dict() for folder in (base, tmp_path / "out"))
    assert set(after) == set(before)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert len(changed) == 8
    for name in changed:
        assert torch.linalg.matrix_rank(after[name] - before[name], rtol=1e-3) <= 4


def test_the_rate_follows_unless_said() -> None:
    def rate(*changes: str, **model: Any) -> float | None:
        return load_settings(FinetuneConfig, list(changes)).suited(ModelConfig(**model)).lr

    before, after = ({"heads": 4, "norm": norm} for norm in ("before", "after"))
    assert rate(width=768, **before) == rate(width=768, **after) == 5e-5
    assert rate(width=384, **after) == pytest.approx(1e-4)
    assert rate(width=256, **before) == pytest.approx(4.5e-4)
    assert rate(width=64, **before) == 1e-3
    assert rate("lr=2e-4", width=256, **before) == rate("lora=8", "lr=2e-4", **after) == 2e-4
    assert rate("lora=8", width=256, **after) == 1e-3
    assert EmbedConfig().suited(ModelConfig(width=256, **before)).lr == pytest.approx(2.7e-4)
    assert EmbedConfig(lr=1e-5).suited(ModelConfig(width=256, **before)).lr == 1e-5
    with pytest.raises(ConfigError, match="lr"):
        load_settings(FinetuneConfig, ["lr=inf"])


def test_what_excludes_adapters() -> None:
    with pytest.raises(ConfigError, match="lora and muon exclude each other"):
        load_settings(FinetuneConfig, ["lora=4", "optimiser=muon"])
    with pytest.raises(ConfigError, match="lora and layers exclude each other"):
        load_settings(FinetuneConfig, ["lora=8", "layers=2"])
