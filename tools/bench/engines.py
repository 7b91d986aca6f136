"""An engine under measurement: a driver process that obeys, and the processes whose cost counts as the engine's."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from bench import peers
from bench.own import Own, own_system
from bench.processes import cpu_seconds, pss_mib
from protocol3.store.embedded import EmbeddedPostgres
from system import SystemFailure

OURS = "ours"
DRIVERS = Path(__file__).parent / "drivers"
START_S = 60
STOP_S = 20
#: Of one command; the longest is a fan-out on an engine that polls slowly.
COMMAND_S = 120


class Engine:
    """`processes` are process ids by what they are; children count with their parents."""

    def __init__(self, name: str, process: Process, processes: Mapping[str, int], log: Path) -> None:
        self.name, self.processes = name, processes
        self._process, self._log = process, log

    async def ask(self, do: str, **given: Any) -> dict[str, float]:
        """The driver's reply to one command. Raises SystemFailure when it ended instead."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **given}).encode() + b"\n")
        async with asyncio.timeout(COMMAND_S):
            return dict(await _reply(self.name, self._process, self._log))

    def cpu(self) -> dict[str, float]:
        """CPU seconds used until now."""
        return {name: cpu_seconds(pid) for name, pid in self.processes.items()}

    def memory(self) -> dict[str, float]:
        """MiB (PSS)."""
        return {name: pss_mib(pid) for name, pid in self.processes.items()}


@asynccontextmanager
async def running(name: str, folder: Path, slots: int) -> AsyncIterator[Engine]:
    """An engine with its database, driver and workers, until the block is left; `slots` are those of our worker."""
    async with AsyncExitStack() as stack:
        if name == OURS:
            _, engine = await stack.enter_async_context(ours(folder, slots))
        else:
            processes, given = dict[str, int](), peers.given(name, folder)
            if peers.PEERS[name].database:
                postgres = EmbeddedPostgres(folder / "data").start()
                stack.callback(postgres.stop)
                given |= {"dsn": postgres.dsn}
                processes = {"database": postgres.pid}
            driven = _driven(name, peers.python(name), given, processes, folder)
            engine = await stack.enter_async_context(driven)
        yield engine


@asynccontextmanager
async def ours(folder: Path, slots: int, *, counting: bool = False) -> AsyncIterator[tuple[Own, Engine]]:
    """Our system with its driver; `counting`: its database counts statements."""
    async with own_system(folder, slots=slots, counting=counting) as own:
        system, processes = own.system, {name: own.pids[name] for name in ("coordinator", "database")}
        given = {"url": system.url, "scope": own.scope, "queue": system.queue, "worker": own.pids["worker"]}
        async with _driven(OURS, Path(sys.executable), given, processes, folder) as engine:
            yield own, engine


@asynccontextmanager
async def _driven(
    name: str, python: Path, given: Mapping[str, Any], processes: Mapping[str, int], folder: Path
) -> AsyncIterator[Engine]:
    with (folder / "driver.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            python,
            DRIVERS / f"drive_{name}.py",
            json.dumps(given),
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(START_S):
            told = await _reply(name, process, folder / "driver.log")
        yield Engine(name, process, {**processes, **told["processes"]}, folder / "driver.log")
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_S)
        with suppress(ProcessLookupError):  # whatever it started and left, servers that stop slowly above all
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _reply(name: str, process: Process, log: Path) -> Any:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise SystemFailure(f"{name}: the driver ended: {log.read_text(errors='replace')[-2000:]}")
    return json.loads(line)
