"""The door: who may come in, how large a request may be, how long it may take; and the log of all that.

It stands before the routes, so that nothing of a refused request is parsed.
"""

import asyncio
import hmac
import ipaddress
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Literal

import orjson

from unmask.serve.errors import ENDING, FAULT, ApiError, too_large
from unmask.serve.site import Record, Site, record

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Log = Literal["off", "requests", "texts"]
"""What is logged: nothing but faults, a line per request, or also what was asked."""
_OPEN = ("/", "/health", "/ping", "/info")
_DRAINED, _DRAIN_SECONDS = 8, 2.0
"""A body too large is read on, up to so many times the limit, so that its client hears why it is refused."""
_AFTER_SECONDS = 1.0
"""What a route may still do when its answer is sent."""
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


def log_line(event: str, **values: Any) -> None:
    """One JSON object on standard error."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **values}
    with suppress(OSError):  # whoever read the log has gone; requests are answered all the same
        print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)


class Guard:
    """The routes behind a door."""

    def __init__(self, app: App, site: Site, log: Log = "requests") -> None:
        self.app, self.site, self.log = app, site, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the messages of start and end."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        told = Record()
        record.set(told)
        reply = _Reply(send, told, scope["path"])
        method = scope["method"]
        try:
            self._check(scope, told)
            if method == "HEAD":  # answered as GET is; the connection leaves the body out
                scope = {**scope, "method": "GET"}
            body = await self._read(receive)
            if self.log == "texts":
                log_line("body", id=told.id, text=body.decode("utf-8", "replace"))
            await self._answer(scope, body, receive, reply)
        except ApiError as error:
            await reply.error(error)
        except _Gone:
            self.site.measures.dropped.inc()
            reply.status = 499
        except asyncio.CancelledError:  # Ctrl-C came a second time, or the end waited long enough
            await reply.error(ENDING)
        except Exception as error:  # a fault of ours: where, but not the texts that an error may quote
            frame = traceback.extract_tb(error.__traceback__)[-1]
            log_line("fault", id=told.id, kind=type(error).__name__, file=frame.filename, line=frame.lineno)
            await reply.error(FAULT)
        self._finish(scope, method, told, reply.status)

    def _check(self, scope: Scope, told: Record) -> None:
        """The key; where none is asked for, that a browser was not led here under another name."""
        headers = dict(scope["headers"])
        key = self.site.key
        if key is None:
            host = headers.get(b"host", b"").decode("latin-1")
            if not is_loopback(_name(host)):
                raise ApiError(403, "host", "without a key this server answers to localhost only")
            return
        given = headers.get(b"authorization", b"")
        told.known = hmac.compare_digest(given, f"Bearer {key}".encode())
        path, reads = scope["path"], scope["method"] in ("GET", "HEAD")
        if not told.known and not (reads and (path in _OPEN or path.startswith("/studio/"))):
            raise ApiError(
                401, "unauthorized", "send the key: Authorization: Bearer …", {"www-authenticate": "Bearer"}
            )

    async def _read(self, receive: Receive) -> bytes:
        """The body, if it is not too large and comes in time."""
        limit, body, more = self.site.limits.body_bytes, bytearray(), True
        try:
            async with asyncio.timeout(self.site.limits.seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > limit:
                        await _drain(receive, more, _DRAINED * limit)
                        raise too_large(f"the body is larger than {limit} bytes")
        except TimeoutError:
            raise ApiError(408, "timeout", "the body did not come in time", {"connection": "close"}) from None
        return bytes(body)

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, reply: "_Reply") -> None:
        """Run the routes until they are done, the client leaves, or time is over."""
        given = [{"type": "http.request", "body": body, "more_body": False}]
        left = asyncio.ensure_future(receive())

        async def replay() -> MutableMapping[str, Any]:
            return given.pop() if given else await asyncio.shield(left)

        work = asyncio.ensure_future(self.app(scope, replay, reply.send))
        try:
            await asyncio.wait(
                {work, left}, timeout=self.site.limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if reply.sent:  # the client is also told to have left when it has everything
                await asyncio.wait({work}, timeout=_AFTER_SECONDS)
            if work.done():
                work.result()
            elif reply.sent:
                return
            elif left.done():
                raise _Gone
            else:
                message = f"not done within {self.site.limits.seconds:g} seconds"
                raise ApiError(504, "timeout", message)
        finally:
            for task in (work, left):
                task.cancel()
            await asyncio.wait({work, left})

    def _finish(self, scope: Scope, method: str, told: Record, status: int) -> None:
        route = getattr(scope.get("route"), "path", "other")
        seconds = time.perf_counter() - told.begun
        measures = self.site.measures
        measures.requests.labels(route, str(status)).inc()
        measures.duration.labels(route).observe(seconds)
        if told.texts:
            measures.queue_duration.observe(told.queued)
        if self.log != "off":
            spent = {"ms": seconds, "queue_ms": told.queued, "inference_ms": told.computed}
            line = {"id": told.id, "method": method, "route": route, "status": status}
            line |= {name: round(1000 * value, 2) for name, value in spent.items()}
            log_line("request", **line, model=told.model, texts=told.texts, tokens=told.tokens)


class _Gone(Exception):  # noqa: N818
    """The client left."""


class _Reply:
    """Answers once, with the headers that every answer has."""

    def __init__(self, send: Send, told: Record, path: str) -> None:
        self._send, self._told, self._path = send, told, path
        self.status, self.sent = 0, False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Pass on what the routes send."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *_HEADERS, *self._own()]
        await self._send(message)
        self.sent = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def error(self, error: ApiError) -> None:
        """Answer with an error, unless an answer has begun."""
        if self.status:
            return
        body = orjson.dumps(error.body(self._path))
        headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": error.status, "headers": pairs})
        await self.send({"type": "http.response.body", "body": body})

    def _own(self) -> list[tuple[bytes, bytes]]:
        told = self._told
        own = {"x-request-id": told.id}
        if told.texts:
            times = {"total": time.perf_counter() - told.begun, "tokenization": told.read}
            times |= {"queue": told.queued, "inference": told.computed}
            own |= {f"x-{name}-time": f"{1000 * seconds:.1f}" for name, seconds in times.items()}
            own |= {"x-compute-tokens": str(told.tokens)}
        return [(name.encode(), value.encode()) for name, value in own.items()]


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


async def _drain(receive: Receive, more: bool, limit: int) -> None:
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while more and limit > 0:
                message = await receive()
                limit -= len(message.get("body", b""))
                more = message.get("more_body", False)
    except TimeoutError:
        pass
