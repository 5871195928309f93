"""Start, load and end of a real server."""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.serve.conftest import Running, running
from typer.testing import CliRunner

from unmask.cli import app as cli
from unmask.errors import UserError
from unmask.predict import load
from unmask.predict.predictor import Predictor
from unmask.serve.names import named_folders
from unmask.serve.server import Settings, serve

WORDS = "o gato preto dorme no telhado da casa velha the river rose all night and nobody knew why".split()


def texts(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 30))) for _ in range(count)]


def failing(*arguments: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "unmask", "serve", *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "UNMASK_API_KEY"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    return run.returncode, run.stderr.splitlines()


def test_the_start_says_what_is_loaded_and_where(server: Running) -> None:
    assert server.said[0].startswith("loading lm, ")
    assert server.said[1] == "lm: fill-mask (fill-mask, feature-extraction; float32)"
    assert len(server.said) == 7
    assert server.said[-1] == f"ready: {server.url}"


def test_a_missing_folder_is_one_line_at_once() -> None:
    status, said = failing("missing-folder")
    assert status == 2
    assert len(said) == 1
    assert "no model folder at missing-folder" in said[0]


def test_what_cannot_be_served_is_said_before_or_while_loading(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.json").write_text('{"model_type": "bert"}')
    lm = str(folders["lm"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for names, changes, words in [
            ([str(tmp_path / "damaged")], {}, "damaged"),
            ([lm], {"port": taken.getsockname()[1]}, "choose another --port"),
            ([lm, lm], {}, "two models are called lm"),
            ([f"a b={lm}"], {}, "is no name"),
            ([lm], {"host": "0.0.0.0"}, "set a key"),
            ([lm], {"host": "192.0.2.1", "key": "x" * 16}, "192.0.2.1:0 cannot be had"),
            ([lm], {"runs": tmp_path / "none"}, "is no folder"),
            ([lm], {"dtype": "int3"}, "no dtype"),
            ([], {}, "at least one model"),
        ]:
            with pytest.raises(UserError, match=words):
                serve(named_folders(names), Settings(**{"port": 0} | changes), lambda *_: None)  # type: ignore[arg-type]


def test_a_request_may_not_take_for_ever(folders: dict[str, Path]) -> None:
    run = CliRunner().invoke(cli, ["serve", str(folders["lm"]), "--port", "0", "--timeout", "inf"])
    assert run.exit_code == 2
    assert "less than or equal to 86400" in " ".join(run.output.split())


@pytest.mark.slow
def test_the_start_as_json(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folders["lm"], tmp_path / "lm")
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {"bert.strange": np.zeros(3, np.float32)}, folder / "model.safetensors")
    command = [sys.executable, "-m", "unmask", "serve", str(folder), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert httpx.get(f"{told['url']}/health").status_code == 200
        process.terminate()
        rest, said = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")
    assert [model["name"] for model in told["models"]] == ["lm"]
    assert said.startswith("lm: unused")


@pytest.mark.slow
def test_a_port_that_is_taken_is_one_line(folders: dict[str, Path], server: Running) -> None:
    status, said = failing(str(folders["lm"]), "--port", server.url.rpartition(":")[2])
    assert (status, len(said)) == (2, 1)
    assert "choose another --port" in said[0]


@pytest.mark.slow
def test_a_graph_whose_batch_shares_a_scale_is_refused(tmp_path: Path, folders: dict[str, Path]) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from unmask.predict.convert import convert

    convert(folders["lm"], tmp_path / "own", "onnx", int8=True)
    convert(folders["lm"], tmp_path / "shared", "onnx")
    graph = onnx.load(tmp_path / "shared" / "model.onnx")
    del graph.graph.value_info[:]
    quantize_dynamic(
        graph, tmp_path / "shared" / "model.onnx", weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gemm"],
    )  # fmt: skip
    status, said = failing(str(tmp_path / "shared"))
    assert (status, len(said)) == (2, 2)
    assert "depends on the texts beside it" in said[1]
    some = texts(20)
    with running(str(tmp_path / "own")) as started:
        together = httpx.post(f"{started.url}/embed", json={"inputs": some}, timeout=60).json()
        alone = [httpx.post(f"{started.url}/embed", json={"inputs": each}).json()[0] for each in some]
    np.testing.assert_allclose(alone, together, atol=1e-5)
    expected = load(tmp_path / "own").embed(some, normalise=True)
    np.testing.assert_allclose(together, expected, atol=1e-5)


async def load_server(
    url: str,
    some: list[str],
    gone: set[int] = frozenset(),
    together: int = 32,  # type: ignore[assignment]
) -> list[object]:
    """Ask for each text's vector; clients in `gone` hang up while they wait. Answers or errors, in order."""
    limit = asyncio.Semaphore(together)
    host, port = url.removeprefix("http://").split(":")

    async def vanish(text: str) -> str:
        body = httpx.Request("POST", url, json={"inputs": text}).content
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /embed HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        await asyncio.sleep(random.Random(text).uniform(0, 0.02))
        writer.transport.abort()
        return "gone"

    async with httpx.AsyncClient(base_url=url, timeout=60) as client:

        async def one(number: int, text: str) -> object:
            async with limit:
                if number in gone:
                    return await vanish(text)
                answer = await client.post("/embed", json={"inputs": text})
                return answer.json()[0] if answer.status_code == 200 else answer.status_code

        tasks = [one(number, text) for number, text in enumerate(some)]
        return await asyncio.gather(*tasks, return_exceptions=True)


def test_an_answer_does_not_depend_on_its_companions(
    server: Running, predictors: dict[str, Predictor]
) -> None:
    some = texts(150)
    lm = predictors["lm"]
    alone = np.array([lm.embed(text, normalise=True) for text in some])
    found = asyncio.run(load_server(server.url, some))
    np.testing.assert_allclose(np.array(found), alone, atol=1e-5)


@pytest.mark.slow
def test_nor_does_it_with_a_published_model_and_long_texts(minilm: Path) -> None:
    some = [" ".join(texts(count, count)) for count in (1, 2, 4, 7, 9) * 8]
    with running(f"minilm={minilm}", "--quiet") as started:
        found = asyncio.run(load_server(started.url, some))
    model = load(minilm, "cpu")
    alone = np.array([model.embed(text, normalise=True) for text in some])
    np.testing.assert_allclose(np.array(found), alone, atol=1e-5)


@pytest.mark.slow
def test_a_thousand_requests_of_which_some_clients_vanish(
    server: Running, predictors: dict[str, Predictor]
) -> None:
    some = texts(1000, seed=1)
    gone = set(random.Random(2).sample(range(1000), 50))
    found = asyncio.run(load_server(server.url, some, gone))
    expected = predictors["lm"].embed(some, normalise=True)
    stayed = [number for number in range(1000) if number not in gone]
    np.testing.assert_allclose(np.array([found[n] for n in stayed]), expected[stayed], atol=1e-5)
    assert [found[n] for n in gone] == ["gone"] * 50
    for _ in range(100):
        lines = httpx.get(f"{server.url}/metrics").text.splitlines()
        waiting = [line for line in lines if line.startswith(("unmask_queue_size", "unmask_queue_tokens"))]
        if all(line.endswith(" 0.0") for line in waiting):
            break
        time.sleep(0.05)
    assert len(waiting) == 2
    assert all(line.endswith(" 0.0") for line in waiting)
    assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_finishes_what_was_accepted(folders: dict[str, Path], number: int) -> None:
    with running(f"lm={folders['lm']}", "--quiet", "--max-queue", "9000000") as started:
        host, port = started.url.removeprefix("http://").split(":")
        some = [" ".join(texts(4, seed))[:300] for seed in range(20)]

        async def main() -> list[object]:
            connections = [await asyncio.open_connection(host, int(port)) for _ in some]
            for (_, writer), text in zip(connections, some, strict=True):
                body = httpx.Request("POST", started.url, json={"inputs": [text] * 4}).content
                head = f"POST /score HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
                writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
            async with httpx.AsyncClient() as client:
                while "unmask_queue_size 0.0" in (await client.get(f"{started.url}/metrics")).text:
                    await asyncio.sleep(0.01)
            started.process.send_signal(number)
            replies = [await asyncio.wait_for(reader.read(), 60) for reader, _ in connections]
            for _, writer in connections:
                writer.close()
            return [reply.split(b"\r\n")[0] for reply in replies]

        statuses = asyncio.run(main())
        assert statuses == [b"HTTP/1.1 200 OK"] * 20
        with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port)), 5):
            pass
        _, told = started.process.communicate(timeout=60)
        assert started.process.returncode == 0
        assert told == ""


@pytest.mark.slow
def test_a_second_interrupt_ends_at_once_without_a_traceback(folders: dict[str, Path]) -> None:
    with running(f"lm={folders['lm']}", "--quiet", "--max-tokens", "9000000") as started:
        some = [" ".join(texts(4, seed))[:300] for seed in range(300)]

        async def main() -> httpx.Response:
            async with httpx.AsyncClient(timeout=60) as client:
                asked = asyncio.create_task(client.post(f"{started.url}/score", json={"inputs": some}))
                while "unmask_queue_size 0.0" in (await client.get(f"{started.url}/metrics")).text:
                    assert not asked.done()
                    await asyncio.sleep(0.01)
                for _ in range(2):
                    started.process.send_signal(signal.SIGINT)
                    await asyncio.sleep(0.1)
                return await asked

        assert asyncio.run(main()).status_code == 503
        _, told = started.process.communicate(timeout=60)
        assert (started.process.returncode, told) == (0, "")
