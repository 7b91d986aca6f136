"""Signals to a real process: the first drains, the second ends it at once, whatever an exchange waits for."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.layout import descriptor_path, encode_descriptor

IN_TIME_S = 20.0
SCOPE = {"tenant_id": "t", "namespace": "n"}


@pytest.fixture
def process(database: str, tmp_path: Path) -> Iterator[Any]:
    """`orchestrator serve --metrics-listen`; its first line is `process.bound`."""
    program = ProgramRef(id="hello", version="1")
    path = tmp_path / descriptor_path(program)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_descriptor(Descriptor(program=program, digest="sha256:" + "a" * 64, size=4321)))
    words = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--database-url", database]
    process = subprocess.Popen(
        [sys.executable, "-m", "protocol3.cli", "orchestrator", "serve", *words, "--store", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    process.bound = json.loads(process.stdout.readline())  # type: ignore[attr-defined]
    yield process
    process.kill()
    process.communicate()


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=IN_TIME_S) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def post(url: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as reply:
        return json.load(reply)


async def seen(url: str, text: str) -> None:
    async with asyncio.timeout(IN_TIME_S):
        while text not in (await asyncio.to_thread(ask, url))[1]:
            await asyncio.sleep(0.005)


async def ended(process: Any) -> int:
    return int(await asyncio.to_thread(process.wait, IN_TIME_S))


async def test_two_signals_while_an_exchange_waits_for_a_lock(process: Any, database: str) -> None:
    """HTTP-083, HTTP-092: metrics tell of the drain until the end; a lock that is never freed holds nobody up."""
    url, metrics = process.bound["url"], process.bound["metrics_url"]
    command = {**SCOPE, "queue": "q", "program": {"id": "hello", "version": "1"}, "data": None}
    task = await asyncio.to_thread(post, f"{url}/v1/tasks", {"idempotency_key": "k", "input": command})
    holder = await asyncpg.connect(database, server_settings={"search_path": "protocol3"})
    try:
        async with holder.transaction():
            await holder.execute("select from task where id = $1 for update", task["task_id"])
            body = json.dumps({"scope": SCOPE, "task_id": task["task_id"]}).encode()
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            with closing(writer):
                head = f"POST /v1/tasks/cancel HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
                writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
                blocked = "select count(*) from pg_locks where not granted"
                async with asyncio.timeout(IN_TIME_S):
                    while not await holder.fetchval(blocked):
                        await asyncio.sleep(0.005)
                process.send_signal(signal.SIGTERM)
                await seen(f"{url}/health/ready", "shutting_down")
                await seen(metrics, "requests_in_progress 1.0")
                assert process.poll() is None
                process.send_signal(signal.SIGTERM)
                assert await ended(process) == 0
                assert (await reader.read())[:12] in (b"", b"HTTP/1.1 503")
    finally:
        await holder.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_one_signal_is_enough_when_nothing_is_under_way(process: Any, number: int) -> None:
    """HTTP-083."""
    await seen(process.bound["metrics_url"], "requests_in_progress 0.0")
    process.send_signal(number)
    assert await ended(process) == 0
