"""Every family against the reference: same weights, same inputs, same answers and gradients."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from unmask.config import ModelConfig
from unmask.model.families import FAMILIES, OWN, choose_architecture
from unmask.model.network import Model
from unmask.model.published import read_config, write_config
from unmask.model.weights import assemble, disassemble

MODERN = ("modernbert", "modernbert-decoder")
PUBLISHED = [family for family in FAMILIES if family != OWN]
LABELS = ("azul", "verde", "vermelho")
WITHOUT_SHRINKING = (
    Phase.explicit,
    Phase.reuse,
    Phase.generate,
)  # a failing case is small and slow to shrink
QUICK = settings(deadline=None, max_examples=4, phases=WITHOUT_SHRINKING)
SWEEP = settings(deadline=None, max_examples=40, phases=WITHOUT_SHRINKING)


@st.composite
def configs(draw: st.DrawFn, family: str) -> ModelConfig:
    """Small settings that the family's layout can express."""
    heads = draw(st.integers(1, 3))
    activation = draw(st.sampled_from(["gelu", "gelu_tanh", "relu", "silu"]))
    values: dict[str, Any] = dict(FAMILIES[family].base) | {
        "family": family,
        "vocab_size": draw(st.integers(12, 40)),
        "heads": heads,
        "width": heads * draw(st.sampled_from([4, 8])),
        "layers": draw(st.integers(1, 4)),
        "inner": draw(st.integers(3, 24)),
        "activation": activation,
        "tied": draw(st.booleans()),
        "positions": 20,  # the longest sequence is exactly as long
        "pad_id": draw(st.integers(0, 3)),
        "bos_id": 4,
        "eos_id": 5,
        "labels": LABELS,
        "init_std": 0.3,
    }
    if family in MODERN:
        values |= {key: draw(st.booleans()) for key in ("norm_bias", "attention_bias", "inner_bias")}
        values |= {key: draw(st.booleans()) for key in ("head_bias", "output_bias")}
        if values["layers"] > 1:
            values |= {
                "global_every": draw(st.integers(2, values["layers"])),
                "window": draw(st.integers(1, 6)),
            }
        if family == "modernbert":
            values["pooling"] = draw(st.sampled_from(["first", "mean"]))
    else:
        values["norm_eps"] = 1e-12 if family == "distilbert" else draw(st.sampled_from([1e-12, 1e-5]))
        if family in ("bert", "distilbert"):
            values["head_activation"] = activation
        else:
            values["position_offset"] = values["pad_id"] + 1
        if family != "distilbert":
            values["segments"] = draw(st.integers(1, 2))
        if family == OWN:
            values["qk_norm"] = draw(st.booleans())
    return ModelConfig(**values)


lengths = st.lists(st.integers(1, 20), min_size=1, max_size=4)


class Batch:
    """Random sequences, packed for us and padded for the reference."""

    def __init__(self, config: ModelConfig, lengths: list[int]) -> None:
        total = sum(lengths)
        allowed = torch.tensor([token for token in range(config.vocab_size) if token != config.pad_id])
        self.ids = allowed[torch.randint(len(allowed), (total,))]
        self.positions = torch.cat([torch.arange(length) for length in lengths])
        self.cu_seqlens = torch.tensor([0, *lengths]).cumsum(0).int()
        self.segments = torch.randint(config.segments, (total,)) if config.segments else None
        self.packed = (self.ids, self.positions, self.cu_seqlens, max(lengths), self.segments)
        self.mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        self.padded = {"input_ids": self.grid(self.ids, config.pad_id), "attention_mask": self.mask.long()}
        if self.segments is not None:
            self.padded["token_type_ids"] = self.grid(self.segments, 0)

    def grid(self, rows: Tensor, fill: int) -> Tensor:
        grid = rows.new_full((*self.mask.shape, *rows.shape[1:]), fill)
        grid[self.mask] = rows
        return grid


def answers(reference: Any, batch: Batch, pick: Callable[[Any], Tensor]) -> list[Tensor]:
    """What the reference says of each sequence, padding cut off: of the batch at once, or one by one
    where windows are narrow, since there its answers are not numbers for padding that sees nothing."""
    lengths = batch.mask.sum(1).tolist()
    if reference.config.model_type in MODERN:
        rows = [
            pick(reference(**{name: x[row : row + 1, :length] for name, x in batch.padded.items()}))[0]
            for row, length in enumerate(lengths)
        ]
    else:
        rows = list(pick(reference(**batch.padded)))
    return [row if row.ndim == 1 else row[..., :length, :] for row, length in zip(rows, lengths, strict=True)]


def random_model(config: ModelConfig, heads: list[str], dtype: torch.dtype) -> Model:
    """A model none of whose weights is trivial."""
    model = Model(config, heads).to(dtype).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data += torch.randn_like(parameter) * 0.3
    return model


def reference_of(model: Model) -> transformers.PreTrainedModel:
    """The reference model with our weights, written in its names."""
    architecture, tensors, _ = disassemble(model)
    values = write_config(model.config, architecture)
    config = transformers.CONFIG_MAPPING[model.config.family](**values, attn_implementation="eager")
    reference = getattr(transformers, architecture)(config).to(tensors[next(iter(tensors))].dtype)
    missing, unexpected = reference.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert all("decoder" in name or "vocab_projector" in name or "pooler" in name for name in missing)
    assert model.config.tied or not any(name.endswith("decoder.weight") for name in missing)
    return reference.eval()


def gradients(model: Model) -> dict[str, Tensor]:
    """Our gradients in the reference's names."""
    holder = copy.deepcopy(model)
    for ours, parameter in zip(model.parameters(), holder.parameters(), strict=True):
        parameter.data = torch.zeros_like(parameter) if ours.grad is None else ours.grad
    return disassemble(holder)[1]


def tolerance(config: ModelConfig, dtype: torch.dtype) -> dict[str, float]:
    """The reference rotates in float32 whatever the model's precision."""
    exact = dtype == torch.float64 and config.position == "learned"
    return {"rtol": 1e-9, "atol": 1e-9} if exact else {"rtol": 1e-4, "atol": 1e-5}


def check_hidden_states(config: ModelConfig, lengths: list[int], dtype: torch.dtype) -> None:
    torch.manual_seed(sum(lengths))
    model = random_model(config, [], dtype)
    batch = Batch(config, lengths)
    reference = reference_of(model)
    reference.config.output_hidden_states = reference.config.output_attentions = True
    trace = model.encoder.trace(*batch.packed, attention=True)
    near = tolerance(config, dtype)
    assert len(trace.hidden) == config.layers + 1
    for layer, ours in enumerate(trace.hidden):
        theirs = answers(reference, batch, lambda out, layer=layer: out.hidden_states[layer])
        torch.testing.assert_close(ours, torch.cat(theirs), **near)
    assert trace.attention is not None
    for layer, by_sequence in enumerate(trace.attention):
        theirs = answers(reference, batch, lambda out, layer=layer: out.attentions[layer])
        for ours, expected in zip(by_sequence, theirs, strict=True):
            torch.testing.assert_close(ours, expected[..., : expected.shape[-2]], **near)
    torch.testing.assert_close(model.encoder(*batch.packed), trace.hidden[-1], **near)


def check_mlm(config: ModelConfig, lengths: list[int], dtype: torch.dtype) -> None:
    """Logits, loss and gradients of the language-model head, on chosen positions alone."""
    torch.manual_seed(sum(lengths))
    model = random_model(config, ["mlm"], dtype)
    reference = reference_of(model)
    batch = Batch(config, lengths)
    chosen = torch.rand(len(batch.ids)) < 0.5
    chosen[0] = True
    targets = torch.randint(config.vocab_size, (int(chosen.sum()),))
    near = tolerance(config, dtype)

    ours = model.mlm(model.encoder(*batch.packed)[chosen])
    theirs = torch.cat(answers(reference, batch, lambda out: out.logits))[chosen]
    torch.testing.assert_close(ours, theirs, **near)
    loss, their_loss = F.cross_entropy(ours, targets), F.cross_entropy(theirs, targets)
    torch.testing.assert_close(loss, their_loss, **near)
    loss.backward()
    their_loss.backward()
    found = gradients(model)
    expected = dict(reference.named_parameters(remove_duplicate=False))
    assert set(found) <= set(expected)
    for name in found:
        gradient = expected[name].grad
        if gradient is None:  # a copy that the reference keeps beside the bias it uses
            assert name in ("cls.predictions.bias", "lm_head.bias")
            assert not config.tied
            continue
        torch.testing.assert_close(
            found[name], gradient, **near, msg=lambda text, name=name: f"{name}: {text}"
        )


def check_task_heads(config: ModelConfig, lengths: list[int]) -> None:
    torch.manual_seed(sum(lengths))
    batch = Batch(config, lengths)
    held = set().union(*(heads for _, heads in FAMILIES[config.family].architectures))
    for head in [name for name in ("classify", "tag", "nsp", "answer") if name in held]:
        if head == "answer":
            config = config.model_copy(update={"labels": ()})
        model = random_model(config, [head], torch.float64)
        hidden = model.encoder(*batch.packed)
        if head in ("classify", "nsp"):
            theirs = torch.stack(answers(reference_of(model), batch, lambda out: out.logits))
            starts = batch.cu_seqlens
            ours = model.classify(hidden, starts) if head == "classify" else model.pair(hidden[starts[:-1]])
        elif head == "tag":
            theirs = torch.cat(answers(reference_of(model), batch, lambda out: out.logits))
            ours = model.tag(hidden)
        else:
            both = lambda out: torch.stack((out.start_logits, out.end_logits), -1)  # noqa: E731
            theirs = torch.cat(answers(reference_of(model), batch, both))
            ours = model.answer(hidden)
        torch.testing.assert_close(ours, theirs, **tolerance(config, torch.float64))


def check_weights_from_reference(config: ModelConfig) -> None:
    """The reference's own new weights arrive here, and leave again unchanged."""
    architecture, held = choose_architecture(config, ["mlm"])
    values = write_config(config, architecture)
    reference = getattr(transformers, architecture)(transformers.CONFIG_MAPPING[config.family](**values))
    state = reference.state_dict()
    model, report = assemble(read_config(reference.config.to_dict()), values, state, {})
    assert not report, str(report)
    assert set(model.heads) == held
    for name, tensor in disassemble(model)[1].items():
        assert torch.equal(tensor, state[name]), name


@pytest.mark.parametrize("family", PUBLISHED)
def test_family_agrees_with_the_reference(family: str) -> None:
    @QUICK
    @given(configs(family), lengths)
    def check(config: ModelConfig, lengths: list[int]) -> None:
        check_hidden_states(config, lengths, torch.float64)
        check_mlm(config, lengths, torch.float64)
        check_weights_from_reference(config)

    check()


@pytest.mark.parametrize("family", PUBLISHED)
def test_task_heads_agree_with_the_reference(family: str) -> None:
    @QUICK
    @given(configs(family), lengths)
    def check(config: ModelConfig, lengths: list[int]) -> None:
        check_task_heads(config, lengths)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", PUBLISHED)
def test_many_configs_agree_with_the_reference(family: str, dtype: torch.dtype) -> None:
    @SWEEP
    @given(configs(family), lengths)
    def check(config: ModelConfig, lengths: list[int]) -> None:
        check_hidden_states(config, lengths, dtype)
        check_mlm(config, lengths, dtype)
        check_task_heads(config, lengths)
        check_weights_from_reference(config)

    check()


@pytest.mark.parametrize("family", PUBLISHED)
def test_a_silent_config_means_what_the_reference_means(family: str) -> None:
    theirs = transformers.CONFIG_MAPPING[family]().to_dict()
    ours = read_config({"model_type": family})
    named = read_config({key: value for key, value in theirs.items() if key not in ("id2label", "label2id")})
    assert ours == named


@pytest.mark.parametrize(
    ("family", "around"),
    [("modernbert", 3), *((family, around) for family in MODERN for around in (4, 5, 7))],
)
def test_windows_of_published_configs(family: str, around: int) -> None:
    """`local_attention` counts both sides, may be odd, and the causal family reads it differently."""
    torch.manual_seed(around)
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 12}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    config = transformers.CONFIG_MAPPING[family](
        **sizes, **tokens, num_hidden_layers=3, local_attention=around, attn_implementation="eager"
    )
    name = choose_architecture(read_config(config.to_dict()), ["mlm"])[0]
    reference = getattr(transformers, name)(config).eval()
    for parameter in reference.parameters():
        parameter.data = torch.randn_like(parameter) * 0.3
    values = config.to_dict() | {"architectures": [name]}
    model, report = assemble(read_config(values), values, reference.state_dict(), {})
    assert not report
    batch = Batch(model.config, [17, 2])
    theirs = torch.cat(answers(reference, batch, lambda out: out.logits))
    torch.testing.assert_close(model.mlm(model.encoder(*batch.packed)), theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_settings_survive_the_layout(family: str) -> None:
    @settings(deadline=None, max_examples=20)
    @given(configs(family))
    def check(config: ModelConfig) -> None:
        assert read_config(write_config(config, FAMILIES[family].stem + "Model")) == config

    check()
