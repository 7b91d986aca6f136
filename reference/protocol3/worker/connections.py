"""HTTP/1.1 to one server over kept connections: one request at a time on each, a whole reply or an error.

Only what the exchanges of a worker need; docs/performance.md says what that saves. httptools reads the replies.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, cast
from urllib.parse import quote, urlsplit

import aiohappyeyeballs
import httptools

Fields = Iterable[tuple[str, str]]

_BESIDE_BYTES: Final = 64 * 1024
"""The most between two pieces of a body: head, informational replies, chunk extensions, trailers."""
_REST_S: Final = 15.0
"""A connection that rested longer is not used again: its server may be about to close it."""
_SECOND_ADDRESS_S: Final = 0.25
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_IN_A_PATH: Final = "/%:@!$&'()*+,;="


class Broken(Exception):
    """There is no whole reply, so nobody knows whether the server acted. The message says what came instead."""


class Head:
    """Status and fields of a reply, as they arrive."""

    __slots__ = ("fields", "status")

    def __init__(self) -> None:
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []  # names in lower case

    def all(self, name: bytes) -> list[str]:
        """The values of the field with this name, in lower case."""
        return [value.strip().decode("latin-1") for known, value in self.fields if known == name]

    @property
    def is_informational(self) -> bool:
        return 100 <= self.status < 200

    @property
    def ends_with_connection(self) -> bool:
        return not any(name in _FRAMING for name, _ in self.fields)


Judge = Callable[[Head], int]
"""Gives the bytes that the body may have, or raises what the exchange shall raise."""


class Connections:
    """Connections to the server of ``base``, an http(s) URL with a host, whose path goes before every path.

    Nothing is followed, sent twice, decoded or remembered.
    """

    def __init__(self, base: str, *, timeout_s: float, fields: Fields) -> None:
        """``timeout_s`` bounds one exchange, connecting included. ``fields`` go with every request."""
        url = urlsplit(base)
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._host = _ascii(url.hostname or "")
        self._port = url.port or (443 if self._tls else 80)
        self._prefix = quote(url.path, safe=_IN_A_PATH)
        named = f"[{self._host}]" if ":" in self._host else self._host
        self._fields = _lines([("Host", named if url.port is None else f"{named}:{url.port}"), *fields])
        self._timeout_s = timeout_s
        self._starts: dict[str, bytes] = {}
        self._open: set[_Connection] = set()
        self._at_rest: deque[_Connection] = deque()  # the longest first

    async def post(self, path: str, body: bytes, judge: Judge, fields: Fields = ()) -> tuple[int, bytes]:
        """Status and body of the reply. Raises :class:`Broken`, TimeoutError, OSError, and what ``judge`` raises."""
        start = self._starts.get(path) or self._starts.setdefault(path, self._start(path))
        request = b"%b%bContent-Length: %d\r\n\r\n%b" % (start, _lines(fields), len(body), body)
        now = asyncio.get_running_loop().time()
        ends = now + self._timeout_s
        connection = self._rested(now) or await self._new(ends)
        reply = await connection.exchange(request, judge, ends)
        self._rest(connection)
        return reply

    async def close(self) -> None:
        """Exchanges that are under way end as broken."""
        for connection in list(self._open):
            connection.abort()
        await asyncio.sleep(0)  # the loop closes what was aborted in its next turn

    def _start(self, path: str) -> bytes:
        return b"POST %b HTTP/1.1\r\n%b" % ((self._prefix + path).encode(), self._fields)

    async def _new(self, ends: float) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(ends):
                addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                end = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_SECOND_ADDRESS_S)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._lost),
                    sock=end,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
        except UnicodeError as error:  # what is no host name
            raise Broken(str(error)) from None
        self._open.add(connection)
        return connection

    def _rested(self, now: float) -> "_Connection | None":
        """The one that rests for the shortest time."""
        while self._at_rest:
            connection = self._at_rest.pop()
            if connection.is_usable and connection.rests_since > now - _REST_S:
                return connection
            connection.abort()
        return None

    def _rest(self, connection: "_Connection") -> None:
        if not connection.is_usable:
            connection.abort()
            return
        now = connection.rests_since = asyncio.get_running_loop().time()
        self._at_rest.append(connection)
        while self._at_rest[0].rests_since < now - _REST_S:
            self._at_rest.popleft().abort()

    def _lost(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        if connection in self._at_rest:
            self._at_rest.remove(connection)


class _Connection(asyncio.Protocol):
    """One connection. Whatever ends an exchange but a whole reply ends the connection as well."""

    def __init__(self, lost: Callable[["_Connection"], None]) -> None:
        self.rests_since = 0.0
        self._tell_lost = lost
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self._judge: Judge
        self._head = Head()
        self._parts: list[bytes] = []
        self._room = 0
        self._beside = 0
        self._keeps = True

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent on it, as far as one can know."""
        return self._keeps and not self._transport.is_closing()

    async def exchange(self, request: bytes, judge: Judge, ends: float) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        self._judge, self._head, self._parts, self._beside = judge, Head(), [], 0
        self._waiter = loop.create_future()
        timer = loop.call_at(ends, self._fail, TimeoutError())
        self._transport.write(request)
        try:
            return await self._waiter
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()
            self._waiter = None

    def abort(self) -> None:
        self._keeps = False
        self._transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by its methods only

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:  # nobody asked
            self.abort()
            return
        self._beside += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keeps = False
            self._fail(Broken(f"the reply is no HTTP: {error}"))
        if self._beside > _BESIDE_BYTES:
            self._fail(Broken("the head of the reply is too large"))

    def connection_lost(self, error: Exception | None) -> None:
        self._keeps = False
        self._tell_lost(self)
        if error is None and self._head.status and self._head.ends_with_connection:
            self._finish()
        else:
            self._fail(Broken(str(error) if error else "the connection ended before the whole reply"))

    # What the parser calls, in order.

    def on_message_begin(self) -> None:
        if self._waiter is None or self._waiter.done():  # more than was asked for
            self._keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head.status:  # later ones are trailers
            self._head.fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._head.status = self._parser.get_status_code()
        if self._head.is_informational:
            return
        try:
            self._room = self._judge(self._head)
        except Exception as outcome:  # noqa: BLE001 - it belongs to who waits
            self._fail(outcome)

    def on_body(self, part: bytes) -> None:
        self._beside = 0
        self._room -= len(part)
        if self._room < 0:
            self._fail(Broken("the reply is too large"))
            self._parts.clear()
        else:
            self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._head.is_informational:
            self._head = Head()
            return
        # A reply that came before the whole request: the server will not read the rest as a part of this one.
        self._keeps = self._keeps and self._parser.should_keep_alive() and not self._transport.get_write_buffer_size()
        self._finish()

    def _finish(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            parts = self._parts
            self._waiter.set_result((self._head.status, parts[0] if len(parts) == 1 else b"".join(parts)))

    def _fail(self, outcome: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._keeps = False
            self._waiter.set_exception(outcome)


def _ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode()


def _lines(fields: Fields) -> bytes:
    lines = [f"{name}: {value}" for name, value in fields]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header field has a line break")
    return "".join(f"{line}\r\n" for line in lines).encode()
