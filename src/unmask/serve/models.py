"""The models that are served: loaded once, known by name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unmask.errors import ConfigError, ModelError
from unmask.model.network import Model
from unmask.predict import Answerer, Classifier, MaskedLM, Tagger, load
from unmask.predict.folders import card_language
from unmask.predict.onnx import OnnxModel
from unmask.predict.predictor import Level, Predictor
from unmask.predict.standardise import Standardiser

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

    def __init__(self, name: str, predictor: Predictor, standardisers: Sequence[Standardiser] = ()) -> None:
        self.name, self.predictor = name, predictor
        self._standardisers = _placed(name, predictor, standardisers)
        self.refuses_long = isinstance(predictor, Classifier) and predictor.settings.long is None
        if isinstance(predictor, Classifier) and self.refuses_long:
            # The server refuses them itself, unless they may be cut off.
            predictor.settings = replace(predictor.settings, long="head")
        self.onnx = isinstance(predictor.model, OnnxModel)
        self.tasks = _tasks(predictor)
        # A folder that says how sentences become vectors was made for that.
        self.task = EMBED if predictor.sentence.max_length else self.tasks[0]

    def standardiser(self, level: Level, layer: int = -1) -> Standardiser | None:
        """What the vectors of a level at a layer go through before they are sent or compared."""
        return self._standardisers.get((level, _counted(layer, self.predictor.config.layers)))

    def facts(self) -> dict[str, Any]:
        """What a client may want to know before it asks."""
        config, folder = self.predictor.config, self.predictor.folder
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
            "standardised": self.standardised,
            "language": folder and card_language(folder),
        }

    @property
    def standardised(self) -> list[dict[str, Any]]:
        """Which vectors are standardised, and how."""
        return [
            {"level": level, "layer": layer, "method": fitted.method}
            for (level, layer), fitted in self._standardisers.items()
        ]

    @property
    def pairs(self) -> bool | None:
        """Whether it judges pairs of texts, or single ones; None where its folder does not say."""
        return self.predictor.settings.wants_pairs if isinstance(self.predictor, Classifier) else False

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


def _placed(
    name: str, predictor: Predictor, standardisers: Sequence[Standardiser]
) -> dict[tuple[Level, int], Standardiser]:
    """Standardisers by the level and layer that they say they are for, by default sentences at the last."""
    found: dict[tuple[Level, int], Standardiser] = {}
    depth, width = predictor.config.layers, predictor.config.width
    places: dict[tuple[str, str], tuple[Level, int]] = {
        ("sentence", str(depth)): ("sentence", depth),
        ("token", str(depth)): ("token", depth),
        **{("word", str(layer)): ("word", layer) for layer in range(depth + 1)},
    }
    for fitted in standardisers:
        if len(fitted.mean) != width:
            raise ModelError(
                f"{name}: the standardiser is for vectors of width {len(fitted.mean)}, those of the model are"
                f" {width} wide: fit one for it (unmask embed --fit-standardise)"
            )
        level, layer = fitted.about.get("level", "sentence"), fitted.about.get("layer", str(depth))
        place = places.get((level, layer))
        if place is None:
            raise ConfigError(
                f"{name}: a server standardises sentences and tokens at the last layer ({depth}) and words at"
                f" any one, not level {level} at layer {layer}: fit another (unmask embed --fit-standardise)"
            )
        pool = predictor.sentence.pool if level == "sentence" else "mean"
        try:
            fitted.check(predictor.about(*place, pool))
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from None
        if place in found:
            raise ConfigError(f"{name}: two standardisers are for level {level} at layer {layer}: give one")
        found[place] = fitted
    return found


def _counted(layer: int, depth: int) -> int:
    """The number of a layer, which may be counted from the end."""
    return layer if layer >= 0 else depth + 1 + layer


def can_score(served: Served) -> bool:
    """Whether it says how likely a text is."""
    network = served.predictor.model
    return isinstance(served.predictor, MaskedLM) and isinstance(network, Model) and "mlm" in network.heads


def load_models(
    folders: Mapping[str, str],
    device: str = "auto",
    dtype: str = "auto",
    standardisers: Mapping[str, Sequence[Standardiser]] | None = None,
) -> list[Served]:
    """Load each folder, and have it compute once, so that the first request is as fast as any."""
    fitted = standardisers or {}
    models = [
        Served(name, load(folder, device, dtype), fitted.get(name, ())) for name, folder in folders.items()
    ]
    for served in models:
        check_companions(served)
    return models


def check_companions(served: Served) -> None:
    """An error if a text's vector depends on its batch.

    Graphs with one scale over a whole batch do that.
    """
    alone = served.predictor.embed(_SAMPLE, truncate=True)
    beside = served.predictor.embed([_SAMPLE, *_COMPANIONS], truncate=True)[0]
    apart = float(np.abs(alone - beside).max() / max(np.abs(alone).max(), 1e-12))
    half = str(served.predictor.device) != "cpu"  # of half precision no more can be asked
    if apart > (100 * _APART if half else _APART):
        raise ModelError(
            f"{served.name}: a text's vector depends on the texts beside it (off by {apart:.1g}), as it does "
            "where eight-bit inputs share one scale: convert again with `unmask convert --to onnx --int8`"
        )
