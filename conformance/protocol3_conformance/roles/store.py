"""The scripted program store over HTTP: the files of a folder below a prefix, or what a scenario answers instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = "/shelf"
Answer = Callable[[bytes], bytes]
"""From the bytes of a file to everything that goes out, head included."""


def answer(status: int, body: bytes = b"", *fields: str, length: int | None = None) -> bytes:
    """A reply; `length` lies about the body."""
    told = len(body) if length is None else length
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {told}", "Connection: close", *fields, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


def found(content: bytes) -> bytes:
    return answer(200, content)


@dataclass(slots=True, kw_only=True)
class Store:
    """Answers GET of one folder. `answer` replaces what a blob is answered with, and waits for `gate`."""

    folder: Path
    answer: Answer = found
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    _server: asyncio.Server | None = None

    async def start(self) -> Store:
        self.gate.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PREFIX}"

    def stop(self) -> None:
        self.gate.set()
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            _, target, _ = head[0].split(" ")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            self.requests.append((target, fields))
            await self.gate.wait()
            writer.write(self._reply(target))
            await writer.drain()
        writer.close()

    def _reply(self, target: str) -> bytes:
        inside = target.removeprefix(PREFIX).lstrip("/")
        path = self.folder / inside
        if not target.startswith(f"{PREFIX}/") or not path.is_file():
            return answer(404)
        return self.answer(path.read_bytes())
