"""Bodies that nobody should send: never a 500, never a hang, and the server lives on."""

import json
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from tests.serve.conftest import JSON, Running

ROUTES = [
    "/", "/embed", "/embed_all", "/predict", "/rerank", "/similarity", "/tokenize", "/decode",
    "/v1/embeddings", "/fill-mask", "/text-classification", "/token-classification", "/question-answering",
    "/feature-extraction", "/score", "/words", "/senses", "/attention", "/attribution", "/models/lm",
    "/models/names",
    "/models/answers", "/models/topics/pipeline/text-classification",
]  # fmt: skip
BODIES = [
    b"", b"{", b"null", b"[]", b"\xff\xfe", b'"text"', b"{}" * 2, b"[" * 100_000, b'{"inputs":' * 20_000,
    b'{"inputs": "\\ud800 [MASK]", "input": "\\ud800"}',
    b'{"inputs": "a\\u0000[MASK]\\u0000", "input": "\\u0000"}',
    b'{"inputs": NaN, "input": Infinity}', b'{"inputs": ' + b"9" * 5000 + b"}",
    b'{"inputs": "[MASK]", "parameters": {"top_k": 1e400}}',
    b'{"inputs": "[MASK]", "parameters": {"top_k": -1}, "layer": -99, "mask": -1, "dimensions": 0}',
    b'{"inputs": "[MASK]", "parameters": {"targets": []}}',
    b'{"inputs": "[MASK]", "model": "../../etc/passwd"}', b'{"inputs": "[MASK]", "model": ""}',
    b'{"inputs": "", "input": ""}', b'{"inputs": [""], "input": [""]}', b'{"inputs": [], "input": []}',
    b'{"inputs": ["", ""], "input": []}', b'{"inputs": [[], []], "ids": [[]]}', b'{"ids": [-1]}',
    b'{"ids": [2147483647]}', b'{"inputs": {"question": "", "context": ""}}', b'{"inputs": [{}]}',
    b'{"inputs": {"source_sentence": "", "sentences": []}}', b'{"query": "", "texts": []}',
    b'{"inputs": [["a", "b", "c"]]}', b'{"inputs": [["a"], ["a", "b"]]}', b'{"inputs": [["a"], "b"]}',
    b'{"inputs": ["a", "a a"], "word": ""}', b'{"inputs": ["a", "a a"], "word": "a", "senses": 99}',
    b'{"inputs": ["", "a (b"], "word": "(b"}', b'{"inputs": ["a a"], "word": "a", "layer": 99}',
    b'{"inputs": "[MASK]", "target": "", "parameters": null}',
    b'{"inputs": "[MASK][CLS][SEP][PAD]", "target": "[SEP]"}',
    ('{"inputs": "' + "[MASK]" * 60 + '"}').encode(), ('{"inputs": "' + "á̂" * 300 + '"}').encode(),
]  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
def test_malformed_bodies_are_told_what_is_wrong(client: httpx.Client, path: str) -> None:
    for body in BODIES:
        answer = client.post(path, content=body, headers=JSON)
        assert answer.status_code < 500, (body[:80], answer.text)
        if answer.status_code != 200:
            found = answer.json()["error"]
            message = found["message"] if isinstance(found, dict) else found
            assert message
            assert len(message) < 300
            assert "Traceback" not in message
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None):
        headers = {"content-type": kind} if kind else None
        refused = client.post(path, content=b'{"inputs": "[MASK]"}', headers=headers)
        assert refused.status_code == 422
        assert "content-type: application/json" in refused.text
    assert client.get("/health").status_code == 200


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = ["inputs", "input", "parameters", "model", "query", "texts", "ids", "layer", "mask", "target",
        "truncate", "normalize", "dimensions", "encoding_format"]  # fmt: skip


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(ROUTES), body=st.dictionaries(st.sampled_from(KEYS), json_values))
def test_arbitrary_values_never_break_the_server(
    client: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    answer = client.post(path, content=json.dumps(body).encode(), headers=JSON)
    assert answer.status_code < 500, answer.text


@pytest.mark.slow
def test_what_the_schema_allows_and_forbids(server: Running) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 25
    for operation in operations:
        for mode in GenerationMode if operation.method == "post" else [GenerationMode.POSITIVE]:

            @settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
            @given(operation.as_strategy(generation_mode=mode))
            def check(case: Any) -> None:
                case.call_and_validate(checks=[not_a_server_error], timeout=30)

            check()


@pytest.mark.slow
def test_memory_stays_flat(client: httpx.Client, server: Running) -> None:
    psutil = pytest.importorskip("psutil")
    process = psutil.Process(server.process.pid)
    bodies = [*BODIES, b'{"inputs": "' + b"a " * 200_000 + b'"}', b"x" * 3_000_000]

    def spend() -> int:
        for path in ("/embed", "/fill-mask", "/v1/embeddings"):
            for body in bodies:
                client.post(path, content=body, headers=JSON)
        return int(process.memory_info().rss)

    spend()
    before = spend()
    for _ in range(5):
        after = spend()
    assert after < before + (40 << 20)
