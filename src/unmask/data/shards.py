"""The corpus folder: token shards that are memory-mapped, checked and self-describing.

    corpus/
      manifest.json      counts, languages, tokenizer facts; a digest for the vocabulary and every shard
      recipe.toml        the settings as run
      tokenizer/         the vocabulary that made the tokens
      train/00000.safetensors …   valid/ …   test/ …

A shard holds no special tokens. Its arrays: `ids` (uint16 or uint32) and `flags` (uint8), one entry per
token; `offsets` (int64, documents + 1) and `languages` (uint16), the document table.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from unmask.errors import CorpusError, InputError
from unmask.files import atomic_path, digest, file_digest, safetensors_errors
from unmask.progress import SILENT, Progress
from unmask.text.sources import split_suffix
from unmask.text.split import SPLITS
from unmask.tokenizer import Tokenizer

FORMAT = 1
MANIFEST = "manifest.json"
VOCABULARY = "tokenizer/tokenizer.json"
WORD_START = 1
SENTENCE_START = 2
MOST_LANGUAGES = 10_000  # the world has some 7,000

Array = npt.NDArray[Any]
_KEYS = {"sources", "text", "prepare", "tokenizer", "languages", "documents_read", "dropped", "splits"}
_ANEW = "delete {} and run `unmask prepare` again"
_DTYPES = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64, "I64": np.int64}


@dataclass(frozen=True, slots=True)
class Special:
    """The ids of the tokenizer's special tokens."""

    cls: int
    sep: int
    mask: int
    pad: int | None
    unk: int | None
    all: tuple[int, ...]
    pair_separators: int = 1
    """How many separators stand between the two texts of a pair (RoBERTa has two)."""


def token_dtype(vocab_size: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every id."""
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


def language_codes(names: Iterable[str]) -> dict[str, int]:
    """Every language once, sorted, with its number."""
    distinct = sorted(set(names))
    if len(distinct) > MOST_LANGUAGES:
        raise InputError(
            f"more than {MOST_LANGUAGES:,} languages, such as {distinct[0]!r} and {distinct[-1]!r}: "
            "is text.language_column right?"
        )
    return {name: number for number, name in enumerate(distinct)}


def write_arrays(path: Path, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    """Write named arrays and a few facts as one safetensors file, whole or not at all."""
    with atomic_path(path) as temporary, safetensors_errors(temporary):
        save_file(dict(arrays), temporary, metadata={"unmask": json.dumps(facts)})


def read_arrays(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Map a file of `write_arrays` into memory without reading it through."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        facts = json.loads(header.pop("__metadata__")["unmask"])
        start = 8 + size
        end = start + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if path.stat().st_size != end:
            raise ValueError(f"{path.stat().st_size} bytes instead of {end}")
        data = np.asarray(np.memmap(path, mode="r"))  # a plain array over the map: slices are cheaper
        arrays = {
            name: data[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
            .view(_DTYPES[entry["dtype"]])
            .reshape(entry["shape"])
            for name, entry in header.items()
        }
    except FileNotFoundError:
        raise CorpusError(f"{path} is missing: {_ANEW.format(path.parents[1])}") from None
    except (ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise CorpusError(f"{path} is damaged ({error}): {_ANEW.format(path.parents[1])}") from None
    return arrays, facts


def ranges(starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers start, start + 1, … of every range, one after the other."""
    ends = np.cumsum(sizes, dtype=np.int64)
    return np.repeat(starts - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)


class Corpus:
    """One split of a prepared folder, read in place: memory does not grow with its size."""

    def __init__(self, folder: Path, split: str, manifest: Mapping[str, Any]) -> None:
        self.folder, self.split, self.manifest = folder, split, manifest
        facts = manifest["splits"][split]
        self.token_count: int = facts["tokens"]
        self.document_count: int = facts["documents"]
        self.language_names: tuple[str, ...] = tuple(manifest["languages"])
        self.vocab_size: int = manifest["tokenizer"]["vocab_size"]
        special = manifest["tokenizer"]["special"]
        self.special = Special(**{**special, "all": tuple(special["all"])})
        self._shards = [read_arrays(folder / shard["file"])[0] for shard in facts["shards"]]
        counts = [len(shard["languages"]) for shard in self._shards]
        self._starts = [0, *np.cumsum(counts).tolist()] if counts else [0]
        if self._starts[-1] != self.document_count:
            raise CorpusError(f"{folder}/{split} does not hold the documents its manifest names")

    @classmethod
    def open(cls, folder: Path | str, split: str = "train") -> "Corpus":
        """Open one split of a folder that `unmask prepare` wrote."""
        if split not in SPLITS:
            raise CorpusError(f"there is no split {split!r}: choose one of {', '.join(SPLITS)}")
        return cls(Path(folder), split, read_manifest(Path(folder)))

    def __reduce__(self) -> tuple[Any, tuple[Path, str]]:
        return Corpus.open, (self.folder, self.split)  # a copy in another process maps the files again

    def document(self, number: int) -> tuple[Array, Array]:
        """The ids and flags of one document, as views."""
        shard = bisect_right(self._starts, number) - 1
        arrays, local = self._shards[shard], number - self._starts[shard]
        start, end = arrays["offsets"][local], arrays["offsets"][local + 1]
        return arrays["ids"][start:end], arrays["flags"][start:end]

    def parts(self, pieces: npt.NDArray[np.int64]) -> tuple[Array, Array]:
        """The ids and flags of pieces, rows of (document, start, stop), one after the other."""
        numbers, sizes = pieces[:, 0], pieces[:, 2] - pieces[:, 1]
        places = np.cumsum(sizes) - sizes
        ids = np.empty(int(sizes.sum()), token_dtype(self.vocab_size))
        flags = np.empty(len(ids), np.uint8)
        shards = np.searchsorted(self._starts, numbers, side="right") - 1
        for shard in np.unique(shards).tolist():
            here, arrays = shards == shard, self._shards[shard]
            begins = arrays["offsets"][numbers[here] - self._starts[shard]] + pieces[here, 1]
            source, target = ranges(begins, sizes[here]), ranges(places[here], sizes[here])
            ids[target], flags[target] = arrays["ids"][source], arrays["flags"][source]
        return ids, flags

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of every document."""
        parts = [np.diff(shard["offsets"]) for shard in self._shards]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    @cached_property
    def languages(self) -> npt.NDArray[np.uint16]:
        """The language of every document, as an index into `language_names`."""
        parts = [shard["languages"] for shard in self._shards]
        return np.concatenate(parts) if parts else np.empty(0, np.uint16)

    @property
    def fingerprint(self) -> str:
        """Changes when any token of any split does."""
        return corpus_fingerprint(self.manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished corpus folder."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        version = manifest["format"]
        missing = version == FORMAT and not manifest.keys() >= _KEYS
    except (FileNotFoundError, NotADirectoryError):
        if (folder / ".work").is_dir():
            raise CorpusError(
                f"{folder} is unfinished: run the same `unmask prepare` again to go on"
            ) from None
        what = "a file, not" if folder.is_file() else "not"
        raise CorpusError(f"{folder} is {what} a corpus: make one with `unmask prepare`") from None
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError):
        missing = True
    if missing:
        raise CorpusError(f"{path} is damaged: {_ANEW.format(folder)}")
    if version != FORMAT:
        raise CorpusError(
            f"{folder} has format {version}, this version reads {FORMAT}: {_ANEW.format(folder)}"
        )
    return dict(manifest)


def file_facts(folder: Path, file: str) -> dict[str, Any]:
    """What the manifest says of a file, to know it again."""
    path = folder / file
    return {"file": file, "bytes": path.stat().st_size, "digest": file_digest(path)}


def read_tokenizer(folder: Path) -> Tokenizer:
    """The vocabulary that made the tokens of a corpus; another in its place would name them wrongly."""
    _check_files(folder, _vocabulary(read_manifest(folder)), SILENT)
    return Tokenizer.load(folder / "tokenizer")


def _vocabulary(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [manifest["vocabulary"]] if "vocabulary" in manifest else []  # not in those of before


def without_validation(manifest: Mapping[str, Any]) -> str | None:
    """What to say of the languages of which no document fell to validation, if there are any."""
    splits = [split["languages"] for split in manifest["splits"].values()]
    counts = {name: sum(split[name]["documents"] for split in splits) for name in manifest["languages"]}
    valid = manifest["splits"]["valid"]["languages"]
    missing = [name for name, count in counts.items() if count and not valid[name]["documents"]]
    if not missing:
        return None
    named = "" if len(missing) == len(counts) else f" of {', '.join(name or 'none' for name in missing)}"
    several = max(counts[name] for name in missing) > 1  # a single one would be lost to the training
    more = ": for more, prepare it with --set prepare.valid=0.2"
    advice = more if several else ", as one cannot be shared: give more text"
    forms = {split_suffix(Path(source["name"]))[0] for source in manifest["sources"]}
    # a row of a table is a document anyhow
    cut_otherwise = manifest["text"]["documents"] != "line" and not forms.isdisjoint({".txt", ""})
    lines = ", or --set text.documents=line if every line is a document" * cut_otherwise
    return f"no document{named} fell to validation{advice}{lines}"


def corpus_fingerprint(manifest: Mapping[str, Any]) -> str:
    """One digest over the tokenizer and every shard."""
    shards = [shard["digest"] for split in SPLITS for shard in manifest["splits"][split]["shards"]]
    return digest(manifest["tokenizer"]["fingerprint"], *shards)


def verify(folder: Path, progress: Progress = SILENT) -> None:
    """Compare every shard, and the vocabulary, with the digest in the manifest; name those that differ."""
    manifest = read_manifest(folder)
    shards = [shard for split in SPLITS for shard in manifest["splits"][split]["shards"]]
    _check_files(folder, [*_vocabulary(manifest), *shards], progress)


def _check_files(folder: Path, files: Sequence[Mapping[str, Any]], progress: Progress) -> None:
    bad = []
    with progress.stage("verifying", sum(file["bytes"] for file in files) / 1e6, "MB") as stage:
        for file in files:
            path = folder / file["file"]
            if not path.is_file() or file_digest(path) != file["digest"]:
                bad.append(file["file"])
            stage.advance(file["bytes"] / 1e6)
    if bad:
        raise CorpusError(
            f"{folder}: {', '.join(bad)} changed since it was prepared (wrong checksum or missing): "
            "bring it back, or " + _ANEW.format(folder)
        )
