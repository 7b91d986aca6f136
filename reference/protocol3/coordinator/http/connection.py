"""One client connection: aiohttp's `RequestHandler` with the transport rules of the contract (chapter 03).

aiohttp (its minor version is pinned in pyproject.toml) parses and queues requests and answers them in order. What it
does otherwise than the contract is corrected here, on these private attributes of its base class:

- `_messages`: requests parsed and not yet taken up, pairs of head and body; a head may be an `_ErrInfo` instead;
- `_ErrInfo`: what stands in that queue when the parser gave up;
- `_reading_paused`: set while a body fills faster than it is read;
- `_parser`: wrapped, see `parser.py`;
- `_request_count`: requests parsed so far;
- `_waiter`: set while the connection waits for its next request; None while a request is being answered, and before
  the task of the connection has run.

`reference/tests/http/test_connection.py` has a case for each correction, so that an upgrade that breaks one is seen.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Final, cast

from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE, RequestHandler, _ErrInfo
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from aiohttp.web_server import Server

from protocol3.contract.refusal import Refusal
from protocol3.coordinator import log
from protocol3.coordinator.http.parser import Parser
from protocol3.coordinator.http.reply import Reply, new_request_id, refused
from protocol3.coordinator.observation import Exchange, Observer

LINGER_S: Final = 2.0
"""How long a connection reads on after a refusal, so that closing does not destroy the reply on its way."""
TARGET_BYTES: Final = 65536
"""Longest request target and longest header field. A query of 16 KiB must pass (HTTP-003)."""
_HEAD_END: Final = b"\r\n\r\n"


class Connection(RequestHandler):
    """State of one connection, which serves request after request (HTTP-001), as far as the exchange looks at it.

    `ended`: the client has sent its last byte, replies may still be read.
    `cut`: the body that ended too early or broke its framing (HTTP-018).
    `invited`: the body for which `100 Continue` was sent.
    `waiting`: budget of the long poll under way; it ends at once when the client goes (HTTP-084, DLV-034).
    """

    __slots__ = ("_body", "_broken", "_gone", "_observe", "_seam", "cut", "ended", "invited", "waiting")

    def __init__(self, server: "ConnectionServer") -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None switches it off, the annotation forgets that
            auto_decompress=False,  # Content-Encoding is judged, never applied (HTTP-032)
            lingering_time=LINGER_S,
            max_field_size=TARGET_BYTES,
            max_line_size=TARGET_BYTES,
        )
        self._observe = server.observe
        self._parser = Parser(self._parser)  # type: ignore[assignment]  # has what aiohttp calls of it
        self.ended = False
        self.cut: StreamReader | None = None
        self.invited: StreamReader | None = None
        self.waiting: asyncio.Timeout | None = None
        self._body: StreamReader | None = None  # of the request parsed last: only this one can be incomplete
        self._broken = False  # the parser gave up; what follows has no meaning
        self._seam = b""  # the last bytes of the data before, where the end of a head may have begun
        self._gone = asyncio.Event()

    @staticmethod
    def of(request: BaseRequest) -> "Connection":
        """The connection that a request came on."""
        return cast(Connection, request.protocol)  # ConnectionServer makes no other kind

    def data_received(self, data: bytes) -> None:
        """Parse head by head: the parser forgets the requests that it found in the same piece as an error.

        An error inside a body ends that body, whose reader would wait for the budget otherwise.
        """
        for piece in self._pieces(data):
            if self._broken:
                return
            super().data_received(piece)
            if self._messages:
                head, body = self._messages[-1]
                self._broken = isinstance(head, _ErrInfo)
                if self._broken:
                    self._cut_body()
                self._body = body

    def resume_reading(self, resume_parser: bool = True) -> None:
        """aiohttp calls this after every read of a body; there is work only where reading was paused before."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio's own signature; aiohttp narrows it to None
        """The client sends no more: answer what it asked, then close. True keeps our half open until then."""
        self.ended = True
        self._gone.set()
        self._cut_body()
        self._abandon_wait()
        idle = not self._messages and (self._waiter is not None or not self._request_count)
        self.keep_alive(False)
        return not idle

    def connection_lost(self, exc: BaseException | None) -> None:
        """Nobody reads the reply any more. Only a waiting poll is abandoned; everything else runs to its end."""
        self._gone.set()
        self._abandon_wait()
        super().connection_lost(exc)

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> StreamResponse:
        """The reply to bytes that are no request. Message and exception quote the request, so they are told to nobody.

        Two Content-Type fields end here because the parser refuses them: 415 (HTTP-031), whatever the path.
        """
        if isinstance(exc, BadHttpMessage) and "Duplicate 'Content-Type'" in str(exc):
            refusal = Refusal("invalid_input", "header Content-Type: sent more than once", status=415)
        elif isinstance(exc, HttpProcessingError):
            self._observe(Exchange(request_id=None, method=None, route=None, status=400))
            return Reply(400, None, close=True)
        else:
            refusal = Refusal("unavailable", "the exchange failed")
        request_id = new_request_id()
        self._observe(
            Exchange(request_id=request_id, method=None, route=None, status=refusal.status, code=refusal.code)
        )
        return refused(refusal, request_id=request_id, close=True)

    def log_exception(self, *args: Any, **kwargs: Any) -> None:
        """aiohttp's report of a fault outside the exchange, without the traceback, whose texts may quote a request."""
        error = kwargs.get("exc_info")
        if isinstance(error, BaseException):
            log.failure(error, event="connection failed")

    def answers_more(self) -> bool:
        """Whether the connection has or may get another request after the present one."""
        return not self.ended or bool(self._messages)

    async def linger(self) -> None:
        """End our half and discard what still arrives until the client ends its own, at most LINGER_S.

        Closing a socket with unread bytes resets the connection, and a reset can destroy the reply before it is read.
        """
        self.close()
        if self.transport is not None and self.transport.can_write_eof():
            with suppress(OSError):  # the client was faster
                self.transport.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await self._gone.wait()
        self._cut_body()

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """The data, cut after what may be the end of a head; its end may have begun in the data before."""
        text = self._seam + data if self._seam else data
        start = len(self._seam)
        self._seam = text[-3:] if text.endswith((b"\r", b"\n")) else b""
        end = text.find(_HEAD_END)
        for _ in range(MAX_MSG_QUEUE_SIZE):
            if end < 0:
                break
            end += len(_HEAD_END)
            yield text[start:end]
            start = end
            end = text.find(_HEAD_END, end)
        if start < len(text) or not data:
            yield text[start:]

    def _cut_body(self) -> None:
        if self._body is not None and not self._body.is_eof():
            self.cut = self._body
            self._body.feed_eof()

    def _abandon_wait(self) -> None:
        if self.waiting is not None and not self.waiting.expired():
            self.waiting.reschedule(0.0)


class ConnectionServer(Server):
    """The asyncio protocol factory: one `Connection` per accepted socket. `observe` is told of what is no request."""

    def __init__(self, handler: Callable[[BaseRequest], Awaitable[StreamResponse]], observe: Observer) -> None:
        super().__init__(handler)
        self.observe = observe

    def __call__(self) -> Connection:
        return Connection(self)
