"""The coordinator of these tests has test controls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.refusal import Refusal
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import serve

PATIENCE_S = 20.0


class Server:
    """One whole process in this one, asked over HTTP in one scope."""

    def __init__(self, options: ServeOptions, namespace: str) -> None:
        self.scope = {"tenant_id": "t", "namespace": namespace}
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(serve(options, ready=self._ready.set_result))

    async def started(self) -> Server:
        await asyncio.wait([self._ready, self._task], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        if self._task.done():
            await self._task
        return self

    async def stop(self) -> None:
        self._task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(self._task, return_exceptions=True)

    async def raw(self, method: str, path: str, body: Any = None) -> bytes:
        """All bytes of the answer, on a connection of its own that ends with it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self._ready.result().rpartition(":")[2]))
        content = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{kind}\r\n".encode() + content)
        try:
            async with asyncio.timeout(PATIENCE_S + 20):
                return await reader.read()
        finally:
            writer.close()

    async def exchange(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and document."""
        head, _, document = (await self.raw(method, path, body)).partition(b"\r\n\r\n")
        return int(head[9:12]), json.loads(document)

    async def post(self, path: str, **members: Any) -> Any:
        """The document of a 200."""
        status, document = await self.exchange("POST", path, {"scope": self.scope} | members)
        assert status == 200, document
        return document

    async def get(self, path: str, **names: str) -> Any:
        query = "&".join(f"{name}={value}" for name, value in (self.scope | names).items())
        status, document = await self.exchange("GET", f"{path}?{query}")
        assert status == 200, document
        return document


@pytest.fixture
async def services(controlled: Any) -> Any:
    return controlled


@pytest.fixture
def refusal_of() -> Callable[[Callable[[], Any]], Refusal]:
    """What a call is refused with."""

    def call(refused: Callable[[], Any]) -> Refusal:
        with pytest.raises(Refusal) as caught:
            refused()
        return caught.value

    return call


@pytest.fixture
async def started(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Starts a server on the module's database; keyword arguments are serve options."""
    servers: list[Server] = []

    async def start(**options: Any) -> Server:
        whole = ServeOptions(listen_host="127.0.0.1", listen_port=0, database_url=database, store=tmp_path, **options)
        servers.append(Server(whole, namespace=request.node.name[-100:].replace("[", "-").replace("]", "")))
        return await servers[-1].started()

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def server(started: Callable[..., Awaitable[Server]]) -> Server:
    """With test controls."""
    return await started(test_controls=True)
