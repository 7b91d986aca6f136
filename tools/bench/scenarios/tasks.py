"""Tasks at ten times the published platform's default load, through a real worker: do they keep up?

An open loop: submissions come at their rate whatever the system does. The backlog is what is submitted and not settled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.own import Own, own_system
from bench.scenarios import Figures, Metric, Options

ABOUT = "tasks at 580/s, ten times the published default load: settled, and the backlog"
PEERS = False
METRICS = {
    "submitted_per_second": Metric(unit="tasks/s", better="more"),
    "settled_per_second": Metric(unit="tasks/s", better="more"),
    "backlog_growth": Metric(unit="tasks/s in the second half", better="less"),
    "backlog": Metric(unit="tasks at the end", better="less"),
}
RATE = 580
UNDER_WAY = 64
UNSETTLED = "select count(*) from task where terminal_at is null"


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder, worker=True) as own:
        await _load(own, "warm", 1.0)
        for number in range(options.rounds):
            while await own.database.fetchval(UNSETTLED):
                await asyncio.sleep(0.05)
            yield await _load(own, f"round {number}", options.seconds)


async def _load(own: Own, name: str, seconds: float) -> Figures:
    limit = asyncio.Semaphore(UNDER_WAY)
    began, submitted, half = time.perf_counter(), 0, (0.0, 0)

    async def submit(number: int) -> None:
        async with limit:
            await own.submit("tasks", "echo", f"{name}:{number}", {"n": number})

    async with asyncio.TaskGroup() as group:
        while (elapsed := time.perf_counter() - began) < seconds:
            for number in range(submitted, round(elapsed * RATE)):
                group.create_task(submit(number))
                submitted = number + 1
            if half[0] == 0.0 and elapsed >= seconds / 2:
                half = elapsed, await own.database.fetchval(UNSETTLED)
            await asyncio.sleep(0.01)
    elapsed = time.perf_counter() - began
    backlog = await own.database.fetchval(UNSETTLED)
    return {
        "submitted_per_second": submitted / elapsed,
        "settled_per_second": (submitted - backlog) / elapsed,
        "backlog_growth": (backlog - half[1]) / (elapsed - half[0]),
        "backlog": backlog,
    }
