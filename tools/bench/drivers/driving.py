"""The measuring loop of every engine: one JSON command a line on stdin, one JSON reply a line on stdout.

Standard library only, because it runs in each engine's own environment. Times are of the submitter: from the call to
the result in its hands.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

#: Between the calls that look at an engine without load.
CALM_PAUSE_S = 0.02


class Driver(Protocol):
    """The same work on one engine. `pollers` are processes that ask all the time, stopped while others are measured."""

    processes: dict[str, int]
    pollers: list[int]

    async def trivial(self) -> None:
        """Start, one durable step, complete."""

    async def steps(self, count: int) -> None:
        """One workflow of so many durable steps, one after the other."""

    async def fan(self, width: int, kind: str) -> None:
        """One workflow with so many children side by side, joined; `kind` is `tasks` or `forks` where they differ."""


def quantiles(seconds: list[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {"p50_ms": statistics.median(ordered) * 1e3, "p99_ms": ordered[min(last, round(last * 0.99))] * 1e3}


async def rate(once: Callable[[], Awaitable[Any]], lanes: int, seconds: float) -> dict[str, float]:
    """Calls in so many lanes until the time is over; what had begun is finished and counted."""
    taken: list[float] = []
    began = time.perf_counter()

    async def lane() -> None:
        while (start := time.perf_counter()) < began + seconds:
            await once()
            taken.append(time.perf_counter() - start)

    await asyncio.gather(*(lane() for _ in range(lanes)))
    elapsed = time.perf_counter() - began
    return {"per_second": len(taken) / elapsed, "count": len(taken)} | quantiles(taken)


async def calm(once: Callable[[], Awaitable[Any]], count: int) -> dict[str, float]:
    """One call at a time with pauses."""
    taken: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        await once()
        taken.append(time.perf_counter() - start)
        await asyncio.sleep(CALM_PAUSE_S)
    return {"count": count} | quantiles(taken)


async def _obey(driver: Driver, do: str, **given: Any) -> dict[str, float]:
    match do:
        case "rate":
            return await rate(driver.trivial, given["lanes"], given["seconds"])
        case "calm":
            return await calm(driver.trivial, given["count"])
        case "steps" | "fan":
            began = time.perf_counter()
            await getattr(driver, do)(**given)
            return {"seconds": time.perf_counter() - began}
        case "pause" | "resume":
            for pid in driver.pollers:
                os.kill(pid, signal.SIGSTOP if do == "pause" else signal.SIGCONT)
            return {}
    raise ValueError(f"no such command: {do}")


async def serve(driver: Driver) -> None:
    """Obey until stdin ends. Whatever a library prints goes to stderr."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)

        def reply(value: Any) -> None:
            print(json.dumps(value), file=replies, flush=True)

        reply({"processes": {"client": os.getpid()} | driver.processes})
        while line := await asyncio.to_thread(sys.stdin.readline):
            reply(await _obey(driver, **json.loads(line)))
