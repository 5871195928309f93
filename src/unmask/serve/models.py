"""The models that are served: loaded once, known by name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unmask.errors import ModelError
from unmask.model.network import Model
from unmask.predict import Answerer, Classifier, MaskedLM, Tagger, load
from unmask.predict.onnx import OnnxModel
from unmask.predict.predictor import Predictor

FILL, TEXT, TOKEN, ANSWER, EMBED = (
    "fill-mask", "text-classification", "token-classification", "question-answering", "feature-extraction",
)  # fmt: skip
SIMILARITY = "sentence-similarity"
"""Any model that makes vectors does it."""
_HEADS = {Classifier: TEXT, Tagger: TOKEN, Answerer: ANSWER}
_APART = 1e-4
_SAMPLE = "The river rose, and the old bridge was closed for the night."
_COMPANIONS = ["a", "0 1 2 3 4 5 6 7 8 9", "Why? Because it rained; everyone (or nearly everyone) stayed in."]


class Served:
    """A loaded model and its name."""

    def __init__(self, name: str, predictor: Predictor) -> None:
        self.name, self.predictor = name, predictor
        self.refuses_long = isinstance(predictor, Classifier) and predictor.settings.long is None
        if isinstance(predictor, Classifier) and self.refuses_long:
            # The server refuses them itself, unless they may be cut off.
            predictor.settings = replace(predictor.settings, long="head")
        self.onnx = isinstance(predictor.model, OnnxModel)
        self.tasks = _tasks(predictor)
        # A folder that says how sentences become vectors was made for that.
        self.task = EMBED if predictor.sentence.max_length else self.tasks[0]

    def facts(self) -> dict[str, Any]:
        """What a client may want to know before it asks."""
        config = self.predictor.config
        return {
            "name": self.name,
            "task": self.task,
            "tasks": list(self.tasks),
            "family": config.family,
            "layers": config.layers,
            "heads": config.heads,
            "width": config.width,
            "max_length": self.max_length,
            "vocab_size": self.predictor.tokenizer.vocab_size,
            "mask_token": self.predictor.tokenizer.mask_token,
            "labels": list(config.labels) or None,
            "pairs": self.pairs,
            "onnx": self.onnx,
        }

    @property
    def pairs(self) -> bool | None:
        """Whether it was taught to judge pairs of texts; None where its folder does not say."""
        if not isinstance(self.predictor, Classifier):
            return False
        return True if self.predictor.settings.name == "pair" else None

    @property
    def dtype(self) -> str:
        """In what numbers it computes."""
        model = self.predictor.model
        return "onnx" if isinstance(model, OnnxModel) else str(next(model.parameters()).dtype)[6:]

    @property
    def max_length(self) -> int:
        """Tokens of the longest text in its own task."""
        limit = self.predictor.sentence.max_length if self.task == EMBED else None
        return min(limit or self.longest, self.longest)

    @property
    def longest(self) -> int:
        """Tokens of the longest text it reads at once."""
        return self.predictor.inputs.limit


def _tasks(predictor: Predictor) -> tuple[str, ...]:
    """What a model can do, its own task first."""
    for kind, task in _HEADS.items():
        if isinstance(predictor, kind):
            return task, EMBED
    network = predictor.model
    fills = isinstance(network, Model) and "mlm" in network.heads and not predictor.config.causal
    return (FILL, EMBED) if fills else (EMBED,)


def can_score(served: Served) -> bool:
    """Whether it says how likely a text is."""
    network = served.predictor.model
    return isinstance(served.predictor, MaskedLM) and isinstance(network, Model) and "mlm" in network.heads


def load_models(folders: Mapping[str, str], device: str = "auto", dtype: str = "auto") -> list[Served]:
    """Load each folder, and have it compute once, so that the first request is as fast as any."""
    models = [Served(name, load(folder, device, dtype)) for name, folder in folders.items()]
    for served in models:
        check_companions(served)
    return models


def check_companions(served: Served) -> None:
    """An error if a text's vector depends on its batch: graphs with one scale over a whole batch do that."""
    alone = served.predictor.embed(_SAMPLE, truncate=True)
    beside = served.predictor.embed([_SAMPLE, *_COMPANIONS], truncate=True)[0]
    apart = float(np.abs(alone - beside).max() / max(np.abs(alone).max(), 1e-12))
    half = str(served.predictor.device) != "cpu"  # of half precision no more can be asked
    if apart > (100 * _APART if half else _APART) or not np.isfinite(apart):
        raise ModelError(
            f"{served.name}: a text's vector depends on the texts beside it (off by {apart:.1g}), as it does "
            "where eight-bit inputs share one scale: convert again with `unmask convert --to onnx --int8`"
        )
