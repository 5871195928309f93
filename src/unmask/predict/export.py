"""A network as an ONNX graph, in float32 or with eight-bit matrix products.

B × L a grid of tokens padded on the right · T = B · L · D width
"""

import logging
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unmask.errors import ModelError
from unmask.files import atomic_path
from unmask.model.network import Model

HIDDEN = "last_hidden_state"
_LARGEST = (1 << 31) - (1 << 24)
"""Bytes of the weights in one ONNX file, which holds 2 GiB at most; more lie in a file beside it."""
_ZERO = 128
"""Zero point of the unsigned inputs, as in `quantise`."""


class _Graph(nn.Module):
    """Hidden states of a padded grid, then the scores of the model's head if it has one."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.head = exported_head(model)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        hidden = self.model.encoder.padded(input_ids, attention_mask, token_type_ids)
        if self.head is None:
            return (hidden,)
        if self.head == "classify":
            return hidden, self._classify(hidden, attention_mask)
        return hidden, getattr(self.model, self.head)(hidden)

    def _classify(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Scores (B, C) as `Model.classify` gives them, without reading the padding."""
        config = self.model.config
        if config.classifier == "pooler":
            rows = self.model.pooled(hidden[:, 0])
        elif config.pooling == "first":
            rows = hidden[:, 0]
        else:
            seen = mask.to(hidden.dtype)[:, :, None]  # (B, L, 1)
            if config.pooling == "last":
                place = torch.arange(mask.shape[1], device=mask.device)
                seen = seen * (place == mask.sum(1, keepdim=True) - 1)[:, :, None]
            rows = (hidden * seen).sum(1) / seen.sum(1)
        out: Tensor = self.model.heads["classify"](rows)
        return out


def exported_head(model: Model) -> str | None:
    """The head whose scores are the graph's second output."""
    return next((head for head in ("classify", "tag", "answer", "mlm") if head in model.heads), None)


def input_names(model: Model) -> list[str]:
    """What the graph is fed with."""
    return ["input_ids", "attention_mask", *(["token_type_ids"] if model.config.segments > 1 else [])]


def write_onnx(model: Model, file: Path, int8: bool = False) -> None:
    """Write a graph whose batch and length are free; with `int8`, its matrix products in eight bits."""
    _import_onnx()
    graph = _Graph(model).eval()
    names = input_names(model)
    length = min(7, model.config.positions)
    # One tensor each: the exporter would take a shared one for a single input.
    examples = tuple(torch.ones(2, length, dtype=torch.int64) for _ in names)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=model.config.positions)}
    quiet = logging.getLogger("torch.onnx")
    before = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                graph,
                examples,
                input_names=names,
                output_names=[HIDDEN] if graph.head is None else [HIDDEN, "logits"],
                dynamic_shapes=(axes,) * len(names),
                dynamo=True,
                verbose=False,
            )
    finally:
        quiet.setLevel(before)
    assert program is not None
    proto = program.model_proto
    if int8:
        quantise_graph(proto)
    save_graph(proto, file)


def save_graph(proto: Any, file: Path) -> None:
    """Write a graph; weights that are too many for one file go to `FILE.data` beside it."""
    data = file.with_name(f"{file.name}.data")
    with atomic_path(file) as unfinished:
        data.unlink(missing_ok=True)
        # At most four bytes a number; protobuf cannot tell the size of what is too large for it.
        beside = sum(4 * math.prod(tensor.dims) for tensor in proto.graph.initializer) > _LARGEST
        _import_onnx().save_model(proto, str(unfinished), save_as_external_data=beside, location=data.name)


def quantise_graph(proto: Any) -> None:
    """Replace the products with constant matrices: one scale per output channel and one per token.

    onnxruntime's own dynamic quantisation measures one scale over the whole batch, so that a text's vector
    would depend on the texts beside it.
    """
    onnx = _import_onnx()
    graph = proto.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    constants: dict[str, np.ndarray] = {
        "int8.axis": np.array([1]),
        "int8.least": np.array(1e-12, np.float32),
        "int8.step": np.array(1 / 127, np.float32),
        "int8.zero": np.array(_ZERO, np.uint8),
    }
    nodes: list[Any] = []
    rounded: set[str] = set()
    for node in graph.node:
        if node.op_type != "Gemm" or node.input[1] not in weights:
            nodes.append(node)
            continue
        x, weight, out = node.input[0], onnx.numpy_helper.to_array(weights[node.input[1]]), node.output[0]
        if any(attribute.name == "transB" and attribute.i for attribute in node.attribute):
            weight = weight.T  # (in, out)
        scales = np.maximum(np.abs(weight).max(0), 1e-12) / 127
        constants |= {
            f"{out}.weight": np.round(weight / scales).astype(np.int8),
            f"{out}.scales": scales.astype(np.float32),
        }
        if x not in rounded:
            rounded.add(x)
            nodes += _round_rows(x, onnx.helper)
        nodes += _product(x, out, node.input[2] if len(node.input) > 2 else None, onnx.helper)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    kept += [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    for field, values in ((graph.node, nodes), (graph.initializer, kept), (graph.value_info, [])):
        del field[:]
        field.extend(values)


def _round_rows(x: str, helper: Any) -> list[Any]:
    """Nodes that measure each row of `x` and round it to eight bits."""
    zeros = helper.make_tensor("value", 2, [1], [_ZERO])  # 2 is uint8
    return [
        helper.make_node("ReduceMax", [x, "int8.axis"], [f"{x}.high"], keepdims=1),
        helper.make_node("ReduceMin", [x, "int8.axis"], [f"{x}.low"], keepdims=1),
        helper.make_node("Neg", [f"{x}.low"], [f"{x}.depth"]),
        helper.make_node("Max", [f"{x}.high", f"{x}.depth", "int8.least"], [f"{x}.largest"]),
        helper.make_node("Mul", [f"{x}.largest", "int8.step"], [f"{x}.column"]),
        helper.make_node("Squeeze", [f"{x}.column", "int8.axis"], [f"{x}.scales"]),
        helper.make_node("Shape", [f"{x}.scales"], [f"{x}.count"]),
        helper.make_node("ConstantOfShape", [f"{x}.count"], [f"{x}.zeros"], value=zeros),
        helper.make_node("QuantizeLinear", [x, f"{x}.scales", f"{x}.zeros"], [f"{x}.rounded"], axis=0),
    ]


def _product(x: str, out: str, bias: str | None, helper: Any) -> list[Any]:
    """Nodes that multiply rounded rows with a rounded matrix, and scale the result."""
    inputs = [f"{x}.rounded", f"{out}.weight", "int8.zero"]
    nodes = [
        helper.make_node("MatMulInteger", inputs, [f"{out}.sums"]),
        helper.make_node("Cast", [f"{out}.sums"], [f"{out}.floats"], to=1),  # 1 is float32
        helper.make_node("Mul", [f"{out}.floats", f"{out}.scales"], [f"{out}.channels"]),
        helper.make_node("Mul", [f"{out}.channels", f"{x}.column"], [f"{out}.product" if bias else out]),
    ]
    return nodes + ([helper.make_node("Add", [f"{out}.product", bias], [out])] if bias else [])


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ImportError:
        raise ModelError("writing ONNX needs onnx and onnxscript: pip install 'unmask[onnx]'") from None
    return onnx
