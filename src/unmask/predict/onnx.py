"""A model that was converted to ONNX, run by onnxruntime in the encoder's place.

T tokens of all sequences · S sequences · L longest of them · D width
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.config import ModelConfig
from unmask.errors import ModelError


class OnnxEncoder:
    """Packed token ids to one vector per token, as `Encoder` does it; on the CPU."""

    device = torch.device("cpu")

    def __init__(self, file: Path) -> None:
        runtime = import_onnxruntime()
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        try:
            self.session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has one exception class per status code
            line = str(error).splitlines()[0]
            raise ModelError(f"{file} is damaged or no ONNX model: convert it again ({line})") from None
        self.names = {value.name for value in self.session.get_inputs()}

    def __call__(
        self,
        ids: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int,
        segments: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (T, D): a padded grid is made for onnxruntime and taken apart again."""
        return self.run("last_hidden_state", ids, positions, cu_seqlens, max_seqlen, segments)

    def run(
        self,
        output: str,
        ids: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int,
        segments: Tensor | None = None,
    ) -> Tensor:
        """An output of the graph: its rows of the packed tokens, or one row per sequence as it is."""
        rows = torch.repeat_interleave(cu_seqlens.diff())
        shape = (len(cu_seqlens) - 1, max_seqlen)
        feed = {name: np.zeros(shape, np.int64) for name in self.names}
        feed["input_ids"][rows, positions] = ids.numpy()
        feed["attention_mask"][rows, positions] = 1
        if segments is not None and "token_type_ids" in feed:
            feed["token_type_ids"][rows, positions] = segments.numpy()
        found = torch.from_numpy(self.session.run([output], feed)[0])  # (S, L, …) or (S, …)
        return found if found.ndim == 2 else found[rows, positions]


class OnnxModel:
    """Stands where a `Model` stands, with an encoder and no heads."""

    heads: tuple[str, ...] = ()

    def __init__(self, config: ModelConfig, file: Path) -> None:
        self.config, self.encoder = config, OnnxEncoder(file)


def import_onnxruntime() -> Any:
    """onnxruntime, or a line that says how to get it."""
    try:
        import onnxruntime
    except ImportError:
        raise ModelError("ONNX needs onnxruntime: pip install 'unmask[onnx]'") from None
    return onnxruntime
