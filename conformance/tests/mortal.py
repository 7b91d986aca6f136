"""A target of its own process, which the suite's tests kill and start: `python mortal.py PORT FOLDER FAULT`.

It keeps tasks by their key in FOLDER/tasks, and its pid in FOLDER/pid. FAULT is what it gets wrong: `nothing`, or see
the names below.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import fakes
from fakes import accepted_task, obliging, reply, status_of

from protocol3_conformance.wire.strict_json import decode, encode

AT_RESTART, AT_DROP, AT_ONCE = "forgets-at-restart", "forgets-at-drop", "takes-two-at-once"


class Target:
    def __init__(self, folder: Path, fault: str) -> None:
        self.file, self.fault = folder / "tasks", fault
        self.tasks: dict[str, Any] = json.loads(self.file.read_text()) if self.file.exists() else {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The latest key of a connection is what `forgets-at-drop` forgets with it."""
        latest = ""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                method, target, _ = line.decode().split()
                head = [field async for field in _fields(reader)]
                length = next((int(value) for name, value in head if name == "content-length"), 0)
                body = await reader.readexactly(length)
                latest = decode(body)["idempotency_key"] if target == "/v1/tasks" else ""
                await self.answer(method, target, body, writer)
                await writer.drain()
        if latest and self.fault == AT_DROP:
            self.tasks.pop(latest, None)
        writer.close()

    async def answer(self, method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if target == "/health/ready":
            writer.write(reply(b'{"status":"ok","reasons":[],"recovery_last_success_age_ms":null}'))
        elif target == "/v1/tasks":
            writer.write(reply(encode(await self.submit(body))))
        elif target.startswith("/v1/tasks/status"):
            writer.write(reply(encode(self.status(target))))
        else:
            await obliging(method, target, body, writer)

    def status(self, target: str) -> Any:
        shown = status_of(target)
        kept = next((task for task in self.tasks.values() if task["task_id"] == shown["task_id"]), shown)
        return shown | {name: kept[name] for name in ("submitted_at", "available_at")}

    async def submit(self, body: bytes) -> Any:
        key = decode(body)["idempotency_key"]
        known = self.tasks.get(key)
        if self.fault == AT_ONCE:
            await asyncio.sleep(0.1)  # the moment between looking and writing
        if known is None:
            known = self.tasks[key] = {**accepted_task(body), "task_id": f"task-{os.urandom(4).hex()}"}
        if self.fault != AT_RESTART:
            self.file.write_text(json.dumps(self.tasks))
        return known


async def _fields(reader: asyncio.StreamReader) -> Any:
    while (line := await reader.readline()) != b"\r\n":
        name, _, value = line.decode().partition(":")
        yield name.lower(), value.strip()


async def main(port: str, folder: str, fault: str) -> None:
    fakes.NUMBERS = itertools.count(os.getpid() * 1000)  # no Request-Id comes again after a restart (HTTP-062)
    (Path(folder) / "pid").write_text(str(os.getpid()))
    server = await asyncio.start_server(Target(Path(folder), fault).serve, "127.0.0.1", int(port))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
