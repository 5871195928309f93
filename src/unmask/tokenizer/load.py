"""Vocabulary files of the world: tokenizer.json, vocab.txt, vocab.json + merges.txt, SentencePiece .model."""

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers

from unmask.errors import ModelError
from unmask.progress import Progress
from unmask.tokenizer.families import BERT, ROBERTA, Special, add_special, set_template, surround
from unmask.tokenizer.guard import backend_errors
from unmask.tokenizer.sentencepiece import read_sentencepiece

_LOOK_FOR = "tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece .model"


def read_backend(path: Path, progress: Progress) -> tuple[Backend, Special, int | None]:
    """The backend with its special tokens and the longest input its model takes, if that is written down."""
    file = _find(path)
    config = _read_object(file.with_name("special_tokens_map.json"))
    config |= _read_object(file.with_name("tokenizer_config.json"))
    with backend_errors(f"{file} cannot be used"):
        backend = _read(file, config, progress)
        backend.no_truncation()
        backend.no_padding()
        _check_ids(backend, file)
        special = _special(backend, config, file)
        add_special(backend, special)
        if backend.num_special_tokens_to_add(False) == 0:
            set_template(backend, special)
    length = config.get("model_max_length")
    return backend, special, length if isinstance(length, int) and 0 < length < 10**9 else None


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise ModelError(f"no tokenizer at {path}: name a folder with {_LOOK_FOR}")
    for name in ("tokenizer.json", "vocab.txt", "vocab.json"):
        if (path / name).is_file():
            return path / name
    pieces = sorted(path.glob("*.model"))
    if len(pieces) != 1:
        raise ModelError(f"{path} holds no tokenizer: it should have {_LOOK_FOR}")
    return pieces[0]


def _read(file: Path, config: Mapping[str, Any], progress: Progress) -> Backend:
    if file.suffix == ".model":
        backend, unigram = read_sentencepiece(file)
        return surround(backend, "unigram" if unigram else "bpe", _guess(backend), metaspace=True)
    if file.name == "vocab.json" or file.name == "merges.txt":
        model = models.BPE.from_file(*(str(file.with_name(name)) for name in ("vocab.json", "merges.txt")))
        backend = Backend(model)
        return surround(backend, "bpe", _guess(backend))
    if file.suffix == ".txt":
        return _read_wordpiece(file, config, progress)
    if file.suffix == ".json":
        return Backend.from_str(file.read_text("utf-8"))
    raise ModelError(f"{file} is not a tokenizer file: name {_LOOK_FOR}")


def _read_wordpiece(file: Path, config: Mapping[str, Any], progress: Progress) -> Backend:
    pieces = file.read_text("utf-8").removesuffix("\n").split("\n")
    if {BERT.cls, ROBERTA.cls}.isdisjoint(pieces):
        raise ModelError(
            f"{file} is no vocabulary, as no line of it is {BERT.cls}: name a tokenizer's folder in its place"
        )
    words = [piece for piece in pieces if not piece.startswith("[")]
    lowercase = config.get("do_lower_case")
    strip = config.get("strip_accents")
    if lowercase is None:
        lowercase = all(word == word.lower() for word in words)
        strip = lowercase and not any(map(_has_accent, words))
        casing = "lower case" if lowercase else "cased"
        accents = "without accents" if strip else "with accents"
        progress.say(f"{file} does not say its casing; its entries are {casing}, {accents}, so text is too")
    backend = Backend(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token=BERT.unk))
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase,
        strip_accents=strip,
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
    )
    return surround(backend, "wordpiece", _guess(backend))


def _has_accent(text: str) -> bool:
    return any(unicodedata.category(c) == "Mn" for c in unicodedata.normalize("NFD", text))


def _guess(backend: Backend) -> Special:
    """The tokens that play each role in the published families, as far as this vocabulary has them."""
    found: dict[str, str] = {}
    for role, token in BERT.items().items():
        other = ROBERTA.items()[role]
        chosen = next((t for t in (token, other) if backend.token_to_id(t) is not None), None)
        if chosen is None:
            raise ModelError(f"the vocabulary has no {role} token, neither {token} nor {other}")
        found[role] = chosen
    return Special(**found)


def _special(backend: Backend, config: Mapping[str, Any], file: Path) -> Special:
    """What the configuration says, else what the families use."""
    said: dict[str, str] = {}
    for role in BERT.items():
        token = config.get(f"{role}_token")
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str) and backend.token_to_id(token) is not None:
            said[role] = token
    if len(said) == len(BERT.items()):
        return Special(**said)
    try:
        return Special(**(_guess(backend).items() | said))
    except ModelError as error:
        raise ModelError(f"{file} cannot be used: {error}") from None


def _check_ids(backend: Backend, file: Path) -> None:
    vocabulary = backend.get_vocab(with_added_tokens=True)
    holes = set(range(max(vocabulary.values(), default=0) + 1)) - set(vocabulary.values())
    if holes:
        raise ModelError(f"{file} cannot be used: no entry has id {min(holes)} (a repeated or missing line?)")


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} should hold a JSON object")
    return value
