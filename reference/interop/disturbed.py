"""The coordinator with test controls: a process of these tests, to crash and start again; its fault rules."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import aiohttp

READY_SECONDS = 30
SEEN_SECONDS = 60  # what a test waits to see
URL = os.environ["PROTOCOL3_DISTURBED_URL"]


class Coordinator:
    """One process at one address over the database that the ordinary coordinator serves as well."""

    def __init__(self) -> None:
        self._command: list[str] = json.loads(os.environ["PROTOCOL3_DISTURBED_COMMAND"])
        self._log = Path(os.environ["PROTOCOL3_DISTURBED_LOG"])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_SECONDS
        while not _is_ready():
            assert self._process.poll() is None, f"the coordinator ended; see {self._log}"
            assert time.monotonic() < deadline, f"the coordinator was not ready in time; see {self._log}"
            time.sleep(0.02)

    def ended(self) -> int:
        """Wait until it is gone; its exit code."""
        assert self._process is not None
        return self._process.wait(READY_SECONDS)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _is_ready() -> bool:
    try:
        with urllib.request.urlopen(f"{URL}/health/ready", timeout=5) as reply:  # noqa: S310  # our own http address
            return int(reply.status) == 200
    except OSError:  # refused, or 503 (an HTTPError is one)
        return False


class Faults:
    """Fault rules of one scope of the disturbed coordinator (spec/35-testing-profiles.md)."""

    def __init__(self, session: aiohttp.ClientSession, scope: dict[str, str]) -> None:
        self._session = session
        self._scope = scope

    async def add(
        self, route: str, where: str, act: str, *, times: int | None = 1, skip: int = 0, **details: Any
    ) -> str:
        """A rule for `METHOD /path`, or for a step; its id."""
        method, _, path = route.partition(" ")
        match = {"method": method, "path": path} if path else {"step": route}
        rule = {"match": match, "where": where, "act": {"kind": act, **details}, "times": times, "skip": skip}
        told = await self._command("", rule)
        return str(told["id"])

    async def hits(self) -> int:
        """How many occasions were struck by the rules of the scope."""
        return sum(rule["hits"] for rule in (await self._look())["faults"])

    async def until_held(self, count: int = 1) -> None:
        async with asyncio.timeout(SEEN_SECONDS):
            while len((await self._look())["held"]) < count:
                await asyncio.sleep(0.01)

    async def until_hit(self, count: int = 1) -> None:
        async with asyncio.timeout(SEEN_SECONDS):
            while await self.hits() < count:
                await asyncio.sleep(0.01)

    async def release(self) -> None:
        await self._command("/release", {})

    async def clear(self) -> None:
        await self._command("/clear", {})

    async def advance(self, milliseconds: int) -> None:
        """Let the scope's time go on; leases run out."""
        await self._post("/testing/v1/clock", {"scope": self._scope, "advance_ms": milliseconds})

    async def claim(self, queue: str) -> None:
        """Take the next work of a queue as a worker would that is never heard of again."""
        place = {"scope": self._scope, "queue": queue}
        session = await self._post("/v1/worker-sessions", place | {"concurrency": 1})
        poll = place | {"worker_session_id": session["id"], "consumer_id": 0, "sequence": 1}
        assert (await self._post("/v1/acquisitions", poll))["assignment"]

    async def _look(self) -> Any:
        async with self._session.get(f"{URL}/testing/v1/faults", params=self._scope) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json()

    async def _command(self, below: str, body: dict[str, Any]) -> Any:
        return await self._post(f"/testing/v1/faults{below}", {"scope": self._scope, **body})

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        async with self._session.post(URL + path, json=body) as reply:
            assert reply.status == 200, await reply.text()
            return await reply.json()
