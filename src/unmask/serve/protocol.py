"""Connections that neither take up memory nor stay for ever: what uvicorn leaves open is bounded here."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_BYTES = 65_536
HEAD_SECONDS = 20.0
"""How long the first lines of a request may be, and take; before them nobody knows who asks."""
STALLED_SECONDS = 30.0
"""A client that reads nothing of its answer for so long is dropped, and the answer with it."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP, with bounds on heads that do not end and on answers that are not read."""

    _head: int | None = None
    """Bytes of the head so far; None while there is none that has begun and not ended."""
    _begins = False
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is None or self.transport.is_closing():
            return
        self._await_head()
        # A body may stand before the head in the piece where it begins, which therefore does not count.
        self._head += 0 if self._begins else len(data)
        self._begins = False
        if self._head > HEAD_BYTES:
            self.send_400_response(f"The head of the request is larger than {HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head, self._begins = 0, True

    def on_headers_complete(self) -> None:
        self._head = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def _await_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._head_late)

    def _head_late(self) -> None:
        self._timer = None
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_complete:
            self._await_head()  # an earlier request is still being answered
        else:
            self.transport.close()

    def _watch(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(STALLED_SECONDS, self._check_read, left)

    def _check_read(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._watch()
        else:
            self.transport.abort()
