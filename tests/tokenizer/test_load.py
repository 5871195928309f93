"""Every file format of the world, whole and broken."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Heard
from tokenizers import Tokenizer as Backend
from tokenizers import models

from unmask.errors import ModelError, UserError
from unmask.tokenizer import Tokenizer

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_vocab(folder: Path, *pieces: str) -> Path:
    (folder / "vocab.txt").write_text("\n".join([*BERT, *pieces]) + "\n", "utf-8")
    return folder / "vocab.txt"


def tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.piece(i) for i in tokenizer.encode(text, special=False).ids]


def test_vocab_txt_casing_from_the_configuration(tmp_path: Path) -> None:
    write_vocab(tmp_path, "Avó", "avó", "avo")
    config = {"do_lower_case": True, "strip_accents": False, "model_max_length": 512}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    heard = Heard()
    tokenizer = Tokenizer.load(tmp_path, heard)
    assert tokens(tokenizer, "Avó") == ["avó"]
    assert tokenizer.max_length == 512
    assert heard.said == []
    tokenizer.save(tmp_path / "copy")
    assert Tokenizer.load(tmp_path / "copy").max_length == 512


@pytest.mark.parametrize(
    ("pieces", "expected", "said"),
    [
        (["Avó", "avó"], "Avó", "cased"),
        (["avó", "avo"], "avó", "lower case, with accents"),
        (["avo"], "avo", "lower case, without accents"),
    ],
)
def test_vocab_txt_casing_is_guessed_and_said(
    tmp_path: Path, pieces: list[str], expected: str, said: str
) -> None:
    heard = Heard()
    tokenizer = Tokenizer.load(write_vocab(tmp_path, *pieces), heard)
    assert tokens(tokenizer, "Avó") == [expected]
    assert len(heard.said) == 1
    assert said in heard.said[0]


def test_vocab_json_with_merges(trained: dict[str, Tokenizer], texts: list[str], tmp_path: Path) -> None:
    trained["bpe"].backend.model.save(str(tmp_path))
    loaded = Tokenizer.load(tmp_path)
    assert Tokenizer.load(tmp_path / "merges.txt").fingerprint == loaded.fingerprint
    expected = [e.ids.tolist() for e in trained["bpe"].encode_batch(texts, texts)]
    assert [e.ids.tolist() for e in loaded.encode_batch(texts, texts)] == expected


def test_truncation_and_padding_are_left_behind(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    backend = Backend.from_str(trained["wordpiece"].backend.to_str())
    backend.enable_truncation(4)
    backend.enable_padding(length=64)
    backend.save(str(tmp_path / "tokenizer.json"))
    loaded = Tokenizer.load(tmp_path)
    assert loaded.fingerprint == trained["wordpiece"].fingerprint
    assert 4 < len(loaded.encode("O gatinho está correndo.")) < 64


def test_a_template_is_set_where_there_is_none(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    state = json.loads(trained["unigram"].backend.to_str())
    state |= {"post_processor": None, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(state), "utf-8")
    loaded = Tokenizer.load(tmp_path)
    assert loaded.special_ids == trained["unigram"].special_ids
    assert loaded.encode("lê", "dorme").ids.tolist() == trained["unigram"].encode("lê", "dorme").ids.tolist()


def test_special_tokens_with_other_names(tmp_path: Path) -> None:
    pieces = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "a"]
    (tmp_path / "vocab.json").write_text("{}", "utf-8")
    backend = Backend(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="<unk>"))
    backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelError, match=r"no cls token, neither \[CLS\] nor <s>"):
        Tokenizer.load(tmp_path)
    config = {f"{role}_token": {"content": f"<{role}>"} for role in ("pad", "unk", "cls", "sep", "mask")}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    loaded = Tokenizer.load(tmp_path)
    assert loaded.encode("a").ids.tolist() == [2, 5, 3]
    assert loaded.mask_token == "<mask>"


# SentencePiece files: the message is written here by hand, field by field.


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece(model_type: int, *pieces: str, trainer: bytes = b"", normaliser: bytes = b"") -> bytes:
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3}
    message = b""
    for rank, piece in enumerate(["<unk>", "<s>", "</s>", *pieces]):
        body = field(1, piece.encode()) + field(2, -float(rank))
        message += field(1, body + (field(3, kinds[piece]) if piece in kinds else b""))
    return message + field(2, field(3, model_type) + trainer) + field(3, field(1, b"identity") + normaliser)


def test_sentencepiece_unigram(tmp_path: Path) -> None:
    (tmp_path / "sp.model").write_bytes(sentencepiece(1, "▁gato", "s", "▁", "g"))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.kind == "unigram"
    order = ["<s>", "<pad>", "</s>", "<unk>", "▁gato", "s", "▁", "g", "<mask>"]
    assert [tokenizer.piece(i) for i in range(tokenizer.vocab_size)] == order
    assert tokens(tokenizer, "gatos g") == ["▁gato", "s", "▁", "g"]


def test_sentencepiece_bpe(tmp_path: Path) -> None:
    (tmp_path / "sp.model").write_bytes(sentencepiece(2, "to", "ga", "▁ga", "▁", "g", "a", "t", "o"))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.kind == "bpe"
    assert tokens(tokenizer, "gato toga") == ["▁ga", "to", "▁", "to", "ga"]
    assert tokenizer.encode("gato toga").words.tolist() == [-1, 0, 0, 1, 1, 1, -1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged"),
        (b"not a model at all", "damaged"),
        (sentencepiece(1, "▁a")[:-20], "damaged"),
        (sentencepiece(4, "▁a"), "word or character model"),
        (sentencepiece(1, "▁a", trainer=field(24, 1)), "does not mark the start"),
        (sentencepiece(1, "▁a", normaliser=field(3, 0)), "does not mark the start"),
    ],
)
def test_sentencepiece_that_cannot_be_used(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "sp.model").write_bytes(data)
    with pytest.raises(ModelError, match=message):
        Tokenizer.load(tmp_path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no tokenizer at"):
        Tokenizer.load(tmp_path / "absent")
    with pytest.raises(ModelError, match="holds no tokenizer"):
        Tokenizer.load(tmp_path)
    (tmp_path / "notes.md").write_text("x", "utf-8")
    with pytest.raises(ModelError, match="not a tokenizer file"):
        Tokenizer.load(tmp_path / "notes.md")


def test_holes_are_named(tmp_path: Path) -> None:
    write_vocab(tmp_path, "a", "b", "a", "c")
    with pytest.raises(ModelError, match="no entry has id 5"):
        Tokenizer.load(tmp_path)


def test_missing_special_tokens_are_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", "utf-8")
    with pytest.raises(ModelError, match="no mask token"):
        Tokenizer.load(tmp_path)


def test_not_utf8_and_bad_side_files(tmp_path: Path) -> None:
    file = write_vocab(tmp_path, "a")
    (tmp_path / "tokenizer_config.json").write_text("{", "utf-8")
    with pytest.raises(ModelError, match=r"tokenizer_config\.json is not valid JSON"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]", "utf-8")
    with pytest.raises(ModelError, match="JSON object"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "extension.json").write_text('{"old_pieces": {"x": 1}}', "utf-8")
    with pytest.raises(ModelError, match=r"extension\.json is damaged"):
        Tokenizer.load(tmp_path)
    file.write_bytes("avó".encode("latin-1"))
    with pytest.raises(UserError, match="cannot be used"):
        Tokenizer.load(tmp_path)


def test_other_models_are_refused(tmp_path: Path) -> None:
    backend = Backend(models.WordLevel({p: i for i, p in enumerate(BERT)}, unk_token="[UNK]"))
    backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelError, match="WordLevel tokenizer cannot be used"):
        Tokenizer.load(tmp_path)


@settings(deadline=None, max_examples=60)
@given(cut=st.floats(0, 0.999), flip=st.integers(0, 255))
def test_a_damaged_file_is_one_line(
    tmp_path_factory: pytest.TempPathFactory, trained: dict[str, Tokenizer], cut: float, flip: int
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    data = trained["unigram"].backend.to_str().encode()
    (folder / "tokenizer.json").write_bytes(data[: int(cut * len(data))] + bytes([flip]))
    with pytest.raises(UserError) as failed:
        Tokenizer.load(folder)
    assert "\n" not in str(failed.value)
    assert "tokenizer.json" in str(failed.value)
