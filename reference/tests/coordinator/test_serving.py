"""The whole process: start, readiness, fixed scope, drain, refusal to start."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.models.common import Scope
from protocol3.coordinator.background.dispatcher import Dispatcher
from protocol3.coordinator.background.waiting import Waiter
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import Addresses, serve
from protocol3.store.opening import Unusable

SCOPE = {"tenant_id": "t", "namespace": "bound"}


class Server:
    """One `serve` in this process; exchanges on connections of their own."""

    def __init__(self, options: ServeOptions) -> None:
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(serve(options, ready=self._ready))

    def _ready(self, bound: Addresses) -> None:
        self.bound = bound
        self.ready.set_result(bound.url)

    async def started(self) -> str:
        await asyncio.wait([self.ready, self.task], return_when=asyncio.FIRST_COMPLETED, timeout=20)
        if self.task.done():
            await self.task
        return self.ready.result()

    async def stop(self) -> None:
        self.task.cancel()
        async with asyncio.timeout(15):
            await asyncio.gather(self.task, return_exceptions=True)

    async def exchange(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        port = int((await self.ready).rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        content = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{kind}\r\n".encode() + content)
        async with asyncio.timeout(20):
            reply = await reader.read()
        writer.close()
        head, _, document = reply.partition(b"\r\n\r\n")
        return int(head[9:12]), json.loads(document)


@pytest.fixture
def options(database: str, tmp_path: Path) -> ServeOptions:
    return ServeOptions(listen_host="127.0.0.1", listen_port=0, database_url=database, store=tmp_path)


@pytest.fixture
async def server(options: ServeOptions, request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    server = Server(replace(options, **getattr(request, "param", {})))
    await server.started()
    yield server
    await server.stop()


async def test_ready_once_the_loops_have_passed(server):
    """HTTP-091, RCV-031."""
    async with asyncio.timeout(20):
        while (answer := await server.exchange("GET", "/health/ready"))[0] != 200:
            assert set(answer[1]["reasons"]) <= {"recovery_pending", "workflow_recovery_pending"}
    assert answer[1]["status"] == "ok"


async def test_a_shutdown_does_not_outlast_waiting_polls(server, monkeypatch):
    """HTTP-083: an admitted poll comes to its end before its wait is over, with its sequence completed."""
    waits, add = asyncio.Event(), Dispatcher.add

    def seen(self: Dispatcher, waiter: Waiter) -> None:
        add(self, waiter)
        waits.set()

    monkeypatch.setattr(Dispatcher, "add", seen)
    session = {"scope": SCOPE, "queue": "q", "concurrency": 1}
    _, opened = await server.exchange("POST", "/v1/worker-sessions", session)
    poll = {"scope": SCOPE, "queue": "q", "worker_session_id": opened["id"], "consumer_id": 0, "sequence": 1}
    waiting = asyncio.create_task(server.exchange("POST", "/v1/acquisitions", poll | {"wait_ms": 20_000}))
    async with asyncio.timeout(20):
        await waits.wait()
    await server.stop()
    assert await waiting == (200, {"disposition": "empty", "sequence": 1})


@pytest.mark.parametrize("server", [{"fixed_scope": Scope(**SCOPE)}], indirect=True)
async def test_a_bound_server(server, options):
    """HTTP-020, DLV-313: foreign scopes are not found; a foreign session is unknown."""
    free = Server(options)
    await free.started()
    foreign = {"tenant_id": "t", "namespace": "foreign"}
    sessions = {}
    for scope in (SCOPE, foreign):
        _, opened = await free.exchange("POST", "/v1/worker-sessions", {"scope": scope, "queue": "q", "concurrency": 1})
        sessions[scope["namespace"]] = {"worker_session_id": opened["id"]}
    await free.stop()
    assert (await server.exchange("POST", "/v1/worker-sessions/extend", sessions["bound"]))[0] == 200
    answer = await server.exchange("POST", "/v1/worker-sessions/extend", sessions["foreign"])
    assert answer == (404, {"code": "unknown_session"})
    assert await server.exchange("GET", "/v1/tasks?tenant_id=t&namespace=foreign") == (404, {"code": "not_found"})
    assert (await server.exchange("GET", "/v1/tasks?tenant_id=t&namespace=bound"))[0] == 200


async def test_a_store_that_is_no_folder(options, tmp_path):
    """Refused before anything starts, with the path."""
    with pytest.raises(ValueError, match="nowhere"):
        await Server(replace(options, store=tmp_path / "nowhere")).started()


async def test_a_database_without_schema(options, postgres):
    """Its advice says what to do."""
    with pytest.raises(Unusable, match="not current") as refused:
        await Server(replace(options, database_url=postgres.dsn)).started()
    assert "orchestrator migrate" in refused.value.advice


async def test_a_database_that_takes_no_writes(options):
    """A standby, for one: refused at the start, not exchange by exchange."""
    standby = f"{options.database_url}{'&' if '?' in options.database_url else '?'}default_transaction_read_only=on"
    with pytest.raises(Unusable, match="no writes") as refused:
        await Server(replace(options, database_url=standby)).started()
    assert "--database-url" in refused.value.advice


async def test_a_port_that_is_taken(server, options):
    """OSError, and nothing keeps running."""
    port = int((await server.ready).rpartition(":")[2])
    with pytest.raises(OSError, match="address already in use"):
        await Server(replace(options, listen_port=port)).started()
