"""Our coordinator over HTTP: `drive_ours.py '{"url": ..., "scope": ..., "queue": ...}'`; the system runs already."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from typing import Any

import aiohttp
from driving import serve
from looks import Looks

TERMINAL = ("succeeded", "failed", "cancelled")
CONNECTIONS = 64


class Ours:
    def __init__(self, http: aiohttp.ClientSession, url: str, scope: dict[str, str], queue: str, worker: int) -> None:
        self.processes, self.pollers = {"worker": worker}, list[int]()
        self._http, self._url, self._scope, self._queue = http, url, scope, queue
        self._keys = itertools.count()
        self._looks: dict[str, Looks] = {}

    async def trivial(self) -> None:
        await self._run("trivial", {"do": "trivial"})

    async def steps(self, count: int) -> None:
        await self._run(f"steps {count}", {"do": "steps", "count": count})

    async def fan(self, width: int, kind: str) -> None:
        await self._run(f"{kind} {width}", {"do": kind, "width": width, "queue": self._queue})

    async def _run(self, kind: str, data: Any) -> None:
        program = {"id": "bench", "version": "1.0.0"}
        work = self._scope | {"queue": self._queue, "program": program, "data": data}
        key = f"{os.getpid()}:{next(self._keys)}"
        async with self._http.post(f"{self._url}/v1/workflows", json={"idempotency_key": key, "input": work}) as reply:
            reply.raise_for_status()
            query = self._scope | {"workflow_id": (await reply.json())["workflow_id"]}
        await self._looks.setdefault(kind, Looks()).until(lambda: self._ended(query))

    async def _ended(self, query: dict[str, str]) -> float | None:
        async with self._http.get(f"{self._url}/v1/workflows/status", params=query) as reply:
            status = await reply.json()
        if status["state"] not in TERMINAL:
            return None
        if status["state"] != "succeeded":
            raise RuntimeError(f"workflow {query['workflow_id']} {status['state']}")
        return float(status["terminal_at"] - status["submitted_at"]) / 1000


async def main(given: dict[str, Any]) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as http:
        await serve(Ours(http, **given))


asyncio.run(main(json.loads(sys.argv[1])))
