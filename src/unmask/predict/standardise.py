"""Vectors in a space where no direction drowns the others: fitted on a corpus, saved, applied to any vector.

Every method is one affine map, (x − mean) · transform:

    mean     the mean alone is taken away
    zscore   … and each dimension divided by its standard deviation
    abtt     … and the first principal directions left out (all-but-the-top, Mu and Viswanath 2018)
    whiten   … and the covariance made the identity, by Σ^(−1/2), which turns the space least (ZCA)

What has no variance becomes 0: it told nothing of any text. N vectors · D width
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from unmask.errors import ConfigError, InputError, ModelError
from unmask.files import digest, write_atomic
from unmask.progress import counted

Method = Literal["zscore", "mean", "abtt", "whiten"]
METHODS: tuple[Method, ...] = get_args(Method)
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_ROWS = 1 << 14  # taken to float64 at a time
_RESOLUTION = float(np.finfo(np.float32).eps)
_KEY = "unmask.standardiser"


@dataclass(frozen=True, eq=False)
class Standardiser:
    """A fitted map; `about` says of which model, layer, level and pooling its vectors were."""

    method: Method
    mean: Doubles  # (D)
    transform: Doubles  # (D) a factor for each dimension, or (D, D)
    about: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        vectors: NDArray[Any] | Iterable[NDArray[Any]],
        method: Method = "zscore",
        remove: int | None = None,
        about: Mapping[str, str] | None = None,
    ) -> "Standardiser":
        """Fit on an array (N, D), or on blocks of rows one after the other: memory does not grow with N.

        `remove` is the number of directions that `abtt` leaves out, by default one for every hundred of D.
        """
        if method not in METHODS:
            raise ConfigError(f"there is no method {method!r}; those we have: {', '.join(METHODS)}")
        if remove is not None and method != "abtt":
            raise ConfigError(f"remove goes with abtt, not with {method}")
        count, mean, spread = _moments(vectors, full=method in ("abtt", "whiten"))
        width = len(mean)
        if method == "mean":
            transform = np.ones(width)
        elif method == "zscore":
            transform = _inverse_roots(spread, np.abs(mean) * _RESOLUTION)
        elif method == "abtt":
            transform = _without_top(spread, max(1, width // 100) if remove is None else remove, count)
        else:
            if count <= width:
                raise InputError(
                    f"whitening {width} dimensions takes more than {width} vectors, not {count:,}:"
                    " give more text, or take another method"
                )
            transform = _whitening(spread, float(np.linalg.norm(mean)))
        return cls(method, mean, transform, dict(about or {}))

    def apply(self, vectors: NDArray[Any]) -> Floats:
        """The vectors (…, D), standardised; computed in float64, given as float32."""
        array = np.asarray(vectors)
        if array.ndim == 0 or array.shape[-1] != len(self.mean):
            raise InputError(
                f"the standardiser is for vectors of width {len(self.mean)},"
                f" these are of width {array.shape[-1] if array.ndim else 1}"
            )
        moved = array - self.mean
        placed = moved * self.transform if self.transform.ndim == 1 else moved @ self.transform
        return placed.astype(np.float32)

    @property
    def fingerprint(self) -> str:
        """The same for the same map."""
        return digest(self.method, self.mean.tobytes(), self.transform.tobytes())

    def check(self, about: Mapping[str, str]) -> None:
        """Refuse vectors of another model, layer, level or pooling than it was fitted on, where both say."""
        for key, mine in self.about.items():
            theirs = about.get(key, mine)
            if mine and theirs and mine != theirs:
                what = "another model" if key == "model" else f"{key} {mine}, these vectors are of {theirs}"
                raise ModelError(
                    f"the standardiser was fitted on {what}:"
                    " fit one for these (unmask embed --fit-standardise)"
                )

    def save(self, path: Path | str) -> None:
        """Write one safetensors file, whole or not at all."""
        facts = {"method": self.method, "about": dict(self.about)}
        arrays = {
            "mean": np.ascontiguousarray(self.mean), "transform": np.ascontiguousarray(self.transform)
        }  # fmt: skip
        write_atomic(Path(path), save(arrays, metadata={_KEY: json.dumps(facts, sort_keys=True)}))

    @classmethod
    def load(cls, path: Path | str) -> "Standardiser":
        """Open a file of `save`."""
        path = Path(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read the standardiser {path}: {error.strerror}") from None
        try:
            arrays = load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            facts = json.loads(header["__metadata__"][_KEY])
            made = cls(facts["method"], arrays["mean"], arrays["transform"], facts["about"])
            made._check_parts()
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{path} is no standardiser, or damaged: make one with unmask embed --fit-standardise"
            ) from None
        return made

    def _check_parts(self) -> None:
        width = self.mean.shape
        if self.method not in METHODS or self.transform.shape not in (width, width * 2) or len(width) != 1:
            raise ValueError("not what save writes")
        if self.mean.dtype != np.float64 or self.transform.dtype != np.float64:
            raise ValueError("another type of numbers")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.transform).all()):
            raise ValueError("not finite")
        if not all(isinstance(text, str) for pair in self.about.items() for text in pair):
            raise ValueError("about holds more than text")


def _moments(vectors: NDArray[Any] | Iterable[NDArray[Any]], full: bool) -> tuple[int, Doubles, Doubles]:
    """Number of rows, their mean, and their covariance (D, D) or only its diagonal (D), in one pass."""
    count, mean, total = 0, np.zeros(0), np.zeros(0)
    for block in _blocks(vectors):
        if not np.isfinite(block).all():
            raise InputError("the vectors hold values that are not finite: the model may be damaged")
        if count and block.shape[1] != len(mean):
            raise InputError(f"vectors of widths {len(mean)} and {block.shape[1]} cannot be fitted together")
        here = block.mean(0)
        moved = block - here
        around = moved.T @ moved if full else (moved**2).sum(0)
        if not count:
            count, mean, total = len(block), here, around
            continue
        # Chan, Golub and LeVeque: two sets of moments joined without loss of precision.
        shift, both = here - mean, count + len(block)
        between = np.outer(shift, shift) if full else shift**2
        total += around + between * (count * len(block) / both)
        mean = mean + shift * (len(block) / both)
        count = both
    if count < 2:
        raise InputError(f"a standardiser is fitted on at least two vectors, not {count}")
    return count, mean, total / count


def _blocks(vectors: NDArray[Any] | Iterable[NDArray[Any]]) -> Iterable[Doubles]:
    for array in [vectors] if isinstance(vectors, np.ndarray) else vectors:
        if array.ndim != 2 or not array.shape[1]:
            raise InputError(f"a standardiser is fitted on rows of numbers, not on the shape {array.shape}")
        for start in range(0, len(array), _ROWS):
            yield array[start : start + _ROWS].astype(np.float64)


def _inverse_roots(variances: Doubles, least: Doubles | float) -> Doubles:
    """1/√v, and 0 where the deviation is no more than rounding."""
    roots = np.sqrt(np.maximum(variances, 0))
    kept = roots > least
    inverse: Doubles = np.divide(1.0, roots, out=np.zeros_like(roots), where=kept)
    return inverse


def _without_top(covariance: Doubles, remove: int, count: int) -> Doubles:
    width = len(covariance)
    if not 1 <= remove < min(width, count):
        raise ConfigError(
            f"abtt cannot remove {remove} of {width} directions, fitted on {counted(count, 'vector')}:"
            f" choose 1 to {min(width, count) - 1}"
        )
    top = np.linalg.eigh(covariance)[1][:, -remove:]
    kept: Doubles = np.eye(width) - top @ top.T
    return kept


def _whitening(covariance: Doubles, distance: float) -> Doubles:
    """Σ^(−1/2) of vectors whose mean is so far from the origin, which rounds them so coarsely."""
    values, directions = np.linalg.eigh(covariance)
    least = max(float(np.sqrt(max(values[-1], 0.0))), distance) * _RESOLUTION
    inverse: Doubles = (directions * _inverse_roots(values, least)) @ directions.T
    return inverse
