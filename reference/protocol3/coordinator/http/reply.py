"""Replies: prepared header bytes, written with the body in one piece (chapter 03)."""

import asyncio
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from secrets import token_hex
from typing import TYPE_CHECKING, Final, cast

from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import encode

if TYPE_CHECKING:
    from protocol3.coordinator.http.connection import Connection

SLOW_READER_S: Final = 30.0
"""How long a client may take to read a reply that does not fit the socket's buffer."""
_JOIN_BYTES: Final = 65536
"""Up to this size head and body go out in one write; above it the copy costs more than a second call."""
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES: Final = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode() for status in range(100, 600)
}
"""A fault may reply with a status that nobody has assigned (TST-031); it has no phrase."""
#: HTTP-033, HTTP-061, HTTP-063.
_JSON: Final = b"Content-Type: application/json\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"


def new_request_id() -> str:
    """A fresh `Request-Id`: 32 hexadecimal digits (HTTP-062)."""
    return token_hex(16)


class Reply(StreamResponse):
    """A reply with its whole body, never compressed. aiohttp calls `prepare`, `write_eof`, then asks `keep_alive`.

    `body` None is a bare reply: no body, no content type. `request_id` None leaves the header out (HTTP-093).
    `allow` is the value of `Allow` (HTTP-011). `close` ends the connection with this reply.
    """

    def __init__(
        self,
        status: int,
        body: bytes | None,
        *,
        request_id: str | None = None,
        allow: str | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(status=status)
        self._content = body
        self._request_id = request_id
        self._allow = allow
        self._closes = close
        self._request: BaseRequest | None = None

    @property
    def keep_alive(self) -> bool:
        """Whether the connection serves another request after this reply."""
        if self._closes or self._request is None:
            return False
        return self._request.keep_alive and _connection(self._request).answers_more()

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Write everything, to a HEAD no body (HTTP-022). Raises ConnectionError when the client is gone."""
        self._request = request
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        head = self._head(request)
        body = b"" if self._content is None or request.method == "HEAD" else self._content
        if len(body) <= _JOIN_BYTES:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Wait for a slow reader, no longer than SLOW_READER_S; linger where the connection ends against its wish."""
        assert self._request is not None
        connection = _connection(self._request)
        if connection.writing_paused:
            try:
                async with asyncio.timeout(SLOW_READER_S):
                    await self._request.writer.drain()
            except TimeoutError:
                if connection.transport is not None:
                    connection.transport.abort()  # an ordinary close would wait for the reader as well
        if self._closes:
            await connection.linger()

    def _head(self, request: BaseRequest) -> bytes:
        parts = [_STATUS_LINES[self.status], _date(int(time.time()))]
        if self._content is not None:
            parts.append(_JSON)
        if self._request_id is not None:
            parts.append(f"Request-Id: {self._request_id}\r\n".encode("ascii"))
        if self._allow is not None:
            parts.append(f"Allow: {self._allow}\r\n".encode("ascii"))
        if not self.keep_alive:
            parts.append(b"Connection: close\r\n")
        elif request.version.minor == 0:
            parts.append(b"Connection: keep-alive\r\n")
        parts.append(b"Content-Length: %d\r\n\r\n" % len(self._content or b""))
        return b"".join(parts)


def refused(refusal: Refusal, *, request_id: str, allow: str | None = None, close: bool = False) -> Reply:
    """The error reply of a refusal (HTTP-064…066)."""
    body = encode(refusal.to_json())
    return Reply(refusal.status, body, request_id=request_id, allow=allow, close=close)


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode("ascii")


def _connection(request: BaseRequest) -> "Connection":
    return cast("Connection", request.protocol)  # ConnectionServer makes no other kind
