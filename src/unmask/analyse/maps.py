"""Many dimensions to two, for the eye."""

from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unmask.errors import ConfigError

Floats = NDArray[np.float64]
Kind = Literal["pca", "tsne", "umap"]
_FEW = 5
"""So few points are drawn along their principal components, whatever is asked for."""


def flatten(points: Floats, kind: Kind = "pca", seed: int = 0) -> Floats:
    """Points (N, d), the widest direction first, as (N, 2); t-SNE and UMAP keep neighbours together."""
    if kind not in ("pca", "tsne", "umap"):
        raise ConfigError(f"there is no map {kind!r}; those we have: pca, tsne, umap")
    if kind == "pca" or len(points) < _FEW:
        return np.pad(points, ((0, 0), (0, max(0, 2 - points.shape[1]))))[:, :2]
    if kind == "tsne":
        from sklearn.manifold import TSNE

        near = min(30.0, (len(points) - 1) / 3)
        made = TSNE(2, perplexity=near, init="random", random_state=seed).fit_transform(points)
    else:
        made = _umap(points, seed)
    flat: Floats = np.asarray(made, np.float64)
    return flat


def _umap(points: Floats, seed: int) -> Any:
    try:
        umap = import_module("umap")
    except ImportError:
        raise ConfigError(
            "umap is not installed: pip install 'unmask[analyse]', or take --map tsne"
        ) from None
    near = min(15, len(points) - 1)
    return umap.UMAP(n_neighbors=near, init="random", random_state=seed, n_jobs=1).fit_transform(points)
