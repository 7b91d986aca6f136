"""Fakes for the suite's own tests: targets that answer just enough, and then misbehave."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import protocol3_conformance
import protocol3_spec
from protocol3_conformance.wire.strict_json import decode, encode

Behaviour = Callable[[str, str, bytes, asyncio.StreamWriter], Awaitable[None]]
"""(method, target, body, writer): write what should come back, or do not."""

NUMBERS = itertools.count(1)
TIME = 1_740_000_000_000


def reply(body: bytes, *, status: int = 200, headers: list[tuple[str, str]] | None = None) -> bytes:
    """A well-formed reply with a fresh Request-Id; `headers` replace the usual ones."""
    usual = [("Content-Type", "application/json"), ("Cache-Control", "no-store"), ("Request-Id", f"r{next(NUMBERS)}")]
    fields = usual if headers is None else headers
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields), f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def accepted_task(body: bytes) -> dict[str, Any]:
    """A conforming snapshot for a submission: what the preflight and the first scenarios ask for."""
    command = decode(body)
    sent = command["input"]
    defaults = {"retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000}, "attempt_timeout_ms": 300_000}
    return {
        "task_id": f"task{next(NUMBERS)}",
        "run_id": "run1",
        "idempotency_key": command["idempotency_key"],
        "input": {**defaults, **sent},
        "descriptor": {"program": sent["program"], "digest": "sha256:" + "a" * 64, "size": 1},
        "origin_trace": None,
        "state": "queued",
        "submitted_at": TIME,
        "available_at": TIME,
        "terminal_at": None,
        "current_attempt_id": None,
        "attempt_count": 0,
        "cancel_requested_at": None,
    }


async def obliging(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """Accepts every submission, cancels everything, knows nothing else."""
    if (method, target) == ("POST", "/v1/tasks"):
        writer.write(reply(encode(accepted_task(body))))
    elif target == "/v1/tasks/cancel":
        writer.write(reply(b'"cancelled"'))
    else:
        writer.write(reply(b'{"code":"not_found"}', status=404))


async def _serve(behave: Behaviour, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while line := await reader.readline():
            method, target, _ = line.decode().split()
            length = 0
            while (field := await reader.readline()) != b"\r\n":
                name, _, value = field.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            await behave(method, target, await reader.readexactly(length), writer)
            await writer.drain()
            if writer.is_closing():
                break
    writer.close()


@pytest.fixture(autouse=True)
def importable_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes in other folders find the packages that this process uses, and load no other plugin."""
    roots = [Path(str(module.__file__)).parents[1] for module in (protocol3_conformance, protocol3_spec)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, roots)))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def fake() -> Iterator[Callable[[Behaviour], str]]:
    """Start a fake in a thread of its own: fake(behaviour) -> URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start(behave: Behaviour) -> str:
        server = await asyncio.start_server(lambda reader, writer: _serve(behave, reader, writer), "127.0.0.1", 0)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield lambda behave: asyncio.run_coroutine_threadsafe(start(behave), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


@pytest.fixture
def obliging_target(fake: Callable[[Behaviour], str]) -> str:
    """A fake that passes the preflight."""
    return fake(obliging)


@pytest.fixture
def answers() -> Behaviour:
    """The behaviour of a fake that passes the preflight."""
    return obliging
