"""A raw HTTP/1.1 server: reads every byte of a worker's requests strictly, and sends the bytes it is told to."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from protocol3_conformance.wire import text
from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.faults import Violation
from protocol3_conformance.wire.http import HEADER_LINE, Headers, Reply
from protocol3_conformance.wire.strict_json import InvalidJson, JsonValue, decode, encode
from protocol3_conformance.wire.transcript import Transcript
from protocol3_conformance.wire.values import require
from protocol3_spec.validation import problems

REQUEST_LINE = re.compile(rb"([A-Z]+) (/[!-~]*) HTTP/1\.1\r\n")
COMMANDS = {
    "/v1/worker-sessions": "open-session",
    "/v1/worker-sessions/extend": "extend-session",
    "/v1/acquisitions": "acquire-command",
    "/v1/renewals": "renew-command",
    "/v1/settlements": "settle-command",
    "/v1/quiescence-confirmations": "lease-owner",
    "/v1/workflows/activations/context": "lease-owner",
    "/v1/workflows/local-results": "local-result-command",
    "/v1/workflows/forks": "fork-command",
}
"""The routes that a worker uses, with the schema of each command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A reply as it goes out. `body` of None closes the connection instead of replying."""

    status: int = 200
    body: bytes | None
    headers: Headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))


LOST = Raw(body=None)

Answer = Callable[[str, JsonValue], Awaitable[Raw]]


@dataclass(slots=True, kw_only=True)
class Server:
    """Listens on a port of its own. What a request breaks is kept in `violations`; the exchange goes on."""

    answer: Answer
    transcript: Transcript
    began: float = field(default_factory=time.monotonic)
    violations: list[Violation] = field(default_factory=list)
    url: str = ""
    _server: asyncio.Server | None = None
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    def now_ms(self) -> float:
        return (time.monotonic() - self.began) * 1000

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while exchange := await self._request(reader):
                    raw = await self.answer(exchange.path, exchange.value)
                    if raw.body is None:
                        exchange.fault = "the reply was lost"
                        return
                    self._reply(exchange, raw, raw.body, writer)
                    await writer.drain()
        except Violation as violation:
            self.violations.append(violation)
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader) -> Exchange | None:
        line = await reader.readline()
        if not line:
            return None
        found = REQUEST_LINE.fullmatch(line)
        if not found:
            raise Violation("request", f"begins with {line[:80]!r}", "HTTP-001", "CLI-001")
        headers: list[tuple[str, str]] = []
        while (line := await reader.readline()) != b"\r\n":
            named = HEADER_LINE.fullmatch(line)
            if not named:
                raise Violation("request", f"malformed header line {line[:80]!r}", "HTTP-001", "CLI-001")
            headers.append((named[1].decode("latin-1"), named[2].decode("latin-1")))
        whole = Reply(status=0, headers=tuple(headers), body=b"", keeps_connection=True)
        lengths = whole.field("Content-Length")
        body = await reader.readexactly(int(lengths[0])) if len(lengths) == 1 and lengths[0].isdigit() else b""
        exchange = Exchange(
            method=found[1].decode(),
            target=found[2].decode(),
            headers=tuple(headers),
            body=body,
            started_ms=self.now_ms(),
        )
        self.transcript.exchanges.append(exchange)
        try:
            self._judge(exchange, whole)
        except Violation as violation:
            self.violations.append(violation)
        return exchange

    @staticmethod
    def _judge(exchange: Exchange, fields: Reply) -> None:
        """One POST of a known route with exactly one length, host and media type, and a command as its schema says."""
        at = f"{exchange.method} {exchange.path}"
        schema = COMMANDS.get(exchange.target)
        require(exchange.method == "POST" and schema is not None, at, "is no route of a worker", "HTTP-010", "CLI-001")
        for name in ("Host", "Content-Length"):
            require(len(fields.field(name)) == 1, at, f"{len(fields.field(name))} fields {name}", "HTTP-001", "CLI-001")
        types = fields.field("Content-Type")
        proper = len(types) == 1 and text.JSON_MEDIA_TYPE.fullmatch(types[0]) is not None
        require(proper, at, f"Content-Type {types}", "HTTP-030", "CLI-001")
        try:
            exchange.value = decode(exchange.body)
        except InvalidJson as error:
            raise Violation(at, f"{error}", "JSON-001", "CLI-001") from None
        if found := problems(str(schema), exchange.value):
            raise Violation(at, "; ".join(map(str, found[:3])), *found[0].requirements, "HTTP-019")

    def _reply(self, exchange: Exchange, raw: Raw, body: bytes, writer: asyncio.StreamWriter) -> None:
        fields = (*raw.headers, ("Request-Id", f"r{next(self._numbers)}"), ("Content-Length", str(len(body))))
        lines = [f"HTTP/1.1 {raw.status} X", *(f"{name}: {value}" for name, value in fields), "", ""]
        exchange.reply = Reply(status=raw.status, headers=fields, body=body, keeps_connection=True)
        exchange.ended_ms = self.now_ms()  # before the peer can act upon it
        writer.write("\r\n".join(lines).encode("latin-1") + body)


def reply(value: JsonValue, status: int = 200) -> Raw:
    return Raw(status=status, body=encode(value))
