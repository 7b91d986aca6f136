"""The coordinator of these tests has test controls."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.controls.edge import all_operations
from protocol3.coordinator.controls.parts import ControlledParts
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import serve
from protocol3.coordinator.services import Services
from protocol3.programs.layout import descriptor_path, encode_descriptor

PATIENCE_S = 20.0
FAULTS = "/testing/v1/faults"


class Wire:
    """A server asked over HTTP, each exchange on a connection of its own, in one scope."""

    def __init__(self, namespace: str) -> None:
        self.scope = {"tenant_id": "t", "namespace": namespace}
        self.url = ""

    async def raw(self, method: str, path: str, body: Any = None) -> bytes:
        """All bytes of the answer; none if the connection ends without one."""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(self.url.rpartition(":")[2]))
        content = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{kind}\r\n".encode() + content)
        try:
            async with asyncio.timeout(PATIENCE_S + 20):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def exchange(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and document; 0 and None if there was no reply."""
        head, _, document = (await self.raw(method, path, body)).partition(b"\r\n\r\n")
        return (int(head[9:12]) if head else 0), (json.loads(document) if document else None)

    async def send(self, path: str, **members: Any) -> tuple[int, Any]:
        return await self.exchange("POST", path, {"scope": self.scope} | members)

    async def post(self, path: str, **members: Any) -> Any:
        """The document of a 200."""
        status, document = await self.send(path, **members)
        assert status == 200, document
        return document

    async def get(self, path: str, **names: str) -> Any:
        query = "&".join(f"{name}={value}" for name, value in (self.scope | names).items())
        status, document = await self.exchange("GET", f"{path}?{query}")
        assert status == 200, document
        return document

    async def submit(self, key: str = "key", path: str = "/v1/tasks", **input: Any) -> Any:
        """The snapshot of a new task, or of a new workflow by its path."""
        program = {"id": "hello", "version": "1"}
        whole = {**self.scope, "queue": "q", "program": program, "data": {}} | input
        status, document = await self.exchange("POST", path, {"idempotency_key": key, "input": whole})
        assert status == 200, document
        return document

    async def fault(self, path: str, act: str | dict[str, Any], where: str = "received", **more: Any) -> str:
        """The id of a new rule for a POST route."""
        act = {"kind": act} if isinstance(act, str) else act
        match = {"method": "POST", "path": path}
        return str((await self.post(FAULTS, match=match, where=where, act=act, **more))["id"])

    async def until_held(self, count: int = 1) -> list[Any]:
        """What is held, once it is as many."""
        async with asyncio.timeout(PATIENCE_S):
            while len(held := (await self.get(FAULTS))["held"]) != count:
                await asyncio.sleep(0.002)
        return list(held)


class Server(Wire):
    """A whole server in this process."""

    def __init__(self, options: ServeOptions, namespace: str) -> None:
        super().__init__(namespace)
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(serve(options, ready=lambda bound: self._ready.set_result(bound.url)))

    async def started(self) -> Server:
        await asyncio.wait([self._ready, self._task], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        if self._task.done():
            await self._task
        self.url = self._ready.result()
        return self

    async def stop(self) -> None:
        self._task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def services(controlled: Any) -> Any:
    return controlled


@pytest.fixture
def client(client: Any, services: Services, controlled_parts: ControlledParts) -> Any:
    """Its commands are exchanges that rules may strike."""
    client.operations = all_operations(services, controlled_parts.faults)
    return client


@pytest.fixture
def refusal_of() -> Callable[[Callable[[], Any]], Refusal]:
    """What a call is refused with."""

    def call(refused: Callable[[], Any]) -> Refusal:
        with pytest.raises(Refusal) as caught:
            refused()
        return caught.value

    return call


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A program store in which `hello` is published, as far as a coordinator looks."""
    descriptor = Descriptor(program=ProgramRef(id="hello", version="1"), digest="sha256:" + "a" * 64, size=4321)
    path = tmp_path / descriptor_path(descriptor.program)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_descriptor(descriptor))
    return tmp_path


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    """The test's own, as it can stand in a query."""
    return re.sub("[^a-z0-9_-]+", "-", str(request.node.name).lower())[-100:]


@pytest.fixture
async def started(database: str, store: Path, namespace: str) -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Starts a server on the module's database; keyword arguments are serve options."""
    servers: list[Server] = []

    async def start(**options: Any) -> Server:
        whole = ServeOptions(listen_host="127.0.0.1", listen_port=0, database_url=database, store=store, **options)
        servers.append(Server(whole, namespace))
        return await servers[-1].started()

    yield start
    for server in servers:
        await server.stop()


@pytest.fixture
async def server(started: Callable[..., Awaitable[Server]]) -> Server:
    """With test controls."""
    return await started(test_controls=True)


@pytest.fixture
def wire() -> type[Wire]:
    return Wire
