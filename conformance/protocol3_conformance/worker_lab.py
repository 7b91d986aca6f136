"""What a scenario of the worker role works with: a scripted coordinator, a program store, workers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol3_conformance import publication
from protocol3_conformance.roles.coordinator import ACQUISITIONS, SCOPE, Attempt, Coordinator
from protocol3_conformance.runtime_lab import fresh_folder
from protocol3_conformance.target import Target
from protocol3_conformance.wire.effects import Effects
from protocol3_conformance.wire.pipes import Process
from protocol3_conformance.wire.strict_json import JsonValue
from protocol3_conformance.wire.transcript import Transcript

QUEUE = "main"


@dataclass(slots=True, kw_only=True)
class WorkerLab:
    """One scenario's view of the worker under test. Coordinator, store, caches and effect sink are its own."""

    target: Target
    check_id: str
    folder: Path
    transcript: Transcript
    coordinator: Coordinator
    effects: Effects = field(default_factory=Effects)
    _started: list[Process] = field(default_factory=list)
    _programs: int = 0
    _laboratory: dict[str, Any] | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, target: Target, check_id: str) -> AsyncIterator[WorkerLab]:
        """Raises Violation at the end for a request that broke a rule, whatever the scenario was about."""
        transcript, folder = Transcript(), fresh_folder()
        coordinator = Coordinator(transcript=transcript, seconds=target.patience.progress, queue=QUEUE)
        await coordinator.server.start()
        lab = cls(target=target, check_id=check_id, folder=folder, transcript=transcript, coordinator=coordinator)
        lab.store.mkdir()
        await lab.effects.start()
        try:
            yield lab
        finally:
            for process in lab._started:
                process.kill()
            lab._kill_programs()
            coordinator.server.stop()
            lab.effects.stop()
            shutil.rmtree(folder, ignore_errors=True)
        if coordinator.server.violations:
            raise coordinator.server.violations[0]

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def cache(self, number: int = 0) -> Path:
        return self.folder / f"cache-{number}"

    def mark(self, name: str) -> Path:
        """A file by which a handler tells that it has come to a place."""
        return self.folder / f"mark-{name}"

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Name the case of a table in the failure message."""
        try:
            yield
        except AssertionError as failure:
            failure.add_note(f"in the case: {name}")
            raise

    def worker(
        self, *, concurrency: int = 1, acquire_wait_ms: int = 20_000, cache: int = 0, store: str = ""
    ) -> Process:
        """Start a worker. `store` is another store than the folder."""
        command = self.target.worker
        assert command is not None
        values = {
            "server": self.coordinator.server.url,
            "tenant": SCOPE["tenant_id"],
            "namespace": SCOPE["namespace"],
            "queue": QUEUE,
            "store": store or str(self.store),
            "cache": str(self.cache(cache)),
            "concurrency": str(concurrency),
            "acquire_wait_ms": str(acquire_wait_ms),
        }
        process = Process(
            command.line(values),
            stderr=self.folder / f"stderr-{len(self._started)}",
            directory=self.folder,
            seconds=self.target.patience.progress,
        )
        self._started.append(process)
        return process

    def publish(self, source: str, *, protocol: int = 3, **manifest: Any) -> dict[str, Any]:
        """Publish a package of one module; its descriptor. `manifest` replaces members."""
        return publication.publish(self.store, source, {**self.manifest(protocol), **manifest})

    def publish_archive(self, content: bytes, program: Mapping[str, str]) -> dict[str, Any]:
        """Publish bytes that claim to be a package; their descriptor."""
        return publication.put(self.store, content, program)

    def manifest(self, protocol: int = 3) -> dict[str, Any]:
        """A valid manifest of a program that nothing else is called like."""
        assert self.target.worker is not None
        self._programs += 1
        return publication.manifest(self._programs, self.target.worker.python_version, protocol)

    def laboratory(self) -> dict[str, Any]:
        """The descriptor of the program that runs the code that is sent."""
        if self._laboratory is None:
            self._laboratory = self.publish(publication.laboratory())
        return self._laboratory

    def blob(self, descriptor: dict[str, Any]) -> Path:
        return self.store / "blobs" / f"{descriptor['digest'].removeprefix('sha256:')}.zip"

    async def task(self, code: str, data: JsonValue = None, **changes: Any) -> Attempt:
        """Assign an ordinary task that runs this code."""
        return await self.coordinator.assign(self.laboratory(), {"code": code, "data": data}, **changes)

    async def activation(self, code: str, **context: Any) -> Attempt:
        """Assign an activation that runs this code."""
        return await self.coordinator.activate(self.laboratory(), {"code": code}, **context)

    def sleeping(self, name: str, seconds: int = 60) -> str:
        """Code that leaves a mark with the pid of its process and sleeps."""
        path = str(self.mark(name))
        return f"import os, pathlib, time\npathlib.Path({path!r}).write_text(str(os.getpid()))\ntime.sleep({seconds})"

    async def reached(self, process: Process, name: str) -> int:
        """Wait for the mark; the pid in it."""
        mark = self.mark(name)
        await process.until(f"the handler at {name}", lambda: mark.is_file() and bool(mark.read_text()))
        return int(mark.read_text())

    async def stopped(self, process: Process, number: int = signal.SIGTERM) -> dict[str, Any]:
        """Signal the worker and wait for its end; the delivery that it printed."""
        process.signal(number)
        return await self.ended(process)

    async def ended(self, process: Process) -> dict[str, Any]:
        """The delivery of a worker that ends (WRK-093)."""
        line = await process.line()
        assert line, f"no line on standard output; {process.said()}"
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        assert isinstance(told, dict), f"not a delivery: {line[:120]!r}"
        members = {"session_id", "finished", "settled_attempts", "lost_attempts"}
        assert set(told) == {"delivery"}, f"not a delivery: {line!r}"
        assert members <= set(told["delivery"]), f"not a delivery: {line!r}"
        await process.ended()
        delivery: dict[str, Any] = told["delivery"]
        return delivery

    async def polling(self, count: int = 1) -> None:
        """The worker has asked for work."""
        await self.coordinator.until("an acquisition", lambda: len(self.coordinator.sent(ACQUISITIONS)) >= count)

    def _kill_programs(self) -> None:
        for mark in self.folder.glob("mark-*"):
            with suppress(OSError, ValueError):
                os.kill(int(mark.read_text()), signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return True


async def gone(pid: int, seconds: float) -> None:
    """Wait for the end of a process."""
    async with asyncio.timeout(seconds):
        while alive(pid):  # noqa: ASYNC110 - no child of the suite, so nobody tells
            await asyncio.sleep(0.01)
