"""Replies of the fakes in the suite's own tests, and behaviours that are honest."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from protocol3_conformance.wire.strict_json import decode, encode

Behaviour = Callable[[str, str, bytes, asyncio.StreamWriter], Awaitable[None]]
"""(method, target, body, writer): write what should come back, or do not."""

NUMBERS = itertools.count(1)


def reply(body: bytes, *, status: int = 200, headers: list[tuple[str, str]] | None = None) -> bytes:
    """A well-formed reply with a fresh Request-Id; `headers` replace the usual ones."""
    usual = [("Content-Type", "application/json"), ("Cache-Control", "no-store"), ("Request-Id", f"r{next(NUMBERS)}")]
    fields = usual if headers is None else headers
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields), f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def accepted_task(body: bytes) -> dict[str, Any]:
    """A conforming snapshot for a submission: what the readiness questions and the first scenarios ask for."""
    command = decode(body)
    sent, now = command["input"], now_ms()
    defaults = {"retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000}, "attempt_timeout_ms": 300_000}
    return {
        "task_id": f"task{next(NUMBERS)}",
        "run_id": "run1",
        "idempotency_key": command["idempotency_key"],
        "input": {**defaults, **sent},
        "descriptor": {"program": sent["program"], "digest": "sha256:" + "a" * 64, "size": 1},
        "origin_trace": None,
        "state": "queued",
        "submitted_at": now,
        "available_at": now,
        "terminal_at": None,
        "current_attempt_id": None,
        "attempt_count": 0,
        "cancel_requested_at": None,
    }


def accepted_session(body: bytes) -> dict[str, Any]:
    """A conforming worker session."""
    return {**decode(body), "id": f"session{next(NUMBERS)}", "expires_at": now_ms() + 60_000}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def obliging(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """Accepts every submission, cancels everything, knows nothing else."""
    if (method, target) == ("POST", "/v1/tasks"):
        writer.write(reply(encode(accepted_task(body))))
    elif target == "/v1/worker-sessions":
        writer.write(reply(encode(accepted_session(body))))
    elif target == "/v1/tasks/cancel":
        writer.write(reply(b'"cancelled"'))
    else:
        writer.write(reply(b'{"code":"not_found"}', status=404))


def status_of(target: str) -> dict[str, Any]:
    """A conforming status of whatever task the query names."""
    query, now = dict(parse_qsl(target.partition("?")[2])), now_ms()
    nothing = ("correlation_key", "current_attempt_id", "latest_attempt_id", "terminal_at", "cancel_requested_at")
    return {
        "scope": {"tenant_id": query["tenant_id"], "namespace": query["namespace"]},
        "task_id": query["task_id"],
        "run_id": "run1",
        "queue": "q",
        "state": "queued",
        "attempt_count": 0,
        "submitted_at": now,
        "available_at": now,
        **dict.fromkeys(nothing),
    }
