"""Connections of clients that send without end, or do not read, or do nothing at all."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from unmask.serve import protocol

LINE = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
LARGE = 30_000_000
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(
    scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    size = {"/": 2, "/large": LARGE, "/slow": 2}[scope["path"]]
    if scope["path"] == "/slow":
        await asyncio.sleep(0.6)
    head = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b"x" * size})


@asynccontextmanager
async def connected(state: ServerState) -> AsyncIterator[Streams]:
    config = uvicorn.Config(app, log_config=None, log_level="error", lifespan="off")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol.BoundedProtocol(config, state, {}), "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        yield reader, writer
        writer.close()
    finally:
        server.close()


def run(talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter, ServerState], Awaitable[None]]) -> None:
    async def main() -> None:
        state = ServerState()
        async with connected(state) as (reader, writer):
            await talk(reader, writer, state)

    asyncio.run(asyncio.wait_for(main(), 20))


@pytest.mark.parametrize("piece", [b"x-a: " + b"a" * 3000 + b"\r\n", b"a" * 3000])
def test_a_head_without_end_is_refused(piece: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: ServerState) -> None:
        writer.write(LINE + b"x-b: ")
        await asyncio.sleep(0.1)
        for _ in range(protocol.HEAD_BYTES // len(piece) + 1):  # what is not read would reset it
            writer.write(piece)
        said = await reader.read()
        assert said.startswith(b"HTTP/1.1 400")
        assert b"larger than 65536 bytes" in said

    run(talk)


def test_a_large_body_in_the_piece_of_its_head_is_none_of_it() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: ServerState) -> None:
        for _ in range(2):
            head = LINE.replace(b"GET", b"POST") + b"content-length: 200000\r\n\r\n"
            writer.write(head + b"x" * 200_000)
            assert (await reader.readuntil(b"xx")).startswith(b"HTTP/1.1 200")

    run(talk)


@pytest.mark.parametrize("sent", [b"", LINE, LINE + b"\r\n" + LINE])
def test_who_does_not_finish_a_head_is_not_waited_for(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: ServerState) -> None:
        writer.write(sent)
        said = await asyncio.wait_for(reader.read(), 5)
        assert said.count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")

    run(talk)


def test_between_requests_a_connection_may_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.1)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: ServerState) -> None:
        for _ in range(3):
            writer.write(LINE + b"\r\n")
            assert (await reader.readuntil(b"xx")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(0.3)

    run(talk)


def test_a_late_head_does_not_cut_off_the_answer_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.1)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: ServerState) -> None:
        writer.write(LINE.replace(b" / ", b" /slow ") + b"\r\n" + LINE)
        assert (await asyncio.wait_for(reader.read(), 5)).endswith(b"xx")

    run(talk)


@pytest.mark.parametrize("reads", [False, True])
def test_who_does_not_read_the_answer_is_dropped(reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "STALLED_SECONDS", 0.3)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: ServerState) -> None:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        writer.write(LINE.replace(b" / ", b" /large ") + b"\r\n")
        read, piece = 0, LARGE // 10
        while reads and read < LARGE:
            await asyncio.sleep(0.08)
            read += len(await reader.readexactly(min(piece, LARGE - read)))
        for _ in range(60):
            await asyncio.sleep(0.02)
        assert bool(state.connections) == reads

    run(talk)
