"""The proxy: one request after the other, each passed on over a connection of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.breaker.breakings import Breaking, Request
from protocol3_conformance.wire import http
from protocol3_conformance.wire.faults import TransportFault
from protocol3_conformance.wire.http import Connection, Reply
from protocol3_conformance.wire.peer import Endpoint

HOP_BY_HOP = ("connection", "content-length", "transfer-encoding", "host", "keep-alive")


@dataclass(slots=True)
class Proxy:
    """Serves until cancelled. It understands what the suite sends: HTTP/1.1 with a length or in chunks."""

    upstream: Endpoint
    breaking: Breaking
    memory: dict[str, Any] = field(default_factory=dict)

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Begin to listen."""
        return await asyncio.start_server(self._connection, host, port, limit=http.MAX_HEAD)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, TransportFault, ValueError):
            while line := await reader.readline():
                method, target, _ = line.decode("latin-1").split()
                fields = await self._fields(reader)
                named = {name.lower(): value for name, value in fields}
                if "transfer-encoding" in named:
                    reply = await self._stream(method, target, fields, reader)
                else:
                    body = await reader.readexactly(int(named.get("content-length", "0")))
                    reply = await self._exchange(method, target, fields, body)
                writer.write(_bytes_of(reply, method))
                await writer.drain()
        writer.close()

    async def _fields(self, reader: asyncio.StreamReader) -> list[tuple[str, str]]:
        fields = []
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            fields.append((name, value.strip()))
        return fields

    async def _stream(
        self, method: str, target: str, fields: list[tuple[str, str]], reader: asyncio.StreamReader
    ) -> Reply:
        """Pass a chunked body on while it comes: the service may reply before it ends."""
        kept = [(name, value) for name, value in fields if name.lower() not in ("host", "connection")]
        connection = await Connection.open(self.upstream.host, self.upstream.port)
        headers = [("Host", self.upstream.authority), *kept]
        await connection.send(http.request_bytes(method, self.upstream.prefix + target, headers))
        pumping = asyncio.create_task(self._pump(reader, connection))
        try:
            reply = await connection.reply(to_head=method == "HEAD")
        finally:
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)
            connection.close()
        request = Request(method=method, path=target.partition("?")[0], body=b"")
        return self.breaking.reply(request, reply, self.memory)

    async def _pump(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        while line := await reader.readline():
            size = int(line.strip() or b"0", 16)
            await connection.send(line + await reader.readexactly(size + 2))
            if size == 0:
                return

    async def _exchange(self, method: str, target: str, fields: list[tuple[str, str]], body: bytes) -> Reply:
        path, mark, query = target.partition("?")
        original = Request(method=method, path=path.removeprefix(self.upstream.prefix), body=body)
        passed = self.breaking.request(original, self.memory)
        kept = [(name, value) for name, value in fields if name.lower() not in HOP_BY_HOP]
        length = [("Content-Length", str(len(passed.body)))] if passed.body or passed.method == "POST" else []
        headers = [("Host", self.upstream.authority), *kept, *length]
        unchanged_path = passed.path == original.path
        goal = f"{self.upstream.prefix}{passed.path}{mark}{query}" if unchanged_path else passed.path
        connection = await Connection.open(self.upstream.host, self.upstream.port)
        try:
            await connection.send(http.request_bytes(passed.method, goal, headers, passed.body))
            reply = await connection.reply(to_head=passed.method == "HEAD")
        finally:
            connection.close()
        return self.breaking.reply(original, reply, self.memory)


def _bytes_of(reply: Reply, method: str) -> bytes:
    kept = [(name, value) for name, value in reply.headers if name.lower() not in HOP_BY_HOP]
    lines = [f"HTTP/1.1 {reply.status} Broken", *(f"{name}: {value}" for name, value in kept)]
    length = f"Content-Length: {len(reply.body)}"
    return "\r\n".join([*lines, length, "", ""]).encode("latin-1") + (b"" if method == "HEAD" else reply.body)
