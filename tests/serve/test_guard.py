"""The door, in this process: keys, names, sizes, times, other sites, and what is logged."""

import asyncio
import html
import json
import math
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.predict.conftest import make_config, make_model, make_tokenizer

from unmask.errors import ConfigError, ModelError
from unmask.predict import Classifier, MaskedLM, load
from unmask.predict.predictor import Predictor
from unmask.serve import site as site_module
from unmask.serve import work
from unmask.serve.app import create_app
from unmask.serve.models import Served, check_companions
from unmask.serve.routes import analysis
from unmask.serve.server import Settings, check_settings, open_site, read_key
from unmask.serve.site import Limits, Site

KEY = "a-key-that-is-long-enough"
Open = Callable[..., httpx.AsyncClient]


@pytest.fixture
def opened(predictors: dict[str, Predictor]) -> Iterator[Open]:
    """Clients of servers with some settings."""
    sites: list[Site] = []

    def client(**changes: Any) -> httpx.AsyncClient:
        settings = replace(Settings(), **changes)
        sites.append(open_site([Served("lm", predictors["lm"])], settings))
        app = create_app(sites[-1], settings.origins, settings.log)
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
        return httpx.AsyncClient(transport=transport, base_url="http://localhost:8000")

    yield client
    for site in sites:
        site.batcher.stop()


def get(client: httpx.AsyncClient, path: str, method: str = "GET", **values: Any) -> httpx.Response:
    async def main() -> httpx.Response:
        return await asyncio.wait_for(client.request(method, path, **values), 20)

    return asyncio.run(main())


def test_without_the_key_only_the_page_and_its_state_are_shown(opened: Open) -> None:
    client = opened(key=KEY)
    for path in ("/", "/health", "/info", "/studio/index.html"):
        assert get(client, path).status_code == 200, path
    info = get(client, "/info").json()
    assert (info["key_needed"], info["models"]) == (True, [])
    assert "model_id" not in info
    body = {"inputs": "a"}
    wrong = ("", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Basic {KEY}", KEY, "Bearer é")
    for given in wrong:
        headers = {"authorization": given.encode()} if given else {}
        refused = get(client, "/embed", "POST", json=body, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
    for path in ("/metrics", "/docs", "/openapi.json", "/runs", "/v1/models"):
        assert get(client, path).status_code == 401, path
    assert get(client, "/", "POST", json=body).status_code == 401
    right = {"authorization": f"Bearer {KEY}"}
    assert get(client, "/embed", "POST", json=body, headers=right).status_code == 200
    assert [model["name"] for model in get(client, "/info", headers=right).json()["models"]] == ["lm"]
    examples = html.unescape(get(client, "/docs", headers=right).text)
    asking = 'curl -H "authorization: Bearer $UNMASK_API_KEY" http://'
    assert 20 < examples.count("curl ") == examples.count(asking)


def test_without_a_key_only_the_names_of_this_machine_are_answered(opened: Open) -> None:
    client = opened()
    for host in ("localhost", "127.0.0.1:99", "[::1]:8000", "LOCALHOST:1", "127.0.0.2"):
        assert get(client, "/health", headers={"host": host}).status_code == 200, host
    for host in ("evil.example", "localhost.evil.example:8000", "", "127.0.0.1.nip.example", "192.0.2.1"):
        assert get(client, "/health", headers={"host": host}).status_code == 403, host
    assert get(opened(key=KEY), "/health", headers={"host": "models.example"}).status_code == 200


def test_other_sites_may_ask_only_if_named(opened: Open) -> None:
    asked = {"origin": "https://site.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in get(opened(), "/embed", "OPTIONS", headers=asked).headers
    client = opened(origins=["https://site.example"], key=KEY)
    allowed = get(client, "/embed", "OPTIONS", headers=asked)
    assert allowed.headers["access-control-allow-origin"] == "https://site.example"
    assert "access-control-allow-credentials" not in allowed.headers
    wanted = "authorization, content-type, x-stainless-lang, x-stainless-retry-count"
    openai = get(client, "/embed", "OPTIONS", headers={**asked, "access-control-request-headers": wanted})
    assert (openai.status_code, openai.headers["access-control-allow-headers"]) == (200, wanted)
    refused = get(client, "/embed", "POST", headers={"origin": "https://site.example"}, json={"inputs": "a"})
    assert refused.status_code == 401
    assert refused.headers["access-control-expose-headers"] == "retry-after, x-request-id"
    chromium = {**asked, "access-control-request-private-network": "true"}
    near = get(client, "/embed", "OPTIONS", headers=chromium)
    assert (near.status_code, near.headers["access-control-allow-private-network"]) == (200, "true")
    head = get(client, "/health", "OPTIONS", headers={**asked, "access-control-request-method": "HEAD"})
    assert head.status_code == 200
    other = get(client, "/embed", "OPTIONS", headers={**asked, "origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers


def test_a_body_is_measured_while_it_comes(opened: Open) -> None:
    client = opened(limits=Limits(body_bytes=1000))
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1000):
            sent += 100
            yield b"x" * 100

    for content in (b"x" * 1001, endless()):
        refused = get(client, "/embed", "POST", content=content)
        assert refused.status_code == 413
        assert "1000 bytes" in refused.json()["error"]
    assert sent < 20_000
    assert get(client, "/embed", "POST", json={"inputs": "a " * 490}).status_code == 413  # of tokens
    assert get(client, "/embed", "POST", json={"inputs": "a " * 20}).status_code == 200


def test_limits_of_texts_and_tokens_are_named(opened: Open) -> None:
    client = opened(limits=Limits(texts=3, tokens=100))
    many = get(client, "/embed", "POST", json={"inputs": ["a"] * 4})
    assert (many.status_code, "at most 3" in many.json()["error"]) == (413, True)
    long = get(client, "/score", "POST", json={"inputs": "o rio subiu e o gato dorme"})
    assert (long.status_code, "at most 100" in long.json()["error"]) == (413, True)
    fills = get(client, "/fill-mask", "POST", json={"inputs": "[MASK] " * 20, "parameters": {"top_k": 1000}})
    assert (fills.status_code, "candidates" in fills.json()["error"]) == (413, True)
    split = get(client, "/tokenize", "POST", json={"inputs": "a " * 200})
    assert (split.status_code, "at most 100" in split.json()["error"]) == (413, True)
    empty = get(client, "/embed", "POST", json={"inputs": []})
    assert (empty.status_code, empty.json()["error_type"]) == (400, "empty")


def test_large_answers_and_long_readings_are_refused_at_once(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = opened()

    def refused(path: str, **body: Any) -> str:
        answer = get(client, path, "POST", json=body)
        assert answer.status_code == 413, answer.text
        return str(answer.json()["error"])

    targets = {"targets": [f"{number}" for number in range(10_001)]}
    assert "10001 candidates" in refused("/fill-mask", inputs="[MASK]", parameters=targets)
    rivers = "rio " * 60
    assert "at most 1000" in refused("/senses", word="rio", inputs=[rivers] * 20)
    assert "sentences rather than" in refused("/senses", word="rio", inputs=["a" * 100_000 + rivers])
    monkeypatch.setattr(site_module, "_LONG", 1000)
    for few in ({"targets": [*"abcdefgh"]}, {"top_k": 8}):
        assert "characters" in refused("/fill-mask", inputs="[MASK] " + "rio " * 40, parameters=few)
    monkeypatch.setattr(analysis, "_COSINES", 30)
    assert "pairs of words" in refused("/words", inputs=["o rio subiu e subiu", "o gato dorme"])
    monkeypatch.setattr(analysis, "_WEIGHTS", 12 * 11**2)
    assert "at most 11," in refused("/attention", inputs=rivers)
    assert get(client, "/attention", "POST", json={"inputs": "o rio"}).status_code == 200


def test_attention_waits_as_what_it_is_large(opened: Open) -> None:
    client = opened()
    short, long = (
        get(client, "/attention", "POST", json={"inputs": "o " * count}).headers["x-compute-tokens"]
        for count in (3, 100)
    )
    assert (int(short), int(long)) == (5, 12 * 102**2 // 256)


def test_time_over_is_said_and_the_rest_dropped(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def slow(served: Served, texts: list[str]) -> list[Any]:
        released.wait(10)
        raise AssertionError("nobody waits")

    monkeypatch.setattr(work, "embed", slow)
    client = opened(limits=Limits(seconds=0.3))
    late = get(client, "/v1/embeddings", "POST", json={"input": "a"})
    released.set()
    assert late.status_code == 504
    assert late.json()["error"]["type"] == "timeout"


def test_who_waits_when_the_server_ends_at_once_is_told(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()

    def slow(served: Served, texts: list[str]) -> list[Any]:
        begun.set()
        released.wait(10)
        raise AssertionError("nobody waits")

    monkeypatch.setattr(work, "embed", slow)
    client = opened()

    async def main() -> httpx.Response:
        asked = asyncio.create_task(client.post("/embed", json={"inputs": "a"}))
        await asyncio.to_thread(begun.wait, 10)
        asked.cancel()
        return await asked

    told = asyncio.run(main())
    released.set()
    assert (told.status_code, told.headers["retry-after"]) == (503, "5")
    assert told.json()["error"] == "the server is shutting down"


def test_a_body_that_does_not_come_is_not_waited_for(opened: Open) -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(10)

    late = get(opened(limits=Limits(seconds=0.2)), "/embed", "POST", content=never())
    assert late.status_code == 408


def test_a_full_queue_is_429_with_a_time(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    computed = work.embed

    def slow(served: Served, texts: list[str]) -> Any:
        released.wait(10)
        return computed(served, texts)

    monkeypatch.setattr(work, "embed", slow)
    client = opened(limits=Limits(queue_tokens=30))

    async def main() -> list[httpx.Response]:
        async def post() -> httpx.Response:
            return await client.post("/embed", json={"inputs": "o rio subiu"})

        tasks = [asyncio.create_task(post()) for _ in range(30)]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0.01)
        released.set()
        return list(await asyncio.gather(*tasks))

    answers = asyncio.run(asyncio.wait_for(main(), 20))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert refused[0].json()["error_type"] == "overloaded"


def test_a_fault_of_ours_is_500_without_its_message(
    opened: Open, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(served: Served, texts: list[str]) -> Any:
        raise ZeroDivisionError("about a secret text")

    monkeypatch.setattr(work, "embed", broken)
    client = opened()
    failed = get(client, "/embed", "POST", json={"inputs": "a"})
    assert failed.status_code == 500
    assert failed.json()["error_type"] == "internal"
    assert "secret" not in failed.text
    told = capfd.readouterr().err
    assert "ZeroDivisionError" in told
    assert "secret" not in told
    assert get(client, "/health").status_code == 200


def test_the_log_has_times_and_no_texts_unless_asked(opened: Open, capfd: pytest.CaptureFixture[str]) -> None:
    body = {"inputs": ["segredo", "outro"]}
    get(opened(), "/embed?q=oculto", "POST", json=body)
    line = json.loads(capfd.readouterr().err)
    assert (line["event"], line["route"], line["status"], line["texts"]) == ("request", "/embed", 200, 2)
    assert line["tokens"] > 3
    assert line["ms"] >= line["inference_ms"] > 0
    assert not {"segredo", "oculto"} & set(json.dumps(line).split('"'))
    get(opened(), "/segredo/%0a{}", "GET")
    assert "segredo" not in capfd.readouterr().err
    get(opened(log="texts"), "/embed", "POST", json=body)
    assert "segredo" in capfd.readouterr().err
    get(opened(log="off"), "/embed", "POST", json=body)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("log", ["requests", "texts"])
def test_requests_are_answered_when_nobody_reads_the_log(
    opened: Open, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    closed = open(writer, "w", buffering=1)  # noqa: SIM115 - it cannot be closed without an error
    monkeypatch.setattr("sys.stderr", closed)
    client = opened(log=log)
    try:
        assert get(client, "/embed", "POST", json={"inputs": "a"}).status_code == 200
        assert 'route="/embed",status="200"' in get(client, "/metrics").text
    finally:
        with suppress(BrokenPipeError):
            closed.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "0.0.0.0"}, "set a key"),
        ({"host": "example.org"}, "set a key"),
        ({"key": "short"}, "at least 16"),
        ({"key": f"{KEY}\n{KEY}"}, "printable"),
        ({"origins": ["https://site.example/"]}, "https://site.example/: no browser names a site so"),
        ({"origins": ["https://a.example", "site.example"]}, "site.example: no browser"),
        ({"origins": ["https://Site.example"]}, "in small letters"),
        ({"origins": ["https://site.example/page"]}, "nothing after it"),
        ({"origins": ["https://site.example:443"]}, "without the usual port"),
        ({"origins": ["http://[::1]:80"]}, "without the usual port"),
    ],
)
def test_unsafe_settings_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_settings(replace(Settings(), **changes))
    check_settings(replace(Settings(), host="0.0.0.0", key=KEY))
    check_settings(replace(Settings(), host="::1"))
    sites = ("https://site.example", "http://localhost:3000", "http://[::1]:8080", "app://x_y", "null", "*")
    check_settings(replace(Settings(), origins=sites))


def test_the_end_of_a_line_is_no_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    assert read_key(tmp_path / "key") == KEY
    for given, key in ((f"{KEY}\n", KEY), ("", None), (" ", "")):
        monkeypatch.setenv("UNMASK_API_KEY", given)
        assert read_key(None) == key


def test_a_head_of_nans_is_told_without_its_folder(folders: dict[str, Path]) -> None:
    predictor = load(folders["topics"], "cpu")
    assert isinstance(predictor, Classifier)
    list(predictor.network.parameters())[-1].data.fill_(math.nan)
    site = open_site([Served("topics", predictor)], Settings())
    transport = httpx.ASGITransport(create_app(site))  # type: ignore[arg-type]
    client = httpx.AsyncClient(transport=transport, base_url="http://localhost:8000")
    told = get(client, "/predict", "POST", json={"inputs": "a"})
    site.batcher.stop()
    assert (told.status_code, told.json()["error_type"]) == (500, "model")
    assert told.json()["error"].startswith("topics: its weights or scores are not finite")


def test_a_model_of_nans_is_not_blamed_on_a_conversion() -> None:
    tokenizer = make_tokenizer("wordpiece")
    model = make_model(make_config(tokenizer))
    next(model.parameters()).data.fill_(math.nan)
    with pytest.raises(ModelError, match="its weights or scores are not finite") as caught:
        check_companions(Served("broken", MaskedLM(model, tokenizer)))
    assert "convert" not in str(caught.value)
