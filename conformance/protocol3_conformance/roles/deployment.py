"""A real worker beside the service under test: started by its command, on a queue and in a scope of the scenario."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol3_conformance import publication
from protocol3_conformance.runtime_lab import fresh_folder
from protocol3_conformance.wire.effects import Effects
from protocol3_conformance.wire.pipes import Process

if TYPE_CHECKING:
    from protocol3_conformance.lab import Lab


@dataclass(slots=True, kw_only=True)
class Deployment:
    """Workers, their folder, and a sink that counts effects; all of it ends with the block."""

    lab: Lab
    folder: Path
    effects: Effects = field(default_factory=Effects)
    _started: list[Process] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def open(cls, lab: Lab) -> AsyncIterator[Deployment]:
        deployment = cls(lab=lab, folder=fresh_folder())
        await deployment.effects.start()
        try:
            yield deployment
        finally:
            for process in deployment._started:
                process.kill()
            deployment.kill_programs()
            deployment.effects.stop()
            shutil.rmtree(deployment.folder, ignore_errors=True)

    def worker(self, concurrency: int) -> Process:
        """Start one more worker, with a cache of its own."""
        target, number = self.lab.target, len(self._started)
        assert target.worker is not None
        values = {
            "server": target.endpoint.url,
            "tenant": self.lab.scope["tenant_id"],
            "namespace": self.lab.scope["namespace"],
            "queue": self.lab.queue,
            "store": str(target.store),
            "cache": str(self.folder / f"cache-{number}"),
            "concurrency": str(concurrency),
            "acquire_wait_ms": "2000",
        }
        process = Process(
            target.worker.line(values),
            stderr=self.folder / f"stderr-{number}",
            directory=self.folder,
            seconds=target.patience.progress,
        )
        self._started.append(process)
        return process

    async def workflow(self, code: str) -> str:
        """Submit a workflow whose handler is this code; its ID. The program is published under a name of this run."""
        target = self.lab.target
        assert target.worker is not None
        assert target.store is not None
        program = {"id": f"laboratory-{target.run}", "version": "1.0.0"}
        manifest = {**publication.manifest(0, target.worker.python_version), "program": program}
        publication.publish(target.store, publication.laboratory(), manifest)
        accepted: dict[str, Any] = await self.lab.client.workflow(program=program, data={"code": code})
        return str(accepted["workflow_id"])

    def mark(self, name: str) -> Path:
        """A file in which a handler leaves the pid of its process when it has come to a place."""
        return self.folder / f"mark-{name}"

    async def reached(self, process: Process, name: str) -> None:
        mark = self.mark(name)
        await process.until(f"the handler at {name}", lambda: mark.is_file() and bool(mark.read_text()))

    def kill_programs(self) -> None:
        """Kill every process that has left a mark; what its worker leaves behind must not act later."""
        for mark in self.folder.glob("mark-*"):
            with suppress(OSError, ValueError):
                os.kill(int(mark.read_text()), signal.SIGKILL)
