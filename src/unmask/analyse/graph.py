"""A graph over vectors (HNSW, by usearch): what lies near a query is found by comparing few of them."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.errors import ConfigError, InputError
from unmask.files import atomic_path

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def make_graph(path: Path, width: int, blocks: Iterable[tuple[int, Floats]]) -> None:
    """Write the graph of blocks of vectors, each with the number of its first row; of equal ones the first.

    Hundreds of equal vectors, as of empty lines, would be each other's only neighbours, and a search that
    comes among them does not get out.
    """
    graph = _usearch().Index(ndim=width, metric="ip", dtype="f16")
    seen: set[int] = set()
    for first, vectors in blocks:
        new = []
        for row, vector in enumerate(vectors.astype(np.float16)):
            mark = hash(vector.tobytes())
            if mark not in seen:
                seen.add(mark)
                new.append(row)
        if new:
            graph.add(np.array(new) + first, vectors[new])
    with atomic_path(path) as temporary:
        graph.save(str(temporary))


def search_graph(path: Path, wanted: Floats, count: int) -> list[Ints]:
    """So many rows near each query, or all where there are fewer."""
    try:
        graph = _usearch().Index.restore(str(path), view=True)  # mapped into memory
    except (ValueError, RuntimeError):
        raise InputError(f"{path} is damaged: remove it and run the same command again") from None
    # One by one: of several queries each is filled up with row 0 where fewer are found.
    return [graph.search(query, min(count, len(graph))).keys.astype(np.int64) for query in wanted]


def _usearch() -> Any:
    try:
        return import_module("usearch.index")
    except ImportError as error:
        raise ConfigError("usearch is not installed: pip install 'unmask[analyse]'") from error
