"""`unmask serve` against infinity-emb, both serving all-MiniLM-L6-v2 on the CPU: throughput and latency.

Closed loop: so many clients, each of which asks again as soon as it has its answer. Open loop: requests
arrive at random (Poisson) at a given rate, and latency counts from the moment a request was due. The sides
take turns; the one that waits is idle. infinity-emb pins old packages, so it lives in an environment of its
own: `python -m venv peer && peer/bin/pip install "infinity-emb[torch,server]"`, then `--peer peer`.
"""

import argparse
import asyncio
import base64
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common import arguments, clean, minilm, table, write_result
from inference_cpu import read_texts

CLIENTS = (1, 8, 64)
SHARES = (0.5, 0.8, 1.1)
"""Rates of the open loop, as shares of what the peer reaches in the closed loop."""
NAME = "minilm"


@dataclass(frozen=True)
class Side:
    """A server: how it is started, and where it makes vectors."""

    name: str
    command: list[str]
    path: str
    port: int


@dataclass(frozen=True)
class Load:
    """What some seconds of load gave."""

    rate: float
    """Requests answered per second."""
    latencies: tuple[float, ...]
    errors: int

    def quantile(self, share: float) -> float:
        """Milliseconds within which that share of the requests was answered."""
        return 1000 * float(np.quantile(self.latencies, share))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def sides(peer: Path | None) -> list[Side]:
    folder, ports = str(minilm()), [free_port() for _ in range(3)]
    ours = [sys.executable, "-m", "unmask", "serve", f"{NAME}={folder}", "--device", "cpu", "--quiet"]
    found = [
        Side("unmask", [*ours, "--port", str(ports[0])], "/v1/embeddings", ports[0]),
        Side("unmask, int8", [*ours, "--dtype", "int8", "--port", str(ports[1])], "/v1/embeddings", ports[1]),
    ]
    if peer is not None:
        theirs = [str(peer / "bin" / "infinity_emb"), "v2", "--model-id", folder, "--served-model-name", NAME]
        theirs += ["--engine", "torch", "--device", "cpu", "--host", "127.0.0.1", "--port", str(ports[2])]
        found.append(Side("infinity-emb", [*theirs, "--log-level", "warning"], "/embeddings", ports[2]))
    return found


@contextmanager
def serving(side: Side) -> Iterator[None]:
    """The server, ready."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["INFINITY_ANONYMOUS_USAGE_STATS"] = "0"
    with subprocess.Popen(side.command, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            for _ in range(600):
                time.sleep(0.2)
                if process.poll() is not None:
                    sys.exit(f"{side.name} did not start: {' '.join(side.command)}")
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{side.port}/health").close()
                    break
                except OSError:
                    continue
            yield
        finally:
            process.send_signal(signal.SIGTERM)


class Client:
    """One connection that is kept; as little work as possible, since it shares the machine."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer; an error if it is not 200."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._side.port)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(head)
        return body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def requests(side: Side, texts: list[str]) -> list[bytes]:
    """Each text as the bytes of a request."""
    made = []
    for text in texts:
        body = json.dumps({"model": NAME, "input": [text], "encoding_format": "base64"}).encode()
        head = f"POST {side.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        made.append(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return made


async def closed(side: Side, texts: list[str], clients: int, seconds: float, seed: int) -> Load:
    """Clients that ask again and again."""
    made, latencies, errors = requests(side, texts), [], 0
    begun = time.perf_counter()
    end = begun + seconds

    async def client(number: int) -> None:
        nonlocal errors
        draw, connection = random.Random(f"{seed} {number}"), Client(side)
        while (asked := time.perf_counter()) < end:
            try:
                await connection.ask(draw.choice(made))
                latencies.append(time.perf_counter() - asked)
            except ValueError:
                errors += 1
        connection.close()

    await asyncio.gather(*map(client, range(clients)))
    return Load(len(latencies) / (time.perf_counter() - begun), tuple(latencies), errors)


async def opened(side: Side, texts: list[str], rate: float, seconds: float, seed: int) -> Load:
    """Requests that arrive at random; a connection is made when none is idle."""
    made, latencies, errors = requests(side, texts), [], 0
    draw, idle, waiting = random.Random(seed), list[Client](), set[asyncio.Task[None]]()
    begun = due = time.perf_counter()

    async def one(due: float, request: bytes) -> None:
        nonlocal errors
        connection = idle.pop() if idle else Client(side)
        try:
            await connection.ask(request)
            latencies.append(time.perf_counter() - due)
        except ValueError:
            errors += 1
        idle.append(connection)

    while (due := due + draw.expovariate(rate)) < begun + seconds:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(one(due, draw.choice(made)))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    await asyncio.gather(*waiting)
    for connection in idle:
        connection.close()
    return Load(len(latencies) / (time.perf_counter() - begun), tuple(latencies), errors)


def vectors(side: Side, texts: list[str]) -> np.ndarray:
    """What the side answers, to see that both do the same work."""

    async def main() -> list[bytes]:
        connection = Client(side)
        return [await connection.ask(request) for request in requests(side, texts)]

    bodies = [json.loads(body)["data"][0]["embedding"] for body in asyncio.run(main())]
    rows = np.array([np.frombuffer(base64.b64decode(body), "<f4") for body in bodies])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def rounds(
    every: list[Side], run: Callable[[Side, int], Load], count: int, what: str
) -> dict[str, list[Load]]:
    """Each side in turn, `count` times, in an order that changes."""
    found: dict[str, list[Load]] = {side.name: [] for side in every}
    for number in range(count):
        for side in every[number % len(every) :] + every[: number % len(every)]:
            load = run(side, number)
            found[side.name].append(load)
            print(f"{what}: {side.name} {load.rate:.0f}/s, p99 {load.quantile(0.99):.0f} ms", file=sys.stderr)
    return found


def rows_of(what: str, loads: dict[str, list[Load]], peer: str) -> list[tuple[str, ...]]:
    """Medians over the rounds."""
    middle = {name: statistics.median(load.rate for load in each) for name, each in loads.items()}
    return [
        (
            what,
            name,
            f"{middle[name]:.1f}",
            f"{middle[name] / middle[peer]:.2f}" if peer in middle else "",
            *(
                f"{statistics.median(load.quantile(share) for load in each):.0f}"
                for share in (0.5, 0.95, 0.99)
            ),
            str(sum(load.errors for load in each)),
        )
        for name, each in loads.items()
    ]


def measure(every: list[Side], texts: list[str], options: argparse.Namespace) -> list[tuple[str, ...]]:
    peer, seconds = every[-1].name, options.seconds
    found, rates = [], []
    for clients in CLIENTS:
        what = f"closed, {clients} client{'s' if clients > 1 else ''}"

        def closed_loop(side: Side, number: int, clients: int = clients) -> Load:
            return asyncio.run(closed(side, texts, clients, seconds, number))

        loads = rounds(every, closed_loop, options.rounds, what)
        rates.append(statistics.median(load.rate for load in loads[peer]))
        found += rows_of(what, loads, peer)
    for share in SHARES:
        rate = share * max(rates)
        what = f"open, {rate:.0f}/s"

        def open_loop(side: Side, number: int, rate: float = rate) -> Load:
            return asyncio.run(opened(side, texts, rate, seconds, number))

        found += rows_of(what, rounds(every, open_loop, options.rounds, what), peer)
    return found


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, help="the environment of infinity-emb")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    scratch = options.scratch / "serve"
    texts = read_texts(options.texts, scratch)
    every = sides(options.peer)
    with ExitStack() as stack:
        for side in every:
            stack.enter_context(serving(side))
        made = {side.name: vectors(side, texts[:50]) for side in every}  # and they are warm now
        cosines = {name: float((rows * made[every[-1].name]).sum(1).mean()) for name, rows in made.items()}
        found = measure(every, texts, options)
    peer = every[-1].name
    agree = ", ".join(f"{name} {cosine:.5f}" for name, cosine in cosines.items() if name != peer)
    body = (
        f"{len(texts):,} paragraphs and sentences, one text per request, all-MiniLM-L6-v2; clients and "
        f"server on the same machine; each side in turn, median of {options.rounds} rounds of "
        f"{options.seconds:g} s. "
        f"Mean cosine with the vectors of {peer}: {agree}. "
        f"Errors of unmask are texts longer than the model was published for: it refuses "
        f"them with status 413, {peer} cuts them off.\n\n"
    )
    head = ["load", "side", "requests/s", f"× {peer}", "p50 ms", "p95 ms", "p99 ms", "errors"]
    write_result(
        "serve", "Serving sentence vectors on the CPU", body + table(head, found), ["torch", "uvicorn"]
    )
    clean(scratch)


if __name__ == "__main__":
    main()
