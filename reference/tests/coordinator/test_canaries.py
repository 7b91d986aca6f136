"""No word of a client reaches a line of the log or a metric; and metrics stay until the drain is over."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.coordinator.log import JsonLines
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import Addresses, serve
from protocol3.programs.layout import descriptor_path, encode_descriptor

CANARY = "canary"
SCOPE = {"tenant_id": "canary-tenant", "namespace": "canary-namespace"}
EVENT = {
    "specversion": "1.0", "id": "canary", "source": "/canary", "type": "canary", "subject": "canary",
    "canary": "canary", "datacontenttype": "application/json", "data": {"canary": ["canary"]},
}  # fmt: skip


class Process:
    """One `serve` in this process."""

    def __init__(self, options: ServeOptions) -> None:
        self.bound: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(serve(options, ready=self.bound.set_result))

    async def ask(self, line: str, body: bytes = b"", *headers: str, metrics: bool = False, part: int = 0) -> Any:
        """The reply's text; with `part`, the connection once only so many bytes of the body are sent."""
        bound = await self.bound
        url = bound.metrics_url.removesuffix("/metrics") if metrics and bound.metrics_url else bound.url
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        head = [line + " HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}", *headers, "", ""]
        writer.write("\r\n".join(head).encode() + (body[:part] if part else body))
        if part:
            return reader, writer
        async with asyncio.timeout(20):
            reply = await reader.read()
        writer.close()
        return reply.decode()

    async def post(self, path: str, body: Any, *headers: str) -> str:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        text: str = await self.ask(f"POST {path}", content, "Content-Type: application/json", *headers)
        return text


@pytest.fixture
async def process(database: str, tmp_path: Path) -> AsyncIterator[Process]:
    program = ProgramRef(id=CANARY, version=CANARY)
    path = tmp_path / descriptor_path(program)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_descriptor(Descriptor(program=program, digest="sha256:" + "a" * 64, size=4321)))
    options = ServeOptions(
        listen_host="127.0.0.1", listen_port=0, metrics_listen=("127.0.0.1", 0), database_url=database, store=tmp_path
    )  # fmt: skip
    process = Process(options)
    await asyncio.wait([process.bound, process.task], return_when=asyncio.FIRST_COMPLETED, timeout=20)
    yield process
    process.task.cancel()
    await asyncio.wait([process.task], timeout=20)


async def test_no_word_of_a_client_is_logged_or_counted(process):
    """Values, names, keys, queries, paths, methods, headers, broken documents: durable ids are all there is."""
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        data = {"program": {"id": "canary", "version": "canary"}, "data": {"canary": "canary"}, "queue": "canary"}
        command = {"idempotency_key": "canary", "input": {**SCOPE, **data, "correlation_key": "canary"}}
        for path in ("/v1/tasks", "/v1/workflows"):
            accepted = await process.post(
                path, command, "X-Canary: canary", "traceparent: canary", "Request-Id: canary"
            )
            assert accepted.startswith("HTTP/1.1 200 ")
            await process.post(path, command | {"canary": "canary"})
            await process.post(path, b'{"canary": 1, "canary": canary')
        opened = await process.post("/v1/worker-sessions", {"scope": SCOPE, "queue": "canary", "concurrency": 1})
        session = json.loads(opened.partition("\r\n\r\n")[2])["id"]
        workflow_id = json.loads(accepted.partition("\r\n\r\n")[2])["workflow_id"]
        sent = {"scope": SCOPE, "workflow_id": workflow_id, "key": "canary", "event": EVENT}
        assert (await process.post("/v1/workflows/events", sent)).startswith("HTTP/1.1 200 ")
        await process.post("/v1/workflows/events", sent | {"workflow_id": "canary"})
        await process.ask("GET /v1/tasks/status?tenant_id=canary&namespace=canary&task_id=canary&canary=canary")
        await process.ask("GET /v1/tasks/status?tenant_id=canary&namespace=canary&task_id=canary")
        await process.ask("GET /canary?canary")
        await process.ask("CANARY /v1/tasks")
        await process.ask("POST http://canary:canary/v1/tasks")
        text = await process.ask("GET /metrics", metrics=True)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    logged = lines.getvalue()
    assert session in logged
    assert workflow_id in logged
    assert [json.loads(line)["level"] for line in logged.splitlines()].count("info") >= 10
    assert "protocol3_requests_total" in text
    assert CANARY not in logged.lower()
    assert CANARY not in text.lower()


async def test_the_first_cancel_drains_with_metrics_and_the_second_ends_at_once(process):
    """HTTP-083, HTTP-092: readiness is false while an admitted exchange runs on; metrics are there until the end."""
    _, writer = await process.ask("POST /v1/tasks", b"{}", "Content-Type: application/json", part=1)
    async with asyncio.timeout(20):
        while "requests_in_progress 1.0" not in await process.ask("GET /metrics", metrics=True):
            await asyncio.sleep(0.005)
    process.task.cancel()
    async with asyncio.timeout(20):
        while "shutting_down" not in await process.ask("GET /health/ready"):
            await asyncio.sleep(0.005)
    assert " 503 " in await process.post("/v1/tasks", {})
    assert "requests_in_progress 1.0" in await process.ask("GET /metrics", metrics=True)
    assert not process.task.done()
    process.task.cancel()
    done, _ = await asyncio.wait([process.task], timeout=20)
    assert done
    with pytest.raises(OSError, match=r"refused|reset|failed"):
        await process.ask("GET /metrics", metrics=True)
    writer.close()
