"""Parts -> one file of vectors, part after part: memory does not grow with their number.

.npy           sentences alone: (N, D), or (N, L + 1, D) of all layers
.safetensors   vectors (R, …); of words and tokens also spans (R, 2) in characters, and offsets (N + 1):
               rows offsets[n] to offsets[n + 1] are those of text n
.parquet       number of the text, text | word, start, end | token, start, end; vector, or vector_0 …
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from unmask.files import atomic_path
from unmask.predict.parts import Part
from unmask.progress import Stage

_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8")}


@dataclass(frozen=True)
class _Vectors:
    """All parts together."""

    paths: Sequence[Path]
    shape: tuple[int, ...]
    ragged: bool
    level: str
    facts: str
    stage: Stage

    def parts(self) -> Iterator[Part]:
        return map(Part, self.paths)

    def walk(self) -> Iterator[Part]:
        """The parts, whose number passed is told."""
        for path in self.paths:
            yield Part(path)
            self.stage.advance(1)


def write_vectors(
    paths: Sequence[Path], out: Path, level: str, facts: dict[str, Any], stage: Stage
) -> tuple[int, ...]:
    """Write the file in the form its name says; the shape of all vectors together."""
    shape = (sum(Part(path).shape[0] for path in paths), *Part(paths[0]).shape[1:])
    vectors = _Vectors(paths, shape, level != "sentence", level, json.dumps(facts, sort_keys=True), stage)
    with atomic_path(out) as temporary:
        {".npy": _npy, ".safetensors": _safetensors, ".parquet": _parquet}[out.suffix](temporary, vectors)
    return shape


def _npy(path: Path, vectors: _Vectors) -> None:
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": vectors.shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in vectors.walk():
            _put(file, part.vectors, "F32")


def _safetensors(path: Path, vectors: _Vectors) -> None:
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {"vectors": ("F32", vectors.shape)}
    offsets = np.zeros(1, np.int64)
    if vectors.ragged:
        offsets = np.concatenate([offsets, *(part.counts for part in vectors.parts())]).cumsum()
        tensors |= {"spans": ("I64", (vectors.shape[0], 2)), "offsets": ("I64", offsets.shape)}
    header: dict[str, Any] = {"__metadata__": {"unmask": vectors.facts}}
    end = 0
    for name, (kind, shape) in tensors.items():
        start, end = end, end + int(np.prod(shape)) * _TYPES[kind].itemsize
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that the numbers begin at a multiple of their size
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in vectors.walk():
            _put(file, part.vectors, "F32")
        if vectors.ragged:
            for part in vectors.parts():
                _put(file, part.spans, "I64")
            _put(file, offsets, "I64")


def _put(file: IO[bytes], array: NDArray[Any], kind: str) -> None:
    file.write(np.ascontiguousarray(array, _TYPES[kind]).tobytes())


def _parquet(path: Path, vectors: _Vectors) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    count, width = vectors.shape[1:-1], vectors.shape[-1]
    names = [f"vector_{layer}" for layer in range(count[0])] if count else ["vector"]
    places = ["start", "end"] if vectors.ragged else []
    what = vectors.level if vectors.ragged else "text"
    columns = [("number", pa.int64()), (what, pa.string()), *((name, pa.int64()) for name in places)]
    columns += [(name, pa.list_(pa.float32(), width)) for name in names]
    schema = pa.schema(columns, metadata={"unmask": vectors.facts})
    first = 0
    with pq.ParquetWriter(path, schema, use_dictionary=[what]) as writer:
        for part in vectors.walk():
            numbers = np.repeat(np.arange(first, first + len(part.counts)), part.counts)
            first += len(part.counts)
            layers = part.vectors.reshape(len(numbers), len(names), width)
            flat = (np.ascontiguousarray(layers[:, n]).reshape(-1) for n in range(len(names)))
            spans = [part.spans[:, n] for n in range(len(places))]
            arrays = [pa.array(numbers), pa.array(part.strings, pa.string()), *map(pa.array, spans)]
            arrays += [pa.FixedSizeListArray.from_arrays(pa.array(one), width) for one in flat]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
