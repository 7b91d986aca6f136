"""Coordinators on one database that are started again whenever they die, and a client that never gives a command up."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from system import System

#: Between looks at the processes, and before a command without a definite answer is sent again.
PAUSE_S = 0.03
REQUEST_S = 35


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A definite one. `sent`: how often the command was sent, byte for byte the same."""

    status: int
    document: Any
    sent: int


class Lane:
    """`counts` has commands, replays and kills; `faults` what processes did that nobody asked for."""

    def __init__(self, system: System, coordinators: int) -> None:
        self.system = system
        self.names = [f"coordinator-{n}" for n in range(coordinators)]
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._http: aiohttp.ClientSession
        self._turn = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Everything up until the block is left."""
        await asyncio.gather(*map(self._start, self.names))
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S)) as self._http:
            keepers = [asyncio.create_task(self._keep(name)) for name in self.names]
            try:
                yield
            finally:
                for keeper in keepers:
                    keeper.cancel()
                await asyncio.gather(*keepers, return_exceptions=True)

    async def send(self, path: str, body: bytes, *, at: str | None = None) -> Answer:
        """Send a command to one coordinator after the other, or only to `at`, until there is a definite answer."""
        return await self._persist("POST", path, at, data=body, headers={"Content-Type": "application/json"})

    async def read(self, path: str, query: dict[str, str], *, at: str | None = None) -> Answer:
        return await self._persist("GET", path, at, params=query)

    async def _persist(self, method: str, path: str, at: str | None, **request: Any) -> Answer:
        """No reply and 503 are no definite answers (HTTP-068)."""
        sent = 0
        while True:
            sent += 1
            try:
                async with self._http.request(method, self._url(at) + path, **request) as reply:
                    status, text = reply.status, await reply.read()
            except (aiohttp.ClientError, TimeoutError, OSError):
                status, text = 0, b""
            if status not in (0, 503):
                return Answer(status=status, document=json.loads(text), sent=sent)
            await asyncio.sleep(PAUSE_S)

    def _url(self, name: str | None) -> str:
        self._turn += 1
        return self.system.urls[name or self.names[self._turn % len(self.names)]]

    async def _start(self, name: str) -> None:
        await asyncio.to_thread(self.system.start_coordinator, "--test-controls", "--log-level", "error", name=name)

    async def _keep(self, name: str) -> None:
        while True:
            code = self.system.ended(name)
            if code is not None:
                self.counts["killed"] += 1
                if code != -signal.SIGKILL:
                    self.faults.append(f"{name} ended with exit code {code}; see {self.system.log(name)}")
                await self._start(name)
                self.counts["restarts"] += 1
            await asyncio.sleep(PAUSE_S)
