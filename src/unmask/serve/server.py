"""Start, serve, and end in good order."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
import uvicorn

from unmask.errors import ConfigError
from unmask.predict.standardise import Standardiser
from unmask.progress import SILENT, Progress
from unmask.serve.app import create_app
from unmask.serve.batcher import Batcher
from unmask.serve.guard import Log, is_loopback
from unmask.serve.metrics import Measures
from unmask.serve.models import Served, load_models
from unmask.serve.protocol import BoundedProtocol
from unmask.serve.site import Limits, Site

_CONNECTIONS = 4096
_TOKENS_PER_CORE = 128
"""Cores that share fewer wait for one another, most of all where other programs run too."""
_ORIGIN = re.compile(
    r"(?!http:.*:80$|https:.*:443$)[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:]+\])(:[0-9]+)?|null|\*"
)
"""As browsers write them, without the usual port; anything else would be compared with them in vain."""
_GRACE = 5.0
"""Seconds beyond the limit of a request after which the end no longer waits for it."""


@dataclass(frozen=True)
class Settings:
    """How to serve."""

    host: str = "127.0.0.1"
    port: int = 8000
    key: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    runs: Path | None = None
    origins: Sequence[str] = ()
    log: Log = "requests"
    limits: Limits = field(default_factory=Limits)
    standardisers: Mapping[str, Sequence[Standardiser]] = field(default_factory=dict)


def serve(
    folders: Mapping[str, str],
    settings: Settings,
    ready: Callable[[str, Sequence[Served]], None],
    progress: Progress = SILENT,
) -> None:
    """Load the models and answer until SIGTERM or Ctrl-C; what was accepted is finished.

    `ready` is told the address and the models as soon as requests are answered.
    """
    check_settings(settings)
    # Requests are read side by side already; more threads for each only wait for one another.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with bound(settings.host, settings.port) as listening:  # a port that is taken is told before loading
        progress.say(f"loading {', '.join(folders)}")
        models = load_models(folders, settings.device, settings.dtype, settings.standardisers)
        site = open_site(models, settings)
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        url = f"http://{shown}:{listening.getsockname()[1]}"
        try:
            _run(site, settings, listening, lambda: ready(url, models))
        finally:
            site.batcher.stop()


def check_settings(settings: Settings) -> None:
    """An error if strangers could come in, or a folder is missing."""
    if settings.key is None and not is_loopback(settings.host):
        raise ConfigError(
            f"{settings.host} can be reached from other machines: set a key (UNMASK_API_KEY or --key-file), "
            "or leave out --host"
        )
    if (key := settings.key) is not None and not (len(key) >= 16 and key.isascii() and key.isprintable()):
        raise ConfigError("the key should have at least 16 characters, all of them printable ASCII")
    for origin in settings.origins:
        if not _ORIGIN.fullmatch(origin):
            raise ConfigError(
                f"--allow-origin {origin}: no browser names a site so: write https://name or"
                " http://name:port, in small letters, without the usual port and with nothing after it"
            )
    if settings.runs is not None and not settings.runs.is_dir():
        raise ConfigError(f"--runs: {settings.runs} is no folder")


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that holds the address but does not listen yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError as error:
        raise ConfigError(f"--host {host}: {error.strerror or error}") from None
    with listening:
        try:
            listening.bind(address)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{host}:{port} cannot be had ({reason}): choose another --port") from None
        yield listening


def open_site(models: Sequence[Served], settings: Settings) -> Site:
    """The models with their queue: on a CPU one thread per core, else one that the device shares out."""
    on_cpu = all(served.predictor.device.type == "cpu" and not served.onnx for served in models)
    cores = torch.get_num_threads() if on_cpu else 1
    measures = Measures()

    def prepare(tokens: int) -> None:
        torch.set_num_threads(max(1, min(cores, tokens // _TOKENS_PER_CORE)))

    batcher = Batcher(
        workers=cores,
        budget=min(served.predictor.budget for served in models),
        limit=settings.limits.queue_tokens,
        prepare=prepare if cores > 1 else lambda tokens: None,
        told=measures.batch,
    )
    measures.watch(batcher)
    named = {served.name: served for served in models}
    return Site(named, batcher, measures, settings.limits, settings.runs, settings.key)


class _Server(uvicorn.Server):
    """Uvicorn, which ends by the signal it got; ours ends with status 0."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def _run(site: Site, settings: Settings, listening: socket.socket, ready: Callable[[], None]) -> None:
    config = uvicorn.Config(
        create_app(site, settings.origins, settings.log),
        http=BoundedProtocol,
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        lifespan="off",  # there is nothing to do at the start, and an end at once would show a traceback
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=int(settings.limits.seconds + _GRACE),
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_Server(config, ready).serve([listening]))


def read_key(file: Path | None) -> str | None:
    """The key in a file, else in UNMASK_API_KEY; none if neither is there. Never on the command line."""
    if file is not None:
        try:
            key = file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--key-file {file} cannot be read: {error}") from None
        if not key:
            raise ConfigError(f"--key-file {file} is empty")
        return key
    given = os.environ.get("UNMASK_API_KEY")
    return given.strip() if given else None
