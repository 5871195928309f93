import csv
import gzip
import io
import json
import lzma
import math
import os
import resource
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import Heard

from unmask.config import TextConfig
from unmask.errors import InputError, OutputError
from unmask.predict.lines import one_source, placed_texts
from unmask.text import (
    Cleaner,
    Source,
    TextColumns,
    find_sources,
    read_documents,
    read_sources,
    say_passed_over,
)


def write(path: Path, data: bytes) -> Path:
    """Write, compressed as the name says."""
    if path.suffix == ".zst":
        with pa.output_stream(str(path), compression="zstd") as file:
            file.write(data)
    else:
        path.write_bytes({".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)(data))
    return path


def read(path: Path, **config: object) -> list[str]:
    return [doc.text for doc in read_documents(Source(path, path.name), TextConfig(**config))]


def as_blocks(texts: list[str]) -> bytes:
    return "\n\n".join(texts).encode()


def as_jsonl(texts: list[str]) -> bytes:
    return "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)).encode()


def as_csv(texts: list[str]) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["id", "text"])
    writer.writerows(enumerate(texts))
    return file.getvalue().encode()


def as_tsv(texts: list[str]) -> bytes:
    return "".join(["text\tid\n", *(f"{text}\t{i}\n" for i, text in enumerate(texts))]).encode()


def as_parquet(texts: list[str]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), file)
    return file.getvalue()


FORMATS: dict[str, Callable[[list[str]], bytes]] = {
    ".txt": as_blocks,
    ".jsonl": as_jsonl,
    ".csv": as_csv,
    ".tsv": as_tsv,
    ".parquet": as_parquet,
}
COMPRESSIONS = ("", ".gz", ".xz", ".zst")
clean = Cleaner(TextConfig())

lines = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
documents = st.lists(
    lines.map(lambda text: clean(text)[0].replace("\n", " ")).filter(bool), min_size=1, max_size=6
)


@pytest.mark.parametrize("form", FORMATS)
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=documents, compression=st.sampled_from(COMPRESSIONS))
def test_every_format_and_compression_gives_the_same(
    tmp_path: Path, form: str, texts: list[str], compression: str
) -> None:
    path = write(tmp_path / f"x{form}{compression}", FORMATS[form](texts))
    assert read(path) == texts


def test_txt_by_block_line_and_file(tmp_path: Path) -> None:
    path = write(tmp_path / "x.txt", "\n\num\ndois\n \t\n\n\ntrês\r\n\r\nquatro\rcinco\n".encode())
    assert [text.strip() for text in read(path)] == ["um\ndois", "três", "quatro\ncinco"]
    assert read(path, documents="line") == ["um", "dois", "três", "quatro", "cinco"]
    assert [text.split() for text in read(path, documents="file")] == [
        ["um", "dois", "três", "quatro", "cinco"]
    ]


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) - 1, (1 << 16) - 2, (1 << 16) + 1])
def test_separators_and_letters_across_the_pieces_a_file_is_read_in(tmp_path: Path, size: int) -> None:
    first = "a" * (size - 1) + "é"
    path = write(tmp_path / "x.txt", f"{first} \r\n \r\nsegundo\r\nbloco".encode())
    assert [text.strip() for text in read(path)] == [first, "segundo\nbloco"]


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from("ab \n\r\té"), max_size=60), chunk=st.integers(1, 7))
def test_the_size_of_the_pieces_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, chunk: int
) -> None:
    path = write(tmp_path / "x.txt", (text + "\n\nend").encode())
    whole = [clean(text)[0] for text in read(path)]
    with monkeypatch.context() as patch:
        patch.setattr("unmask.text.stream.CHUNK", chunk)
        assert [clean(text)[0] for text in read(path)] == whole


def test_a_byte_order_mark_is_not_text(tmp_path: Path) -> None:
    assert read(write(tmp_path / "x.txt", b"\xef\xbb\xbfum")) == ["um"]
    assert read(write(tmp_path / "x.csv", b"\xef\xbb\xbftext\num\n")) == ["um"]


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        ('id;text\n1;"um; dois, três"\n2;quatro, cinco\n', ["um; dois, três", "quatro, cinco"]),
        ('\n"nota;1";"a ""b"", c";text\n1;2;um\n', ["um"]),
        ('"a;b",text\n1,um; dois\n', ["um; dois"]),
        ('text,"a;b"\num; dois,1\n', ["um; dois"]),
        ("text\num; dois\n", ["um; dois"]),
        ('text;"c\nd,e"\num;1\n', ["um"]),
    ],
)
def test_semicolons_separate_where_the_header_has_no_comma(
    tmp_path: Path, data: str, texts: list[str]
) -> None:
    assert read(write(tmp_path / "x.csv", data.encode())) == texts


def test_columns_without_names_may_be_several(tmp_path: Path) -> None:
    """So a spreadsheet writes what once held something."""
    (tmp_path / "x.csv").write_text("text,,\na,,\n", "utf-8")
    assert read(tmp_path / "x.csv") == ["a"]


def test_parquet_with_a_name_twice(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(
        InputError, match=r"x.parquet names two columns 'text' \(text, text\): rename one of them$"
    ):
        read(tmp_path / "x.parquet")


def test_language_from_source_or_row(tmp_path: Path) -> None:
    rows = [{"text": "um", "lang": "pt"}, {"text": "one", "lang": None}]
    jsonl = write(tmp_path / "x.jsonl", "\n".join(map(json.dumps, rows)).encode())
    parquet = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    config = TextConfig(language_column="lang")
    for path in (jsonl, parquet):
        docs = list(read_documents(Source(path, "name", "en"), config))
        assert [(doc.text, doc.language, doc.source) for doc in docs] == [
            ("um", "pt", "name"),
            ("one", "en", "name"),
        ]


def test_without_a_text_column_one_with_a_usual_name_is_taken_and_told_once(
    tmp_path: Path, heard: Heard
) -> None:
    table, written = {"id": ["1"], "Texto": ["um barco"]}, {"b.csv": b"id,Texto\n1,um barco\n"}
    written["c.jsonl"] = b'{"id": 1, "Texto": "um barco"}\n{"frase": "outro", "id": 2}\n'
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    paths = [tmp_path / "a.parquet", *(write(tmp_path / name, data) for name, data in written.items())]
    config = TextConfig()
    sources = [Source(path, path.name) for path in paths]
    found = read_sources(sources, config, [], TextColumns(config, heard))
    assert [doc.text for doc in found] == ["um barco"] * 3 + ["outro"]
    assert heard.said == [
        f"{paths[0]}: the text is taken from the column Texto",
        f"{paths[2]}, line 2: the text is taken from the column frase",
    ]
    with pytest.raises(InputError, match="there is no column corpo, only id, Texto"):
        read(paths[1], column="corpo")  # one that is named is not guessed


def test_null_text_is_an_empty_document(tmp_path: Path) -> None:
    assert read(write(tmp_path / "x.jsonl", b'{"text": null}\n\n{"text": "a"}')) == ["", "a"]
    pq.write_table(pa.table({"text": [None, "a"]}), tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet") == ["", "a"]


def test_a_quotation_mark_in_a_tsv_is_a_quotation_mark(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tsv", b'text\tlabel\n"Quite" so\t1\nsaid "yes\t0\n')
    assert read(path) == ['"Quite" so', 'said "yes']


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"um\n\ndois\n", ["um", "dois"]), (b'{"text": "um"}\n{"text": "dois"}\n', ["um", "dois"])],
)
def test_standard_input_is_text_or_jsonl(
    monkeypatch: pytest.MonkeyPatch, data: bytes, expected: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert [doc.text.strip() for doc in read_documents(Source(None, "-"), TextConfig())] == expected


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "x.txt",
            b"a\xe9b",
            r"x.txt is not UTF-8: byte 1, counted from 0, is 0xe9; .*iconv -f WINDOWS-1252 -t utf-8",
        ),
        ("x.txt", b"a" * 70_000 + b"\xc3\xa9\xff", "byte 70002, .* is 0xff;"),
        ("x.txt", b"abc\xc3", "byte 3, .* is 0xc3;"),
        ("x.txt", "olá".encode("utf-16"), "iconv -f utf-16 "),
        ("x.txt", "“Olá”, disse ele.".encode("utf-16le"), r"iconv -f utf-16le \(or utf-16be\) "),
        ("x.txt.gz", b"a\xe9b", "byte 1 of what it unpacks to, .* is 0xe9"),
        ("x.txt", b"", "x.txt is empty"),
        ("x.txt.xz", b"", "x.txt.xz is empty"),
        ("x.txt", b" \n\n \n", "x.txt is empty"),
        ("x.csv", b"", "x.csv is empty"),
        ("x.csv", b"text,b\n", r"x.csv has a header \(text, b\) but no rows: write some below it$"),
        ("x.parquet", as_parquet([]), r"x.parquet has a header \(id, text\) but no rows"),
        ("x.jsonl", b'{"text": "a"}\n{"text": \n', r"x.jsonl, line 2: not JSON \(Expecting value\)"),
        ("x.jsonl", b'["a"]\n', "line 1: write one JSON object a line"),
        (
            "x.jsonl",
            b'{"text": "a"}\n{"test": "b"}',
            "line 2: there is no column text, only test; did you mean test.*--set text.column=NAME",
        ),
        ("x.jsonl", b'{"text": 5}', "line 1: text holds 5, not text"),
        ("x.jsonl", b"[" * 100_000, "line 1: not JSON"),
        (
            "x.csv",
            b"id,corpo\n1,a\n",
            "no column text, only id, corpo; say which with --set text.column=NAME",
        ),
        (
            "x.csv",
            b"text,id,text\na,1,b\n",
            r"x.csv: its first row names two columns 'text' \(text, id, text\): rename one of them, or write",
        ),
        ("x.tsv.gz", b"text\tid\tid\na\t1\t2\n", "names two columns 'id'.*: rename one"),
        ("x.csv", b"id,text\n1,a\n2,b,c\n", "line 3: 3 fields, 2 in the header; put quotes"),
        ("x.csv", b"id,text\n1\n", "line 2: 1 field, 2 in the header; is one missing"),
        ("x.tsv", b"a\ttext\tc\n1\t2\n", "line 2: 2 fields, 3 in the header; is one missing"),
        ("x.csv", b"id;text\n1;a;b\n", "line 2: 3 fields, 2 in the header; put quotes .* semicolons"),
        ("x.csv", b'text\n"a\nb\n', "line 4?.*quotation mark that is not closed"),
        ("x.parquet", b"PAR1 this is not one", "x.parquet is damaged or cut off"),
        ("x.parquet", as_parquet(["a"] * 100)[:-40], "x.parquet is damaged or cut off"),
    ],
)
def test_what_is_wrong_is_said_with_the_place(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = write(tmp_path / name, data)
    with pytest.raises(InputError, match=message):
        read(path)


def test_of_several_files_the_empty_ones_are_told_apart(tmp_path: Path, heard: Heard) -> None:
    written = {"a.txt": b"", "b.txt": b"um\n\ndois", "c.csv": b"text\n", "d.txt": b"\n \n", "e.jsonl": b""}
    sources = [Source(write(tmp_path / name, data), name) for name, data in written.items()]
    empty: list[Source] = []
    assert [doc.text for doc in read_sources(sources, TextConfig(), empty)] == ["um", "dois"]
    assert [source.name for source in empty] == ["a.txt", "c.csv", "d.txt", "e.jsonl"]
    say_passed_over(empty[:2], sources, heard)
    say_passed_over("abcd", sources, heard)
    say_passed_over(sources, sources, heard)  # all: an error will say it
    say_passed_over([], sources, heard)
    assert heard.said == [
        f"passed over 2 without any text: {tmp_path / 'a.txt'}, {tmp_path / 'c.csv'}",
        "passed over 4 without any text: a, b, c, …",
    ]


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("form", [".txt", ".parquet"])
def test_an_archive_cut_off_or_spoilt(tmp_path: Path, form: str, compression: str) -> None:
    path = write(tmp_path / f"x{form}{compression}", FORMATS[form]([f"texto {i}" for i in range(20_000)]))
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[: len(whole) // 2], b"not an archive"):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="damaged or cut off"):
            read(path)


def test_every_stream_of_an_xz_file_is_read_or_told(tmp_path: Path) -> None:
    path, streams = tmp_path / "x.txt.xz", [lzma.compress(b"um\n\n"), lzma.compress(b"dois" * 5000)]
    path.write_bytes(streams[0] + bytes(4) + lzma.compress(b"") + streams[1] + bytes(8))
    assert read(path) == ["um", "dois" * 5000]
    for damaged in (b"x" + streams[1], b"garbage", streams[1][:6], b"\0\0\0\0x"):
        path.write_bytes(streams[0] + damaged)
        with pytest.raises(InputError, match="damaged or cut off"):
            read(path)


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_a_full_folder_to_unpack_in_is_no_damage(tmp_path: Path, compression: str) -> None:
    path = write(tmp_path / f"x.parquet{compression}", as_parquet([f"texto {i}" for i in range(5000)]))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OutputError, match=r"no space left in .* to unpack .*x\.parquet"):
            read(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_columns_that_hold_no_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="x.parquet, row 1: text holds 1, not text"):
        read(tmp_path / "x.parquet")


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet"])
def test_a_text_of_several_columns(tmp_path: Path, name: str) -> None:
    rows = [
        {"título": "Barco", "ano": "1999", "corpo": "Partiu {cedo}."},
        {"título": "", "ano": "", "corpo": "Só."},
        {"título": "", "ano": "", "corpo": " "},
    ]
    path = tmp_path / name
    if name == "x.csv":
        path.write_text(
            "\n".join(",".join(row.values()) for row in [{k: k for k in rows[0]}, *rows]), "utf-8"
        )
    elif name == "x.jsonl":
        typed = [{key: value or None for key, value in row.items()} for row in rows]
        typed[0] |= {"ano": 1999}  # type: ignore[dict-item]
        path.write_text("\n".join(map(json.dumps, typed)), "utf-8")
    else:
        pq.write_table(pa.Table.from_pylist([*rows]), path)
    expected = ["Barco (1999): Partiu {cedo}.", " (): Só.", ""]
    made = "{título} ({ano}): {corpo}"
    assert read(path, column=made) == expected
    with pytest.raises(InputError, match=r"no column titulo, only .*did you mean título"):
        read(path, column="{titulo} {corpo}")
    assert [text for _, text in placed_texts(one_source(str(path)), made)] == expected


def test_parts_that_are_missing_numbers_or_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": ["um", "dois"], "b": [math.nan, 2.5], "c": [b"x", b"y"]}), path)
    assert read(path, column="{a} {b}") == ["um ", "dois 2.5"]
    with pytest.raises(InputError, match=r"row 1: c holds b'x', not text"):
        read(path, column="{a} {c}")


def test_a_part_of_a_text_is_no_list(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", b'{"a": "b", "c": [1]}')
    with pytest.raises(InputError, match=r"line 1: c holds \[1\], not text"):
        read(path, column="{a} {c}")


@pytest.mark.parametrize("language", ["Uma frase inteira, que não é uma língua nenhuma.", "\\ud800", "a\\nb"])
def test_a_language_that_is_none(tmp_path: Path, language: str) -> None:
    path = write(tmp_path / "x.jsonl", f'{{"text": "a", "lang": "{language}"}}'.encode())
    with pytest.raises(InputError, match=r"is no language; is text\.language_column right"):
        read(path, language_column="lang")


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        list(read_documents(Source(None, "-"), TextConfig()))


@pytest.mark.skipif(sys.platform == "darwin", reason="its names are characters")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_name_of_bytes_that_are_no_characters(tmp_path: Path, compression: str) -> None:
    written = write(tmp_path / f"x.txt{compression}", b"um")
    written.rename(tmp_path / os.fsdecode(f"coração.txt{compression}".encode("latin-1")))
    (source,) = find_sources([str(tmp_path)])
    assert [doc.source for doc in read_documents(source, TextConfig())] == [source.name]
    assert source.name == rf"cora\xe7\xe3o.txt{compression}"
    assert str(source).encode().endswith(source.name.encode())


def test_a_file_that_went_away(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there any more"):
        read(tmp_path / "gone.txt")


@pytest.mark.parametrize("mode", ["block", "line", "file"])
def test_a_document_without_end_takes_no_memory_and_stays_too_long(tmp_path: Path, mode: str) -> None:
    path = write(tmp_path / "x.txt", b"x" * 20_000_000 + b"\n\nfim")
    tracemalloc.start()
    texts = read(path, documents=mode, max_chars=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    assert len(texts[0]) > 1000
    assert mode == "file" or texts[1] == "fim"


def test_white_space_without_end_takes_no_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "x.txt", b"a" + b" " * 3_000_000 + b"\n" * 3_000_000 + b"b")
    assert [text.strip() for text in read(path)] == ["a", "b"]


def test_a_line_without_end_is_an_error_in_jsonl_and_csv(tmp_path: Path) -> None:
    for name, data in (("x.jsonl", b"[" + b"1," * 2_000_000), ("x.csv", b"text\n" + b"a" * 4_000_000)):
        with pytest.raises(InputError, match=r"line [12]: longer than .* characters"):
            read(write(tmp_path / name, data), max_chars=1000)
