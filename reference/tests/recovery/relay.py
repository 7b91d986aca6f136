"""Passes bytes between a worker and its coordinator, faults included, and keeps the requests."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any


class Relay:
    """`async with Relay(port) as relay`: `relay.url` stands for the coordinator."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._streams: list[bytearray] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks)

    def bodies(self, path: str) -> list[bytes]:
        """Of the requests for the path, connection by connection in their order, incomplete ones left out."""
        return [body for stream in self._streams for found, body in _requests(bytes(stream)) if found == path]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: Any = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._streams.append(kept := bytearray())
        self._writers.append(writer)
        with contextlib.suppress(OSError):
            there, onward = await asyncio.open_connection("127.0.0.1", self._upstream)
            self._writers.append(onward)
            await asyncio.gather(_pass(reader, onward, kept), _pass(there, writer, bytearray()))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            kept += data
            writer.write(data)
            await writer.drain()
    writer.close()


def _requests(stream: bytes) -> list[tuple[str, bytes]]:
    found = []
    while b"\r\n\r\n" in stream:
        head, _, rest = stream.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        length = next((int(line[15:]) for line in lines if line.lower().startswith("content-length:")), 0)
        if len(rest) < length:
            break
        found.append((lines[0].split(" ")[1], rest[:length]))
        stream = rest[length:]
    return found
