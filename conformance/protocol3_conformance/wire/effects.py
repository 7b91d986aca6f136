"""The effect ledger: a sink outside of whatever is judged, which counts external effects by who caused them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from protocol3_conformance.wire.server import REQUEST_LINE

NOTED = b"HTTP/1.1 %d %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(slots=True)
class Effects:
    """`POST /WORKFLOW/STEP/ATTEMPT` is one effect, counted before it is answered. Other requests count as nothing."""

    counts: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    address: tuple[str, int] = ("", 0)
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    def of(self, step: str) -> dict[int, int]:
        """How often the effect of a step happened, by the number of the attempt."""
        return {attempt: count for (_, name, attempt), count in sorted(self.counts.items()) if name == step}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            found = REQUEST_LINE.fullmatch(await reader.readline())
            while await reader.readline() not in (b"\r\n", b""):
                pass
            status = HTTPStatus.NOT_FOUND
            parts = found[2].decode().strip("/").split("/") if found and found[1] == b"POST" else []
            if len(parts) == 3:
                workflow, step, attempt = parts
                self.counts[workflow, step, int(attempt)] += 1
                status = HTTPStatus.OK
            writer.write(NOTED % (status, status.phrase.encode()))
            await writer.drain()
        writer.close()
