"""One scope with its folder, its workers and its fault rules: where one story of recovery is played."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from protocol3.programs.manifest import host_platform
from protocol3.programs.publish import publish_directory

PATIENCE_S = 60.0
"""A hang is a failure; nothing waits this long in a passing run."""
HERE = Path(__file__).resolve().parent
PROGRAM = {"id": "effects", "version": "1"}
#: Past the longest lease that nobody renews any more, and past the delay of any retry.
PAST_LEASES_MS = 70_000
EXPECTED = ["first", "left", "right", "last"]
PACING = {"retry_delay_ms": 20, "idle_delay_ms": 20, "request_timeout_ms": 10_000}

_numbers = itertools.count(1)


def publish(folder: Path) -> Path:
    """A store that holds the program."""
    source, platform = folder / "effects", host_platform()
    source.mkdir(parents=True)
    manifest = {
        "schema_version": 1,
        "program": PROGRAM,
        "runtime": {"kind": "python", "python": "{}.{}".format(*sys.version_info), "protocol": 3},
        "handler": "program:handle",
        "platform": {"os": platform.os, "arch": platform.arch},
    }
    (source / "ledgence-program.json").write_text(json.dumps(manifest))
    (source / "program.py").write_text((HERE / "effects.py").read_text())
    publish_directory(source, folder / "store")
    return folder / "store"


class Site:
    """Made by :func:`site`. Names of routes and gates are those of the contract and of `effects.py`."""

    def __init__(self, url: str, store: Path, folder: Path, http: aiohttp.ClientSession) -> None:
        self.url, self.store, self.folder = url, store, folder
        self.scope = {"tenant_id": "t", "namespace": f"recovery-{os.getpid()}-{next(_numbers)}"}
        self._http = http
        self._workers: list[subprocess.Popen[bytes]] = []

    async def post(self, path: str, **body: Any) -> Any:
        async with self._http.post(self.url + path, json=body) as reply:
            document = await reply.json()
            assert reply.status == 200, (path, document)
            return document

    async def get(self, path: str, **names: Any) -> Any:
        async with self._http.get(self.url + path, params=self.scope | names) as reply:
            document = await reply.json()
            assert reply.status == 200, (path, document)
            return document

    async def submit(self, key: str) -> str:
        """A workflow of the program; its identifier."""
        self.gate_folder(key)
        given = {**self.scope, "queue": "main", "program": PROGRAM, "data": str(self.gate_folder(key))}
        given |= {"correlation_key": key, "retry_policy": {"max_attempts": 3, "retry_delay_ms": 0}}
        workflow = await self.post("/v1/workflows", idempotency_key=key, input=given)
        return str(workflow["workflow_id"])

    async def outcome(self, workflow_id: str) -> Any:
        """How the workflow ended, once it has; attempts that nobody runs any more are none of ours."""
        query = {"workflow_id": workflow_id}
        await self.until(lambda: self.get("/v1/workflows/status", **query), lambda found: found["state"] in ENDED)
        return (await self.get("/v1/workflows/result", **query))["outcome"]

    async def attempts(self, key: str) -> Counter[int]:
        """How many activations took how many attempts."""
        tasks = await self.get("/v1/tasks", correlation_key=key, limit=100)
        return Counter(task["attempt_count"] for task in tasks["items"])

    async def rule(self, path: str, where: str, act: dict[str, Any], **more: Any) -> str:
        match = {"method": "POST", "path": path}
        told = await self.post("/testing/v1/faults", scope=self.scope, match=match, where=where, act=act, **more)
        return str(told["id"])

    async def struck(self, rule: str, times: int = 1) -> None:
        await self.until(
            self.faults, lambda found: any(r["id"] == rule and r["hits"] >= times for r in found["faults"])
        )

    async def held(self) -> None:
        await self.until(self.faults, lambda found: found["held"])

    async def faults(self) -> Any:
        return await self.get("/testing/v1/faults")

    async def clear(self) -> None:
        await self.post("/testing/v1/faults/clear", scope=self.scope)

    async def pass_leases(self) -> None:
        await self.post("/testing/v1/clock", scope=self.scope, advance_ms=PAST_LEASES_MS, leases="expire")

    async def until(self, look: Callable[[], Any], enough: Callable[[Any], Any]) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            while not enough(found := await look()):
                assert not any(worker.poll() for worker in self._workers), "a worker ended by itself: see its lines"
                await asyncio.sleep(0.01)
        return found

    def gate_folder(self, key: str) -> Path:
        (self.folder / key).mkdir(exist_ok=True)
        return self.folder / key

    def effects(self, key: str) -> Counter[str]:
        ledger = self.gate_folder(key) / "ledger"
        return Counter(ledger.read_text().split() if ledger.exists() else [])

    def start_worker(
        self, *, at: str | None = None, key: str = "", waits_at_import: bool = False, **pacing: int
    ) -> subprocess.Popen[bytes]:
        """A worker with one slot and a cache of its own; `key` is the workflow whose gates stop it."""
        number = len(self._workers)
        settings = {
            "server": at or self.url, "scope": self.scope, "queue": "main", "store": str(self.store),
            "cache": str(self.folder / f"cache-{number}"), "concurrency": 1,
        }  # fmt: skip
        gates = str(self.gate_folder(key) if key else self.folder)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(self.folder)}
        environment |= {"RECOVERY_IMPORT": gates} if waits_at_import else {}
        worker = subprocess.Popen(
            [sys.executable, str(HERE / "impatient_worker.py")], stdin=subprocess.PIPE, env=environment
        )
        self._workers.append(worker)
        assert worker.stdin is not None
        with worker.stdin:
            given = {"settings": settings, "pacing": PACING | pacing, "folder": gates}
            worker.stdin.write(json.dumps(given).encode())
        return worker

    async def ended(self, worker: subprocess.Popen[bytes]) -> int:
        """The exit code of a worker that ends by itself."""
        self._workers.remove(worker)
        try:
            return await asyncio.to_thread(worker.wait, PATIENCE_S)
        finally:
            worker.kill()

    async def kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.kill()
        await asyncio.to_thread(worker.wait)
        self._workers.remove(worker)

    async def close(self) -> None:
        await self.clear()
        for worker in list(self._workers):
            await self.kill(worker)


ENDED = frozenset({"succeeded", "failed", "cancelled"})


@asynccontextmanager
async def site(url: str, store: Path, folder: Path) -> AsyncIterator[Site]:
    """A scope of its own on the coordinator at `url`, which has test controls."""
    async with aiohttp.ClientSession() as http:
        made = Site(url, store, folder, http)
        try:
            yield made
        finally:
            await made.close()
