"""The suite's HTTP client: sends one request, records it, judges the reply."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from protocol3_conformance.wire import http
from protocol3_conformance.wire.exchange import OWN_REQUEST_ID, Exchange, RequestIds, judge
from protocol3_conformance.wire.faults import TransportFault
from protocol3_conformance.wire.http import Connection, Headers
from protocol3_conformance.wire.observer import Observer
from protocol3_conformance.wire.strict_json import JsonValue, encode
from protocol3_conformance.wire.transcript import Transcript

REUSE_WITHIN_SECONDS = 1.0
"""An idle connection older than this is not used again: the target may be closing it at that very moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the target listens. `prefix` is the path of its base URL, without a trailing slash (HTTP-005)."""

    url: str
    host: str
    port: int
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Raises ValueError with a sentence for people."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{url!r} is not of the form http://HOST:PORT (the suite speaks plain HTTP)")
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError(f"{url!r} has a query, fragment or user name; give the base URL only")
        return cls(url=url, host=parts.hostname, port=parts.port or 80, prefix=parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(slots=True, kw_only=True)
class Peer:
    """Exchanges of one scenario. `seconds` is the time limit of one exchange."""

    endpoint: Endpoint
    ids: RequestIds
    seconds: float
    transcript: Transcript = field(default_factory=Transcript)
    observer: Observer = field(default_factory=Observer)
    began: float = field(default_factory=time.monotonic)
    _idle: list[tuple[float, Connection]] = field(default_factory=list)

    def now_ms(self) -> float:
        return (time.monotonic() - self.began) * 1000

    async def get(self, path: str, query: dict[str, str] | str = "") -> Exchange:
        """`query` may be given as raw text."""
        raw = query if isinstance(query, str) else urlencode(query)
        return await self.send("GET", f"{path}?{raw}" if raw else path)

    async def post(self, path: str, body: JsonValue | bytes) -> Exchange:
        """`body` may be given as raw bytes."""
        return await self.send("POST", path, body if isinstance(body, bytes) else encode(body))

    async def send(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        headers: Iterable[tuple[str, str]] | None = None,
        wire_body: bytes | None = None,
    ) -> Exchange:
        """One exchange. `headers` replace the usual ones except Host and the suite's own Request-Id.

        `wire_body` replaces the bytes sent for the body, for instance by its chunked coding.
        """
        fields = self.standard_headers(method, body) if headers is None else list(headers)
        exchange = self.record(method, target, fields, body)
        data = self.bytes_of(exchange)
        return await self.run(exchange, data if wire_body is None else data.removesuffix(body) + wire_body)

    def standard_headers(self, method: str, body: bytes) -> list[tuple[str, str]]:
        """What the published client sends (CLI-001)."""
        fields = [
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", "protocol3-conformance"),
        ]
        if method == "POST":
            fields += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        return fields

    def record(self, method: str, target: str, fields: Iterable[tuple[str, str]], body: bytes) -> Exchange:
        """Begin an exchange in the transcript."""
        headers: Headers = (("Host", self.endpoint.authority), ("Request-Id", OWN_REQUEST_ID), *fields)
        exchange = Exchange(method=method, target=target, headers=headers, body=body, started_ms=self.now_ms())
        self.transcript.exchanges.append(exchange)
        return exchange

    async def run(self, exchange: Exchange, data: bytes) -> Exchange:
        """Send the bytes on a pooled connection, await the reply, judge it."""
        connection = await self.connect()
        try:
            await self.run_on(connection, exchange, data)
        except BaseException:
            connection.abort()
            raise
        assert exchange.reply is not None
        if exchange.reply.keeps_connection and exchange.reply.status == 200:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.close()
        return exchange

    async def run_on(self, connection: Connection, exchange: Exchange, data: bytes) -> Exchange:
        """The same on a connection that stays the caller's."""
        exchange.reply = await self._within(exchange, self._roundtrip(connection, data, exchange.method == "HEAD"))
        exchange.ended_ms = self.now_ms()
        judge(exchange, self.ids)
        self.observer.look(exchange)
        return exchange

    def bytes_of(self, exchange: Exchange) -> bytes:
        """A recorded request as it goes over the wire."""
        target = self.endpoint.prefix + exchange.target
        return http.request_bytes(exchange.method, target, exchange.headers, exchange.body)

    async def connect(self) -> Connection:
        """An idle connection, or a new one."""
        while self._idle:
            since, connection = self._idle.pop()
            if time.monotonic() - since < REUSE_WITHIN_SECONDS:
                return connection
            connection.close()
        return await Connection.open(self.endpoint.host, self.endpoint.port)

    async def _roundtrip(self, connection: Connection, data: bytes, to_head: bool) -> http.Reply:
        # The reply may come before the body is sent (413), so both run side by side.
        sending = asyncio.create_task(connection.send(data))
        try:
            return await connection.reply(to_head=to_head)
        finally:
            sending.cancel()

    async def _within(self, exchange: Exchange, roundtrip: Awaitable[http.Reply]) -> http.Reply:
        try:
            async with asyncio.timeout(self.seconds):
                return await roundtrip
        except TimeoutError:
            exchange.fault = f"nothing complete within {self.seconds:g} s"
        except TransportFault as fault:
            exchange.fault = str(fault)
        exchange.ended_ms = self.now_ms()
        raise TransportFault(f"{exchange.method} {exchange.path}: {exchange.fault}")

    def close(self) -> None:
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()
